"""Reads lines with lists of sessions or titles, and amends them for ``relay/list_performer``: lines in, lines out."""

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from acp_proxy.protocol import acp, framing, json_splice, jsonrpc, update_kinds
from acp_proxy.protocol.jsonrpc import Notification
from acp_proxy.transcript.titles import HANDOVER_RECORD_BYTES, is_of_handover_record

EXCLUDE, INCLUDE, ONLY = "exclude", "include", "only"
"""Which sessions to list by archive state: all but archived ones, all, or only archived ones."""
INDEX_ARCHIVED_PATH = "_meta", "jetbrains", "air", "archived"
"""Where a row of JetBrains' index says whether the agent has archived the session. Source: claude-agent-acp 0.101,
codex-acp 2.6."""


def read_archive_filter(params: object) -> str:
    """Which sessions a ``session/list`` wants by archive state, as the draft has it. Raises InvalidParams."""
    archived = acp.optional_text(params, "archived")
    if archived not in (None, EXCLUDE, INCLUDE, ONLY):
        raise acp.InvalidParams(f"archived must be {EXCLUDE}, {INCLUDE} or {ONLY}")
    return archived or EXCLUDE


class ListChanges(Struct, frozen=True):
    """What is changed in the agent's list.

    ``hidden_ids``: the agent's ids of sessions to leave out. ``find_title``: returns the user's title of a session, or
    None; omitted if the user gave no titles. ``fallback_titles``: for sessions without another title. ``archived_ids``:
    the archived sessions, if each session must say whether it is archived; ``only_archived`` leaves all others out.
    ``is_of_jetbrains_index``: the agent may say of other sessions too that they are archived (``INDEX_ARCHIVED_PATH``).
    ``our_ids_by_agent_id``: by the agent's id, for sessions whose two ids differ, ours, by which titles and archive
    states are. ``find_client_id``: returns the client's id of a session for the agent's.
    """

    hidden_ids: Collection[str] = frozenset()
    find_title: Callable[[str], str | None] | None = None
    fallback_titles: Mapping[str, str] = MappingProxyType({})
    archived_ids: Collection[str] | None = None
    only_archived: bool = False
    is_of_jetbrains_index: bool = False
    our_ids_by_agent_id: Mapping[str, str] = MappingProxyType({})
    find_client_id: Callable[[str], str] | None = None

    def leaves_out(self, id: str | None, item: object) -> bool:
        """Whether a session is left out. ``item``: what the agent says of it."""
        if id in self.hidden_ids:
            return True
        is_in_archive = id in (self.archived_ids or ()) or (self.is_of_jetbrains_index and is_archived(item))
        return self.only_archived and not is_in_archive


def amend_rows(line: bytes, changes: ListChanges, *, list_member: str = "result") -> bytes:
    """The agent's list with these changes, and without titles that the agent has made from handover records; every
    other byte stays. ``list_member``: the member of the line that has the list. Raises ValueError."""
    has_changes = changes.hidden_ids or changes.find_title is not None or changes.archived_ids is not None
    is_needed = has_changes or changes.fallback_titles or HANDOVER_RECORD_BYTES in line
    sessions = _read_sessions(line, list_member) if is_needed else []
    if not sessions:
        return line
    ids = [acp.session_id(item) for item in sessions]
    is_removed = [changes.leaves_out(id, item) for id, item in zip(ids, sessions, strict=True)]
    changed_members = [
        _find_changed_members(item, id, changes) if id is not None else {}
        for id, item in zip(ids, sessions, strict=True)
    ]
    if not any(is_removed) and not any(changed_members):
        return line
    text = json_splice.decode(line)
    start, end = json_splice.find_span(text, list_member, "sessions")
    spans = json_splice.find_elements(text, start)
    items = [
        _replace_members(text[item_start:item_end], members) if members else text[item_start:item_end]
        for (item_start, item_end), members in zip(spans, changed_members, strict=True)
    ]
    replacements = list(zip(spans, items, strict=True))
    if any(is_removed):
        kept_items = ",".join(item for item, is_left_out in zip(items, is_removed, strict=True) if not is_left_out)
        replacements = [((start, end), f"[{kept_items}]")]
    return json_splice.encode(json_splice.replace_spans(text, replacements))


def find_row_ids(line: bytes, list_member: str) -> list[str | None]:
    """The ids of the sessions in the agent's list. Raises ValueError."""
    return [acp.session_id(item) for item in _read_sessions(line, list_member)]


def replace_ids_in_removed(line: bytes, params_member: str, map_ids: Callable[[list[str]], list[str]]) -> bytes:
    """The agent's line with other ids in its array ``removed``; every other byte stays. ``params_member``: the member
    of the line that has the array. ``map_ids``: returns the ids to put there for the agent's. Raises ValueError,
    KeyError."""
    agent_ids = acp.strings(acp.member(jsonrpc.parse(line), params_member), "removed")
    if not agent_ids or (new_ids := map_ids(agent_ids)) == agent_ids:
        return line
    return json_splice.with_value(line, jsonrpc.dump(new_ids).decode(), params_member, "removed")


