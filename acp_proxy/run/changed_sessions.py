"""Brings sessions whose turn has ended, or whose title has changed, to the disk, into the index, and to other
machines, on the worker."""

import contextlib
import math
import time
from collections import deque
from collections.abc import Callable

from acp_proxy.errors import Unreadable
from acp_proxy.recording.recorder import Recorder
from acp_proxy.run.worker import DELAY_SECONDS, Worker


class ChangedSessions:
    """The sessions of one connection that have something new for the disk, the index and other machines: the end of a
    turn, or a title."""

    def __init__(self, recorder: Recorder, worker: Worker, warn: Callable[[str], None]) -> None:
        self._recorder = recorder
        self._worker = worker
        self._warn = warn
        self._not_fsynced: deque[tuple[str, str]] = deque()
        self._not_indexed: deque[tuple[str, str]] = deque()
        """The agent folders and ids of sessions that the index lacks, oldest first."""
        self._is_index_queued = False
        """Whether ``_fsync_and_index`` is queued, which serves all of them."""
        self._fsynced_at = -math.inf
        """When the last fsync began, monotonic time. One after every quick turn would delay the next turn."""

    def add(self, session_id: str) -> None:
        """Let the worker force a session's transcript to the disk, and a moment later update the index. An fsync so
        shortly after another one waits until then too."""
        try:
            session = self._recorder.find_agent_folder(), session_id
        except OSError:  # nothing of it is recorded
            return
        self._not_fsynced.append(session)
        self._not_indexed.append(session)
        if time.monotonic() >= self._fsynced_at + DELAY_SECONDS:
            self._worker.put(self._fsync_and_start_round)
        if not self._is_index_queued:
            self._is_index_queued = True
            self._worker.put_delayed(self._fsync_and_index)

    def _fsync_and_start_round(self) -> None:
        """Force the transcripts to the disk, and start a round of sync."""
        if not self._not_fsynced:
            return
        self._fsynced_at = time.monotonic()
        not_fsynced = _take_all(self._not_fsynced)
        for session in not_fsynced if self._recorder.fsync != "never" else ():
            try:
                if not self._recorder.store.fsync_transcript(*session):
                    self._not_fsynced.append(session)  # with the next one
            except FileNotFoundError:  # it was deleted
                continue
            except OSError as problem:
                self._recorder.report_loss(session[1], problem)
        self._start_round_now()

    def _fsync_and_index(self) -> None:
        """Force to the disk and index what still waits. fsync comes first, since the index may be locked for
        seconds."""
        self._is_index_queued = False  # before the rest, so that what comes during it is not forgotten
        self._fsync_and_start_round()
        for session in _take_all(self._not_indexed):
            with contextlib.suppress(OSError, Unreadable, ImportError):  # then the next list does it: the mark stays
                self._recorder.store.index_session(*session)

    def start_round(self) -> None:
        """Start a round of sync soon, in a process of its own, if the user has set that up."""
        self._worker.put(self._start_round_now)

    def _start_round_now(self) -> None:
        try:
            from acp_proxy.run.start_sync import start_round

            start_round(self._recorder.store.root, self._warn)
        except ImportError:  # an upgrade has replaced it: the next proxy will do this
            return


def _take_all(sessions: deque[tuple[str, str]]) -> dict[tuple[str, str], None]:
    """Take what waits now, oldest first and each once, while another thread may append."""
    return dict.fromkeys(sessions.popleft() for _ in range(len(sessions)))
