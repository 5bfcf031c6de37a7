"""File access and permissions: directories are 0700, files 0600, and what others can write to is refused.

A refusal raises ``StoreRefused``, whose text names the command that fixes it. Modes are not checked on Windows.
"""

import errno
import os
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from acp_proxy.errors import StoreRefused

_PRIVATE_DIRECTORY = 0o700
_PRIVATE_FILE = 0o600
_GATHER_FROM_BYTES = 64 * 1024
"""To copy less costs less than to pass the parts to the kernel one by one."""
_PARTS_LIMIT = 1000
"""POSIX systems take at least 1,024 at once; lines of several processes do not mix only if there is one call."""
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})
"""The errors of a lock where the file system has none."""
_NO_SYNC = frozenset({errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EROFS})
"""The errors of fsync where the file system has none."""
PRIVATE_UMASK = 0o077
"""The umask for a process that writes to a store: new files get exactly the modes above."""

if sys.platform == "win32":
    from acp_proxy.transcript.windows_files import append as append_to
else:
    append_to = os.write  # to a file opened with O_APPEND; lines of several processes do not mix


def append_all(fd: int, data: bytes | memoryview) -> None:
    """Write all of ``data`` to a file opened with O_APPEND, usually at once. Raises OSError."""
    if (written := append_to(fd, data)) < len(data):
        view = memoryview(data)[written:]
        while view:
            view = view[append_to(fd, view) :]


def append_parts(fd: int, parts: Sequence[bytes | memoryview]) -> None:
    """Write whole lines, given in parts, to a file opened with O_APPEND; large ones are not copied. Raises OSError."""
    size = sum(map(len, parts))
    if size < _GATHER_FROM_BYTES or len(parts) > _PARTS_LIMIT or sys.platform == "win32":
        append_all(fd, b"".join(parts))
    elif (written := os.writev(fd, parts)) < size:
        for part in parts:
            append_all(fd, memoryview(part)[written:])
            written = max(written - len(part), 0)


def make_reachable(root: Path) -> Path:
    """The path of a store by which every file in it is found, however long its path is."""
    if sys.platform == "win32":
        from acp_proxy.transcript import windows_files

        return Path(windows_files.make_reachable(str(root)))
    return root


def is_temporary(problem: OSError) -> bool:
    """Whether the same call may work later, in the same place."""
    return problem.errno not in (errno.ENOTDIR, errno.EPERM, errno.ENAMETOOLONG)


def format_command(*words: object) -> str:
    """A command for the user to copy."""
    from acp_proxy import shell_quote  # imported late: only advice needs it

    return shell_quote.join(map(str, words))


def format_unlock(path: Path, status: os.stat_result) -> str:
    """The command after which this user can read and write a file or a directory with all in it. ``status``: of what
    cannot be written, which may be inside it."""
    if sys.platform != "win32" and status.st_uid != os.geteuid():
        return format_command("sudo", "chown", "-R", os.geteuid(), path)
    return format_command("chmod", "-R", "u+rwX", path)


def check_inside(directory: Path) -> None:
    """Check that a directory has no links, and no directory that others own or can write to. Raises StoreRefused,
    OSError."""
    if sys.platform == "win32":
        return
    for path in directory.iterdir():
        check_link(path)
        if path.is_dir():
            check_owner(path, os.lstat(path))


def check_link(path: Path) -> None:
    """Check that a path is not a symbolic link. Raises StoreRefused."""
    if path.is_symlink():
        raise StoreRefused(
            f"{path} is a link. Replace it with what it points to, or remove it: {format_command('rm', path)}"
        )


def explain_no_directory(path: Path | str) -> str:
    """Why this cannot be used as a directory, and what to do."""
    if os.path.islink(path) and not os.path.exists(path):
        target = os.path.realpath(path)
        return f"{path} is a link to {target}, which does not exist. Mount its disk, or create the directory: " + (
            format_command("mkdir", "-p", target)
        )
    return f"{path} is not a directory. Move it away, or choose another place with --store."


def make_inner_directory(path: Path) -> None:
    """Create a directory inside the store if it is missing, and check it. Raises OSError, StoreRefused."""
    make_directory(path)
    check_link(path)
    check_owner(path, os.lstat(path))


def check_owner(root: Path, status: os.stat_result) -> None:
    """Check that this is a directory of this user that others cannot write to. Raises StoreRefused."""
    if sys.platform == "win32":
        return
    if not stat.S_ISDIR(status.st_mode):
        raise StoreRefused(explain_no_directory(root))
    if status.st_uid != os.geteuid():
        advice = "Choose another place with --store."
        if os.geteuid() != 0:  # root would take what is another's
            advice = f"Run: {format_unlock(root, status)}. Or choose another place with --store."
        raise StoreRefused(f"{root} belongs to another user. {advice}")
    if status.st_mode & 0o022:
        raise StoreRefused(f"other users can write to {root}. Run: {format_command('chmod', '700', root)}")


def make_directory(path: Path) -> None:
    """Create a directory and its missing parents, all 0700 whatever the umask is. Raises OSError."""
    try:
        _make_one(path)
    except FileNotFoundError:
        if path.parent == path:
            raise
        make_directory(path.parent)
        _make_one(path)  # fails in /proc and in a removed directory, where nothing can be created


