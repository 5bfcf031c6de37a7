"""A search table: the text of every turn of one sixteenth of the transcripts, selected by the last digit of their name.

A table is an SQLite file with FTS5. It is removed as a whole when one of its sessions is deleted, masked or repaired,
because SQLite keeps copies of deleted data in split pages, and FTS5 keeps deleted words in its segments until they are
merged. The next search rebuilds it.

Text may be added only to a file that was opened before the text was read: then whoever removed the text has removed the
file too. Raises ``sqlite3.Error``, OSError.
"""

import errno
import os
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import ClassVar, Generic, Protocol, TypeVar

from acp_proxy.errors import NewerFormat
from acp_proxy.protocol import timestamps
from acp_proxy.store.databases import check_database, is_emptied, make_database_uri
from acp_proxy.store.layout import Layout
from acp_proxy.tools.search import query
from acp_proxy.tools.search.excerpts import make_excerpt_text
from acp_proxy.tools.search.table_files import list_search_tables, make_search_table_path
from acp_proxy.tools.search.turn_text import BEGINNING, SearchedTurn, TurnReader, TurnStart
from acp_proxy.transcript import file_access
from acp_proxy.transcript.reader import AlikeLines, Line, TranscriptReader
from acp_proxy.transcript.titles import shorten_masks
from acp_proxy.views.sanitize import strip_sequences

SCHEMA = 6
_BUSY_SECONDS = 5.0
_TRANSCRIPT_BITS = 24
_TRANSCRIPT_MASK = (1 << _TRANSCRIPT_BITS) - 1
"""A turn is numbered by the second in which it began and its transcript's id: 16 million ids per table are enough."""
_MOST_DOC = (1 << 63) - 1  # above every such number

TRANSCRIPTS = """
CREATE TABLE transcripts(
  id INTEGER PRIMARY KEY, agent TEXT NOT NULL, name TEXT NOT NULL, created TEXT NOT NULL, inode INTEGER NOT NULL,
  size INTEGER NOT NULL, place_offset INTEGER NOT NULL, place_line INTEGER NOT NULL, place_turns INTEGER NOT NULL,
  UNIQUE(agent, name));"""
"""What every table has: how far it has read each transcript."""


def make_tables(columns: tuple[str, ...], version: int) -> str:
    """The statements that create a table whose turns have these columns of text."""
    return f"""{TRANSCRIPTS}
CREATE TABLE turns(
  transcript INTEGER NOT NULL, number INTEGER NOT NULL, at TEXT NOT NULL, doc INTEGER NOT NULL,
  PRIMARY KEY(transcript, number)) WITHOUT ROWID;
CREATE VIRTUAL TABLE said USING fts5(
  {", ".join(columns)}, tokenize = "unicode61 remove_diacritics 2", columnsize = 0);
PRAGMA user_version = {version};
"""


_TRANSCRIPT_COLUMNS = "created, inode, size, place_offset, place_line, place_turns, id"

Key = tuple[str, str]
"""A transcript: its agent's folder and its name."""
Extent = tuple[str, str, str, int, int]
"""How far a transcript was read: agent, name, header's time, the file's inode, bytes."""


@dataclass(frozen=True, slots=True)
class IndexedTranscript:
    """What a table has of a transcript.

    ``created``: the header's time. ``inode``: the file's. ``size``: bytes read. ``last_turn``: where its last turn
    begins. ``id``: the transcript's in this table.
    """

    created: str
    inode: int
    size: int = 0
    last_turn: TurnStart = BEGINNING
    id: int = 0


class TableRow(Protocol):
    """What a table has of a transcript: its length matters for the size of a batch."""

    @property
    def text(self) -> str: ...


Row = TypeVar("Row", bound=TableRow)


@dataclass(frozen=True, slots=True)
class TurnText:
    """A turn's text in each column of a table. Number 0 is the session's title."""

    number: int
    started_at: str
    texts: tuple[str, ...]

    @property
    def text(self) -> str:
        """The text of all columns."""
        return "".join(self.texts)


