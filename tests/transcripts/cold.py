"""Transcripts that are worth packing, and what is done to the packed ones."""

import os
from pathlib import Path

from acp_proxy.transcripts.files.names import file_name, packed
from acp_proxy.transcripts.files.reading import Reading
from acp_proxy.transcripts.lives.packing import Made, Terms
from tests.stored import Both
from tests.transcripts import talk

AGENT = "agent"
AT_ONCE = Terms(min_size=1, older_than=0.0)


def kept(store: Both, session: str = talk.SESSION, chunks: int = 2000, text: str = "word") -> Path:
    """A session of a turn with so many chunks, which the index has seen."""
    lines = [talk.prompt("hello", session=session)]
    lines += [talk.said(f" {text}{number}", session=session) for number in range(chunks)]
    talk.keep(store, AGENT, session, *lines, talk.answer())
    store.sessions()
    return path(store, session)


def path(store: Both, session: str = talk.SESSION) -> Path:
    return store.root / "transcripts" / AGENT / f"{file_name(session)}.jsonl"


def pack(store: Both, session: str = talk.SESSION, terms: Terms = AT_ONCE) -> Made | None:
    return store.compact(AGENT, file_name(session), terms)


def packed_now(store: Both, session: str = talk.SESSION) -> Path:
    """The packed file; the plain one is gone."""
    assert pack(store, session) is not None
    assert not path(store, session).exists()
    return packed(path(store, session))


def content(at: Path) -> bytes:
    """What readers find, byte for byte."""
    reading = Reading(at)
    try:
        return reading.first[: reading.header_size] + b"".join(line for _, _, line in reading.raw_lines())
    finally:
        reading.close()


def age(at: Path, days: float) -> None:
    found = os.stat(at)
    os.utime(at, (found.st_atime, found.st_mtime - days * 24 * 60 * 60))
