"""Directories compared as people mean them: links resolved, whether or not they exist; no trailing slash."""

import os
import sys

_LONGEST = 32 * 1024  # characters: no system has longer paths, and following one takes the square of its length


def canonical(path: str) -> str:
    """The one form of a directory's name by which sessions are compared."""
    if len(path) > _LONGEST:
        return spelled(path)
    try:
        return spelled(os.path.realpath(path))
    except ValueError:  # NUL or lone surrogates: no file system has such a name
        return spelled(path)


def spelled(path: str) -> str:
    """The name as it was given, tidied: no trailing slash, no dots; on Windows one case and one separator."""
    tidy = os.path.normcase(os.path.normpath(path))
    if sys.platform == "darwin" and tidy.startswith("/private/tmp/"):
        return tidy.removeprefix("/private")
    return tidy[1:] if tidy.startswith("//") and sys.platform != "win32" else tidy
