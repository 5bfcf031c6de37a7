"""Composes the answers that acp-proxy gives itself, from what the store found: rows in, one line out."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from acp_proxy.protocol import acp, framing, json_splice, jsonrpc, timestamps, update_kinds
from acp_proxy.protocol.jsonrpc import Notification, RequestId
from acp_proxy.transcript.titles import RECORD_BYTES, is_of_record

EXCLUDE, INCLUDE, ONLY = "exclude", "include", "only"
"""Which sessions to list by archive state: all but archived ones, all, or only archived ones."""
INDEX_MARK = "_meta", "jetbrains", "air", "archived"
"""Where a row of JetBrains' index says whether the agent has archived the session. Source: claude-agent-acp 0.101,
codex-acp 2.6."""


class ListRow(Protocol):
    """What an answer needs to know about a stored session.

    ``updated``: the time of its last change, as text. ``has_failed``: a turn failed. ``directories``:
    additional ones. ``meta``: the agent's own ``_meta`` of the session. ``is_archived``: here. ``machine``: the name of
    the one where it was begun; empty: here.
    """

    @property
    def session_id(self) -> str: ...
    @property
    def cwd(self) -> str | None: ...
    @property
    def title(self) -> str | None: ...
    @property
    def updated(self) -> str: ...
    @property
    def prompt_count(self) -> int: ...
    @property
    def reply_count(self) -> int: ...
    @property
    def has_failed(self) -> bool: ...
    @property
    def directories(self) -> list[str]: ...
    @property
    def meta(self) -> dict[str, object]: ...
    @property
    def is_archived(self) -> bool: ...
    @property
    def machine(self) -> str: ...


def encode_page(
    id: RequestId,
    rows: Iterable[ListRow],
    cursor: str | None,
    *,
    directories: bool,
    recording: bool,
    archived: bool = False,
) -> bytes:
    """The answer to ``session/list``, as a line.

    ``cursor``: for the next page, if there is one. ``directories``: the agent supports additional directories.
    ``recording``: False if acp-proxy does not record now, which the answer then says. ``archived``: each session says
    whether it is archived.
    """
    sessions = [session_info(row, directories=directories, archived=archived) for row in rows]
    result: dict[str, object] = {"sessions": sessions}
    if cursor is not None:
        result["nextCursor"] = cursor
    if not recording:
        result["_meta"] = {"acp-proxy": {"recording": False}}
    return jsonrpc.result(id, result)


def session_info(
    row: ListRow, *, directories: bool, archived: bool = False, of_index: bool = False
) -> dict[str, object]:
    """A ``SessionInfo`` of the protocol. The agent's own ``_meta`` overrides acp-proxy's members. ``archived``: it says
    whether the session is archived; ``of_index``: so does ``INDEX_MARK``."""
    info: dict[str, object] = {"sessionId": row.session_id, "cwd": row.cwd}
    if directories and row.directories:
        info["additionalDirectories"] = row.directories
    if row.title is not None:
        info["title"] = row.title
    info["updatedAt"] = row.updated
    if archived:
        info["archived"] = row.is_archived
    own_meta = {"acp-proxy": {"machine": row.machine}} if row.machine else {}
    meta = {"messageCount": row.prompt_count + row.reply_count, "hasErrors": row.has_failed} | own_meta | row.meta
    info["_meta"] = _marked(meta, INDEX_MARK[1:], row.is_archived) if of_index else meta
    return info


def amend_rows(
    raw: bytes,
    hidden: Collection[str],
    title_of: Callable[[str], str | None] | None = None,
    archived: Collection[str] | None = None,
    only: bool = False,
    made: Mapping[str, str] | None = None,
    of_index: bool = False,
    within: str = "result",
    our_ids: Mapping[str, str] = MappingProxyType({}),
    shown: Callable[[str], str] | None = None,
) -> bytes:
    """The agent's list without hidden sessions, with the user's titles, and without titles that the agent has made from
    records of handovers; every other byte stays.

    ``hidden``: the ids of sessions to leave out. ``title_of``: returns the user's title of a session id, or None;
    omitted if the user gave no titles. ``archived``: the ids of archived sessions, if each session must say whether it
    is archived; ``only``: leave all others out. ``made``: titles by session id, for sessions that have no other.
    ``of_index``: other sessions may be archived too, where the agent says so (``INDEX_MARK``). ``within``: the line's
    member that has the list. ``our_ids``: by the agent's id: our session, where that has another; all but ``hidden``
    are about that. ``shown``: returns the client's id of a session. Raises ValueError.
    """
    is_needed = hidden or title_of is not None or archived is not None or made or RECORD_BYTES in raw
    sessions = _sessions(raw, within) if is_needed else []
    if not sessions:
        return raw
    ids = [acp.session_id(item) for item in sessions]
    kept_out = [
        only and not (id in (archived or ()) or (of_index and is_archived(item)))
        for id, item in zip(ids, sessions, strict=True)
    ]
    gone = [id in hidden or out for id, out in zip(ids, kept_out, strict=True)]
    new = [
        _changes(item, our_ids.get(id, id), title_of, archived, made or {}, of_index=of_index) if id is not None else {}
        for id, item in zip(ids, sessions, strict=True)
    ]
    for id, changes in zip(ids, new, strict=True):
        if shown is not None and id is not None and (other := shown(id)) != id:
            changes["sessionId"] = other
    if not any(gone) and not any(new):
        return raw
    text = json_splice.decode(raw)
    result = json_splice.members(text, json_splice.whole(text)[0])[within]
    start, end = json_splice.members(text, result[0])["sessions"]
    spans = json_splice.elements(text, start)
    items = [
        _with_members(text[a:b], changes) if changes else text[a:b] for (a, b), changes in zip(spans, new, strict=True)
    ]
    placed = list(zip(spans, items, strict=True))
    if any(gone):
        kept = ",".join(item for item, out in zip(items, gone, strict=True) if not out)
        placed = [((start, end), f"[{kept}]")]
    return json_splice.encode(json_splice.replaced(text, placed))


def find_ids(raw: bytes, within: str) -> list[str | None]:
    """The ids of the sessions in the agent's list. Raises ValueError."""
    return [acp.session_id(item) for item in _sessions(raw, within)]


