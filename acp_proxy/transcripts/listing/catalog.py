"""The index as others meet it: brought up to date before it is asked, made anew when it cannot be trusted.

Only here is it decided which transcripts the index has to look at. One thread at a time; several processes at once.
"""

import errno
import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import TypeVar

from acp_proxy.errors import NewerFormat, Unreadable, errno_name
from acp_proxy.transcripts.files import access
from acp_proxy.transcripts.files.layout import Layout
from acp_proxy.transcripts.files.names import file_name
from acp_proxy.transcripts.files.reading import Reading
from acp_proxy.transcripts.listing import noticing
from acp_proxy.transcripts.listing.index import Index
from acp_proxy.transcripts.lives import deleting, forks
from acp_proxy.wire.record import IMPORTED

_UNFINISHED_SECONDS = 24 * 60 * 60
"""For so long a turn without an answer may still get one from another process; its mark stays."""
_TELLING_SECONDS = 60
"""For so long an agent may be silent in what begins an imported transcript; nobody is told when that is over."""
_LEFT_ALONE_SECONDS = 5.0
"""An index that cannot be written to is not tried at every turn's end, each for seconds: marks tell it later."""
_TOGETHER_SECONDS = 0.1
"""An index is made in few transactions; each is a moment for whoever else writes to it."""
_IN_USE = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_PASSING = _IN_USE | frozenset(
    {
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
    }
)
"""In use, or no room for it: nothing that making it anew would mend."""

Progress = Callable[[int, int], None]
"""Told how many transcripts have been read, and how many there are to read."""

Filling = Callable[[], AbstractContextManager[Progress]]
"""Around the making of an index anew; it is told how many of the transcripts are in it, and of how many."""

T = TypeVar("T")


