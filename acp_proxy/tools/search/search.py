"""Searches all transcripts: adds what changed since the last search to the search tables, and looks up the words.

The newest sessions are added first. A match is reported as soon as no newer one can come, and a search that has enough
leaves the rest to the next one. Only the searching process does this, never a relay. The tables are compared with the
index's data on each transcript, so there is nothing else to keep: an interrupted search is continued by the next one,
and a table that is missing or cannot be trusted is rebuilt. Other processes may search, record and delete at the same
time.
"""

import heapq
import json
import sqlite3
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Generic, TypeVar

from acp_proxy.errors import NewerFormat, NoFullText, Unreadable, errno_name
from acp_proxy.protocol import acp, proxy_ids, timestamps
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.sessions.find_sessions import LAST_USED_SQL, ON_BRANCH_SQL, match_directories
from acp_proxy.store.databases import is_emptied
from acp_proxy.store.index_database import COLUMNS, Index, ListedSession, decode_row
from acp_proxy.store.layout import Layout
from acp_proxy.store.queries import complete_rows
from acp_proxy.store.store_index import Progress, is_temporary
from acp_proxy.tools.search.fts_table import (
    Addition,
    Excerpt,
    Extent,
    IndexedTranscript,
    Key,
    PartTable,
    Row,
    SearchTable,
    TranscriptTable,
    TurnText,
    count_seconds,
    decode_second,
    decode_transcript,
    find_or_create,
    make_texts,
)
from acp_proxy.tools.search.query import TurnPart, limit_to_parts, separate_words
from acp_proxy.tools.search.table_files import list_search_tables
from acp_proxy.tools.search.turn_text import BEGINNING, TurnReader
from acp_proxy.transcript import file_names
from acp_proxy.transcript.file_format import Header
from acp_proxy.transcript.reader import TranscriptReader
from acp_proxy.views.near_words import find_near_word, list_near_lengths

DIGITS = "0123456789abcdef"
TRIES = 3 * len(DIGITS)  # each table may be broken, or be removed by a delete
_BATCH_SIZE = 16 * 1024 * 1024
"""Characters added at once, in a transaction per table: other writers wait some hundredths of a second."""
_BATCH_SECONDS = 1.0
"""How much reading an interruption may waste."""
_FIRST_BATCH = 16
"""Transcripts in the first batch, so that the first results come at once. Each later batch has twice as many."""


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A search.

    ``fts_query``: an FTS5 query (``query.make_query``). ``since``, ``until``: from the one time to before the other, in
    transcript format. ``includes_below``: sessions in directories below ``cwd`` count, too. ``branch``: only sessions
    begun on this Git branch. ``parts``: only these parts of the turns; empty: what is said, and titles. ``limit``: the
    most sessions to return; None: all. ``excerpts_per_session``: the most excerpts per session; 0: one of each matching
    turn. ``session_queries``: if any, sessions count in which each of these matches some turn, and of each session the
    fewest such turns; ``fts_query`` is for what one of them matches.
    """

    fts_query: str
    agent_folders: Sequence[str]
    cwd: str | None = None
    since: str | None = None
    limit: int | None = 10
    excerpts_per_session: int = 3
    until: str | None = None
    includes_below: bool = False
    branch: str = ""
    parts: tuple[TurnPart, ...] = ()
    session_queries: tuple[str, ...] = ()

    def change_queries(self, change: Callable[[str], str]) -> "SearchRequest":
        queries = tuple(map(change, self.session_queries))
        return replace(self, fts_query=change(self.fts_query), session_queries=queries)


@dataclass(frozen=True, slots=True)
class Hit:
    """A session that matches.

    ``last_match_at``: when its last matching turn began. ``turns``: the matching turns' numbers; empty if only the
    title matches. ``excerpts``: of the first matching turns, or of the title.
    """

    row: ListedSession
    last_match_at: str
    turns: list[int]
    excerpts: list[Excerpt]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The matching sessions, newest match first. ``is_all``: there are no more."""

    hits: list[Hit]
    is_all: bool


Table = TypeVar("Table", bound=TranscriptTable[Any])
ReportHit = Callable[[Hit], bool]


