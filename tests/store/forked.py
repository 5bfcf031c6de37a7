"""Forks of sessions, and helpers that read them."""

from pathlib import Path
from typing import Any

from acp_proxy.store.store import Store
from acp_proxy.transcript import file_format
from acp_proxy.transcript.appender import Transcript
from tests.store import talk
from tests.store.talk import answer, prompt
from tests.store.writing import AGENT


def fork(store: Store, parent: str, session: str, *lines: bytes, at: int = 1) -> None:
    header = talk.header(session, cwd="/elsewhere", at=at, origin=file_format.PARTIAL)
    transcript = store.begin(AGENT, header, fresh=False, parent=parent)
    store.mark(AGENT, session)
    transcript.append(b"".join(lines))
    transcript.close()


def spoken(store: Store, session: str) -> list[str]:
    reading = store.read(AGENT, session)
    try:
        entries = [line.entry for line in reading.lines()]
    finally:
        reading.close()
    values: list[Any] = [entry.value for entry in entries if entry is not None]
    return [
        value["params"]["prompt"][0]["text"] for value in values if value and value.get("method") == "session/prompt"
    ]


def header(store: Store, session: str) -> file_format.Header:
    reading = store.read(AGENT, session)
    reading.close()
    assert reading.header is not None
    return reading.header


def is_complete(store: Store, session: str) -> bool:
    reading = store.read(AGENT, session)
    try:
        return reading.is_complete
    finally:
        reading.close()


def begun(store: Store, parent: str = "p", session: str = "f", *, until: int | None = None) -> Transcript:
    header = talk.header(session, at=1, origin=file_format.PARTIAL)
    return store.begin(AGENT, header, fresh=False, parent=parent, until=until)


def left_by_a_crash(store: Store, session: str = "f", *lines: bytes) -> Path:
    """The final path of a fork that was continued, but whose parent's entries were never copied."""
    transcript = begun(store, session=session)
    assert transcript.beginning is not None
    transcript.append(b"".join(lines) or prompt("two", session=session) + answer())
    transcript.beginning.close()
    transcript.close()
    return transcript.path


def listed(store: Store) -> list[str]:
    return sorted(row.session for row in store.page(AGENT, None, None, "").rows)
