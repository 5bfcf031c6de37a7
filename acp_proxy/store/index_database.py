"""The file of the index of all sessions: its tables, queries and changes. ``store_index`` decides when to make which.

An SQLite file derived from the transcripts, one for all agents, in WAL mode, so that processes do not wait for each
other. A transcript's row has what a list shows, and the state of its ``Summary`` at an offset, so that after a turn
only that turn's lines are read. Raises ``sqlite3.Error``; ``StoreIndex`` handles it.
"""

import base64
import json
import sqlite3
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

from msgspec import Struct, convert, to_builtins

from acp_proxy.errors import InvalidCursor
from acp_proxy.protocol import jsonrpc, proxy_ids
from acp_proxy.store import same_directory
from acp_proxy.store.databases import make_database_uri
from acp_proxy.transcript import file_names
from acp_proxy.transcript.file_format import GitHead, Header
from acp_proxy.transcript.file_names import digest
from acp_proxy.transcript.reader import AlikeLines, TranscriptReader
from acp_proxy.transcript.summary import Summary

SCHEMA = 12
"""Raise it when the tables change, or what is read from a transcript into a row: every index is then made anew."""
PAGE_ROWS = 500
"""The rows of a page: many, because several clients read only the first one."""
COLUMNS = "agent, name, session, updated, info, open, created"
"""The columns of a row that ``decode_row`` reads."""
_BUSY_MS = 5000
"""How long a query or a change waits for another process's transaction. While the index is filled, one takes a tenth of
a second (``store_index._TRANSACTION_SECONDS``); only erasing removed rows from a large index takes longer."""
_JOURNAL_MODE_PAUSE_SECONDS = 0.01
"""Between two tries to switch to WAL mode."""
_ERASE_BUSY_MS = 250
"""How long to wait for others: longer than a list's query. If they take longer, the next list tries again."""

_TABLES = """
CREATE TABLE transcripts(
  agent TEXT NOT NULL,      -- its folder
  name TEXT NOT NULL,       -- the transcript's, without extension
  session BLOB NOT NULL,    -- the id, by encode_id
  listed INTEGER NOT NULL,  -- 1: session/list may show it: it has a prompt, a directory, and its id is no newer one's
  updated TEXT NOT NULL,    -- last activity, or the agent's own time of change
  place BLOB,               -- the directory by resolve_directory, by encode_id
  spelled BLOB,             -- the directory by normalize_directory, by encode_id: finds it even if a link has changed
  info TEXT NOT NULL,       -- JSON: what else a list shows of it at the end of the file
  open TEXT NOT NULL,       -- JSON: the runs with an unanswered turn
  usage TEXT NOT NULL,      -- JSON: SessionUsage, at size
  inode INTEGER NOT NULL,   -- the file's: with another one, the transcript is read from its start
  created TEXT NOT NULL,    -- the time in the header
  size INTEGER NOT NULL,    -- bytes read so far, uncompressed: the next reading begins there
  lines INTEGER NOT NULL,   -- lines read so far
  state TEXT NOT NULL,      -- JSON: Summary, at size
  PRIMARY KEY(agent, name)) WITHOUT ROWID;
CREATE INDEX listing ON transcripts(agent, listed, updated, session);
CREATE INDEX by_place ON transcripts(agent, place, listed, updated, session);
CREATE INDEX by_spelling ON transcripts(agent, spelled, place);
CREATE TABLE folders(
  agent TEXT PRIMARY KEY,
  seen TEXT NOT NULL,        -- the folder's state when all in it had been brought in (folder_changes)
  removals INTEGER NOT NULL  -- how often rows were removed
  ) WITHOUT ROWID;
"""


