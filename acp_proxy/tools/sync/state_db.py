"""What this machine remembers: its place in each log, the trees, and which file shows which branch. SQLite.

A change is durable with ``commit``. Everything before it is forgotten after a crash, and done again.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any, NamedTuple

from acp_proxy.tools.sync.records import TITLE, Death, Label, Mask, Record
from acp_proxy.tools.sync.session_tree import Segment, Tree

# Names of facts

MACHINE = "machine"
"""This machine's id, which is the name of its log."""
MACHINE_NAME = "name"
"""This machine's name, for people."""
HISTORY = "history"
"""The id of the history of the last round; empty before the first."""
SENT = "sent"
"""The number of the last record in this machine's log."""
RECEIVED = "received"
"""How many records of other machines were read, for people."""
WAITING = "waiting"
"""How many sessions were open here and waited for that to end after the last round, for people."""
LAST_ROUND = "last"
"""The time of the last whole round, in seconds."""
LATEST_STAMP = "latest"
"""The largest stamp that was seen or made (``Label.stamp``)."""
PENDING = "pending"
"""The bytes of the record that is being written to this machine's log: after a crash, the same are tried again."""
PENDING_SESSION = "pending session"
"""The uid of the local session whose segment is ``PENDING``; none if that is another record."""
MUST_READ = "must read"
"""The old id of this machine and a number: its log must be read as far as that before anything else is published."""


def name_journal_fact(agent_folder: str) -> str:
    """How far the agent's journal was read: what ``SyncSessions.list_moves`` takes."""
    return f"journal {agent_folder}"


_SCHEMA = 1
"""Raise it when the tables change. A database with another number is refused: what it says was published cannot all be
found again, so only the user can decide to begin anew."""
_TABLES = f"""
PRAGMA user_version = {_SCHEMA};
CREATE TABLE facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE logs (machine TEXT PRIMARY KEY, read INTEGER, name TEXT, trouble TEXT) WITHOUT ROWID;
CREATE TABLE ends (machine TEXT PRIMARY KEY, number INTEGER) WITHOUT ROWID;
CREATE TABLE segments (id TEXT PRIMARY KEY, tree TEXT, parent TEXT, machine TEXT, number INTEGER,
    size INTEGER, skip INTEGER, digest TEXT, is_blank INTEGER) WITHOUT ROWID;
CREATE INDEX segments_of_tree ON segments (tree);
CREATE TABLE trees (uid TEXT PRIMARY KEY, agent TEXT, header BLOB) WITHOUT ROWID;
CREATE TABLE deaths (tree TEXT, root TEXT, survivors TEXT, PRIMARY KEY (tree, root)) WITHOUT ROWID;
CREATE TABLE labels (tree TEXT, anchor TEXT, field TEXT, value, stamp INTEGER, machine TEXT,
    PRIMARY KEY (tree, anchor, field)) WITHOUT ROWID;
CREATE TABLE masks (id TEXT, part INTEGER, tree TEXT, segment TEXT, at INTEGER, new BLOB,
    PRIMARY KEY (id, part)) WITHOUT ROWID;
CREATE INDEX masks_of_segment ON masks (segment);
CREATE TABLE local_sessions (uid TEXT PRIMARY KEY, tree TEXT, tip TEXT, agent TEXT, name TEXT, stamp TEXT,
    title TEXT, is_archived INTEGER, is_soft_deleted INTEGER, is_pruned INTEGER, has_news INTEGER, trouble TEXT)
    WITHOUT ROWID;
CREATE INDEX local_sessions_of_tree ON local_sessions (tree);
CREATE INDEX local_sessions_by_name ON local_sessions (agent, name);
CREATE TABLE outbox (place INTEGER PRIMARY KEY, is_death INTEGER, record BLOB);
CREATE TABLE rewriting (machine TEXT, number INTEGER, PRIMARY KEY (machine, number)) WITHOUT ROWID;
CREATE TABLE records (machine TEXT, number INTEGER, tree TEXT, segment TEXT,
    PRIMARY KEY (machine, number)) WITHOUT ROWID;
CREATE INDEX records_of_tree ON records (tree);
CREATE TABLE unsettled (tree TEXT PRIMARY KEY) WITHOUT ROWID;
"""
_SESSION_COLUMNS = (
    "uid, tree, tip, agent, name, stamp, title, is_archived, is_soft_deleted, is_pruned, has_news, trouble"
)
"""In the order of the fields of ``LocalSession``. ``stamp`` has its ``file_version``: the column's name is older, and
would cost another ``_SCHEMA``."""
_SHOWN_ID_LETTERS = 8
"""Letters of a machine's id, for people."""


