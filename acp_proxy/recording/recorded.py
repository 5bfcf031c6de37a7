"""The sessions that are written down, from their beginning until they are forgotten, and what each lacks.

Trouble with the store suspends the recording of a session, with one warning for all; when it can be written to again,
its transcript goes on with a note of the gap. What was deleted lives again with its next prompt, not before. For who
has the store (``Gate``), where nothing else is said.
"""

import contextlib
import time
from collections.abc import Callable, Container
from functools import partial

from acp_proxy.core.effects import BeginTranscript
from acp_proxy.errors import errno_name
from acp_proxy.recording.files import Files, Known
from acp_proxy.recording.gate import Gate
from acp_proxy.transcripts.store import Deleted, Store, Transcript, Unfinished
from acp_proxy.wire import clock, record
from acp_proxy.wire.record import Header
from acp_proxy.wire.value import Value

_RETRY_SECONDS = 1.0  # a store in trouble is tried again this often


class Gap(Value, frozen=False):
    since: str
    reason: str
    retry_at: float = 0.0


class RecordedSessions(dict[str, Known]):
    def __init__(self, store: Store, gate: Gate, run: str, warn: Callable[[str], None]) -> None:
        super().__init__()
        self.gaps: dict[str, Gap] = {}
        """Of sessions of which something was not written, and whose transcripts do not say so."""
        self.unmarked: set[str] = set()
        """Those that may need a mark that the index has not seen all."""
        self.files = Files(store, self._warn_once)
        self._store = store
        self._gate = gate
        self._run = run
        self._warn = warn
        self._warned = False

    # --- what becomes of one

    def begin(self, begin: BeginTranscript, agent: str, told: dict[str, object], at: str) -> None:
        """``told``: what the agent said of itself."""
        known = self.get(begin.session)
        fresh = begin.origin == record.RECORDED
        if known is not None and not known.gone and not fresh:
            return
        if known is not None:
            self.files.close(known)
        header = Header(begin.session, begin.cwd, begin.origin, at, begin.directories, {"id": agent, **told})
        self[begin.session] = Known(agent, header, fresh, begin.parent)
        if begin.origin == record.IMPORTED:  # no prompt may ever come that would tell the index of it
            self.unmarked.add(begin.session)
        gap = self.gaps.get(begin.session)
        # Of an older session; a later one is this session's own, and so is one from before it was forgotten.
        if gap is not None and gap.since < at and (fresh or known is not None):
            del self.gaps[begin.session]

        def open(known: Known) -> None:
            is_late = begin.origin == record.PARTIAL and begin.parent is None
            if is_late and begin.session in self._store.deleted(agent):
                known.gone = True  # what it says late is not recorded before its next prompt
            else:
                self.files.transcript(known)

        self.attempt(begin.session, at, open)

    def begin_turn(self, session: str, at: str) -> None:
        """Before a prompt: the file must still have its name, and the index is told that it has not seen all."""

        def check(known: Known) -> None:
            self._store.lift(known.agent, session)
            if known.gone or (known.exists and not self.files.has_its_name(known)):
                self.files.close(known)
                known.gone = known.exists = False
                known.header = known.header.but(origin=record.PARTIAL, created_at=at)
            transcript = self.files.transcript(known)
            self.unmarked.add(session)
            with contextlib.suppress(OSError):  # it is tried again behind what it is about; that can be kept without
                self._store.mark(known.agent, session, transcript)

        self.attempt(session, at, check)

    def mark(self, agent: str) -> None:
        """Once more: another process may have taken our mark away before the prompt was there."""
        for session in list(self.unmarked):
            with contextlib.suppress(OSError):
                known = self.get(session)
                self._store.mark(agent, session, known.transcript if known is not None else None)
                self.unmarked.discard(session)

    def forget(self, session: str, at: str) -> None:
        known = self.get(session)
        if known is not None:
            if session in self.gaps:
                self.attempt(session, at, partial(self._note_gap, at=at))
            self.files.close(known)
            del self[session]

    def delete(self, agent: str, session: str, *, soft: bool) -> None:
        """Remove its transcript. Raises OSError (Unfinished: as it was)."""
        known = self.get(session)
        if known is not None:
            self.files.close(known)
        try:
            self._store.delete(agent, session, soft=soft)
        except Unfinished:  # it is tried again
            raise
        except OSError as problem:
            if known is not None:  # what follows is not kept until its next prompt, as if it were deleted
                self.lose(session, clock.stamp(time.time()), errno_name(problem))
            raise
        if known is not None:
            known.gone = True
        self.gaps.pop(session, None)

    # --- trouble

    def attempt(self, session: str, at: str, action: Callable[[Known], object]) -> None:
        """Trouble with the store suspends this session; it is tried again a little later."""
        known = self.get(session)
        gap = self.gaps.get(session)
        now = self._gate.busy_since = time.monotonic()
        if known is None or (gap is not None and now < gap.retry_at):
            return
        try:
            action(known)
        except OSError as problem:
            self.failed(known, at, problem)

    def failed(self, known: Known, at: str, problem: OSError) -> None:
        self.files.close(known)
        if isinstance(problem, Deleted):
            known.gone = True  # not recorded until the next prompt
            return
        gap = self.lose(known.header.session, at, errno_name(problem))
        gap.retry_at = time.monotonic() + _RETRY_SECONDS
        self.warn_suspended(errno_name(problem))

    def lose(self, session: str, since: str, reason: str) -> Gap:
        """Something of it is missing from here on, if nothing was before."""
        return self.gaps.setdefault(session, Gap(since, reason))

    def try_again(self) -> None:
        """Without a pause, whenever there is something to write next. By any thread."""
        for gap in list(self.gaps.values()):
            gap.retry_at = 0.0

    def transcript(self, known: Known, at: str) -> Transcript:
        """Its open file; where it lacks something it says so. Raises OSError."""
        if self.gaps:
            self._note_gap(known, at)
        return self.files.transcript(known)

    def note_gaps(self, in_line: Container[str]) -> None:
        """Say in the transcripts what they lack, as soon as that is possible: nothing else may ever come to them.

        ``in_line``: in the middle of a long line. What is left of that comes to its end first.
        """
        for session in list(self.gaps):
            self._gate.busy_since = time.monotonic()
            known = self.get(session)
            if known is not None and known.gone:
                del self.gaps[session]
            elif session not in in_line:
                at = clock.stamp(time.time())
                self.attempt(session, at, partial(self._note_gap, at=at))

    def warn_suspended(self, what: str) -> None:
        """By any thread."""
        self._warn_once(f"recording is suspended: {self._store.root}: {what}. The conversation goes on without it.")

    def _note_gap(self, known: Known, at: str) -> None:
        session = known.header.session
        gap = self.gaps.get(session)
        if gap is not None:
            note = {"type": record.GAP, "since": gap.since, "reason": gap.reason}
            self.files.transcript(known).append(record.encode_note(at, self._run, note))
            del self.gaps[session]
            self.unmarked.add(session)

    def _warn_once(self, text: str) -> None:
        if not self._warned:
            self._warned = True
            self._warn(text)
