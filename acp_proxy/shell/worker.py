"""The store's slower work, away from the relay: lists, the index, fsync. One thread, one queue, in order.

A job that fails is the job's own affair: nothing it raises ends the thread. At the end of the process what is still
queued may be dropped; marks beside the transcripts tell the next process what the index has not seen.
"""

import queue
import threading
import time
from collections.abc import Callable

Job = Callable[[], None]


class Worker:
    def __init__(self, complain: Callable[[str], None]) -> None:
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._complain = complain
        self._thread = threading.Thread(target=self._run, name="store", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, job: Job) -> None:
        self._jobs.put(job)

    def finish(self, seconds: float) -> None:
        """Do what is queued, for so long at most."""
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
