"""Writes stored sessions as ``session/list`` has them: a page of them, or among the agent's own."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from acp_proxy.decisions.lists.amend_list import INDEX_ARCHIVED_PATH, with_value_at_path
from acp_proxy.protocol import acp, json_splice, jsonrpc, timestamps
from acp_proxy.protocol.jsonrpc import RequestId

if TYPE_CHECKING:
    from acp_proxy.store.index_database import ListedSession


def encode_page(
    id: RequestId,
    rows: "Iterable[ListedSession]",
    cursor: str | None,
    *,
    supports_directories: bool,
    is_recording_all: bool,
    says_archived: bool = False,
) -> bytes:
    """The answer to ``session/list``, as a line.

    ``cursor``: for the next page, if there is one. ``supports_directories``: the agent supports additional directories.
    ``is_recording_all``: False if acp-proxy does not record them all now, which the answer then says.
    ``says_archived``: each session says whether it is archived.
    """
    sessions = [
        make_session_info(row, supports_directories=supports_directories, says_archived=says_archived) for row in rows
    ]
    result: dict[str, object] = {"sessions": sessions}
    if cursor is not None:
        result["nextCursor"] = cursor
    if not is_recording_all:
        result["_meta"] = {"acp-proxy": {"recording": False}}
    return jsonrpc.encode_result(id, result)


def make_session_info(
    row: "ListedSession",
    *,
    supports_directories: bool,
    says_archived: bool = False,
    is_of_jetbrains_index: bool = False,
) -> dict[str, object]:
    """A ``SessionInfo`` of the protocol. The agent's own ``_meta`` overrides acp-proxy's members. ``says_archived``: it
    says whether the session is archived; ``is_of_jetbrains_index``: so does ``INDEX_ARCHIVED_PATH``."""
    info: dict[str, object] = {"sessionId": row.session_id, "cwd": row.cwd}
    if supports_directories and row.directories:
        info["additionalDirectories"] = row.directories
    if row.title is not None:
        info["title"] = row.title
    info["updatedAt"] = row.updated
    if says_archived:
        info["archived"] = row.is_archived
    own_meta = {"acp-proxy": {"machine": row.machine}} if row.machine else {}
    meta = {"messageCount": row.prompt_count + row.reply_count, "hasErrors": row.has_failed} | own_meta | row.meta
    if is_of_jetbrains_index:
        meta = with_value_at_path(meta, INDEX_ARCHIVED_PATH[1:], row.is_archived)
    info["_meta"] = meta
    return info


def insert_rows(
    line: bytes,
    rows: "Iterable[ListedSession]",
    *,
    supports_directories: bool,
    says_archived: bool = False,
    is_of_jetbrains_index: bool = False,
) -> bytes:
    """An answer of the agent with listed sessions, with these rows by time among its own; every other byte stays.

    ``rows``: newest first. The others: as for ``make_session_info``. Raises ValueError, KeyError.
    """

    def encode(row: "ListedSession") -> str:
        info = make_session_info(
            row,
            supports_directories=supports_directories,
            says_archived=says_archived,
            is_of_jetbrains_index=is_of_jetbrains_index,
        )
        return jsonrpc.dump(info).decode()

    waiting = [*rows]
    if not waiting:
        return line
    text = json_splice.decode(line)
    start, end = json_splice.find_span(text, "result", "sessions")
    items: list[str] = []
    for item_start, item_end in json_splice.find_elements(text, start):
        item = text[item_start:item_end]
        updated = _read_update_time(item)
        while waiting and updated is not None and waiting[0].updated > updated:
            items.append(encode(waiting.pop(0)))
        items.append(item)
    items += map(encode, waiting)
    return json_splice.encode(json_splice.replace_spans(text, [((start, end), f"[{','.join(items)}]")]))


def _read_update_time(item: str) -> str | None:
    updated_at = acp.text(jsonrpc.parse_leniently(json_splice.encode(item)), "updatedAt")
    return timestamps.normalize(updated_at) if updated_at is not None else None
