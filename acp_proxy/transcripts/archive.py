"""The store's interface for commands and the doctor: list, search, change and maintain sessions.

Covers all sessions of all agents, through the index, and single files. Any failure of the index raises ``Unreadable``.
What only some commands need is imported by the methods that use it, or on first access to a name (``_LATER``).
"""

import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from acp_proxy.errors import Unreadable
from acp_proxy.transcripts.files import access
from acp_proxy.transcripts.files.access import PRIVATE_UMASK
from acp_proxy.transcripts.files.names import (
    COMPRESSED_SUFFIX,
    SUFFIX,
    called,
    compressed,
    file_name,
    kept_name,
    meant,
    readable,
)
from acp_proxy.transcripts.files.reading import AlikeLines, Line, Reading
from acp_proxy.transcripts.files.retold import retold
from acp_proxy.transcripts.files.rewound import kept
from acp_proxy.transcripts.listing import keeping, queries
from acp_proxy.transcripts.listing.index import Listed
from acp_proxy.transcripts.listing.keeping import DeletedSession
from acp_proxy.transcripts.listing.places import canonical, is_inside, is_windows
from acp_proxy.transcripts.listing.queries import titled
from acp_proxy.transcripts.lives import deleting
from acp_proxy.transcripts.opened import Opened, default_root, lazily
from acp_proxy.wire import clock
from acp_proxy.wire.record import PARTIAL, Header

if TYPE_CHECKING:
    from acp_proxy.redaction.masking import Masking
    from acp_proxy.transcripts.files.summary import Summary
    from acp_proxy.transcripts.listing.catalog import Progress
    from acp_proxy.transcripts.listing.glance import Glance
    from acp_proxy.transcripts.lives.adoptions import KnownHere
    from acp_proxy.transcripts.lives.compressing import Made, Terms
    from acp_proxy.transcripts.lives.importing import Taken
    from acp_proxy.transcripts.lives.redacting import masked_bytes
    from acp_proxy.transcripts.search.phrases import question
    from acp_proxy.transcripts.search.searching import Hit, SearchResult, Sought
    from acp_proxy.transcripts.search.words import Excerpt
    from acp_proxy.transcripts.upkeep.damage import Beside
    from acp_proxy.transcripts.upkeep.pruning import IN_USE, Candidate, Limits, beyond
    from acp_proxy.transcripts.upkeep.usage import AgentUsed, By, Used, grouped, totals
    from acp_proxy.transcripts.upkeep.verifying import BY_HAND, MODE, REPAIR, Advancing, Finding

__all__ = ["BY_HAND", "COMPRESSED_SUFFIX", "IN_USE", "MODE", "PRIVATE_UMASK", "REPAIR", "SUFFIX", "AgentUsed"]
__all__ += ["AlikeLines", "Archive", "Beside", "Candidate", "DeletedSession", "Excerpt", "Finding", "Glance", "Hit"]
__all__ += [
    "KnownHere",
    "Limits",
    "Line",
    "Listed",
    "Made",
    "Reading",
    "SearchResult",
    "Sought",
    "Summary",
    "Taken",
    "Terms",
    "kept",
    "masked_bytes",
    "retold",
]
__all__ += ["Used", "beyond", "called", "default_root", "file_name", "is_windows", "kept_name", "meant", "question"]
__all__ += ["canonical", "grouped", "is_inside", "readable", "titled", "totals"]

_LATER = {
    "files.summary": {"Summary"},
    "listing.glance": {"Glance"},
    "lives.adoptions": {"KnownHere"},
    "lives.importing": {"Taken"},
    "lives.compressing": {"Made", "Terms"},
    "lives.redacting": {"masked_bytes"},
    "search.phrases": {"question"},
    "search.searching": {"Hit", "SearchResult", "Sought"},
    "search.words": {"Excerpt"},
    "upkeep.damage": {"Beside"},
    "upkeep.pruning": {"IN_USE", "Candidate", "Limits", "beyond"},
    "upkeep.usage": {"AgentUsed", "Used", "grouped", "totals"},
    "upkeep.verifying": {"BY_HAND", "MODE", "REPAIR", "Finding"},
}
"""Names of this module that are imported on first access, by the module that defines them."""

if not TYPE_CHECKING:
    __getattr__ = lazily(_LATER)


