"""The answers that are ours, composed from what the store found. Pure: rows in, one line out."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

from acp_proxy.core.effects import Forward
from acp_proxy.errors import REPLACED
from acp_proxy.wire import acp, jsonrpc, splice
from acp_proxy.wire.jsonrpc import Peer, RequestId


class ListRow(Protocol):
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


def listed(id: RequestId, rows: Iterable[ListRow], cursor: str | None, *, directories: bool, recording: bool) -> bytes:
    """``session/list``'s answer (seeds 000, 001). ``directories``: the agent knows additional ones."""
    result: dict[str, object] = {"sessions": [session_info(row, directories=directories) for row in rows]}
    if cursor is not None:
        result["nextCursor"] = cursor
    if not recording:
        result["_meta"] = {"acp-proxy": {"recording": False}}
    return jsonrpc.result(id, result)


def session_info(row: ListRow, *, directories: bool) -> dict[str, object]:
    """One session as clients know it; the agent's own ``_meta`` wins over ours."""
    info: dict[str, object] = {"sessionId": row.session, "cwd": row.cwd}
    if directories and row.directories:
        info["additionalDirectories"] = row.directories
    if row.title is not None:
        info["title"] = row.title
    info["updatedAt"] = row.updated
    info["_meta"] = {"messageCount": row.prompts + row.replies, "hasErrors": row.failed} | row.meta
    return info


def amended(raw: bytes, deleted: Collection[str], title_of: Callable[[str], str | None] | None = None) -> bytes:
    """The agent's own list less what was deleted here, and under the user's titles; every other byte stays.

    ``title_of``: what the user calls a session, if anything; left out where none has such a title. Raises ValueError.
    """
    value = acp.member(jsonrpc.parse(raw), "result") if deleted or title_of is not None else None
    sessions = acp.member(value, "sessions")
    if not isinstance(sessions, list):
        return raw
    ids = [acp.session_id(item) for item in sessions]
    gone = [id in deleted for id in ids]
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
    """One of the listed, with another title; every other byte stays."""
    members, said = splice.members(item), jsonrpc.dump(title).decode()
    if "title" in members:
        return splice.replaced(item, [(members["title"], said)])
    end = members["sessionId"][1]
    return splice.replaced(item, [((end, end), f',"title":{said}')])


def refusal(id: RequestId, code: int, message: str) -> Forward:
    """An error of ours, for the client."""
    return Forward(Peer.CLIENT, jsonrpc.error(id, code, message), own=True)


def unreadable(id: RequestId, errno_name: str) -> Forward:
    """History that cannot be read: some clients act on words of the system's text, so there are none."""
    what_to_do = "Restart the agent." if errno_name == REPLACED else "Run: acp-proxy doctor"
    message = f"Session history cannot be read ({errno_name}). {what_to_do}"
    return refusal(id, jsonrpc.INTERNAL_ERROR, message)


def update(session: str, body: Mapping[str, object]) -> bytes:
    """A ``session/update`` of ours, as a line."""
    return jsonrpc.notification(acp.UPDATE, {"sessionId": session, "update": body})