class ListedSession(Struct, frozen=True):
    """A session as a list shows it."""

    agent_folder: str
    name: str
    """Its transcript's."""
    session_id: str
    cwd: str | None
    title: str | None
    updated: str
    """When it was last active."""
    prompt_count: int
    """The user's turns, including those that the agent reported when it first loaded the session here."""
    reply_count: int
    """The turns with an answer."""
    has_failed: bool
    """A turn failed, or another run left one unanswered."""
    is_running: bool
    """Another run's turn has no answer yet, and a process has the transcript open."""
    directories: list[str]
    meta: dict[str, object]
    size: int
    """Its transcript's, in bytes."""
    created: str
    """When its transcript began; empty if unknown."""
    is_archived: bool = False
    """Set by ``queries.complete_rows``, not by the index; so is ``is_pinned``."""
    is_pinned: bool = False
    machine: str = ""
    """The name of the one where it was begun; empty: here."""
    git: GitHead = GitHead()
    """What the directory's work tree was at when it began."""

    @property
    def selector(self) -> str:
        """What selects it on a command line: its id, with a number if a newer session has that id now; or a copy's
        short id."""
        return file_names.make_selector(self.agent_folder, self.name, self.session_id)

    @property
    def full_selector(self) -> str:
        """The same, with a copy's whole id."""
        return self.session_id + file_names.find_aside_suffix(self.name)

    @property
    def copy_of(self) -> str | None:
        """The folder of the agent whose session it was copied from; None if it is no copy."""
        return (proxy_ids.parse_other_agents_id(self.session_id) or (None,))[0]


class Page(Struct, frozen=True):
    """One page of a list. ``next``: the cursor for the next page, or None."""

    rows: list[ListedSession]
    next: str | None


# --- Cursors: where a page of a list ends, as text that is opaque to clients. Those of another list are refused.


_CURSOR_VERSION = 1


def encode_binding(agent_folder: str, cwd: str | None) -> str:
    """Identifies the list that a cursor belongs to: an agent and a directory filter."""
    return digest(json.dumps([agent_folder, same_directory.normalize_directory(cwd) if cwd is not None else None]))


def encode_cursor(binding: str, updated: str, session: bytes) -> str:
    """The cursor for the page after the row with this time and id."""
    text = json.dumps([_CURSOR_VERSION, binding, updated, session.hex()])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(cursor: str, binding: str) -> tuple[str, bytes]:
    """The time and id in a cursor. Raises InvalidCursor."""
    try:
        members = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
        version, cursor_binding, updated, session = members
        if (
            (version, cursor_binding) != (_CURSOR_VERSION, binding)
            or not isinstance(updated, str)
            or not updated.isascii()
        ):
            raise InvalidCursor
        return updated, bytes.fromhex(session)
    except (ValueError, TypeError, RecursionError) as problem:
        raise InvalidCursor from problem


# --- The rows.


