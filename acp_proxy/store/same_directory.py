"""Compares directories: links are resolved, even if the directory does not exist, and trailing slashes are ignored.

Windows paths are compared by the rules of Windows on every system, because editors next to WSL send them, each spelled
in its own way.

A directory on a network may never answer, and whoever resolves its links waits with it: lists, and the index, which is
locked meanwhile. So a thread of its own resolves them, which is left behind then.
"""

import ntpath
import os
import queue
import re
import sys
import threading

_LONGEST_PATH = 32 * 1024
"""The most characters of a path: no system has longer ones, and resolving takes quadratic time."""
_WINDOWS = re.compile(r"[A-Za-z]:[\\/]|\\\\[^\\/]")
"""The start of a Windows path: a drive or a server. Two forward slashes count only on Windows itself."""

_ANSWER_SECONDS = 2.0
"""How long a directory is waited for."""
_STUCK_ANSWER_SECONDS = 0.05
"""How long, while another one has not answered: it may be on the same network."""
_STUCK_LIMIT = 8
"""While so many have not answered, no other is asked."""


class _LinkThread(threading.Thread):
    """Resolves the links in one path after another."""

    def __init__(self) -> None:
        super().__init__(name="resolve links", daemon=True)
        self._paths = queue.SimpleQueue[str | None]()
        self._resolved_paths = queue.SimpleQueue[str]()

    def run(self) -> None:
        while (path := self._paths.get()) is not None:
            try:
                self._resolved_paths.put(os.path.realpath(path))
            except (
                ValueError,
                OSError,
            ):  # no file system has NUL or lone surrogates in names; or this directory is gone
                self._resolved_paths.put(path)

    def resolve(self, path: str, seconds: float) -> str | None:
        """The path with its links resolved. None: that takes longer than this, and then the thread ends with it."""
        self._paths.put(path)
        try:
            return self._resolved_paths.get(timeout=seconds)
        except queue.Empty:
            self._paths.put(None)
            return None


class _LinkResolver:
    """Resolves links, and never waits for long."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: _LinkThread | None = None
        self._stuck_threads: list[_LinkThread] = []

    def resolve(self, path: str) -> str | None:
        """The path with its links resolved; None if its directory does not answer, or no thread can start."""
        with self._lock:
            self._stuck_threads = [thread for thread in self._stuck_threads if thread.is_alive()]
            if len(self._stuck_threads) >= _STUCK_LIMIT:
                return None
            if self._thread is None or not self._thread.is_alive():  # the latter in a forked process
                self._thread = _LinkThread()
                try:
                    self._thread.start()
                except RuntimeError:
                    return None
            thread, self._thread = self._thread, None  # one whose answer nobody has taken serves no other path
            resolved = thread.resolve(path, _STUCK_ANSWER_SECONDS if self._stuck_threads else _ANSWER_SECONDS)
            if resolved is None:
                self._stuck_threads.append(thread)
            else:
                self._thread = thread
            return resolved


_link_resolver = _LinkResolver()


def is_windows_path(path: str) -> bool:
    """Whether this is an absolute Windows path."""
    return _WINDOWS.match(path) is not None


def resolve_directory(path: str) -> str:
    """The form of a directory's path that is compared: links resolved, unless it does not answer, then normalized."""
    is_foreign = is_windows_path(path) and sys.platform != "win32"
    resolved = _link_resolver.resolve(path) if len(path) <= _LONGEST_PATH and not is_foreign else None
    return normalize_directory(resolved if resolved is not None else path)


def normalize_directory(path: str) -> str:
    """The path as given, but normalized: no trailing slash, no dots; a Windows path in lower case with backslashes."""
    if is_windows_path(path):
        return ntpath.normcase(ntpath.normpath(path)).rstrip("\\")
    normalized = os.path.normcase(os.path.normpath(path))
    if sys.platform == "darwin" and normalized.startswith("/private/tmp/"):
        return normalized.removeprefix("/private")
    return normalized[1:] if normalized.startswith("//") and sys.platform != "win32" else normalized


def is_inside(path: str, directory: str) -> bool:
    """Whether ``path`` is ``directory``, or below it; both as ``resolve_directory`` returns them."""
    first, end = find_range_below(directory)
    return path == directory or first <= path < end


def find_range_below(path: str) -> tuple[str, str]:
    """The range of texts, ``first <= text < end``, that has the paths of all directories below ``path``. All of them as
    ``resolve_directory`` returns them, or all as ``normalize_directory`` does."""
    separator = "\\" if is_windows_path(f"{path}\\") or sys.platform == "win32" else "/"
    beginning = path.removesuffix(separator)
    return beginning + separator, beginning + chr(ord(separator) + 1)
