"""Directories compared as people mean them: links resolved, whether or not they exist; no trailing slash.

A path of Windows' is compared as Windows does it, wherever this runs: editors beside WSL send such paths, each in a
spelling of its own.
"""

import ntpath
import os
import re
import sys

_LONGEST = 32 * 1024  # characters: no system has longer paths, and following one takes the square of its length
_WINDOWS = re.compile(r"[A-Za-z]:[\\/]|\\\\[^\\/]")
"""How one begins: a drive, or a server. Where two slashes begin a path it is a Unix one, but on Windows itself."""


def is_windows(path: str) -> bool:
    """Whether it names a place in full as Windows has them."""
    return _WINDOWS.match(path) is not None


def canonical(path: str) -> str:
    """The one form of a directory's name by which sessions are compared."""
    if len(path) > _LONGEST or (is_windows(path) and sys.platform != "win32"):
        return spelled(path)
    try:
        return spelled(os.path.realpath(path))
    except ValueError:  # NUL or lone surrogates: no file system has such a name
        return spelled(path)


def spelled(path: str) -> str:
    """The name as it was given, tidied: no trailing slash, no dots; of Windows' ones in one case and one separator."""
    if is_windows(path):
        return ntpath.normcase(ntpath.normpath(path)).rstrip("\\")
    tidy = os.path.normcase(os.path.normpath(path))
    if sys.platform == "darwin" and tidy.startswith("/private/tmp/"):
        return tidy.removeprefix("/private")
    return tidy[1:] if tidy.startswith("//") and sys.platform != "win32" else tidy
