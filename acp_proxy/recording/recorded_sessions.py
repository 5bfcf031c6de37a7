"""The recorded sessions, from their beginning until they are forgotten, and what is missing in each transcript.

A failing store suspends the recording of a session; there is one warning for all sessions. When the store can be
written again, recording resumes with a gap note. A deleted session is recorded again only from its next prompt on.

Only for the writer (``Recorder``), except where stated.
"""

import contextlib
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from os.path import exists

from msgspec import Struct
from msgspec.structs import replace

from acp_proxy.errors import NewerFormat, errno_name
from acp_proxy.protocol import timestamps
from acp_proxy.proxy.effects import BeginTranscript
from acp_proxy.store.store import Deleted, Store, Transcript
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import Header
from acp_proxy.transcript.rewinds import Point, forked_by

_OPEN_FILES = 64
_RETRY_SECONDS = 1.0  # seconds between attempts after a failure of the store


class Gap(Struct):
    """Something is missing in a transcript.

    ``since``: when that began. ``reason``: an errno's name. ``retry_at``: when to try again, monotonic time.
    """

    since: str
    reason: str
    retry_at: float = 0.0


class Progress:
    """Whether the writer moves, so that nobody waits for one that hangs in the store. May be read from any thread.

    ``moved_at``: when it last began something else, monotonic time; infinity: it is busy with what takes long and is no
    hang. ``is_stalled``: somebody has waited for too long since; until the writer moves, nobody waits again.
    """

    def __init__(self) -> None:
        self.moved_at = 0.0
        self.is_stalled = False

    def move(self) -> None:
        """The writer goes on."""
        self.moved_at = time.monotonic()
        self.is_stalled = False

    @contextlib.contextmanager
    def long_work(self) -> Iterator[None]:
        """What is done in this context may take long."""
        self.moved_at = math.inf
        try:
            yield
        finally:
            self.move()


class RecordedSession(Struct):
    """A recorded session.

    ``agent``: its folder; empty until the store can say. ``fresh``: the agent has just created it.
    ``parent``: the session that it is a fork of. ``point``: where the fork was made, unless at the end.
    ``until``: bytes to copy of the parent's transcript.
    ``exists``: its file existed once, with this ``identity``. ``gone``: it was deleted, and not prompted since.
    ``transcript``: its file, if open. ``in_turn``: it was prompted, and no turn has ended since.
    ``mark``: the path of its last mark for the index, if it was marked between turns. ``is_imported_already``: another
    process has imported it, so it has what comes before the next note. ``is_late``: its file could not be created at
    first.
    """

    agent: str
    header: Header
    fresh: bool
    parent: str | None = None
    point: Point | None = None
    until: int | None = None
    exists: bool = False
    identity: bytes = b""
    gone: bool = False
    transcript: Transcript | None = None
    in_turn: bool = False
    mark: str = ""
    is_imported_already: bool = False
    is_late: bool = False


