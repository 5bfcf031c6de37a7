"""Keeps the index (its file is in ``index_database``): brings it up to date before a query, and rebuilds it when it
cannot be trusted.

Which transcripts the index must read is decided here, by their marks, and by ``folder_changes``, for those that came or
went without one. For one thread at a time; several processes may use the same index.

The index on disk is written

- by ``query``, be it for an editor's list, a command or a search, and by ``catch_up``, such as in an idle minute
  (``StoreBase.list_transcripts_to_compress``): all that is new of the agents that they name is brought in, and their
  interrupted deletes are completed. Without agents, they only read, unless the index is new;
- for one session: after its turn or a change of the agent's title (``ProxyStore.index_session``; the user's is only in
  the journal), and when a command has made or brought back its transcript, as restore, import, adopt and continue do
  (``CommandStore.index_transcript``);
- after a delete by an editor, a command, ``prune`` or sync (``remove``);
- after soft-deleted sessions were removed, because their time was over (``StoreBase.remove_expired``) or by a command
  (``CommandStore.delete_soft_deleted``): they ``catch_up`` then, which erases what is left of removed rows;
- after a repair, a redaction, or a mask of another machine (``reindex``), and after compressing
  (``follow_compression``);
- as a whole, when it is missing, broken or of another version, by as many queries as it takes, and by ``acp-proxy
  repair`` (``rebuild``).

Sessions and turns that sync adds, and sessions that it restores, are only marked, as is what was recorded by a process
that died before it wrote the index: the next query brings them in.
"""

import errno
import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from functools import partial
from itertools import takewhile
from typing import TypeVar

from acp_proxy.errors import NewerFormat, Unreadable, errno_name
from acp_proxy.store import delete, old_forks
from acp_proxy.store.databases import check_database
from acp_proxy.store.folder_changes import find_changes, list_newest_first
from acp_proxy.store.index_database import Index
from acp_proxy.store.journal import JournalState
from acp_proxy.store.layout import Layout
from acp_proxy.transcript import file_access
from acp_proxy.transcript.appender import is_in_use
from acp_proxy.transcript.file_format import IMPORTED
from acp_proxy.transcript.file_names import file_name
from acp_proxy.transcript.reader import TranscriptReader

_UNFINISHED_SECONDS = 24 * 60 * 60
"""Within this time, or while a process has the transcript open, an unanswered turn may be answered, so its mark
stays."""
_REPLAY_SECONDS = 60
"""An agent may pause for so long while it replays an imported session; nothing signals the end of that replay."""
_RETRY_PAUSE_SECONDS = 5.0
"""After a failed write, the index is not tried again for so long, as each try may take seconds. Marks remain."""
_SLOW_SECONDS = 1.0
"""A query that waited longer than this for an index in vain leaves it alone, too."""
_TRANSACTION_SECONDS = 0.1
"""How long a transaction may take while the index is filled, so that other writers wait only briefly."""
_BUSY_CODES = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_TEMPORARY_CODES = _BUSY_CODES | frozenset(
    {
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
    }
)
"""Errors that rebuilding would not fix: the index is in use, or there is no space or access."""

Progress = Callable[[int, int], None]
"""Called with the number of transcripts read and the total."""

ShowProgress = Callable[[], AbstractContextManager[Progress]]
"""Makes a context for rebuilding the index; it yields the function to call with the progress."""

T = TypeVar("T")


