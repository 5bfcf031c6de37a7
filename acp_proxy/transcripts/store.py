"""A running proxy's door to the store: what it records, loads, lists and deletes.

What a relay calls while it records is a few system calls each, raises OSError, and loads nothing more than this module
does. The index, and what compresses, are loaded when they are first asked for, or all at once (``load_the_rest``).
"""

from contextlib import AbstractContextManager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from acp_proxy.transcripts.files.access import PRIVATE_UMASK
from acp_proxy.transcripts.files.journal import JournalState
from acp_proxy.transcripts.files.names import file_name
from acp_proxy.transcripts.files.reading import AlikeLines, Line, Reading, Unfinished
from acp_proxy.transcripts.files.transcript import Transcript, sync
from acp_proxy.transcripts.lives import beginning, deleting, forks
from acp_proxy.transcripts.lives.beginning import Deleted
from acp_proxy.transcripts.opened import Opened, default_root, lazily
from acp_proxy.wire.record import Header

if TYPE_CHECKING:
    from acp_proxy.transcripts.files.summary import Summary
    from acp_proxy.transcripts.listing.index import Page
    from acp_proxy.transcripts.lives.compressing import Terms

__all__ = ["PRIVATE_UMASK", "AlikeLines", "Deleted", "JournalState", "Line", "Page", "Reading", "Store", "Summary"]
__all__ += ["Terms", "Transcript", "Unfinished", "default_root", "load_the_rest"]

if not TYPE_CHECKING:
    __getattr__ = lazily({"files.summary": {"Summary"}, "listing.index": {"Page"}, "lives.compressing": {"Terms"}})


class Store(Opened):
    @property
    def is_there(self) -> bool:
        """Whether its directory has not been removed since."""
        return self.root.exists()

    # --- recording

    def begin(
        self, agent: str, header: Header, *, fresh: bool, parent: str | None = None, until: int | None = None
    ) -> Transcript:
        """The transcript of a session: the one that is there, or a new one. Raises Deleted: it was, and is not new.

        ``fresh``: the agent has just made this session; an older one of the same id is set aside. ``parent``: a session
        whose transcript, up to a size, a new one begins with; a long one is still to be copied (``finish_fork``).
        """
        return beginning.begin(self._layout, agent, header, fresh=fresh, parent=parent, until=until)

    def finish_fork(self, path: Path, beginning: Reading | None) -> None:
        """Copy what a fork still lacks, from what its ``Transcript`` has, or else its parent. Raises OSError."""
        forks.finish(self._layout, path.parent.name, path.stem, beginning)

    def size(self, agent: str, session: str) -> int:
        """Of a transcript, now. Raises OSError, NewerFormat."""
        return forks.size(self._layout, agent, file_name(session))

    def reopen(self, agent: str, session: str, identity: bytes) -> Transcript:
        """The file that was open before, also where it was set aside. Raises Deleted where it is gone."""
        return beginning.reopen(self._layout, agent, session, identity)

    def mark(self, agent: str, session: str, transcript: Transcript | None = None) -> None:
        """The index has not seen all of this session (in this file of it): leave a mark that outlives us."""
        self._layout.mark(agent, transcript.path.stem if transcript is not None else file_name(session))

    def sync(self, agent: str, session: str) -> None:
        """What was written of a session is on the disk when this returns. Raises OSError."""
        sync(self._path(agent, session))

    # --- deleting

    def delete(self, agent: str, session: str, *, soft: bool = False) -> None:
        """Remove the transcript and its backups, for good or so that they can be restored. Raises OSError.

        It stays known as deleted. Whatever ends this half-way, who next asks the index finishes it. Also Unfinished.
        """
        if soft:
            forks.refuse_unfinished(self._layout, agent, file_name(session))
        deleting.delete(self._layout, agent, session, soft=soft)

    def sync_deletes(self, agent: str) -> None:
        """What was deleted stays so after a power loss. Raises OSError."""
        self._layout.journal(agent).sync()

    def lift(self, agent: str, session: str) -> None:
        """A deleted session lives again; said before its new file is made, so that nobody removes that one."""
        deleting.lift(self._layout, agent, session)

    # --- loads and lists

    def read(self, agent: str, session: str) -> Reading:
        """Open a transcript to be replayed. Raises OSError (FileNotFoundError: none; Unfinished), NewerFormat."""
        return Reading(self._path(agent, session))

    def page(self, agent: str, cwd: str | None, cursor: str | None, run: str) -> "Page":
        """One page of an agent's sessions. Raises InvalidCursor, Unreadable."""
        from acp_proxy.transcripts.listing.keeping import titled

        page = self._catalog.ask(lambda index: index.page(agent, cwd, cursor, run), agent)
        page.rows[:] = titled(self._layout, page.rows)
        return page

    def bring_in(self, agent: str, session: str) -> None:
        """Bring the index up to date with one session; where that cannot be, its mark stays. Raises Unreadable."""
        self._catalog.tell(lambda index: self._catalog.bring_in(index, agent, file_name(session)), can_wait=True)

    def forget(self, agent: str, session: str) -> None:
        """Take a deleted session out of the index; where that cannot be, its mark stays. Raises Unreadable."""
        self._catalog.forget(agent, [file_name(session)])

    # --- idle minutes

    def daily(self) -> AbstractContextManager[bool]:
        """Whether the day's compressing is ours to do; it is done when this is left without an exception."""
        from acp_proxy.transcripts.lives.compressing import once_a_day

        return once_a_day(self._layout.compressed)

    def _path(self, agent: str, session: str) -> Path:
        return self._layout.transcript(agent, file_name(session))


def load_the_rest() -> None:
    """Load what lists, damage and compressed transcripts need. What cannot be loaded is missed where it is used."""
    for module in ("listing.catalog", "listing.keeping", "files.remaking", "files.shortening", "lives.compressing"):
        with suppress(Exception):
            import_module(f"{__package__}.{module}")
