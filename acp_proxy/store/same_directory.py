"""Compares directories: links are resolved, even if the directory does not exist, and trailing slashes are ignored.

Windows paths are compared by the rules of Windows on every system, because editors next to WSL send them, each spelled
in its own way.
"""

import ntpath
import os
import re
import sys

_LONGEST_PATH = 32 * 1024
"""The most characters of a path: no system has longer ones, and resolving takes quadratic time."""
_WINDOWS = re.compile(r"[A-Za-z]:[\\/]|\\\\[^\\/]")
"""The start of a Windows path: a drive or a server. Two forward slashes count only on Windows itself."""


def is_windows_path(path: str) -> bool:
    """Whether this is an absolute Windows path."""
    return _WINDOWS.match(path) is not None


def resolve_directory(path: str) -> str:
    """The form of a directory's path that is compared: links resolved, then normalized."""
    if len(path) > _LONGEST_PATH or (is_windows_path(path) and sys.platform != "win32"):
        return normalize_directory(path)
    try:
        return normalize_directory(os.path.realpath(path))
    except ValueError:  # NUL or lone surrogates: no file system has such a name
        return normalize_directory(path)


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
