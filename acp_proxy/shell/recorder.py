"""Puts entries away without ever holding up the relay.

``add`` is called under the core's lock and fixes the order; ``flush`` brings what was added to the kernel, one write
per run of lines of one session, by whichever thread comes first. Trouble with the store suspends the recording of a
session, with one warning for all; when it can be written to again, its transcript goes on with a note of the gap.
For a store that hangs nothing waits (``Gate``); what is said meanwhile is kept in memory (``Backlog``).
"""

import contextlib
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable
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
from acp_proxy.shell.backlog import Backlog, Dropped, Timed
from acp_proxy.shell.files import Files, Known
from acp_proxy.shell.gate import PATIENCE_SECONDS, STALL_SECONDS, Gate, Stalled
from acp_proxy.shell.long_lines import LongLines
from acp_proxy.transcripts.names import command_name
from acp_proxy.transcripts.opening import Deleted
from acp_proxy.transcripts.store import Store
from acp_proxy.wire import clock, jsonrpc, record
from acp_proxy.wire.record import Header
from acp_proxy.wire.value import Value

_RETRY_SECONDS = 1.0  # a store in trouble is tried again this often
_NAME_LENGTH = 500  # of names and versions: nobody reads more

_LINES = (Keep, KeepUpdates, KeepNote)

T = TypeVar("T")


class _Gap(Value, frozen=False):
    since: str
    reason: str
    retry_at: float


