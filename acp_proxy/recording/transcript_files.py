"""The transcripts of the recorded sessions: opens their files, appends entries, and notes what is missing.

A failing store suspends the recording of a session; there is one warning of that in the life of the process. When the
store can be written again, recording resumes with a gap note. A deleted session is recorded again only from its next
prompt on.

Only for the writer (``Recorder``), except where stated. ``recorded_sessions`` says when a session begins and ends.
"""

import contextlib
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from os.path import exists

from msgspec import Struct
from msgspec.structs import replace

from acp_proxy.errors import NewerFormat, errno_name
from acp_proxy.protocol import timestamps
from acp_proxy.recording.session_file_state import SessionFileState
from acp_proxy.recording.writer_jobs import Heartbeat
from acp_proxy.store import delete, fork, open_session
from acp_proxy.store.open_session import Deleted
from acp_proxy.store.proxy_store import ProxyStore
from acp_proxy.transcript import file_format
from acp_proxy.transcript.appender import TranscriptAppender
from acp_proxy.transcript.file_format import NoteType, Parts
from acp_proxy.transcript.file_names import file_name

_OPEN_FILE_LIMIT = 64
_RETRY_SECONDS = 1.0
"""How long a session stays suspended at least: what is written next after that tries again. A short fault of the store
then costs few entries, and a long one little time."""


class Gap(Struct):
    """Something is missing in a transcript. ``since``: when that began. ``reason``: a ``GapReason``, or an errno's
    name. ``retry_at``: when to try again, monotonic time."""

    since: str
    reason: str
    retry_at: float = 0.0

    @property
    def waits_for_retry(self) -> bool:
        """Whether its session is still suspended: nothing is tried before ``retry_at``."""
        return time.monotonic() < self.retry_at


