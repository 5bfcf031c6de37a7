"""The store's interface for a running proxy: record, load, list and delete sessions.

The methods that a relay calls while it records make a few system calls each, raise only OSError, and import nothing
beyond this module. The index and compression are imported on first use, or all at once (``import_lazy_modules``): with
SQLite they take longer than the rest of a start.
"""

import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from acp_proxy.protocol.proxy_ids import PROXY_ID_PREFIX, parse_other_agents_id
from acp_proxy.store import delete, journal, old_forks, open_session, user_state
from acp_proxy.store.journal import Event
from acp_proxy.store.store_base import StoreBase
from acp_proxy.transcript.appender import TranscriptAppender, fsync_file, lock_if_unused
from acp_proxy.transcript.file_format import Header
from acp_proxy.transcript.file_names import file_name
from acp_proxy.transcript.reader import TranscriptReader

if TYPE_CHECKING:
    from acp_proxy.store.index_database import ListedSession, Page

_SYNC_FOLDER = "sync"
"""The directory that a store has if it is part of a history that several machines share."""
_IN_PLACE_TRIES, _IN_PLACE_PAUSE_SECONDS = 100, 0.001  # longer than sync replaces a file
_COPY_NAME_START = file_name(PROXY_ID_PREFIX).rpartition("-")[0] + "-"
"""The beginning of the names of copies' transcripts."""
ALL_AGENTS = "all"
"""Stands for the names of all agents."""
CATCH_UP_SECONDS = 10.0
"""How long a query may bring in what is new. The editor gets an error after ``worker.ANSWER_SECONDS``: rather a list of
the newest of 100,000 new transcripts, and the others in the next one."""


