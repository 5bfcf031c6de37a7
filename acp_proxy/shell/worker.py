"""Runs the store's slower work away from the relay: lists, the index, fsync. One thread, in order.

Jobs handle their own failures: no exception ends the thread. What is queued when the process ends may be lost; marks
tell the next process what the index has not read.
"""

import queue
import threading
import time
from collections.abc import Callable

Job = Callable[[], None]


class Worker:
    """The thread and its queue. ``complain`` is called with a warning for a job that raised."""

    def __init__(self, complain: Callable[[str], None]) -> None:
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._complain = complain
        self._thread = threading.Thread(target=self._run, name="store", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def put(self, job: Job) -> None:
        """Queue a job."""
        self._jobs.put(job)

    def finish(self, seconds: float) -> None:
        """Run what is queued, for at most ``seconds``; then end the thread."""
        self._jobs.put(None)
        deadline = time.monotonic() + seconds
        while self._thread.is_alive() and time.monotonic() < deadline:
            self._thread.join(deadline - time.monotonic())

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception as bug:  # noqa: BLE001 - the conversation must not suffer from a bug here
                self._complain(f"internal error in the store's work: {type(bug).__name__}: {bug}")