class TableReplaced(Exception):
    """A table was removed while in use, or was not trustworthy and has been removed."""


def search_store(
    store: CommandStore,
    request: SearchRequest,
    progress: Progress = lambda done, total: None,
    report_hit: ReportHit = lambda hit: True,
) -> SearchResult:
    """Bring the search tables up to date, then return the newest sessions of ``request.agent_folders`` that match.

    ``progress`` is called with the number of transcripts read and the total. ``report_hit`` is called with each match,
    perhaps more than once, as soon as it is found; the search ends if it returns False. Raises Unreadable,
    NoFullText.
    """
    return store.store_index.query(
        lambda index: _search(store.layout, index, request, progress, report_hit), *request.agent_folders
    )


def _search(
    layout: Layout, index: Index, request: SearchRequest, progress: Progress, report_hit: ReportHit
) -> SearchResult:
    """Bring the tables up to date, and search in them. Raises NoFullText, Unreadable; ``sqlite3.Error`` if it is the
    index's."""
    if not index.select("SELECT 1 FROM pragma_module_list WHERE name = 'fts5'", ()):
        raise NoFullText
    if not request.agent_folders:  # do not create tables
        return SearchResult([], is_all=True)
    for _ in range(TRIES):
        with ExitStack() as stack, suppress(TableReplaced):
            try:
                tables, request = _open_tables(layout, index, stack, request)
                running = RunningSearch(tables, request, report_hit)
                for since in tables.update(request.agent_folders, progress):
                    if not running.continue_search(since):
                        break
                return SearchResult(running.hits, running.is_all)
            except OSError as problem:
                raise Unreadable(errno_name(problem)) from problem
    raise Unreadable("EBUSY")


def _open_tables(
    layout: Layout, index: Index, stack: ExitStack, request: SearchRequest
) -> "tuple[SearchTables, SearchRequest]":
    """The tables that have what is asked for, and the request as they answer it. Raises as ``TranscriptTables``."""
    if not request.parts:
        return SearchTables(layout, index, stack), request
    request_for_parts = request.change_queries(lambda fts_query: limit_to_parts(fts_query, request.parts))
    return PartTables(layout, index, stack), request_for_parts


