"""A search over all transcripts: what has changed since the last one is brought in, then the words are looked up.

Done by whoever searches, never by a relay. What the tables hold is compared with what the index says of each
transcript, so nothing has to be remembered: what is interrupted goes on with the next search, and a table that is
missing or cannot be trusted is made anew. Others may search, talk and delete meanwhile.
"""

import heapq
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass

from acp_proxy.errors import NewerFormat, NoFullText, Unreadable, errno_name
from acp_proxy.transcripts.files import names
from acp_proxy.transcripts.files.layout import Layout
from acp_proxy.transcripts.files.reading import Reading
from acp_proxy.transcripts.listing.catalog import Progress, is_passing
from acp_proxy.transcripts.listing.index import Index, Listed, listed
from acp_proxy.transcripts.listing.keeping import titled
from acp_proxy.transcripts.search.phrases import separated
from acp_proxy.transcripts.search.turns import BEGINNING, Turns
from acp_proxy.transcripts.search.words import (
    Excerpt,
    Extent,
    IndexedTranscript,
    Key,
    TurnText,
    WordTable,
    Work,
    of,
    table,
    when,
)
from acp_proxy.wire import clock

DIGITS = "0123456789abcdef"
_TRIES = 3 * len(DIGITS)  # each table may be broken, and go while others delete
_BATCH_SIZE = 2 * 1024 * 1024
"""Characters that are added at once: some hundredths of a second for who waits to add more."""
_BATCH_SECONDS = 1.0
"""What an interruption may cost of what was read already."""


@dataclass(frozen=True, slots=True)
class Sought:
    """``question``: as SQLite understands it. ``limit``: sessions; ``each``: excerpts of one (0: of all its turns)."""

    question: str
    agents: Sequence[str]
    cwd: str | None = None
    since: str | None = None
    limit: int = 10
    each: int = 3


@dataclass(frozen=True, slots=True)
class Hit:
    """A session in which something was found, last ``at`` this time: the turns, in order, and excerpts of the first.

    No turns: it was found in the title alone.
    """

    session: Listed
    at: str
    turns: list[int]
    excerpts: list[Excerpt]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The sessions in which something was found last, newest first. ``is_all``: there are no others."""

    hits: list[Hit]
    is_all: bool


class _Again(Exception):
    """A table was removed while it was used, or could not be trusted and is removed now."""


def search(layout: Layout, index: Index, sought: Sought, progress: Progress) -> SearchResult:
    """The newest sessions that have a turn in which all is that is sought.

    Raises NoFullText, Unreadable; ``sqlite3.Error`` only where it is the index's.
    """
    if not index.select("SELECT 1 FROM pragma_module_list WHERE name = 'fts5'", ()):
        raise NoFullText
    if not sought.agents:  # no tables are made for nothing
        return SearchResult([], is_all=True)
    for _ in range(_TRIES):
        with ExitStack() as stack, suppress(_Again):
            try:
                tables = Tables(layout, index, stack)
                tables.bring_in(sought.agents, progress)
                return tables.found(sought)
            except OSError as problem:
                raise Unreadable(errno_name(problem)) from problem
    raise Unreadable("EBUSY")


class Tables:
    """All sixteen, opened before anything is read that will be put into them."""

    def __init__(self, layout: Layout, index: Index, stack: ExitStack) -> None:
        """``stack`` closes them. Raises _Again, OSError, Unreadable."""
        self._layout = layout
        self._index = index
        self._words: dict[str, WordTable] = {}
        for digit in DIGITS:
            with self._trusted(digit):
                self._words[digit] = stack.enter_context(closing(WordTable(table(layout, digit))))

    def bring_in(self, agents: Sequence[str], progress: Progress) -> None:
        """What is new or has changed of these agents' transcripts. Raises as above."""
        behind = self._behind(agents)
        done, total = 0, sum(map(len, behind.values()))
        for digit, keys in behind.items():
            for count in self._read(digit, keys):
                done += count
                progress(done, total)

    def found(self, sought: Sought) -> SearchResult:
        """Raises _Again, Unreadable; ``sqlite3.Error`` where it is the index's."""
        docs = {digit: self._docs(digit, sought) for digit in self._words}
        within = self._inside(sought.agents, sought.cwd) if sought.cwd is not None else None
        hits: list[Hit] = []
        for digit, transcript in _newest(docs):
            with self._trusted(digit):
                key = self._words[digit].key(transcript)
            row = self._row(key) if key[0] in sought.agents and (within is None or key in within) else None
            if row is None or not row.prompts:
                continue
            if len(hits) == sought.limit:
                return SearchResult(hits, is_all=False)
            mine = [doc for doc in docs[digit] if of(doc) == transcript]
            with self._trusted(digit):
                hits.append(_hit(self._words[digit], row, transcript, mine, sought))
        return SearchResult(hits, is_all=True)

    def _row(self, key: Key) -> Listed | None:
        query = "SELECT agent, name, session, updated, info, open FROM transcripts WHERE agent = ? AND name = ?"
        rows = (listed(row, "") for row in self._index.select(query, key))
        return next(titled(self._layout, rows), None)

    def _inside(self, agents: Sequence[str], cwd: str) -> set[Key]:
        """The transcripts of sessions in a directory."""
        found: set[Key] = set()
        for agent in agents:
            places = self._index.places_of(agent, cwd)
            marks = ", ".join("?" * len(places))
            query = f"SELECT agent, name FROM transcripts WHERE agent = ? AND place IN ({marks})"
            found.update(self._index.select(query, (agent, *places)))
        return found

    def _docs(self, digit: str, sought: Sought) -> list[int]:
        with self._trusted(digit):
            return self._words[digit].found(sought.question, sought.since)

    def _behind(self, agents: Sequence[str]) -> dict[str, list[Key]]:
        """The transcripts of which a table has not seen just what the index has, by the table's digit."""
        seen: set[Extent] = set()
        for digit, words in self._words.items():
            with self._trusted(digit):
                seen.update(words.extents())
        there = set(
            self._index.select("SELECT agent, name, created, inode, size FROM transcripts", ())
        )  # now: what others bring in meanwhile is known to the index before
        for agent, name, *_ in seen - there:
            path = self._words[names.digit(name)].path
            if path is not None and not self._index.has(agent, name):
                self._layout.remove_words(path)  # it was taken away by hand: its words go with the whole table
                raise _Again
        behind: dict[str, list[Key]] = {}
        for agent, name, *_ in sorted(there - seen):
            if agent in agents:
                behind.setdefault(names.digit(name), []).append((agent, name))
        return behind

    def _read(self, digit: str, behind: list[Key]) -> Iterator[int]:
        """Bring transcripts in; how many were brought in at once."""
        batch: list[Work] = []
        size, count, until = 0, 0, time.monotonic() + _BATCH_SECONDS
        for key in behind:
            work, count = self._work(digit, key), count + 1
            if work is not None:
                batch.append(work)
                size += sum(len(turn.text) for turn in work.turns)
            if size > _BATCH_SIZE or time.monotonic() > until:
                yield self._put(digit, batch, count)
                batch, size, count, until = [], 0, 0, time.monotonic() + _BATCH_SECONDS
        if count:
            yield self._put(digit, batch, count)

    def _put(self, digit: str, batch: list[Work], count: int) -> int:
        with self._trusted(digit):
            self._words[digit].put(batch)
        return count

    def _work(self, digit: str, key: Key) -> Work | None:
        """What is new in a transcript; None where it cannot be read now."""
        with self._trusted(digit):
            before = self._words[digit].seen(key)
        try:
            reading = Reading(self._layout.transcript(*key))
        except (OSError, NewerFormat):
            return None
        row = self._row(key)
        with closing(reading), suppress(OSError):
            return work_on(key, before, reading, row.title if row is not None else None)
        return None

    @contextmanager
    def _trusted(self, digit: str) -> Iterator[None]:
        """What a table says; one that cannot be trusted is removed. Raises _Again, Unreadable."""
        try:
            yield
        except FileNotFoundError as problem:
            raise _Again from problem
        except sqlite3.Error as problem:
            path = self._words[digit].path if digit in self._words else None
            if path is not None and not path.exists():  # removed meanwhile: anything may fail
                raise _Again from problem
            if is_passing(problem):
                raise Unreadable(errno_name(problem)) from problem
            for path in self._layout.words(digit):
                self._layout.remove_words(path)
            raise _Again from problem