@dataclass(frozen=True, slots=True)
class Addition(Generic[Row]):
    """What to add for a transcript: its title and the ``turns`` after the first ``kept_turns`` ones.

    ``old_state``: what the table had when the transcript was read; None: nothing. ``new_state``: what it has with the
    addition.
    """

    key: Key
    old_state: IndexedTranscript | None
    new_state: IndexedTranscript
    kept_turns: int
    turns: list[Row]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A part of a matching turn. ``turn``: its number. ``marks``: start and end of each match in ``text``."""

    turn: int
    stamp: str
    text: str
    marks: list[tuple[int, int]]


class MeasuredLines:
    """The lines of a transcript. ``size``: the offset up to which they were read; a line that may grow is not."""

    def __init__(self, lines: Iterable[Line | AlikeLines]) -> None:
        self.size = 0
        self._lines = lines

    def __iter__(self) -> Iterator[Line | AlikeLines]:
        for line in self._lines:
            if isinstance(line, AlikeLines) or line.is_whole:
                self.size = line.end
            yield line


class TranscriptTable(ABC, Generic[Row]):
    """A connection to a table of what transcripts contain, or with None to one in memory.

    ``KIND``: the part of its file's name that tells it from other tables. ``SCHEMA``, ``TABLES``: its ``user_version``,
    and the statements that create it.
    """

    KIND: ClassVar[str]
    SCHEMA: ClassVar[int]
    TABLES: ClassVar[str]

    def __init__(self, path: Path | None) -> None:
        """Open the table. Raises FileNotFoundError if its file is removed at this moment; ``sqlite3.Error``; OSError.

        ``path``: None for a table in memory.
        """
        self.path = path
        if path is None:
            self._database = sqlite3.connect(":memory:", isolation_level=None)
            self._database.executescript(self.TABLES)
            return
        check_database(path)
        with _report_removal(path):
            self._database = self._open(path)

    def _open(self, path: Path) -> sqlite3.Connection:
        uri = make_database_uri(path, "mode=rw")  # does not recreate a removed file
        database = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_BUSY_SECONDS)
        try:
            database.execute("PRAGMA synchronous = NORMAL")
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version != self.SCHEMA:
                raise sqlite3.DatabaseError(f"of another version: {version}")
        except BaseException:
            database.close()
            raise
        return database

    def close(self) -> None:
        self._database.close()

    def list_extents(self) -> Iterator[Extent]:
        """How far each transcript was read; the index gives the same values if nothing changed."""
        return self._database.execute("SELECT agent, name, created, inode, size FROM transcripts")

    def find_transcript(self, key: Key) -> IndexedTranscript | None:
        """What the table has of a transcript; None: nothing."""
        row = self._database.execute(
            f"SELECT {_TRANSCRIPT_COLUMNS} FROM transcripts WHERE agent = ? AND name = ?", key
        ).fetchone()
        return _decode_transcript_row(*row) if row is not None else None

    def write(self, batch: Iterable[Addition[Row]]) -> None:
        """Add to transcripts in one transaction; skips those that another process has changed in the meantime."""
        self._database.execute("BEGIN IMMEDIATE")
        try:
            for addition in batch:
                self._put(addition)
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    def check(self) -> None:
        """Check the table. Raises ``sqlite3.DatabaseError`` if SQLite finds it damaged."""
        if self._database.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise sqlite3.DatabaseError("it is damaged")

    def _put(self, addition: Addition[Row]) -> None:
        if self.find_transcript(addition.key) != addition.old_state:
            return
        new_state, last_turn = addition.new_state, addition.new_state.last_turn
        extent = new_state.created, new_state.inode, new_state.size, last_turn.offset, last_turn.line, last_turn.turns
        if addition.old_state is None:
            values = (None, *addition.key, *extent)
            id = (
                self._database.execute(
                    f"INSERT INTO transcripts VALUES ({_format_placeholders(values)})", values
                ).lastrowid
                or 0
            )
        else:
            id = addition.old_state.id
            self._database.execute(
                "UPDATE transcripts SET created = ?, inode = ?, size = ?, place_offset = ?, place_line = ?,"
                " place_turns = ? WHERE id = ?",
                (*extent, id),
            )
        self._remove(id, addition.kept_turns)
        self._add(id, addition.turns)

    @abstractmethod
    def _remove(self, transcript: int, kept_turns: int) -> None:
        """Remove what is not of the first ``kept_turns`` turns."""

    @abstractmethod
    def _add(self, transcript: int, turns: list[Row]) -> None: ...


class SearchTable(TranscriptTable[TurnText]):
    """A table of the words of every turn.

    ``COLUMNS``: of its texts. A query is for all of them, or names some.
    """

    KIND = ""
    SCHEMA = SCHEMA
    COLUMNS: ClassVar[tuple[str, ...]] = (query.SAID_COLUMN, query.ASIDE_COLUMN)
    TABLES = make_tables(COLUMNS, SCHEMA)

    def find_turns(self, fts_query: str, since: str | None, until: str | None) -> list[int]:
        """The numbers of the turns that match, newest first; ``decode_transcript`` gives a turn's transcript."""
        earliest = count_seconds(since) << _TRANSCRIPT_BITS if since is not None else 0
        latest = count_seconds(until) << _TRANSCRIPT_BITS if until is not None else _MOST_DOC
        rows = self._database.execute(
            "SELECT rowid FROM said WHERE said MATCH ? AND rowid >= ? AND rowid < ? ORDER BY rowid DESC",
            (fts_query, earliest, latest),
        )
        return [row for (row,) in rows]

    def find_key(self, transcript: int) -> Key:
        """The transcript with this id in the table."""
        row = self._database.execute("SELECT agent, name FROM transcripts WHERE id = ?", (transcript,)).fetchone()
        return row[0], row[1]

    def list_numbers(self, transcript: int) -> dict[int, int]:
        """A transcript's turns: what ``find_turns`` calls them, and their number in the transcript."""
        return dict(self._database.execute("SELECT doc, number FROM turns WHERE transcript = ?", (transcript,)))

    def find_time(self, doc: int) -> str | None:
        """When a turn that ``find_turns`` returned began; None if the turn has changed, or has no time."""
        query = "SELECT at FROM turns WHERE transcript = ? AND doc = ?"
        row = self._database.execute(query, (decode_transcript(doc), doc)).fetchone()
        return timestamps.normalize(row[0]) if row is not None else None

    def make_excerpt(self, fts_query: str, doc: int) -> Excerpt | None:
        """An excerpt of a turn that ``find_turns`` returned; None if the turn has changed."""
        marked_columns = ", ".join(f"highlight(said, {column}, ?1, ?2)" for column in range(len(self.COLUMNS)))
        row = self._database.execute(
            f"SELECT number, at, {marked_columns} FROM said JOIN turns ON doc = said.rowid"
            " WHERE said MATCH ?3 AND said.rowid = ?4 AND transcript = ?5",
            (query.BEGIN, query.END, fts_query, doc, decode_transcript(doc)),
        ).fetchone()
        if row is None:
            return None
        number, stamp, *texts = row
        return Excerpt(number, stamp, *make_excerpt_text(zip(self.COLUMNS, texts, strict=True)))

    def list_words(self, beginning: str, lengths: range) -> Iterator[str]:
        """The words that begin so and have so many letters, as the table has them: in lower case, without accents."""
        self._database.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.words USING fts5vocab(main, 'said', 'row')")
        rows = self._database.execute(
            "SELECT term FROM temp.words WHERE term >= ? AND term < ? AND length(term) BETWEEN ? AND ?",
            (beginning, beginning + chr(0x10FFFF), lengths[0], lengths[-1]),
        )
        return (term for (term,) in rows)

    def list_turns(self, key: Key) -> list[TurnText]:
        """All turns of a transcript, with their text."""
        rows = self._database.execute(
            f"SELECT number, at, {', '.join(self.COLUMNS)}"
            " FROM transcripts JOIN turns ON transcript = id JOIN said ON said.rowid = doc"
            " WHERE agent = ? AND name = ? ORDER BY number",
            key,
        )
        return [TurnText(number, stamp, tuple(texts)) for number, stamp, *texts in rows]

    def check(self) -> None:
        super().check()
        self._database.execute("INSERT INTO said(said) VALUES ('integrity-check')")

    def _remove(self, transcript: int, kept_turns: int) -> None:
        """Remove the title, and all turns after the first ``kept_turns``."""
        docs = self._database.execute(
            "SELECT doc FROM turns WHERE transcript = ? AND (number > ? OR number = 0)", (transcript, kept_turns)
        ).fetchall()
        self._database.executemany("DELETE FROM said WHERE rowid = ?", docs)
        self._database.execute(
            "DELETE FROM turns WHERE transcript = ? AND (number > ? OR number = 0)", (transcript, kept_turns)
        )

    def _add(self, transcript: int, turns: list[TurnText]) -> None:
        """Add turns. Their numbers order them by time, so that a query finds the newest first without other data."""
        docs_taken = {
            doc for (doc,) in self._database.execute("SELECT doc FROM turns WHERE transcript = ?", (transcript,))
        }
        insert = f"INSERT INTO said(rowid, {', '.join(self.COLUMNS)}) VALUES (?{', ?' * len(self.COLUMNS)})"
        for turn in turns:
            doc = (count_seconds(turn.started_at) << _TRANSCRIPT_BITS) + transcript
            while doc in docs_taken:
                doc += 1 << _TRANSCRIPT_BITS
            docs_taken.add(doc)
            self._database.execute(insert, (doc, *turn.texts))
            self._database.execute(
                "INSERT INTO turns VALUES (?, ?, ?, ?)", (transcript, turn.number, turn.started_at, doc)
            )


