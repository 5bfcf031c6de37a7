"""The directory of all transcripts, and the only class of this package that others see.

Safe for several processes at once. Two kinds of methods: those that a recording relay calls (a few system calls each,
raising OSError), and those that look at many sessions through the index (slower; ``Unreadable`` stands for whatever
went wrong there). Files are the truth; the index is brought up to date before it is asked.
"""

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING

from acp_proxy.errors import StoreRefused, Unreadable
from acp_proxy.transcripts import access, deleting, folders, forks, names, opening
from acp_proxy.transcripts.journal import State
from acp_proxy.transcripts.layout import Layout
from acp_proxy.transcripts.names import compressed, file_name
from acp_proxy.transcripts.reading import Reading
from acp_proxy.transcripts.transcript import Transcript, sync
from acp_proxy.wire import clock
from acp_proxy.wire.record import Header

if TYPE_CHECKING:  # SQLite is slow to import, and a relay that records does not need it
    from collections import Counter

    from acp_proxy.redaction.masking import Masking
    from acp_proxy.transcripts.catalog import Catalog, Filling
    from acp_proxy.transcripts.importing import Taken
    from acp_proxy.transcripts.index import Listed, Page
    from acp_proxy.transcripts.keeping import Kept
    from acp_proxy.transcripts.newest import Wanted
    from acp_proxy.transcripts.packing import Made, Terms
    from acp_proxy.transcripts.pruning import Candidate
    from acp_proxy.transcripts.searching import Found, Progress, Sought
    from acp_proxy.transcripts.usage import AgentUsed
    from acp_proxy.transcripts.verifying import Advancing, Finding


