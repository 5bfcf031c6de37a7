"""The directory of all transcripts, and the only class of this package that others see.

Safe for several processes at once. Two kinds of methods: those that a recording relay calls (a few system calls each,
raising OSError), and those that look at many sessions through the index (slower; ``Unreadable`` stands for whatever
went wrong there). Files are the truth; the index is brought up to date before it is asked.
"""

import errno
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from acp_proxy.errors import NewerFormat, StoreRefused
from acp_proxy.transcripts import access, journal
from acp_proxy.transcripts.index import Index, Listed, Page
from acp_proxy.transcripts.journal import Journal
from acp_proxy.transcripts.names import file_name
from acp_proxy.transcripts.transcript import Reading, Transcript
from acp_proxy.wire import clock
from acp_proxy.wire.record import Header

FORMAT = 1
_SUFFIX = ".jsonl"
_JOURNAL = "state.jsonl"
_UNFINISHED_SECONDS = 24 * 60 * 60
"""For so long a turn without an answer may still get one from another process; its marker stays."""

T = TypeVar("T")


class Unreadable(Exception):
    """Stored history could not be read; the text is an errno's name."""


class Store:
    def __init__(self, root: Path) -> None:
        """Make the store if it is missing. Raises StoreRefused."""
        self.root = root
        access.prepare(root)
        self._transcripts = root / "transcripts"
        self._unindexed = root / "unindexed"
        self._index: Index | None = None
        self._index_inode = 0
        self._journals: dict[str, Journal] = {}
        try:
            access.make_directory(self._transcripts)
            access.make_directory(self._unindexed)
            self._check_format()
        except OSError as problem:
            reason = problem.strerror or type(problem).__name__
            raise StoreRefused(f"{root} cannot be used: {reason}. Choose another place with --store.") from problem

    # --- agents

    def agents(self) -> list[str]:
        return sorted(entry.name for entry in os.scandir(self._transcripts) if entry.is_dir())

    def choose_agent(self, given: str | None, told: str | None, command: str) -> str:
        """The folder of an agent: the name given by the user, else its own, else its command's.

        An agent that begins to tell its name keeps the folder that it has under its command's.
        """
        if given is not None:
            chosen = file_name(given)
        else:
            chosen, before = file_name(told or command), file_name(command)
            if not (self._transcripts / chosen).is_dir() and (self._transcripts / before).is_dir():
                chosen = before
        return chosen

    # --- for a relay that records

    def begin(self, agent: str, header: Header, *, fresh: bool) -> Transcript:
        """The transcript of a session: the one that is there, or a new one.

        ``fresh``: the agent has just made this session; an older one of the same id is set aside.
        """
        path = self._path(agent, header.session)
        if fresh:
            self.lift(agent, header.session)
            if path.exists() and path.stat().st_size:
                self._set_aside(agent, path)
        access.make_directory(path.parent)
        return Transcript(path, header)

    def reopen(self, agent: str, session: str) -> Transcript:
        """The transcript that is there. Raises FileNotFoundError where it was deleted meanwhile."""
        return Transcript(self._path(agent, session))

    def mark(self, agent: str, session: str) -> None:
        """The index has not seen all of this session: leave a mark that outlives us."""
        self._mark(agent, file_name(session))

    def delete(self, agent: str, session: str) -> None:
        """Remove the transcript, for good; it stays known as deleted."""
        access.make_directory(self._transcripts / agent)
        self._journal(agent).append(journal.DELETED, session, _now())
        self._path(agent, session).unlink(missing_ok=True)

    def lift(self, agent: str, session: str) -> None:
        """A deleted session lives again."""
        if session in self.deleted(agent):
            self._journal(agent).append(journal.LIFTED, session, _now())

    def deleted(self, agent: str) -> frozenset[str]:
        return self._journal(agent).deleted()

    def read(self, agent: str, session: str) -> Reading:
        """Open a transcript to be replayed. Raises OSError (FileNotFoundError: there is none), NewerFormat."""
        return Reading(self._path(agent, session))

    # --- through the index

    def page(self, agent: str, cwd: str | None, cursor: str | None, run: str) -> Page:
        """One page of an agent's sessions. Raises InvalidCursor, Unreadable."""
        return self._asked(agent, lambda index: index.page(agent, cwd, cursor, run))

    def sessions(self, agent: str | None = None, run: str = "") -> list[Listed]:
        """Every session with a prompt, newest first. Raises Unreadable."""
        return self._asked(agent, lambda index: list(index.all(agent, run)))

    def knows(self, agent: str, session: str) -> bool:
        """Whether the index has seen a transcript of this session. Raises Unreadable."""
        return self._asked(None, lambda index: index.has(agent, file_name(session)), update=False)

    def damaged(self) -> list[tuple[Path, str]]:
        """Transcripts that cannot be opened, and why."""
        found = []
        for agent in self.agents():
            for path in sorted((self._transcripts / agent).glob(f"*{_SUFFIX}")):
                try:
                    if path.name != _JOURNAL:
                        Reading(path).close()
                except (OSError, NewerFormat) as problem:
                    found.append((path, str(problem) if isinstance(problem, NewerFormat) else errno_name(problem)))
        return found

    def bring_in(self, agent: str, session: str) -> None:
        """Bring the index up to date with one session. Raises Unreadable."""
        self._asked(None, lambda index: self._bring_in(index, agent, file_name(session)), update=False)

    def forget(self, agent: str, session: str) -> None:
        """Take a deleted session out of the index. Raises Unreadable."""
        self._asked(None, lambda index: index.remove(agent, file_name(session)), update=False)

    def sync(self, agent: str, session: str) -> None:
        """What was written of a session is on the disk when this returns. Raises OSError."""
        fd = access.open_private(self._path(agent, session), os.O_RDWR)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def open_listed(self, listed: Listed) -> Reading:
        """Raises OSError, NewerFormat."""
        return Reading(self._transcripts / listed.agent / (listed.name + _SUFFIX))

    # --- inside

    def _path(self, agent: str, session: str) -> Path:
        return self._transcripts / agent / (file_name(session) + _SUFFIX)

    def _journal(self, agent: str) -> Journal:
        return self._journals.setdefault(agent, Journal(self._transcripts / agent / _JOURNAL))

    def _mark(self, agent: str, name: str) -> None:
        try:
            access.touch(self._unindexed / agent / name)
        except FileNotFoundError:
            access.make_directory(self._unindexed / agent)
            access.touch(self._unindexed / agent / name)

    def _set_aside(self, agent: str, path: Path) -> None:
        number = 1
        while (aside := path.with_name(f"{path.stem}~{number}{_SUFFIX}")).exists():
            number += 1
        path.rename(aside)
        self._mark(agent, aside.stem)
        self._mark(agent, path.stem)

    def _check_format(self) -> None:
        path = self.root / "format"
        try:
            fd = access.open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            text = path.read_text(encoding="utf-8", errors="replace").strip()
            if text.isdigit() and int(text) > FORMAT:
                raise StoreRefused(f"{self.root} was made by a newer acp-proxy. Upgrade acp-proxy.") from None
            return
        with os.fdopen(fd, "w") as file:
            file.write(f"{FORMAT}\n")

    def _asked(self, agent: str | None, question: Callable[[Index], T], *, update: bool = True) -> T:
        """Ask the index. One that cannot be trusted is made anew; where that fails too, one in memory serves.

        ``update``: bring in first what is marked, of one agent or (None) of all.
        """
        agents = ([agent] if agent is not None else self.agents()) if update else []
        try:
            try:
                return self._answer(self._opened_index(), agents, question)
            except sqlite3.DatabaseError as problem:
                self._close_index()
                if _is_passing(problem):
                    raise
                self._discard_index()
                return self._answer(self._opened_index(), agents, question)
        except (sqlite3.Error, OSError):
            self._close_index()
        try:
            index = Index(None)
            try:
                return self._answer(index, agents, question)
            finally:
                index.close()
        except (sqlite3.Error, OSError) as problem:
            raise Unreadable(errno_name(problem)) from problem

    def _answer(self, index: Index, agents: list[str], question: Callable[[Index], T]) -> T:
        if index.is_new:
            index.filled(lambda: self._fill(index))
        for agent in agents:
            self._bring_in_marked(index, agent)
        return question(index)

    def _opened_index(self) -> Index:
        """The connection, as long as it is to the file that others see."""
        path = self.root / "index.sqlite3"
        if self._index is not None:
            try:
                if os.stat(path).st_ino == self._index_inode:
                    return self._index
            except FileNotFoundError:
                pass
            self._close_index()
        os.close(access.open_private(path, os.O_RDWR | os.O_CREAT))  # SQLite gives its other files the same mode
        self._index = Index(path)
        self._index_inode = os.stat(path).st_ino
        return self._index

    def _close_index(self) -> None:
        if self._index is not None:
            self._index.close()
        self._index = None

    def _discard_index(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            (self.root / f"index.sqlite3{suffix}").unlink(missing_ok=True)

    def _fill(self, index: Index) -> None:
        for agent in self.agents():
            for entry in os.scandir(self._transcripts / agent):
                if entry.name.endswith(_SUFFIX) and entry.name != _JOURNAL:
                    self._bring_in(index, agent, entry.name.removesuffix(_SUFFIX))

    def _bring_in_marked(self, index: Index, agent: str) -> None:
        for name in [file_name(session) for session in self.deleted(agent)]:
            index.remove(agent, name)
        try:
            marked = [entry.name for entry in os.scandir(self._unindexed / agent)]
        except FileNotFoundError:
            return
        for name in marked:
            self._bring_in(index, agent, name)

    def _bring_in(self, index: Index, agent: str, name: str) -> None:
        """One transcript. Its mark goes once the index has all of it, and nothing of it is under way."""
        mark = self._unindexed / agent / name
        try:
            reading = Reading(self._transcripts / agent / (name + _SUFFIX))
        except FileNotFoundError:
            index.remove(agent, name)
            mark.unlink(missing_ok=True)
            return
        except (OSError, NewerFormat):
            return  # it stays marked; what can be read is served
        try:
            finished = index.add(agent, name, reading) or reading.age(time.time()) > _UNFINISHED_SECONDS
            if finished and index.lasts:
                mark.unlink(missing_ok=True)
                size = reading.size
                reading.measure()
                if reading.size != size:
                    self._mark(agent, name)
        finally:
            reading.close()


def errno_name(problem: BaseException) -> str:
    """The name of what went wrong, without the system's words or a path."""
    if isinstance(problem, NewerFormat):
        return "ENOTSUP"
    number = problem.errno if isinstance(problem, OSError) else None
    return errno.errorcode.get(number or errno.EIO, "EIO")


def _is_passing(problem: sqlite3.DatabaseError) -> bool:
    """Whether the index is only in use, or the disk full: nothing that making it anew would mend."""
    return isinstance(problem, sqlite3.OperationalError)


def _now() -> str:
    return clock.stamp(time.time())
