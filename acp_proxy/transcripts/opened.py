"""A store that is open: what both of its doors, ``store`` and ``archive``, stand on.

Files are the truth; the index is brought up to date before it is asked. ``Unreadable`` stands for whatever went wrong
there. Safe for several processes at once.
"""

import contextlib
from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from acp_proxy.errors import StoreRefused, Unreadable
from acp_proxy.transcripts.files import access, names
from acp_proxy.transcripts.files.journal import JournalState
from acp_proxy.transcripts.files.layout import Layout
from acp_proxy.transcripts.files.names import file_name
from acp_proxy.transcripts.lives import folders

if TYPE_CHECKING:  # SQLite is slow to import, and a relay that records does not need it
    from acp_proxy.transcripts.listing.catalog import Catalog, Filling
    from acp_proxy.transcripts.listing.index import Listed
    from acp_proxy.transcripts.lives.compressing import Made, Terms


def default_root() -> Path:
    """Where the store is when nobody says otherwise: in the user's data directory, as the system has it."""
    import platformdirs

    return Path(platformdirs.user_data_dir("acp-proxy", appauthor=False))


def lazily(values: dict[str, set[str]]) -> Callable[[str], object]:
    """A module's ``__getattr__``: these values of these modules, each loaded when somebody asks for one."""

    def found(name: str) -> object:
        for module, its in values.items():
            if name in its:
                return getattr(import_module(f"{__package__}.{module}"), name)
        raise AttributeError(name)

    return found


class Opened:
    def __init__(self, root: Path, *, make: bool = True) -> None:
        """Make the store if it is missing; without ``make`` it is then an empty one, and stays missing.

        One that cannot be written to is refused; without ``make`` it is only read. Raises StoreRefused.
        """
        self.root = root
        self.filling: Filling = lambda: contextlib.nullcontext(lambda done, total: None)
        self._layout = Layout(root)
        self.is_made = make or self._layout.is_made
        self.only_read: StoreRefused | None = None
        """Why nothing can be written to it, if so."""
        if not self.is_made:
            return
        access.make_root(root)
        self.only_read = access.only_read(root)
        if make and self.only_read is not None:
            raise self.only_read
        self._layout.is_only_read = self.only_read is not None
        self._layout.prepare()

    def agents(self, meant: str = "") -> list[str]:
        """Their folders: of all, or of those that a person means by this."""
        return names.meant(self._layout.agents(), meant)

    def choose_agent(self, given: str | None, told: str | None, command: str, *, may_run_others: bool = False) -> str:
        """The folder of an agent: the name given by the user, else its own, else its command's.

        An agent that begins to tell its name keeps the folder of its command's, if that cannot be another agent's.
        """
        return folders.choose(self._layout, given, told, command, may_run_others=may_run_others)

    def state(self, agent: str) -> JournalState:
        """What users and editors have said of an agent's sessions: what is deleted, and titles. Raises OSError."""
        return self._layout.journal(agent).state()

    def deleted(self, agent: str) -> frozenset[str]:
        return self.state(agent).gone

    def knows(self, agent: str, session: str) -> bool:
        """Whether the index has seen a transcript of this session. Raises Unreadable."""
        return self._catalog.ask(lambda index: index.has(agent, file_name(session)))

    def compressible(self, chosen: "list[Listed] | None" = None) -> list[tuple[str, str]]:
        """Agents and names of these transcripts, or of all; what crashes have left of compressing is removed."""
        from acp_proxy.transcripts.lives.compressing import clear

        if chosen is not None:
            return [(listed.agent, listed.name) for listed in chosen]
        clear(self._layout)
        return self._layout.all_names()

    def compress(self, agent: str, name: str, terms: "Terms") -> "Made | None":
        """Compress a transcript if that is worth it; None where it is not, or not possible now. Raises OSError."""
        from acp_proxy.transcripts.lives import compressing

        made = compressing.compress(self._layout, agent, name, terms)
        if made is not None and not terms.dry:
            with contextlib.suppress(Unreadable):  # then its mark stays, and it is read once more
                self._catalog.compressed(agent, name, made.inodes)
        return made

    @cached_property
    def _catalog(self) -> "Catalog":
        from acp_proxy.transcripts.listing.catalog import Catalog

        return Catalog(self._layout, self.filling)
