"""An open store: the part that ``store`` and ``archive`` share.

The files are authoritative; the index is brought up to date before each query. Any failure of the index raises
``Unreadable``. Several processes may use a store at once.
"""

import contextlib
import errno
import os
import sys
from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from pathlib import Path

from acp_proxy.errors import StoreRefused, Unreadable, errno_name
from acp_proxy.store.journal import JournalState
from acp_proxy.store.layout import Layout
from acp_proxy.transcript import file_names, private_files
from acp_proxy.transcript.file_names import digest, file_name

TYPE_CHECKING = False  # typing itself is slow to import
if TYPE_CHECKING:  # SQLite is slow to import, and recording does not need it
    from typing import Self

    from acp_proxy.store.compress import CompressionOptions, CompressionResult
    from acp_proxy.store.index import ListedSession
    from acp_proxy.store.index_update import Filling, StoreIndex


PRIVATE_UMASK = private_files.PRIVATE_UMASK
ALL = "all"
"""Stands for the names of all agents."""
_DATA = {"linux": ".local/share", "darwin": "Library/Application Support"}


def default_root() -> Path:
    """The default store directory: in the user's data directory, as the operating system defines it."""
    home = os.environ.get("HOME", "")
    if sys.platform in _DATA and home.startswith("/") and not {"XDG_DATA_HOME", "ANDROID_DATA"} & os.environ.keys():
        return Path(home, _DATA[sys.platform], "acp-proxy")
    import platformdirs  # finds the same, but its import would take a third of a start

    return Path(platformdirs.user_data_dir("acp-proxy", appauthor=False))


def import_lazily(values: dict[str, set[str]]) -> Callable[[str], object]:
    """A module-level ``__getattr__`` that imports names on first access.

    ``values``: the names to import, by their module in acp_proxy. Unknown names raise AttributeError.
    """

    def found(name: str) -> object:
        for module, its in values.items():
            if name in its:
                return getattr(import_module(f"acp_proxy.{module}"), name)
        raise AttributeError(name)

    return found


class StoreBase:
    """A store's directory, opened; base class of ``Store`` and ``Sessions``."""

    def __init__(self, root: Path, *, make: bool = True) -> None:
        """Open the store at ``root``; ``make``: create it if it is missing, and require that it is writable.

        Without ``make``, a missing store reads as empty and is not created, and one that cannot be written is opened
        for reading. Raises StoreRefused.
        """
        self._begin(root, make=make)
        self.layout = self._checked()

    @classmethod
    def open_later(cls, root: Path, problem: StoreRefused) -> "Self":
        """The store at ``root``, which cannot be opened now: each use tries again, and raises OSError until that
        succeeds. ``problem``: why not."""
        opened = cls.__new__(cls)
        opened._begin(root, make=True)
        opened.was_refused = problem
        return opened

    def _begin(self, root: Path, *, make: bool) -> None:
        self.root = private_files.reachable(root)
        self.filling: Filling = lambda: contextlib.nullcontext(lambda done, total: None)
        self.was_refused: StoreRefused | None = None
        """Why the store could not be opened at first, or None."""
        self.only_read: StoreRefused | None = None
        """Why the store cannot be written, or None."""
        self._makes, self.is_made = make, True

    def _checked(self) -> Layout:
        """Check the directory, after creating what is missing. Raises StoreRefused."""
        layout = Layout(self.root)
        self.is_made = self._makes or layout.is_made
        if self.is_made:
            private_files.make_root(self.root)
            self.only_read = private_files.only_read(self.root)
            if self._makes and self.only_read is not None:
                raise self.only_read
            layout.is_only_read = self.only_read is not None
            layout.prepare()
        return layout

    @cached_property
    def layout(self) -> Layout:
        """Only for a store opened ``later``. Raises OSError."""
        try:
            return self._checked()
        except StoreRefused as problem:
            number = problem.__cause__.errno if isinstance(problem.__cause__, OSError) else errno.EPERM
            raise OSError(number, str(problem), str(self.root)) from problem

    @property
    def id(self) -> str:
        """An id that is the same in every process of this machine that has this store open."""
        machine = os.environ.get("COMPUTERNAME", "") if sys.platform == "win32" else os.uname().nodename
        return digest(f"{machine}:{os.path.realpath(self.root)}")

    def list_agents(self, meant: str = "") -> list[str]:
        """The folders of all agents, or of those that the user means by ``meant``."""
        return file_names.meant(self.layout.list_agents(), meant)

    def choose_agent(self, given: str | None, told: str | None, command: str, *, may_run_others: bool = False) -> str:
        """The folder for an agent's sessions: by the name the user gave, else by the agent's own name, else by its
        command.

        ``told``: the name the agent reports. ``command``: the name derived from its command. ``may_run_others``: the
        same command may run different agents. An agent that starts to report a name keeps the folder of its command, if
        no other agent can have used that folder. Raises OSError.
        """
        from acp_proxy.store import agents as store_agents

        return store_agents.choose_folder(self.layout, given, told, command, may_run_others=may_run_others)

    def read_state(self, agent: str) -> JournalState:
        """An agent's deleted and archived sessions, and the titles that users gave. Raises OSError."""
        return self.layout.journal(agent).read_state()

    def read_deleted(self, agent: str) -> frozenset[str]:
        """The ids of an agent's deleted sessions, soft-deleted ones included. Raises OSError."""
        return self.read_state(agent).deleted_ids

    def is_indexed(self, agent: str, session: str) -> bool:
        """Whether the index has a transcript of this session. Raises Unreadable."""
        return self.index.query(lambda index: index.has_row(agent, file_name(session)))

    def find_compressible(self, chosen: "list[ListedSession] | None" = None) -> list[tuple[str, str]]:
        """The agent and name of each chosen transcript, or of all if None.

        If None, this also brings the index up to date, because a marked transcript is not compressed, and clears what
        crashes left of compression.
        """
        from acp_proxy.store.compress import remove_leftovers

        if chosen is not None:
            return [(listed.agent, listed.name) for listed in chosen]
        with contextlib.suppress(Unreadable):  # then the marked ones wait for another day
            self.index.query(lambda index: None, *self.list_agents())
        remove_leftovers(self.layout)
        return self.layout.list_all_names()

    def compress(self, agent: str, name: str, terms: "CompressionOptions") -> "CompressionResult | None":
        """Compress a transcript if that is worthwhile and nobody uses it; otherwise return None. Raises OSError.

        ``terms.dry``: only report the sizes.
        """
        from acp_proxy.store import compress as store_compress

        made = store_compress.compress(self.layout, agent, name, terms)
        if made is not None and not terms.dry:
            with contextlib.suppress(Unreadable):  # then its mark stays, and the index reads it again
                self.index.move(agent, name, made.inodes)
        return made

    @cached_property
    def index(self) -> "StoreIndex":
        from acp_proxy.store.index_update import StoreIndex

        try:
            return StoreIndex(self.layout, self.filling)
        except OSError as problem:
            raise Unreadable(errno_name(problem)) from problem
