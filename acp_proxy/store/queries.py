"""Queries of the index for commands: sessions of all agents, newest first, and the sessions that a user names by id.
Also the titles of sessions in an agent's own list.

Rows are read page by page: the first ones come at once even from a large store, and no lock on the index is held while
a user looks at them. Sessions without a turn are left out; sessions without a directory, and those set aside, are not.
"""

import heapq
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from msgspec import Struct

from acp_proxy.protocol import proxy_ids
from acp_proxy.store import same_directory
from acp_proxy.store.index import COLUMNS, PAGE, Index, ListedSession, blob, decode_row, text
from acp_proxy.transcript.file_names import ASIDE, COPY, is_ours, short_copy

_FIRST = 64  # rows of each agent: more than a screen
_MEANT = 500  # far more than a user wants to choose from

_OLDER = re.compile(rf"(.+?)(({ASIDE}[0-9]+)+)", re.DOTALL)
NUMBER = f"substr(name, instr(name || '{ASIDE}', '{ASIDE}'))"
"""SQL for the part of a transcript's name after its hash (``file_names.aside``)."""

LAST_USED = "max(updated, created, coalesce(json_extract(state, '$.last'), ''))"
"""SQL for the time when something was last said in a session. The time of change that the agent reports may be older;
a copy is as new as its making."""

COPIES = blob(proxy_ids.PREFIX), blob(proxy_ids.PREFIX[:-1] + chr(ord(proxy_ids.PREFIX[-1]) + 1))
"""The ids of copies and of sessions of other machines are from the first to before the second."""

T = TypeVar("T")


class AskIndex(Protocol):
    """Asks the index, after what is marked for these agents was brought in. Raises Unreadable."""

    def __call__(self, question: Callable[[Index], T], *agents: str) -> T: ...


class ListFilter(Struct, frozen=True):
    """A filter: these agents; the directory ``cwd``, if given, and with ``below`` those below it; last active from
    ``since`` to before ``until``, if given, in transcript format."""

    agents: Sequence[str]
    cwd: str | None = None
    since: str = ""
    until: str = ""
    below: bool = False


class _Stream(Struct, frozen=True):
    """The part of the index that one of its SQL indexes has in order: an agent's listed or unlisted rows."""

    agent: str
    is_listed: bool


def list_newest(ask: AskIndex, wanted: ListFilter) -> Iterator[ListedSession]:
    """The matching sessions that have a turn, newest first. Raises Unreadable, also while iterating."""
    streams = [_Stream(agent, is_listed) for agent in wanted.agents for is_listed in (True, False)]
    first = ask(lambda index: [_page(index, stream, wanted, None, _FIRST) for stream in streams], *wanted.agents)
    whole = (_whole(ask, stream, wanted, page) for stream, page in zip(streams, first, strict=True))
    return (row for row in heapq.merge(*whole, key=_time, reverse=True) if row.prompts)


def find_named(index: Index, wanted: ListFilter, given: str, gone: Collection[str] = ()) -> list[ListedSession]:
    """The sessions with exactly this id or transcript name, else those whose id starts with it. Newest first, limited.
    ``given`` may also be the short id of a copy (``file_names.short_copy``).

    A session whose id belongs to a newer one now is found only by its id with the number in its transcript's name
    (``id~1``). An id that exists, or existed (``gone``: ids of deleted sessions), is never taken as the start of
    another one: deleting an id twice deletes one session. An empty ``given`` finds nothing, even if there is only one
    session.
    """
    if given.startswith(COPY) and (copies := _short(index, wanted, given)):
        return copies
    older = _OLDER.fullmatch(given)
    pairs = [(given, ""), *([(older[1], older[2])] if older else [])]
    for test, values in _exactly(given, pairs):
        if rows := _prompted(index, wanted, test, values):
            return rows
    if not given or any(session in gone or _is_an_id(index, wanted, session) for session, _ in pairs):
        return []
    for session, number in pairs:
        values = [blob(session), blob(session) + b"\xff", number]
        if rows := _prompted(index, wanted, f"session >= ? AND session < ? AND {NUMBER} = ?", values):
            return rows
    return []


def find_titled(sessions: Iterable[tuple[T, str | None]], given: str) -> list[T]:
    """Of sessions with their titles: those with the title ``given``, else those whose title contains it, in any case.

    An empty ``given`` finds nothing.
    """
    part = given.casefold()
    near = [(one, title) for one, title in sessions if title and part and part in title.casefold()]
    return [one for one, title in near if title == given] or [one for one, _ in near]


def find_titles(index: Index, agent: str, names: Collection[str]) -> dict[str, str]:
    """The titles of those of an agent's transcripts that have one, by session id."""
    query = (
        "SELECT session, json_extract(info, '$.title') FROM transcripts"
        " WHERE agent = ? AND name IN (SELECT value FROM json_each(?))"
    )
    return {text(session): title for session, title in index.select(query, [agent, json.dumps(list(names))]) if title}


def _exactly(given: str, pairs: Sequence[tuple[str, str]]) -> Iterator[tuple[str, list[object]]]:
    """Conditions for an exact match, each with its values, in the order to try them."""
    for session, number in pairs:
        yield f"session = ? AND {NUMBER} = ?", [blob(session), number]
    if is_ours(given):
        yield "name = ?", [given]


