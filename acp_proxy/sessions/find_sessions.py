"""Queries of the index for commands: sessions of all agents, newest first, and the sessions that a user names by id.

Rows are read page by page: the first ones come at once even from a large store, and no lock on the index is held while
a user looks at them. Sessions without a turn are left out; sessions without a directory, and those set aside, are not.
"""

import heapq
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from acp_proxy.protocol import proxy_ids
from acp_proxy.store import same_directory
from acp_proxy.store.index_database import COLUMNS, PAGE_ROWS, Index, ListedSession, decode_id, decode_row, encode_id
from acp_proxy.store.queries import COPY_ID_RANGE
from acp_proxy.transcript.file_names import ASIDE, COPY, has_generated_form, make_copy_id

if TYPE_CHECKING:
    from acp_proxy.store.store_index import StoreIndex

_FIRST_PAGE_ROWS = 64
"""The first rows that are read of each agent: more than a screen."""
_MOST_NAMED = 500
"""The most sessions that are named: far more than a user wants to choose from."""

_NUMBERED_ID = re.compile(rf"(.+?)(({ASIDE}[0-9]+)+)", re.DOTALL)
NUMBER_SQL = f"substr(name, instr(name || '{ASIDE}', '{ASIDE}'))"
"""SQL for the part of a transcript's name after its hash (``file_names.find_aside_suffix``)."""

LAST_USED_SQL = "max(updated, created, coalesce(json_extract(state, '$.last'), ''))"
"""SQL for the time when something was last said in a session. The time of change that the agent reports may be older;
a copy is as new as its making."""

ON_BRANCH_SQL = "json_extract(info, '$.git.branch') = ?"
"""SQL for whether a session began on a Git branch."""

T = TypeVar("T")


class ListFilter(Struct, frozen=True):
    """A filter: the agents with these folders; the directory ``cwd``, if given, and with ``includes_below`` those below
    it; last active from ``since`` to before ``until``, if given, in transcript format."""

    agent_folders: Sequence[str]
    cwd: str | None = None
    since: str = ""
    until: str = ""
    includes_below: bool = False
    branch: str = ""
    """The Git branch on which it began, if given."""
    names: Mapping[str, Collection[str]] = MappingProxyType({})
    """By the agent's folder: only these transcripts; of other agents, all. They are few: each page looks all of them
    up."""


class _Stream(Struct, frozen=True):
    """The part of the index that one of its SQL indexes has in order: an agent's listed or unlisted rows."""

    agent_folder: str
    is_listed: bool


def list_newest(store_index: "StoreIndex", scope: ListFilter) -> Iterator[ListedSession]:
    """The matching sessions that have a turn, newest first. Only the first pages catch up: a list does not change while
    a user looks at it. Raises Unreadable, also while iterating."""
    streams = [_Stream(agent_folder, is_listed) for agent_folder in scope.agent_folders for is_listed in (True, False)]
    first_pages = store_index.query(
        lambda index: [_select_page(index, stream, scope, None, _FIRST_PAGE_ROWS) for stream in streams],
        *scope.agent_folders,
    )
    streamed_rows = (
        _iterate_stream(store_index, stream, scope, page) for stream, page in zip(streams, first_pages, strict=True)
    )
    return (row for row in heapq.merge(*streamed_rows, key=_sort_key, reverse=True) if row.prompt_count)


def find_named(index: Index, scope: ListFilter, selector: str, deleted: Collection[str] = ()) -> list[ListedSession]:
    """The sessions that a user means by ``selector``, newest first, limited: an exact id, else the start of one.

    ``selector`` may also be a copy's short id or the start of it, a transcript's file name, or ``id~1`` for a session
    whose id belongs to a newer one: it is found only so. ``deleted``: ids of deleted sessions. An empty ``selector``
    finds nothing, even if there is only one session.
    """
    if rows := find_copies_by_short_id(index, scope, selector):
        return rows
    ids = [_NumberedId(selector, ""), *_split_number(selector)]
    for id in ids:
        if rows := _select_prompted(
            index, scope, f"session = ? AND {NUMBER_SQL} = ?", [encode_id(id.session_id), id.number]
        ):
            return rows
    if has_generated_form(selector) and (rows := _select_prompted(index, scope, "name = ?", [selector])):
        return rows
    # An id that exists or existed is never taken as the start of another one: a script that deletes an id twice must
    # delete one session, not a second one that happens to begin alike.
    if not selector or any(id.session_id in deleted or _has_id(index, scope, id.session_id) for id in ids):
        return []
    for id in ids:
        first, end = encode_id(id.session_id), encode_id(id.session_id) + b"\xff"
        test = f"session >= ? AND session < ? AND {NUMBER_SQL} = ?"
        if rows := _select_prompted(index, scope, test, [first, end, id.number]):
            return rows
    return []


