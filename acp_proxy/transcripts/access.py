"""Who may touch the store: directories 0700, files 0600, and nothing where somebody else could write.

Raises ``StoreRefused`` with the command that mends it. Modes and owners mean nothing on Windows, and are not looked at.
"""

import errno
import os
import stat
import sys
from pathlib import Path

from acp_proxy.errors import StoreRefused

_PRIVATE_DIRECTORY = 0o700
_PRIVATE_FILE = 0o600
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})
PRIVATE_UMASK = 0o077
"""For a process that writes to a store: the modes above come out exactly."""


def prepare(root: Path) -> None:
    """Make the store's directory if it is missing, and refuse it if others could write to it."""
    try:
        make_directory(root)
        found = os.stat(root)
    except FileExistsError as problem:
        raise StoreRefused(
            f"{root} is not a directory. Move it away, or choose another place with --store."
        ) from problem
    except OSError as problem:
        reason = problem.strerror or type(problem).__name__
        raise StoreRefused(f"{root} cannot be used: {reason}. Choose another place with --store.") from problem
    check_owner(root, found)
    if not os.access(root, os.W_OK | os.X_OK):
        raise StoreRefused(f"{root} cannot be written to. Run: chmod 700 {root}")


def check_inside(directory: Path) -> None:
    """Nothing in it is a link, and others can write to nothing below it. Raises StoreRefused, OSError."""
    if sys.platform == "win32":
        return
    for path in directory.iterdir():
        check_link(path)
        if path.is_dir():
            check_owner(path, os.lstat(path))


def check_link(path: Path) -> None:
    """Not one in the place of something of ours. Raises StoreRefused."""
    if path.is_symlink():
        raise StoreRefused(f"{path} is a link. Put what it leads to in its place; to do without it, run: rm {path}")


def make_inner_directory(path: Path) -> None:
    """The same as ``make_directory``, where a link will not do. Raises OSError, StoreRefused."""
    make_directory(path)
    check_link(path)
    check_owner(path, os.lstat(path))


def check_owner(root: Path, found: os.stat_result) -> None:
    if sys.platform == "win32":
        return
    if not stat.S_ISDIR(found.st_mode):
        raise StoreRefused(f"{root} is not a directory. Move it away, or choose another place with --store.")
    if found.st_uid != os.geteuid():
        raise StoreRefused(f"{root} belongs to another user. Choose another place with --store.")
    if found.st_mode & 0o022:
        raise StoreRefused(f"{root} can be written to by others. Run: chmod 700 {root}")


def make_directory(path: Path) -> None:
    """A directory for us alone, whatever the umask says; parents that are missing are made the same way."""
    try:
        os.mkdir(path, _PRIVATE_DIRECTORY)
    except FileExistsError:
        if not path.is_dir():
            raise
    except FileNotFoundError:
        if path.parent == path:
            raise
        make_directory(path.parent)
        make_directory(path)  # which another process may have made meanwhile


def open_private(path: Path, flags: int) -> int:
    """A file descriptor; a file that this makes is 0600. Never follows a link at the last step."""
    extra = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    return os.open(path, flags | extra, _PRIVATE_FILE)


def read_at(fd: int, size: int, at: int) -> bytes:
    """Bytes from a place of a file that one thread reads."""
    if hasattr(os, "pread"):  # not on Windows
        return os.pread(fd, size, at)
    os.lseek(fd, at, os.SEEK_SET)
    return os.read(fd, size)


def lock(fd: int, *, wait: bool) -> None:
    """An open file for us alone, until it is closed. Raises BlockingIOError where another has it and we do not wait.

    Where there are no such locks (some network file systems, Windows) nothing is locked.
    """
    if sys.platform == "win32":
        return
    import fcntl

    try:
        fcntl.flock(fd, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError as problem:
        if problem.errno not in _NO_LOCKS:
            raise


def touch(path: Path) -> None:
    os.close(open_private(path, os.O_WRONLY | os.O_CREAT))


def share(fd: int) -> None:
    """Say that this process appends to the file, among others. Raises OSError while another one has it ``alone``."""
    _lock(fd, alone=False)


def alone(fd: int) -> bool:
    """Have the file for this process alone, until it shares it again; False where others append to it."""
    try:
        return _lock(fd, alone=True)
    except OSError:
        return False


def _lock(fd: int, *, alone: bool) -> bool:
    """False where the system has no such locks; nobody has a file alone there. Raises OSError: others have it."""
    if sys.platform == "win32":
        return False
    import fcntl

    try:
        fcntl.flock(fd, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True
