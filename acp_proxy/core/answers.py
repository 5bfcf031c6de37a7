"""The answers that are ours, composed from what the store found. Pure: rows in, one line out."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from acp_proxy.core.effects import Forward
from acp_proxy.wire import acp, jsonrpc, splice
from acp_proxy.wire.jsonrpc import Peer, RequestId


class Row(Protocol):
    """What an answer needs to know of one stored session."""

    @property
    def session(self) -> str: ...
    @property
    def cwd(self) -> str | None: ...
    @property
    def title(self) -> str | None: ...
    @property
    def updated(self) -> str: ...
    @property
    def prompts(self) -> int: ...
    @property
    def replies(self) -> int: ...
    @property
    def failed(self) -> bool: ...
    @property
    def directories(self) -> list[str]: ...
    @property
    def meta(self) -> dict[str, object]: ...


def listed(id: RequestId, rows: Iterable[Row], cursor: str | None, *, directories: bool, recording: bool) -> bytes:
    """``session/list``'s answer (seeds 000, 001). ``directories``: the agent knows additional ones."""
    result: dict[str, object] = {"sessions": [session_info(row, directories=directories) for row in rows]}
    if cursor is not None:
        result["nextCursor"] = cursor
    if not recording:
        result["_meta"] = {"acp-proxy": {"recording": False}}
    return jsonrpc.result(id, result)


def session_info(row: Row, *, directories: bool) -> dict[str, object]:
    """One session as clients know it; the agent's own ``_meta`` wins over ours."""
    info: dict[str, object] = {"sessionId": row.session, "cwd": row.cwd}
    if directories and row.directories:
        info["additionalDirectories"] = row.directories
    if row.title is not None:
        info["title"] = row.title
    info["updatedAt"] = row.updated
    info["_meta"] = {"messageCount": row.prompts + row.replies, "hasErrors": row.failed} | row.meta
    return info


def without(raw: bytes, deleted: frozenset[str]) -> bytes:
    """The agent's own list less what was deleted here; the same bytes where there is nothing to take out."""
    value = acp.member(jsonrpc.parse(raw), "result") if deleted else None
    sessions = acp.member(value, "sessions")
    if not isinstance(sessions, list):
        return raw
    gone = [acp.session_id(item) in deleted for item in sessions]
    if not any(gone):
        return raw
    text = splice.decode(raw)
    result = splice.members(text, splice.whole(text)[0])["result"]
    start, end = splice.members(text, result[0])["sessions"]
    spans = splice.elements(text, start)
    kept = ",".join(text[a:b] for (a, b), out in zip(spans, gone, strict=True) if not out)
    return splice.encode(splice.replaced(text, [((start, end), f"[{kept}]")]))


def refusal(id: RequestId, code: int, message: str) -> Forward:
    """An error of ours, for the client."""
    return Forward(Peer.CLIENT, jsonrpc.error(id, code, message), own=True)


def unreadable(id: RequestId, errno_name: str) -> Forward:
    """History that cannot be read: some clients act on words of the system's text, so there are none."""
    message = f"Session history cannot be read ({errno_name}). Run: acp-proxy doctor"
    return refusal(id, jsonrpc.INTERNAL_ERROR, message)


def update(session: str, body: Mapping[str, object]) -> bytes:
    """A ``session/update`` of ours, as a line."""
    return jsonrpc.notification(acp.UPDATE, {"sessionId": session, "update": body})
