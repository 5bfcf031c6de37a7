"""Transcripts that are worth compressing, and helpers that compress and read them."""

import os
from pathlib import Path

from acp_proxy.store.compress import CompressionOptions, CompressionResult
from acp_proxy.transcript.file_names import compressed_path, file_name
from acp_proxy.transcript.reader import Reading
from tests.store import talk
from tests.stored import Both

AGENT = "agent"
AT_ONCE = CompressionOptions(min_size=1, older_than=0.0)


def kept(store: Both, session: str = talk.SESSION, chunks: int = 2000, text: str = "word") -> Path:
    """Record a session with one turn of so many chunks, and index it. Its path."""
    lines = [talk.prompt("hello", session=session)]
    lines += [talk.said(f" {text}{number}", session=session) for number in range(chunks)]
    talk.keep(store, AGENT, session, *lines, talk.answer())
    store.list_all()
    return path(store, session)


def path(store: Both, session: str = talk.SESSION) -> Path:
    return store.root / "transcripts" / AGENT / f"{file_name(session)}.jsonl"


def compress(
    store: Both, session: str = talk.SESSION, options: CompressionOptions = AT_ONCE
) -> CompressionResult | None:
    return store.compress(AGENT, file_name(session), options)


def compressed_now(store: Both, session: str = talk.SESSION) -> Path:
    """Compress a session's transcript; the path of the compressed file."""
    assert compress(store, session) is not None
    assert not path(store, session).exists()
    return compressed_path(path(store, session))


def content(at: Path) -> bytes:
    """The transcript's bytes as readers get them, compressed or not."""
    reading = Reading(at)
    try:
        return reading.first[: reading.header_size] + b"".join(line for _, _, line in reading.read_raw_lines())
    finally:
        reading.close()


def age(at: Path, days: float) -> None:
    found = os.stat(at)
    os.utime(at, (found.st_atime, found.st_mtime - days * 24 * 60 * 60))