class TranscriptTables(ABC, Generic[Row, Table]):
    """The sixteen tables of one class, opened before any text that will be put into them is read."""

    def __init__(self, layout: Layout, index: Index, stack: ExitStack, table_class: type[Table]) -> None:
        """``stack`` closes the tables. Raises TableReplaced, OSError, Unreadable."""
        self._layout = layout
        self._index = index
        self._table_class = table_class
        self._by_digit: dict[str, Table] = {}
        for digit in DIGITS:
            with self._replace_broken(digit):
                self._by_digit[digit] = stack.enter_context(
                    closing(table_class(find_or_create(layout, digit, table_class)))
                )

    def update(self, agent_folders: Sequence[str], progress: Progress) -> Iterator[int]:
        """Add what changed in these agents' transcripts, the newest first. Raises TableReplaced, OSError, Unreadable.

        Yields after each batch: the second from which on there is nothing more to add; 0 at the end.
        """
        outdated = self._list_outdated(agent_folders)
        done_count = 0
        for count in self._add_in_batches([key for _, key in outdated]):
            done_count += count
            progress(done_count, len(outdated))
            if done_count < len(outdated):
                yield count_seconds(outdated[done_count][0]) + 1
        yield 0

    def measure_outdated(self, agent_folders: Sequence[str]) -> int:
        """The bytes of the transcripts that ``update`` would read. Raises TableReplaced, Unreadable."""
        names = json.dumps([name for _, (_, name) in self._list_outdated(agent_folders)])
        query = (
            "SELECT coalesce(sum(size), 0) FROM transcripts"
            " WHERE agent IN (SELECT value FROM json_each(?)) AND name IN (SELECT value FROM json_each(?))"
        )
        [(size,)] = self._index.select(query, (json.dumps(agent_folders), names))
        return int(size)

    def find_row(self, key: Key) -> ListedSession | None:
        """The session of a transcript, as a list shows it."""
        query = f"SELECT {COLUMNS} FROM transcripts WHERE agent = ? AND name = ?"
        rows = (decode_row(row) for row in self._index.select(query, key))
        return next(complete_rows(self._layout, rows), None)

    def find_keys_in_scope(self, request: "SearchRequest") -> set[Key] | None:
        """The transcripts of sessions in the directory and on the branch that are asked for; None if all are."""
        if request.cwd is None and not request.branch:
            return None
        keys: set[Key] = set()
        for agent_folder in request.agent_folders:
            tests, values = ["agent = ?"], list[object]((agent_folder,))
            if request.cwd is not None:
                test, places = match_directories(
                    self._index, agent_folder, request.cwd, includes_below=request.includes_below
                )
                tests.append(test)
                values += places
            if request.branch:
                tests.append(ON_BRANCH_SQL)
                values.append(request.branch)
            keys.update(self._index.select(f"SELECT agent, name FROM transcripts WHERE {' AND '.join(tests)}", values))
        return keys

    def _list_outdated(self, agent_folders: Sequence[str]) -> list[tuple[str, Key]]:
        """The transcripts whose data in a table differs from the index's, with the times of last use; newest first."""
        in_tables: set[Extent] = set()
        for digit, table in self._by_digit.items():
            with self._replace_broken(digit):
                in_tables.update(table.list_extents())
        # After the tables, as what other processes add to a table is in the index before. In the other order, it would
        # look like text of a transcript that is gone.
        in_index = set(self._index.select("SELECT agent, name, created, inode, size FROM transcripts", ()))
        for agent_folder, name, *_ in in_tables - in_index:
            table = self._by_digit[file_names.find_table_digit(name)]
            if table.path is not None and not self._index.has_row(agent_folder, name):
                table.close()  # Windows does not remove an open file
                self._layout.remove_search_tables(name)  # removed by hand: remove every table with its words
                raise TableReplaced
        outdated_keys = {
            (agent_folder, name) for agent_folder, name, *_ in in_index - in_tables if agent_folder in agent_folders
        }
        if not outdated_keys:
            return []
        query = (  # all at once: 100,000 sessions, one after the other, take many seconds
            f"SELECT {LAST_USED_SQL}, agent, name FROM transcripts"
            " WHERE agent IN (SELECT value FROM json_each(?)) AND name IN (SELECT value FROM json_each(?))"
        )
        names = json.dumps([name for _, name in outdated_keys])
        dated_keys = (
            (last_used, (agent_folder, name))
            for last_used, agent_folder, name in self._index.select(query, (json.dumps(agent_folders), names))
        )
        return sorted((dated_key for dated_key in dated_keys if dated_key[1] in outdated_keys), reverse=True)

    def _add_in_batches(self, keys: list[Key]) -> Iterator[int]:
        """Add transcripts in batches; yields the number of transcripts in each."""
        pending, most_transcripts = deque(keys), _FIRST_BATCH
        while pending:
            batch: dict[str, list[Addition[Row]]] = {}
            size, count, deadline = 0, 0, time.monotonic() + _BATCH_SECONDS
            while pending and count < most_transcripts and size <= _BATCH_SIZE and time.monotonic() < deadline:
                key = pending.popleft()
                digit = file_names.find_table_digit(key[1])
                addition, count = self._read_addition(digit, key), count + 1
                if addition is not None:
                    batch.setdefault(digit, []).append(addition)
                    size += sum(len(turn.text) for turn in addition.turns)
            most_transcripts *= 2
            for digit, additions in batch.items():
                with self._replace_broken(digit):
                    self._by_digit[digit].write(additions)
            yield count

    def _read_addition(self, digit: str, key: Key) -> Addition[Row] | None:
        """What to add for a transcript; None if it cannot be read now."""
        with self._replace_broken(digit):
            table_state = self._by_digit[digit].find_transcript(key)
        try:
            with closing(TranscriptReader(self._layout.transcript_path(*key))) as reader:
                return self._read(key, table_state, reader)
        except FileNotFoundError:  # deleted in the meantime
            return None
        except (OSError, NewerFormat) as problem:
            self._layout.unreadable[key] = problem.with_traceback(None)
            return None

    @abstractmethod
    def _read(self, key: Key, table_state: IndexedTranscript | None, reader: TranscriptReader) -> Addition[Row] | None:
        """What to add for a transcript. ``table_state``: what the table has of it; None: nothing. Raises OSError."""

    @contextmanager
    def _replace_broken(self, digit: str) -> Iterator[None]:
        """Removes a table that turns out not to be trustworthy. Raises TableReplaced, Unreadable."""
        try:
            yield
        except FileNotFoundError as problem:
            raise TableReplaced from problem
        except sqlite3.Error as problem:
            path = self._by_digit[digit].path if digit in self._by_digit else None
            if path is not None and (is_emptied(path) or not path.exists()):
                # A delete removed the file in the meantime, which causes errors of any kind: the table is not broken.
                raise TableReplaced from problem
            if is_temporary(problem):
                raise Unreadable(errno_name(problem)) from problem
            if digit in self._by_digit:
                self._by_digit[digit].close()  # Windows does not remove an open file
            for path in list_search_tables(self._layout, digit, self._table_class.KIND):
                self._layout.remove_search_table(path)
            raise TableReplaced from problem


