"""Brings sessions that have changed, such as by the end of a turn, to the disk, into the index, and to other machines,
on the worker."""

import contextlib
from collections import deque
from collections.abc import Callable

from acp_proxy.errors import Unreadable
from acp_proxy.recording.recorder import Recorder
from acp_proxy.relay.worker import Worker


class ChangedSessions:
    """The sessions of one connection that have something new for the disk, the index and other machines."""

    def __init__(self, recorder: Recorder, worker: Worker, warn: Callable[[str], None]) -> None:
        self._recorder = recorder
        self._worker = worker
        self._warn = warn
        self._waiting: deque[tuple[str, str]] = deque()
        """The agent folders and ids of sessions that the disk and the index lack, oldest first."""
        self._is_queued = False
        """Whether ``_fsync_and_index`` is queued, which serves all of them."""

    def add(self, session_id: str) -> None:
        """Let the worker force a session's transcript to the disk and update the index, a moment later, so that quick
        turns share both: an fsync after each would delay the next."""
        try:
            self._waiting.append((self._recorder.find_agent_folder(), session_id))
        except OSError:  # nothing of it is recorded
            return
        if not self._is_queued:
            self._is_queued = True
            self._worker.put_delayed(self._fsync_and_index)

    def _fsync_and_index(self) -> None:
        """Serve what waits. fsync comes first, since the index may be locked for seconds."""
        self._is_queued = False  # before the rest, so that what comes during it is not forgotten
        # Each once, while another thread may append.
        sessions = dict.fromkeys(self._waiting.popleft() for _ in range(len(self._waiting)))
        for session in sessions if self._recorder.fsync_mode != "never" else ():
            try:
                if not self._recorder.store.fsync_transcript(*session):
                    self._waiting.append(session)  # with the next one
            except FileNotFoundError:  # it was deleted
                continue
            except OSError as problem:
                self._recorder.report_loss(session[1], problem)
        self._start_round_now()
        for session in sessions:
            with contextlib.suppress(OSError, Unreadable, ImportError):  # then the next list does it: the mark stays
                self._recorder.store.index_session(*session)

    def request_sync_round(self) -> None:
        """Start a round of sync soon, in a process of its own, if the user has set that up."""
        self._worker.put(self._start_round_now)

    def _start_round_now(self) -> None:
        try:
            from acp_proxy.relay.start_sync_round import start_sync_round

            start_sync_round(self._recorder.store.root, self._warn)
        except ImportError:  # an upgrade has replaced it: the next proxy will do this
            return