class Index:
    """A connection to the index at ``path``, or with None to a new one in memory. For one thread at a time."""

    def __init__(self, path: Path | None) -> None:
        self.is_on_disk = path is not None
        self._database = sqlite3.connect(
            path or ":memory:", isolation_level=None, timeout=_BUSY_MS / 1000, check_same_thread=False
        )
        try:
            self.is_new = self._set_up()
        except UnicodeDecodeError as problem:  # SQLite quotes a damaged schema in its message
            self._database.close()
            raise sqlite3.DatabaseError("malformed database schema") from problem
        except BaseException:
            self._database.close()
            raise

    def __del__(self) -> None:  # nobody closes a store; weakref.finalize does nothing while Python ends
        if hasattr(self, "_database"):
            self.close()

    def close(self) -> None:
        self._database.close()

    def put_row(self, agent_folder: str, name: str, reader: TranscriptReader) -> bool:
        """Write one transcript's row, or bring it up to date. Returns whether nothing is pending: no turn is unanswered
        and no line incomplete."""
        with self.transaction():
            row = self._database.execute(
                "SELECT inode, created, size, lines, state, usage FROM transcripts WHERE agent = ? AND name = ?",
                (agent_folder, name),
            ).fetchone()
            header = reader.header or reader.rebuild_header()
            if header is None:
                return True
            summary, size, line_count = Summary.begin(header), 0, 0
            if row is not None and row[:2] == (reader.inode, header.created_at) and row[2] <= reader.size:
                with check_values():
                    summary = convert(parse_json(row[4]) | {"usage": parse_json(row[5])}, Summary)
                    size, line_count = row[2:4]
                if size == reader.size:
                    return not summary.open
            end_summary, is_whole = summary, True
            for line in reader.read_alike(size, line_count):
                if isinstance(line, AlikeLines):
                    summary.add_chunks(line.chunks)
                elif line.is_whole:
                    if line.entry is not None:
                        summary.add(line.entry)
                else:  # the last, incomplete line: counts now, but is read again
                    if is_whole:
                        end_summary, is_whole = deepcopy(summary), False
                    if line.entry is not None:
                        end_summary.add(line.entry)
                    continue
                size, line_count = line.end, line.number + 1
            cwd = end_summary.cwd
            values = encode_row(name, header, ReadPart(size, line_count, summary), end_summary, reader.size) | {
                "agent": agent_folder,
                "name": name,
                "inode": reader.inode,
                "place": encode_id(same_directory.resolve_directory(cwd)) if cwd is not None else None,
                "spelled": encode_id(same_directory.normalize_directory(cwd)) if cwd is not None else None,
            }
            self._database.execute(
                f"INSERT OR REPLACE INTO transcripts({', '.join(values)}) VALUES ({', '.join('?' * len(values))})",
                tuple(values.values()),
            )
            return not end_summary.open and is_whole

    def remove_rows(self, agent_folder: str, *names: str) -> bool:
        """Remove the rows of these transcripts; returns whether there were any. Their bytes stay in the file and its
        log until ``erase_removed_rows``. The next list scans their folder, in case one of them exists again."""
        rows = self._database.execute(
            "SELECT agent, name FROM transcripts WHERE agent = ? AND name IN (SELECT value FROM json_each(?))",
            (agent_folder, json.dumps(names)),
        ).fetchall()
        if rows:
            with self.transaction():
                self._database.executemany("DELETE FROM transcripts WHERE agent = ? AND name = ?", rows)
                self._database.execute(
                    "INSERT INTO folders VALUES (?, '', 1)"
                    " ON CONFLICT DO UPDATE SET seen = '', removals = removals + 1",
                    (agent_folder,),
                )
        return bool(rows)

    def list_folders(self) -> list[str]:
        """The agents' folders that are remembered."""
        return [agent_folder for (agent_folder,) in self._database.execute("SELECT agent FROM folders")]

    def read_folder(self, agent_folder: str) -> tuple[str, int]:
        """The state of an agent's folder when all in it had been brought in, and how often rows were removed."""
        row = self._database.execute("SELECT seen, removals FROM folders WHERE agent = ?", (agent_folder,)).fetchone()
        return tuple(row) if row is not None else ("", 0)

    def remember_folder(self, agent_folder: str, folder_state: str, removals: int) -> None:
        """Store a folder's state, unless rows were removed since, or the index is locked or full: a list that changes
        nothing must neither wait nor need space."""
        self._database.execute("PRAGMA busy_timeout = 0")
        try:
            self._database.execute(
                "INSERT INTO folders VALUES (?, ?, ?)"
                " ON CONFLICT DO UPDATE SET seen = excluded.seen WHERE removals = excluded.removals",
                (agent_folder, folder_state, removals),
            )
        except sqlite3.OperationalError:
            pass
        finally:
            self._database.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")

    def set_inode(self, agent_folder: str, name: str, old_inode: int, new_inode: int) -> bool:
        """Assign a row to a new file with the same content. Returns whether there was a row with ``old_inode``."""
        with self.transaction():
            cursor = self._database.execute(
                "UPDATE transcripts SET inode = ? WHERE agent = ? AND name = ? AND inode = ?",
                (new_inode, agent_folder, name, old_inode),
            )
            return cursor.rowcount == 1

    def erase_removed_rows(self) -> bool:
        """Erase removed rows from the file and the write-ahead log. Returns False in a transaction, if other processes
        use them, or if the disk is full."""
        if self._database.in_transaction:
            return False
        self._database.execute(f"PRAGMA busy_timeout = {_ERASE_BUSY_MS}")
        try:
            # A deleted session's title must not be readable in the file. ``secure_delete`` overwrites rows where they
            # are now, but not the copies that SQLite left in other pages when it split or joined them: VACUUM writes
            # every page anew. The log has the old pages, too, until it is truncated.
            self._database.execute("VACUUM")
            (busy, _, _) = self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.OperationalError as problem:
            if problem.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL):
                raise
            return False
        finally:
            self._database.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
        return not busy

    def select_page(
        self,
        agent_folder: str,
        cwd: str | None,
        cursor: str | None,
        run: str,
        size: int = PAGE_ROWS,
        hidden_names: Collection[str] = (),
        only_names: Collection[str] | None = None,
    ) -> Page:
        """One page of an agent's sessions, newest first. Raises InvalidCursor.

        ``cwd``: only sessions of this directory. ``cursor``: ``Page.next`` of the page before. ``run``: its
        unanswered prompts do not count as failed. ``hidden_names``: the transcripts to leave out. ``only_names``: leave
        out all others.
        """
        binding = encode_binding(agent_folder, cwd)
        position = decode_cursor(cursor, binding) if cursor is not None else ()
        rows = self.select_listed(
            agent_folder,
            cwd,
            run=run,
            hidden_names=hidden_names,
            only_names=only_names,
            test="(updated, session) < (?, ?)" if position else "1",
            values=position,
            limit=size + 1,
        )
        if len(rows) <= size:
            return Page(rows, None)
        last = rows[size - 1]
        return Page(rows[:size], encode_cursor(binding, last.updated, encode_id(last.session_id)))

    def select_listed(
        self,
        agent_folder: str,
        cwd: str | None,
        *,
        run: str = "",
        hidden_names: Collection[str] = (),
        only_names: Collection[str] | None = None,
        test: str = "1",
        values: Sequence[object] = (),
        limit: int = PAGE_ROWS,
    ) -> list[ListedSession]:
        """An agent's listed rows that pass a condition, newest first. ``values``: the condition's. The other parameters
        as for ``select_page``."""
        query = f"SELECT {COLUMNS} FROM transcripts WHERE agent = ? AND listed = 1 AND {test}"
        parameters: list[object] = [agent_folder, *values]
        if cwd is not None:
            directory_test, places = self.match_directory(agent_folder, cwd)
            query += f" AND {directory_test}"
            parameters += places
        if hidden_names:
            query += " AND name NOT IN (SELECT value FROM json_each(?))"
            parameters.append(json.dumps(list(hidden_names)))
        if only_names is not None:
            query += " AND name IN (SELECT value FROM json_each(?))"
            parameters.append(json.dumps(list(only_names)))
        query += " ORDER BY updated DESC, session DESC LIMIT ?"
        return [decode_row(row, own_run=run) for row in self.select(query, [*parameters, limit])]

    def select(self, query: str, values: Sequence[object]) -> list[Any]:
        return self._database.execute(query, values).fetchall()

    def iterate(self, query: str, values: Sequence[object]) -> Iterator[Any]:
        """The rows of a query one by one, when there may be too many for the memory."""
        return self._database.execute(query, values)

    def has_row(self, agent_folder: str, name: str) -> bool:
        """Whether there is a row for this transcript."""
        rows = self._database.execute("SELECT 1 FROM transcripts WHERE agent = ? AND name = ?", (agent_folder, name))
        return rows.fetchone() is not None

    def copy_from(self, path: Path) -> None:
        """Copy the rows of a complete index at ``path`` into this one, unless that cannot be read at once."""

        def check(status: int, remaining: int, total: int) -> None:
            if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):  # ``backup`` would try again for ever
                raise sqlite3.OperationalError("it is locked")

        with (
            suppress(sqlite3.Error),
            closing(sqlite3.connect(make_database_uri(path, "mode=ro"), uri=True, timeout=0)) as source,
        ):
            if source.execute("PRAGMA user_version").fetchone() == (SCHEMA,):
                source.backup(self._database, progress=check)
                self.is_new = False

    def set_filled(self) -> None:
        """Record that all transcripts were brought in; from now on only marked ones need to be."""
        self._database.execute(f"PRAGMA user_version = {SCHEMA}")
        self.is_new = False

    def _set_up(self) -> bool:
        """Create the tables if they are missing. Returns whether the index has to be filled."""
        database = self._database
        self._use_write_ahead_log()
        database.execute("PRAGMA synchronous = NORMAL")
        database.execute("PRAGMA secure_delete = ON")
        database.execute("PRAGMA temp_store = MEMORY")  # VACUUM must not put a copy into /var/tmp
        with self.transaction():
            (version,) = database.execute("PRAGMA user_version").fetchone()
            tables = database.execute("SELECT count(*) FROM sqlite_master WHERE name = 'transcripts'").fetchone()
            if version not in (0, SCHEMA):
                raise sqlite3.DatabaseError(f"index of another version: {version}")
            if not tables[0]:
                for statement in _TABLES.split(";"):
                    database.execute(statement)
        return bool(version != SCHEMA or not tables[0])

    def _use_write_ahead_log(self) -> None:
        """Switch to WAL mode. SQLite itself does not wait here for another process that does the same."""
        deadline = time.monotonic() + _BUSY_MS / 1000
        while True:
            try:
                self._database.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as problem:
                if problem.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
            time.sleep(_JOURNAL_MODE_PAUSE_SECONDS)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All changes made in this context form one transaction; other writers wait for its end. One in another is a
        part of that."""
        if self._database.in_transaction:
            yield
            return
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    def match_directory(self, agent_folder: str, cwd: str) -> tuple[str, Sequence[object]]:
        """A condition for an agent's sessions in a directory: where it leads, and where sessions so spelled were; and
        its values."""
        rows = self._database.execute(
            "SELECT DISTINCT place FROM transcripts WHERE agent = ? AND spelled = ?",
            (agent_folder, encode_id(same_directory.normalize_directory(cwd))),
        )
        places = list({encode_id(same_directory.resolve_directory(cwd)), *(place for (place,) in rows)})
        return f"place IN ({','.join('?' * len(places))})", places


class ReadPart(Struct, frozen=True):
    """The part of a transcript that was read: so many bytes and lines, and their summary."""

    size: int
    line_count: int
    summary: Summary


def encode_row(
    name: str, header: Header, read_part: ReadPart, end_summary: Summary, file_size: int
) -> dict[str, object]:
    """A transcript's row, without its file's inode, and its directory, which depends on where links lead now.
    ``read_part``: after which to continue. ``end_summary``: the summary of the whole file, of ``file_size`` bytes."""
    info = {
        "cwd": end_summary.cwd,
        "title": end_summary.title,
        "prompts": end_summary.prompts,
        "replies": end_summary.replies,
        "failed": end_summary.failed,
        "lastRun": end_summary.last_run,
        "directories": end_summary.directories,
        "meta": end_summary.meta,
        "size": file_size,
        "machine": end_summary.machine,
        "git": end_summary.git,
    }
    state = to_builtins(read_part.summary)
    return {
        "session": encode_id(header.session_id),
        "listed": int(
            end_summary.prompts > 0 and end_summary.cwd is not None and not file_names.find_aside_suffix(name)
        ),
        "updated": end_summary.updated or "",
        "info": _encode_json(info),
        "open": _encode_json(sorted(end_summary.open)),
        "usage": _encode_json(state.pop("usage")),
        "created": header.created_at,
        "size": read_part.size,
        "lines": read_part.line_count,
        "state": _encode_json(state),
    }


@contextmanager
def check_values() -> Iterator[None]:
    """Turns errors from damaged values, which SQLite does not notice, into ``sqlite3.DatabaseError``."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise sqlite3.DatabaseError("a row that we have not written") from problem


