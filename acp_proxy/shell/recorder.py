"""Puts entries away without ever holding up the relay.

``add`` is called under the core's lock and fixes the order; ``flush`` brings what was added to the kernel, one write
per run of lines of one session, by whichever thread comes first. Trouble with the store suspends the recording of a
session, with one warning for all; when it can be written to again, its transcript goes on with a note of the gap.
A store that hangs is noticed after ``STALL_SECONDS``: from then on nothing waits for it until it comes back, and what
is said meanwhile is kept in memory (``Backlog``).
"""

import contextlib
import errno
import math
import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar, assert_never

from acp_proxy.core.effects import (
    Begin,
    BeginTurn,
    EndTurn,
    Forget,
    Identify,
    Keep,
    KeepNote,
    KeepPiece,
    KeepUpdates,
    Recording,
)
from acp_proxy.errors import errno_name
from acp_proxy.shell.backlog import PATIENCE_BYTES, Backlog, Dropped, Timed, size_of
from acp_proxy.transcripts.names import command_name
from acp_proxy.transcripts.store import Deleted, Store
from acp_proxy.transcripts.transcript import Transcript
from acp_proxy.wire import clock, jsonrpc, record
from acp_proxy.wire.jsonrpc import Peer
from acp_proxy.wire.record import Header
from acp_proxy.wire.value import Value

STALL_SECONDS = 0.75  # with the watch's own pace, a direction waits for less than a second
PATIENCE_SECONDS = 10.0  # an editor that opens or deletes a session rather waits than be refused
_RETRY_SECONDS = 1.0  # a store in trouble is tried again this often
_OPEN_FILES = 64
_NAME_LENGTH = 500  # of names and versions: nobody reads more

_LINES = (Keep, KeepUpdates, KeepNote)

T = TypeVar("T")


class Stalled(OSError):
    """The store does not answer in time."""

    def __init__(self) -> None:
        super().__init__(errno.ETIMEDOUT, "the store does not answer")


class _Gap(Value, frozen=False):
    since: str
    reason: str
    retry_at: float


@dataclass(slots=True)
class _LongLine:
    """One that is written in pieces. ``held``: all of them, where another process appends to the same file, or where
    secrets are masked, which may lie across two of them.

    ``behind``: what is kept of the session meanwhile, and its size.
    """

    session: str
    peer: Peer
    held: list[bytes] | None
    behind: list[Timed] = field(default_factory=list)
    behind_bytes: int = 0


class _Session(Value, frozen=False):
    """A session that is written down. ``exists``: its file was there once, and is never made again behind a delete.

    ``parent``: whose transcript its own begins with.
    """

    header: Header
    fresh: bool
    parent: str | None = None
    exists: bool = False
    identity: bytes = b""
    gone: bool = False
    transcript: Transcript | None = None


