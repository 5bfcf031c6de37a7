"""Runs the store's slower work away from the relay: lists, the index, fsync. One thread, in order, except for jobs that
are put off.

Jobs handle their own failures: no exception ends the thread. What is queued when the process ends may be lost; marks
tell the next process what the index has not read.
"""

import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable

Job = Callable[[], None]
DELAY_SECONDS = 0.1
"""Nobody notices so short a delay of what is put off, and short turns one after another share a job."""


class Worker:
    """The thread and its queue. ``warn`` is called with a warning for a job that raised."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._delayed: deque[tuple[float, Job]] = deque()
        """The jobs that were put off, with the time at which each is due."""
        self._warn = warn
        self._thread = threading.Thread(target=self._run, name="store", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def put(self, job: Job) -> None:
        """Queue a job."""
        self._jobs.put(job)

    def put_delayed(self, job: Job) -> None:
        """Queue a job for a tenth of a second later, or for the end."""
        due = time.monotonic() + DELAY_SECONDS
        self._jobs.put(lambda: self._delayed.append((due, job)))

    def finish(self, seconds: float) -> None:
        """Run what is queued, for at most ``seconds``; then end the thread."""
        self._jobs.put(None)
        deadline = time.monotonic() + seconds
        while self._thread.is_alive() and time.monotonic() < deadline:
            self._thread.join(deadline - time.monotonic())

    def _run(self) -> None:
        while (job := self._next_job()) is not None:
            self._run_job(job)
        for _, job in self._delayed:
            self._run_job(job)

    def _next_job(self) -> Job | None:
        if not self._delayed:
            return self._jobs.get()
        due, job = self._delayed[0]
        if (left := due - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                return self._jobs.get(timeout=left)
        self._delayed.popleft()
        return job

    def _run_job(self, job: Job) -> None:
        try:
            job()
        except Exception as bug:  # noqa: BLE001 - the conversation must not suffer from a bug here
            self._warn(f"internal error in the store's work: {type(bug).__name__}: {bug}")