class RemoteMachine(NamedTuple):
    """Another machine. ``last_read``: how many records of its log were read. ``trouble``: why it cannot be read
    further; empty if it can."""

    id: str
    last_read: int
    name: str
    trouble: str

    @property
    def short_id(self) -> str:
        """The beginning of its id, for people."""
        return self.id[:_SHOWN_ID_LETTERS]

    @property
    def shown_name(self) -> str:
        """Its name, for people; as long as that is not known, its short id."""
        return self.name or self.short_id


@dataclass(frozen=True, slots=True)
class LocalSession:
    """A session here: the branch of a tree that its file shows.

    ``uid``: the file's own, which differs from the tree's in a fork. ``tip``: the last segment in the file, or the
    tree's uid. ``name``: the transcript's; empty if it has no file now. ``file_version``: that of the file when it was
    last read (``SeenFile.version``). ``title``, ``is_archived``, ``is_soft_deleted``: as last seen or set.
    ``is_pruned``: deleted on this machine only. ``has_news``: its file may have more than the segments. ``trouble``:
    why it is left alone.
    """

    uid: str
    tree: str
    tip: str
    agent_folder: str
    name: str = ""
    file_version: str = ""
    title: str | None = None
    is_archived: bool = False
    is_soft_deleted: bool = False
    is_pruned: bool = False
    has_news: bool = True
    trouble: str = ""


