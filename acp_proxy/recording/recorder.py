"""Writes entries to the store without ever delaying the relay.

``add`` is called under the core's lock and fixes the order. ``flush`` passes the added entries to the kernel, with one
write per run of lines of one session; the first thread that calls it does so. A failing store suspends the recording of
a session (``RecordedSessions``). Nothing waits for a store that hangs (``Gate``): entries are kept in memory
(``Backlog``).
"""

import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar, assert_never

from acp_proxy.errors import errno_name
from acp_proxy.protocol import jsonrpc, timestamps
from acp_proxy.proxy.effects import (
    BeginTranscript,
    BeginTurn,
    EndTurn,
    ForgetSession,
    IdentifyAgent,
    ProtocolVersion,
    Recording,
    RecordLine,
    RecordNote,
    RecordPiece,
    RecordUpdates,
)
from acp_proxy.recording.backlog import Backlog, Dropped, Timed
from acp_proxy.recording.files import RecordedSession
from acp_proxy.recording.gate import PATIENCE_SECONDS, STALL_SECONDS, Gate, Stalled
from acp_proxy.recording.long_lines import LongLines
from acp_proxy.recording.recorded_sessions import RecordedSessions
from acp_proxy.store.agents import command_name, may_run_others
from acp_proxy.store.store import ALL, Store
from acp_proxy.transcript import file_format

_NAME_LENGTH = 500  # characters of a name or version

_LINES = (RecordLine, RecordUpdates, RecordNote)

T = TypeVar("T")


