"""Which sessions recall may show: those of one directory, or of the work tree around it.

A session counts by where its directory leads now, links resolved, so a link in a work tree opens nothing outside it.
"""

import os
import stat
from contextlib import suppress
from dataclasses import dataclass

from acp_proxy.protocol import acp
from acp_proxy.store.same_directory import is_inside, resolve_directory


@dataclass(frozen=True, slots=True)
class RecallScope:
    """The directories whose sessions may be shown. ``root``: a directory, or None for everywhere. ``is_tree``: the
    directories below it count, too."""

    root: str | None
    is_tree: bool = False

    def includes(self, cwd: str | None) -> bool:
        """Whether a session of this directory may be shown."""
        if self.root is None:
            return True
        if cwd is None or not acp.is_absolute(cwd):
            return False
        directory = resolve_directory(cwd)
        return directory == self.root or (self.is_tree and is_inside(directory, self.root))


EVERYWHERE = RecallScope(None)


def find_scope(cwd: str) -> RecallScope:
    """The work tree around a directory: the nearest one above that contains ``.git``, which is not read. Without one,
    the directory alone.

    Never a home directory or one above it, nor one that many users share, such as /tmp.
    """
    start = folder = resolve_directory(cwd)
    homes = [resolve_directory(home) for home in _list_homes()]
    while not (any(is_inside(home, folder) for home in homes) or _is_shared(folder)):
        if os.path.lexists(os.path.join(folder, ".git")):
            return RecallScope(folder, is_tree=True)
        parent = os.path.dirname(folder)
        if parent in ("", folder):
            break
        folder = parent
    return RecallScope(start)


def _list_homes() -> list[str]:
    """The user's home directories: agents may start their servers with another HOME."""
    homes = [os.path.expanduser("~")]
    with suppress(ImportError, KeyError):  # not on Windows; a user without an entry
        from pwd import getpwuid

        homes.append(getpwuid(os.getuid()).pw_dir)
    return [home for home in homes if os.path.isabs(home)]


def _is_shared(folder: str) -> bool:
    """Whether any user may add files to a directory, though not remove those of others."""
    try:
        return bool(os.stat(folder).st_mode & stat.S_ISVTX)
    except (OSError, ValueError):
        return False