class Recorder:
    def __init__(
        self,
        store: Store,
        command: list[str],
        agent: str | None,
        fsync: str,
        warn: Callable[[str], None],
        mask: Callable[[bytes], bytes] | None = None,
    ) -> None:
        """``agent``: the user's own name for the agent, if there is one. ``fsync``: turn, always or never.

        ``mask``: takes whole entries, and returns them as they may be written down.
        """
        self.store = store
        self.fsync = fsync
        self.run = _run_id()
        self.agent = ""
        self.on_turn_end: Callable[[str], None] = lambda session: None
        self.busy_since: float | None = None
        self.busy_thread = 0
        self._command = command_name(command)
        self._given = agent
        self._told: dict[str, object] = {}
        self._warn = warn
        self._mask = mask
        self._warned = False
        self._backlog = Backlog()
        self._writing = threading.Lock()
        self._leaving = threading.Lock()
        self._sessions: dict[str, _Session] = {}
        self._open: OrderedDict[str, _Session] = OrderedDict()
        self._gaps: dict[str, _Gap] = {}
        self._long_lines: dict[str, _LongLine] = {}
        self._unmarked: set[str] = set()
        self._stalled = False

    # --- under the core's lock

    def add(self, effect: Recording) -> None:
        self._backlog.pending.append((clock.stamp(time.time()), effect))

    # --- by any thread

    @property
    def is_recording(self) -> bool:
        return not self._gaps and not self._stalled

    def flush(self) -> None:
        """What was added before is with the kernel when this returns, or it never will be."""
        if not (self._backlog.holds_any or self._gaps or self._writing.locked()):
            return
        try:
            self._enter()
        except Stalled:
            return
        try:
            self._drain()
            if self._gaps:
                self._note_gaps()
        finally:
            self._leave()

    def at_store(self, action: Callable[[], T], patience: float = STALL_SECONDS) -> T:
        """Do something with the store, behind all that was added. Raises Stalled, and what the action raises.

        ``patience``: seconds that a store may be busy, and get on.
        """
        self._enter(patience)
        try:
            self._drain()
            self._note_gaps()
            return action()
        finally:
            self._leave()

    def settled(self, lock: threading.Lock, look: Callable[[], None], action: Callable[[], T]) -> T:
        """Look at the files, and do something under the core's lock, when all that was decided is in them.

        Raises Stalled, and what ``look`` raises: only that may touch the store.
        """
        self._enter(PATIENCE_SECONDS)
        try:
            while True:
                self._drain()
                self._note_gaps()
                look()
                with lock:
                    if not self._backlog.pending:
                        return action()
        finally:
            self._leave()

    def delete(self, session: str) -> None:
        """Remove a transcript. Raises OSError."""

        def remove() -> None:
            known = self._sessions.get(session)
            if known is not None:
                self._close(known)
            try:
                self.store.delete(self.agent, session)
            except OSError as problem:
                if known is not None:  # what follows is not kept until its next prompt, as if it were deleted
                    self._gaps.setdefault(session, _Gap(clock.stamp(time.time()), errno_name(problem), 0.0))
                raise
            if known is not None:
                known.gone = True
            self._gaps.pop(session, None)

        self.at_store(remove, PATIENCE_SECONDS)

    def lacks(self, session: str) -> bool:
        """Whether something of it was not written, and its transcript does not say so."""
        return session in self._gaps

    def try_again(self) -> None:
        """The next flush tries everything that failed, however short a time ago: it is the last."""
        for gap in list(self._gaps.values()):
            gap.retry_at = 0.0

    def stall(self, since: float, go_on: Callable[[int], None]) -> None:
        """Nothing waits for the store from now on; the thread that hangs in it ends this when it comes back.

        ``since``: when it began what it hangs in. ``go_on`` is told which thread that is; it stays meanwhile.
        """
        with self._leaving:
            if self.busy_since != since:
                return
            self.busy_since = None
            self._stalled = True
            self._backlog.put_off()
            go_on(self.busy_thread)
        self._say("it does not answer")

    # --- inside

    def _enter(self, patience: float = STALL_SECONDS) -> None:
        """The store is ours until ``_leave``. Raises Stalled where another thread hangs in it."""
        is_free = self._writing.acquire(blocking=False)
        if not is_free and (self._stalled or not self._comes_free(patience)):
            self._backlog.put_off()
            if not self._writing.acquire(blocking=False):  # who has it looks once more when it lets go
                raise Stalled
        self.busy_thread = threading.get_ident()
        self.busy_since = time.monotonic()

    def _comes_free(self, patience: float) -> bool:
        """Wait for the store; for longer than a moment only while who has it gets on."""
        until = time.monotonic() + patience
        while True:
            since = self.busy_since
            if self._writing.acquire(timeout=STALL_SECONDS):
                return True
            hangs = self._stalled or (self.busy_since == since and since != math.inf)
            if hangs or time.monotonic() >= until:
                return False

    def _leave(self) -> None:
        try:
            while self._backlog.late:  # while this thread hung
                self.busy_since = time.monotonic()
                self._drain()
        finally:
            with self._leaving:
                self.busy_since = None
                self._stalled = False
            self._writing.release()
        if self._backlog.late:  # just now, by who found the store taken
            self.flush()

    def _drain(self) -> None:
        batch = self._backlog.taken()
        if len(batch) > 1 or (batch and not self._is_written(*batch[0])):
            self._put_away(batch)

    def _is_written(self, at: str, effect: Recording | Dropped) -> bool:
        """Updates of a session that is well, alone: what there is to write nearly always. False for all else."""
        if not isinstance(effect, KeepUpdates) or self._gaps or self._long_lines or self._unmarked or self._mask:
            return False
        known = self._sessions.get(effect.session)
        if known is None or known.gone or known.transcript is None or self.fsync == "always":
            return False
        data = record.encode_messages(at, self.run, Peer.AGENT, effect.data)
        try:
            known.transcript.append(data)
        except OSError as problem:
            self._failed(known, at, problem)
        return True

    def _put_away(self, batch: deque[Timed]) -> None:
        at, session, data = "", "", list[bytes]()
        while batch:
            self.busy_since = math.inf  # much to do is no store that hangs
            at, effect = batch.popleft()
            if self._long_lines and (line := self._line_before(effect)) is not None:
                batch.extendleft(self._wait(line, at, effect)[::-1])
                continue
            if not isinstance(effect, _LINES) or effect.session != session:
                self._append(session, data, at)
                data = []
            match effect:
                case Keep(session, peer, raw, of):
                    plain = jsonrpc.is_plain(raw)
                    data.append(record.encode_message(at, self.run, peer, raw, of, plain=plain))
                case KeepUpdates(session, lines):
                    data.append(record.encode_messages(at, self.run, Peer.AGENT, lines))
                case KeepPiece():
                    batch.extendleft(self._piece(effect, at)[::-1])
                case KeepNote(session, note):
                    data.append(record.encode_note(at, self.run, note))
                case Identify():
                    self._identify(effect)
                case Begin():
                    self._begin(effect, at)
                case BeginTurn():
                    self._begin_turn(effect.session, at)
                case EndTurn():
                    self.on_turn_end(effect.session)
                case Dropped():
                    self._gaps.setdefault(effect.session, _Gap(at, "ETIMEDOUT", 0.0))
                case Forget():
                    self._forget(effect.session, at)
                case _:
                    assert_never(effect)
        self._append(session, data, at)
        self.busy_since = time.monotonic()
        for turn in list(self._unmarked):  # another process may have taken our mark away before the prompt was there
            with contextlib.suppress(OSError):
                known = self._sessions.get(turn)
                self.store.mark(self.agent, turn, known.transcript if known is not None else None)
                self._unmarked.discard(turn)

    def _identify(self, told: Identify) -> None:
        self.busy_since = time.monotonic()
        self._told = {"name": _short(told.name), "version": _short(told.version)}
        self.agent = self.store.choose_agent(self._given, told.name, self._command)

    def _begin(self, begin: Begin, at: str) -> None:
        known = self._sessions.get(begin.session)
        fresh = begin.origin == record.RECORDED
        if known is not None and not known.gone and not fresh:
            return
        if known is not None:
            self._close(known)
        header = Header(begin.session, begin.cwd, begin.origin, at, begin.directories, {"id": self.agent, **self._told})
        self._sessions[begin.session] = _Session(header, fresh, begin.parent)
        gap = self._gaps.get(begin.session)
        # Of an older session; a later one is this session's own, and so is one from before it was forgotten.
        if gap is not None and gap.since < at and (fresh or known is not None):
            del self._gaps[begin.session]

        def open(known: _Session) -> None:
            is_late = begin.origin == record.PARTIAL and begin.parent is None
            if is_late and begin.session in self.store.deleted(self.agent):
                known.gone = True  # what it says late is not recorded before its next prompt
            else:
                self._transcript(known)

        self._attempt(begin.session, at, open)

    def _forget(self, session: str, at: str) -> None:
        known = self._sessions.get(session)
        if known is not None:
            if session in self._gaps:
                self._attempt(session, at, partial(self._note_gap, at=at))
            self._close(known)
            del self._sessions[session]

    def _begin_turn(self, session: str, at: str) -> None:
        """Before a prompt: the file must still have its name, and the index is told that it has not seen all."""

        def check(known: _Session) -> None:
            self.store.lift(self.agent, session)
            if known.gone or (known.exists and not self._has_its_name(known)):
                self._close(known)
                known.gone = known.exists = False
                known.header = replace(known.header, origin=record.PARTIAL, created_at=at)
            transcript = self._transcript(known)
            self._unmarked.add(session)
            with contextlib.suppress(OSError):  # it is tried again behind what it is about; that can be kept without
                self.store.mark(self.agent, session, transcript)

        self._attempt(session, at, check)

    def _append(self, session: str, data: list[bytes], at: str) -> None:
        if data:
            self._attempt(session, at, lambda known: self._write(known, b"".join(data), at))

    def _write(self, known: _Session, data: bytes, at: str) -> None:
        if known.gone:
            return
        if self._gaps:
            self._note_gap(known, at)
        transcript = self._transcript(known)
        transcript.append(data if self._mask is None else self._masked(data))
        if self.fsync == "always":
            transcript.sync()

    def _line_before(self, effect: Recording | Dropped) -> _LongLine | None:
        """The long line of its session whose end this waits for."""
        if isinstance(effect, Identify | Dropped) or (line := self._long_lines.get(effect.session)) is None:
            return None
        return None if isinstance(effect, KeepPiece) and effect.peer is line.peer else line

    def _wait(self, line: _LongLine, at: str, effect: Recording | Dropped) -> list[Timed]:
        """Behind a long line; if too much waits there, the line is given up, and what waited is returned."""
        line.behind.append((at, effect))
        line.behind_bytes += size_of(effect)
        if line.behind_bytes <= PATIENCE_BYTES:
            return []
        del self._long_lines[line.session]
        return [(at, Dropped(line.session)), *line.behind]

    def _piece(self, piece: KeepPiece, at: str) -> list[Timed]:
        """Write a piece of a long line; what waited for its end is returned."""
        session = piece.session

        def write(known: _Session) -> None:
            line = self._long_lines.get(session)
            if known.gone or (not piece.first and (line is None or session in self._gaps)):
                return
            if line is None:
                self._write(known, b"", at)  # the note of a gap goes before it
                held = None if self._mask is None and self._transcript(known).claim() else list[bytes]()
                line = self._long_lines[session] = _LongLine(session, piece.peer, held)
            data = record.encode_piece(at, self.run, piece.peer, piece.data, first=piece.first, last=piece.last)
            if line.held is None:
                self._transcript(known).append_piece(data, last=piece.last)
            else:
                line.held.append(data)
                if piece.last:
                    self._write(known, b"".join(line.held), at)

        self._attempt(session, at, write)
        if session in self._long_lines and (piece.last or session in self._gaps):
            return self._long_lines.pop(session).behind
        return []

    def _note_gaps(self) -> None:
        """Say in the transcripts what they lack, as soon as that is possible: nothing else may ever come to them."""
        for session in list(self._gaps):
            self.busy_since = time.monotonic()
            known = self._sessions.get(session)
            if known is not None and known.gone:
                del self._gaps[session]
            elif session not in self._long_lines:  # what is left of that comes to its end first
                at = clock.stamp(time.time())
                self._attempt(session, at, partial(self._note_gap, at=at))

    def _note_gap(self, known: _Session, at: str) -> None:
        session = known.header.session
        gap = self._gaps.get(session)
        if gap is not None:
            note = {"type": record.GAP, "since": gap.since, "reason": gap.reason}
            self._transcript(known).append(record.encode_note(at, self.run, note))
            del self._gaps[session]
            self._unmarked.add(session)

    def _masked(self, data: bytes) -> bytes:
        """What may be written down of these entries. It takes as long as it takes: no trouble with the store."""
        assert self._mask is not None
        self.busy_since = math.inf
        try:
            return self._mask(data)
        finally:
            self.busy_since = time.monotonic()

    def _attempt(self, session: str, at: str, action: Callable[[_Session], object]) -> None:
        """Trouble with the store suspends this session; it is tried again a little later."""
        known = self._sessions.get(session)
        gap = self._gaps.get(session)
        now = self.busy_since = time.monotonic()
        if known is None or (gap is not None and now < gap.retry_at):
            return
        try:
            action(known)
        except OSError as problem:
            self._failed(known, at, problem)

    def _failed(self, known: _Session, at: str, problem: OSError) -> None:
        self._close(known)
        if isinstance(problem, Deleted):
            known.gone = True  # not recorded until the next prompt
            return
        gap = self._gaps.setdefault(known.header.session, _Gap(at, errno_name(problem), 0.0))
        gap.retry_at = time.monotonic() + _RETRY_SECONDS
        self._say(errno_name(problem))

    def _transcript(self, known: _Session) -> Transcript:
        """The session's open file. Raises OSError."""
        if known.transcript is None:
            session = known.header.session
            if known.exists:
                known.transcript = self.store.reopen(self.agent, session, known.identity)
            else:
                if not self.store.is_there:
                    self._warn_once(f"{self.store.root} was removed, and all that was kept there. It is made again.")
                known.transcript = self.store.begin(self.agent, known.header, fresh=known.fresh, parent=known.parent)
                known.identity = known.transcript.identity
                known.exists, known.fresh, known.parent = True, False, None  # what begins again is no copy
            self._open[session] = known
            while len(self._open) > _OPEN_FILES:
                self._close(next(known for name, known in self._open.items() if name not in self._long_lines))
        return known.transcript

    def _has_its_name(self, known: _Session) -> bool:
        """Whether readers still find its file, perhaps set aside: its id was given to a session of another window."""
        try:
            if not self._transcript(known).has_its_name():
                self._close(known)
                self._transcript(known)
        except FileNotFoundError:
            return False
        return True

    def _say(self, what: str) -> None:
        self._warn_once(f"recording is suspended: {self.store.root}: {what}. The conversation goes on without it.")

    def _warn_once(self, text: str) -> None:
        if not self._warned:
            self._warned = True
            self._warn(text)

    def _close(self, known: _Session) -> None:
        if known.transcript is not None:
            self._open.pop(known.header.session, None)
            known.transcript.close()
            known.transcript = None


def _short(text: str | None) -> str | None:
    """What an agent says of itself stands in every header."""
    return text[:_NAME_LENGTH] if text is not None else None


def _run_id() -> str:
    """Six letters and digits that name one connection."""
    letters = "0123456789abcdefghijklmnopqrstuvwxyz"
    return "".join(letters[byte % len(letters)] for byte in os.urandom(6))
