"""Transcripts that are worth compressing, and helpers that compress and read them."""

import os
import sys
from pathlib import Path

from acp_proxy.sessions.raw_lines import read_raw_lines
from acp_proxy.store.compress import CompressionOptions, CompressionResult
from acp_proxy.transcript.compressed import PIECE
from acp_proxy.transcript.file_names import compressed_path, file_name
from acp_proxy.transcript.reader import TranscriptReader
from tests.store import transcript_lines
from tests.stored import WholeStore

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

AGENT = "agent"
AT_ONCE = CompressionOptions(min_size=1, older_than=0.0)


def store_compressible(
    store: WholeStore, session: str = transcript_lines.SESSION, chunks: int = 2000, text: str = "word"
) -> Path:
    """Record a session with one turn of so many chunks, and index it. Its path."""
    lines = [transcript_lines.prompt_line("hello", session=session)]
    lines += [transcript_lines.agent_chunk(f" {text}{number}", session=session) for number in range(chunks)]
    transcript_lines.store_lines(store, AGENT, session, *lines, transcript_lines.answer())
    store.list_all()
    return find_path(store, session)


def find_path(store: WholeStore, session: str = transcript_lines.SESSION) -> Path:
    """A session's path before it is compressed."""
    return store.root / "transcripts" / AGENT / f"{file_name(session)}.jsonl"


def compress(
    store: WholeStore, session: str = transcript_lines.SESSION, options: CompressionOptions = AT_ONCE
) -> CompressionResult | None:
    """Compress a session's transcript; None if it stays as it is."""
    return store.compress(AGENT, file_name(session), options)


def compress_now(store: WholeStore, session: str = transcript_lines.SESSION) -> Path:
    """Compress a session's transcript; the path of the compressed file."""
    assert compress(store, session) is not None
    assert not find_path(store, session).exists()
    return compressed_path(find_path(store, session))


def read_content(at: Path) -> bytes:
    """The transcript's bytes as readers get them, compressed or not."""
    reader = TranscriptReader(at)
    try:
        return reader.first_line[: reader.header_size] + b"".join(line for _, _, line in read_raw_lines(reader))
    finally:
        reader.close()


def decode_before(frame: bytes, at: int) -> bytes:
    """What the intact pieces of a frame contain that is damaged from the byte ``at`` on. Whoever reads it gets that."""
    return zstd.ZstdDecompressor().decompress(frame[: at - at % PIECE])


def age(at: Path, days: float) -> None:
    """Date a file so many days back."""
    found = os.stat(at)
    os.utime(at, (found.st_atime, found.st_mtime - days * 24 * 60 * 60))