class PartTable(SearchTable):
    """A table of the parts of every turn, for searches in only some of them.

    Those are rare, and what tools print is many times what is said: so it is a file beside the search table of the same
    transcripts, made at the first such search and removed when that is.
    """

    KIND = ".parts"
    SCHEMA = 5
    COLUMNS = tuple(query.TurnPart)
    TABLES = make_tables(COLUMNS, SCHEMA)


def make_text(text: str) -> str:
    """A text as a table has it: what a terminal would show."""
    return query.separate_words(shorten_masks(strip_sequences(text)))


def make_texts(turn: SearchedTurn) -> tuple[str, ...]:
    """A turn's text in each column of a table of words."""
    return tuple(map(make_text, turn.texts))


def matches_transcript(table: SearchTable, key: Key, path: Path) -> bool:
    """Whether the table has the transcript's text, as far as it was read."""
    table_state, in_table = table.find_transcript(key), {turn.number: turn.texts for turn in table.list_turns(key)}
    try:
        reader = TranscriptReader(path)
    except FileNotFoundError:
        return table_state is None or table.find_transcript(key) is None
    except (OSError, NewerFormat):
        return True  # verifying the file reports this
    with closing(reader):
        if table_state is None:
            return True
        header = reader.header or reader.rebuild_header()
        if header is None or (header.created_at, reader.inode) != (table_state.created, table_state.inode):
            return True  # the next search reads it again
        if reader.size < table_state.size:  # as above: it was restored from a backup
            return True
        reader.size = table_state.size
        in_transcript = {turn.number: make_texts(turn) for turn in TurnReader(BEGINNING).read(reader)}
    last_turn = max(in_transcript, default=0)  # the table may have more of it: a line without its newline
    complete_turns = {number: texts for number, texts in in_transcript.items() if any(texts) and number != last_turn}
    empty_texts = ("",) * len(table.COLUMNS)
    return (
        complete_turns == {number: texts for number, texts in in_table.items() if 0 < number < last_turn}
        and all(map(str.startswith, in_table.get(last_turn, empty_texts), in_transcript.get(last_turn, empty_texts)))
        and max(in_table, default=0) <= last_turn + 1
    )