class SearchTables(TranscriptTables[TurnText, SearchTable]):
    """The tables of words."""

    def __init__(
        self, layout: Layout, index: Index, stack: ExitStack, table_class: type[SearchTable] = SearchTable
    ) -> None:
        """Raises as ``TranscriptTables``."""
        super().__init__(layout, index, stack, table_class)

    def search(self, request: SearchRequest) -> SearchResult:
        """Look up the words in what was added. Raises as ``RunningSearch``."""
        running = RunningSearch(self, request, lambda hit: True)
        running.continue_search()
        return SearchResult(running.hits, running.is_all)

    def find_docs(self, request: SearchRequest) -> dict[str, list[int]]:
        """The matching turns in each table, newest first. Raises TableReplaced, Unreadable."""
        docs_by_table, queries = {}, request.session_queries or (request.fts_query,)
        for digit, table in self._by_digit.items():
            with self._replace_broken(digit):
                found = [table.find_turns(question, request.since, request.until) for question in queries]
                docs_by_table[digit] = _choose_turns(found) if request.session_queries else found[0]
        return docs_by_table

    def find_near_word(self, word: str) -> str | None:
        """The word of the tables that is most like this one, and begins with the same letter; None: none is like it.
        Raises TableReplaced, Unreadable."""
        words = set[str]()
        for digit, table in self._by_digit.items():
            with self._replace_broken(digit):
                words.update(table.list_words(word.casefold()[:1], list_near_lengths(word)))
        return find_near_word(word, words)

    def find_key(self, digit: str, transcript: int) -> Key:
        """The transcript with this id in a table. Raises TableReplaced, Unreadable."""
        with self._replace_broken(digit):
            return self._by_digit[digit].find_key(transcript)

    def find_time(self, digit: str, doc: int) -> str:
        """When a turn began. Raises TableReplaced, Unreadable."""
        with self._replace_broken(digit):
            return self._by_digit[digit].find_time(doc) or timestamps.format_now(decode_second(doc))

    def make_hit(
        self, digit: str, row: ListedSession, stamp: str, docs: list[int], request: SearchRequest
    ) -> tuple[Hit, set[int]]:
        """A session with these matching turns, the last of this time, and their seconds. Raises TableReplaced,
        Unreadable."""
        with self._replace_broken(digit):
            return _make_hit(self._by_digit[digit], row, stamp, docs, request)

    def _read(
        self, key: Key, table_state: IndexedTranscript | None, reader: TranscriptReader
    ) -> Addition[TurnText] | None:
        row = self.find_row(key)
        return read_addition(key, table_state, reader, row.title if row is not None else None)


