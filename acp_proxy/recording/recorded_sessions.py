"""The recorded sessions, from their beginning until they are forgotten: their turns, deletes, and marks for the index.

Only for the writer (``Recorder``). ``transcript_files`` has their files.
"""

import contextlib
import time
from collections.abc import Callable

from msgspec.structs import replace

from acp_proxy.decisions.effects import BeginTranscript
from acp_proxy.errors import NewerFormat, errno_name
from acp_proxy.protocol import timestamps
from acp_proxy.recording.git_head import GitReader
from acp_proxy.recording.session_file_state import SessionFileState
from acp_proxy.recording.transcript_files import TranscriptFiles
from acp_proxy.recording.writer_jobs import Heartbeat
from acp_proxy.store.proxy_store import ProxyStore
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import Header
from acp_proxy.transcript.file_names import file_name
from acp_proxy.transcript.rewinds import fit_fork_point


class RecordedSessions:
    """The recorded sessions of one connection: when each begins, is prompted, and ends."""

    def __init__(
        self,
        states_by_id: dict[str, SessionFileState],
        files: TranscriptFiles,
        store: ProxyStore,
        heartbeat: Heartbeat,
        find_agent_folder: Callable[[], str],
    ) -> None:
        """``states_by_id``: of the recorded sessions, which ``files`` reads, and this adds and removes."""
        self._states_by_id = states_by_id
        self._files = files
        self._store = store
        self._heartbeat = heartbeat
        self._find_agent_folder = find_agent_folder
        self._git = GitReader()

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._states_by_id

    def begin(self, effect: BeginTranscript, agent_info: dict[str, object], stamp: str) -> None:
        """Begin to record a session. ``agent_info``: the name and version that the agent reported. ``stamp``: when."""
        session = self._states_by_id.get(effect.session_id)
        is_new = effect.origin == file_format.RECORDED
        if session is not None and not session.file_is_deleted and not is_new:
            return
        header = Header(effect.session_id, effect.cwd, effect.origin, stamp, effect.directories, {**agent_info})
        if is_new:  # of one that began earlier, today's branch says nothing
            header = replace(header, git=self._git.read(effect.cwd))
        point = fit_fork_point(effect.fork_point, agent_info.get("name")) if effect.fork_point is not None else None
        self._states_by_id[effect.session_id] = SessionFileState("", header, is_new, effect.parent_id, point)
        if session is not None:
            self._files.close(session)
        if effect.origin == file_format.IMPORTED:  # there may never be a prompt, which would mark it
            self._files.ids_to_mark.add(effect.session_id)
        gap = self._files.find_gap(effect.session_id)
        # The gap is an older session's. A later gap, or one from before it was forgotten, is its own.
        if gap is not None and gap.since < stamp and (is_new or session is not None):
            self._files.drop_gap(effect.session_id)
        parent_gap = self._files.find_gap(effect.parent_id) if effect.parent_id is not None and point is None else None
        if parent_gap is not None:  # the copy lacks the same as its parent, where no note says so yet
            self._files.remember_gap(effect.session_id, parent_gap.since, parent_gap.reason)

        def open_file(session: SessionFileState) -> None:
            appender = self._files.open_appender(session)
            session.is_duplicate_import = effect.origin == file_format.IMPORTED and not appender.wrote_header

        self._files.run_or_suspend(effect.session_id, stamp, open_file)

    def is_duplicate_import(self, session_id: str) -> bool:
        """Whether a line belongs to an import that another process has made."""
        session = self._states_by_id.get(session_id)
        return session is not None and session.is_duplicate_import

    def end_import(self, session_id: str) -> None:
        """What follows is not of an import, whoever has made that."""
        session = self._states_by_id.get(session_id)
        if session is not None:
            session.is_duplicate_import = False

    def begin_turn(self, session_id: str, stamp: str) -> None:
        """Prepare for a prompt: check that the file still has its name, lift a delete, and mark the session."""

        def begin_anew(session: SessionFileState) -> None:
            self._files.close(session)
            session.file_is_deleted = session.was_opened = False
            session.header = replace(session.header, origin=file_format.PARTIAL, created_at=stamp)

        def prepare_file(session: SessionFileState) -> None:
            if session.file_is_deleted:
                begin_anew(session)
                session.must_lift_delete = True
            self._files.lift_delete(session)
            if session.was_opened and not self._files.open_and_check_name(session):
                begin_anew(session)
            appender = self._files.open_appender(session)
            self._files.ids_to_mark.add(session_id)
            session.is_in_turn = True
            # The mark comes before the prompt: after a crash between the two, a list looks at the file in vain. The
            # other way round, no list would ever look, and the turn would be recorded but never shown.
            with contextlib.suppress(OSError):  # tried again after the prompt, which can be recorded without a mark
                self._store.mark(session.agent_folder, session_id, appender)

        self._files.run_or_suspend(session_id, stamp, prepare_file)

    def mark_sessions(self) -> None:
        """Set the marks in ``TranscriptFiles.ids_to_mark``: of sessions that were imported, written between turns or
        with a gap note, or prompted, since another process may have removed that mark before the prompt was written."""
        for session_id in list(self._files.ids_to_mark):
            with contextlib.suppress(OSError):
                session = self._states_by_id.get(session_id)
                mark = self._store.mark(
                    self._find_agent_folder(), session_id, session.appender if session is not None else None
                )
                self._files.ids_to_mark.discard(session_id)
                if session is not None:
                    session.mark_path = mark

    def end_turn(self, session_id: str) -> None:
        """A turn has ended: from now on, the index may remove the session's mark."""
        if (session := self._states_by_id.get(session_id)) is not None:
            session.is_in_turn = False

    def forget(self, session_id: str, stamp: str) -> None:
        """Stop recording a session, with its gap noted if possible. Its transcript stays."""
        session = self._states_by_id.get(session_id)
        if session is not None:
            self._files.try_note_gap(session_id, stamp)
            self._files.close(session)
            del self._states_by_id[session_id]

    def append_remote_turns(self, agent_folder: str, session_id: str) -> None:
        """Add the turns of another machine that wait for a session, unless it is in a turn. Never raises."""
        session = self._states_by_id.get(session_id)
        is_busy = session is not None and (session.is_in_turn or self._files.has_unnoted_gap(session_id))
        if is_busy or not self._store.has_remote_turns(agent_folder, session_id):
            return
        if session is not None:
            self._files.close(session)
        # To write a long transcript anew does not mean that the store hangs.
        with self._heartbeat.allow_long_work(), contextlib.suppress(OSError, NewerFormat, ImportError, ValueError):
            from acp_proxy.store.remote_turns import append_remote_turns

            name = file_name(session_id)
            if append_remote_turns(self._store.layout, agent_folder, name) and session is not None:
                # The file that takes its place is opened as that of a session begun elsewhere.
                session.was_opened = False

    def close_and_check_in_use(self, agent_folder: str, session_id: str) -> bool | None:
        """Close a session's transcript here, and return whether another process has it open to append: one lock cannot
        be told from another. None if that cannot be determined, or the session is in a turn here: then it stays open.
        """
        session = self._states_by_id.get(session_id)
        if session is not None and session.is_in_turn:
            return None
        if session is not None:
            self._files.close(session)
        return self._store.is_in_use(agent_folder, session_id)

    def delete(self, agent_folder: str, session_id: str, *, soft: bool) -> None:
        """As ``ProxyStore.delete``. Raises OSError."""
        session = self._states_by_id.get(session_id)
        if session is not None:
            self._files.close(session)
        try:
            self._store.delete(agent_folder, session_id, soft=soft)
        except OSError as problem:
            if session is not None:  # ``SessionTracker`` records nothing of it until its next prompt; the note says so
                self._files.remember_gap(session_id, timestamps.format_now(time.time()), errno_name(problem))
            raise
        if session is not None:
            session.file_is_deleted = True
        self._files.drop_gap(session_id)