def decode_transcript(doc: int) -> int:
    """The transcript of a turn, by what ``SearchTable.find_turns`` calls the turn."""
    return doc & _TRANSCRIPT_MASK


def decode_second(doc: int) -> int:
    """The second in which a turn began; later if several began in one."""
    return doc >> _TRANSCRIPT_BITS


def find_or_create(layout: Layout, digit: str, table_class: type[TranscriptTable[Row]]) -> Path | None:
    """The path of a digit's table of this class, created if it is missing; None if SQLite can use no file in the store.

    If two processes created one at the same moment, the first by name stays.
    """
    if not layout.can_use_sqlite:
        return None
    table_path = None
    for path in list_search_tables(layout, digit, table_class.KIND):
        if table_path is None and not is_emptied(path):
            table_path = path
        else:
            with suppress(PermissionError):  # on Windows, while another process uses it; the next search tries again
                layout.remove_search_table(path)
    return table_path or _create(make_search_table_path(layout, digit, table_class.KIND), table_class.TABLES)


def _create(path: Path, tables: str) -> Path:
    """Create a table under another name first, so that nobody opens an incomplete one."""
    unfinished = path.with_suffix(".new")
    file_access.close(file_access.open_private(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL))
    try:
        with _report_removal(unfinished), closing(sqlite3.connect(unfinished, isolation_level=None)) as database:
            database.execute("PRAGMA synchronous = OFF")  # after a power loss it is rebuilt
            database.execute("PRAGMA journal_mode = WAL")
            database.executescript(tables)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path


@contextmanager
def _report_removal(path: Path) -> Iterator[None]:
    """Turns any SQLite error into FileNotFoundError if the file was removed."""
    try:
        yield
    except sqlite3.Error as problem:
        if not path.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from problem
        raise


def _decode_transcript_row(
    created: str, inode: int, size: int, offset: int, line: int, turns: int, id: int
) -> IndexedTranscript:
    return IndexedTranscript(created, inode, size, TurnStart(offset, line, turns), id)


def count_seconds(stamp: str) -> int:
    """A time in a transcript as ``decode_second`` gives it; 0 if it is none."""
    normalized = timestamps.normalize(stamp)
    return max(0, int(datetime.fromisoformat(normalized).timestamp())) if normalized is not None else 0


def _format_placeholders(values: tuple[object, ...]) -> str:
    return ", ".join("?" * len(values))
