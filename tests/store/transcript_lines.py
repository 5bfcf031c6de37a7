"""Lines of a transcript; ``at`` is their time in seconds."""

from collections.abc import Mapping, Sequence

from acp_proxy.protocol import acp, jsonrpc, timestamps, update_kinds
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.store.proxy_store import ProxyStore
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import Entry, Header

SESSION, RUN, CWD = "sess-1", "run001", "/project"
UID = "0123456789abcdef" * 2
_BEGINNING = 1795166100.0

Block = str | Mapping[str, object]


def time(second: float) -> str:
    """The time so many seconds after the first."""
    return timestamps.format_now(_BEGINNING + second)


def header(
    session: str = SESSION,
    cwd: str | None = CWD,
    *,
    at: int = 0,
    origin: str = file_format.RECORDED,
    more: tuple[str, ...] = (),
    forked_from: Sequence[str] = (),
) -> Header:
    """A transcript's header."""
    return Header(session, cwd, origin, time(at), list(more), forked_from=list(forked_from), uid=UID)


def prompt_line(*blocks: Block, at: float = 0, run: str = RUN, session: str = SESSION, id: int = 1) -> bytes:
    """A prompt; a str becomes a text block."""
    told = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
    params = {"sessionId": session, "prompt": told}
    return message({"id": id, "method": acp.PROMPT, "params": params}, Peer.CLIENT, at=at, run=run)


def answer(*, at: int = 0, run: str = RUN, error: object = None, id: int = 1) -> bytes:
    """The answer to a prompt."""
    told = {"result": {"stopReason": "end_turn"}} if error is None else {"error": error}
    return message({"id": id} | told, Peer.AGENT, acp.PROMPT, at=at, run=run)


def update(kind: object, *, at: int = 0, run: str = RUN, session: str = SESSION, **fields: object) -> bytes:
    """An update of the agent."""
    params = {"sessionId": session, "update": {"sessionUpdate": kind} | fields}
    return message({"method": acp.UPDATE, "params": params}, Peer.AGENT, at=at, run=run)


def agent_chunk(text: str, *, at: int = 0, run: str = RUN, session: str = SESSION) -> bytes:
    """A chunk of the agent's message."""
    content = {"type": "text", "text": text}
    return update(update_kinds.AGENT_CHUNK, at=at, run=run, session=session, content=content)


def info(*, at: int = 0, run: str = RUN, **fields: object) -> bytes:
    """An update of the session's title or metadata."""
    params = {"sessionId": SESSION, "update": {"sessionUpdate": update_kinds.SESSION_INFO} | fields}
    return message({"method": acp.UPDATE, "params": params}, Peer.AGENT, at=at, run=run)


def note(kind: str, *, at: int = 0, run: str = RUN, **fields: object) -> bytes:
    """A note of ours."""
    return file_format.encode_note(time(at), run, {"type": kind} | fields)


def message(
    value: object,
    peer: Peer,
    of: str | None = None,
    *,
    at: float = 0,
    run: str = RUN,
    version: int = file_format.ACP_V1,
) -> bytes:
    """A message of either side. ``version``: of the protocol."""
    raw = jsonrpc.dump(value)
    is_plain = jsonrpc.is_embeddable(raw)
    return file_format.encode_message(time(at), run, peer, raw, of, is_plain=is_plain, protocol_version=version)


def entry(line: bytes) -> Entry:
    """What a line is read as."""
    found = file_format.decode_entry(line)
    assert found is not None
    return found


def store_lines(
    store: ProxyStore, agent: str, session: str, *lines: bytes, cwd: str | None = CWD, at: int = 0, fresh: bool = True
) -> None:
    """Record a session as the proxy does, without indexing it; by default one complete turn."""
    transcript = store.open_to_append(agent, header(session, cwd, at=at), is_new=fresh)
    store.mark(agent, session)
    turn = [prompt_line("hello", at=at, session=session), agent_chunk("hi", at=at, session=session), answer(at=at)]
    transcript.append(b"".join(lines or turn))
    transcript.close()
