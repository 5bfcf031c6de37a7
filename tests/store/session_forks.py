"""Forks of sessions, and helpers that read them."""

from contextlib import closing
from pathlib import Path
from typing import Any

from acp_proxy.store.proxy_store import ProxyStore
from acp_proxy.transcript import file_format
from acp_proxy.transcript.appender import TranscriptAppender
from acp_proxy.transcript.file_names import file_name, fork_path
from acp_proxy.transcript.reader import TranscriptReader
from tests.store import transcript_lines
from tests.store.concurrent_writers import AGENT
from tests.store.transcript_lines import answer, prompt_line


def fork_session(store: ProxyStore, parent: str, session: str, *lines: bytes, at: int = 1) -> None:
    """Fork a session and record lines in the fork."""
    header = transcript_lines.header(session, cwd="/elsewhere", at=at, origin=file_format.PARTIAL)
    transcript = store.open_to_append(AGENT, header, is_new=False, parent_id=parent)
    store.mark(AGENT, session)
    transcript.append(b"".join(lines))
    transcript.close()


def read_prompts(store: ProxyStore, session: str) -> list[str]:
    """The texts of a session's prompts."""
    reader = store.open_reader(AGENT, session)
    try:
        entries = [line.entry for line in reader.read_lines()]
    finally:
        reader.close()
    values: list[Any] = [entry.value for entry in entries if entry is not None]
    return [
        value["params"]["prompt"][0]["text"] for value in values if value and value.get("method") == "session/prompt"
    ]


def read_header(store: ProxyStore, session: str) -> file_format.Header:
    """The header of a session's transcript."""
    reader = store.open_reader(AGENT, session)
    reader.close()
    assert reader.header is not None
    return reader.header


def is_complete(store: ProxyStore, session: str) -> bool:
    """Whether a session's transcript says that it is complete."""
    reader = store.open_reader(AGENT, session)
    try:
        return reader.is_complete
    finally:
        reader.close()


def begin_fork(
    store: ProxyStore, parent: str = "p", session: str = "f", *, until: int | None = None
) -> TranscriptAppender:
    """Begin a fork and leave its transcript open."""
    header = transcript_lines.header(session, at=1, origin=file_format.PARTIAL)
    return store.open_to_append(AGENT, header, is_new=False, parent_id=parent, copied_bytes=until)


def leave_unfinished_fork(store: ProxyStore, session: str = "f", *lines: bytes, parent: str = "p") -> Path:
    """The final path of a fork that an older version began: it was continued, but nothing of its parent was copied.

    See ``fixtures/stores/unfinished-forks``, which such a version has made.
    """
    with closing(TranscriptReader(store.layout.transcript_path(AGENT, file_name(parent)))) as source:
        assert source.header is not None
        created, size = source.header.created_at, source.size - source.entries_start
    header = transcript_lines.header(session, at=1, forked_from=[parent])
    note = {"type": "copied", "transcript": file_name(parent), "createdAt": created, "size": size}
    head = file_format.encode_header(header) + file_format.encode_note(transcript_lines.time(1), "forked", note)
    path = store.layout.transcript_path(AGENT, file_name(session))
    own = b"".join(lines) or prompt_line("two", session=session) + answer()
    fork_path(path).touch(mode=0o600)
    fork_path(path).write_bytes(head + b"\0" * size + own)
    store.mark(AGENT, session)
    return path
