"""Composes the answers that acp-proxy gives itself, from what the store found: rows in, one line out."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

from acp_proxy.core.effects import Forward
from acp_proxy.errors import REPLACED
from acp_proxy.wire import acp, jsonrpc, splice
from acp_proxy.wire.jsonrpc import Peer, RequestId


class ListRow(Protocol):
    """What an answer needs to know about a stored session.

    ``updated``: the time of its last change, as text. ``prompts``, ``replies``: how many. ``failed``: a turn failed.
    ``directories``: additional ones. ``meta``: the agent's own ``_meta`` of the session.
    """

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


def listed(id: RequestId, rows: Iterable[ListRow], cursor: str | None, *, directories: bool, recording: bool) -> bytes:
    """The answer to ``session/list``, as a line.

    ``cursor``: for the next page, if there is one. ``directories``: the agent supports additional directories.
    ``recording``: False if acp-proxy does not record now, which the answer then says.
    """
    result: dict[str, object] = {"sessions": [session_info(row, directories=directories) for row in rows]}
    if cursor is not None:
        result["nextCursor"] = cursor
    if not recording:
        result["_meta"] = {"acp-proxy": {"recording": False}}
    return jsonrpc.result(id, result)


def session_info(row: ListRow, *, directories: bool) -> dict[str, object]:
    """A ``SessionInfo`` of the protocol. The agent's own ``_meta`` overrides acp-proxy's members."""
    info: dict[str, object] = {"sessionId": row.session, "cwd": row.cwd}
    if directories and row.directories:
        info["additionalDirectories"] = row.directories
    if row.title is not None:
        info["title"] = row.title
    info["updatedAt"] = row.updated
    info["_meta"] = {"messageCount": row.prompts + row.replies, "hasErrors": row.failed} | row.meta
    return info


def amended(raw: bytes, hidden: Collection[str], title_of: Callable[[str], str | None] | None = None) -> bytes:
    """The agent's list without hidden sessions, and with the user's titles; every other byte stays.

    ``hidden``: the ids of sessions that were deleted or archived here. ``title_of``: returns the user's title of a
    session id, or None; omitted if the user gave no titles. Raises ValueError.
    """
    value = acp.member(jsonrpc.parse(raw), "result") if hidden or title_of is not None else None
    sessions = acp.member(value, "sessions")
    if not isinstance(sessions, list):
        return raw
    ids = [acp.session_id(item) for item in sessions]
    gone = [id in hidden for id in ids]
    titles = [title_of(id) if id is not None and title_of is not None else None for id in ids]
    new = [None if title == acp.text(item, "title") else title for title, item in zip(titles, sessions, strict=True)]
    if not any(gone) and not any(new):
        return raw
    text = splice.decode(raw)
    result = splice.members(text, splice.whole(text)[0])["result"]
    start, end = splice.members(text, result[0])["sessions"]
    spans = splice.elements(text, start)
    items = [_titled(text[a:b], title) if title else text[a:b] for (a, b), title in zip(spans, new, strict=True)]
    changes = list(zip(spans, items, strict=True))
    if any(gone):
        kept = ",".join(item for item, out in zip(items, gone, strict=True) if not out)
        changes = [((start, end), f"[{kept}]")]
    return splice.encode(splice.replaced(text, changes))


def _titled(item: str, title: str) -> str:
    """A listed session with another title; every other byte stays."""
    members, said = splice.members(item), jsonrpc.dump(title).decode()
    if "title" in members:
        return splice.replaced(item, [(members["title"], said)])
    end = members["sessionId"][1]
    return splice.replaced(item, [((end, end), f',"title":{said}')])


def refusal(id: RequestId, code: int, message: str) -> Forward:
    """An error response to the client's request."""
    return Forward(Peer.CLIENT, jsonrpc.error(id, code, message), own=True)


def unreadable(id: RequestId, errno_name: str) -> Forward:
    """The error for history that cannot be read. It has no text of the system's, since some clients react to that."""
    what_to_do = "Restart the agent." if errno_name == REPLACED else "Run: acp-proxy doctor"
    message = f"Session history cannot be read ({errno_name}). {what_to_do}"
    return refusal(id, jsonrpc.INTERNAL_ERROR, message)


def update(session: str, body: Mapping[str, object]) -> bytes:
    """The line of a ``session/update``. ``body``: the update, with its kind."""
    return jsonrpc.notification(acp.UPDATE, {"sessionId": session, "update": body})
