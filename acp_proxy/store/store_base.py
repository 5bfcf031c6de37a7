"""What the store's three interfaces share: ``proxy_store``, ``command_store`` and that of sync.

The files are authoritative; the index is brought up to date before each query. Any failure of the index raises
``Unreadable``. Several processes may use a store at once. The index and compression are imported on first use.
"""

import contextlib
import errno
import math
import os
import sys
from collections.abc import Set
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from acp_proxy.errors import StoreRefused, Unreadable, errno_name
from acp_proxy.protocol.proxy_ids import is_proxy_id
from acp_proxy.store import delete, store_root
from acp_proxy.store.agent_folder import choose_folder
from acp_proxy.store.journal import JournalState
from acp_proxy.store.layout import Layout
from acp_proxy.transcript import file_access, file_names
from acp_proxy.transcript.file_names import digest, file_name

if TYPE_CHECKING:
    from typing import Self

    from acp_proxy.store.compress import CompressionOptions, CompressionResult
    from acp_proxy.store.index_database import ListedSession
    from acp_proxy.store.store_index import ShowProgress, StoreIndex


class StoreBase:
    """A store's directory, opened; base class of ``ProxyStore``, ``CommandStore`` and ``SyncStore``."""

    catch_up_seconds = math.inf
    """How long a query may bring what is new into the index before it answers; a person who waits sees its progress."""

    def __init__(self, root: Path, *, create: bool = True, bin_days: int | None = None) -> None:
        """Open the store at ``root``; ``create``: create it if it is missing, and require that it is writable.

        Without ``create``, a missing store reads as empty and is not created, and one that cannot be written is opened
        for reading. ``bin_days``: how long what is soft-deleted from now on is kept; None: until somebody removes it.
        Raises StoreRefused.
        """
        self._set_up(root, create=create, bin_days=bin_days)
        self.layout = self._open_layout()

    @classmethod
    def make_unopened(cls, root: Path, problem: StoreRefused, bin_days: int | None = None) -> "Self":
        """The store at ``root``, which cannot be opened now: each use tries again, and raises OSError until that
        succeeds. ``problem``: why not."""
        store = cls.__new__(cls)
        store._set_up(root, create=True, bin_days=bin_days)
        store.open_problem = problem
        return store

    def _set_up(self, root: Path, *, create: bool, bin_days: int | None) -> None:
        self.root = file_access.make_reachable(root)
        self.show_progress: ShowProgress = lambda: contextlib.nullcontext(lambda done, total: None)
        self.open_problem: StoreRefused | None = None
        """Why the store could not be opened at first, or None."""
        self.read_only_reason: StoreRefused | None = None
        """Why the store cannot be written, or None."""
        self._creates, self.exists = create, True
        self._bin_days = bin_days

    def _open_layout(self) -> Layout:
        layout = Layout(self.root)
        layout.bin_days = self._bin_days
        self.exists = self._creates or layout.exists
        if self.exists:
            store_root.make_root(self.root)
            self.read_only_reason = store_root.find_refusal(self.root)
            if self._creates and self.read_only_reason is not None:
                raise self.read_only_reason
            layout.is_read_only = self.read_only_reason is not None
            layout.prepare()
        return layout

    @cached_property
    def layout(self) -> Layout:
        """The store's files. Only for a store that ``make_unopened`` made are they opened here. Raises OSError."""
        try:
            return self._open_layout()
        except StoreRefused as problem:
            error_number = problem.__cause__.errno if isinstance(problem.__cause__, OSError) else errno.EPERM
            raise OSError(error_number, str(problem), str(self.root)) from problem

    @property
    def id(self) -> str:
        """An id that is the same in every process of this machine that has this store open."""
        machine = os.environ.get("COMPUTERNAME", "") if sys.platform == "win32" else os.uname().nodename
        return digest(f"{machine}:{os.path.realpath(self.root)}")

    def list_agents(self, agent_words: str = "") -> list[str]:
        """The folders of all agents, or of those that the user means by ``agent_words``."""
        return file_names.match_agents(self.layout.list_agents(), agent_words)

    def choose_agent(
        self, agent_id: str | None, reported_name: str | None, command: str, *, may_run_others: bool = False
    ) -> str:
        """The folder for an agent's sessions (``agent_folder.choose_folder``). Raises OSError."""
        return choose_folder(self.layout, agent_id, reported_name, command, may_run_others=may_run_others)

    def remove_expired(self) -> None:
        """Remove the soft-deleted sessions whose time is over, and everything derived from them. Raises OSError."""
        if delete.remove_expired(self.layout):
            with contextlib.suppress(Unreadable):  # their marks stay, and the next query does it
                self.store_index.catch_up(*self.layout.list_agents())

    def read_state(self, agent_folder: str) -> JournalState:
        """An agent's deleted and archived sessions, and the titles that users gave. Raises OSError."""
        return self.layout.get_journal(agent_folder).read_state()

    def read_deleted(self, agent_folder: str) -> Set[str]:
        """The ids of an agent's deleted sessions, soft-deleted ones included. Raises OSError."""
        return self.read_state(agent_folder).deleted.keys()

    def find_by_alias(self, agent_folder: str, alias: str) -> str | None:
        """The session that continues in the agent's session ``alias``, if that is one of these. Raises OSError."""
        session_id = self.layout.get_journal(agent_folder).read_state().aliases.get(alias)
        return session_id if session_id is not None and self._is_alias(agent_folder, alias, session_id) else None

    def _is_alias(self, agent_folder: str, alias: str, session_id: str) -> bool:
        """Whether ``alias`` still stands for ``session_id``."""
        deleted = self.layout.get_journal(agent_folder).read_deleted()
        # An id with a transcript is a session of its own: it was recorded before it was known as an alias.
        if alias in deleted or self.layout.has_transcript(agent_folder, file_name(alias)):
            return False
        # Another agent's session has no transcript here before its first prompt.
        return (
            is_proxy_id(session_id)
            or session_id in deleted
            or self.layout.has_transcript(agent_folder, file_name(session_id))
        )

    def is_indexed(self, agent_folder: str, session_id: str) -> bool:
        """Whether the index has a transcript of this session. Raises Unreadable."""
        return self.store_index.query(lambda index: index.has_row(agent_folder, file_name(session_id)))

    def list_transcripts_to_compress(self, chosen: "list[ListedSession] | None" = None) -> list[tuple[str, str]]:
        """The agent and name of each chosen transcript, or of all if None: then this also brings the index up to date,
        because a marked transcript is not compressed, and clears what crashes left of compression."""
        from acp_proxy.store.compress import remove_leftovers

        if chosen is not None:
            return [(listed.agent_folder, listed.name) for listed in chosen]
        with contextlib.suppress(Unreadable):  # then the marked ones wait for another day
            self.store_index.catch_up(*self.list_agents())
        remove_leftovers(self.layout)
        return self.layout.list_all_names()

    def compress(self, agent_folder: str, name: str, options: "CompressionOptions") -> "CompressionResult | None":
        """Compress one transcript (``compress.compress``), and have the index follow. Raises OSError."""
        from acp_proxy.store import compress

        compressed = compress.compress(self.layout, agent_folder, name, options)
        if compressed is not None and not options.dry_run:
            with contextlib.suppress(Unreadable):  # then its mark stays, and the index reads it again
                self.store_index.follow_compression(agent_folder, name, compressed.inodes)
        return compressed

    @cached_property
    def store_index(self) -> "StoreIndex":
        """Opened on first use. Raises Unreadable."""
        from acp_proxy.store.store_index import StoreIndex

        try:
            return StoreIndex(self.layout, self.show_progress, self.catch_up_seconds)
        except OSError as problem:
            raise Unreadable(errno_name(problem)) from problem
