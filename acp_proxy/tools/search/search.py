"""Searches all transcripts: adds what changed since the last search to the search tables, and looks up the words.

The newest sessions are added first. A match is told as soon as no newer one can come, and a search that has its results
leaves the rest to the next one. Only the searching process does this, never a relay. The tables are compared with the
index's data on each transcript, so there is nothing else to keep: an interrupted search is continued by the next one,
and a table that is missing or cannot be trusted is rebuilt. Other processes may search, record and delete at the same
time.
"""

import heapq
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby

from acp_proxy.errors import NewerFormat, NoFullText, Unreadable, errno_name
from acp_proxy.protocol import acp, proxy_ids, timestamps
from acp_proxy.store import layout as store_layout
from acp_proxy.store.index import COLUMNS, Index, ListedSession, decode_row
from acp_proxy.store.index_update import Progress, is_temporary
from acp_proxy.store.layout import Layout
from acp_proxy.store.queries import LAST_USED, complete_rows, match_directory
from acp_proxy.store.sessions import Sessions
from acp_proxy.tools.search.fts_table import (
    Excerpt,
    Extent,
    IndexedTranscript,
    Key,
    TurnText,
    WordTable,
    Work,
    of,
    seconds,
    table,
    text_of,
    when,
)
from acp_proxy.tools.search.query import separated
from acp_proxy.tools.search.turn_text import BEGINNING, Turns
from acp_proxy.transcript import file_names
from acp_proxy.transcript.file_format import Header
from acp_proxy.transcript.reader import Reading

DIGITS = "0123456789abcdef"
_TRIES = 3 * len(DIGITS)  # each table may be broken, or be removed by a delete
_BATCH_SIZE = 16 * 1024 * 1024
"""Characters added at once, in a transaction per table: other writers wait some hundredths of a second."""
_BATCH_SECONDS = 1.0
"""How much reading an interruption may waste."""
_FIRST_BATCH = 16
"""Transcripts in the first batch, so that the first results come at once. Each later batch has twice as many."""


@dataclass(frozen=True, slots=True)
class Sought:
    """A search.

    ``question``: an FTS5 query (``query.question``). ``since``, ``until``: from the one time to before the other, in
    transcript format. ``below``: sessions in directories below ``cwd`` count, too.
    ``limit``: the most sessions to return; None: all. ``each``: the most excerpts per session; 0: one of each matching
    turn.
    """

    question: str
    agents: Sequence[str]
    cwd: str | None = None
    since: str | None = None
    limit: int | None = 10
    each: int = 3
    until: str | None = None
    below: bool = False


@dataclass(frozen=True, slots=True)
class Hit:
    """A session that matches.

    ``at``: when its last matching turn began. ``turns``: the matching turns' numbers; empty if only the title matches.
    ``excerpts``: of the first matching turns, or of the title.
    """

    session: ListedSession
    at: str
    turns: list[int]
    excerpts: list[Excerpt]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The matching sessions, newest match first. ``is_all``: there are no more."""

    hits: list[Hit]
    is_all: bool


Tell = Callable[[Hit], bool]


class _Again(Exception):
    """A table was removed while in use, or was not trustworthy and has been removed."""


def search_store(
    store: Sessions,
    sought: Sought,
    progress: Progress = lambda done, total: None,
    tell: Tell = lambda hit: True,
) -> SearchResult:
    """Bring the search tables up to date, then return the newest sessions of ``sought.agents`` that match.

    ``progress`` is called with the number of transcripts read and the total. ``tell`` is called with each match,
    perhaps more than once, as soon as it is found; the search ends if it returns False. Raises Unreadable,
    NoFullText.
    """
    return store.index.query(lambda index: _search(store.layout, index, sought, progress, tell), *sought.agents)


def _search(layout: Layout, index: Index, sought: Sought, progress: Progress, tell: Tell) -> SearchResult:
    """Raises NoFullText, Unreadable; ``sqlite3.Error`` if it is the index's."""
    if not index.select("SELECT 1 FROM pragma_module_list WHERE name = 'fts5'", ()):
        raise NoFullText
    if not sought.agents:  # do not create tables
        return SearchResult([], is_all=True)
    for _ in range(_TRIES):
        with ExitStack() as stack, suppress(_Again):
            try:
                tables = Tables(layout, index, stack)
                running = RunningSearch(tables, sought, tell)
                for since in tables.bring_in(sought.agents, progress):
                    if not running.go_on(since):
                        break
                return SearchResult(running.hits, running.is_all)
            except OSError as problem:
                raise Unreadable(errno_name(problem)) from problem
    raise Unreadable("EBUSY")


