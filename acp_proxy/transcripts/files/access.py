"""Who may touch the store: directories 0700, files 0600, and nothing where somebody else could write.

Raises ``StoreRefused`` with the command that mends it. Modes and owners mean nothing on Windows, and are not looked at.
"""

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from acp_proxy.errors import StoreRefused

_PRIVATE_DIRECTORY = 0o700
_PRIVATE_FILE = 0o600
_OWNER_WRITES = stat.S_IWUSR | stat.S_IXUSR
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})
PRIVATE_UMASK = 0o077
"""For a process that writes to a store: the modes above come out exactly."""


def prepare(root: Path) -> None:
    """Make the store's directory if it is missing, and refuse it if others could write to it, or we cannot."""
    make_root(root)
    if (refused := only_read(root)) is not None:
        raise refused


def make_root(root: Path) -> None:
    """Make the store's directory if it is missing, without a check that it can be written to."""
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


def only_read(root: Path) -> StoreRefused | None:
    """Why nothing can be written to the store, if so, and what to do about it."""
    if os.access(root, os.W_OK | os.X_OK):
        return None
    advice = "Choose another place with --store."
    try:
        mode, is_mounted_so = os.stat(root).st_mode, _is_on_what_is_read_only(root)
    except OSError as problem:  # it has gone meanwhile
        return StoreRefused(f"{root} cannot be used: {problem.strerror}. {advice}")
    if is_mounted_so:
        advice = (
            "Mount that writable, or choose another place with --store. What is kept there can be read, and exported."
        )
        return StoreRefused(f"{root} cannot be written to: its file system is read-only. {advice}")
    if mode & _OWNER_WRITES != _OWNER_WRITES:
        return StoreRefused(f"{root} cannot be written to. Run: chmod 700 {root}")
    reason = "the system protects it (a snapshot, a flag, a sandbox)"
    return StoreRefused(f"{root} cannot be written to, although its mode allows it: {reason}. {advice}")


def _is_on_what_is_read_only(path: Path) -> bool:
    """Raises OSError."""
    return hasattr(os, "statvfs") and bool(os.statvfs(path).f_flag & os.ST_RDONLY)  # not on Windows


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
    """Make a directory inside the store; a link in its place is refused. Raises OSError, StoreRefused."""
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
        _make(path)
    except FileNotFoundError:
        if path.parent == path:
            raise
        make_directory(path.parent)
        _make(path)  # in /proc, and in a directory that was removed, there is none to be made


def _make(path: Path) -> None:
    try:
        os.mkdir(path, _PRIVATE_DIRECTORY)
    except FileExistsError:  # another process may have made it meanwhile
        if not path.is_dir():
            raise


def open_private(path: Path, flags: int) -> int:
    """A file descriptor; a file that this makes is 0600. Never follows a link at the last step.

    Raises OSError, also for what is no file: a pipe in its place would be waited for, forever.
    """
    extra = 0
    for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY", "O_NONBLOCK"):
        extra |= getattr(os, name, 0)
    fd = os.open(path, flags | extra, _PRIVATE_FILE)
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(number, os.strerror(number), str(path))
    return fd


def check_database(path: Path) -> None:
    """Check a database file without opening it.

    Whoever closes a file gives up the locks that SQLite has on it in this process. Another process would then take its
    log away, in the middle of what we write. Raises OSError.
    """
    mode = os.lstat(path).st_mode
    number = 0
    if stat.S_ISLNK(mode):
        number = errno.ELOOP
    elif not stat.S_ISREG(mode):
        number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
    elif not os.access(path, os.R_OK | os.W_OK):
        number = errno.EACCES
    if number:
        raise OSError(number, os.strerror(number), str(path))


def make_private(path: Path) -> None:
    """For us alone, what was there before. Raises OSError."""
    os.chmod(path, _PRIVATE_DIRECTORY if path.is_dir() else _PRIVATE_FILE)


def read_at(fd: int, size: int, at: int) -> bytes:
    """Bytes from a place of a file that one thread reads."""
    if hasattr(os, "pread"):  # not on Windows
        return os.pread(fd, size, at)
    os.lseek(fd, at, os.SEEK_SET)
    return os.read(fd, size)


def write_at(fd: int, data: bytes, at: int) -> None:
    """Bytes to a place of a file that was not opened to be appended to. Raises OSError."""
    view = memoryview(data)
    while view:
        if hasattr(os, "pwrite"):
            done = os.pwrite(fd, view, at)
        else:  # Windows
            os.lseek(fd, at, os.SEEK_SET)
            done = os.write(fd, view)
        view, at = view[done:], at + done


BLOCK = 4096
"""File systems that share blocks between files do so only where both parts begin, and end, with a block: of this size,
as they are usually made."""


def copy_in_kernel(source: int, start: int, out: int, at: int, size: int) -> int:
    """Copy a part of one open file into another, as cheaply as its file system can: it may share the blocks.

    How many bytes that were, from the first on; perhaps none: then they are to be read and written.
    """
    if not hasattr(os, "copy_file_range"):  # Linux
        return 0
    try:
        return os.copy_file_range(source, out, size, start, at)
    except OSError:  # what is wrong with the disk, reading and writing tell
        return 0


def lock(fd: int, *, shared: bool = False, wait: bool = False) -> bool:
    """An open file for us alone, or for us among others who share it, until it is closed or locked otherwise.

    False where there are no such locks (Windows, some network file systems). Raises BlockingIOError where somebody
    else's is in the way and we do not wait; OSError.
    """
    if sys.platform == "win32":
        return False
    import fcntl

    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(fd, kind if wait else kind | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError as problem:
        if problem.errno not in _NO_LOCKS:
            raise
        return False
    return True


def touch(path: Path) -> None:
    os.close(open_private(path, os.O_WRONLY | os.O_CREAT))


@contextmanager
def alone_in(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """No other process is in here meanwhile (Windows: nobody is kept out). Raises BlockingIOError, OSError."""
    if sys.platform == "win32":
        yield
        return
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        lock(fd, wait=wait)
        yield
    finally:
        os.close(fd)
