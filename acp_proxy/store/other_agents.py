"""Sessions that lists show beside an agent's own: sessions that continue in others of the agent, copies of other
agents' sessions, sessions of other machines, and rows of other agents' sessions.

A row has an id of ours (``proxy_ids.is_proxy_id``) and the other agent's name. It is left out if this agent has the
copy that it would become, or if it was deleted or archived on either side.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from acp_proxy.protocol import proxy_ids
from acp_proxy.store.fork import CONTINUED_RUN
from acp_proxy.store.index_database import (
    PAGE_ROWS,
    Index,
    ListedSession,
    Page,
    decode_cursor,
    decode_id,
    encode_binding,
    encode_cursor,
    encode_id,
)
from acp_proxy.store.journal import JournalState
from acp_proxy.store.layout import Layout
from acp_proxy.store.queries import COPY_ID_RANGE, complete_rows, read_state
from acp_proxy.transcript.file_names import file_name, name_agent

if TYPE_CHECKING:
    from acp_proxy.store.store_index import StoreIndex

_AGENT_SEPARATOR = " · "
"""Stands between a row's title and the other agent's name."""
_Position = tuple[str, bytes]


def list_page(
    layout: Layout,
    store_index: "StoreIndex",
    agent_folder: str,
    cwd: str | None,
    cursor: str | None,
    run: str,
    archived: bool | None,
    other_folders: Sequence[str],
) -> Page:
    """A page of an agent's list; ``ProxyStore.list_page`` explains the parameters."""
    archived_names = read_state(layout, agent_folder).archived
    hidden_names, only_names = (archived_names if archived is False else ()), (archived_names if archived else None)
    binding = encode_binding(agent_folder, cwd)
    position = decode_cursor(cursor, binding) if cursor is not None else None

    def read(index: Index) -> tuple[Page, list[ListedSession]]:
        own_page = index.select_page(agent_folder, cwd, cursor, run, hidden_names=hidden_names, only_names=only_names)
        other_rows = _read_other_rows(
            layout, index, agent_folder, other_folders, archived, cwd, position=position, limit=PAGE_ROWS + 1
        )
        return own_page, list(other_rows)

    own_page, other_rows = store_index.query(read, agent_folder, *other_folders)  # each has its own time
    merged = sorted([*complete_rows(layout, own_page.rows), *other_rows], key=_get_position, reverse=True)
    is_last = len(merged) <= PAGE_ROWS and own_page.next is None
    next_cursor = None if is_last else encode_cursor(binding, *_get_position(merged[:PAGE_ROWS][-1]))
    return Page(merged[:PAGE_ROWS], next_cursor)


def list_rows(
    layout: Layout,
    store_index: "StoreIndex",
    agent_folder: str,
    cwd: str | None,
    run: str,
    archived: bool | None,
    session_ids: Collection[str],
    other_folders: Sequence[str],
    *,
    with_copies: bool = False,
    only_ids: bool = False,
) -> list[ListedSession]:
    """Rows for ``ProxyStore.list_rows_to_insert``, newest first. ``only_ids``: of other agents too, only
    ``session_ids``, all of them, for ``ProxyStore.list_by_ids``."""

    def read(index: Index) -> list[ListedSession]:
        own_rows = _select_own(index, agent_folder, cwd, run, session_ids, with_copies=with_copies)
        other_rows = sorted(
            _read_other_rows(
                layout, index, agent_folder, other_folders, archived, cwd, ids=session_ids if only_ids else None
            ),
            key=_get_position,
            reverse=True,
        )
        # The agent's own are all there: its list does not show them, or by an id that is hidden.
        if not only_ids:
            del other_rows[PAGE_ROWS:]
        matching_rows = (
            row for row in complete_rows(layout, own_rows) if archived is None or row.is_archived == archived
        )
        return [*matching_rows, *other_rows]

    return sorted(store_index.query(read, agent_folder, *other_folders), key=_get_position, reverse=True)