class Tables:
    """The sixteen search tables, opened before any text that will be put into them is read."""

    def __init__(self, layout: Layout, index: Index, stack: ExitStack) -> None:
        """``stack`` closes the tables. Raises _Again, OSError, Unreadable."""
        self._layout = layout
        self._index = index
        self._words: dict[str, WordTable] = {}
        for digit in DIGITS:
            with self._trusted(digit):
                self._words[digit] = stack.enter_context(closing(WordTable(table(layout, digit))))

    def bring_in(self, agents: Sequence[str], progress: Progress) -> Iterator[int]:
        """Add what changed in these agents' transcripts, the newest first. Raises _Again, OSError, Unreadable.

        Yields after each batch: the second from which on there is nothing more to add; 0 at the end.
        """
        behind = self._behind(agents)
        done = 0
        for count in self._read([key for _, key in behind]):
            done += count
            progress(done, len(behind))
            if done < len(behind):
                yield seconds(behind[done][0]) + 1
        yield 0

    def found(self, sought: Sought) -> SearchResult:
        """Look up the words in what was added. Raises as ``RunningSearch``."""
        running = RunningSearch(self, sought, lambda hit: True)
        running.go_on()
        return SearchResult(running.hits, running.is_all)

    def docs(self, sought: Sought) -> dict[str, list[int]]:
        """The matching turns in each table, newest first. Raises _Again, Unreadable."""
        found = {}
        for digit, words in self._words.items():
            with self._trusted(digit):
                found[digit] = words.found(sought.question, sought.since, sought.until)
        return found

    def key(self, digit: str, transcript: int) -> Key:
        """The transcript with this id in a table. Raises _Again, Unreadable."""
        with self._trusted(digit):
            return self._words[digit].key(transcript)

    def hit(
        self, digit: str, row: ListedSession, transcript: int, docs: list[int], sought: Sought
    ) -> tuple[Hit, set[int]]:
        """A session with these matching turns, and their times. Raises _Again, Unreadable."""
        with self._trusted(digit):
            return _hit(self._words[digit], row, transcript, docs, sought)

    def row(self, key: Key) -> ListedSession | None:
        """The session of a transcript, as a list shows it."""
        query = f"SELECT {COLUMNS} FROM transcripts WHERE agent = ? AND name = ?"
        rows = (decode_row(row, "") for row in self._index.select(query, key))
        return next(complete_rows(self._layout, rows), None)

    def inside(self, sought: Sought, cwd: str) -> set[Key]:
        """The transcripts of sessions in a directory."""
        found: set[Key] = set()
        for agent in sought.agents:
            test, values = match_directory(self._index, agent, cwd, below=sought.below)
            query = f"SELECT agent, name FROM transcripts WHERE agent = ? AND {test}"
            found.update(self._index.select(query, (agent, *values)))
        return found

    def _behind(self, agents: Sequence[str]) -> list[tuple[str, Key]]:
        """The transcripts whose data in a table differs from the index's, with the times of last use; newest first."""
        seen: set[Extent] = set()
        for digit, words in self._words.items():
            with self._trusted(digit):
                seen.update(words.extents())
        # After the tables: what other processes add to a table is in the index before.
        there = set(self._index.select("SELECT agent, name, created, inode, size FROM transcripts", ()))
        for agent, name, *_ in seen - there:
            words = self._words[file_names.digit(name)]
            if words.path is not None and not self._index.has_row(agent, name):
                words.close()  # Windows removes no open file
                self._layout.remove_search_table(words.path)  # removed by hand: remove the table with its words
                raise _Again
        behind = [(agent, name) for agent, name, *_ in there - seen if agent in agents]
        query = f"SELECT {LAST_USED} FROM transcripts WHERE agent = ? AND name = ?"
        return sorted(((used, key) for key in behind for (used,) in self._index.select(query, key)), reverse=True)

    def _read(self, behind: list[Key]) -> Iterator[int]:
        """Add transcripts in batches; yields the number of transcripts in each."""
        left, most = deque(behind), _FIRST_BATCH
        while left:
            batch: dict[str, list[Work]] = {}
            size, count, until = 0, 0, time.monotonic() + _BATCH_SECONDS
            while left and count < most and size <= _BATCH_SIZE and time.monotonic() < until:
                key = left.popleft()
                digit = file_names.digit(key[1])
                work, count = self._work(digit, key), count + 1
                if work is not None:
                    batch.setdefault(digit, []).append(work)
                    size += sum(len(turn.text) for turn in work.turns)
            most *= 2
            for digit, works in batch.items():
                with self._trusted(digit):
                    self._words[digit].put(works)
            yield count

    def _work(self, digit: str, key: Key) -> Work | None:
        """What to add for a transcript; None if it cannot be read now."""
        with self._trusted(digit):
            before = self._words[digit].seen(key)
        try:
            reading = Reading(self._layout.transcript(*key))
        except (OSError, NewerFormat):
            return None
        row = self.row(key)
        with closing(reading), suppress(OSError):
            return work_on(key, before, reading, row.title if row is not None else None)
        return None

    @contextmanager
    def _trusted(self, digit: str) -> Iterator[None]:
        """Removes a table that turns out not to be trustworthy. Raises _Again, Unreadable."""
        try:
            yield
        except FileNotFoundError as problem:
            raise _Again from problem
        except sqlite3.Error as problem:
            path = self._words[digit].path if digit in self._words else None
            if path is not None and (store_layout.is_emptied(path) or not path.exists()):
                # Removed in the meantime, which causes errors of any kind.
                raise _Again from problem
            if is_temporary(problem):
                raise Unreadable(errno_name(problem)) from problem
            if digit in self._words:
                self._words[digit].close()  # Windows removes no open file
            for path in self._layout.list_search_tables(digit):
                self._layout.remove_search_table(path)
            raise _Again from problem


