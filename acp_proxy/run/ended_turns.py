"""Brings ended turns to the disk, into the index, and to other machines, on the worker."""

import contextlib
import math
import time
from collections import deque
from collections.abc import Callable

from acp_proxy.errors import Unreadable
from acp_proxy.recording.recorder import Recorder
from acp_proxy.run.worker import DELAY_SECONDS, Worker


class EndedTurns:
    """The turns of one connection that have ended."""

    def __init__(self, recorder: Recorder, worker: Worker, warn: Callable[[str], None]) -> None:
        self._recorder = recorder
        self._worker = worker
        self._warn = warn
        self._unsynced: deque[tuple[str, str]] = deque()
        self._unindexed: deque[tuple[str, str]] = deque()
        """The agents and sessions whose turns have ended since, oldest first."""
        self._is_put_off = False
        """Whether ``_finish`` is queued, which serves all of them."""
        self._synced_at = -math.inf
        """When the last fsync began, monotonic time. One after every quick turn would delay the next turn."""

    def add(self, session_id: str) -> None:
        """Let the worker force a session's transcript to the disk, and a moment later update the index. An fsync so
        shortly after another one waits until then too."""
        try:
            ended = self._recorder.agent_folder, session_id
        except OSError:  # nothing of it is recorded
            return
        self._unsynced.append(ended)
        self._unindexed.append(ended)
        if time.monotonic() >= self._synced_at + DELAY_SECONDS:
            self._worker.put(self._sync)
        if not self._is_put_off:
            self._is_put_off = True
            self._worker.put_delayed(self._finish)

    def _sync(self) -> None:
        """Force the transcripts of ended turns to the disk, and exchange them with other machines."""
        if not self._unsynced:
            return
        self._synced_at = time.monotonic()
        ended_turns = _take_all(self._unsynced)
        for ended in ended_turns if self._recorder.fsync != "never" else ():
            try:
                if not self._recorder.store.sync(*ended):
                    self._unsynced.append(ended)  # with the next turn
            except FileNotFoundError:  # it was deleted
                continue
            except OSError as problem:
                self._recorder.report_loss(ended[1], problem)
        self._start_exchange()

    def _finish(self) -> None:
        """Do what still waits after ended turns. fsync comes first, since the index may be locked for seconds."""
        self._is_put_off = False  # before the rest, so that a turn that ends meanwhile is not forgotten
        self._sync()
        for ended in _take_all(self._unindexed):
            with contextlib.suppress(OSError, Unreadable, ImportError):  # then the next list does it: the mark stays
                self._recorder.store.index_session(*ended)

    def exchange(self) -> None:
        """Exchange sessions with other machines, in a process of its own, if the user has set up sync."""
        self._worker.put(self._start_exchange)

    def _start_exchange(self) -> None:
        try:
            from acp_proxy.run.start_sync import start_exchange

            start_exchange(self._recorder.store.root, self._warn)
        except ImportError:  # an upgrade has replaced it: the next proxy will do this
            return


def _take_all(waiting: deque[tuple[str, str]]) -> dict[tuple[str, str], None]:
    """Take what waits now, oldest first and each once, while another thread may append."""
    return dict.fromkeys(waiting.popleft() for _ in range(len(waiting)))