class RecordedSessions(dict[str, RecordedSession]):
    """The recorded sessions by id."""

    def __init__(
        self, store: Store, progress: Progress, run: str, warn: Callable[[str], None], agent: Callable[[], str]
    ) -> None:
        """``agent``: returns the agent's folder. Raises OSError."""
        super().__init__()
        self.gaps: dict[str, Gap] = {}
        """The sessions in which something is missing that their transcripts do not note yet."""
        self.unmarked: set[str] = set()
        """The sessions that may need another mark for the index."""
        self._open: OrderedDict[str, RecordedSession] = OrderedDict()
        """Those whose file is open, the one opened longest ago first."""
        self._store = store
        self._progress = progress
        self._run = run
        self._warn = warn
        self._agent = agent
        self._warned = store.was_refused is not None

    # --- one session

    def begin(self, begin: BeginTranscript, info: dict[str, object], at: str) -> None:
        """Begin to record a session.

        ``info``: the name and version that the agent reported. ``at``: the time.
        """
        known = self.get(begin.session)
        fresh = begin.origin == file_format.RECORDED
        if known is not None and not known.gone and not fresh:
            return
        header = Header(begin.session, begin.cwd, begin.origin, at, begin.directories, {**info})
        point = forked_by(begin.point, info.get("name")) if begin.point is not None else None
        self[begin.session] = RecordedSession("", header, fresh, begin.parent, point)
        if known is not None:
            self.close(known)
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
                transcript = self.open_transcript(known)
                known.is_imported_already = begin.origin == file_format.IMPORTED and not transcript.is_begun

        self.attempt(begin.session, at, open)

    def is_imported_already(self, session: str, *, ends: bool = False) -> bool:
        """Whether a line belongs to an import that another process has made. ``ends``: the import ends here."""
        known = self.get(session)
        if known is None or not known.is_imported_already:
            return False
        known.is_imported_already = not ends
        return True

    def begin_turn(self, session: str, at: str) -> None:
        """Prepare for a prompt: check that the file still has its name, lift a delete, and mark the session."""

        def check(known: RecordedSession) -> None:
            self._store.lift_delete(known.agent, session)
            if known.gone or (known.exists and not self.has_its_name(known)):
                self.close(known)
                known.gone = known.exists = False
                known.header = replace(known.header, origin=file_format.PARTIAL, created_at=at)
            transcript = self.open_transcript(known)
            self.unmarked.add(session)
            known.in_turn = True
            # The mark comes before the prompt: after a crash between the two, a list looks at the file in vain. The
            # other way round, no list would ever look, and the turn would be recorded but never shown.
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
            self.close(known)
            del self[session]

    def add_turns(self, agent: str, session: str) -> None:
        """Add the turns of another machine that wait for a session, unless it is in a turn. Never raises."""
        known = self.get(session)
        is_busy = known is not None and (known.in_turn or session in self.gaps)
        if is_busy or not self._store.has_remote_turns(agent, session):
            return
        if known is not None:
            self.close(known)
        # To write a long transcript anew does not mean that the store hangs.
        with self._progress.long_work(), contextlib.suppress(OSError, NewerFormat, ImportError, ValueError):
            if self._store.add_remote_turns(agent, session) and known is not None:
                known.exists = False  # the file that takes its place is opened as that of a session begun elsewhere

    def delete(self, agent: str, session: str, *, soft: bool) -> None:
        """Delete a session's transcript; ``soft``: it can be restored.

        Raises OSError.
        """
        known = self.get(session)
        if known is not None:
            self.close(known)
        try:
            self._store.delete(agent, session, soft=soft)
        except OSError as problem:
            if known is not None:  # until its next prompt, nothing is recorded, as if it were deleted
                self.open_gap(session, timestamps.stamp(time.time()), errno_name(problem))
            raise
        if known is not None:
            known.gone = True
        self.gaps.pop(session, None)

    # --- open files

    def open_transcript(self, known: RecordedSession) -> Transcript:
        """The session's open file, created if it never existed. Raises OSError."""
        if known.transcript is None:
            session = known.header.session
            if known.exists:
                known.transcript = self._store.reopen(known.agent, session, known.identity)
            else:
                if not self._store.is_there:
                    self._warn_once(f"{self._store.root} was removed, with all sessions in it. It is created again.")
                known.transcript = self._create(known)
                known.identity = known.transcript.identity
                known.exists, known.fresh, known.parent = True, False, None  # a later new beginning is not a copy
            self._open[session] = known
            self._close_oldest()
        return known.transcript

    def _create(self, known: RecordedSession) -> Transcript:
        """Create the file. A fork's copy ends where the parent ended when it was forked, or at the fork's point; if the
        parent does not have that, the fork begins without a copy. Raises OSError."""
        if known.parent is not None and known.until is None:
            at = known.header.created_at if known.is_late else None
            with contextlib.suppress(FileNotFoundError, NewerFormat):
                known.until = self._store.find_fork_end(known.agent, known.parent, known.point, at)
                known.parent = known.parent if known.until is not None else None
        # To copy a long past does not mean that the store hangs.
        with self._progress.long_work() if known.parent is not None else contextlib.nullcontext():
            return self._store.open_to_append(
                known.agent, known.header, fresh=known.fresh, parent=known.parent, until=known.until
            )

    def has_its_name(self, known: RecordedSession) -> bool:
        """Whether readers find a session's file.

        It may have been set aside, because another window's session got its id: then it is opened there.
        """
        try:
            if not self.open_transcript(known).has_its_name():
                self.close(known)
                self.open_transcript(known)
        except FileNotFoundError:
            return False
        return True

    def close(self, known: RecordedSession) -> None:
        """Close a session's file, if open. Never raises."""
        transcript, known.transcript, known.mark = known.transcript, None, ""
        if transcript is not None:
            self._open.pop(known.header.session, None)
            try:
                transcript.close()
            except OSError as problem:
                self._note_failed_close(known, problem)

    def _close_oldest(self) -> None:
        """Close the files opened longest ago."""
        while len(self._open) > _OPEN_FILES:
            self.close(next(iter(self._open.values())))

    # --- failures of the store

    def attempt(self, session: str, at: str, action: Callable[[RecordedSession], object]) -> None:
        """Run an action of a session on the store; a failure suspends the session's recording for a short time."""
        known = self.get(session)
        gap = self.gaps.get(session)
        self._progress.move()
        if known is None or (gap is not None and time.monotonic() < gap.retry_at):
            return
        try:
            if not known.agent:
                known.agent = self._agent()
                known.header = replace(known.header, agent={"id": known.agent, **known.header.agent})
            action(known)
        except OSError as problem:
            self.note_failure(known, at, problem)

    def note_failure(self, known: RecordedSession, at: str, problem: OSError) -> None:
        """Suspend a session's recording after ``problem``; a deleted one until its next prompt."""
        if isinstance(problem, Deleted):
            known.gone = True  # not recorded until the next prompt
        else:
            gap = self.open_gap(known.header.session, at, errno_name(problem))
            gap.retry_at = time.monotonic() + _RETRY_SECONDS
            known.is_late = True
            self.warn_suspended(errno_name(problem))
        self.close(known)

    def open_gap(self, session: str, since: str, reason: str) -> Gap:
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
        return self.open_transcript(known)

    def note_gaps(self) -> None:
        """Append the gap notes that are possible now, since nothing else may ever be appended to these transcripts."""
        for session in list(self.gaps):
            self._progress.move()
            known = self.get(session)
            if known is not None and known.gone:
                del self.gaps[session]
            else:
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
            self.open_transcript(known).append(file_format.encode_note(at, self._run, note))
            del self.gaps[session]
            self.unmarked.add(session)

    def warn_unsure(self, what: str) -> None:
        """Warn, once per process, that the disk may have lost something. From any thread."""
        self._warn_once(f"the disk may have lost something: {self._store.root}: {what}. The conversation continues.")

    def _note_failed_close(self, known: RecordedSession, problem: OSError) -> None:
        """A file could not be closed."""
        if self.get(known.header.session) is known and not known.gone:
            self.open_gap(known.header.session, timestamps.stamp(time.time()), errno_name(problem))
            self.warn_unsure(errno_name(problem))

    def _warn_once(self, text: str) -> None:
        if not self._warned:
            self._warned = True
            self._warn(text)