class Archive(Opened):
    # --- sessions
    """A store as commands use it. Agents are given by folder, transcripts by name (``names.file_name``)."""

    def sessions(self) -> list[Listed]:
        """Every session that has a turn, of every agent, newest first. Raises Unreadable."""
        return list(self.newest())

    def newest(
        self,
        agent: str = "",
        cwd: str | None = None,
        since: str = "",
        until: str = "",
        *,
        below: bool = False,
        archived: bool | None = None,
    ) -> Iterator[Listed]:
        """Sessions that have a turn, newest first, read page by page as the iterator advances.

        ``agent``: an agent as the user writes it; empty: all. ``cwd``: only sessions of this directory; ``below``:
        and of those below. ``since``, ``until``: only sessions last active from the one time to before the other, in
        the transcript's time format. ``archived``: only those that are archived, or only those that are not; None:
        both. Raises Unreadable, also while iterating.
        """
        wanted = queries.ListFilter(self.agents(agent), cwd, since, until, below)
        rows = keeping.current(self._layout, queries.newest(self._catalog.ask, wanted))
        return rows if archived is None else (row for row in rows if row.is_archived == archived)

    def meant(self, given: str, agent: str = "") -> list[Listed]:
        """The sessions that the user means by ``given``: those with exactly this id or transcript name, else those
        whose id starts with it. Newest first.

        The id of a deleted session is never taken as the start of another id. Raises Unreadable, OSError.
        """
        wanted = queries.ListFilter(self.agents(agent), None, "")
        gone = {session for each in wanted.agents for session in self.deleted(each)}
        found = self._catalog.ask(lambda index: queries.meant(index, wanted, given, gone), *wanted.agents)
        return list(keeping.current(self._layout, found))

    def titled(self, given: str, agent: str = "") -> list[Listed]:
        """The sessions with the title ``given``, else those whose title contains it, in any case. Newest first.

        The id of a deleted session is never taken as a part of a title. Raises Unreadable, OSError.
        """
        if any(given in self.deleted(each) for each in self.agents(agent)):
            return []
        return queries.titled(((row, row.title) for row in self.newest(agent)), given)

    def alike(self, sessions: Sequence[str], length: int) -> list[str]:
        """All session ids that share their first ``length`` bytes with one of ``sessions``. Raises Unreadable."""
        return self._catalog.ask(lambda index: queries.alike(index, sessions, length))

    def search(
        self,
        sought: "Sought",
        progress: "Progress" = lambda done, total: None,
        tell: "Callable[[Hit], bool]" = lambda hit: True,
    ) -> "SearchResult":
        """Bring the search tables up to date, then return the newest sessions that match.

        ``progress`` is called with the number of transcripts read and the total. ``tell`` is called with each match,
        perhaps more than once, as soon as it is found; the search ends if it returns False. Raises Unreadable,
        NoFullText.
        """
        from acp_proxy.transcripts.search.searching import search

        return self._catalog.ask(lambda index: search(self._layout, index, sought, progress, tell), *sought.agents)

    def open_listed(self, listed: Listed) -> Reading:
        """Open a session's transcript for reading. Raises OSError, NewerFormat."""
        return Reading(self._layout.transcript(listed.agent, listed.name))

    @contextlib.contextmanager
    def open_child(self, listed: Listed, session: str) -> Iterator[Reading | None]:
        """Yields the transcript of a session that this one's agent began for its own work: nobody opened it.

        None if there is none. Raises OSError, NewerFormat.
        """
        try:
            is_gone = session in self.deleted(listed.agent)
            reading = None if is_gone else Reading(self._layout.transcript(listed.agent, file_name(session)))
        except FileNotFoundError:
            reading = None
        if reading is None:
            yield None
            return
        with contextlib.closing(reading):
            header = reading.header
            yield reading if header is not None and header.origin == PARTIAL and header.cwd is None else None

    def is_open(self, listed: Listed) -> bool:
        """Whether a process has the session's transcript open to append."""
        return keeping.is_open(self._layout, listed)

    def path(self, listed: Listed) -> Path:
        """The file that holds a session's transcript now, plain or compressed."""
        path = self._layout.transcript(listed.agent, listed.name)
        return path if os.path.lexists(path) or not os.path.lexists(compressed(path)) else compressed(path)

    def rename(self, listed: Listed, title: str | None) -> None:
        """Set the title that lists show for a session, in running proxies too. None: remove the user's title.

        Raises OSError (FileNotFoundError: the session was deleted).
        """
        deleting.set_title(self._layout, listed.agent, listed.session, listed.name, title)

    def set_archived(self, listed: Listed, is_archived: bool) -> None:
        """Archive a session, so that no list shows it by default, or unarchive it; in running proxies too.

        Raises OSError (FileNotFoundError: the session was deleted).
        """
        deleting.set_archived(self._layout, listed.agent, listed.session, listed.name, is_archived)

    def remove(self, listed: Listed, *, soft: bool = False) -> None:
        """Delete this session, even if a newer one has its id now. ``soft``: it can be restored.

        Raises OSError; Unreadable if the session is deleted but the index learns of it only with the next list.
        """
        deleting.remove(self._layout, listed.agent, listed.session, listed.name, soft=soft)
        self._layout.journal(listed.agent).sync()
        self._catalog.forget(listed.agent, [listed.name])

    def take_in(self, given: Path | IO[bytes], *, damaged: bool = False) -> "Taken":
        """Import an exported transcript from a file or a stream.

        ``damaged``: accept it even if some of its lines cannot be read. Raises NotImported, NewerFormat, OSError.
        """
        from acp_proxy.transcripts.lives.importing import take_in

        taken = take_in(self._layout, given, self._layout.make_folder, _now(), damaged=damaged)
        if taken.is_new:
            with contextlib.suppress(Unreadable):  # then its mark stays
                self._bring_in(taken.agent, file_name(taken.session), can_wait=True)
        return taken

    def continue_with(self, listed: Listed, agent: str, about: Mapping[str, object]) -> str:
        """Copy a session for another agent to continue it. Returns the copy's id. Raises OSError (FileNotFoundError:
        the session is gone).

        ``agent``: that agent's folder. ``about``: its name and version, if they are known.
        """
        from acp_proxy.transcripts.lives.continuing import copied

        header = Header(listed.session, listed.cwd, PARTIAL, "", listed.directories)
        copy = copied(self._layout, (listed.agent, listed.name), header, agent, about, _now())
        with contextlib.suppress(Unreadable):  # then its mark stays
            self._bring_in(agent, file_name(copy), can_wait=True)
        return copy

    def standing(self, agent: str, session: str) -> "KnownHere":
        """What is known of a session that an agent lists. Raises OSError."""
        from acp_proxy.transcripts.lives.adoptions import standing

        return standing(self._layout, agent, session)

    def adopt(self, transcript: bytes) -> "Taken":
        """Keep an agent's replay as an imported transcript, which ends with an ``adopted`` note. It replaces one that
        ends so too. Raises NotImported, NewerFormat, OSError."""
        from acp_proxy.transcripts.lives.adoptions import adopt

        taken = adopt(self._layout, transcript, self._layout.make_folder)
        with contextlib.suppress(Unreadable):  # then its mark stays
            self._bring_in(taken.agent, file_name(taken.session), can_wait=True)
        return taken

    @contextlib.contextmanager
    def open_session(self, agent: str, session: str) -> Iterator[Reading]:
        """Yields a session's transcript for reading. Raises OSError, NewerFormat."""
        with contextlib.closing(Reading(self._layout.transcript(agent, file_name(session)))) as reading:
            yield reading

    # --- soft-deleted sessions

    def kept(self) -> list[DeletedSession]:
        """The soft-deleted sessions, last deleted first. Raises OSError."""
        return keeping.kept(self._layout)

    def look(self, kept: DeletedSession) -> Listed:
        """A soft-deleted session as a list would show it. Raises OSError, NewerFormat."""
        return keeping.look(self._layout, kept)

    def restore(self, kept: DeletedSession) -> Listed:
        """Undo a soft delete. Raises OSError, NewerFormat.

        Raises Unreadable if the session is restored but the index learns of it only with the next list.
        """
        restored = keeping.restore(self._layout, kept)
        self._bring_in(restored.agent, restored.name)
        return restored

    def remove_kept(self, kept: DeletedSession) -> None:
        """Delete a soft-deleted session permanently. Raises OSError."""
        deleting.remove_kept(self._layout, kept.agent, kept.session, kept.name)
        with contextlib.suppress(Unreadable):  # it has no row, but its row's bytes may still be in the file
            self._catalog.ask(lambda index: index.clear_log(), kept.agent)

    # --- the whole store

    def check_writable(self) -> None:
        """Create the store if it is missing. Raises StoreRefused if it cannot be written."""
        access.prepare(self.root)

    def transcripts(self) -> list[tuple[str, str]]:
        """The agent and name of every transcript."""
        return self._layout.all_names()

    def candidates(self, *, deleted: bool = False) -> "list[Candidate]":
        """The sessions that may be pruned, newest first; ``deleted``: the soft-deleted ones instead.

        Raises OSError, Unreadable.
        """
        from acp_proxy.transcripts.upkeep import pruning

        return (pruning.of_kept if deleted else pruning.of_listed)(self._layout, self._catalog)

    def prune(
        self, candidates: "Iterable[Candidate]", *, soft: bool, is_here: bool = True
    ) -> "Iterator[tuple[Candidate, str | None]]":
        """Delete sessions one by one. Yields each with the reason it was not deleted, or None.

        ``is_here``: other machines with the same history keep them.

        The index is updated at the end. Raises Unreadable if that fails; the next list then does it.
        """
        from acp_proxy.transcripts.upkeep.pruning import prune

        return prune(self._layout, self._catalog, candidates, soft=soft, is_here=is_here)

    def usage(self, agent: str = "", by: "By" = "month") -> "tuple[dict[str, AgentUsed], list[str]]":
        """What all sessions used, by agent, and a line of text for each transcript that could not be read.

        ``agent``: an agent as the user writes it; empty: all. Raises OSError, Unreadable.
        """
        from acp_proxy.transcripts.upkeep.usage import of_all

        return of_all(self._layout, self._catalog, self.agents(agent), by)

    def used(self, listed: Listed) -> "AgentUsed":
        """What a session used, without its bytes. Raises Unreadable."""
        from acp_proxy.transcripts.upkeep.usage import of_one

        return of_one(self._catalog, listed.agent, listed.name)

    def damaged(self) -> list[tuple[Path, str, str]]:
        """The transcripts that cannot be opened, why, and what to do."""
        from acp_proxy.transcripts.upkeep.verifying import unreadable

        return list(unreadable(self._layout.transcript(agent, name) for agent, name in self.transcripts()))

    def verify(self, *transcripts: tuple[str, str], advancing: "Advancing | None" = None) -> "Iterator[Finding]":
        """Problems in these transcripts (agent, name), or in the whole store if none are given. Changes nothing.

        ``advancing`` wraps the items to report progress. Raises OSError.
        """
        from acp_proxy.transcripts.upkeep.verifying import Inspection, untold

        inspection = Inspection(self._layout, advancing or untold)
        return inspection.some(transcripts) if transcripts else inspection.all()

    def repair(self, finding: "Finding") -> Path | None:
        """Repair the whole file of a finding. Returns the path of its backup copy, or None if no file was changed.

        Raises OSError, AcpProxyError.
        """
        from acp_proxy.transcripts.upkeep.repairing import repair

        return repair(self._layout, self._catalog, finding, _now())

    # --- secrets

    def relatives(self, chosen: list[Listed]) -> set[tuple[str, str]]:
        """The agent and name of every other transcript that begins as one of these does: forks and copies of them, what
        they are forks and copies of, and so on. Raises OSError."""
        from acp_proxy.transcripts.lives.relatives import find_relatives

        return find_relatives(self._layout, {(listed.agent, listed.name) for listed in chosen})

    def redactable(self, chosen: list[Listed] | None, also: Iterable[tuple[str, str]] = ()) -> list[Path]:
        """The files that hold the content of these sessions, or of all sessions if None. ``also``: as ``relatives``."""
        return self._layout.redactable(None if chosen is None else _names(chosen, also))

    def redact(self, path: Path, masking: "Masking", *, dry: bool, backup: Path | None = None) -> Counter[str]:
        """Mask secrets in one of these files; ``dry``: only count them. Returns the number of matches by rule.

        ``backup``: a directory for the file's original, if it changes. Raises OSError, NewerFormat.
        """
        from acp_proxy.transcripts.lives.redacting import redact

        return redact(self._layout, path, masking, dry=dry, backup=backup)

    def renew(self, chosen: list[Listed] | None, also: Iterable[tuple[str, str]] = ()) -> None:
        """Rebuild the index entries of these sessions, or of all sessions if None. ``also``: as ``relatives``. Raises
        OSError, Unreadable."""
        all_names = {agent: self._layout.names(agent) for agent in self.agents()} if chosen is None else {}
        names = all_names if chosen is None else _names(chosen, also)
        for agent, each in names.items():
            self._catalog.renew(agent, each)

    def masked(
        self, listed: Listed, reading: Reading, masking: "Masking"
    ) -> AbstractContextManager[tuple[Reading, str | None]]:
        """Yields a masked copy of a session's transcript, and its masked title; the copy is removed afterwards.

        Raises OSError, NewerFormat.
        """
        from acp_proxy.transcripts.lives.redacting import masked

        return masked(reading, masking, self.state(listed.agent).titles.get(listed.name))

    def _bring_in(self, agent: str, name: str, *, can_wait: bool = False) -> None:
        self._catalog.tell(lambda index: self._catalog.bring_in(index, agent, name), can_wait=can_wait)


def _names(chosen: list[Listed], also: Iterable[tuple[str, str]] = ()) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for agent, name in [*((listed.agent, listed.name) for listed in chosen), *also]:
        names.setdefault(agent, []).append(name)
    return names


def _now() -> str:
    return clock.stamp(time.time())