def with_removed(raw: bytes, within: str, of: Callable[[list[str]], list[str]]) -> bytes:
    """A line with other ids in its array ``removed``; every other byte stays. ``of``: the new ids. Raises ValueError,
    KeyError."""
    sent = acp.strings(acp.member(jsonrpc.parse(raw), within), "removed")
    if not sent or (new := of(sent)) == sent:
        return raw
    text = json_splice.decode(raw)
    params = json_splice.members(text, json_splice.whole(text)[0])[within]
    span = json_splice.members(text, params[0])["removed"]
    return json_splice.encode(json_splice.replaced(text, [(span, jsonrpc.dump(new).decode())]))


def find_untitled(raw: bytes, *, absent: bool, within: str = "result") -> list[str]:
    """The ids of the sessions in the agent's list whose title was made from the record of a handover; ``absent``: and
    of those that have none. Raises ValueError."""
    if not absent and RECORD_BYTES not in raw:
        return []
    items = (item for item in _sessions(raw, within) if _title(item) is None)
    ids = (acp.session_id(item) for item in items if absent or acp.text(item, "title") is not None)
    return [id for id in ids if id is not None]


def _title(item: object) -> str | None:
    """The title of a listed session, unless the agent has made it from the record of a handover."""
    title = acp.text(item, "title")
    return title if title is not None and not is_of_record(title) else None


def _marked(value: object, path: Sequence[str], mark: bool) -> dict[str, object]:
    """An object with this value at a path of members. What is not an object on the way is replaced."""
    members = dict(value) if isinstance(value, Mapping) else {}
    key, *rest = path
    return members | {key: _marked(members.get(key), rest, mark) if rest else mark}


def is_archived(item: object) -> bool:
    """Whether the agent says that it has archived a session of its index."""
    for key in INDEX_MARK:
        item = acp.member(item, key)
    return item is True


def _sessions(raw: bytes, within: str) -> list[object]:
    """The sessions in the agent's list. Raises ValueError."""
    sessions = acp.member(acp.member(jsonrpc.parse(raw), within), "sessions")
    return sessions if isinstance(sessions, list) else []


