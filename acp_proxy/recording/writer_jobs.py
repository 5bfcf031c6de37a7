"""What the writer is asked to do, and the threads that wait for that: they wait long for a writer that gets on, and not
for one that hangs in the store.
"""

import contextlib
import errno
import math
import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Generic, TypeVar

STALL_SECONDS = 0.75
"""A writer that has not moved for so long counts as stalled. A user takes less than a second for slowness, and more for
a fault. A disk that wakes up, or a store on a network, may well need half of one."""
PATIENCE_SECONDS = 10.0
"""The longest wait for a store that is slow but gets on, which sets the pace too. Beyond this, a user had rather have
an error."""
_SPARE_WAKEUPS = 2
"""How many waiters are kept to be used again: two threads wait often, one for each direction."""

T = TypeVar("T")


class Stalled(OSError):
    """The store did not answer in time."""

    def __init__(self) -> None:
        super().__init__(errno.ETIMEDOUT, "the store does not answer")


class Wakeup:
    """Wakes a thread that waits, or that will wait next.

    Through a pipe: while a lock is released, Python's interpreter stays taken, so the thread that was woken waits for
    it, then the one that woke it waits, and so on. With locks, a turn takes half as long again. A write to a pipe
    leaves the interpreter free.
    """

    def __init__(self) -> None:
        self._read_fd = self._write_fd = -1
        self._lock = threading.Lock()
        """Serves where no pipe does: Windows cannot wait for one, and there may be no descriptor left."""
        self._lock.acquire()
        if sys.platform != "win32":
            with suppress(OSError):
                self._read_fd, self._write_fd = os.pipe()
                os.set_blocking(self._write_fd, False)
                self._poll = select.poll()
                self._poll.register(self._read_fd, select.POLLIN)

    def __del__(self) -> None:
        if self._read_fd >= 0:  # not before: a thread that was given up may still use them
            os.close(self._read_fd)
            os.close(self._write_fd)

    def send(self) -> None:
        """Let the wait under way, or the next one, return. Never waits."""
        with suppress(BlockingIOError, RuntimeError):  # it was sent before: often, or once
            if self._write_fd >= 0:
                os.write(self._write_fd, b"!")
            else:
                self._lock.release()

    def wait(self, seconds: float = math.inf) -> bool:
        """Wait until it is sent, for at most ``seconds``; returns whether it was, since the last wait."""
        is_limited = seconds < math.inf
        if self._read_fd < 0:
            return self._lock.acquire(timeout=seconds if is_limited else -1)
        is_sent = bool(self._poll.poll(seconds * 1000 if is_limited else None))
        if is_sent:
            os.read(self._read_fd, 1024)
        return is_sent


class WriterJob(Generic[T]):
    """An action for the writer. ``done_lock``: the writer releases it once the action was run or left out. ``waiter``:
    of the thread that waits for that."""

    def __init__(self, action: Callable[[], T]) -> None:
        self.done_lock = threading.Lock()
        self.done_lock.acquire()
        self.waiter: Wakeup | None = None
        self._action = action
        self._claim = threading.Lock()
        self._results: list[T] = []
        self._problem: Exception | None = None

    def run(self) -> None:
        """Run it, unless it was cancelled, and let those that wait for it go on. Never raises."""
        if self._claim.acquire(blocking=False):
            try:
                self._results.append(self._action())
            except Exception as problem:  # noqa: BLE001 - it is raised where the result is wanted
                self._problem = problem
        self.done_lock.release()
        if self.waiter is not None:
            self.waiter.send()

    def cancel(self) -> bool:
        """Never run it. Returns False if it has begun."""
        return self._claim.acquire(blocking=False)

    def result(self) -> T:
        """What the action returned, once it is done. Raises what it raised."""
        if self._problem is not None:
            raise self._problem
        return self._results[0]


class Heartbeat:
    """Whether the writer moves, so that nobody waits for one that hangs in the store. May be read from any thread.

    ``moved_at``: when it last began something else, monotonic time; infinity: it is busy with what takes long and is no
    hang. ``is_stalled``: somebody has waited for too long since; until the writer moves, nobody waits again.
    ``has_ended``: the writer has ended, or is given up.
    """

    def __init__(self) -> None:
        self.moved_at = 0.0
        self.is_stalled = self.has_ended = False

    def beat(self) -> None:
        """The writer goes on."""
        self.moved_at = time.monotonic()
        self.is_stalled = False

    @contextlib.contextmanager
    def allow_long_work(self) -> Iterator[None]:
        """What is done in this context may take long."""
        self.moved_at = math.inf
        try:
            yield
        finally:
            self.beat()


class WriterJobs:
    """The actions that the writer is to run, in order. Before each it writes all entries that were added. ``submit``
    and ``wait`` are called from any thread but the writer, ``queue`` is emptied by the writer."""

    def __init__(self, heartbeat: Heartbeat, wakeup: Wakeup, on_stall: Callable[[], None]) -> None:
        """``wakeup``: wakes the writer. ``on_stall``: called when somebody has waited for too long."""
        self.queue: deque[WriterJob[object]] = deque()
        self._heartbeat = heartbeat
        self._wakeup = wakeup
        self._on_stall = on_stall
        self._spare_wakeups = [Wakeup() for _ in range(_SPARE_WAKEUPS)]
        """Wakeups that nobody waits with now."""

    def submit(self, action: Callable[[], T]) -> WriterJob[T]:
        """Let the writer run an action once it has written everything added before."""
        job = WriterJob(action)
        self.queue.append(job)  # type: ignore[arg-type]
        self._wakeup.send()
        return job

    def wait(self, job: WriterJob[T]) -> bool:
        """Wait until a job is done; returns whether it is. See ``STALL_SECONDS`` and ``PATIENCE_SECONDS``."""
        if self._heartbeat.is_stalled or self._heartbeat.has_ended:
            return job.done_lock.acquire(blocking=False)
        try:
            waiter = self._spare_wakeups.pop()
        except IndexError:
            waiter = Wakeup()
        job.waiter = waiter
        began_at = time.monotonic()
        seconds_left = STALL_SECONDS
        # One may have been sent for an earlier job, after the wait for that had ended.
        while not (is_done := job.done_lock.acquire(blocking=False)) and seconds_left > 0:
            if not waiter.wait(seconds_left):
                deadline = min(max(began_at, self._heartbeat.moved_at) + STALL_SECONDS, began_at + PATIENCE_SECONDS)
                seconds_left = deadline - time.monotonic()
        # Else it is closed, so that a busy moment leaves no open files behind.
        if len(self._spare_wakeups) < _SPARE_WAKEUPS:
            self._spare_wakeups.append(waiter)
        if is_done:
            return True
        self._heartbeat.is_stalled = True
        if not job.done_lock.acquire(blocking=False):
            self._on_stall()
            return False
        self._heartbeat.is_stalled = False  # it was done at the last moment
        return True
