"""The door to the store for commands and the doctor: what they list, search, change and look after.

All sessions of all agents, through the index (``Unreadable`` stands for whatever went wrong there), and single files.
What only some commands need is loaded by them: by a method, or by the name of a value (``_LATER``).
"""

import contextlib
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
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
from acp_proxy.transcripts.listing import keeping, queries
from acp_proxy.transcripts.listing.index import Listed
from acp_proxy.transcripts.listing.keeping import DeletedSession
from acp_proxy.transcripts.listing.places import is_windows
from acp_proxy.transcripts.lives import deleting
from acp_proxy.transcripts.opened import Opened, default_root, lazily
from acp_proxy.wire import clock

if TYPE_CHECKING:
    from acp_proxy.redaction.masking import Masking
    from acp_proxy.transcripts.files.summary import Summary
    from acp_proxy.transcripts.listing.catalog import Progress
    from acp_proxy.transcripts.listing.glance import Glance
    from acp_proxy.transcripts.lives.compressing import Made, Terms
    from acp_proxy.transcripts.lives.importing import Taken
    from acp_proxy.transcripts.search.phrases import question
    from acp_proxy.transcripts.search.searching import Hit, SearchResult, Sought
    from acp_proxy.transcripts.search.words import Excerpt
    from acp_proxy.transcripts.upkeep.damage import Beside
    from acp_proxy.transcripts.upkeep.pruning import IN_USE, Candidate, Limits, beyond
    from acp_proxy.transcripts.upkeep.usage import AgentUsed, Used, totals
    from acp_proxy.transcripts.upkeep.verifying import BY_HAND, MODE, REPAIR, Advancing, Finding

__all__ = ["BY_HAND", "COMPRESSED_SUFFIX", "IN_USE", "MODE", "PRIVATE_UMASK", "REPAIR", "SUFFIX", "AgentUsed"]
__all__ += ["AlikeLines", "Archive", "Beside", "Candidate", "DeletedSession", "Excerpt", "Finding", "Glance", "Hit"]
__all__ += ["Limits", "Line", "Listed", "Made", "Reading", "SearchResult", "Sought", "Summary", "Taken", "Terms"]
__all__ += ["Used", "beyond", "called", "default_root", "file_name", "is_windows", "kept_name", "meant", "question"]
__all__ += ["readable", "totals"]

_LATER = {
    "files.summary": {"Summary"},
    "listing.glance": {"Glance"},
    "lives.importing": {"Taken"},
    "lives.compressing": {"Made", "Terms"},
    "search.phrases": {"question"},
    "search.searching": {"Hit", "SearchResult", "Sought"},
    "search.words": {"Excerpt"},
    "upkeep.damage": {"Beside"},
    "upkeep.pruning": {"IN_USE", "Candidate", "Limits", "beyond"},
    "upkeep.usage": {"AgentUsed", "Used", "totals"},
    "upkeep.verifying": {"BY_HAND", "MODE", "REPAIR", "Finding"},
}
"""Values that are loaded when somebody asks for one."""

if not TYPE_CHECKING:
    __getattr__ = lazily(_LATER)