def find_without_usable_title(line: bytes, *, include_absent: bool, list_member: str = "result") -> list[str]:
    """The ids of the sessions in the agent's list whose title was made from a handover record, and with
    ``include_absent`` also of those without a title. Raises ValueError."""
    if not include_absent and HANDOVER_RECORD_BYTES not in line:
        return []
    items = (item for item in _read_sessions(line, list_member) if _find_usable_title(item) is None)
    ids = (acp.session_id(item) for item in items if include_absent or acp.text(item, "title") is not None)
    return [id for id in ids if id is not None]


def _find_usable_title(item: object) -> str | None:
    """The title of a listed session, unless the agent has made it from a handover record."""
    title = acp.text(item, "title")
    return title if title is not None and not is_of_handover_record(title) else None


def with_value_at_path(value: object, path: Sequence[str], value_there: bool) -> dict[str, object]:
    """An object with this value at a path of members. What is not an object on the way is replaced."""
    members = dict(value) if isinstance(value, Mapping) else {}
    key, *inner_path = path
    return members | {key: with_value_at_path(members.get(key), inner_path, value_there) if inner_path else value_there}


def is_archived(item: object) -> bool:
    """Whether the agent says that it has archived a session of its index."""
    for key in INDEX_ARCHIVED_PATH:
        item = acp.member(item, key)
    return item is True


def _read_sessions(line: bytes, list_member: str) -> list[object]:
    """The sessions in the agent's list. Raises ValueError."""
    sessions = acp.member(acp.member(jsonrpc.parse(line), list_member), "sessions")
    return sessions if isinstance(sessions, list) else []


def _find_changed_members(item: object, agent_id: str, changes: ListChanges) -> dict[str, object]:
    """The members of a listed session that need another value; None for one that must be left out. ``agent_id``: the
    agent's id of the session."""
    changed_members: dict[str, object] = {}
    id = changes.our_ids_by_agent_id.get(agent_id, agent_id)
    agents_title, usable_title = acp.text(item, "title"), _find_usable_title(item)
    title = changes.find_title(id) if changes.find_title is not None else None
    title = title or (changes.fallback_titles.get(id) if usable_title is None else None) or usable_title
    if title != agents_title:
        changed_members["title"] = title
    archived = changes.archived_ids
    if changes.is_of_jetbrains_index:
        if archived is not None and id in archived and not is_archived(item):
            changed_members["_meta"] = with_value_at_path({}, INDEX_ARCHIVED_PATH[1:], True)
    elif archived is not None and acp.member(item, "archived") is not (id in archived):
        changed_members["archived"] = id in archived
    if changes.find_client_id is not None and (client_id := changes.find_client_id(agent_id)) != agent_id:
        changed_members["sessionId"] = client_id
    return changed_members


def _replace_members(item: str, changed_members: Mapping[str, object]) -> str:
    """A listed session with other members; every other byte stays."""
    for key in [key for key, value in changed_members.items() if value is None]:
        item = json_splice.without_member(item, 0, key)
    members = json_splice.find_members(item)
    end = members["sessionId"][1]
    replacements = []
    for key, value in changed_members.items():
        if value is None:
            continue
        encoded = jsonrpc.dump(value).decode()
        if key in members and isinstance(value, Mapping) and item[members[key][0]] == "{":
            replacements += json_splice.list_member_changes(item, members[key], value)
        else:
            replacements.append((members[key], encoded) if key in members else ((end, end), f',"{key}":{encoded}'))
    return json_splice.replace_spans(item, replacements)


def find_cursor_if_emptied(original: bytes, amended: bytes) -> str | None:
    """The cursor of the next page, if amending has left nothing of a page. ``original``: the agent's line. ``amended``:
    what is sent of it."""
    if original == amended:
        return None
    result = acp.member(jsonrpc.parse(amended), "result")
    return acp.text(result, "nextCursor") if acp.member(result, "sessions") == [] else None


def replace_titles(data: bytes, find_title: Callable[[str], str | None]) -> bytes:
    """The agent's lines with the user's titles in its ``session_info_update``; every other byte stays.

    ``find_title``: returns the user's title of a session id, or None.
    """
    return b"".join(
        _replace_title(line, find_title) if update_kinds.SESSION_INFO_BYTES in line else line
        for line in framing.split_lines(data)
    )


def _replace_title(line: bytes, find_title: Callable[[str], str | None]) -> bytes:
    message = jsonrpc.read_message(line)
    params = message.params if isinstance(message, Notification) and message.method == acp.UPDATE else None
    session_id, update = acp.session_id(params), acp.member(params, "update")
    title = (
        find_title(session_id)
        if session_id is not None and acp.update_kind(update) == update_kinds.SESSION_INFO
        else None
    )
    if title is None or not isinstance(update, dict) or "title" not in update or update["title"] == title:
        return line
    try:
        return acp.with_text(line, title, "params", "update", "title")
    except (ValueError, KeyError):  # it passes unchanged
        return line
