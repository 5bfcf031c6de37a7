"""Reads from a pipe, and writes to one peer: whole lines, one writer at a time, at the peer's pace. Also writes to
stderr, without blocking.

A write blocks while the peer does not read. Nothing is buffered, except lines that the thread at hand may not wait for
(``post``). Once the peer is gone, writes do nothing.

A pump that waits for a peer reads nothing in the meantime, not even the end of the other peer. So a wait can also watch
whether the other peer (``watched_fd``) hangs up, which a pipe or socket reports before everything is read. Not on
Windows.
"""

import contextlib
import os
import select
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator

_HANG_UP = 0 if sys.platform == "win32" else select.POLLHUP | getattr(select, "POLLRDHUP", 0)
"""POLLRDHUP, where it exists, reports that the other side of a socket will send no more."""

POSTED_LIMIT = 1024 * 1024
"""Bytes posted to a peer that does not read; beyond this, ``post`` waits."""

WIDE_PIPE_BYTES = 512 * 1024
"""Capacity requested for pipes with much data, in bytes, so that reader and writer wake less often."""

_UNREAD_SECONDS = 1.0
"""How long to wait for a slow reader of stderr: a process that reads it never pauses longer."""


class Output:
    """The input of one peer.

    ``is_gone``: the peer has closed it, or we have.
    """

    def __init__(
        self,
        fd: int,
        on_gone: Callable[[], None],
        watched_fd: int | None = None,
        on_hang_up: Callable[[], None] = lambda: None,
    ) -> None:
        """``fd``: the descriptor. ``on_gone``: called if the peer is gone. ``on_hang_up``: if the ``watched_fd`` hangs
        up.

        With a ``watched_fd``, the descriptor must be ours alone, because it is made non-blocking (not on Windows).
        """
        self.lock = threading.Lock()
        """Held while whole lines are written; sending a transcript holds it for several."""
        self._queue_lock = threading.Lock()
        """Held while waiting for ``lock``. Showing the past, which takes that again and again, would else keep others
        out."""
        self._fd = fd
        self._on_gone = on_gone
        self._watched_fd = watched_fd
        self._on_hang_up = on_hang_up
        self._unfinished = False
        self._post_condition = threading.Condition()
        """Guards what was posted; never held while writing."""
        self._posted: deque[bytes] = deque()
        self._posted_size = 0
        self._is_delivering = False
        """Whether a thread writes what was posted."""
        self.is_gone = False
        self.slow_write_count = 0
        """How often a peer that had to be waited for has accepted data."""
        if watched_fd is not None and sys.platform != "win32":
            os.set_blocking(fd, False)

    def write(self, data: bytes, *, is_own: bool = False) -> None:
        """Write whole lines. ``is_own``: our own message, which begins on a new line."""
        if not self.lock.acquire(blocking=False):
            self._acquire_in_turn()
        try:
            self.write_locked(data, is_own=is_own)
        finally:
            self.lock.release()

    @contextlib.contextmanager
    def reserve(self) -> Iterator[None]:
        """Hold the lock, after those that wait for it, for several lines or for one that is not known yet."""
        self._acquire_in_turn()
        try:
            yield
        finally:
            self.lock.release()

    def _acquire_in_turn(self) -> None:
        with self._queue_lock:
            self.lock.acquire()

    def post(self, data: bytes, limit: float = POSTED_LIMIT) -> None:
        """Queue lines that the caller may not wait for. They are written after those posted before, once the peer reads
        and no other writer is busy, and begin on a new line.

        ``limit``: if more bytes than this are waiting, this waits.
        """
        # A thread that reads from this peer must use this instead of ``write``. A peer may read nothing until somebody
        # has read what it writes: most agents and editors are a loop that writes in the middle of handling a message.
        # If the reader waited for it here, both would wait forever. Nor may it wait for another writer, which may be in
        # a line that passes unread and never ends.
        if not data:
            return
        with self._post_condition:
            self._start_delivering()
            self._post_condition.wait_for(lambda: not self._is_delivering or self._posted_size + len(data) <= limit)
            self._posted.append(data)
            self._posted_size += len(data)
            self._start_delivering()

    def wait_until_written(self, seconds: float | None = None) -> bool:
        """Wait until everything posted is written, for at most ``seconds``. Returns whether it is."""
        with self._post_condition:
            self._start_delivering()
            if not self._is_delivering:
                return not self._posted
            return self._post_condition.wait_for(lambda: not self._posted, seconds)

    def _start_delivering(self) -> None:
        """Start the thread that writes what was posted, unless it runs. For a holder of the condition."""
        if self._posted and not self._is_delivering:
            with contextlib.suppress(RuntimeError):  # no thread can start now: the next message tries again
                threading.Thread(target=self._deliver, name="post", daemon=True).start()
                self._is_delivering = True

    def widen(self) -> None:
        """Prepare for much data."""
        if not self.is_gone:
            widen(self._fd)

    def write_locked(self, data: bytes, *, is_own: bool = False) -> None:
        """As ``write``, for a caller that holds the lock."""
        if self.is_gone or not data:
            return
        if is_own and self._unfinished:
            data = b"\n" + data
        self._unfinished = not data.endswith(b"\n")
        if len(data) > WIDE_PIPE_BYTES:
            self.widen()
        try:
            written = os.write(self._fd, data)
            if written < len(data):
                self._write_rest(memoryview(data)[written:])
        except BlockingIOError:
            self._write_rest(memoryview(data))
        except OSError:
            self._set_gone()

    def close(self) -> None:
        """Close the descriptor: the peer reads what was written, and then the end. What was posted and is not written
        is lost."""
        with self.lock:
            if not self.is_gone:
                self.is_gone = True
                os.close(self._fd)

    def _deliver(self) -> None:
        """Write posted messages until there are none; the one being written is the first."""
        is_more = True
        while is_more:
            self.write(self._posted[0], is_own=True)
            with self._post_condition:
                self._posted_size -= len(self._posted.popleft())
                self._post_condition.notify_all()
                self._is_delivering = is_more = bool(self._posted)

    def _write_rest(self, view: memoryview) -> None:
        while view:
            try:
                view = view[os.write(self._fd, view) :]
                self.slow_write_count += 1
            except BlockingIOError:  # the descriptor is non-blocking: wait as a blocking one would
                self._wait()
            except OSError:
                self._set_gone()
                return

    def _wait(self) -> None:
        if self._watched_fd is None:
            select.select([], [self._fd], [])
            return
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        poll.register(self._watched_fd, _HANG_UP)
        for fd, events in poll.poll():
            if fd == self._watched_fd:
                self._watched_fd = None
                if events & _HANG_UP:
                    self._on_hang_up()

    def _set_gone(self) -> None:
        self.is_gone = True
        self._on_gone()