def _changes(
    item: object,
    id: str,
    title_of: Callable[[str], str | None] | None,
    archived: Collection[str] | None,
    made: Mapping[str, str],
    *,
    of_index: bool,
) -> dict[str, object]:
    """The members of a listed session that need another value; None: must be left out. ``id``: ours."""
    new: dict[str, object] = {}
    sent, named = acp.text(item, "title"), _title(item)
    title = title_of(id) if title_of is not None else None
    title = title or (made.get(id) if named is None else None) or named
    if title != sent:
        new["title"] = title
    if of_index:
        if archived is not None and id in archived and not is_archived(item):
            new["_meta"] = _marked({}, INDEX_MARK[1:], True)
    elif archived is not None and acp.member(item, "archived") is not (id in archived):
        new["archived"] = id in archived
    return new


def _with_members(item: str, new: Mapping[str, object]) -> str:
    """A listed session with other members; every other byte stays."""
    for key in [key for key, value in new.items() if value is None]:
        item = json_splice.without(item, 0, key)
    members = json_splice.members(item)
    end = members["sessionId"][1]
    changes = []
    for key, value in new.items():
        if value is None:
            continue
        encoded = jsonrpc.dump(value).decode()
        if key in members and isinstance(value, Mapping) and item[members[key][0]] == "{":
            changes += json_splice.set_members(item, members[key], value)
        else:
            changes.append((members[key], encoded) if key in members else ((end, end), f',"{key}":{encoded}'))
    return json_splice.replaced(item, changes)


def find_next_cursor(before: bytes, after: bytes) -> str | None:
    """The cursor of the next page, if amending has left nothing of a page. ``before``, ``after``: the agent's list."""
    if before == after:
        return None
    result = acp.member(jsonrpc.parse(after), "result")
    return acp.text(result, "nextCursor") if acp.member(result, "sessions") == [] else None


def with_titles(data: bytes, title_of: Callable[[str], str | None]) -> bytes:
    """The agent's lines with the user's titles in its ``session_info_update``; every other byte stays.

    ``title_of``: returns the user's title of a session id, or None.
    """
    return b"".join(
        _with_title(line, title_of) if update_kinds.SESSION_INFO_BYTES in line else line for line in framing.cut(data)
    )


def _with_title(line: bytes, title_of: Callable[[str], str | None]) -> bytes:
    message = jsonrpc.read_message(line)
    params = message.params if isinstance(message, Notification) and message.method == acp.UPDATE else None
    session_id, update = acp.session_id(params), acp.member(params, "update")
    title = (
        title_of(session_id)
        if session_id is not None and acp.update_kind(update) == update_kinds.SESSION_INFO
        else None
    )
    if title is None or not isinstance(update, dict) or "title" not in update or update["title"] == title:
        return line
    try:
        return acp.with_title(line, title)
    except (ValueError, KeyError):  # it passes unchanged
        return line


# --- Puts sessions that only acp-proxy can list into the first page of the agent's own list.


def join_rows(
    raw: bytes, rows: Iterable[ListRow], *, directories: bool, archived: bool, of_index: bool = False
) -> bytes:
    """The agent's answer to ``session/list`` with these rows by time among its own; every other byte stays.

    ``rows``: newest first. ``directories``, ``archived``, ``of_index``: as for ``session_list.session_info``.
    Raises ValueError, KeyError.
    """
    new = [
        (row.updated, session_info(row, directories=directories, archived=archived, of_index=of_index)) for row in rows
    ]
    if not new:
        return raw
    text = json_splice.decode(raw)
    result = json_splice.members(text, json_splice.whole(text)[0])["result"]
    start, end = json_splice.members(text, result[0])["sessions"]
    out: list[str] = []
    for a, b in json_splice.elements(text, start):
        item = text[a:b]
        updated = _updated(item)
        while new and updated is not None and new[0][0] > updated:
            out.append(jsonrpc.dump(new.pop(0)[1]).decode())
        out.append(item)
    out += [jsonrpc.dump(info).decode() for _, info in new]
    return json_splice.encode(json_splice.replaced(text, [((start, end), f"[{','.join(out)}]")]))


def _updated(item: str) -> str | None:
    sent = acp.text(jsonrpc.look(json_splice.encode(item)), "updatedAt")
    return timestamps.normalized(sent) if sent is not None else None
