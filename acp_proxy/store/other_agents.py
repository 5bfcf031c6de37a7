"""Sessions that lists show beside an agent's own: sessions that continue in others of the agent, copies of other
agents' sessions, sessions of other machines, and rows of other agents' sessions.

A row has an id of ours (``proxy_ids.is_proxy_id``) and the other agent's name. It is left out if this agent has the
copy that it would become, or if it was deleted or archived on either side.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from msgspec.structs import replace

from acp_proxy.protocol import proxy_ids
from acp_proxy.store import queries
from acp_proxy.store.fork import CONTINUED_RUN
from acp_proxy.store.index import (
    COLUMNS,
    PAGE_ROWS,
    Index,
    ListedSession,
    Page,
    decode_cursor,
    decode_id,
    decode_row,
    encode_binding,
    encode_cursor,
    encode_id,
)
from acp_proxy.store.journal import JournalState
from acp_proxy.store.layout import Layout
from acp_proxy.store.queries import COPY_ID_RANGE, CatchUpAndQuery, match_directory
from acp_proxy.transcript.file_names import file_name, name_agent

_AGENT_SEPARATOR = " · "
"""Stands between a row's title and the other agent's name."""
_Position = tuple[str, bytes]


def list_rows_to_join(
    layout: Layout,
    catch_up_and_query: CatchUpAndQuery,
    agent_folder: str,
    *,
    cwd: str | None,
    run: str,
    archived: bool | None,
    session_ids: Collection[str],
    with_copies: bool,
    other_folders: Sequence[str],
) -> list[ListedSession]:
    """The rows that join the first page of an agent's own list, newest first, at most a page. Raises Unreadable.

    ``cwd``, ``run``, ``archived``: as for ``ProxyStore.list_page``. ``session_ids``, ``with_copies``,
    ``other_folders``: as for ``ProxyStore.list_rows_to_join``.
    """
    row_reader = OtherAgentsRowReader(layout, agent_folder, archived)

    def read(index: Index) -> list[ListedSession]:
        own_rows = _select_own(index, agent_folder, cwd, run, map(file_name, session_ids), with_copies)
        matching = [
            row for row in queries.complete_rows(layout, own_rows) if archived is None or row.is_archived == archived
        ]
        return [*matching, *row_reader.read_rows(index, other_folders, cwd, None, PAGE_ROWS)]

    return sorted(catch_up_and_query(read, agent_folder, *other_folders), key=_get_position, reverse=True)[:PAGE_ROWS]


def list_by_ids(
    layout: Layout,
    catch_up_and_query: CatchUpAndQuery,
    agent_folder: str,
    run: str,
    session_ids: Collection[str],
    other_folders: Sequence[str],
) -> list[ListedSession]:
    """The rows of these sessions, as ``ProxyStore.list_by_ids`` has them. Raises Unreadable."""
    row_reader = OtherAgentsRowReader(layout, agent_folder, None)

    def read(index: Index) -> list[ListedSession]:
        own_rows = _select_own(index, agent_folder, None, run, map(file_name, session_ids), with_copies=False)
        return [
            *queries.complete_rows(layout, own_rows),
            *row_reader.read_rows(index, other_folders, None, None, PAGE_ROWS, session_ids),
        ]

    return sorted(catch_up_and_query(read, agent_folder, *other_folders), key=_get_position, reverse=True)


def list_with_others(
    layout: Layout,
    catch_up_and_query: CatchUpAndQuery,
    select_own: Callable[[Index], Page],
    agent_folder: str,
    cwd: str | None,
    cursor: str | None,
    row_reader: "OtherAgentsRowReader",
    other_folders: Sequence[str],
) -> Page:
    """A page of an agent's list with the rows of others among its own. Raises InvalidCursor, Unreadable.

    ``select_own``: selects the same page without them.
    """
    binding = encode_binding(agent_folder, cwd)
    position = decode_cursor(cursor, binding) if cursor is not None else None

    def read(index: Index) -> tuple[Page, list[ListedSession]]:
        return select_own(index), list(row_reader.read_rows(index, other_folders, cwd, position, PAGE_ROWS + 1))

    own_page, other_rows = catch_up_and_query(read, agent_folder, *other_folders)  # one query, as each has its own time
    merged = sorted([*queries.complete_rows(layout, own_page.rows), *other_rows], key=_get_position, reverse=True)
    is_last = len(merged) <= PAGE_ROWS and own_page.next is None
    return Page(
        merged[:PAGE_ROWS],
        None if is_last else encode_cursor(binding, *_get_position(merged[:PAGE_ROWS][-1])),
    )


class OtherAgentsRowReader:
    """Reads the rows of other agents' sessions for one agent's list."""

    def __init__(self, layout: Layout, agent_folder: str, archived: bool | None) -> None:
        self._layout = layout
        self._agent_folder = agent_folder
        self._archived = archived
        self._state = queries.read_state(layout, agent_folder)

    def read_rows(
        self,
        index: Index,
        other_folders: Iterable[str],
        cwd: str | None,
        position: _Position | None,
        size: int,
        ids: Collection[str] | None = None,
    ) -> Iterator[ListedSession]:
        """At most ``size`` rows of each agent. ``position``: only those that follow it in the list. ``ids``: only those
        with these ids."""
        if self._archived is True:
            return  # what is archived here is not listed again as another agent's
        hidden_ids = set(self._state.hidden if self._archived is False else self._state.deleted_ids) | _select_copy_ids(
            index, self._agent_folder
        )
        hidden_originals = [source for hidden_id in hidden_ids if (source := proxy_ids.parse_id(hidden_id)) is not None]
        for folder in other_folders:
            names = {file_name(session_id) for id_folder, session_id in hidden_originals if id_folder == folder}
            other_state = queries.read_state(self._layout, folder)
            originals = [proxy_ids.parse_id(id) for id in ids] if ids is not None else None
            only_names = (
                [file_name(source[1]) for source in originals if source and source[0] == folder]
                if originals is not None
                else None
            )
            for row in queries.complete_rows(
                self._layout,
                _select_others(index, folder, cwd, position, size, names.union(other_state.archived), only_names),
            ):
                id = proxy_ids.make_id(folder, row.session_id)
                if proxy_ids.parse_id(id) is not None:  # else the folder has a name that no id can have
                    yield _make_row(row, id, self._state)


def _make_row(row: ListedSession, id: str, state: JournalState) -> ListedSession:
    name = name_agent(row.agent_folder)
    title = state.titles.get(file_name(id)) or (f"{row.title}{_AGENT_SEPARATOR}{name}" if row.title else name)
    own_meta = {"agent": name} | ({"machine": row.machine} if row.machine else {})
    return replace(row, session_id=id, title=title, meta={"acp-proxy": own_meta})


def _select_own(
    index: Index, agent_folder: str, cwd: str | None, run: str, names: Iterable[str], with_copies: bool
) -> list[ListedSession]:
    """The agent's sessions with these transcripts, and if ``with_copies``, those of other agents and machines."""
    test, values = match_directory(index, agent_folder, cwd) if cwd is not None else ("1", list[object]())
    query = (
        f"SELECT {COLUMNS} FROM transcripts WHERE agent = ? AND listed = 1 AND {test}"
        " AND (name IN (SELECT value FROM json_each(?)) OR (? AND session >= ? AND session < ?))"
        " ORDER BY updated DESC, session DESC LIMIT ?"
    )
    parameters = [agent_folder, *values, json.dumps(list(names)), with_copies, *COPY_ID_RANGE, PAGE_ROWS]
    return [decode_row(row, own_run=run) for row in index.select(query, parameters)]


