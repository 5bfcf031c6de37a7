"""A transcript compressed as one zstd frame: reading it like the plain file, and making it from one.

Imported only where a compressed file is read or made. Memory is bounded by the window that a frame may request,
whatever the file's size. Damage does not raise: the transcript ends there, and ``is_damaged`` becomes True.
"""

import os
import sys
from collections.abc import Callable, Iterator

from acp_proxy.transcript import private_files
from acp_proxy.transcript.private_files import check_size, read_at

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_LEVEL = 3
"""Faster than a disk in both directions. The highest levels save a fifth more and take five hundred times as long."""
_WINDOW_LOG = 23
"""8 MiB: the memory that a frame may make its reader use. Frames made here request 2 MiB."""
PIECE = 4 * 1024
"""Compressed bytes read at a time. Small, because a damaged piece loses the intact data in it."""
_LONGEST_HEADER = 18
CHUNK = 1024 * 1024
"""Bytes of a transcript handled at a time: a few milliseconds of work."""


class Compressed:
    """An open compressed transcript. Reading forwards is fast; going back starts from the beginning."""

    def __init__(self, fd: int) -> None:
        """Reads the frame's header, or the whole frame if that lacks the size. Raises OSError; TooLarge for a bomb."""
        self._fd = fd
        self._on_disk = os.fstat(fd).st_size
        self.is_damaged = False
        """Whether damage was met, as far as it was read."""
        self.size = 0
        """The transcript's size in bytes, uncompressed."""
        self._begin()
        try:
            size = zstd.get_frame_info(read_at(fd, _LONGEST_HEADER, 0)).decompressed_size
        except zstd.ZstdError:
            self.is_damaged = True
            return
        self.size = self._measure() if size is None else size  # type: ignore[redundant-expr] # the stub omits None
        check_size(self.size, self._on_disk)

    def read(self, size: int, at: int) -> bytes:
        """Bytes at an offset of the transcript: fewer only at its end or where it is damaged. Raises OSError."""
        if at < self._start:
            self._begin()
        # One byte further: only the frame's end carries the checksum.
        while self._start + len(self._buffer) <= at + size and (data := self._read_more()):
            passed = min(max(at - self._start, 0), len(self._buffer))
            del self._buffer[:passed]
            self._start += passed
            self._buffer += data
        skip = at - self._start
        return bytes(self._buffer[skip : skip + size])

    def read_all(self) -> Iterator[bytes]:
        """The whole transcript in chunks. Raises OSError."""
        self._begin()
        yield from iter(self._read_more, b"")

    def _begin(self) -> None:
        """Start again at the first byte."""
        self._decompressor = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _WINDOW_LOG})
        self._at = 0
        self._start = 0  # offset of the buffer in the transcript
        self._buffer = bytearray()
        self._ended = False

    def _read_more(self) -> bytes:
        """The next bytes of the transcript; empty at its end."""
        while not self._ended:
            piece = b""
            if self._decompressor.needs_input:
                piece = read_at(self._fd, PIECE, self._at)
                self._at += len(piece)
            if self._decompressor.needs_input and not piece:
                self._ended = self.is_damaged = True  # the file ends within the frame
                return b""
            try:
                data = self._decompressor.decompress(piece, CHUNK)
            except zstd.ZstdError:
                self._ended = self.is_damaged = True
                return b""
            self._ended = self._decompressor.eof
            if data:
                return data
        return b""

    def _measure(self) -> int:
        """The size, for a frame without one: another program made it from a stream."""
        size = 0
        for data in self.read_all():
            size += len(data)
            check_size(size, self._on_disk)
        self._begin()
        return size


def read_pieces(read: Callable[[int, int], bytes], size: int) -> Iterator[bytes]:
    """The first ``size`` bytes of a file, in chunks. ``read(size, offset)`` returns its bytes."""
    at = 0
    while at < size and (data := read(min(CHUNK, size - at), at)):
        at += len(data)
        yield data


def compress_chunks(chunks: Iterator[bytes], size: int | None) -> Iterator[bytes]:
    """Compress chunks into one frame, piece by piece.

    ``size``: how many bytes the chunks have together; None: unknown. Raises ValueError if that is wrong.
    """
    options: dict[int, int] = {
        zstd.CompressionParameter.compression_level: _LEVEL,
        zstd.CompressionParameter.content_size_flag: 1,
        zstd.CompressionParameter.checksum_flag: 1,
    }
    compressor = zstd.ZstdCompressor(options=options)
    compressor.set_pledged_input_size(size)
    try:
        for chunk in chunks:
            if data := compressor.compress(chunk):
                yield data
        yield compressor.flush()
    except zstd.ZstdError as problem:
        raise ValueError(f"not {size} bytes") from problem


def write_chunks(fd: int, chunks: Iterator[bytes]) -> int:
    """Write the chunks to a file and wait until they are on disk. Returns the number of bytes. Raises OSError."""
    total = 0
    for chunk in chunks:
        view = memoryview(chunk)
        while view:
            view = view[os.write(fd, view) :]
        total += len(chunk)
    private_files.sync(fd)
    return total
