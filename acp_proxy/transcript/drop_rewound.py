"""Reads a transcript without what was taken back (``rewinds``), and finds where a fork at a message ends."""

from collections.abc import Iterable, Iterator

from acp_proxy.transcript.reader import AlikeLines, Line, Reading
from acp_proxy.transcript.rewinds import Messages, Point, Rewinds


def drop_rewound(reading: Reading, lines: Iterable[Line | AlikeLines] | None = None) -> Iterator[Line | AlikeLines]:
    """The lines of a transcript without what was taken back. ``lines``: some of them; None: all. Raises OSError."""
    rewinds = _read_rewinds(reading) if reading.may_be_rewound else None
    selected = reading.read_alike() if lines is None else lines
    if rewinds is None or not rewinds.has_any:
        yield from selected
        return
    for line in selected:
        if not rewinds.has_taken_back(line.end, line.entry if isinstance(line, Line) else None):
            yield line


def _read_rewinds(reading: Reading) -> Rewinds:
    rewinds = Rewinds()
    _add_lines(reading, rewinds)
    return rewinds


def find_fork_end(reading: Reading, point: Point) -> int | None:
    """The offset at which a fork of this transcript ends, if it is made at a point; None if the point is not in it.
    Raises OSError."""
    messages = Messages()
    _add_lines(reading, messages)
    return messages.find_offset(point)


def _add_lines(reading: Reading, model: Rewinds | Messages) -> None:
    """Add all entries to ``model``. Raises OSError."""
    start = end = reading.entries_start
    for line in reading.read_alike():
        if line.end != end:  # a damaged line may have several entries
            start, end = end, line.end
        if isinstance(line, AlikeLines):
            model.add_chunks(line.end)
        elif line.entry is not None:
            model.add(line.number, start, line.end, line.entry)
