"""Gives the store to one thread at a time, and lets no thread wait for another one that hangs in it.

A thread that finds the store taken waits a moment, and longer only while the other thread makes progress. If that one
hangs, entries are put off until it returns; it writes them before it leaves.
"""

import errno
import math
import threading
import time
from collections.abc import Callable

from acp_proxy.recording.backlog import Backlog

STALL_SECONDS = 0.75  # together with the watch's interval, a pump waits for less than a second
PATIENCE_SECONDS = 10.0  # for opening or deleting a session, waiting is better than failing


class Stalled(OSError):
    """The store did not answer in time."""

    def __init__(self) -> None:
        super().__init__(errno.ETIMEDOUT, "the store does not answer")


class Gate:
    """The lock on the store."""

    def __init__(self, backlog: Backlog) -> None:
        self.busy_since: float | None = None
        """Monotonic time at which the store's thread began its current operation; None: the store is free.

        Infinity: the thread is busy, which does not count as a hang.
        """
        self.busy_thread = 0
        self.is_stalled = False
        self._backlog = backlog
        self._taken = threading.Lock()
        self._leaving = threading.Lock()

    @property
    def is_taken(self) -> bool:
        """Whether a thread has the store."""
        return self._taken.locked()

    def enter(self, patience: float = STALL_SECONDS) -> None:
        """Take the store until ``leave``. Raises Stalled if another thread hangs in it.

        ``patience``: seconds to wait for a thread that makes progress.
        """
        is_free = self._taken.acquire(False)
        if not is_free and (self.is_stalled or not self._comes_free(patience)):
            self._backlog.put_off()
            if not self._taken.acquire(blocking=False):  # its thread looks for late entries when it leaves
                raise Stalled
        self.busy_thread = threading.get_ident()
        self.busy_since = time.monotonic()

    def leave(self) -> None:
        """Release the store, and end a stall."""
        with self._leaving:
            self.busy_since = None
            self.is_stalled = False
        self._taken.release()

    def stall(self, since: float, go_on: Callable[[int], None]) -> bool:
        """Let nothing wait for the store any more, until the thread that hangs in it returns.

        ``since``: the ``busy_since`` of the hanging operation. ``go_on`` is called with that thread's id. Returns False
        if it does not hang any more.
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
        """Wait for the store; after the first moment, only while its thread makes progress."""
        until = time.monotonic() + patience
        while True:
            since = self.busy_since
            if self._taken.acquire(timeout=STALL_SECONDS):
                return True
            hangs = self.is_stalled or (self.busy_since == since and since != math.inf)
            if hangs or time.monotonic() >= until:
                return False