class Stderr:
    """Writes messages to stderr without ever blocking on it: if nobody reads it, waits once, then drops messages.

    The agent has the same descriptor, so it must stay blocking; nothing is written that would have to wait.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = threading.Lock()
        self._has_reader = True

    def write(self, data: bytes) -> None:
        """Write one message, or drop it."""
        size = len(data) or 1 if sys.platform == "win32" else select.PIPE_BUF  # if anything fits, this much does
        with self._lock, contextlib.suppress(OSError):  # stderr is closed
            for start in range(0, len(data), size):
                if not self._wait_until_writable():
                    return
                os.write(self._fd, data[start : start + size])

    def _wait_until_writable(self) -> bool:
        if sys.platform != "win32":
            patience = _UNREAD_SECONDS if self._has_reader else 0.0
            self._has_reader = bool(select.select([], [self._fd], [], patience)[1])
        return self._has_reader


STDERR = 2
stderr = Stderr(STDERR)


def widen(fd: int) -> None:
    """Enlarge a pipe's capacity, where the system allows that (Linux)."""
    if sys.platform == "linux":
        import fcntl  # only needed for much data

        with contextlib.suppress(OSError):
            if fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ) < WIDE_PIPE_BYTES:
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, WIDE_PIPE_BYTES)


def read(fd: int, size: int) -> bytes:
    """Read what is available; empty at the end, even if the other side was closed abruptly."""
    while True:
        try:
            return os.read(fd, size)
        except BlockingIOError:
            select.select([fd], [], [])
        except OSError:  # EIO: the other side of a pty was closed
            return b""
