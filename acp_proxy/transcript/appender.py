"""A session's transcript, opened to append to.

Each append is one ``write`` with O_APPEND, so lines of several processes do not interleave, unless the system takes
only a part. After a torn line, the next append starts on a new line. Raises only OSError.
"""

import contextlib
import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from acp_proxy.errors import NewerFormat
from acp_proxy.transcript import file_access, file_format, file_names
from acp_proxy.transcript.file_access import append_parts, lock, open_private, read_at
from acp_proxy.transcript.file_format import Header
from acp_proxy.transcript.reader import read_header

_IDENTITY_SIZE = 4096
"""The bytes read of a header: enough for its id and its time."""
_LOCK_TRIES, _LOCK_PAUSE_SECONDS = 500, 0.001  # half a second for another process to finish a header or to compress
_TORN_END_CHECKS = 20
"""How often a torn end is checked, with pauses: a write takes less time than that."""
_SURELY_UNUSED_SECONDS = 24 * 60 * 60.0
"""Without file locks, a transcript written to within this time counts as in use."""


class TranscriptAppender:
    """An open transcript that several processes may append to."""

    def __init__(self, path: Path, header: Header | None = None, *, creates: bool = True) -> None:
        """Open the file. ``header``: written to an empty file, and, if ``creates``, to a new one. Raises OSError;
        FileNotFoundError if the file is missing and not created, is compressed, or was renamed or removed meanwhile."""
        self.path = path
        self._fd = _open_descriptor(path, create=creates and header is not None)
        self._has_written = False
        try:
            status = os.fstat(self._fd)
        except OSError:
            self.close()
            raise
        self._inode = status.st_dev, status.st_ino
        self._is_torn = False
        self.wrote_header = False
        """Whether this object wrote the header; if not, the file had one already."""
        self.is_moved_by_hand = False
        """Whether its name leads elsewhere and no process of ours has renamed or deleted it. Set by
        ``was_renamed_or_deleted``, so that appending to it need not look for it in directories each time."""
        self._header = b""
        try:
            self._write_header_and_lock(header)
            # Another process may have held the lock until now, to compress the file.
            if not self.wrote_header and not self.is_at_its_path():
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        except OSError:
            self._has_written = False  # the caller hears of this problem
            self.close()
            raise

    def append(self, *parts: bytes | memoryview) -> None:
        """Write whole lines, given in parts. Raises OSError: what was written by then stays, and the next append, or
        the next opening, closes the torn line with a newline."""
        # The kernel puts a write with O_APPEND after whatever other processes have written, so entries need no lock.
        # Only a write that ends early (full disk, kill) leaves a torn line. A newline before the next entry keeps that
        # one whole; the torn one is read as damage, since nobody can know whether the rest was ever written.
        if self._is_torn:
            parts = (b"\n", *parts)
        # Set before the write: if it raises, nobody knows how much of it is in the file.
        self._is_torn = self._has_written = True
        append_parts(self._fd, parts)
        self._is_torn = False

    @property
    def identity(self) -> bytes:
        """Identifies this file for ``has_identity``: device, inode (which may be reused), and the header's
        beginning."""
        return b"%d %d " % self._inode + (self._header or self._read_beginning())

    def has_identity(self, identity: bytes, *, decompressed: bool = False) -> bool:
        """Whether this is the file that had this identity. ``decompressed``: it was just made again from its compressed
        form, so its inode is new. A broken header matches any, because a repair may have changed it."""
        *inode, beginning = identity.split(b" ", 2)
        if not decompressed and inode != [b"%d" % number for number in self._inode]:
            return False
        current = self._read_beginning()
        return current == beginning or not current or not beginning

    def _read_beginning(self) -> bytes:
        """The start of the header, without the newline; empty if the header is broken."""
        line, newline, _ = read_at(self._fd, _IDENTITY_SIZE, 0).partition(b"\n")
        try:
            return line if not newline or read_header(line, self.path)[1] else b""
        except NewerFormat:
            return line

    def is_at_its_path(self) -> bool:
        """Whether the path still leads to this file: another process may have deleted or renamed it. Raises OSError."""
        return self.is_at(self.path)

    def is_at(self, path: Path) -> bool:
        """Whether a path leads to this file. Raises OSError."""
        try:
            status = os.stat(path)
        except FileNotFoundError:
            return False
        return (status.st_dev, status.st_ino) == self._inode

    def is_removed(self) -> bool:
        """Whether the file has no name any more, so that nobody can read it. Raises OSError."""
        return os.fstat(self._fd).st_nlink == 0

    def fsync(self) -> None:
        """Return once everything written is on disk. Raises OSError."""
        file_access.fsync(self._fd)

    def close(self) -> None:
        """Close the file, which cannot be used any more. Raises OSError if what was written through it may be lost."""
        fd, self._fd = self._fd, -1
        try:
            os.close(fd)
        except OSError as problem:
            if self._has_written and problem.errno != errno.EINTR:
                raise

    def _write_header_and_lock(self, header: Header | None) -> None:
        """Take the shared lock that every appending process holds, once the file has a header: one process writes
        ``header`` to an empty file, under the exclusive lock. Raises OSError."""
        # Two processes may create the file at the same moment, and both find it empty. Whoever gets the exclusive lock
        # writes the header (``_write_header`` looks again, now under the lock); the other one gets the shared lock when
        # that is done. It waits, too, if it got the shared lock first: a file without a header must not get entries,
        # and the process that created it may have died before it wrote one. So the loop tries again from the start.
        for _ in range(_LOCK_TRIES):
            if header is not None and not os.fstat(self._fd).st_size:
                with contextlib.suppress(BlockingIOError):
                    lock(self._fd)
                    self._write_header(header)
            try:
                lock(self._fd, shared=True)
            except BlockingIOError:  # another process is writing the header or compresses the file
                time.sleep(_LOCK_PAUSE_SECONDS)
                continue
            if self.wrote_header:  # do not read the end: the disk may allow writes but not reads
                return
            if os.fstat(self._fd).st_size or header is None:
                self._is_torn = self._check_torn_end()
                return
            time.sleep(_LOCK_PAUSE_SECONDS)
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), str(self.path))

    def _check_torn_end(self) -> bool:
        """Whether the file ends without a newline for longer than another process's write takes. A long write may be
        visible in parts: it would get a newline in its middle."""
        for _ in range(_TORN_END_CHECKS):
            size = os.fstat(self._fd).st_size
            if not size or read_at(self._fd, 1, size - 1) == b"\n":
                return False
            time.sleep(_LOCK_PAUSE_SECONDS)
        return True

    def _write_header(self, header: Header) -> None:
        if os.fstat(self._fd).st_size:
            return
        line = file_format.encode_header(header if header.uid else replace(header, uid=file_names.make_uid()))
        try:
            self.append(line)
        except OSError:
            os.ftruncate(self._fd, 0)  # so that the next attempt can write a whole header
            raise
        self.wrote_header, self._header = True, line.rstrip(b"\n")[:_IDENTITY_SIZE]