class PartTables(SearchTables):
    """The tables of the parts of turns."""

    def __init__(self, layout: Layout, index: Index, stack: ExitStack) -> None:
        """Raises as ``TranscriptTables``."""
        super().__init__(layout, index, stack, PartTable)

    def _read(
        self, key: Key, table_state: IndexedTranscript | None, reader: TranscriptReader
    ) -> Addition[TurnText] | None:
        from acp_proxy.tools.search.turn_parts import read_turn_parts  # only these tables need whole conversations

        return read_turn_parts(key, table_state, reader)


class RunningSearch:
    """A search in tables that are still being filled.

    ``hits``: so far, newest match first. ``is_all``: there are no more. Raises TableReplaced, Unreadable;
    ``sqlite3.Error`` if it is the index's.
    """

    def __init__(self, tables: SearchTables, request: SearchRequest, report_hit: ReportHit) -> None:
        self.hits: list[Hit] = []
        self.is_all = False
        self._tables = tables
        self._request = request
        self._report_hit = report_hit
        self._seen_hits = SeenHits()
        self._seen_keys = set[Key]()
        self._earliest = count_seconds(request.since) if request.since is not None else 0
        self._keys_in_scope = tables.find_keys_in_scope(request)

    def continue_search(self, since: int = 0) -> bool:
        """Add the matches that began in this second or later. Returns False if the search has ended."""
        docs = self._tables.find_docs(self._request)
        by_transcript: dict[tuple[str, int], list[int]] = {}
        for digit, docs_of_table in docs.items():
            for doc in docs_of_table:
                by_transcript.setdefault((digit, decode_transcript(doc)), []).append(doc)
        for stamp, row, digit, matches in self._iterate_rows(docs, by_transcript):
            is_full = len(self.hits) == self._request.limit
            if count_seconds(stamp) < since and not is_full:
                return True
            hit, times = self._tables.make_hit(digit, row, stamp, matches, self._request)
            self._seen_keys.add((row.agent_folder, row.name))
            if self._seen_hits.has(hit, times):
                continue
            if is_full:
                return False
            self.hits.append(hit)
            if not self._report_hit(hit):
                return False
        self.is_all = since <= self._earliest
        return not self.is_all

    def _iterate_rows(
        self, docs: dict[str, list[int]], by_transcript: dict[tuple[str, int], list[int]]
    ) -> Iterator[tuple[str, ListedSession, str, list[int]]]:
        """The new sessions of these turns, newest first, with the time of the last turn, the digit and the turns; an
        original before its copy.

        The tables order turns by a second that may be later than theirs (``decode_second``). So a session waits until
        all that follow are of an earlier second than its own.
        """
        row_heap: list[tuple[float, bool, Key, str, ListedSession, str, list[int]]] = []
        for second, docs_of_second in groupby(_iterate_newest(docs), key=lambda dated_doc: dated_doc[0]):
            while row_heap and int(-row_heap[0][0]) > second:
                yield heapq.heappop(row_heap)[3:]
            for _, digit, transcript in docs_of_second:
                key = self._tables.find_key(digit, transcript)
                if key in self._seen_keys or key[0] not in self._request.agent_folders:
                    continue
                row = self._tables.find_row(key) if self._keys_in_scope is None or key in self._keys_in_scope else None
                if row is not None and row.prompt_count:
                    matches = by_transcript[digit, transcript]
                    stamp = self._tables.find_time(digit, matches[0])
                    sort_key = -(timestamps.parse_seconds(stamp) or 0.0)
                    heapq.heappush(row_heap, (sort_key, row.copy_of is not None, key, stamp, row, digit, matches))
        while row_heap:
            yield heapq.heappop(row_heap)[3:]


def read_addition(
    key: Key, table_state: IndexedTranscript | None, reader: TranscriptReader, title: str | None
) -> Addition[TurnText] | None:
    """What to add for a transcript. ``table_state``: what the table has of it; None: nothing. Raises OSError."""
    header = reader.header or reader.rebuild_header()
    if header is None:
        return None
    is_continued = table_state is not None and _is_continued(table_state, header.created_at, reader)
    start = table_state.last_turn if table_state is not None and is_continued else BEGINNING
    turns = TurnReader(start)
    texts = [TurnText(0, _find_beginning(reader, header), (separate_words(title), ""))] if title else []
    texts += [
        TurnText(turn.number, turn.started_at, make_texts(turn)) for turn in turns.read(reader) if any(turn.texts)
    ]
    new_state = IndexedTranscript(header.created_at, reader.inode, turns.read_size, turns.last_start)
    return Addition(key, table_state, new_state, start.turns, texts)


