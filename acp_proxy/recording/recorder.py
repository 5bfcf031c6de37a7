"""Puts entries away without ever holding up the relay.

``add`` is called under the core's lock and fixes the order; ``flush`` brings what was added to the kernel, one write
per run of lines of one session, by whichever thread comes first. Trouble with the store suspends a session
(``RecordedSessions``). For a store that hangs nothing waits (``Gate``); what is said meanwhile is kept in memory
(``Backlog``).
"""

import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TypeVar, assert_never

from acp_proxy.agent_command import command_name, may_run_others
from acp_proxy.core.effects import (
    BeginTranscript,
    BeginTurn,
    EndTurn,
    ForgetSession,
    IdentifyAgent,
    Recording,
    RecordLine,
    RecordNote,
    RecordPiece,
    RecordUpdates,
)
from acp_proxy.recording.backlog import Backlog, Dropped, Timed
from acp_proxy.recording.files import Known
from acp_proxy.recording.gate import PATIENCE_SECONDS, STALL_SECONDS, Gate, Stalled
from acp_proxy.recording.long_lines import LongLines
from acp_proxy.recording.recorded import RecordedSessions
from acp_proxy.transcripts.store import Store, Unfinished
from acp_proxy.wire import clock, jsonrpc, record

_NAME_LENGTH = 500  # of names and versions: nobody reads more

_LINES = (RecordLine, RecordUpdates, RecordNote)

T = TypeVar("T")


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
        self._command, self._may_run_others = command_name(command), may_run_others(command)
        self._given = agent
        self._told: dict[str, object] = {}
        self._mask = mask
        self._deletes_softly = deletes_softly
        self._backlog = Backlog()
        self.gate = Gate(self._backlog)
        self._sessions = RecordedSessions(store, self.gate, self.run, warn)
        self._gaps, self._unmarked = self._sessions.gaps, self._sessions.unmarked  # every update looks at them
        self._long_lines = LongLines(self._sessions.files, holds=mask is not None)

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
                self._sessions.note_gaps(self._long_lines)
        finally:
            self._leave()

    def at_store(self, action: Callable[[], T], patience: float = STALL_SECONDS) -> T:
        """Do something with the store, behind all that was added. Raises Stalled, and what the action raises.

        ``patience``: seconds that a store may be busy, and get on. What wants a fork that is being copied is done when
        that is whole; nobody else waits for it.
        """
        until = time.monotonic() + patience
        while True:
            self.gate.enter(patience)
            try:
                self._drain()
                self._sessions.note_gaps(self._long_lines)
                return action()
            except Unfinished as fork:
                path = fork.path
            finally:
                self._leave()
            self._sessions.files.copies.wait(path, until - time.monotonic())

    def settled(self, lock: threading.Lock, look: Callable[[], None], action: Callable[[], T]) -> T:
        """Look at the files, and do something under the core's lock, when all that was decided is in them.

        Raises Stalled, and what ``look`` raises: only that may touch the store.
        """
        self.gate.enter(PATIENCE_SECONDS)
        try:
            while True:
                self._drain()
                self._sessions.note_gaps(self._long_lines)
                look()
                with lock:
                    if not self._backlog.pending:
                        return action()
        finally:
            self._leave()

    def delete(self, session: str) -> None:
        """Remove a transcript. Raises OSError."""
        self.at_store(lambda: self._sessions.delete(self.agent, session, soft=self._deletes_softly), PATIENCE_SECONDS)

    def lacks(self, session: str) -> bool:
        """Whether something of it was not written, and its transcript does not say so."""
        return session in self._gaps

    def try_again(self) -> None:
        """The next flush tries everything that failed, however short a time ago: it is the last."""
        self._sessions.try_again()

    def stall(self, since: float, go_on: Callable[[int], None]) -> None:
        """Nothing waits for the store from now on (``Gate.stall``)."""
        if self.gate.stall(since, go_on):
            self._sessions.warn_suspended("it does not answer")

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
        if not isinstance(effect, RecordUpdates) or self._gaps or self._long_lines or self._unmarked or self._mask:
            return False
        known = self._sessions.get(effect.session)
        if known is None or known.gone or known.transcript is None or self.fsync == "always":
            return False
        at = clock.stamp(seconds)
        try:
            known.transcript.append(record.encode_updates(at, self.run, effect.data))
        except OSError as problem:
            self._sessions.failed(known, at, problem)
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
                case RecordLine(session, peer, raw, of):
                    plain = jsonrpc.is_plain(raw)
                    data.append(record.encode_message(at, self.run, peer, raw, of, plain=plain))
                case RecordUpdates(session, lines):
                    data.append(record.encode_updates(at, self.run, lines))
                case RecordPiece():
                    batch.extendleft(self._piece(effect, at)[::-1])
                case RecordNote(session, note):
                    data.append(record.encode_note(at, self.run, note))
                case IdentifyAgent():
                    self._identify(effect)
                case BeginTranscript():
                    self._sessions.begin(effect, self.agent, self._told, at)
                case BeginTurn():
                    self._sessions.begin_turn(effect.session, at)
                case EndTurn():
                    self.on_turn_end(effect.session)
                case Dropped():
                    self._sessions.lose(effect.session, at, "ETIMEDOUT")
                case ForgetSession():
                    self._sessions.forget(effect.session, at)
                case _:
                    assert_never(effect)
        self._append(session, data, at)
        self.gate.busy_since = time.monotonic()
        if self._unmarked:
            self._sessions.mark(self.agent)

    def _identify(self, told: IdentifyAgent) -> None:
        self.gate.busy_since = time.monotonic()
        self._told = {"name": _short(told.name), "version": _short(told.version)}
        self.agent = self.store.choose_agent(self._given, told.name, self._command, may_run_others=self._may_run_others)

    def _append(self, session: str, data: list[bytes], at: str) -> None:
        if data:
            self._sessions.attempt(session, at, lambda known: self._write(known, b"".join(data), at))

    def _write(self, known: Known, data: bytes, at: str) -> None:
        if known.gone:
            return
        transcript = self._sessions.transcript(known, at)
        transcript.append(data if self._mask is None else self._masked(data))
        if self.fsync == "always":
            transcript.sync()

    def _piece(self, piece: RecordPiece, at: str) -> list[Timed]:
        """Write a piece of a long line; what waited for its end is returned."""
        session = piece.session
        data = record.encode_piece(at, self.run, piece.peer, piece.data, first=piece.first, last=piece.last)

        def write(known: Known) -> None:
            is_whole = piece.first or (session in self._long_lines and session not in self._gaps)
            if is_whole and not known.gone:
                self._long_lines.put(known, piece, data, lambda lines: self._write(known, lines, at))

        self._sessions.attempt(session, at, write)
        return self._long_lines.ended(session) if piece.last or session in self._gaps else []

    def _masked(self, data: bytes) -> bytes:
        """What may be written down of these entries. It takes as long as it takes: no trouble with the store."""
        assert self._mask is not None
        self.gate.busy_since = math.inf
        try:
            return self._mask(data)
        finally:
            self.gate.busy_since = time.monotonic()


def _short(text: str | None) -> str | None:
    """What an agent says of itself stands in every header."""
    return text[:_NAME_LENGTH] if text is not None else None


def _run_id() -> str:
    """Six letters and digits that name one connection."""
    letters = "0123456789abcdefghijklmnopqrstuvwxyz"
    return "".join(letters[byte % len(letters)] for byte in os.urandom(6))
