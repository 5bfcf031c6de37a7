"""Reads a transcript without what was taken back (``rewinds``), and finds where a fork at a message ends."""

from collections.abc import Iterable, Iterator

from acp_proxy.transcript.reader import AlikeLines, Line, TranscriptReader
from acp_proxy.transcript.rewinds import Messages, Point, Rewinds


def drop_rewound(
    reader: TranscriptReader, lines: Iterable[Line | AlikeLines] | None = None
) -> Iterator[Line | AlikeLines]:
    """The lines of a transcript without what was taken back. ``lines``: some of them; None: all. Raises OSError."""
    rewinds = _read_rewinds(reader) if reader.may_be_rewound else None
    selected = reader.read_alike() if lines is None else lines
    if rewinds is None or not rewinds.has_any:
        yield from selected
        return
    for line in selected:
        if not rewinds.has_taken_back(line.end, line.entry if isinstance(line, Line) else None):
            yield line


def _read_rewinds(reader: TranscriptReader) -> Rewinds:
    rewinds = Rewinds()
    _add_lines(reader, rewinds)
    return rewinds


def find_fork_end(reader: TranscriptReader, point: Point) -> int | None:
    """The offset at which a fork of this transcript ends, if it is made at a point; None if the point is not in it.
    Raises OSError."""
    messages = Messages()
    _add_lines(reader, messages)
    return messages.find_offset(point)


def _add_lines(reader: TranscriptReader, model: Rewinds | Messages) -> None:
    """Add all entries to ``model``. Raises OSError."""
    start = end = reader.entries_start
    for line in reader.read_alike():
        if line.end != end:  # a damaged line may have several entries
            start, end = end, line.end
        if isinstance(line, AlikeLines):
            model.add_chunks(line.end)
        elif line.entry is not None:
            model.add(line.number, start, line.end, line.entry)