def _make_one(path: Path) -> None:
    try:
        os.mkdir(path, _PRIVATE_DIRECTORY)
    except FileExistsError:  # another process may have been faster
        try:
            is_directory = stat.S_ISDIR(os.stat(path).st_mode)  # ``is_dir`` takes some failures (ELOOP) for a no
        except FileNotFoundError:  # a link to nothing
            is_directory = False
        if not is_directory:
            raise


def open_private(path: Path | str, flags: int) -> int:
    """Open a file and return its descriptor; a file that this creates is 0600. Raises OSError, also if the last
    component is a link, or not a regular file: opening a pipe could block forever."""
    if sys.platform == "win32":
        from acp_proxy.transcript.windows_files import open_shared

        return open_shared(str(path), flags)
    extra_flags = 0
    for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK"):
        extra_flags |= getattr(os, name, 0)
    fd = os.open(path, flags | extra_flags, _PRIVATE_FILE)
    try:
        mode = os.fstat(fd).st_mode
        if not stat.S_ISREG(mode):
            number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
            raise OSError(number, os.strerror(number), str(path))
    except OSError:
        close(fd)
        raise
    return fd


def read_at(fd: int, size: int, offset: int) -> bytes:
    """Up to ``size`` bytes at an offset. Not for descriptors shared between threads: Windows moves their position."""
    if hasattr(os, "pread"):  # not on Windows
        return os.pread(fd, size, offset)
    os.lseek(fd, offset, os.SEEK_SET)
    return os.read(fd, size)


def write_at(fd: int, data: bytes, offset: int) -> None:
    """Write all of ``data`` at an offset, to a file not opened with O_APPEND. Raises OSError."""
    view = memoryview(data)
    while view:
        if hasattr(os, "pwrite"):
            written = os.pwrite(fd, view, offset)
        else:  # Windows
            os.lseek(fd, offset, os.SEEK_SET)
            written = os.write(fd, view)
        view, offset = view[written:], offset + written


def lock(fd: int, *, shared: bool = False, wait: bool = False) -> bool:
    """Lock an open file exclusively, or ``shared``, until it is closed or locked again. False where the file system has
    no such locks, as some on networks. Raises OSError; BlockingIOError if another holder is in the way and ``wait`` is
    False."""
    if sys.platform == "win32":
        from acp_proxy.transcript import windows_files

        return windows_files.lock(fd, shared=shared, wait=wait)
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


def has_record_locks(path: Path) -> bool:
    """Whether the file system of this file has the locks that SQLite uses; some on networks have none, or lose them.
    Not for a file of SQLite's: closing it here would end the locks that this process has on it."""
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        fd = open_private(path, os.O_RDONLY)
    except OSError:  # other calls will report a real problem
        return True
    try:
        fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as problem:
        return problem.errno not in _NO_LOCKS
    finally:
        close(fd)
    return True


def fsync(fd: int) -> None:
    """Return once everything written to a file is on disk, or at once where the file system cannot tell. Raises
    OSError: what was written may be lost, even if it can be read. Trying again proves nothing: the kernel reports a
    failure once."""
    try:
        os.fsync(fd)
    except OSError as problem:
        if problem.errno not in _NO_SYNC:
            raise


def close(fd: int) -> None:
    """Close a descriptor through which nothing was written.

    The number is free afterwards, whatever the system reports, and may be another file's at once. So whoever keeps a
    descriptor forgets it first. What was written is closed with ``os.close``, whose error says that it may be lost.
    """
    with suppress(OSError):
        os.close(fd)


def touch(path: Path | str) -> None:
    """Create an empty file if it is missing. Raises OSError."""
    close(open_private(path, os.O_WRONLY | os.O_CREAT))


class TooLarge(OSError):
    """A file has far more bytes than it takes on disk, so it is no transcript: reading it would take all memory."""

    def __init__(self, size: int, disk_size: int) -> None:
        self.text = f"{size // 2**20:,} MiB in {disk_size // 2**10:,} KiB on disk, as no session has"
        self.reason = f"File too large: {self.text}"
        self.advice = "Move it out of the store, or delete it"
        super().__init__(errno.EFBIG, f"{self.reason}. {self.advice}")


_CHECK_FROM_BYTES = 128 * 1024 * 1024
"""Smaller transcripts may take any space: acp-proxy compresses none that is larger."""
_SIZE_RATIO_LIMIT = 1000
"""The most bytes that a larger one may have for each on disk: compressed ones have about thirty."""


def check_size(size: int, disk_size: int) -> None:
    """Raises TooLarge if a transcript of ``size`` bytes cannot come from ``disk_size`` bytes."""
    if size > _CHECK_FROM_BYTES and size > _SIZE_RATIO_LIMIT * disk_size:
        raise TooLarge(size, disk_size)


def check_space(fd: int) -> None:
    """Raises TooLarge for a sparse file; not on Windows, which does not say how much of it there is."""
    status = os.fstat(fd)
    if sys.platform != "win32" and status.st_size > _CHECK_FROM_BYTES:
        check_size(status.st_size, status.st_blocks * 512)