def work_on(key: Key, before: IndexedTranscript | None, reading: Reading, title: str | None) -> Work | None:
    """What a transcript says that was not seen before. Raises OSError."""
    header = reading.header or reading.remade_header()
    if header is None:
        return None
    goes_on = before is not None and _goes_on(before, header.created_at, reading)
    start = before.place if before is not None and goes_on else BEGINNING
    turns = Turns(start)
    told = [TurnText(0, header.created_at, separated(title))] if title else []
    told += [TurnText(turn.number, turn.at, separated(turn.text)) for turn in turns.read(reading) if turn.pieces]
    seen = IndexedTranscript(header.created_at, reading.inode, turns.size, turns.last)
    return Work(key, before, seen, start.turns, told)


def _goes_on(before: IndexedTranscript, created: str, reading: Reading) -> bool:
    """Whether it is what was seen, with more behind it or not. One that was compressed is another file."""
    is_there = before.inode == reading.inode and before.size <= reading.size
    return before.created == created and (is_there or before.size == reading.size)


def _newest(docs: dict[str, list[int]]) -> Iterator[tuple[str, int]]:
    """The transcripts that these turns belong to, each once; in the same order every time."""
    seen = set()
    for _, digit, transcript in heapq.merge(*(_named(digit, each) for digit, each in docs.items()), reverse=True):
        if (digit, transcript) not in seen:
            seen.add((digit, transcript))
            yield digit, transcript


def _named(digit: str, docs: list[int]) -> Iterator[tuple[int, str, int]]:
    return ((when(doc), digit, of(doc)) for doc in docs)


def _hit(words: WordTable, row: Listed, transcript: int, docs: list[int], sought: Sought) -> Hit:
    numbers = words.numbers(transcript)
    by_turn = {numbers[doc]: doc for doc in docs if doc in numbers}
    turns = sorted(number for number in by_turn if number)
    shown = turns[: sought.each or None] or list(by_turn)
    excerpts = (words.excerpt(sought.question, by_turn[number]) for number in shown)
    return Hit(row, clock.stamp(when(docs[0])), turns, [one for one in excerpts if one is not None])