class RunningSearch:
    """A search in tables that are still being filled.

    ``hits``: so far, newest match first. ``is_all``: there are no more. Raises _Again, Unreadable; ``sqlite3.Error`` if
    it is the index's.
    """

    def __init__(self, tables: Tables, sought: Sought, tell: Tell) -> None:
        self.hits: list[Hit] = []
        self.is_all = False
        self._tables = tables
        self._sought = sought
        self._tell = tell
        self._told = _Told()
        self._known = set[Key]()
        self._first = seconds(sought.since) if sought.since is not None else 0
        self._within = tables.inside(sought, sought.cwd) if sought.cwd is not None else None

    def go_on(self, since: int = 0) -> bool:
        """Add the matches that began in this second or later. Returns False if the search has ended."""
        docs = self._tables.docs(self._sought)
        by_transcript: dict[tuple[str, int], list[int]] = {}
        for digit, each in docs.items():
            for doc in each:
                by_transcript.setdefault((digit, of(doc)), []).append(doc)
        for at, row, digit, transcript in self._rows(docs):
            is_full = len(self.hits) == self._sought.limit
            if at < since and not is_full:
                return True
            matches = by_transcript[digit, transcript]
            hit, times = self._tables.hit(digit, row, transcript, matches, self._sought)
            self._known.add((row.agent, row.name))
            if self._told.has(hit, times):
                continue
            if is_full:
                return False
            self.hits.append(hit)
            if not self._tell(hit):
                return False
        self.is_all = since <= self._first
        return not self.is_all

    def _rows(self, docs: dict[str, list[int]]) -> Iterator[tuple[int, ListedSession, str, int]]:
        """The new sessions of these turns, newest first, with the times and places in the tables; an original before
        its copy."""
        for at, together in groupby(_newest(docs), key=lambda found: found[0]):
            rows = []
            for _, digit, transcript in together:
                key = self._tables.key(digit, transcript)
                if key in self._known or key[0] not in self._sought.agents:
                    continue
                row = self._tables.row(key) if self._within is None or key in self._within else None
                if row is not None and row.prompts:
                    rows.append((at, row, digit, transcript))
            yield from sorted(rows, key=lambda found: found[1].copy_of is not None)