def _find_beginning(reader: TranscriptReader, header: Header) -> str:
    """When the session began; of a copy, when its original did, so that both are found at the same time."""
    first = next(reader.read_lines(), None) if proxy_ids.parse_other_agents_id(header.session_id) is not None else None
    note = first.entry.note if first is not None and first.entry is not None else None
    return (acp.text(note, "createdAt") if note is not None else None) or header.created_at


def _is_continued(table_state: IndexedTranscript, created: str, reader: TranscriptReader) -> bool:
    """Whether the transcript is the one seen before, perhaps longer. Compressing one changes its inode."""
    is_there = table_state.inode == reader.inode and table_state.size <= reader.size
    return table_state.created == created and (is_there or table_state.size == reader.size)


class SeenHits:
    """The matches so far. A copy of another agent's session begins with the original's turns."""

    def __init__(self) -> None:
        self._by_first: dict[tuple[int, str, str], list[tuple[bool, set[int]]]] = {}

    def has(self, hit: Hit, times: set[int]) -> bool:
        """Whether a session was found before that has all of these matches, and one of both is a copy. If not, these
        matches are kept for the next question."""
        if not hit.excerpts:
            return False
        first_excerpt, is_copy = hit.excerpts[0], hit.row.copy_of is not None
        earlier = self._by_first.setdefault((first_excerpt.turn, first_excerpt.stamp, first_excerpt.text), [])
        if any((is_copy or is_earlier_copy) and times <= earlier_times for is_earlier_copy, earlier_times in earlier):
            return True
        earlier.append((is_copy, times))
        return False


def _iterate_newest(docs: dict[str, list[int]]) -> Iterator[tuple[int, str, int]]:
    """The transcripts of these turns, each once, newest first, after the time. The order is the same every time."""
    seen = set()
    for second, digit, transcript in heapq.merge(
        *(_number_docs(digit, docs_of_table) for digit, docs_of_table in docs.items()), reverse=True
    ):
        if (digit, transcript) not in seen:
            seen.add((digit, transcript))
            yield second, digit, transcript


def _number_docs(digit: str, docs: list[int]) -> Iterator[tuple[int, str, int]]:
    return ((decode_second(doc), digit, decode_transcript(doc)) for doc in docs)


def _choose_turns(docs_by_query: list[list[int]]) -> list[int]:
    """Of each transcript in which all queries match, a few turns that match them together, newest first."""
    by_transcript: dict[int, dict[int, set[int]]] = {}
    for number, docs in enumerate(docs_by_query):
        for doc in docs:
            by_transcript.setdefault(decode_transcript(doc), {}).setdefault(doc, set()).add(number)
    chosen = list[int]()
    for queries_by_doc in by_transcript.values():
        left = set[int]().union(*queries_by_doc.values())
        if len(left) < len(docs_by_query):
            continue
        while left:
            best = max(queries_by_doc, key=lambda doc: (len(queries_by_doc[doc] & left), doc))
            chosen.append(best)
            left -= queries_by_doc[best]
    return sorted(chosen, reverse=True)


def _make_hit(
    table: SearchTable, row: ListedSession, stamp: str, docs: list[int], request: SearchRequest
) -> tuple[Hit, set[int]]:
    """A session that matches, and the seconds of its turns that do. ``stamp``: when the last of them began."""
    numbers = table.list_numbers(decode_transcript(docs[0]))
    by_turn = {numbers[doc]: doc for doc in docs if doc in numbers}
    turns = sorted(number for number in by_turn if number)
    shown_numbers = turns[: request.excerpts_per_session or None] or list(by_turn)
    excerpts = (table.make_excerpt(request.fts_query, by_turn[number]) for number in shown_numbers)
    hit = Hit(row, stamp, turns, [excerpt for excerpt in excerpts if excerpt is not None])
    return hit, {decode_second(by_turn[number]) for number in turns}