@check_values()
def decode_row(row: tuple[str, str, bytes, str, str, str, str], *, own_run: str = "") -> ListedSession:
    """A row of the index, with the ``COLUMNS``. ``own_run``: its unanswered prompts do not count.

    Another run's unanswered prompt counts as running if that run wrote last: if it had ended, whoever continued the
    session would have written since. ``queries.complete_rows`` looks whether a process still has the transcript open.
    """
    agent_folder, name, session_id, updated, info, open_runs, created = row
    members = parse_json(info)
    other_runs, last_run = set(parse_json(open_runs)) - {own_run}, members["lastRun"]
    return ListedSession(
        agent_folder=agent_folder,
        name=name,
        session_id=decode_id(session_id),
        cwd=members["cwd"],
        title=members["title"],
        updated=updated,
        prompt_count=members["prompts"],
        reply_count=members["replies"],
        has_failed=members["failed"] or bool(other_runs - {last_run}),
        is_running=last_run in other_runs,
        directories=members["directories"],
        meta=members["meta"],
        size=members["size"],
        created=created,
        machine=members.get("machine", ""),
        git=GitHead.from_members(members.get("git")),
    )


def _encode_json(value: object) -> str:
    return jsonrpc.dump(value).decode()


def parse_json(text: str) -> Any:
    return jsonrpc.parse(text.encode())


def encode_id(text: str) -> bytes:
    """Text as bytes, lone surrogates and NUL included, so that it is compared byte by byte."""
    return text.encode("utf-8", "surrogatepass")


def decode_id(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