def find_copies_of(index: Index, agent_folder: str, listed: ListedSession) -> list[ListedSession]:
    """An agent's copies of another agent's session, newest first."""
    first_id = proxy_ids.make_other_agents_id(listed.agent_folder, listed.session_id)
    scope = ListFilter([agent_folder])
    end = encode_id(first_id) + b"/"  # what follows the dot before a number
    rows = _select_prompted(index, scope, "session >= ? AND session < ?", [encode_id(first_id), end])
    return [row for row in rows if re.fullmatch(re.escape(first_id) + r"(\.\d+)?", row.session_id)]


class _NumberedId(Struct, frozen=True):
    """A session's id, and what was added to its transcript's name when it was set aside: ``~1``, or nothing."""

    session_id: str
    number: str


def _split_number(name: str) -> list[_NumberedId]:
    """``id~1`` as id and number; nothing if it has no number."""
    match = _NUMBERED_ID.fullmatch(name)
    return [_NumberedId(match[1], match[2])] if match else []


def find_copies_by_short_id(index: Index, scope: ListFilter, selector: str) -> list[ListedSession]:
    """The copies whose short id (``file_names.make_copy_id``) starts with this. The index has no short ids, since they
    depend on the folder: of each copy, it is made here."""
    if not selector.startswith(COPY):
        return []
    test = f"session >= ? AND session < ? AND agent IN ({_format_placeholders(scope.agent_folders)})"
    query = f"SELECT agent, name, session FROM transcripts WHERE {test}"
    candidates = index.select(query, [*COPY_ID_RANGE, *scope.agent_folders])
    copies = [
        (agent_folder, name)
        for agent_folder, name, id in candidates
        if (make_copy_id(agent_folder, name, decode_id(id)) or "").startswith(selector)
    ]
    names_json = json.dumps([name for _, name in copies])
    rows = _select_prompted(index, scope, "name IN (SELECT value FROM json_each(?))", [names_json])
    return [row for row in rows if (row.agent_folder, row.name) in copies]


def _select_prompted(index: Index, scope: ListFilter, test: str, values: Sequence[object]) -> list[ListedSession]:
    """The rows that pass a condition and have a turn, newest first. ``values``: the condition's."""
    folders = _format_placeholders(scope.agent_folders)
    raw_rows = index.select(
        f"SELECT {COLUMNS} FROM transcripts WHERE (agent, name) IN (SELECT agent, name FROM transcripts"
        f" WHERE {test} AND agent IN ({folders}) ORDER BY updated DESC LIMIT {_MOST_NAMED})"
        " ORDER BY listed DESC",
        [*values, *scope.agent_folders],
    )
    rows = [row for row in (decode_row(raw_row) for raw_row in raw_rows) if row.prompt_count]
    return sorted(rows, key=_sort_key, reverse=True)


def _has_id(index: Index, scope: ListFilter, session_id: str) -> bool:
    """Whether this is a whole id, even of a session without a prompt or one that was set aside."""
    test = f"session = ? AND agent IN ({_format_placeholders(scope.agent_folders)})"
    return bool(
        index.select(f"SELECT 1 FROM transcripts WHERE {test} LIMIT 1", [encode_id(session_id), *scope.agent_folders])
    )


def find_titled(sessions: Iterable[tuple[T, str | None]], title_part: str) -> list[T]:
    """Of sessions with their titles: those with the title ``title_part``, else those whose title contains it, in any
    case; none if ``title_part`` is empty."""
    part = title_part.casefold()
    matches = [(session, title) for session, title in sessions if title and part and part in title.casefold()]
    return [session for session, title in matches if title == title_part] or [session for session, _ in matches]


def find_ids_alike(index: Index, session_ids: Sequence[str], length: int) -> list[str]:
    """All session ids that share their first ``length`` bytes with one of ``session_ids``."""
    beginnings = list({encode_id(session_id)[:length] for session_id in session_ids})
    rows = index.select(
        f"SELECT DISTINCT session FROM transcripts WHERE substr(session, 1, {length})"
        f" IN ({_format_placeholders(beginnings)})",
        beginnings,
    )
    return [decode_id(session_id) for (session_id,) in rows]