class Recorder:
    def __init__(
        self,
        store: Store,
        command: list[str],
        agent: str | None,
        fsync: str,
        warn: Callable[[str], None],
        mask: Callable[[bytes], bytes] | None = None,
        *,
        deletes_softly: bool = False,
    ) -> None:
        """``agent``: the user's own name for the agent, if there is one. ``fsync``: turn, always or never.

        ``mask``: takes whole entries, and returns them as they may be written down. ``deletes_softly``: what is deleted
        can be restored.
        """
        self.store = store
        self.fsync = fsync
        self.run = _run_id()
        self.agent = ""
        self.on_turn_end: Callable[[str], None] = lambda session: None
        self._command = command_name(command)
        self._given = agent
        self._told: dict[str, object] = {}
        self._warn = warn
        self._mask = mask
        self._deletes_softly = deletes_softly
        self._warned = False
        self._backlog = Backlog()
        self.gate = Gate(self._backlog)
        self._sessions: dict[str, Known] = {}
        self._files = Files(store, self._warn_once)
        self._gaps: dict[str, _Gap] = {}
        self._long_lines = LongLines(self._files, holds=mask is not None)
        self._unmarked: set[str] = set()

    # --- under the core's lock

    def add(self, effect: Recording) -> None:
        self._backlog.pending.append((time.time(), effect))

    # --- by any thread

    @property
    def is_recording(self) -> bool:
        return not self._gaps and not self.gate.is_stalled

    def flush(self) -> None:
        """What was added before is with the kernel when this returns, or it never will be."""
        if not (self._backlog.holds_any or self._gaps or self.gate.is_taken):
            return
        try:
            self.gate.enter()
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
        self.gate.enter(patience)
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
        self.gate.enter(PATIENCE_SECONDS)
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
                self._files.close(known)
            try:
                self.store.delete(self.agent, session, soft=self._deletes_softly)
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
        """Nothing waits for the store from now on (``Gate.stall``)."""
        if self.gate.stall(since, go_on):
            self._say("it does not answer")

    # --- inside

    def _leave(self) -> None:
        try:
            while self._backlog.late:  # while this thread hung
                self.gate.busy_since = time.monotonic()
                self._drain()
        finally:
            self.gate.leave()
        if self._backlog.late:  # just now, by who found the store taken
            self.flush()

    def _drain(self) -> None:
        batch = self._backlog.taken()
        if len(batch) > 1 or (batch and not self._is_written(*batch[0])):
            self._put_away(batch)

    def _is_written(self, seconds: float, effect: Recording | Dropped) -> bool:
        """Updates of a session that is well, alone: what there is to write nearly always. False for all else."""
        if not isinstance(effect, KeepUpdates) or self._gaps or self._long_lines or self._unmarked or self._mask:
            return False
        known = self._sessions.get(effect.session)
        if known is None or known.gone or known.transcript is None or self.fsync == "always":
            return False
        at = clock.stamp(seconds)
        try:
            known.transcript.append(record.encode_updates(at, self.run, effect.data))
        except OSError as problem:
            self._failed(known, at, problem)
        return True

    def _put_away(self, batch: deque[Timed]) -> None:
        at, session, data = "", "", list[bytes]()
        while batch:
            self.gate.busy_since = math.inf  # much to do is no store that hangs
            seconds, effect = batch.popleft()
            if self._long_lines and (line := self._long_lines.before(effect)) is not None:
                batch.extendleft(self._long_lines.wait(line, seconds, effect)[::-1])
                continue
            at = clock.stamp(seconds)
            if not isinstance(effect, _LINES) or effect.session != session:
                self._append(session, data, at)
                data = []
            match effect:
                case Keep(session, peer, raw, of):
                    plain = jsonrpc.is_plain(raw)
                    data.append(record.encode_message(at, self.run, peer, raw, of, plain=plain))
                case KeepUpdates(session, lines):
                    data.append(record.encode_updates(at, self.run, lines))
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
        self.gate.busy_since = time.monotonic()
        for turn in list(self._unmarked):  # another process may have taken our mark away before the prompt was there
            with contextlib.suppress(OSError):
                known = self._sessions.get(turn)
                self.store.mark(self.agent, turn, known.transcript if known is not None else None)
                self._unmarked.discard(turn)

    def _identify(self, told: Identify) -> None:
        self.gate.busy_since = time.monotonic()
        self._told = {"name": _short(told.name), "version": _short(told.version)}
        self.agent = self.store.choose_agent(self._given, told.name, self._command)

    def _begin(self, begin: Begin, at: str) -> None:
        known = self._sessions.get(begin.session)
        fresh = begin.origin == record.RECORDED
        if known is not None and not known.gone and not fresh:
            return
        if known is not None:
            self._files.close(known)
        header = Header(begin.session, begin.cwd, begin.origin, at, begin.directories, {"id": self.agent, **self._told})
        self._sessions[begin.session] = Known(self.agent, header, fresh, begin.parent)
        gap = self._gaps.get(begin.session)
        # Of an older session; a later one is this session's own, and so is one from before it was forgotten.
        if gap is not None and gap.since < at and (fresh or known is not None):
            del self._gaps[begin.session]

        def open(known: Known) -> None:
            is_late = begin.origin == record.PARTIAL and begin.parent is None
            if is_late and begin.session in self.store.deleted(self.agent):
                known.gone = True  # what it says late is not recorded before its next prompt
            else:
                self._files.transcript(known)

        self._attempt(begin.session, at, open)

    def _forget(self, session: str, at: str) -> None:
        known = self._sessions.get(session)
        if known is not None:
            if session in self._gaps:
                self._attempt(session, at, partial(self._note_gap, at=at))
            self._files.close(known)
            del self._sessions[session]

    def _begin_turn(self, session: str, at: str) -> None:
        """Before a prompt: the file must still have its name, and the index is told that it has not seen all."""

        def check(known: Known) -> None:
            self.store.lift(self.agent, session)
            if known.gone or (known.exists and not self._files.has_its_name(known)):
                self._files.close(known)
                known.gone = known.exists = False
                known.header = known.header.but(origin=record.PARTIAL, created_at=at)
            transcript = self._files.transcript(known)
            self._unmarked.add(session)
            with contextlib.suppress(OSError):  # it is tried again behind what it is about; that can be kept without
                self.store.mark(self.agent, session, transcript)

        self._attempt(session, at, check)

    def _append(self, session: str, data: list[bytes], at: str) -> None:
        if data:
            self._attempt(session, at, lambda known: self._write(known, b"".join(data), at))

    def _write(self, known: Known, data: bytes, at: str) -> None:
        if known.gone:
            return
        if self._gaps:
            self._note_gap(known, at)
        transcript = self._files.transcript(known)
        transcript.append(data if self._mask is None else self._masked(data))
        if self.fsync == "always":
            transcript.sync()

    def _piece(self, piece: KeepPiece, at: str) -> list[Timed]:
        """Write a piece of a long line; what waited for its end is returned."""
        session = piece.session
        data = record.encode_piece(at, self.run, piece.peer, piece.data, first=piece.first, last=piece.last)

        def write(known: Known) -> None:
            is_whole = piece.first or (session in self._long_lines and session not in self._gaps)
            if is_whole and not known.gone:
                self._long_lines.put(known, piece, data, lambda lines: self._write(known, lines, at))

        self._attempt(session, at, write)
        return self._long_lines.ended(session) if piece.last or session in self._gaps else []

    def _note_gaps(self) -> None:
        """Say in the transcripts what they lack, as soon as that is possible: nothing else may ever come to them."""
        for session in list(self._gaps):
            self.gate.busy_since = time.monotonic()
            known = self._sessions.get(session)
            if known is not None and known.gone:
                del self._gaps[session]
            elif session not in self._long_lines:  # what is left of that comes to its end first
                at = clock.stamp(time.time())
                self._attempt(session, at, partial(self._note_gap, at=at))

    def _note_gap(self, known: Known, at: str) -> None:
        session = known.header.session
        gap = self._gaps.get(session)
        if gap is not None:
            note = {"type": record.GAP, "since": gap.since, "reason": gap.reason}
            self._files.transcript(known).append(record.encode_note(at, self.run, note))
            del self._gaps[session]
            self._unmarked.add(session)

    def _masked(self, data: bytes) -> bytes:
        """What may be written down of these entries. It takes as long as it takes: no trouble with the store."""
        assert self._mask is not None
        self.gate.busy_since = math.inf
        try:
            return self._mask(data)
        finally:
            self.gate.busy_since = time.monotonic()

    def _attempt(self, session: str, at: str, action: Callable[[Known], object]) -> None:
        """Trouble with the store suspends this session; it is tried again a little later."""
        known = self._sessions.get(session)
        gap = self._gaps.get(session)
        now = self.gate.busy_since = time.monotonic()
        if known is None or (gap is not None and now < gap.retry_at):
            return
        try:
            action(known)
        except OSError as problem:
            self._failed(known, at, problem)

    def _failed(self, known: Known, at: str, problem: OSError) -> None:
        self._files.close(known)
        if isinstance(problem, Deleted):
            known.gone = True  # not recorded until the next prompt
            return
        gap = self._gaps.setdefault(known.header.session, _Gap(at, errno_name(problem), 0.0))
        gap.retry_at = time.monotonic() + _RETRY_SECONDS
        self._say(errno_name(problem))

    def _say(self, what: str) -> None:
        self._warn_once(f"recording is suspended: {self.store.root}: {what}. The conversation goes on without it.")

    def _warn_once(self, text: str) -> None:
        if not self._warned:
            self._warned = True
            self._warn(text)


def _short(text: str | None) -> str | None:
    """What an agent says of itself stands in every header."""
    return text[:_NAME_LENGTH] if text is not None else None


def _run_id() -> str:
    """Six letters and digits that name one connection."""
    letters = "0123456789abcdefghijklmnopqrstuvwxyz"
    return "".join(letters[byte % len(letters)] for byte in os.urandom(6))