class Archive(Opened):
    # --- sessions

    def sessions(self) -> list[Listed]:
        """Every session of every agent with a turn, newest first. Raises Unreadable."""
        return list(self.newest())

    def newest(self, agent: str = "", cwd: str | None = None, since: str = "") -> Iterator[Listed]:
        """Sessions, newest first, read as they are taken. ``agent``, ``cwd``, ``since``: only those that match.

        Raises Unreadable, also later on.
        """
        wanted = queries.ListFilter(self.agents(agent), cwd, since)
        return keeping.titled(self._layout, queries.newest(self._catalog.ask, wanted))

    def meant(self, given: str, agent: str = "") -> list[Listed]:
        """The sessions of exactly this id or transcript, else those whose ids begin so, newest first.

        What was deleted is the beginning of no other. Raises Unreadable, OSError.
        """
        wanted = queries.ListFilter(self.agents(agent), None, "")
        gone = {session for each in wanted.agents for session in self.deleted(each)}
        found = self._catalog.ask(lambda index: queries.meant(index, wanted, given, gone), *wanted.agents)
        return list(keeping.titled(self._layout, found))

    def alike(self, sessions: Sequence[str], length: int) -> list[str]:
        """All ids that begin as one of these does, for so many characters at least. Raises Unreadable."""
        return self._catalog.ask(lambda index: queries.alike(index, sessions, length))

    def search(self, sought: "Sought", progress: "Progress" = lambda done, total: None) -> "SearchResult":
        """The newest sessions in which something was said; all that was said since the last search is read first.

        Raises Unreadable, NoFullText.
        """
        from acp_proxy.transcripts.search.searching import search

        return self._catalog.ask(lambda index: search(self._layout, index, sought, progress), *sought.agents)

    def open_listed(self, listed: Listed) -> Reading:
        """Raises OSError, NewerFormat."""
        return Reading(self._layout.transcript(listed.agent, listed.name))

    def path(self, listed: Listed) -> Path:
        """The file of its transcript as it lies."""
        path = self._layout.transcript(listed.agent, listed.name)
        return path if os.path.lexists(path) or not os.path.lexists(compressed(path)) else compressed(path)

    def rename(self, listed: Listed, title: str | None) -> None:
        """Under this title it is listed from now on, by running proxies too; None: under its own.

        Raises OSError (FileNotFoundError: it was deleted).
        """
        deleting.set_title(self._layout, listed.agent, listed.session, listed.name, title)

    def remove(self, listed: Listed, *, soft: bool = False) -> None:
        """Delete this one, also where its id belongs to a newer one by now. ``soft``: it can be restored.

        Raises OSError, and Unreadable where the index learns of it with the next list.
        """
        deleting.remove(self._layout, listed.agent, listed.session, listed.name, soft=soft)
        self._layout.journal(listed.agent).sync()
        self._catalog.forget(listed.agent, [listed.name])

    def take_in(self, given: Path | IO[bytes], *, damaged: bool = False) -> "Taken":
        """Import an exported transcript, a file or a stream; ``damaged``: also if something in it cannot be read.

        Raises NotImported, NewerFormat, OSError.
        """
        from acp_proxy.transcripts.lives.importing import take_in

        taken = take_in(self._layout, given, self._layout.make_folder, _now(), damaged=damaged)
        if taken.is_new:
            with contextlib.suppress(Unreadable):  # then its mark stays
                self._bring_in(taken.agent, file_name(taken.session), can_wait=True)
        return taken

    # --- what was deleted softly

    def kept(self) -> list[DeletedSession]:
        """What was deleted softly, the latest first. Raises OSError."""
        return keeping.kept(self._layout)

    def look(self, kept: DeletedSession) -> Listed:
        """What a list would say of it. Raises OSError, NewerFormat."""
        return keeping.look(self._layout, kept)

    def restore(self, kept: DeletedSession) -> Listed:
        """Bring it back.

        Raises OSError, NewerFormat, and Unreadable where the index learns of it with the next list.
        """
        restored = keeping.restore(self._layout, kept)
        self._bring_in(restored.agent, restored.name)
        return restored

    def remove_kept(self, kept: DeletedSession) -> None:
        """Delete for good what was deleted softly. Raises OSError."""
        deleting.remove_kept(self._layout, kept.agent, kept.session, kept.name)
        with contextlib.suppress(Unreadable):  # it is in no row, but perhaps in what is left of one
            self._catalog.ask(lambda index: index.clear_log(), kept.agent)

    # --- the whole store

    def check_writable(self) -> None:
        """Whether it can be written to, or made where it is missing. Raises StoreRefused."""
        access.prepare(self.root)

    def transcripts(self) -> list[tuple[str, str]]:
        """Agents and names of all transcripts."""
        return self._layout.all_names()

    def candidates(self, *, deleted: bool = False) -> "list[Candidate]":
        """What may be pruned, the newest first: every session, or what was deleted softly.

        Raises OSError, Unreadable.
        """
        from acp_proxy.transcripts.upkeep import pruning

        return (pruning.of_kept if deleted else pruning.of_listed)(self._layout, self._catalog)

    def prune(self, candidates: "Iterable[Candidate]", *, soft: bool) -> "Iterator[tuple[Candidate, str | None]]":
        """Delete them one by one; of each, why it was not, if so. The index learns of them at the end.

        Raises Unreadable where it learns of them with the next list.
        """
        from acp_proxy.transcripts.upkeep.pruning import prune

        return prune(self._layout, self._catalog, candidates, soft=soft)

    def usage(self, transcripts: Iterable[tuple[str, str]]) -> "tuple[dict[str, AgentUsed], list[str]]":
        """What was used, by agent; and the transcripts that could not be read, and why. Raises OSError."""
        from acp_proxy.transcripts.upkeep.usage import of_all

        return of_all(self._layout, transcripts)

    def damaged(self) -> list[tuple[Path, str]]:
        """Transcripts that cannot be opened, and why."""
        from acp_proxy.transcripts.upkeep.verifying import unreadable

        return list(unreadable(self._layout.transcript(agent, name) for agent, name in self.transcripts()))

    def verify(self, *transcripts: tuple[str, str], advancing: "Advancing | None" = None) -> "Iterator[Finding]":
        """What is wrong with these (agent, name), or with anything in the store; nothing is changed. Raises OSError."""
        from acp_proxy.transcripts.upkeep.verifying import Inspection, untold

        inspection = Inspection(self._layout, advancing or untold)
        return inspection.some(transcripts) if transcripts else inspection.all()

    def repair(self, finding: "Finding") -> Path | None:
        """Mend the whole file of a finding; where its copy is, if it was changed. Raises OSError, AcpProxyError."""
        from acp_proxy.transcripts.upkeep.repairing import repair

        return repair(self._layout, self._catalog, finding, _now())

    # --- secrets

    def redactable(self, chosen: list[Listed] | None) -> list[Path]:
        """The files in which what was said in these sessions lies, or in all of them."""
        return self._layout.redactable(None if chosen is None else _names(chosen))

    def redact(self, path: Path, masking: "Masking", *, dry: bool) -> Counter[str]:
        """How often which rule found something in one of these files. Raises OSError, NewerFormat."""
        from acp_proxy.transcripts.lives.redacting import redact

        return redact(self._layout, path, masking, dry=dry)

    def renew(self, chosen: list[Listed] | None) -> None:
        """The index of these sessions, or of all of them, made anew. Raises OSError, Unreadable."""
        names = {agent: self._layout.names(agent) for agent in self.agents()} if chosen is None else _names(chosen)
        for agent, each in names.items():
            self._catalog.renew(agent, each)

    def masked(
        self, listed: Listed, reading: Reading, masking: "Masking"
    ) -> AbstractContextManager[tuple[Reading, str | None]]:
        """A copy of what is read, masked, and its title, for as long as it is used. Raises OSError, NewerFormat."""
        from acp_proxy.transcripts.lives.redacting import masked

        return masked(reading, masking, self.state(listed.agent).titles.get(listed.name))

    def _bring_in(self, agent: str, name: str, *, can_wait: bool = False) -> None:
        self._catalog.tell(lambda index: self._catalog.bring_in(index, agent, name), can_wait=can_wait)


def _names(chosen: list[Listed]) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for listed in chosen:
        names.setdefault(listed.agent, []).append(listed.name)
    return names


def _now() -> str:
    return clock.stamp(time.time())