class Store:
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

    @property
    def is_there(self) -> bool:
        """Whether its directory has not been removed since."""
        return self.root.exists()

    # --- agents

    def agents(self, meant: str = "") -> list[str]:
        """Their folders: of all, or of those that a person means by this."""
        return names.meant(self._layout.agents(), meant)

    def choose_agent(self, given: str | None, told: str | None, command: str, *, may_run_others: bool = False) -> str:
        """The folder of an agent: the name given by the user, else its own, else its command's.

        An agent that begins to tell its name keeps the folder of its command's, if that cannot be another agent's.
        """
        return folders.choose(self._layout, given, told, command, may_run_others=may_run_others)

    # --- for a relay that records

    def begin(
        self, agent: str, header: Header, *, fresh: bool, parent: str | None = None, until: int | None = None
    ) -> Transcript:
        """The transcript of a session: the one that is there, or a new one. Raises Deleted: it was, and is not new.

        ``fresh``: the agent has just made this session; an older one of the same id is set aside. ``parent``: a session
        whose transcript, up to a size, a new one begins with; a long one is still to be copied (``finish_fork``).
        """
        return opening.begin(self._layout, agent, header, fresh=fresh, parent=parent, until=until)

    def finish_fork(self, path: Path, beginning: Reading | None) -> None:
        """Copy what a fork still lacks, from what its ``Transcript`` has, or else its parent. Raises OSError."""
        forks.finish(self._layout, path.parent.name, path.stem, beginning)

    def size(self, agent: str, session: str) -> int:
        """Of a transcript, now. Raises OSError, NewerFormat."""
        return forks.size(self._layout, agent, file_name(session))

    def reopen(self, agent: str, session: str, identity: bytes) -> Transcript:
        """The file that was open before, also where it was set aside. Raises Deleted where it is gone."""
        return opening.reopen(self._layout, agent, session, identity)

    def mark(self, agent: str, session: str, transcript: Transcript | None = None) -> None:
        """The index has not seen all of this session (in this file of it): leave a mark that outlives us."""
        self._layout.mark(agent, transcript.path.stem if transcript is not None else file_name(session))

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

    def deleted(self, agent: str) -> frozenset[str]:
        return self.state(agent).gone

    def state(self, agent: str) -> State:
        """What users and editors have said of an agent's sessions: what is deleted, and titles. Raises OSError."""
        return self._layout.journal(agent).state()

    def read(self, agent: str, session: str) -> Reading:
        """Open a transcript to be replayed. Raises OSError (FileNotFoundError: none; Unfinished), NewerFormat."""
        return Reading(self._path(agent, session))

    # --- through the index

    def page(self, agent: str, cwd: str | None, cursor: str | None, run: str) -> "Page":
        """One page of an agent's sessions. Raises InvalidCursor, Unreadable."""
        from acp_proxy.transcripts.keeping import titled

        page = self._catalog.ask(lambda index: index.page(agent, cwd, cursor, run), agent)
        page.rows[:] = titled(self._layout, page.rows)
        return page

    def sessions(self) -> "list[Listed]":
        """Every session of every agent with a turn, newest first. Raises Unreadable."""
        return list(self.newest())

    def newest(self, agent: str = "", cwd: str | None = None, since: str = "") -> "Iterator[Listed]":
        """The same, read as they are taken: of agents that are meant by this, in this directory, active since a time.

        Raises Unreadable, also later on.
        """
        from acp_proxy.transcripts.keeping import titled
        from acp_proxy.transcripts.newest import newest

        return titled(self._layout, newest(self._catalog.ask, self._wanted(agent, cwd, since)))

    def meant(self, given: str, agent: str = "") -> "list[Listed]":
        """The sessions of exactly this id or transcript, else those whose ids begin so, newest first.

        What was deleted is the beginning of no other. Raises Unreadable, OSError.
        """
        from acp_proxy.transcripts.keeping import titled
        from acp_proxy.transcripts.newest import meant

        wanted = self._wanted(agent)
        gone = {session for each in wanted.agents for session in self.deleted(each)}
        found = self._catalog.ask(lambda index: meant(index, wanted, given, gone), *wanted.agents)
        return list(titled(self._layout, found))

    def alike(self, sessions: Sequence[str], length: int) -> list[str]:
        """All ids that begin as one of these does, for so many characters at least. Raises Unreadable."""
        from acp_proxy.transcripts.newest import alike

        return self._catalog.ask(lambda index: alike(index, sessions, length))

    def search(self, sought: "Sought", progress: "Progress" = lambda done, total: None) -> "Found":
        """The newest sessions in which something was said; all that was said since the last search is read first.

        Raises Unreadable, NoFullText.
        """
        from acp_proxy.transcripts.searching import search

        return self._catalog.ask(lambda index: search(self._layout, index, sought, progress), *sought.agents)

    def knows(self, agent: str, session: str) -> bool:
        """Whether the index has seen a transcript of this session. Raises Unreadable."""
        return self._catalog.ask(lambda index: index.has(agent, file_name(session)))

    def bring_in(self, agent: str, session: str) -> None:
        """Bring the index up to date with one session; where that cannot be, its mark stays. Raises Unreadable."""
        self._catalog.tell(lambda index: self._catalog.bring_in(index, agent, file_name(session)), can_wait=True)

    def forget(self, agent: str, session: str) -> None:
        """Take a deleted session out of the index; where that cannot be, its mark stays. Raises Unreadable."""
        self._catalog.forget(agent, [file_name(session)])

    def redactable(self, chosen: "list[Listed] | None") -> list[Path]:
        """The files in which what was said in these sessions lies, or in all of them."""
        return self._layout.redactable(None if chosen is None else _names(chosen))

    def redact(self, path: Path, masking: "Masking", *, dry: bool) -> "Counter[str]":
        """How often which rule found something in one of these files. Raises OSError, NewerFormat."""
        from acp_proxy.transcripts.redacting import redact

        return redact(self._layout, path, masking, dry=dry)

    def renew(self, chosen: "list[Listed] | None") -> None:
        """The index of these sessions, or of all of them, made anew. Raises OSError, Unreadable."""
        names = {agent: self._layout.names(agent) for agent in self.agents()} if chosen is None else _names(chosen)
        for agent, each in names.items():
            self._catalog.renew(agent, each)

    # --- whole sessions

    def rename(self, listed: "Listed", title: str | None) -> None:
        """Under this title it is listed from now on, by running proxies too; None: under its own.

        Raises OSError (FileNotFoundError: it was deleted).
        """
        deleting.set_title(self._layout, listed.agent, listed.session, listed.name, title)

    def remove(self, listed: "Listed", *, soft: bool = False) -> None:
        """Delete this one, also where its id belongs to a newer one by now. ``soft``: it can be restored.

        Raises OSError, and Unreadable where the index learns of it with the next list.
        """
        deleting.remove(self._layout, listed.agent, listed.session, listed.name, soft=soft)
        self.sync_deletes(listed.agent)
        self._catalog.forget(listed.agent, [listed.name])

    def kept(self) -> "list[Kept]":
        """What was deleted softly, the latest first. Raises OSError."""
        from acp_proxy.transcripts.keeping import kept

        return kept(self._layout)

    def look(self, kept: "Kept") -> "Listed":
        """What a list would say of it. Raises OSError, NewerFormat."""
        from acp_proxy.transcripts.keeping import look

        return look(self._layout, kept)

    def restore(self, kept: "Kept") -> "Listed":
        """Bring it back.

        Raises OSError, NewerFormat, and Unreadable where the index learns of it with the next list.
        """
        from acp_proxy.transcripts.keeping import restore

        restored = restore(self._layout, kept)
        self._catalog.tell(lambda index: self._catalog.bring_in(index, restored.agent, restored.name))
        return restored

    def remove_kept(self, kept: "Kept") -> None:
        """Delete for good what was deleted softly. Raises OSError."""
        deleting.remove_kept(self._layout, kept.agent, kept.session, kept.name)
        with contextlib.suppress(Unreadable):  # it is in no row, but perhaps in what is left of one
            self._catalog.ask(lambda index: index.clear_log(), kept.agent)

    def candidates(self, *, deleted: bool = False) -> "list[Candidate]":
        """What may be pruned, the newest first: every session, or what was deleted softly.

        Raises OSError, Unreadable.
        """
        from acp_proxy.transcripts import pruning

        return (pruning.of_kept if deleted else pruning.of_listed)(self._layout, self._catalog)

    def prune(self, candidates: "Iterable[Candidate]", *, soft: bool) -> "Iterator[tuple[Candidate, str | None]]":
        """Delete them one by one; of each, why it was not, if so. The index learns of them at the end.

        Raises Unreadable where it learns of them with the next list.
        """
        from acp_proxy.transcripts.pruning import prune

        return prune(self._layout, self._catalog, candidates, soft=soft)

    def transcripts(self) -> list[tuple[str, str]]:
        """Agents and names of all transcripts."""
        return self._layout.all_names()

    def usage(self, transcripts: Iterable[tuple[str, str]]) -> "tuple[dict[str, AgentUsed], list[str]]":
        """What was used, by agent; and the transcripts that could not be read, and why. Raises OSError."""
        from acp_proxy.transcripts.usage import of_all

        return of_all(self._layout, transcripts)

    def path(self, listed: "Listed") -> Path:
        """The file of its transcript as it lies."""
        path = self._layout.transcript(listed.agent, listed.name)
        return path if os.path.lexists(path) or not os.path.lexists(compressed(path)) else compressed(path)

    # --- compression

    def compressible(self, chosen: "list[Listed] | None" = None) -> list[tuple[str, str]]:
        """Agents and names of these transcripts, or of all; what crashes have left of compressing is removed."""
        from acp_proxy.transcripts import packing

        if chosen is not None:
            return [(listed.agent, listed.name) for listed in chosen]
        packing.clear(self._layout)
        return self.transcripts()

    def compress(self, agent: str, name: str, terms: "Terms") -> "Made | None":
        """Compress a transcript if that is worth it; None where it is not, or not possible now. Raises OSError."""
        from acp_proxy.transcripts import packing

        made = packing.compress(self._layout, agent, name, terms)
        if made is not None and not terms.dry:
            with contextlib.suppress(Unreadable):  # then its mark stays, and it is read once more
                self._catalog.compressed(agent, name, made.inodes)
        return made

    def daily(self) -> "AbstractContextManager[bool]":
        """Whether the day's compressing is ours to do; it is done when this is left without an exception."""
        from acp_proxy.transcripts.packing import once_a_day

        return once_a_day(self._layout.compressed)

    # --- single files

    def damaged(self) -> list[tuple[Path, str]]:
        """Transcripts that cannot be opened, and why."""
        from acp_proxy.transcripts.verifying import unreadable

        return list(unreadable(self._layout.transcript(agent, name) for agent, name in self.transcripts()))

    def verify(self, *transcripts: tuple[str, str], advancing: "Advancing | None" = None) -> "Iterator[Finding]":
        """What is wrong with these (agent, name), or with anything in the store; nothing is changed. Raises OSError."""
        from acp_proxy.transcripts.verifying import Inspection, untold

        inspection = Inspection(self._layout, advancing or untold)
        return inspection.some(transcripts) if transcripts else inspection.all()

    def repair(self, finding: "Finding") -> Path | None:
        """Mend the whole file of a finding; where its copy is, if it was changed. Raises OSError, AcpProxyError."""
        from acp_proxy.transcripts.repairing import repair

        return repair(self._layout, self._catalog, finding, _now())

    def sync(self, agent: str, session: str) -> None:
        """What was written of a session is on the disk when this returns. Raises OSError."""
        sync(self._path(agent, session))

    def open_listed(self, listed: "Listed") -> Reading:
        """Raises OSError, NewerFormat."""
        return Reading(self._layout.transcript(listed.agent, listed.name))

    def masked(
        self, listed: "Listed", reading: Reading, masking: "Masking"
    ) -> "AbstractContextManager[tuple[Reading, str | None]]":
        """A copy of what is read, masked, and its title, for as long as it is used. Raises OSError, NewerFormat."""
        from acp_proxy.transcripts.redacting import masked

        return masked(reading, masking, self.state(listed.agent).titles.get(listed.name))

    def take_in(self, given: "Path | IO[bytes]", *, damaged: bool = False) -> "Taken":
        """Import an exported transcript, a file or a stream; ``damaged``: also if something in it cannot be read.

        Raises NotImported, NewerFormat, OSError.
        """
        from acp_proxy.transcripts import importing

        taken = importing.take_in(self._layout, given, self._layout.make_folder, _now(), damaged=damaged)
        if taken.is_new:
            with contextlib.suppress(Unreadable):  # then its mark stays
                self.bring_in(taken.agent, taken.session)
        return taken

    # --- inside

    def _wanted(self, agent: str, cwd: str | None = None, since: str = "") -> "Wanted":
        from acp_proxy.transcripts.newest import Wanted

        return Wanted(self.agents(agent), cwd, since)

    @cached_property
    def _catalog(self) -> "Catalog":
        from acp_proxy.transcripts.catalog import Catalog

        return Catalog(self._layout, self.filling)

    def _path(self, agent: str, session: str) -> Path:
        return self._layout.transcript(agent, file_name(session))


def _names(chosen: "list[Listed]") -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for listed in chosen:
        names.setdefault(listed.agent, []).append(listed.name)
    return names


def _now() -> str:
    return clock.stamp(time.time())