def _short(index: Index, wanted: ListFilter, given: str) -> list[ListedSession]:
    """The copies whose short id starts with this."""
    test = f"session >= ? AND session < ? AND agent IN ({_marks(wanted.agents)})"
    query = f"SELECT agent, name, session FROM transcripts WHERE {test}"
    found = index.select(query, [*COPIES, *wanted.agents])
    copies = [(agent, name) for agent, name, id in found if (short_copy(agent, name, text(id)) or "").startswith(given)]
    names = json.dumps([name for _, name in copies])
    rows = _prompted(index, wanted, "name IN (SELECT value FROM json_each(?))", [names])
    return [row for row in rows if (row.agent, row.name) in copies]


def _prompted(index: Index, wanted: ListFilter, test: str, values: Sequence[object]) -> list[ListedSession]:
    found = index.select(
        f"SELECT {COLUMNS} FROM transcripts WHERE (agent, name) IN (SELECT agent, name FROM transcripts"
        f" WHERE {test} AND agent IN ({_marks(wanted.agents)}) ORDER BY updated DESC LIMIT {_MEANT})"
        " ORDER BY listed DESC",
        [*values, *wanted.agents],
    )
    rows = [row for row in (decode_row(each, "") for each in found) if row.prompts]
    return sorted(rows, key=_time, reverse=True)


def _is_an_id(index: Index, wanted: ListFilter, session: str) -> bool:
    """Whether this is a whole id, even of a session without a prompt or one that was set aside."""
    test = f"session = ? AND agent IN ({_marks(wanted.agents)})"
    return bool(index.select(f"SELECT 1 FROM transcripts WHERE {test} LIMIT 1", [blob(session), *wanted.agents]))


def find_ids_alike(index: Index, sessions: Sequence[str], length: int) -> list[str]:
    """All session ids that share their first ``length`` bytes with one of ``sessions``."""
    beginnings = list({blob(session)[:length] for session in sessions})
    found = index.select(
        f"SELECT DISTINCT session FROM transcripts WHERE substr(session, 1, {length}) IN ({_marks(beginnings)})",
        beginnings,
    )
    return [text(session) for (session,) in found]


def match_directory(index: Index, agent: str, cwd: str, *, below: bool) -> tuple[str, Sequence[object]]:
    """A condition for an agent's sessions in a directory, with ``below`` also in those below it; and its values."""
    if not below:
        found = index.find_places(agent, cwd)
        return f"place IN ({_marks(found)})", found
    tests, values = [], list[object]()
    for column, path in (
        ("place", same_directory.resolve_directory(cwd)),
        ("spelled", same_directory.normalize_directory(cwd)),
    ):
        first, end = same_directory.range_below(path)
        tests.append(f"{column} = ? OR ({column} >= ? AND {column} < ?)")
        values += [blob(path), blob(first), blob(end)]
    return f"({' OR '.join(tests)})", values


def list_all(index: Index) -> list[ListedSession]:
    """Every session, even without a prompt, with the time when something was last said in it; newest first."""
    columns = COLUMNS.replace("updated", LAST_USED)
    found = index.select(f"SELECT {columns} FROM transcripts ORDER BY {LAST_USED} DESC, session DESC", ())
    return [decode_row(row, "") for row in found]


def _whole(ask: AskIndex, stream: _Stream, wanted: ListFilter, page: list[ListedSession]) -> Iterator[ListedSession]:
    size = _FIRST
    while True:
        yield from page
        if len(page) != size:
            return
        last, size = _key(page[-1]), PAGE
        page = ask(lambda index, last=last: _page(index, stream, wanted, last, PAGE))  # type: ignore[misc]


def _page(
    index: Index, stream: _Stream, wanted: ListFilter, before: tuple[str, bytes, str] | None, size: int
) -> list[ListedSession]:
    """A page of a stream, after the row with the key ``before``.

    From an index in memory it returns all rows, since the next query would have to build that index again.
    """
    query = [f"SELECT {COLUMNS} FROM transcripts WHERE agent = ? AND listed = ? AND updated >= ?"]
    values: list[object] = [stream.agent, int(stream.is_listed), wanted.since]
    if wanted.until:
        query.append("AND updated < ?")
        values.append(wanted.until)
    if wanted.cwd is not None:
        test, found = match_directory(index, stream.agent, wanted.cwd, below=wanted.below)
        query.append(f"AND {test}")
        values += found
    if before is not None:
        query.append("AND (updated, session, name) < (?, ?, ?)")
        values += before
    query.append(f"ORDER BY updated DESC, session DESC, name DESC LIMIT {size if index.is_on_disk else -1}")
    return [decode_row(row, "") for row in index.select(" ".join(query), values)]


def _time(row: ListedSession) -> tuple[str, bool, bytes]:
    """Sort key. At equal times, an original comes before its copy, and the session that has the id now comes first,
    because it was read first."""
    return row.updated, row.copy_of is None, blob(row.session)


def _key(row: ListedSession) -> tuple[str, bytes, str]:
    return row.updated, blob(row.session), row.name


def _marks(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))