def find_subagents(index: Index) -> dict[tuple[str, str], set[str]]:
    """By the agent's folder and the name of each transcript: the ids of the sessions that its subagents have."""
    query = "SELECT agent, name, subagent.value FROM transcripts, json_each(state, '$.subagents') AS subagent"
    named_ids: dict[tuple[str, str], set[str]] = {}
    for agent_folder, name, session_id in index.select(query, []):
        named_ids.setdefault((agent_folder, name), set()).add(session_id)
    return named_ids


def match_directories(
    index: Index, agent_folder: str, cwd: str, *, includes_below: bool
) -> tuple[str, Sequence[object]]:
    """A condition for an agent's sessions in a directory, or also in those below it; and its values."""
    if not includes_below:
        return index.match_directory(agent_folder, cwd)
    tests, values = [], list[object]()
    for column, path in (
        ("place", same_directory.resolve_directory(cwd)),
        ("spelled", same_directory.normalize_directory(cwd)),
    ):
        first, end = same_directory.find_range_below(path)
        tests.append(f"{column} = ? OR ({column} >= ? AND {column} < ?)")
        values += [encode_id(path), encode_id(first), encode_id(end)]
    return f"({' OR '.join(tests)})", values


def list_including_unprompted(index: Index) -> list[ListedSession]:
    """Every session, even without a prompt, with the time when something was last said in it; newest first."""
    columns = COLUMNS.replace("updated", LAST_USED_SQL)
    rows = index.select(f"SELECT {columns} FROM transcripts ORDER BY {LAST_USED_SQL} DESC, session DESC", ())
    return [decode_row(row) for row in rows]


def _iterate_stream(
    store_index: "StoreIndex", stream: _Stream, scope: ListFilter, page: list[ListedSession]
) -> Iterator[ListedSession]:
    size = _FIRST_PAGE_ROWS
    while True:
        yield from page
        if len(page) != size:
            return
        last_key, size = _get_page_key(page[-1]), PAGE_ROWS
        page = store_index.query(partial(_select_page, stream=stream, scope=scope, last_key=last_key, size=PAGE_ROWS))


def _select_page(
    index: Index, stream: _Stream, scope: ListFilter, last_key: tuple[str, bytes, str] | None, size: int
) -> list[ListedSession]:
    """A page of a stream, after the row with the key ``last_key``; from an index in memory all rows, since the next
    query would have to build that index again."""
    names = scope.names.get(stream.agent_folder)
    # SQLite uses no index for a column with a plus: else it would read every row in the order of time.
    unindexed = "+" if names is not None else ""
    query = [f"SELECT {COLUMNS} FROM transcripts WHERE agent = ? AND {unindexed}listed = ? AND {unindexed}updated >= ?"]
    values: list[object] = [stream.agent_folder, int(stream.is_listed), scope.since]
    if names is not None:
        query.append("AND name IN (SELECT value FROM json_each(?))")
        values.append(json.dumps(list(names)))
    if scope.until:
        query.append(f"AND {unindexed}updated < ?")
        values.append(scope.until)
    if scope.cwd is not None:
        test, test_values = match_directories(
            index, stream.agent_folder, scope.cwd, includes_below=scope.includes_below
        )
        query.append(f"AND {test}")
        values += test_values
    if scope.branch:
        query.append(f"AND {ON_BRANCH_SQL}")
        values.append(scope.branch.encode(errors="surrogateescape").decode(errors="replace"))  # as the header has it
    if last_key is not None:
        query.append("AND (updated, session, name) < (?, ?, ?)")
        values += last_key
    query.append(f"ORDER BY updated DESC, session DESC, name DESC LIMIT {size if index.is_on_disk else -1}")
    return [decode_row(row) for row in index.select(" ".join(query), values)]


def _sort_key(row: ListedSession) -> tuple[str, bool, bytes]:
    """Newest first, if reversed. At equal times, an original comes before its copy."""
    return row.updated, row.copy_of is None, encode_id(row.session_id)


def _get_page_key(row: ListedSession) -> tuple[str, bytes, str]:
    """What the next page follows: SQLite's values for the order of a stream."""
    return row.updated, encode_id(row.session_id), row.name


def _format_placeholders(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))