class Catalog:
    def __init__(self, layout: Layout, filling: Filling) -> None:
        self._layout = layout
        self._filling = filling
        self._index: Index | None = None
        self._inode = 0
        self._told_again_at = 0.0
        self._gone: dict[str, tuple[frozenset[str], list[str]]] = {}

    def ask(self, question: Callable[[Index], T], *agents: str) -> T:
        """Ask the index, once it has seen what is new of these agents. Raises Unreadable.

        One that cannot be trusted is made anew; where that fails too, one in memory serves. Where others write to it
        for too long, that one begins with what they have: reading all transcripts would only keep everybody busier.
        """
        in_use = False
        try:
            return self._ask_the_lasting(question, agents)
        except (sqlite3.Error, OSError) as problem:
            self._close()
            in_use = _code(problem) in _IN_USE
        try:
            index = Index(None)
            try:
                if in_use:
                    index.take_over(self._layout.index)
                return self._answer(index, agents, question)
            finally:
                index.close()
        except (sqlite3.Error, OSError) as problem:
            raise Unreadable(errno_name(problem)) from problem

    def tell(self, news: Callable[[Index], None], *, can_wait: bool = False) -> None:
        """Change the index; one in memory would forget it. Raises Unreadable.

        ``can_wait``: after it could not be told, it is left alone for a while.
        """
        if can_wait and time.monotonic() < self._told_again_at:
            raise Unreadable("EBUSY")
        try:
            self._ask_the_lasting(news, ())
        except (sqlite3.Error, OSError) as problem:
            self._close()
            self._told_again_at = time.monotonic() + _LEFT_ALONE_SECONDS
            raise Unreadable(errno_name(problem)) from problem

    def bring_in(self, index: Index, agent: str, *names: str) -> None:
        """Transcripts. A mark goes once the index has all of its transcript, and nothing of that is under way."""
        if gone := [name for name in names if not self._brought_in(index, agent, name)]:
            self._forget(index, agent, gone)  # together: each time takes as long as the index is large

    def _brought_in(self, index: Index, agent: str, name: str) -> bool:
        """False: there is no such transcript any more."""
        try:
            forks.take_up(self._layout, agent, name)
            reading = Reading(self._layout.transcript(agent, name))
        except FileNotFoundError:
            return False
        except (OSError, NewerFormat):
            return True  # it stays marked; what can be read is served
        try:
            with index.together():  # who takes it away from here on takes its row away behind this
                finished = index.add(agent, name, reading) and not _is_being_told(reading)
                finished = finished or reading.age(time.time()) > _UNFINISHED_SECONDS
                if not self._layout.exists(agent, name):
                    raise FileNotFoundError(errno.ENOENT, "it was taken away", name)
            if finished and index.lasts:
                self._layout.unmark(agent, name, lambda: _is_another(reading))
        except FileNotFoundError:
            return False
        except OSError:
            pass  # it stays marked, as above
        finally:
            reading.close()
        return True

    def forget(self, agent: str, names: list[str]) -> None:
        """Take deleted transcripts out of the index; where that cannot be, their marks stay. Raises Unreadable."""
        self.tell(lambda index: self._forget(index, agent, names))

    def _forget(self, index: Index, agent: str, names: list[str]) -> None:
        index.remove(agent, *names)
        if not index.lasts:
            return
        gone = [name for name in names if self._layout.forget_words(name)]
        if index.clear_log():
            for name in gone:  # what has a transcript again by now was marked for that
                self._layout.unmark(agent, name, partial(self._layout.exists, agent, name))

    def _ask_the_lasting(self, question: Callable[[Index], T], agents: tuple[str, ...]) -> T:
        try:
            return self._answer(self._opened(), agents, question)
        except sqlite3.DatabaseError as problem:
            self._close()
            if is_passing(problem):
                raise
            self._layout.discard_index()
            return self._answer(self._opened(), agents, question)

    def renew(self, agent: str, names: list[str]) -> None:
        """Transcripts that have changed where they had been read already. Raises OSError, Unreadable."""
        for name in names:  # so that they are found again, whatever happens to us
            self._layout.mark(agent, name)
            self._layout.forget_words(name)

        def remove(index: Index) -> None:
            if index.remove(agent, *names):
                index.clear_log()

        self.tell(remove)
        self.ask(lambda index: None, agent)

    def packed(self, agent: str, name: str, inodes: tuple[int, int]) -> None:
        """A transcript is the same in another file: it need not be read again. Raises OSError, Unreadable."""
        moved: list[bool] = []
        self.tell(lambda index: moved.append(index.move(agent, name, *inodes)))
        if moved[-1]:
            path = self._layout.transcript(agent, name)
            self._layout.unmark(agent, name, lambda: os.path.lexists(path))  # somebody goes on with it

    def rebuild(self) -> None:
        """Make it anew from all transcripts. Raises OSError, Unreadable."""
        self._close()
        self._layout.discard_index()
        self.ask(lambda index: None)

    def _answer(self, index: Index, agents: tuple[str, ...], question: Callable[[Index], T]) -> T:
        if index.is_new:
            self._fill(index)
        for agent in agents:
            deleted = self._deleted(agent)
            self._catch_up(index, agent)
            if index.remove(agent, *deleted) and index.lasts:
                index.clear_log()
        return question(index)

    def _catch_up(self, index: Index, agent: str) -> None:
        """What is marked of an agent's transcripts, and what has come into its folder, or left it, without a mark."""
        if index.lasts:
            self._layout.give_marks_back(agent)
        changes = noticing.look(self._layout, index, agent)
        marked = self._layout.marked(agent)
        self.bring_in(index, agent, *marked, *changes.gone)
        unmarked = set(changes.come).difference(marked)  # who writes to the index twice keeps others from it
        self._take_in(index, [(agent, name) for name in changes.come if name in unmarked])
        changes.remember(index)

    def _fill(self, index: Index) -> None:
        self._take_in(index, self._layout.all_names())
        index.is_filled()

    def _take_in(self, index: Index, transcripts: list[tuple[str, str]]) -> None:
        """Many of them, in few transactions."""
        left, total = deque(transcripts), len(transcripts)
        with self._filling() as progress:
            while left:
                progress(total - len(left), total)
                until = time.monotonic() + _TOGETHER_SECONDS
                with index.together():
                    while left and time.monotonic() < until:
                        self.bring_in(index, *left.popleft())

    def _deleted(self, agent: str) -> list[str]:
        """The names of an agent's deleted sessions, whose transcripts are gone when this returns."""
        sessions = self._layout.journal(agent).deleted()
        known = self._gone.get(agent)
        if known is None or known[0] is not sessions:
            names = [file_name(session) for session in sessions]
            if not self._is_finished(agent):
                return names
            known = self._gone[agent] = sessions, names
        return known[1]

    def _is_finished(self, agent: str) -> bool:
        """Finish deletes that a crash has cut short; False where they have to be looked at again."""
        if not deleting.unfinished(self._layout, agent):
            return True
        if self._layout.is_only_read:
            return False
        try:
            with self._layout.journal(agent).alone(wait=False):
                for session in deleting.unfinished(self._layout, agent):
                    deleting.finish(self._layout, agent, session)
        except OSError:  # one is being deleted or lifted at this moment, or cannot be removed
            return False
        return True

    def _opened(self) -> Index:
        """The connection, as long as it is to the file that others see. A store that is only read has one in memory."""
        path = self._layout.index
        if self._layout.is_only_read:
            self._index = self._index or Index(None)
            return self._index
        if self._index is not None:
            try:
                if os.stat(path).st_ino == self._inode:
                    return self._index
            except FileNotFoundError:
                pass
            self._close()
        if not self._layout.is_made:  # an index alone would be no store
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        with suppress(FileExistsError):  # SQLite gives its other files the same mode
            os.close(access.open_private(path, os.O_RDWR | os.O_CREAT | os.O_EXCL))
        access.check_database(path)
        self._index = Index(path)
        self._inode = os.stat(path).st_ino
        return self._index

    def _close(self) -> None:
        if self._index is not None:
            self._index.close()
        self._index = None


def _is_another(reading: Reading) -> bool:
    """Whether there is more of a transcript than was read, or another file by its name. Raises OSError."""
    size = reading.size
    reading.measure()
    return reading.size != size or not reading.is_in_its_place


def _is_being_told(reading: Reading) -> bool:
    is_imported = reading.header is not None and reading.header.origin == IMPORTED
    return is_imported and reading.age(time.time()) < _TELLING_SECONDS


def is_passing(problem: sqlite3.Error) -> bool:
    """Whether a database is only in use, or has no room: making it anew would not help."""
    return _code(problem) in _PASSING


def _code(problem: Exception) -> int:
    """SQLite's own number for what went wrong, without its details."""
    return int(getattr(problem, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) & 0xFF