class StoreIndex:
    """The index of one store, opened on first use."""

    def __init__(self, layout: Layout, show_progress: ShowProgress, catch_up_seconds: float) -> None:
        """``catch_up_seconds``: a query brings in no more after so long, whatever the number of agents, and leaves the
        rest to the next one."""
        self._layout = layout
        self._show_progress = show_progress
        self._catch_up_seconds = catch_up_seconds
        self._index: Index | None = None
        self._in_memory: Index | None = None
        """In memory, kept up to date as long as the one on disk cannot be used: filling it may take seconds."""
        self._query_again_at = 0.0
        self._inode = 0
        self._write_again_at = 0.0
        self._completed_deletes: dict[str, tuple[JournalState, list[str]]] = {}
        """By agent: the state of its journal in which all deletes are complete, and the deleted sessions' transcript
        names."""

    def query(self, question: Callable[[Index], T], *agent_folders: str) -> T:
        """The answer of the index to ``question``, after all that is new of these agents was written to it, and their
        interrupted deletes were completed; without agents, of the index as it is. Raises Unreadable.

        A new index is filled first, and one that cannot be trusted is rebuilt, for at most ``catch_up_seconds``. If
        that fails, one in memory is used; if waiting for the one on disk took long, for a few seconds before it is
        tried again. If the index was busy for too long, the one in memory starts with its rows, because reading all
        transcripts would only add load.
        """
        is_busy, start = False, time.monotonic()
        if self._in_memory is None or start >= self._query_again_at:
            try:
                answer = self._run_on_disk(question, agent_folders)
                self._close_in_memory()
                return answer
            except (sqlite3.Error, OSError) as problem:
                self._close()
                is_busy = _find_error_code(problem) in _BUSY_CODES
                is_slow = time.monotonic() - start > _SLOW_SECONDS
                self._query_again_at = time.monotonic() + (_RETRY_PAUSE_SECONDS if is_slow else 0.0)
        try:
            if self._in_memory is None:
                self._in_memory = Index(None)
                if is_busy:
                    self._in_memory.copy_from(self._layout.index_path)
            return self._catch_up_and_run(self._in_memory, agent_folders, question)
        except (sqlite3.Error, OSError) as problem:
            self._close_in_memory()
            raise Unreadable(errno_name(problem)) from problem

    def catch_up(self, *agent_folders: str) -> None:
        """Write all that is new of these agents to the index, as ``query`` does first. Raises Unreadable."""
        self.query(lambda index: None, *agent_folders)

    def write(self, change: Callable[[Index], None], *, is_deferrable: bool = False) -> None:
        """Change the index on disk; ``change`` gets it. Raises Unreadable.

        ``is_deferrable``: a mark makes the next query do it, so nobody has to wait for it: for a few seconds after a
        failed write, raise at once instead of trying again.
        """
        if is_deferrable and time.monotonic() < self._write_again_at:
            raise Unreadable("EBUSY")
        try:
            self._run_on_disk(change, ())
        except (sqlite3.Error, OSError) as problem:
            self._close()
            self._write_again_at = time.monotonic() + _RETRY_PAUSE_SECONDS
            raise Unreadable(errno_name(problem)) from problem

    def bring_in(self, index: Index, agent_folder: str, names: Iterable[str]) -> None:
        """Bring transcripts into the index, with all that is new of them; remove the rows of those that are gone. A
        transcript's mark is removed once the index has all of it and no turn is unanswered, or has been for long."""
        if missing_names := [name for name in names if not self._bring_in_one(index, agent_folder, name)]:
            # All at once, because erasing rewrites the whole index.
            self._remove_rows(index, agent_folder, missing_names)

    def _bring_in_one(self, index: Index, agent_folder: str, name: str) -> bool:
        """Bring in one transcript. Returns False if it no longer exists."""
        try:
            old_forks.complete_old_fork(self._layout, agent_folder, name, wait=False)
            reader = TranscriptReader(self._layout.transcript_path(agent_folder, name))
        except FileNotFoundError:
            return False
        except (OSError, NewerFormat) as problem:
            self._layout.unreadable[agent_folder, name] = problem.with_traceback(None)
            return True  # it stays marked, and the other sessions are listed
        self._layout.unreadable.pop((agent_folder, name), None)
        try:
            with index.transaction():  # a process that removes the transcript from here on also removes the row, later
                is_complete = index.put_row(agent_folder, name, reader) and not _may_be_imported_still(reader)
                may_be_unmarked = is_complete or (
                    reader.measure_age(time.time()) > _UNFINISHED_SECONDS and not is_in_use(reader.path)
                )
                if not self._layout.has_transcript(agent_folder, name):
                    raise FileNotFoundError(errno.ENOENT, "it was removed", name)
            if may_be_unmarked and index.is_on_disk:
                self._layout.unmark(agent_folder, name, lambda: _has_changed(reader))
        except FileNotFoundError:
            return False
        except OSError as problem:  # it stays marked, as above
            self._layout.unreadable[agent_folder, name] = problem.with_traceback(None)
        finally:
            reader.close()
        return True

    def remove(self, agent_folder: str, names: list[str]) -> None:
        """Remove deleted transcripts from the index. If that fails, their marks stay. Raises Unreadable."""
        self.write(lambda index: self._remove_rows(index, agent_folder, names))

    def _remove_rows(self, index: Index, agent_folder: str, names: list[str]) -> None:
        index.remove_rows(agent_folder, *names)
        if not index.is_on_disk:
            return
        # Deleted words must leave the disk: the search tables, then the row's bytes in SQLite's file and log. The mark
        # goes only when both are gone, because it makes the next query do all this again. What is soft-deleted is on
        # the disk anyway: its row's bytes leave with it, because erasing rewrites the whole index.
        cleared_names = [name for name in names if self._layout.remove_search_tables(name)]
        if self._layout.are_soft_deleted(agent_folder, names) or index.erase_removed_rows():
            for name in cleared_names:  # a transcript that exists again keeps its mark
                self._layout.unmark(agent_folder, name, partial(self._layout.has_transcript, agent_folder, name))

    def _run_on_disk(self, action: Callable[[Index], T], agent_folders: tuple[str, ...]) -> T:
        """Run a question or a change on the index on disk, which has all that is new of these agents then. Raises
        sqlite3.Error, OSError."""
        try:
            return self._catch_up_and_run(self._open_shared(), agent_folders, action)
        except sqlite3.DatabaseError as problem:
            self._close()
            if is_temporary(problem):
                raise
            self._layout.remove_index(self._inode)
            return self._catch_up_and_run(self._open_shared(), agent_folders, action)

    def reindex(self, agent_folder: str, names: list[str]) -> None:
        """Read transcripts again whose old content changed. Raises OSError, Unreadable."""
        for name in names:  # so that they are found even if this is interrupted
            self._layout.mark(agent_folder, name)
            self._layout.remove_search_tables(name)

        def remove(index: Index) -> None:
            if index.remove_rows(agent_folder, *names):
                index.erase_removed_rows()

        self.write(remove)
        self.catch_up(agent_folder)

    def follow_compression(self, agent_folder: str, name: str, inodes: tuple[int, int]) -> None:
        """Note that a transcript was compressed: its row belongs to the new file, so that it is not read again.
        ``inodes``: those of the plain and of the compressed file. Raises OSError, Unreadable."""
        has_row = False

        # Called again if the index had to be rebuilt in the meantime: then it has no row.
        def set_inode(index: Index) -> None:
            nonlocal has_row
            has_row = index.set_inode(agent_folder, name, *inodes)

        self.write(set_inode)
        if has_row:
            path = self._layout.transcript_path(agent_folder, name)
            # The mark stays if the session continues in the meantime: then its file is plain again.
            self._layout.unmark(agent_folder, name, lambda: os.path.lexists(path))

    def rebuild(self) -> None:
        """Remove the index, and fill a new one from all transcripts: as far as ``catch_up_seconds`` allow, which are
        unlimited for a command. Raises OSError, Unreadable."""
        self._close()
        self._layout.remove_index()
        self.catch_up()

    def _catch_up_and_run(self, index: Index, agent_folders: tuple[str, ...], action: Callable[[Index], T]) -> T:
        """Fill the index if it is new, complete the deletes of these agents, bring in what is new of them, and return
        what ``action`` makes of the index then."""
        deadline = time.monotonic() + self._catch_up_seconds
        if index.is_new:
            self._fill(index, agent_folders, deadline)
        for agent_folder in agent_folders:
            deleted_names = self._complete_and_list_deletes(agent_folder)
            self._catch_up_agent(index, agent_folder, deadline)
            if index.remove_rows(agent_folder, *deleted_names) and index.is_on_disk:
                index.erase_removed_rows()
        for agent_folder in index.list_folders() if agent_folders else ():
            if not self._layout.has_agent(agent_folder):  # removed by hand, with all sessions in it
                self._catch_up_agent(index, agent_folder, deadline)
        return action(index)

    def _catch_up_agent(self, index: Index, agent_folder: str, deadline: float) -> None:
        """Bring in an agent's marked transcripts, and unmarked ones that appeared in or left its folder, until the
        ``deadline``."""
        # Each of the two misses what the other catches. A process that records leaves a mark: its file grows, and that
        # does not change the folder's times. Copying, restoring or removing a file by hand leaves no mark, but changes
        # the times: then the names and sizes of all files in the folder are compared with the rows. A file that another
        # program lengthens in place is noticed with the next mark or scan.
        if index.is_on_disk:
            self._layout.restore_marks(agent_folder)
        changes = find_changes(self._layout, index, agent_folder)
        marked_names = self._layout.list_marked(agent_folder)
        self.bring_in(index, agent_folder, changes.removed)
        self.bring_in(index, agent_folder, takewhile(lambda _: time.monotonic() < deadline, marked_names))
        # Do not write one twice: other processes wait meanwhile.
        unmarked_names = set(changes.added).difference(marked_names)
        has_pending = self._bring_in_many(
            index, [(agent_folder, name) for name in changes.added if name in unmarked_names], deadline
        )
        # To become readable, as by chmod, changes neither the folder's times nor a mark.
        has_unreadable = any((agent_folder, name) in self._layout.unreadable for name in changes.added)
        if changes.folder_state and not has_pending and not has_unreadable:
            index.remember_folder(agent_folder, changes.folder_state, changes.removals)

    def _fill(self, index: Index, agent_folders: tuple[str, ...], deadline: float) -> None:
        """Bring in the transcripts that a new index lacks, those of these agents first; but before any, what has been
        added to those that an earlier query brought in. If some are left at the ``deadline``, the index stays new, and
        the next query goes on."""
        known_transcripts = set(index.select("SELECT agent, name FROM transcripts", ()))
        for agent_folder in agent_folders:
            grown_names = (
                name for name in self._layout.list_marked(agent_folder) if (agent_folder, name) in known_transcripts
            )
            self.bring_in(index, agent_folder, takewhile(lambda _: time.monotonic() < deadline, grown_names))
        missing_transcripts = [
            (agent_folder, name)
            for agent_folder in dict.fromkeys((*agent_folders, *self._layout.list_agents()))
            for name in list_newest_first(self._layout.stat_transcripts(agent_folder))
            if (agent_folder, name) not in known_transcripts
        ]
        if not self._bring_in_many(index, missing_transcripts, deadline):
            index.set_filled()

    def _bring_in_many(self, index: Index, transcripts: list[tuple[str, str]], deadline: float) -> bool:
        """Bring in many transcripts in few transactions, until the ``deadline``. Returns whether some are left."""
        transcripts_left, total = deque(transcripts), len(transcripts)
        with self._show_progress() as progress:
            while transcripts_left and (start := time.monotonic()) < deadline:
                progress(total - len(transcripts_left), total)
                with index.transaction():
                    while transcripts_left and time.monotonic() < start + _TRANSACTION_SECONDS:
                        agent_folder, name = transcripts_left.popleft()
                        self.bring_in(index, agent_folder, [name])
        return bool(transcripts_left)

    def _complete_and_list_deletes(self, agent_folder: str) -> list[str]:
        """Complete an agent's interrupted deletes, which removes files. Returns the transcript names of all its deleted
        sessions. If it fails, or another process holds the journal, the next query tries again."""
        state = self._layout.get_journal(agent_folder).read_state()
        # Each query comes here. The journal returns the same state until it changes, so files are looked at only then.
        completed_state, names = self._completed_deletes.get(agent_folder, (None, []))
        if completed_state is not state:
            names = [file_name(session_id) for session_id in state.deleted]
            if delete.complete_interrupted(self._layout, agent_folder):
                self._completed_deletes[agent_folder] = state, names
        return names

    def _open_shared(self) -> Index:
        """The index that other processes see; if the store is read-only, one in memory in its place."""
        path = self._layout.index_path
        if self._layout.is_read_only:
            self._index = self._index or Index(None)
            return self._index
        if not self._layout.can_use_sqlite:
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK), str(path))
        if self._index is not None:
            try:
                if os.stat(path).st_ino == self._inode:
                    return self._index
            except FileNotFoundError:
                pass
            self._close()
        if not self._layout.exists:  # an index alone is not a store
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        with self._layout.lock_index(shared=True):
            with suppress(FileExistsError):  # SQLite gives its side files the same mode
                file_access.close(file_access.open_private(path, os.O_RDWR | os.O_CREAT | os.O_EXCL))
            check_database(path)
            self._inode = os.stat(path).st_ino
            self._index = Index(path)
        return self._index

    def _close_in_memory(self) -> None:
        if self._in_memory is not None:
            self._in_memory.close()
        self._in_memory = None

    def _close(self) -> None:
        if self._index is not None:
            self._index.close()
        self._index = None


def _has_changed(reader: TranscriptReader) -> bool:
    """Whether a transcript has grown since it was read, or is another file now. Raises OSError."""
    size = reader.size
    reader.measure()
    return reader.size != size or not reader.is_in_its_place


def _may_be_imported_still(reader: TranscriptReader) -> bool:
    is_imported = reader.header is not None and reader.header.origin == IMPORTED
    return is_imported and reader.measure_age(time.time()) < _REPLAY_SECONDS


def is_temporary(problem: sqlite3.Error) -> bool:
    """Whether an error says that a database is in use or has no space, which rebuilding would not fix."""
    return _find_error_code(problem) in _TEMPORARY_CODES


def _find_error_code(problem: Exception) -> int:
    return int(getattr(problem, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) & 0xFF
