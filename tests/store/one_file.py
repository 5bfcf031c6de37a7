"""Helpers to append to a transcript and read it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from acp_proxy.protocol import acp
from acp_proxy.transcript import file_format
from acp_proxy.transcript.appender import Transcript
from acp_proxy.transcript.reader import Line, Reading
from tests.store import transcript_lines

HEADER = file_format.encode_header(transcript_lines.header())


@contextmanager
def reading(path: Path) -> Iterator[Reading]:
    opened = Reading(path)
    try:
        yield opened
    finally:
        opened.close()


def lines_of(path: Path) -> list[Line]:
    with reading(path) as opened:
        return list(opened.read_lines())


def texts_in(path: Path) -> list[str | None]:
    """The texts of the agent's chunks and the types of notes; None for an unreadable line."""
    return [text_of(line) for line in lines_of(path)]


def text_of(line: Line) -> str | None:
    if line.entry is None:
        return None
    if line.entry.note is not None:
        return str(line.entry.note["type"])
    update = acp.member(acp.member(line.entry.value, "params"), "update")
    return acp.text(acp.member(update, "content"), "text")


def append(path: Path, *lines: bytes) -> None:
    transcript = Transcript(path)
    for line in lines:
        transcript.append(line)
    transcript.close()
