"""Helpers to append to a transcript and read it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from acp_proxy.protocol import acp
from acp_proxy.transcript import file_format
from acp_proxy.transcript.appender import TranscriptAppender
from acp_proxy.transcript.reader import Line, TranscriptReader
from tests.store import transcript_lines

HEADER = file_format.encode_header(transcript_lines.header())


@contextmanager
def open_to_read(path: Path) -> Iterator[TranscriptReader]:
    """A transcript, closed afterwards."""
    opened = TranscriptReader(path)
    try:
        yield opened
    finally:
        opened.close()


def read_lines(path: Path) -> list[Line]:
    """All lines of a transcript."""
    with open_to_read(path) as opened:
        return list(opened.read_lines())


def read_texts(path: Path) -> list[str | None]:
    """The texts of the agent's chunks and the types of notes; None for an unreadable line."""
    return [text_of(line) for line in read_lines(path)]


def text_of(line: Line) -> str | None:
    """The text of a chunk, or the type of a note; None if the line cannot be read."""
    if line.entry is None:
        return None
    if line.entry.note is not None:
        return str(line.entry.note["type"])
    update = acp.member(acp.member(line.entry.value, "params"), "update")
    return acp.text(acp.member(update, "content"), "text")


def append_lines(path: Path, *lines: bytes) -> None:
    """Append lines to a transcript, one by one."""
    transcript = TranscriptAppender(path)
    for line in lines:
        transcript.append(line)
    transcript.close()
