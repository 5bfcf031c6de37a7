"""One session's file, to be appended to.

Each call is one ``write`` to a descriptor opened with O_APPEND, so lines of several processes do not interleave; after
a torn line the next append starts on a fresh one. Raises OSError only.
"""

import contextlib
import errno
import os
import time
from pathlib import Path

from acp_proxy.errors import NewerFormat
from acp_proxy.transcripts.files import names
from acp_proxy.transcripts.files.access import lock, open_private, read_at
from acp_proxy.transcripts.files.reading import Reading, header_of
from acp_proxy.wire import record
from acp_proxy.wire.record import Header

_IDENTITY_SIZE = 4096  # of a header: an id and a time to the millisecond stand in it
_TRIES, _PAUSE_SECONDS = 500, 0.001  # half a second for another process to write its header, or a long line
_WRITES = 20  # looks at a torn end, a pause apart: a write is through in less


class Transcript:
    """A file that is appended to."""

    def __init__(self, path: Path, header: Header | None = None) -> None:
        """Open what is there, or begin it with a header.

        Raises OSError; FileNotFoundError: it is not there (no header), is packed, or lost its name in this moment.
        """
        self.path = path
        self.beginning: Reading | None = None
        """What is still to be copied to its beginning (``forks.finish``), of a fork's."""
        self._fd = _to_append(path, create=header is not None)
        found = os.fstat(self._fd)
        self._inode = found.st_dev, found.st_ino
        self.is_in_line = self._torn = False
        """The first: a long line is under way (``append_piece``)."""
        self.is_begun = False
        """Whether we wrote its header just now; else there was one, or another process was quicker."""
        self._header = b""
        try:
            self._share(header)
            if not self.is_begun and not self.has_its_name():  # who packed it had it alone until now
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        except OSError:
            self.close()
            raise

    def append(self, data: bytes) -> None:
        """Write whole lines. Raises OSError; what was written until then stays, and its torn end is closed later."""
        if self._torn:
            data = b"\n" + data
        self._torn = True
        if self.is_in_line:
            self._end_line()
        if (written := os.write(self._fd, data)) < len(data):
            self.append_bytes(memoryview(data)[written:])
        self._torn = False

    @property
    def identity(self) -> bytes:
        """What tells this file from all others, also from one that got its inode later: that, and how it begins."""
        return b"%d %d " % self._inode + (self._header or self._beginning())

    def is_known_as(self, identity: bytes, *, unpacked: bool = False) -> bool:
        """Whether this is the file that had this identity. A broken header tells nothing, and may be mended by now.

        ``unpacked``: it was made again from its packed form just now.
        """
        *inode, beginning = identity.split(b" ", 2)
        if not unpacked and inode != [b"%d" % number for number in self._inode]:
            return False
        now = self._beginning()
        return now == beginning or not now or not beginning

    def _beginning(self) -> bytes:
        """The header, or how a long one begins; nothing where it is broken."""
        line, newline, _ = read_at(self._fd, _IDENTITY_SIZE, 0).partition(b"\n")
        try:
            return line if not newline or header_of(line, self.path)[1] else b""
        except NewerFormat:
            return line

    def append_piece(self, data: bytes, *, last: bool) -> None:
        """Write a piece of one long line, which nobody else may interrupt (``claim``). Raises OSError."""
        if self._torn and not self.is_in_line:
            data = b"\n" + data
        self._torn = self.is_in_line = True
        self.append_bytes(data)
        if last:
            self._torn = False
            self._end_line()

    def claim(self) -> bool:
        """Until the last piece, nobody else can open the file to append; False where somebody has. Raises OSError."""
        try:
            return lock(self._fd)
        except BlockingIOError:  # it has cost us the lock that we had
            self._share(None)
            return False

    def append_bytes(self, data: bytes | memoryview) -> None:
        """Write a piece of what will be whole lines. Raises OSError."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]

    def has_its_name(self) -> bool:
        """Whether the file is still the one that is found: another process may have deleted it."""
        for form in _forms(self.path):
            with contextlib.suppress(FileNotFoundError):
                found = os.stat(form)
                return (found.st_dev, found.st_ino) == self._inode
        return False

    def sync(self) -> None:
        os.fsync(self._fd)

    def close(self) -> None:
        os.close(self._fd)

    def _end_line(self) -> None:
        self.is_in_line = False
        self._share(None)

    def _share(self, header: Header | None) -> None:
        """Append among others, behind a header; one process alone writes that. Raises OSError."""
        for _ in range(_TRIES):
            if header is not None and not os.fstat(self._fd).st_size:
                with contextlib.suppress(BlockingIOError):
                    lock(self._fd)
                    self._begin(header)
            try:
                lock(self._fd, shared=True)
            except BlockingIOError:  # somebody else is at the header, or in a long line
                time.sleep(_PAUSE_SECONDS)
                continue
            if self.is_begun:  # a disk that can be written to may be one that cannot be read
                return
            if os.fstat(self._fd).st_size or header is None:
                self._torn = self._ends_torn()
                return
            time.sleep(_PAUSE_SECONDS)
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), str(self.path))

    def _ends_torn(self) -> bool:
        """Whether the file ends within a line. In the middle of another process's write it does for a moment."""
        for _ in range(_WRITES):
            size = os.fstat(self._fd).st_size
            if not size or read_at(self._fd, 1, size - 1) == b"\n":
                return False
            time.sleep(_PAUSE_SECONDS)
        return True

    def _begin(self, header: Header) -> None:
        if os.fstat(self._fd).st_size:
            return
        line = record.encode_header(header)
        try:
            self.append(line)
        except OSError:
            os.ftruncate(self._fd, 0)  # half a header would stand in the way of a whole one
            raise
        self.is_begun, self._header = True, line.rstrip(b"\n")[:_IDENTITY_SIZE]


def _to_append(path: Path, *, create: bool) -> int:
    """A file that is not there is made only where it is not packed either. Raises OSError."""
    flags = os.O_RDWR | os.O_APPEND
    for form in _forms(path):
        with contextlib.suppress(FileNotFoundError):
            return open_private(form, flags)
    if not create or os.path.lexists(names.packed(path)):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    return open_private(path, flags | os.O_CREAT)


def sync(path: Path) -> None:
    """What was written to a transcript is on the disk when this returns. Raises OSError."""
    fd = _to_append(path, create=False)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _forms(path: Path) -> tuple[Path, ...]:
    """Where what is appended to lies: by its name, or as a fork that is not whole, or by now by its name."""
    return path, names.forked(path), path
