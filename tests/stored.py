"""Sessions in a store, as a recorder would have left them."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from acp_proxy.protocol import timestamps
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.store.proxy_store import ProxyStore
from acp_proxy.transcript import file_format
from acp_proxy.transcript.appender import TranscriptAppender
from acp_proxy.transcript.file_format import GitHead, Header

EPOCH = 1_700_000_000.0
RUN = "run000"


class WholeStore(ProxyStore, CommandStore):
    """Both interfaces of one store, for a test that records and then reads."""


def read_files(root: Path) -> Iterator[tuple[Path, bytes]]:
    """Every file of a store. Files beside the index may vanish at any moment: they go with the last connection, and one
    that this process has dropped is closed when its garbage is collected."""
    for path in sorted(root.rglob("*")):
        with suppress(FileNotFoundError):
            if path.is_file():
                yield path, path.read_bytes()


def find_files_with(store: ProxyStore, words: str) -> list[str]:
    """The files of the store that contain these words."""
    return [path.relative_to(store.root).as_posix() for path, data in read_files(store.root) if words.encode() in data]


def store_session(
    store: ProxyStore,
    session: str,
    *turns: tuple[str, Iterable[dict[str, Any]]],
    agent: str = "agent",
    cwd: str | None = "/project",
    at: float = EPOCH,
    origin: str = file_format.RECORDED,
    error: dict[str, Any] | None = None,
    notes: Iterable[dict[str, Any]] = (),
    parent: str | None = None,
    git: GitHead | None = None,
) -> Path:
    """The path of a new transcript. A turn is the user's text and the updates after it; ``error`` ends the last one.
    ``parent``: the session that it is a fork of."""
    stamp = timestamps.format_now(at)
    transcript = store.open_to_append(
        store.choose_agent(None, agent, ""),
        Header(session, cwd, origin, stamp, git=git or GitHead()),
        is_new=True,
        parent_id=parent,
    )
    data = bytearray()
    for number, (text, updates) in enumerate(turns, 1):
        params: dict[str, Any] = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
        data += message(stamp, Peer.CLIENT, {"id": number, "method": "session/prompt", "params": params})
        for update in updates:
            params = {"sessionId": session, "update": update}
            data += message(stamp, Peer.AGENT, {"method": "session/update", "params": params})
        failed = error is not None and number == len(turns)
        answer: dict[str, Any] = {"error": error} if failed else {"result": {"stopReason": "end_turn"}}
        data += message(stamp, Peer.AGENT, {"id": number, **answer}, "session/prompt")
    for note in notes:
        data += file_format.encode_note(stamp, RUN, note)
    transcript.append(bytes(data))
    transcript.close()
    store.mark(store.choose_agent(None, agent, ""), session)
    return transcript.path


def store_with_subagents(store: ProxyStore, session: str, words: str) -> None:
    """A session whose agent began one for its own work, and in that another one. Both of these say these words."""
    turns = [
        (session, "/project", {"sessionUpdate": "subagent_update", "sessionId": "subagent"}),
        ("subagent", None, {"sessionUpdate": "subagent_update", "sessionId": "its subagent"}),
        ("its subagent", None, chunk("done")),
    ]
    for id, cwd, update in turns:
        origin = file_format.RECORDED if cwd is not None else file_format.PARTIAL
        said = [] if cwd is not None else [chunk(words)]
        store_session(store, id, ("find it", [update, *said]), cwd=cwd, origin=origin)


def list_ids(store: ProxyStore, agent: str = "agent", cwd: str | None = None) -> list[str]:
    """The sessions of the list for an editor, in its order."""
    return [row.session_id for row in store.list_page(agent, cwd, None, RUN).rows]


@contextmanager
def store_running_session(store: ProxyStore, session: str, text: str) -> Iterator[Path]:
    """A session whose only turn is running: it has no answer, and its transcript is open."""
    path = store_session(store, session)
    transcript = TranscriptAppender(path)
    params: dict[str, Any] = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
    transcript.append(
        message(timestamps.format_now(EPOCH), Peer.CLIENT, {"id": 1, "method": "session/prompt", "params": params})
    )
    try:
        yield path
    finally:
        transcript.close()


def make_store_of_three(root: Path) -> ProxyStore:
    """A store with the sessions one, two and three, the last of which is the newest."""
    store = ProxyStore(root)
    for number, session in enumerate(("one", "two", "three")):
        store_session(store, session, (f"mend {session}", []), at=1000.0 * number)
    return store


def message(stamp: str, peer: Peer, value: dict[str, Any], of: str | None = None) -> bytes:
    """A message of either side, as a line of the transcript."""
    return file_format.encode_message(stamp, RUN, peer, json.dumps({"jsonrpc": "2.0", **value}).encode(), of)


def chunk(text: str, kind: str = "agent_message_chunk") -> dict[str, Any]:
    """A chunk of text of this kind."""
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}}


def numbered_call(number: int) -> dict[str, Any]:
    """A completed tool call, with an id and a title of this number."""
    return {"sessionUpdate": "tool_call", "toolCallId": f"c{number}", "title": f"Call {number}.", "status": "completed"}