def work_on(key: Key, before: IndexedTranscript | None, reading: Reading, title: str | None) -> Work | None:
    """What to add for a transcript of which ``before`` was read before. Raises OSError."""
    header = reading.header or reading.remade_header()
    if header is None:
        return None
    goes_on = before is not None and _goes_on(before, header.created_at, reading)
    start = before.place if before is not None and goes_on else BEGINNING
    turns = Turns(start)
    told = [TurnText(0, _began(reading, header), separated(title))] if title else []
    told += [TurnText(turn.number, turn.at, text_of(turn)) for turn in turns.read(reading) if turn.pieces]
    seen = IndexedTranscript(header.created_at, reading.inode, turns.size, turns.last)
    return Work(key, before, seen, start.turns, told)


def _began(reading: Reading, header: Header) -> str:
    """When the session began; of a copy, when its original did, so that both are found at the same time."""
    first = next(reading.lines(), None) if proxy_ids.original(header.session) is not None else None
    note = first.entry.note if first is not None and first.entry is not None else None
    return (acp.text(note, "createdAt") if note is not None else None) or header.created_at


def _goes_on(before: IndexedTranscript, created: str, reading: Reading) -> bool:
    """Whether the transcript is the one seen before, perhaps longer. Compressing one changes its inode."""
    is_there = before.inode == reading.inode and before.size <= reading.size
    return before.created == created and (is_there or before.size == reading.size)


class _Told:
    """The matches so far. A copy of another agent's session begins with the original's turns."""

    def __init__(self) -> None:
        self._by_first: dict[tuple[int, str, str], list[tuple[bool, set[int]]]] = {}

    def has(self, hit: Hit, times: set[int]) -> bool:
        """Whether a session was told that has all of these matches, and one of both is a copy. Else keeps them."""
        if not hit.excerpts:
            return False
        first, is_copy = hit.excerpts[0], hit.session.copy_of is not None
        before = self._by_first.setdefault((first.turn, first.at, first.text), [])
        if any((is_copy or copy) and times <= others for copy, others in before):
            return True
        before.append((is_copy, times))
        return False


def _newest(docs: dict[str, list[int]]) -> Iterator[tuple[int, str, int]]:
    """The transcripts of these turns, each once, newest first, after the time. The order is the same every time."""
    seen = set()
    for at, digit, transcript in heapq.merge(*(_named(digit, each) for digit, each in docs.items()), reverse=True):
        if (digit, transcript) not in seen:
            seen.add((digit, transcript))
            yield at, digit, transcript


def _named(digit: str, docs: list[int]) -> Iterator[tuple[int, str, int]]:
    return ((when(doc), digit, of(doc)) for doc in docs)


def _hit(
    words: WordTable, row: ListedSession, transcript: int, docs: list[int], sought: Sought
) -> tuple[Hit, set[int]]:
    """A session that matches, and the times of its turns that do."""
    numbers = words.numbers(transcript)
    by_turn = {numbers[doc]: doc for doc in docs if doc in numbers}
    turns = sorted(number for number in by_turn if number)
    shown = turns[: sought.each or None] or list(by_turn)
    excerpts = (words.excerpt(sought.question, by_turn[number]) for number in shown)
    hit = Hit(row, timestamps.stamp(when(docs[0])), turns, [one for one in excerpts if one is not None])
    return hit, {when(by_turn[number]) for number in turns}
