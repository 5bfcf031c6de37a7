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
from typing import TypeVar

from acp_proxy.errors import Unreadable
from acp_proxy.recording.writer_jobs import STALL_SECONDS
from acp_proxy.relay.pipes import Output

Job = Callable[[], None]
DELAY_SECONDS = 0.1
"""Nobody notices so short a delay of what is put off, and short turns one after another share a job."""
ANSWER_SECONDS = 15.0
"""How long a request, such as a list or a delete, waits for the store. With a locked index a list takes less: it does
without."""
QUESTION_LIMIT = 64
"""The most answers, such as lists, that may wait for the worker; each has a timer. An editor has one or two."""

T = TypeVar("T")


class Worker:
    """The thread and its queue of jobs. ``warn`` is called with a warning for a job that raised."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._delayed: deque[tuple[float, Job]] = deque()
        """The jobs that were put off, with the time at which each is due."""
        self._warn = warn
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, job: Job) -> None:
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
        if (seconds_left := due - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                return self._jobs.get(timeout=seconds_left)
        self._delayed.popleft()
        return job

    def _run_job(self, job: Job) -> None:
        try:
            job()
        except Exception as bug:  # noqa: BLE001 - the conversation must not suffer from a bug here
            self._warn(f"internal error in the store's work: {type(bug).__name__}: {bug}")


class TimedAnswers:
    """Has the worker answer the client's requests, within a limit: if the store hangs, the client gets an answer
    without it."""

    def __init__(self, worker: Worker, client_output: Output) -> None:
        self._worker = worker
        self._client_output = client_output
        self._is_over = False
        self._questions = threading.BoundedSemaphore(QUESTION_LIMIT)

    def end(self) -> None:
        """From now on, nobody is answered."""
        self._is_over = True

    def answer(self, make_answer: Callable[[], bytes], timeout_answer: bytes) -> None:
        """Compute and send an answer on the worker; if that takes too long, send ``timeout_answer`` instead.

        If too many questions are waiting, wait a moment for room, then send ``timeout_answer``. Raises RuntimeError if
        no thread can start.
        """
        if not self._questions.acquire(timeout=STALL_SECONDS):
            self._client_output.post(timeout_answer)
            return
        try:
            claim_answer = self.start_timer(timeout_answer)
        except RuntimeError:  # no thread can start now
            self._questions.release()
            raise

        def work() -> None:
            line = timeout_answer
            try:
                line = make_answer()
            finally:  # even if a bug prevents an answer
                if claim_answer():
                    self._client_output.post(line)
                self._questions.release()

        self._worker.put(work)

    def start_timer(self, timeout_answer: bytes) -> Callable[[], bool]:
        """Send ``timeout_answer`` at the limit, unless the returned function is called before. That returns whether it
        was in time, so that the caller may answer."""
        unanswered = threading.Lock()

        def claim_answer() -> bool:
            timer.cancel()
            return unanswered.acquire(blocking=False) and not self._is_over

        def expire() -> None:
            if claim_answer():
                self._client_output.post(timeout_answer)

        timer = threading.Timer(ANSWER_SECONDS, expire)
        timer.daemon = True
        timer.start()
        return claim_answer

    def ask_in_time(self, question: Callable[[], T], default: T, seconds: float = STALL_SECONDS) -> T:
        """What ``question`` returns on the worker; ``default`` if that takes more than ``seconds``, or if the store
        cannot say. It must raise nothing else.

        The lines after the current one wait, so that nothing overtakes it.
        """
        answers: queue.SimpleQueue[T] = queue.SimpleQueue()

        def work() -> None:
            try:
                answers.put(question())
            except (OSError, Unreadable, ImportError):
                answers.put(default)

        self._worker.put(work)
        try:
            return answers.get(timeout=seconds)
        except queue.Empty:
            return default