class SyncState:
    """The database. Only one process changes it at a time."""

    def __init__(self, path: str, *, only_reads: bool = False) -> None:
        """``only_reads``: another process may be changing it. Raises sqlite3.Error."""
        self.database = sqlite3.connect(path, isolation_level=None)
        self.database.execute("PRAGMA synchronous = FULL")
        self.database.execute("PRAGMA secure_delete = ON")
        if self._read_schema() != _SCHEMA:
            self._create_tables()
        self.database.execute("BEGIN" if only_reads else "BEGIN IMMEDIATE")

    def _read_schema(self) -> int:
        (version,) = self.database.execute("PRAGMA user_version").fetchone()
        return int(version)

    def _create_tables(self) -> None:
        self.database.execute("BEGIN IMMEDIATE")
        if self._read_schema() == _SCHEMA:  # another process has just created them
            self.database.execute("ROLLBACK")
            return
        if self.database.execute("SELECT 1 FROM sqlite_master").fetchone() is not None:
            self.database.close()
            raise sqlite3.DatabaseError("another version of acp-proxy has made it")
        for statement in _TABLES.split(";"):  # one by one: a script would end the transaction first
            self.database.execute(statement)
        self.database.execute("COMMIT")

    def commit(self) -> None:
        """Make everything so far durable."""
        self.database.execute("COMMIT")
        self.database.execute("BEGIN IMMEDIATE")

    def close(self) -> None:
        """Forget what was not committed."""
        self.database.rollback()
        self.database.close()

    # --- facts

    def get_text(self, name: str, default: str = "") -> str:
        """A fact as text."""
        row = self.database.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row is not None else default

    def get_number(self, name: str) -> int:
        """A fact as a number; 0 if it is not known."""
        return int(self.get_text(name, "0"))

    def get_pending(self) -> bytes | None:
        """See ``PENDING``."""
        row = self.database.execute("SELECT value FROM facts WHERE name = ?", (PENDING,)).fetchone()
        return row[0] if row is not None else None

    def set_facts(self, facts: Mapping[str, object]) -> None:
        """Set facts by name; None forgets one."""
        for name, value in facts.items():
            if value is None:
                self.database.execute("DELETE FROM facts WHERE name = ?", (name,))
            else:
                self.database.execute("REPLACE INTO facts VALUES (?, ?)", (name, value))

    # --- logs

    def read_logs(self) -> dict[str, int]:
        """The number of the last record that was read, by machine."""
        return dict(self.database.execute("SELECT machine, read FROM logs"))

    def list_machines(self) -> list[RemoteMachine]:
        """Each other machine whose log goes on."""
        ended_machines = "SELECT machine FROM ends"
        rows = self.database.execute(
            f"SELECT machine, read, name, trouble FROM logs WHERE machine NOT IN ({ended_machines}) ORDER BY name"
        )
        return [RemoteMachine(*row) for row in rows]

    def read_ends(self) -> dict[str, int]:
        """The last numbers of logs that have ended, by machine."""
        return dict(self.database.execute("SELECT machine, number FROM ends"))

    def put_end(self, machine: str, number: int) -> None:
        """Keep the end of a log, if it is the largest number that was said."""
        end = max(number, self.read_ends().get(machine, 0))
        self.database.execute("REPLACE INTO ends VALUES (?, ?)", (machine, end))

    def note_read(self, machine: str, number: int, name: str = "") -> None:
        """Note that a log was read to this number, without trouble. ``name``: its machine's, if that was said."""
        row = self.database.execute("SELECT name FROM logs WHERE machine = ?", (machine,)).fetchone()
        name = name or (row[0] if row is not None else "")
        self.database.execute("REPLACE INTO logs VALUES (?, ?, ?, '')", (machine, number, name))

    def set_trouble(self, machine: str, trouble: str) -> None:
        """Note why a log cannot be read on."""
        self.database.execute("UPDATE logs SET trouble = ? WHERE machine = ?", (trouble, machine))

    def find_name(self, machine: str) -> str:
        """A foreign machine's name; empty if it is not known."""
        row = self.database.execute("SELECT name FROM logs WHERE machine = ?", (machine,)).fetchone()
        return row[0] if row is not None else ""

    # --- trees

    def read_tree(self, uid: str) -> Tree:
        """The tree of a session, by its uid; empty if nothing of it is known."""
        rows = self.database.execute(
            "SELECT id, parent, machine, number, size, skip, digest, is_blank FROM segments WHERE tree = ?", (uid,)
        )
        all_segments = {row[0]: replace(Segment(*row), is_blank=bool(row[7])) for row in rows}
        segments = {id: segment for id, segment in all_segments.items() if segment.is_placed}
        rows = self.database.execute("SELECT root, survivors FROM deaths WHERE tree = ?", (uid,))
        deaths = {root: tuple(survivors.split()) for root, survivors in rows}
        return Tree(
            uid, segments, deaths, {id: segment for id, segment in all_segments.items() if not segment.is_placed}
        )

    def put_segment(self, tree: str, segment: Segment) -> None:
        """Keep a segment, in place of what was known of it."""
        self.database.execute(
            "REPLACE INTO segments VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (segment.id, tree, *astuple(segment)[1:]),
        )

    def has_segment(self, id: str) -> bool:
        """Whether a segment is known, placed or not."""
        return self.database.execute("SELECT 1 FROM segments WHERE id = ?", (id,)).fetchone() is not None

    def put_tree_header(self, uid: str, agent_folder: str, header: bytes) -> None:
        """Keep a tree's agent and header, unless they are known."""
        self.database.execute("INSERT OR IGNORE INTO trees VALUES (?, ?, ?)", (uid, agent_folder, header))

    def find_tree_header(self, uid: str) -> tuple[str, bytes] | None:
        """A tree's agent and header."""
        row = self.database.execute("SELECT agent, header FROM trees WHERE uid = ?", (uid,)).fetchone()
        return (row[0], row[1]) if row is not None else None

    def put_death(self, tree: str, root: str, survivors: tuple[str, ...]) -> bool:
        """Keep a death; False if it is known."""
        cursor = self.database.execute(
            "INSERT OR IGNORE INTO deaths VALUES (?, ?, ?)", (tree, root, " ".join(survivors))
        )
        return cursor.rowcount > 0

    def note_record(self, machine: str, number: int, tree: str, segment: str = "") -> None:
        """Keep where a record with words in it lies, to blank or mask it later. ``segment``: if it is one; of a label,
        its anchor."""
        self.database.execute("REPLACE INTO records VALUES (?, ?, ?, ?)", (machine, number, tree, segment))

    def mark_for_rewrite(self, tree: str, segment: str | None = None) -> None:
        """Note that the records of a segment, or all of a tree, must be written again: blank, or masked."""
        condition = "" if segment is None else " AND segment = ?"
        parameters = (tree,) if segment is None else (tree, segment)
        self.database.execute(
            f"INSERT OR IGNORE INTO rewriting SELECT machine, number FROM records WHERE tree = ?{condition}", parameters
        )

    def list_unapplied(self) -> list[str]:
        """The trees of which something was read that the files do not show yet (table ``unsettled``), and those with
        news in their files."""
        trees_with_news = "SELECT tree FROM local_sessions WHERE (has_news OR name = '') AND NOT is_pruned"
        rows = self.database.execute(f"SELECT tree FROM unsettled UNION {trees_with_news} ORDER BY 1")
        return [tree for (tree,) in rows]

    def mark_unapplied(self, tree: str) -> None:
        """Note that a tree has something that its files do not show yet."""
        self.database.execute("INSERT OR IGNORE INTO unsettled VALUES (?)", (tree,))

    def mark_applied(self, tree: str) -> None:
        """Note that the files show all of a tree."""
        self.database.execute("DELETE FROM unsettled WHERE tree = ?", (tree,))

    # --- labels and masks

    def read_labels(self, tree: str) -> dict[str, dict[str, Label]]:
        """The labels that count, by field and anchor."""
        labels: dict[str, dict[str, Label]] = {}
        rows = self.database.execute("SELECT anchor, field, value, stamp, machine FROM labels WHERE tree = ?", (tree,))
        for anchor, field, value, stamp, by in rows:
            value = value if field == TITLE else bool(value)
            labels.setdefault(field, {})[anchor] = Label(tree, anchor, field, value, stamp, by)
        return labels

    def put_label(self, label: Label) -> None:
        """Keep a label if it is the latest."""
        old_label = self.database.execute(
            "SELECT stamp, machine FROM labels WHERE tree = ? AND anchor = ? AND field = ?",
            (label.tree, label.anchor, label.field),
        ).fetchone()
        if old_label is None or tuple(old_label) < (label.stamp, label.by):
            values = label.tree, label.anchor, label.field, label.value, label.stamp, label.by
            self.database.execute("REPLACE INTO labels VALUES (?, ?, ?, ?, ?, ?)", values)

    def drop_labels(self, tree: str, anchor: str) -> None:
        """Forget the labels from this segment on, or of the whole tree if it is its uid."""
        self.database.execute("DELETE FROM labels WHERE tree = ? AND anchor = ?", (tree, anchor))

    def put_mask(self, mask: Mask) -> None:
        """Keep a mask; does nothing if it is known."""
        id = mask.id  # hashed from all spans
        for part, (offset, new) in enumerate(mask.spans):
            values = id, part, mask.tree, mask.segment, offset, new
            self.database.execute("INSERT OR IGNORE INTO masks VALUES (?, ?, ?, ?, ?, ?)", values)

    def read_masks(self, segment: str) -> list[Mask]:
        """The masks of a segment, in an order that is the same on every machine."""
        rows = self.database.execute("SELECT tree, at, new FROM masks WHERE segment = ? ORDER BY id, part", (segment,))
        return [Mask(tree, segment, ((at, new),)) for tree, at, new in rows]

    # --- local sessions

    def list_local_sessions(self, tree: str = "") -> list[LocalSession]:
        """The sessions here, or those of one tree."""
        where, parameters = ("WHERE tree = ?", (tree,)) if tree else ("", ())
        rows = self.database.execute(f"SELECT {_SESSION_COLUMNS} FROM local_sessions {where} ORDER BY uid", parameters)
        return [_decode_session(row) for row in rows]

    def find_local_session(self, uid: str) -> LocalSession | None:
        """The session here whose file has this uid."""
        row = self.database.execute(f"SELECT {_SESSION_COLUMNS} FROM local_sessions WHERE uid = ?", (uid,)).fetchone()
        return _decode_session(row) if row is not None else None

    def find_named(self, agent_folder: str, name: str) -> LocalSession | None:
        """The session here with this transcript name."""
        row = self.database.execute(
            f"SELECT {_SESSION_COLUMNS} FROM local_sessions WHERE agent = ? AND name = ?", (agent_folder, name)
        ).fetchone()
        return _decode_session(row) if row is not None else None

    def find_named_or_aside(self, agent_folder: str, name: str) -> list[LocalSession]:
        """The session with this name, and those with this name and something after a ``~``."""
        rows = self.database.execute(
            f"SELECT {_SESSION_COLUMNS} FROM local_sessions WHERE agent = ? AND (name = ? OR (name > ? AND name < ?))",
            (agent_folder, name, f"{name}~", f"{name}~~"),
        )
        return [_decode_session(row) for row in rows]

    def put_local_session(self, local_session: LocalSession) -> LocalSession:
        """Keep a session here, in place of what was known of it. Returns it."""
        values = astuple(local_session)
        self.database.execute(
            f"REPLACE INTO local_sessions ({_SESSION_COLUMNS}) VALUES ({', '.join('?' * len(values))})", values
        )
        return local_session

    def mark_changed(self, tree: str) -> None:
        """Note that the files of a tree must be compared with its segments again."""
        self.database.execute("UPDATE local_sessions SET has_news = 1 WHERE tree = ?", (tree,))

    def drop_local_session(self, uid: str) -> None:
        """Forget a session here."""
        self.database.execute("DELETE FROM local_sessions WHERE uid = ?", (uid,))

    # --- another shared place

    def list_deleted_trees(self) -> list[str]:
        """The trees that were deleted as a whole."""
        return [tree for (tree,) in self.database.execute("SELECT tree FROM deaths WHERE root = tree ORDER BY tree")]

    def list_session_labels(self) -> list[Label]:
        """The labels that count for whole sessions."""
        trees = self.database.execute("SELECT DISTINCT tree FROM labels WHERE anchor = tree ORDER BY tree").fetchall()
        return [labels[tree] for (tree,) in trees for labels in self.read_labels(tree).values() if tree in labels]

    def begin_anew(self, machine: str) -> None:
        """Forget all segments and logs, but neither the sessions here nor what is to be written."""
        for table in ("logs", "ends", "segments", "trees", "masks", "rewriting", "records", "unsettled"):
            self.database.execute(f"DELETE FROM {table}")
        self.database.execute("DELETE FROM deaths WHERE root != tree")
        self.database.execute("DELETE FROM labels WHERE anchor != tree")
        self.database.execute("UPDATE local_sessions SET tip = tree, has_news = NOT is_pruned, trouble = ''")
        self.set_facts({MACHINE: machine, SENT: 0, RECEIVED: 0, WAITING: 0, LAST_ROUND: 0})
        self.set_facts({PENDING: None, PENDING_SESSION: None, MUST_READ: None})

    # --- what is to be written

    def add_to_outbox(self, record: Record, encoded: bytes) -> None:
        """Keep a record that is to be written to this machine's log. ``encoded``: its bytes."""
        values = isinstance(record, Death), encoded
        self.database.execute("INSERT INTO outbox (is_death, record) VALUES (?, ?)", values)

    def list_outbox(self) -> list[tuple[int, bool, bytes]]:
        """Of each record that waits to be written, in order: its place, whether it is a ``Death``, and its bytes."""
        rows = self.database.execute("SELECT place, is_death, record FROM outbox ORDER BY place")
        return [(place, bool(is_death), record) for place, is_death, record in rows]

    def remove_from_outbox(self, place: int) -> None:
        """Forget a record, because it is pending or written now."""
        self.database.execute("DELETE FROM outbox WHERE place = ?", (place,))

    def list_rewrites(self) -> Iterator[tuple[str, int]]:
        """Machine and number of each record that must be written again."""
        yield from self.database.execute("SELECT machine, number FROM rewriting").fetchall()

    def remove_rewrite(self, machine: str, number: int) -> None:
        """Forget a rewrite, because it is done."""
        self.database.execute("DELETE FROM rewriting WHERE machine = ? AND number = ?", (machine, number))


def _decode_session(row: tuple[Any, ...]) -> LocalSession:
    uid, tree, tip, agent_folder, name, file_version, title, *flags, trouble = row
    is_archived, is_soft_deleted, is_pruned, has_news = map(bool, flags)
    return LocalSession(
        uid=uid,
        tree=tree,
        tip=tip,
        agent_folder=agent_folder,
        name=name,
        file_version=file_version,
        title=title,
        is_archived=is_archived,
        is_soft_deleted=is_soft_deleted,
        is_pruned=is_pruned,
        has_news=has_news,
        trouble=trouble,
    )
