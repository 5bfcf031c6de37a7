"""The store is one thread's at a time, and nobody waits for one that hangs in it.

Who finds it taken waits a moment, and longer only while who has it gets on. Where that hangs, what there is to put away
is put off until it comes back; it looks once more when it lets go.
"""

import errno
import math
import threading
import time
from collections.abc import Callable

from acp_proxy.recording.backlog import Backlog

STALL_SECONDS = 0.75  # with the watch's own pace, a direction waits for less than a second
PATIENCE_SECONDS = 10.0  # an editor that opens or deletes a session rather waits than be refused


class Stalled(OSError):
    """The store does not answer in time."""

    def __init__(self) -> None:
        super().__init__(errno.ETIMEDOUT, "the store does not answer")


class Gate:
    def __init__(self, backlog: Backlog) -> None:
        self.busy_since: float | None = None
        """When who has the store began what it is at; infinity: it has much to do, which is no store that hangs."""
        self.busy_thread = 0
        self.is_stalled = False
        self._backlog = backlog
        self._taken = threading.Lock()
        self._leaving = threading.Lock()

    @property
    def is_taken(self) -> bool:
        return self._taken.locked()

    def enter(self, patience: float = STALL_SECONDS) -> None:
        """The store is ours until ``leave``. Raises Stalled where another thread hangs in it.

        ``patience``: seconds that it may be busy, and get on.
        """
        is_free = self._taken.acquire(False)
        if not is_free and (self.is_stalled or not self._comes_free(patience)):
            self._backlog.put_off()
            if not self._taken.acquire(blocking=False):  # who has it looks once more when it lets go
                raise Stalled
        self.busy_thread = threading.get_ident()
        self.busy_since = time.monotonic()

    def leave(self) -> None:
        with self._leaving:
            self.busy_since = None
            self.is_stalled = False
        self._taken.release()

    def stall(self, since: float, go_on: Callable[[int], None]) -> bool:
        """Nothing waits for the store from now on; the thread that hangs in it ends this when it comes back.

        ``since``: when it began what it hangs in. ``go_on`` is told which thread that is; it stays meanwhile. False
        where it does not hang any more.
        """
        with self._leaving:
            if self.busy_since != since:
                return False
            self.busy_since = None
            self.is_stalled = True
            self._backlog.put_off()
            go_on(self.busy_thread)
        return True

    def _comes_free(self, patience: float) -> bool:
        """Wait for the store; for longer than a moment only while who has it gets on."""
        until = time.monotonic() + patience
        while True:
            since = self.busy_since
            if self._taken.acquire(timeout=STALL_SECONDS):
                return True
            hangs = self.is_stalled or (self.busy_since == since and since != math.inf)
            if hangs or time.monotonic() >= until:
                return False
