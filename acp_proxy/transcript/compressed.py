"""A transcript compressed as one zstd frame: reading it like the plain file, and making it from one.

Imported only where a compressed file is read or made. Memory is bounded by the window that a frame may request,
whatever the file's size. Damage does not raise: the transcript ends there, and ``is_damaged`` becomes True.
"""

import os
import sys
from collections.abc import Callable, Iterator

from acp_proxy.transcript import file_access
from acp_proxy.transcript.file_access import check_size, read_at

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


class CompressedTranscript:
    """An open compressed transcript. Reading forwards is fast; going back starts from the beginning."""

    def __init__(self, fd: int) -> None:
        """Reads the frame's header, or the whole frame if that lacks the size. Raises OSError; TooLarge for a bomb."""
        self._fd = fd
        self._disk_size = os.fstat(fd).st_size
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
        check_size(self.size, self._disk_size)

    def read(self, size: int, offset: int) -> bytes:
        """Bytes at an offset of the transcript: fewer only at its end or where it is damaged. Raises OSError."""
        if offset < self._start:
            self._begin()
        # One byte further: only the frame's end carries the checksum.
        while self._start + len(self._buffer) <= offset + size and (data := self._read_more()):
            passed_size = min(max(offset - self._start, 0), len(self._buffer))
            del self._buffer[:passed_size]
            self._start += passed_size
            self._buffer += data
        skip = offset - self._start
        return bytes(self._buffer[skip : skip + size])

    def read_all(self) -> Iterator[bytes]:
        """The whole transcript in chunks. Raises OSError."""
        self._begin()
        yield from iter(self._read_more, b"")

    def _begin(self) -> None:
        self._decompressor = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _WINDOW_LOG})
        self._file_offset = 0
        self._start = 0
        """The offset of the buffer in the transcript."""
        self._buffer = bytearray()
        self._has_ended = False

    def _read_more(self) -> bytes:
        """The next bytes of the transcript; empty at its end."""
        while not self._has_ended:
            piece = b""
            if self._decompressor.needs_input:
                piece = read_at(self._fd, PIECE, self._file_offset)
                self._file_offset += len(piece)
            if self._decompressor.needs_input and not piece:
                self._has_ended = self.is_damaged = True  # the file ends within the frame
                return b""
            try:
                data = self._decompressor.decompress(piece, CHUNK)
            except zstd.ZstdError:
                self._has_ended = self.is_damaged = True
                return b""
            self._has_ended = self._decompressor.eof
            if data:
                return data
        return b""

    def _measure(self) -> int:
        """The size, for a frame without one: another program made it from a stream."""
        size = 0
        for data in self.read_all():
            size += len(data)
            check_size(size, self._disk_size)
        self._begin()
        return size


def read_pieces(read: Callable[[int, int], bytes], size: int) -> Iterator[bytes]:
    """The first ``size`` bytes of a file, in chunks. ``read(size, offset)`` returns its bytes."""
    offset = 0
    while offset < size and (data := read(min(CHUNK, size - offset), offset)):
        offset += len(data)
        yield data


def compress_chunks(chunks: Iterator[bytes], size: int | None) -> Iterator[bytes]:
    """Compress chunks into one frame, piece by piece. ``size``: in bytes; None: unknown. Raises ValueError if wrong."""
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
    file_access.fsync(fd)
    return total