def _read_other_rows(
    layout: Layout,
    index: Index,
    agent_folder: str,
    other_folders: Sequence[str],
    archived: bool | None,
    cwd: str | None,
    *,
    position: _Position | None = None,
    limit: int = PAGE_ROWS,
    ids: Collection[str] | None = None,
) -> Iterator[ListedSession]:
    """At most ``limit`` rows of each other agent, for this agent's list. ``position``: only those that follow it in the
    list. ``ids``: only those with these ids."""
    if not other_folders or archived is True:
        return  # what is archived here is not listed again as another agent's
    own_state = read_state(layout, agent_folder)
    hidden_ids = _select_copy_ids(index, agent_folder).union(
        own_state.hidden if archived is False else own_state.deleted_ids
    )
    hidden_names = _group_names(hidden_ids)
    only_names = _group_names(ids) if ids is not None else None
    for folder in other_folders:
        rows = _select_others(
            index,
            folder,
            cwd,
            position,
            limit,
            hidden_names.get(folder, set()).union(read_state(layout, folder).archived),
            only_names.get(folder, set()) if only_names is not None else None,
        )
        for row in complete_rows(layout, rows):
            id = proxy_ids.make_other_agents_id(folder, row.session_id)
            if proxy_ids.parse_other_agents_id(id) is not None:  # else the folder has a name that no id can have
                yield _make_row(row, id, own_state)


def _group_names(ids: Collection[str]) -> dict[str, set[str]]:
    """The transcripts of the other agents' sessions that have rows with these ids, by the agent's folder."""
    names: dict[str, set[str]] = {}
    for source in filter(None, map(proxy_ids.parse_other_agents_id, ids)):
        names.setdefault(source[0], set()).add(file_name(source[1]))
    return names


def _make_row(row: ListedSession, id: str, state: JournalState) -> ListedSession:
    name = name_agent(row.agent_folder)
    title = state.titles.get(file_name(id)) or (f"{row.title}{_AGENT_SEPARATOR}{name}" if row.title else name)
    own_meta = {"agent": name} | ({"machine": row.machine} if row.machine else {})
    return replace(row, session_id=id, title=title, meta={"acp-proxy": own_meta})


def _select_own(
    index: Index, agent_folder: str, cwd: str | None, run: str, session_ids: Collection[str], *, with_copies: bool
) -> list[ListedSession]:
    """These of the agent's sessions, and if ``with_copies``, those of other agents and machines."""
    test = "(name IN (SELECT value FROM json_each(?)) OR (? AND session >= ? AND session < ?))"
    values = [json.dumps([file_name(session_id) for session_id in session_ids]), with_copies, *COPY_ID_RANGE]
    return index.select_listed(agent_folder, cwd, run=run, test=test, values=values)


def _select_copy_ids(index: Index, agent_folder: str) -> set[str]:
    """The ids of an agent's copies, also of those that no list shows."""
    query = "SELECT session FROM transcripts WHERE agent = ? AND session >= ? AND session < ?"
    return {decode_id(session_id) for (session_id,) in index.select(query, [agent_folder, *COPY_ID_RANGE])}


def _select_others(
    index: Index,
    agent_folder: str,
    cwd: str | None,
    position: _Position | None,
    limit: int,
    hidden_names: Collection[str],
    only_names: Collection[str] | None,
) -> list[ListedSession]:
    """Another agent's listed sessions, newest first; without copies that nobody has continued yet."""
    test = "NOT (session >= ? AND session < ? AND json_extract(info, '$.lastRun') = ?)"
    values: list[object] = [*COPY_ID_RANGE, CONTINUED_RUN]
    if position is not None:
        test += " AND updated <= ? AND (updated, CAST(? || session AS BLOB)) < (?, ?)"
        values += [position[0], proxy_ids.make_other_agents_id(agent_folder, ""), *position]
    return index.select_listed(
        agent_folder, cwd, hidden_names=hidden_names, only_names=only_names, test=test, values=values, limit=limit
    )


def _get_position(row: ListedSession) -> _Position:
    return row.updated, encode_id(row.session_id)