class TranscriptFiles:
    """The transcripts of one connection's recorded sessions."""

    def __init__(
        self,
        states_by_id: Mapping[str, SessionFileState],
        store: ProxyStore,
        heartbeat: Heartbeat,
        run_id: str,
        warn: Callable[[str], None],
        find_agent_folder: Callable[[], str],
        *,
        mask: Callable[[bytes], bytes] | None,
        fsyncs_each_write: bool,
    ) -> None:
        """``states_by_id``: of the recorded sessions. ``find_agent_folder``: returns the agent's folder. Raises
        OSError. ``mask``: takes entries and returns them with secrets masked."""
        self._states_by_id = states_by_id
        self.ids_to_mark: set[str] = set()
        """The sessions that may need another mark for the index."""
        self._unnoted_gaps: dict[str, Gap] = {}
        """The sessions in which something is missing that their transcripts do not note yet. Each is suspended until
        its ``retry_at``."""
        self._with_open_file: OrderedDict[str, SessionFileState] = OrderedDict()
        """The sessions whose file is open, the one opened longest ago first."""
        self._store = store
        self._heartbeat = heartbeat
        self._run_id = run_id
        self._warn = warn
        self._find_agent_folder = find_agent_folder
        self._mask = mask
        self._fsyncs_each_write = fsyncs_each_write
        self._has_warned_of_removal = self._has_warned_of_trouble = store.open_problem is not None
        """Whether the user was told that the store was removed, and that it cannot be written. Apart, since a store
        that was created again may fail like any other."""

    # --- entries

    def append(self, session_id: str, parts: Parts, first_stamp: str) -> None:
        """Append adjacent entries of one session, unless that is suspended or deleted. ``first_stamp``: the time of the
        first, at which a gap begins if this fails."""
        if parts:
            self.run_or_suspend(
                session_id, first_stamp, lambda session: self._append_to_transcript(session, parts, first_stamp)
            )

    def _append_to_transcript(self, session: SessionFileState, parts: Parts, first_stamp: str) -> None:
        if session.file_is_deleted:
            return
        appender = self._open_and_note_gap(session, first_stamp)
        appender.append(*(parts if self._mask is None else [self._mask_entries(b"".join(parts), self._mask)]))
        self._request_mark(session)
        if self._fsyncs_each_write:
            appender.fsync()

    def _mask_entries(self, data: bytes, mask: Callable[[bytes], bytes]) -> bytes:
        """The entries with secrets masked. However long that takes, the store does not count as hanging."""
        with self._heartbeat.allow_long_work():
            return mask(data)

    def _request_mark(self, session: SessionFileState) -> None:
        """Entries were written. Between turns, they need a mark, since the index may have read all before them
        (``RecordedSessions.mark_sessions``)."""
        if not (session.is_in_turn or (session.mark_path and exists(session.mark_path))):
            self.ids_to_mark.add(session.header.session_id)

    # --- failures of the store

    def run_or_suspend(self, session_id: str, first_stamp: str, action: Callable[[SessionFileState], object]) -> None:
        """Run an action of a session on the store, unless the session is suspended or not recorded: then do nothing. A
        failure suspends the session for ``_RETRY_SECONDS``, and what the action would have written, all or a part of
        it, is missing: a gap since ``first_stamp``, which covers what is left out until the next try."""
        session = self._states_by_id.get(session_id)
        gap = self._unnoted_gaps.get(session_id)
        self._heartbeat.beat()
        if session is None or (gap is not None and gap.waits_for_retry):
            return
        try:
            if not session.agent_folder:
                session.agent_folder = self._find_agent_folder()
                session.header = replace(session.header, agent={"id": session.agent_folder, **session.header.agent})
            action(session)
        except OSError as problem:
            self._handle_failure(session, first_stamp, problem)

    def _handle_failure(self, session: SessionFileState, first_stamp: str, problem: OSError) -> None:
        """Suspend a session's recording after ``problem``; if it was deleted, record nothing until its next prompt."""
        if isinstance(problem, Deleted):
            session.file_is_deleted = True  # not recorded until the next prompt
        else:
            gap = self.remember_gap(session.header.session_id, first_stamp, errno_name(problem))
            gap.retry_at = time.monotonic() + _RETRY_SECONDS
            session.recording_failed = True
            self.warn_of_suspension(errno_name(problem))
        self.close(session)

    @property
    def has_any_unnoted_gap(self) -> bool:
        """Whether something is missing in a session that its transcript does not note yet. From any thread."""
        return bool(self._unnoted_gaps)

    def has_unnoted_gap(self, session_id: str) -> bool:
        """As ``has_any_unnoted_gap``, for one session. From any thread."""
        return session_id in self._unnoted_gaps

    def find_gap(self, session_id: str) -> Gap | None:
        """The gap of a session that its transcript does not note yet."""
        return self._unnoted_gaps.get(session_id)

    def drop_gap(self, session_id: str) -> None:
        """Forget a session's gap: nothing is missing any more."""
        self._unnoted_gaps.pop(session_id, None)

    def remember_gap(self, session_id: str, since: str, reason: str) -> Gap:
        """Remember that something is missing from ``since`` on; an earlier gap stays as it is."""
        return self._unnoted_gaps.setdefault(session_id, Gap(since, reason))

    def allow_retry_now(self) -> None:
        """End the waiting of all suspended sessions, so that the next write tries them again. From any thread."""
        for gap in list(self._unnoted_gaps.values()):
            gap.retry_at = 0.0

    def _open_and_note_gap(self, session: SessionFileState, first_stamp: str) -> TranscriptAppender:
        """A session's open file, to which the note of its gap is appended first. Raises OSError."""
        if self._unnoted_gaps:
            self._append_gap_note(session, first_stamp)
        return self.open_appender(session)

    def try_note_gaps(self) -> None:
        """Append the notes of all gaps, as far as their sessions are not suspended: perhaps nothing else is ever
        appended to these transcripts. Not of forgotten ones, whose gap is noted once they are begun again."""
        for session_id in list(self._unnoted_gaps):
            self._heartbeat.beat()
            session = self._states_by_id.get(session_id)
            if session is not None and session.file_is_deleted:
                del self._unnoted_gaps[session_id]
            else:
                self.try_note_gap(session_id, timestamps.format_now(time.time()))

    def try_note_gap(self, session_id: str, stamp: str) -> None:
        """Append the note of a session's gap now, if there is one."""
        if session_id in self._unnoted_gaps:
            self.run_or_suspend(session_id, stamp, partial(self._append_gap_note, stamp=stamp))

    def warn_of_suspension(self, reason: str) -> None:
        """Warn that recording is suspended, unless the process has warned of such trouble. From any thread."""
        what = f"recording is suspended: {self._store.root}: {reason}"
        self._warn_of_trouble(f"{what}. The conversation continues. To see what to do: acp-proxy doctor")

    def _append_gap_note(self, session: SessionFileState, stamp: str) -> None:
        session_id = session.header.session_id
        gap = self._unnoted_gaps.get(session_id)
        if gap is not None:
            note = {"type": NoteType.GAP, "since": gap.since, "reason": gap.reason}
            self.open_appender(session).append(file_format.encode_note(stamp, self._run_id, note))
            del self._unnoted_gaps[session_id]
            self.ids_to_mark.add(session_id)

    def warn_of_loss(self, reason: str) -> None:
        """Warn that the disk may have lost something, as ``warn_of_suspension`` does. From any thread."""
        self._warn_of_trouble(
            f"the disk may have lost something: {self._store.root}: {reason}. The conversation continues."
        )

    def _handle_failed_close(self, session: SessionFileState, problem: OSError) -> None:
        if self._states_by_id.get(session.header.session_id) is session and not session.file_is_deleted:
            self.remember_gap(session.header.session_id, timestamps.format_now(time.time()), errno_name(problem))
            self.warn_of_loss(errno_name(problem))

    def _warn_of_trouble(self, text: str) -> None:
        if not self._has_warned_of_trouble:
            self._has_warned_of_trouble = True
            self._warn(text)

    def _warn_of_removal(self) -> None:
        if not self._has_warned_of_removal:
            self._has_warned_of_removal = True
            self._warn(f"{self._store.root} was removed, with all sessions in it. It is created again.")

    # --- open files

    def open_appender(self, session: SessionFileState) -> TranscriptAppender:
        """The session's open file, created if it never existed. Raises OSError; Deleted if it was deleted.

        Another process may have renamed it: set aside, because another window's session got its id, it is opened there;
        soft-deleted, it is left, so that the bin has what was there at the delete.
        """
        if session.appender is not None and self._check_renamed_or_deleted(session, session.appender):
            self.close(session)
        if session.appender is None:
            session_id = session.header.session_id
            if session.was_opened:
                session.appender = self._store.reopen(session.agent_folder, session_id, session.file_identity)
            else:
                if not self._store.still_exists:
                    self._warn_of_removal()
                if session.must_lift_delete:  # the prompt could not
                    self.lift_delete(session)
                session.appender = self._create(session)
                session.file_identity = session.appender.identity
                session.was_opened, session.is_new = True, False
                session.parent_id = None  # a later new beginning is not a copy
            self._with_open_file[session_id] = session
            self._close_oldest()
        return session.appender

    def lift_delete(self, session: SessionFileState) -> None:
        """Lift a session's delete, for a prompt. Raises OSError; with ``must_lift_delete``, the next try does it
        then."""
        delete.lift_delete(self._store.layout, session.agent_folder, session.header.session_id)
        session.must_lift_delete = False

    def _check_renamed_or_deleted(self, session: SessionFileState, appender: TranscriptAppender) -> bool:
        # Where that cannot be determined, the file goes on as it is: whether it can be written, the write says.
        with contextlib.suppress(OSError):
            layout, session_id = self._store.layout, session.header.session_id
            return open_session.was_renamed_or_deleted(layout, session.agent_folder, session_id, appender)
        return False

    def _create(self, session: SessionFileState) -> TranscriptAppender:
        """Create the file. A fork's copy ends where the parent ended when it was forked, or at the fork's point; if the
        parent does not have that, the fork begins without a copy. Raises OSError."""
        # To read and copy a long past does not mean that the store hangs.
        with self._heartbeat.allow_long_work() if session.parent_id is not None else contextlib.nullcontext():
            if session.parent_id is not None and session.size_to_copy is None:
                latest = session.header.created_at if session.recording_failed else None
                with contextlib.suppress(FileNotFoundError, NewerFormat):
                    session.size_to_copy = fork.find_end(
                        self._store.layout,
                        session.agent_folder,
                        file_name(session.parent_id),
                        session.fork_point,
                        latest,
                    )
                    session.parent_id = session.parent_id if session.size_to_copy is not None else None
            return self._store.open_to_append(
                session.agent_folder,
                session.header,
                is_new=session.is_new,
                parent_id=session.parent_id,
                copied_bytes=session.size_to_copy,
            )

    def open_and_check_name(self, session: SessionFileState) -> bool:
        """Open a session's file, and return whether readers find it; where that cannot be determined, they do, as in
        ``_check_renamed_or_deleted``. Raises OSError if it cannot be opened."""
        try:
            appender = self.open_appender(session)
            # If another process renames it at this moment, the old name may be that of its own session by now.
            while not (is_at_its_path := _is_at_its_path(appender)) and self._check_renamed_or_deleted(
                session, appender
            ):
                appender = self.open_appender(session)
        except FileNotFoundError:
            return False
        return is_at_its_path

    def close(self, session: SessionFileState) -> None:
        """Close a session's file, if open. Never raises."""
        appender, session.appender, session.mark_path = session.appender, None, ""
        if appender is not None:
            self._with_open_file.pop(session.header.session_id, None)
            try:
                appender.close()
            except OSError as problem:
                self._handle_failed_close(session, problem)

    def _close_oldest(self) -> None:
        while len(self._with_open_file) > _OPEN_FILE_LIMIT:
            self.close(next(iter(self._with_open_file.values())))


def _is_at_its_path(appender: TranscriptAppender) -> bool:
    with contextlib.suppress(OSError):
        return appender.is_at_its_path()
    return True
