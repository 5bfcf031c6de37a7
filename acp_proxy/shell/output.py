"""One peer's input: whole lines go in, one writer at a time, and the peer sets the pace. And stderr, which sets none.

A write blocks while the peer does not read; nothing is buffered here but messages of ours that nobody may wait for
(``post``). Once the peer is gone, writes do nothing.

Whoever waits for a peer reads nothing meanwhile, not even the other's end. So a wait may also look out for the other
(``speaker``) hanging up, which a pipe or a socket tells before all is read; not on Windows, which has no such wait.
"""

import contextlib
import os
import select
import sys
import threading
from collections import deque
from collections.abc import Callable

_HANG_UP = 0 if sys.platform == "win32" else select.POLLHUP | getattr(select, "POLLRDHUP", 0)
"""The second is a socket's whose other side will say no more, where the system tells it."""

POSTED = 1024 * 1024
"""Bytes of ours that may be on their way to a peer that does not read; what is more waits."""

WIDE = 512 * 1024
"""Bytes that pipes are made to hold where there is much: whoever waits for room, or for more, wakes less often."""

_UNREAD_SECONDS = 1.0
"""So long somebody is waited for who reads stderr slowly: longer than anybody's pause who does."""


class Output:
    def __init__(
        self,
        fd: int,
        on_gone: Callable[[], None],
        speaker: int | None = None,
        on_hang_up: Callable[[], None] = lambda: None,
    ) -> None:
        """With a ``speaker`` the descriptor must be ours alone: it is made non-blocking, where waits can be shared."""
        self.lock = threading.Lock()
        """Held for whole lines; a replay holds it for several."""
        self._fd = fd
        self._on_gone = on_gone
        self._speaker = speaker
        self._on_hang_up = on_hang_up
        self._unfinished = False
        self._in_line = False
        self._post = threading.Condition()
        """For what was posted; held for no write."""
        self._posted: deque[bytes] = deque()
        self._posted_size = 0
        self.is_gone = False
        self.taken = 0
        """How often a peer that had to be waited for has taken something."""
        if speaker is not None and sys.platform != "win32":
            os.set_blocking(fd, False)

    def write(self, data: bytes, *, own: bool = False) -> None:
        with self.lock:
            self.write_locked(data, own=own)

    def post(self, data: bytes, most: float = POSTED) -> None:
        """A message of ours that leaves when it can, behind what was posted before: it waits for who writes now, be it
        a long line whose end never comes, and for the peer to read. Who reads from that peer must wait for neither.

        ``most``: bytes that may be on their way; what is more waits here.
        """
        if not data:
            return
        with self._post:
            self._post.wait_for(lambda: not self._posted or self._posted_size + len(data) <= most)
            self._posted.append(data)
            self._posted_size += len(data)
            if len(self._posted) == 1:
                threading.Thread(target=self._deliver, name="post", daemon=True).start()

    def is_delivered(self, seconds: float | None = None) -> bool:
        """Wait until all that was posted has left, for so long at most."""
        with self._post:
            return self._post.wait_for(lambda: not self._posted, seconds)

    def write_piece(self, data: bytes, *, begins: bool, ends: bool) -> None:
        """A piece of a long line: the lock is held from the first to the last, whichever threads write them."""
        if begins:
            self.lock.acquire()
            self._in_line = True
            self.widen()
        if self._in_line:
            self.write_locked(data)
        if ends:
            self.break_line()

    def widen(self) -> None:
        """There will be much."""
        if not self.is_gone:
            widen(self._fd)

    def break_line(self) -> None:
        """No more pieces of a line under way are written: what else there is may follow, on a line of its own."""
        if self._in_line:
            self._in_line = False
            self.lock.release()

    def write_locked(self, data: bytes, *, own: bool = False) -> None:
        """With the lock held. ``own``: a message of ours, which begins on a line of its own."""
        if self.is_gone or not data:
            return
        if own and self._unfinished:
            data = b"\n" + data
        self._unfinished = not data.endswith(b"\n")
        try:
            written = os.write(self._fd, data)
            if written < len(data):
                self._write_rest(memoryview(data)[written:])
        except BlockingIOError:
            self._write_rest(memoryview(data))
        except OSError:
            self._gone()

    def close(self) -> None:
        """The peer reads to the end of what was written, and then its end."""
        with self.lock:
            if not self.is_gone:
                self.is_gone = True
                os.close(self._fd)

    def _deliver(self) -> None:
        """As long as there is something; what is under way is the first of it."""
        is_more = True
        while is_more:
            self.write(self._posted[0], own=True)
            with self._post:
                self._posted_size -= len(self._posted.popleft())
                self._post.notify_all()
                is_more = bool(self._posted)

    def _write_rest(self, view: memoryview) -> None:
        while view:
            try:
                view = view[os.write(self._fd, view) :]
                self.taken += 1
            except BlockingIOError:  # we, or the other side, made it non-blocking; wait as a blocking one would
                self._wait()
            except OSError:
                self._gone()
                return

    def _wait(self) -> None:
        if self._speaker is None:
            select.select([], [self._fd], [])
            return
        waiting = select.poll()
        waiting.register(self._fd, select.POLLOUT)
        waiting.register(self._speaker, _HANG_UP)
        for fd, told in waiting.poll():
            if fd == self._speaker:
                self._speaker = None
                if told & _HANG_UP:
                    self._on_hang_up()

    def _gone(self) -> None:
        self.is_gone = True
        self._on_gone()


class Stderr:
    """What is said there is for whoever reads it: if nobody does, it is waited for once, and then dropped.

    The descriptor is the agent's as well, so it stays as it is, and nothing is written that would have to wait.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = threading.Lock()
        self._is_read = True

    def write(self, data: bytes) -> None:
        size = len(data) or 1 if sys.platform == "win32" else select.PIPE_BUF  # so much fits where anything does
        with self._lock, contextlib.suppress(OSError):  # nobody listens there
            for at in range(0, len(data), size):
                if not self._takes():
                    return
                os.write(self._fd, data[at : at + size])

    def _takes(self) -> bool:
        if sys.platform != "win32":
            patience = _UNREAD_SECONDS if self._is_read else 0.0
            self._is_read = bool(select.select([], [self._fd], [], patience)[1])
        return self._is_read


STDERR = 2
stderr = Stderr(STDERR)


def widen(fd: int) -> None:
    """Let more be on its way, if it is a pipe that takes less, and the system lets us say so (Linux)."""
    if sys.platform == "linux":
        import fcntl  # only where there is much

        with contextlib.suppress(OSError):
            if fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ) < WIDE:
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, WIDE)


def read(fd: int, size: int) -> bytes:
    """Read what there is; empty at the end, also when the other side was torn off."""
    while True:
        try:
            return os.read(fd, size)
        except BlockingIOError:
            select.select([fd], [], [])
        except OSError:  # a pty whose other side closed says EIO
            return b""