def _open_descriptor(path: Path, *, create: bool) -> int:
    """A descriptor to append to a transcript. ``create``: unless it exists in compressed form. Raises OSError."""
    flags = os.O_RDWR | os.O_APPEND
    with contextlib.suppress(FileNotFoundError):
        return open_private(path, flags)
    if not create or os.path.lexists(file_names.compressed_path(path)):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    return open_private(path, flags | os.O_CREAT)


def fsync_file(path: Path) -> bool:
    """Return once everything written to a transcript is on disk; False if it cannot be opened now. Raises OSError: what
    was written may be lost (FileNotFoundError: there is none, or it is compressed)."""
    try:
        fd = _open_descriptor(path, create=False)
    except FileNotFoundError:
        raise
    except OSError:
        return False
    try:
        file_access.fsync(fd)
    finally:
        file_access.close(fd)
    return True


def is_in_use(path: Path) -> bool:
    """Whether a process has a transcript open to append; False if that cannot be determined."""
    try:
        with lock_if_unused(path) as is_unused:
            return not is_unused
    except OSError:  # for example, the store is read-only
        return False


@contextlib.contextmanager
def lock_if_unused(path: Path) -> Iterator[bool]:
    """Yields whether nobody has a transcript open to append. While this holds, nobody can open it; a compressed one can
    still be decompressed, unless the caller holds the journal. Raises OSError."""
    try:
        fd = open_private(path, os.O_RDWR)  # some network file systems lock only files opened to write
    except FileNotFoundError:  # it is compressed: appending would decompress it first
        yield True
        return
    try:
        yield lock(fd) or time.time() - os.fstat(fd).st_mtime >= _SURELY_UNUSED_SECONDS
    except BlockingIOError:
        yield False
    finally:
        file_access.close(fd)