class ProxyStore(StoreBase):
    """A store that a running proxy records into. Sessions are given by the agent's folder and the session's id."""

    catch_up_seconds = CATCH_UP_SECONDS

    @property
    def still_exists(self) -> bool:
        """Whether the store's directory still exists. Where a failing disk cannot say so, it does."""
        try:
            self.root.stat()
        except FileNotFoundError:
            return False
        except OSError:  # not ``exists``, for which a path that cannot be followed (ELOOP) is not there
            return True
        return True

    # --- recording

    def open_to_append(
        self,
        agent_folder: str,
        header: Header,
        *,
        is_new: bool,
        parent_id: str | None = None,
        copied_bytes: int | None = None,
    ) -> TranscriptAppender:
        """Open a session's transcript to append to (``open_session.open_to_append``). Raises OSError, Deleted."""
        return open_session.open_to_append(
            self.layout, agent_folder, header, is_new=is_new, parent_id=parent_id, copied_bytes=copied_bytes
        )

    def reopen(self, agent_folder: str, session_id: str, identity: bytes) -> TranscriptAppender:
        """Open the file with this identity again, even if it was set aside. Raises OSError; Deleted if it is gone."""
        return open_session.reopen(self.layout, agent_folder, session_id, identity)

    def mark(self, agent_folder: str, session_id: str, transcript: TranscriptAppender | None = None) -> str:
        """Set a transcript's mark, and return its path: if it exists after a write, the index reads what was written.
        ``transcript``: the open file, whose name may differ from the session's because it was set aside. Raises
        OSError."""
        return self.layout.mark(agent_folder, transcript.path.stem if transcript is not None else file_name(session_id))

    def fsync_transcript(self, agent_folder: str, session_id: str) -> bool:
        """Return once a transcript is on disk; False if it cannot be opened now. Raises OSError: it may be lost."""
        return fsync_file(self._find_path(agent_folder, session_id))

    # --- deleting

    def delete(self, agent_folder: str, session_id: str, *, soft: bool) -> None:
        """Delete the session that has this id now. ``soft``: it can be restored. Raises OSError."""
        if soft:  # of an unfinished fork there would be nothing to restore; a listed session has been finished
            old_forks.complete_old_fork(self.layout, agent_folder, file_name(session_id))
        delete.delete_by_id(self.layout, agent_folder, session_id, soft=soft, only_on_this_machine=False)

    # --- titles and archived sessions

    def has_transcript_or_original(self, agent_folder: str, session_id: str) -> bool:
        """Whether there is a transcript of this session, or of the other agent's session that it would be a copy of."""
        source = parse_other_agents_id(session_id)
        is_there = self.layout.has_transcript(agent_folder, file_name(session_id))
        return is_there or (source is not None and self.layout.has_transcript(source[0], file_name(source[1])))

    def set_title(self, agent_folder: str, session_id: str, title: str, *, by_agent: bool = False) -> None:
        """Set the user's title, even of a session without a transcript. ``by_agent``: the agent has it too. Raises
        OSError (FileNotFoundError: the session was deleted)."""
        name = file_name(session_id)
        self.layout.make_folder(self._find_path(agent_folder, session_id).parent)
        user_state.set_title(self.layout, agent_folder, session_id, name, title, by_agent=by_agent)

    def set_archived(self, agent_folder: str, session_id: str, is_archived: bool, *, by_agent: bool = False) -> None:
        """Archive or unarchive a session, even one without a transcript. ``by_agent``: the agent has done so too.
        Raises OSError (FileNotFoundError: the session was deleted)."""
        name = file_name(session_id)
        self.layout.make_folder(self._find_path(agent_folder, session_id).parent)
        user_state.set_archived(self.layout, agent_folder, session_id, name, is_archived, by_agent=by_agent)

    # --- sessions that continue in others of the agent

    # The journal keeps the ids that the agent gave, so that the agent's own list shows such a session once, and so that
    # its id opens the session that it continues.

    def add_alias(self, agent_folder: str, session_id: str, alias: str) -> None:
        """Note that a session continues in the agent's session ``alias``. Does nothing if that is known. Raises
        OSError."""
        agent_journal = self.layout.get_journal(agent_folder)
        if alias != session_id and agent_journal.read_state().aliases.get(alias) != session_id:
            self.layout.make_folder(self._find_path(agent_folder, session_id).parent)
            agent_journal.append(Event(journal.ALIAS, session_id, alias=alias))

    def read_aliases(self, agent_folder: str) -> dict[str, str]:
        """By alias: the session that continues in it. Raises OSError."""
        aliases = self.layout.get_journal(agent_folder).read_state().aliases
        return {
            alias: session_id
            for alias, session_id in aliases.items()
            if self._is_alias(agent_folder, alias, session_id)
        }

    # --- loads and lists

    def open_original(self, session_id: str, other_folders: Sequence[str]) -> TranscriptReader:
        """Open the transcript of another agent's session by the id of its row. ``other_folders``: the folders of agents
        whose sessions are listed. Raises OSError (FileNotFoundError: there is none), NewerFormat."""
        source = parse_other_agents_id(session_id)
        if source is None or source[0] not in other_folders or source[1] in self.read_deleted(source[0]):
            raise FileNotFoundError(session_id)
        return self.open_reader(*source)

    def open_reader(self, agent_folder: str, session_id: str) -> TranscriptReader:
        """Open a session's transcript for reading. Raises OSError (FileNotFoundError: there is none), NewerFormat."""
        try:
            return TranscriptReader(self._find_path(agent_folder, session_id))
        except FileNotFoundError:
            old_forks.complete_old_fork(self.layout, agent_folder, file_name(session_id))
            return TranscriptReader(self._find_path(agent_folder, session_id))

    def is_in_use(self, agent_folder: str, session_id: str) -> bool | None:
        """Whether a process has a session's transcript open to append; None if that cannot be determined."""
        try:
            with lock_if_unused(self._find_path(agent_folder, session_id)) as is_unused:
                return not is_unused
        except OSError:  # for example, the store is read-only
            return None

    def open_locked_reader(self, agent_folder: str, session_id: str) -> TranscriptReader:
        """Open the transcript of a session that is to be opened: until this is closed, sync adds no turns to it. Raises
        OSError, NewerFormat."""
        if not (self.root / _SYNC_FOLDER).exists():
            return self.open_reader(agent_folder, session_id)
        for _ in range(_IN_PLACE_TRIES):
            if (reader := self.open_reader(agent_folder, session_id)).keep_in_place():
                return reader
            reader.close()
            time.sleep(_IN_PLACE_PAUSE_SECONDS)
        return self.open_reader(agent_folder, session_id)

    def has_remote_turns(self, agent_folder: str, session_id: str) -> bool:
        """Whether turns of another machine wait for this session."""
        return self.layout.waiting_turns_path(agent_folder, file_name(session_id)).exists()

    def list_page(
        self,
        agent_folder: str,
        cwd: str | None,
        cursor: str | None,
        run: str,
        *,
        archive_filter: bool | None = False,
        other_folders: Sequence[str] = (),
    ) -> "Page":
        """One page of an agent's sessions, newest first. Raises InvalidCursor, Unreadable.

        ``cwd``: only sessions of this directory. ``cursor``: ``Page.next`` of the page before. ``run``: the caller's
        run, whose unanswered prompts do not count as failed. ``archive_filter``: only those that are archived, or only
        those that are not; None: both. ``other_folders``: the folders of agents whose sessions are listed too.
        """
        from acp_proxy.store.other_agents import list_page

        return list_page(self.layout, self.store_index, agent_folder, cwd, cursor, run, archive_filter, other_folders)

    def may_have_copies(self, agent_folder: str) -> bool:
        """Whether an agent may have copies of other agents' sessions. Does not use the index."""
        return any(name.startswith(_COPY_NAME_START) for name in self.layout.list_names(agent_folder))

    def list_rows_to_insert(
        self,
        agent_folder: str,
        cwd: str | None,
        run: str,
        *,
        archive_filter: bool | None = False,
        session_ids: Collection[str] = (),
        with_copies: bool = True,
        other_folders: Sequence[str] = (),
    ) -> "list[ListedSession]":
        """The rows to join to the first page of an agent's own list: these of its sessions, with ``with_copies`` copies
        of other agents' sessions, and at most a page of rows of ``other_folders``; newest first. Parameters as for
        ``list_page``. Raises Unreadable."""
        from acp_proxy.store.other_agents import list_rows

        return list_rows(
            self.layout,
            self.store_index,
            agent_folder,
            cwd,
            run,
            archive_filter,
            session_ids,
            other_folders,
            with_copies=with_copies,
        )

    def list_by_ids(
        self, agent_folder: str, run: str, session_ids: Collection[str], other_folders: Sequence[str]
    ) -> "list[ListedSession]":
        """The rows of these sessions, archived ones too, newest first: the agent's own, copies, and rows of
        ``other_folders``. Raises Unreadable."""
        from acp_proxy.store.other_agents import list_rows

        return list_rows(
            self.layout, self.store_index, agent_folder, None, run, None, session_ids, other_folders, only_ids=True
        )

    def find_generated_titles(self, agent_folder: str, session_ids: Iterable[str]) -> dict[str, str]:
        """The titles of those of these sessions that have one, by id, without the user's titles. Raises Unreadable."""
        from acp_proxy.store.queries import find_titles

        names = [file_name(session_id) for session_id in session_ids]
        return self.store_index.query(lambda index: find_titles(index, agent_folder, names), agent_folder)

    def index_session(self, agent_folder: str, session_id: str) -> None:
        """Bring the index up to date with one session. If that fails, its mark stays. Raises Unreadable."""
        self.store_index.write(
            lambda index: self.store_index.bring_in(index, agent_folder, [file_name(session_id)]), is_deferrable=True
        )

    def remove_from_index(self, agent_folder: str, session_id: str) -> None:
        """Remove a deleted session from the index. If that fails, its mark stays. Raises Unreadable."""
        self.store_index.remove(agent_folder, [file_name(session_id)])

    # --- idle minutes

    def claim_daily_compression(self) -> AbstractContextManager[bool]:
        """Yields whether the day's compression falls to this process (``compress.claim_day``). Raises OSError."""
        from acp_proxy.store.compress import claim_day

        return claim_day(self.layout.compressed)

    def _find_path(self, agent_folder: str, session_id: str) -> Path:
        return self.layout.transcript_path(agent_folder, file_name(session_id))


def import_lazy_modules() -> None:
    """Import now what lists, damaged transcripts and compressed transcripts need. Where that fails, the code that needs
    the module fails later."""
    for module in (
        "store.other_agents",
        "store.store_index",
        "store.queries",
        "transcript.rebuild_header",
        "store.compress",
        "store.remote_turns",
    ):
        with suppress(Exception):
            import_module(f"acp_proxy.{module}")