class Recorder:
    """The recording of one connection."""

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
        also: Sequence[str] = (),
    ) -> None:
        """``command``: the agent's. ``agent``: the user's name for it, if any. ``fsync``: turn, always or never.

        ``mask``: takes whole entries and returns them with secrets masked. ``deletes_softly``: deletes can be undone.
        ``also``: names of agents whose sessions are listed too; ``all``: every agent's.
        """
        self.store = store
        self.fsync = fsync
        self.run = _run_id()
        self.on_turn_end: Callable[[str], None] = lambda session: None
        self._command, self._may_run_others = command_name(command), may_run_others(command)
        self._given = agent
        self._agent = ""
        self._identity: IdentifyAgent | None = None
        self._told: dict[str, object] = {}
        self._protocol = file_format.V1
        self.mask = mask
        self._deletes_softly = deletes_softly
        self._also = also
        self._backlog = Backlog()
        self.gate = Gate(self._backlog)
        self._sessions = RecordedSessions(store, self.gate, self.run, warn, lambda: self.agent)
        self._gaps, self._unmarked = self._sessions.gaps, self._sessions.unmarked  # every update looks at them
        self._long_lines = LongLines(self._sessions.files, holds=mask is not None)

    # --- under the core's lock

    def add(self, effect: Recording) -> None:
        """Add an entry. Call it only while holding the core's lock."""
        self._backlog.pending.append((time.time(), effect))

    # --- from any thread

    @property
    def agent(self) -> str:
        """The agent's folder; empty before the agent has said who it is. Raises OSError while the store cannot say."""
        if not self._agent and (told := self._identity) is not None:
            self._agent = self.store.choose_agent(
                self._given, told.name, self._command, may_run_others=self._may_run_others
            )
        return self._agent

    @property
    def is_recording(self) -> bool:
        """Whether all sessions are being recorded now."""
        return not self._gaps and not self.gate.is_stalled

    def flush(self) -> None:
        """Returns once everything added before was passed to the kernel, or put off or given up."""
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
        """Run an action on the store once everything added before is written. Raises what it raises, and Stalled.

        ``patience``: seconds that the store may be busy while making progress.
        """
        self.gate.enter(patience)
        try:
            self._drain()
            self._sessions.note_gaps(self._long_lines)
            return action()
        finally:
            self._leave()

    def settled(self, lock: threading.Lock, look: Callable[[], None], action: Callable[[], T]) -> T:
        """Run ``look`` and then, under the core's lock, ``action``, at a moment when all decided entries are written.

        Only ``look`` may use the store. Raises Stalled, and what ``look`` raises.
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
        """Delete a session's transcript. Raises OSError."""
        self.at_store(lambda: self._sessions.delete(self.agent, session, soft=self._deletes_softly), PATIENCE_SECONDS)

    def add_turns(self, session: str) -> None:
        """Add the turns of another machine that wait for a session. Only for an action of ``at_store``."""
        self._sessions.add_turns(self.agent, session)

    def others(self) -> list[str]:
        """The folders of the other agents whose sessions are listed too. Raises OSError."""
        found = (folder for name in self._also for folder in self.store.list_agents("" if name == ALL else name))
        return [folder for folder in dict.fromkeys(found) if folder != self.agent]

    def lacks(self, session: str) -> bool:
        """Whether something is missing in a session that its transcript does not note yet."""
        return session in self._gaps

    def lose(self, session: str, problem: OSError) -> None:
        """Note that the disk may have lost what was recorded of a session, and warn."""
        self._sessions.warn_unsure(errno_name(problem))
        self._backlog.pending.append((time.time(), Dropped(session, errno_name(problem))))
        self.flush()

    def try_again(self) -> None:
        """Let the next flush, which is the last, try everything again, however recently it failed."""
        self._sessions.try_again()

    def stall(self, since: float, go_on: Callable[[int], None]) -> None:
        """Let nothing wait for the store any more. See ``Gate.stall``."""
        if self.gate.stall(since, go_on):
            self._sessions.warn_suspended("it does not answer")

    # --- inside

    def _leave(self) -> None:
        try:
            while self._backlog.late:  # added while this thread hung
                self.gate.busy_since = time.monotonic()
                self._drain()
        finally:
            self.gate.leave()
        if self._backlog.late:  # another thread found the store taken just now
            self.flush()

    def _drain(self) -> None:
        batch = self._backlog.taken()
        if len(batch) > 1 or (batch and not self._is_written(*batch[0])):
            self._put_away(batch)

    def _is_written(self, seconds: float, effect: Recording | Dropped) -> bool:
        """Write the usual case quickly: updates of one session and nothing else. Else returns False."""
        if not isinstance(effect, RecordUpdates) or self._gaps or self._long_lines or self._unmarked or self.mask:
            return False
        known = self._sessions.get(effect.session)
        if known is None or known.gone or known.transcript is None or self.fsync == "always":
            return False
        at = timestamps.stamp(seconds)
        try:
            known.transcript.append(file_format.encode_updates(at, self.run, effect.data, self._protocol))
            self._sessions.written(known)
            if self._unmarked:
                self._sessions.mark()
        except OSError as problem:
            self._sessions.failed(known, at, problem)
        return True

    def _put_away(self, batch: deque[Timed]) -> None:
        at, session, data = "", "", list[bytes]()
        while batch:
            self.gate.busy_since = math.inf  # a long batch does not mean that the store hangs
            seconds, effect = batch.popleft()
            if self._long_lines and (line := self._long_lines.before(effect)) is not None:
                batch.extendleft(self._long_lines.wait(line, seconds, effect)[::-1])
                continue
            at = timestamps.stamp(seconds)
            if not isinstance(effect, _LINES) or effect.session != session:
                self._append(session, data, at)
                data = []
            match effect:
                case RecordLine(session) if self._sessions.is_told(session):
                    pass
                case RecordLine(session, peer, raw, of):
                    plain = jsonrpc.is_plain(raw)
                    entry = file_format.encode_message(
                        at, self.run, peer, raw, of, plain=plain, protocol=self._protocol
                    )
                    data.append(entry)
                case RecordUpdates(session, lines):
                    data.append(file_format.encode_updates(at, self.run, lines, self._protocol))
                case RecordPiece():
                    batch.extendleft(self._piece(effect, at)[::-1])
                case RecordNote(session, note):
                    self._sessions.is_told(session, ends=True)
                    data.append(file_format.encode_note(at, self.run, note))
                case IdentifyAgent():
                    self._identify(effect)
                case ProtocolVersion(version):
                    self._protocol = version
                case BeginTranscript():
                    self._sessions.begin(effect, self._told, at)
                case BeginTurn():
                    self._sessions.begin_turn(effect.session, at)
                case EndTurn():
                    self._sessions.end_turn(effect.session)
                    self.on_turn_end(effect.session)
                case Dropped(reason=reason) if reason != "ETIMEDOUT" and effect.session not in self._sessions:
                    pass  # it was closed since: only the warning says it
                case Dropped():
                    self._sessions.lose(effect.session, at, effect.reason)
                case ForgetSession():
                    self._sessions.forget(effect.session, at)
                case _:
                    assert_never(effect)
        self._append(session, data, at)
        self.gate.busy_since = time.monotonic()
        if self._unmarked:
            self._sessions.mark()

    def _identify(self, told: IdentifyAgent) -> None:
        self.gate.busy_since = time.monotonic()
        self._told = {"name": _short(told.name), "version": _short(told.version)}
        self._identity, self._agent = told, ""
        with suppress(OSError):  # tried again with each session
            self.agent  # noqa: B018

    def _append(self, session: str, data: list[bytes], at: str) -> None:
        if data:
            self._sessions.attempt(session, at, lambda known: self._write(known, b"".join(data), at))

    def _write(self, known: RecordedSession, data: bytes, at: str) -> None:
        if known.gone:
            return
        transcript = self._sessions.transcript(known, at)
        transcript.append(data if self.mask is None else self._masked(data))
        self._sessions.written(known)
        if self.fsync == "always":
            transcript.sync()

    def _piece(self, piece: RecordPiece, at: str) -> list[Timed]:
        """Write a piece of a long line; returns what waited for the line's end."""
        session = piece.session
        data = file_format.encode_piece(
            at, self.run, piece.peer, piece.data, first=piece.first, last=piece.last, protocol=self._protocol
        )

        def write(known: RecordedSession) -> None:
            is_whole = piece.first or (session in self._long_lines and session not in self._gaps)
            if is_whole and not known.gone:
                self._long_lines.put(known, piece, data, lambda lines: self._write(known, lines, at))
                self._sessions.written(known)

        self._sessions.attempt(session, at, write)
        return self._long_lines.ended(session) if piece.last or session in self._gaps else []

    def _masked(self, data: bytes) -> bytes:
        """The entries with secrets masked. However long that takes, the store does not count as hanging."""
        assert self.mask is not None
        self.gate.busy_since = math.inf
        try:
            return self.mask(data)
        finally:
            self.gate.busy_since = time.monotonic()


def _short(text: str | None) -> str | None:
    """A name or version that the agent reported, bounded because every header contains it."""
    return text[:_NAME_LENGTH] if text is not None else None


def _run_id() -> str:
    """Six random letters and digits that identify one connection."""
    letters = "0123456789abcdefghijklmnopqrstuvwxyz"
    return "".join(letters[byte % len(letters)] for byte in os.urandom(6))
