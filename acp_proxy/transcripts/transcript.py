"""One session's file: append whole lines, iterate over what is intact.

Appending: each call is one ``write`` to a descriptor opened with O_APPEND, so lines of several processes do not
interleave; after a torn line the next append starts on a fresh one. Reading never raises on damage (``None`` stands
for a line that cannot be read), only OSError when the file itself cannot, and ``NewerFormat``.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from acp_proxy.transcripts.access import alone, open_private, read_at, share
from acp_proxy.wire import record
from acp_proxy.wire.framing import LineFramer
from acp_proxy.wire.record import Entry, Header

_IDENTITY_SIZE = 4096  # of a header: an id and a time to the millisecond stand in it
_SEARCH_SIZE = 1024 * 1024  # searching is faster than reading: few large reads
_READ_SIZE = 64 * 1024  # larger reads pass malloc's mmap threshold, and cost twice as much


class Transcript:
    """A file that is appended to."""

    def __init__(self, path: Path, header: Header | None = None) -> None:
        """Open what is there, or begin it with a header. Raises OSError (FileNotFoundError: not there, no header)."""
        self.path = path
        create = os.O_CREAT if header is not None else 0
        self._fd = open_private(path, os.O_RDWR | os.O_APPEND | create)
        self._in_line = False
        try:
            share(self._fd)
        except OSError:
            self.close()
            raise
        found = os.fstat(self._fd)
        self._inode = found.st_dev, found.st_ino
        self._torn = found.st_size > 0 and read_at(self._fd, 1, found.st_size - 1) != b"\n"
        if header is not None and found.st_size == 0:
            try:
                self.append(record.encode_header(header))
            except OSError:
                os.ftruncate(self._fd, 0)  # half a header would stand in the way of a whole one
                self.close()
                raise

    def append(self, data: bytes) -> None:
        """Write whole lines. Raises OSError; what was written until then stays, and its torn end is closed later."""
        if self._torn:
            data = b"\n" + data
        self._torn = True
        if (written := os.write(self._fd, data)) < len(data):
            self.append_bytes(memoryview(data)[written:])
        self._torn = False

    @property
    def identity(self) -> bytes:
        """What tells this file from all others, also from one that got its inode later: that, and how it begins."""
        return repr(self._inode).encode() + read_at(self._fd, _IDENTITY_SIZE, 0).split(b"\n")[0]

    def append_piece(self, data: bytes, *, last: bool) -> None:
        """Write a piece of one long line, which nobody else may interrupt (``claim``). Raises OSError."""
        if self._torn and not self._in_line:
            data = b"\n" + data
        self._torn = self._in_line = True
        self.append_bytes(data)
        if last:
            self._torn = self._in_line = False
            share(self._fd)

    def claim(self) -> bool:
        """Until the last piece, nobody else can open the file to append; False where somebody has. Raises OSError."""
        if alone(self._fd):
            return True
        share(self._fd)
        return False

    def append_bytes(self, data: bytes | memoryview) -> None:
        """Write a piece of what will be whole lines. Raises OSError."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]

    def has_its_name(self) -> bool:
        """Whether the file is still the one that readers find: another process may have deleted it."""
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return False
        return (found.st_dev, found.st_ino) == self._inode

    def sync(self) -> None:
        os.fsync(self._fd)

    def close(self) -> None:
        os.close(self._fd)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a transcript: its number (the header's is 0), where it ends, and what it says.

    ``whole``: its newline is there, so nothing more can come to it.
    """

    number: int
    end: int
    whole: bool
    entry: Entry | None


class Reading:
    """A transcript opened to be read, up to a size."""

    def __init__(self, path: Path) -> None:
        """Raises OSError, NewerFormat."""
        self._fd = open_private(path, os.O_RDONLY)
        found = os.fstat(self._fd)
        self.size = found.st_size
        self.inode = found.st_ino
        self._written = found.st_mtime
        try:
            first = next(self._lines(0, self.size), None)
            self.header = record.decode_header(first[1]) if first is not None else None
        except BaseException:
            self.close()
            raise

    def age(self, now: float) -> float:
        """Seconds since the file was last written to."""
        return now - self._written

    def measure(self) -> None:
        """Take in what has been appended since."""
        self.size = os.fstat(self._fd).st_size

    def lines(self, start: int = 0, number: int = 0) -> Iterator[Line]:
        """The lines from an offset on (whose number is given): entries, without the header and without blank lines."""
        version = self.header.version if self.header is not None else record.VERSION
        for end, line in self._lines(start, self.size):
            if (number > 0 or self.header is None) and not line.isspace():
                yield Line(number, end, line.endswith(b"\n"), record.decode_entry(line, version))
            number += 1

    def bytes_behind_header(self) -> Iterator[bytes]:
        """The entries as they lie there."""
        at = next(self._lines(0, self.size), (0, b""))[0]
        while at < self.size and (data := read_at(self._fd, min(_READ_SIZE, self.size - at), at)):
            at += len(data)
            yield data

    @property
    def is_complete(self) -> bool:
        """Whether it holds all that was said: recorded from the beginning, without a gap."""
        if self.header is None or self.header.origin != record.RECORDED:
            return False
        at, overlap = 0, len(record.GAP_MARK) - 1
        while len(data := read_at(self._fd, _SEARCH_SIZE, at)) > overlap:
            if record.GAP_MARK in data:
                return False
            at += len(data) - overlap
        return True

    def close(self) -> None:
        os.close(self._fd)

    def _lines(self, start: int, size: int) -> Iterator[tuple[int, bytes]]:
        framer, at, end = LineFramer(), start, start
        while at < size and (data := read_at(self._fd, min(_READ_SIZE, size - at), at)):
            at += len(data)
            for line in framer.feed(data):
                end += len(line)
                yield end, line
        # A last line without its newline: torn, or whole but for that.
        if rest := framer.rest():
            yield end + len(rest), rest


def copy_transcript(reading: Reading, path: Path, header: Header) -> None:
    """The entries of a transcript under another header, in a new file. Raises OSError; then there is no file."""
    try:
        copy = Transcript(path, header)
        try:
            for data in reading.bytes_behind_header():
                copy.append_bytes(data)
        finally:
            copy.close()
    except BaseException:
        path.unlink(missing_ok=True)
        raise