def _select_copy_ids(index: Index, agent_folder: str) -> set[str]:
    """The ids of an agent's copies, also of those that no list shows."""
    query = "SELECT session FROM transcripts WHERE agent = ? AND session >= ? AND session < ?"
    return {decode_id(session_id) for (session_id,) in index.select(query, [agent_folder, *COPY_ID_RANGE])}


def _select_others(
    index: Index,
    agent_folder: str,
    cwd: str | None,
    position: _Position | None,
    size: int,
    hidden_names: Collection[str],
    only_names: Collection[str] | None = None,
) -> list[ListedSession]:
    """Another agent's listed sessions, newest first; without copies that nobody has continued yet.

    ``position``: as for ``OtherAgentsRowReader.read_rows``. ``hidden_names``, ``only_names``: as for
    ``Index.select_page``.
    """
    test, values = match_directory(index, agent_folder, cwd) if cwd is not None else ("1", list[object]())
    query = [
        f"SELECT {COLUMNS} FROM transcripts WHERE agent = ? AND listed = 1 AND {test}",
        "AND name NOT IN (SELECT value FROM json_each(?))",
        "AND name IN (SELECT value FROM json_each(?))" if only_names is not None else "",
        "AND NOT (session >= ? AND session < ? AND json_extract(info, '$.lastRun') = ?)",
        "AND updated <= ? AND (updated, CAST(? || session AS BLOB)) < (?, ?)" if position is not None else "",
        "ORDER BY updated DESC, session DESC LIMIT ?",
    ]
    names = [json.dumps(list(some_names)) for some_names in (hidden_names, only_names) if some_names is not None]
    parameters = [agent_folder, *values, *names, *COPY_ID_RANGE, CONTINUED_RUN]
    position_values = [position[0], proxy_ids.make_id(agent_folder, ""), *position] if position is not None else []
    return [decode_row(row) for row in index.select(" ".join(query), [*parameters, *position_values, size])]


def _get_position(row: ListedSession) -> _Position:
    return row.updated, encode_id(row.session_id)
