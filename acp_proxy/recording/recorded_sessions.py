"""The recorded sessions, from their beginning until they are forgotten, and what is missing in each transcript.

A failing store suspends the recording of a session; there is one warning for all sessions. When the store can be
written again, recording resumes with a gap note. A deleted session is recorded again only from its next prompt on.

Only for the thread that has the store (``Gate``), except where stated.
"""

import contextlib
import math
import time
from collections.abc import Callable, Container
from functools import partial
from os.path import exists

from msgspec import Struct
from msgspec.structs import replace

from acp_proxy.errors import NewerFormat, errno_name
from acp_proxy.protocol import timestamps
from acp_proxy.proxy.effects import BeginTranscript
from acp_proxy.recording.files import OpenTranscripts, RecordedSession, is_in_line
from acp_proxy.recording.gate import Gate
from acp_proxy.store.store import Deleted, Store, Transcript
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import Header
from acp_proxy.transcript.rewinds import forked_by

_RETRY_SECONDS = 1.0  # seconds between attempts after a failure of the store


class Gap(Struct):
    """Something is missing in a transcript.

    ``since``: when that began. ``reason``: an errno's name. ``retry_at``: when to try again, monotonic time.
    """

    since: str
    reason: str
    retry_at: float = 0.0


class RecordedSessions(dict[str, RecordedSession]):
    """The recorded sessions by id."""

    def __init__(
        self, store: Store, gate: Gate, run: str, warn: Callable[[str], None], agent: Callable[[], str]
    ) -> None:
        """``agent``: returns the agent's folder. Raises OSError."""
        super().__init__()
        self.gaps: dict[str, Gap] = {}
        """The sessions in which something is missing that their transcripts do not note yet."""
        self.unmarked: set[str] = set()
        """The sessions that may need another mark for the index."""
        self.files = OpenTranscripts(store, self._warn_once, self._lost)
        self._store = store
        self._gate = gate
        self._run = run
        self._warn = warn
        self._agent = agent
        self._warned = store.was_refused is not None

    # --- one session

    def begin(self, begin: BeginTranscript, told: dict[str, object], at: str) -> None:
        """Begin to record a session.

        ``told``: the name and version that the agent reported. ``at``: the time.
        """
        known = self.get(begin.session)
        fresh = begin.origin == file_format.RECORDED
        if known is not None and not known.gone and not fresh:
            return
        header = Header(begin.session, begin.cwd, begin.origin, at, begin.directories, {**told})
        point = forked_by(begin.point, told.get("name")) if begin.point is not None else None
        self[begin.session] = RecordedSession("", header, fresh, begin.parent, point)
        if known is not None:
            self.files.close(known)
        if begin.origin == file_format.IMPORTED:  # there may never be a prompt, which would mark it
            self.unmarked.add(begin.session)
        gap = self.gaps.get(begin.session)
        # The gap is an older session's. A later gap, or one from before it was forgotten, is its own.
        if gap is not None and gap.since < at and (fresh or known is not None):
            del self.gaps[begin.session]

        def open(known: RecordedSession) -> None:
            is_late = begin.origin == file_format.PARTIAL and begin.parent is None
            if is_late and begin.session in self._store.read_deleted(known.agent):
                known.gone = True  # what comes late is not recorded before its next prompt
            else:
                transcript = self.files.transcript(known)
                known.is_told = begin.origin == file_format.IMPORTED and not transcript.is_begun

        self.attempt(begin.session, at, open)

    def is_told(self, session: str, *, ends: bool = False) -> bool:
        """Whether a line belongs to an import that another process has made. ``ends``: the import ends here."""
        known = self.get(session)
        if known is None or not known.is_told:
            return False
        known.is_told = not ends
        return True

    def begin_turn(self, session: str, at: str) -> None:
        """Prepare for a prompt: check that the file still has its name, lift a delete, and mark the session."""

        def check(known: RecordedSession) -> None:
            self._store.lift_delete(known.agent, session)
            if known.gone or (known.exists and not self.files.has_its_name(known)):
                self.files.close(known)
                known.gone = known.exists = False
                known.header = replace(known.header, origin=file_format.PARTIAL, created_at=at)
            transcript = self.files.transcript(known)
            self.unmarked.add(session)
            known.in_turn = True
            with contextlib.suppress(OSError):  # tried again after the prompt, which can be recorded without a mark
                self._store.mark(known.agent, session, transcript)

        self.attempt(session, at, check)

    def mark(self) -> None:
        """Mark sessions again: another process may have removed the mark before the prompt was written."""
        for session in list(self.unmarked):
            with contextlib.suppress(OSError):
                known = self.get(session)
                mark = self._store.mark(self._agent(), session, known.transcript if known is not None else None)
                self.unmarked.discard(session)
                if known is not None:
                    known.mark = mark

    def written(self, known: RecordedSession) -> None:
        """Entries were written. Between turns, they need a mark: the index may have read all before them."""
        if not (known.in_turn or (known.mark and exists(known.mark))):
            self.unmarked.add(known.header.session)

    def end_turn(self, session: str) -> None:
        """A turn has ended: from now on, the index may remove the session's mark."""
        if (known := self.get(session)) is not None:
            known.in_turn = False

    def forget(self, session: str, at: str) -> None:
        """Stop recording a session, with its gap noted if possible. Its transcript stays."""
        known = self.get(session)
        if known is not None:
            if session in self.gaps:
                self.attempt(session, at, partial(self._note_gap, at=at))
            self.files.close(known)
            del self[session]

    def add_turns(self, agent: str, session: str) -> None:
        """Add the turns of another machine that wait for a session, unless it is in a turn. Never raises."""
        known = self.get(session)
        is_busy = known is not None and (known.in_turn or is_in_line(known) or session in self.gaps)
        if is_busy or not self._store.has_remote_turns(agent, session):
            return
        if known is not None:
            self.files.close(known)
        self._gate.busy_since = math.inf  # to write a long transcript anew does not mean that the store hangs
        with contextlib.suppress(OSError, NewerFormat, ImportError, ValueError):
            if self._store.add_remote_turns(agent, session) and known is not None:
                known.exists = False  # the file that takes its place is opened as that of a session begun elsewhere
        self._gate.busy_since = time.monotonic()

    def delete(self, agent: str, session: str, *, soft: bool) -> None:
        """Delete a session's transcript; ``soft``: it can be restored.

        Raises OSError.
        """
        known = self.get(session)
        if known is not None:
            self.files.close(known)
        try:
            self._store.delete(agent, session, soft=soft)
        except OSError as problem:
            if known is not None:  # until its next prompt, nothing is recorded, as if it were deleted
                self.lose(session, timestamps.stamp(time.time()), errno_name(problem))
            raise
        if known is not None:
            known.gone = True
        self.gaps.pop(session, None)

    # --- failures of the store

    def attempt(self, session: str, at: str, action: Callable[[RecordedSession], object]) -> None:
        """Run an action of a session on the store; a failure suspends the session's recording for a short time."""
        known = self.get(session)
        gap = self.gaps.get(session)
        now = self._gate.busy_since = time.monotonic()
        if known is None or (gap is not None and now < gap.retry_at):
            return
        try:
            if not known.agent:
                known.agent = self._agent()
                known.header = replace(known.header, agent={"id": known.agent, **known.header.agent})
            action(known)
        except OSError as problem:
            self.failed(known, at, problem)

    def failed(self, known: RecordedSession, at: str, problem: OSError) -> None:
        """Suspend a session's recording after ``problem``; a deleted one until its next prompt."""
        if isinstance(problem, Deleted):
            known.gone = True  # not recorded until the next prompt
        else:
            gap = self.lose(known.header.session, at, errno_name(problem))
            gap.retry_at = time.monotonic() + _RETRY_SECONDS
            known.is_late = True
            self.warn_suspended(errno_name(problem))
        self.files.close(known)

    def lose(self, session: str, since: str, reason: str) -> Gap:
        """Note that something is missing from ``since`` on; an earlier gap stays as it is."""
        return self.gaps.setdefault(session, Gap(since, reason))

    def try_again(self) -> None:
        """Let the next flush try all suspended sessions again at once. From any thread."""
        for gap in list(self.gaps.values()):
            gap.retry_at = 0.0

    def transcript(self, known: RecordedSession, at: str) -> Transcript:
        """A session's open file, with its gap noted first. Raises OSError."""
        if self.gaps:
            self._note_gap(known, at)
        return self.files.transcript(known)

    def note_gaps(self, in_line: Container[str]) -> None:
        """Append the gap notes that are possible now, since nothing else may ever be appended to these transcripts.

        ``in_line``: the sessions with an unfinished long line, which has to end first.
        """
        for session in list(self.gaps):
            self._gate.busy_since = time.monotonic()
            known = self.get(session)
            if known is not None and known.gone:
                del self.gaps[session]
            elif session not in in_line:
                at = timestamps.stamp(time.time())
                self.attempt(session, at, partial(self._note_gap, at=at))

    def warn_suspended(self, what: str) -> None:
        """Warn, once per process, that recording is suspended. From any thread."""
        self._warn_once(f"recording is suspended: {self._store.root}: {what}. The conversation continues.")

    def _note_gap(self, known: RecordedSession, at: str) -> None:
        session = known.header.session
        gap = self.gaps.get(session)
        if gap is not None:
            note = {"type": file_format.GAP, "since": gap.since, "reason": gap.reason}
            self.files.transcript(known).append(file_format.encode_note(at, self._run, note))
            del self.gaps[session]
            self.unmarked.add(session)

    def warn_unsure(self, what: str) -> None:
        """Warn, once per process, that the disk may have lost something. From any thread."""
        self._warn_once(f"the disk may have lost something: {self._store.root}: {what}. The conversation continues.")

    def _lost(self, known: RecordedSession, problem: OSError) -> None:
        """A file could not be closed."""
        if self.get(known.header.session) is known and not known.gone:
            self.lose(known.header.session, timestamps.stamp(time.time()), errno_name(problem))
            self.warn_unsure(errno_name(problem))

    def _warn_once(self, text: str) -> None:
        if not self._warned:
            self._warned = True
            self._warn(text)
