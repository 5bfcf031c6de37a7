"""Reads a transcript without what was taken back (``rewinds``), and finds where a fork at a message ends."""

import re
from collections.abc import Iterable, Iterator

from acp_proxy.protocol import acp, framing
from acp_proxy.transcript import file_format
from acp_proxy.transcript.reader import AlikeLines, Line, Reading
from acp_proxy.transcript.rewinds import Messages, Point, Rewinds

_PLAIN_ID = re.compile(r"[\w.:-]+", re.ASCII)
"""An id that every encoder writes in the same bytes."""


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
    rewinds, offset = Rewinds(), reading.entries_start
    for line in reading.read_alike():
        if isinstance(line, AlikeLines):
            rewinds.add_chunks(line.end)
        elif line.entry is not None:
            rewinds.add(line.number, offset, line.end, line.entry)
        offset = line.end
    return rewinds


def find_fork_end(reading: Reading, point: Point) -> int | None:
    """The offset at which a fork of this transcript ends, if it is made at a point; None if the point is not in it.

    Only lines that may be about the message are parsed, since a conversation may be waiting. Raises OSError.
    """
    messages, ids = Messages(), (point.message, point.message.partition(":segment:")[0])
    marks = [acp.PROMPT.encode(), *(id.encode() for id in ids)] if all(map(_PLAIN_ID.fullmatch, ids)) else [b""]
    number, offset = 0, reading.header_size
    for lines in _read_blocks(reading):
        if messages.may_move(point) or any(lines.rfind(mark) >= 0 for mark in marks):  # faster than ``in``
            for line in framing.split_lines(lines):
                for piece in file_format.find_entries(line):
                    messages.add(number, offset, offset + len(line), piece.value)
                number, offset = number + 1, offset + len(line)
        else:
            number, offset = number + lines.count(b"\n"), offset + len(lines)
    return messages.find_offset(point)


def _read_blocks(reading: Reading) -> Iterator[bytes]:
    """The transcript after its header, in whole lines, many at a time."""
    parts: list[bytes] = []
    for data in reading.read_bytes(reading.header_size):
        if end := data.rfind(b"\n") + 1:
            yield b"".join((*parts, data[:end]))
            parts = []
        parts.append(data[end:])
    if last_line := b"".join(parts):
        yield last_line
