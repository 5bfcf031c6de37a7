"""The lines of a transcript as they are in its file, for commands."""

import time
from collections.abc import Iterator

from acp_proxy.transcript.reader import TranscriptReader, split_file

_WRITING_SECONDS = 1.0
"""How long a write may take, far longer than one does: after that, a line without its newline stays torn."""


def wait_for_last_line(reader: TranscriptReader) -> None:
    """If the last line has no newline yet, wait up to a second for it; one that stays incomplete counts as torn."""
    deadline = time.monotonic() + _WRITING_SECONDS
    while reader.compressed is None and reader.size and reader.read_at(1, reader.size - 1) != b"\n":
        if reader.measure_age(time.time()) > _WRITING_SECONDS or time.monotonic() > deadline:
            return
        time.sleep(_WRITING_SECONDS / 20)
        reader.measure()


def read_raw_lines(reader: TranscriptReader) -> Iterator[tuple[int, int, bytes]]:
    """Lines as they are in the file: number, offset, bytes. The first line comes without its header."""
    for number, (end, line) in enumerate(split_file(reader.read_at, 0, reader.size)):
        content = line if number else line[reader.header_size :]
        yield number, end - len(content), content
