"""What forks begin with, copied from their parents while the conversation goes on.

One after the other, on a thread that lives as long as there is something to copy. What trouble with the store, or the
end of the process, leaves undone is done when somebody next wants to read it.
"""

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

from acp_proxy.errors import errno_name
from acp_proxy.transcripts.store import Reading, Store

_OPEN_PARENTS = 16
"""Files that wait open, so that a delete of the parent takes nothing from its fork; of more it is looked for."""


class Copies:
    def __init__(self, store: Store, warn: Callable[[str], None]) -> None:
        self._store = store
        self._warn = warn
        self._warned = False
        self._waiting: dict[Path, Reading | None] = {}
        """By the fork's transcript, the first first; from where it is copied, if that is open."""
        self._failed: dict[Path, OSError] = {}
        self._is_running = False
        self._changed = threading.Condition()

    def add(self, path: Path, beginning: Reading | None) -> None:
        """The transcript of a fork, and what it has to say of its beginning (``Transcript.beginning``)."""
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
        """Until this transcript is whole. Raises OSError: what was in the way, or that it takes longer."""
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
        """What was in the way, if something was."""
        try:
            self._store.finish_fork(path, beginning)
        except OSError as problem:
            self._warn_once(errno_name(problem))
            return problem
        except Exception as bug:  # noqa: BLE001 - who waits for it must not wait for ever
            self._warn(f"internal error while a fork was copied: {type(bug).__name__}: {bug}")
            return OSError(errno.EIO, str(bug))
        finally:
            if beginning is not None:
                beginning.close()
        return None

    def _warn_once(self, what: str) -> None:
        if not self._warned:
            self._warned = True
            self._warn(f"the past of a fork could not be copied yet: {self._store.root}: {what}. It is tried again.")
