"""Copies the parents' entries into forks' transcripts while the conversation continues.

One copy at a time, on a thread that lives as long as there is something to copy. If the store fails or the process
ends, the copy is completed the next time the fork is read.
"""

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

from acp_proxy.errors import errno_name
from acp_proxy.store.store import Reading, Store

_OPEN_PARENTS = 16
"""Parents' files kept open, so that deleting a parent takes nothing from its fork. Others are opened later."""


class Copies:
    """The forks whose copies are not complete. May be used from any thread."""

    def __init__(self, store: Store, warn: Callable[[str], None]) -> None:
        self._store = store
        self._warn = warn
        self._warned = False
        self._waiting: dict[Path, Reading | None] = {}
        """The parent's transcript by the fork's, in order; None: to be opened when it is copied."""
        self._failed: dict[Path, OSError] = {}
        self._is_running = False
        self._changed = threading.Condition()

    def add(self, path: Path, beginning: Reading | None) -> None:
        """Copy the rest of a fork's beginning. ``beginning``: its ``Transcript.beginning``."""
        with self._changed:
            if beginning is not None and (path in self._waiting or len(self._waiting) >= _OPEN_PARENTS):
                beginning.close()
                beginning = None
            self._failed.pop(path, None)
            self._waiting.setdefault(path, beginning)
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name="fork", daemon=True).start()

    def wait(self, path: Path, seconds: float) -> None:
        """Wait until a transcript is complete.

        Raises OSError: the problem that prevented it, or ETIMEDOUT if it takes longer than ``seconds``.
        """
        self.add(path, None)
        with self._changed:
            if not self._changed.wait_for(lambda: path not in self._waiting, seconds):
                raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), str(path))
            if path in self._failed:
                raise self._failed[path]

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._is_running = False
                    return
                path, beginning = next(iter(self._waiting.items()))
            problem = self._copied(path, beginning)
            with self._changed:
                del self._waiting[path]
                if problem is not None:
                    self._failed[path] = problem
                self._changed.notify_all()

    def _copied(self, path: Path, beginning: Reading | None) -> OSError | None:
        """Complete one copy; returns the problem if there was one."""
        try:
            self._store.finish_fork(path, beginning)
        except OSError as problem:
            self._warn_once(errno_name(problem))
            return problem
        except Exception as bug:  # noqa: BLE001 - other threads must not wait forever
            self._warn(f"internal error while copying a fork: {type(bug).__name__}: {bug}")
            return OSError(errno.EIO, str(bug))
        finally:
            if beginning is not None:
                beginning.close()
        return None

    def _warn_once(self, what: str) -> None:
        if not self._warned:
            self._warned = True
            self._warn(f"the past of a fork could not be copied: {self._store.root}: {what}. acp-proxy will try again.")
