"""A transcript in one frame of zstd: read as if it were the plain file, and made from one.

Imported only where such a file is met or made. Memory is bounded by the window that a frame may ask for, whatever the
file's size. Damage does not raise: the transcript ends where it begins, and ``is_damaged`` says so once it was met.
"""

import os
import sys
from collections.abc import Callable, Iterator

from acp_proxy.transcripts.files.access import read_at

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_LEVEL = 3
"""Faster than a disk both ways; the highest levels save a fifth more, and take five hundred times as long."""
_WINDOW_LOG = 23
"""8 MiB: what a frame may make its reader hold. Our own ask for 2 MiB."""
PIECE = 4 * 1024
"""Of a frame, at a time: a piece that turns out to be damaged takes little that is intact with it."""
_LONGEST_HEADER = 18
CHUNK = 1024 * 1024
"""Of a transcript, at a time: a few milliseconds of work."""


class Compressed:
    """An open compressed file, read forwards; going back begins anew."""

    def __init__(self, fd: int) -> None:
        """Raises OSError."""
        self._fd = fd
        self.is_damaged = False
        """As far as it was read."""
        self.size = 0
        """Of the transcript, as the frame says."""
        self._begin()
        try:
            size = zstd.get_frame_info(read_at(fd, _LONGEST_HEADER, 0)).decompressed_size
        except zstd.ZstdError:
            self.is_damaged = True
            return
        self.size = self._measured() if size is None else size  # type: ignore[redundant-expr] # its stub is too sure

    def read(self, size: int, at: int) -> bytes:
        """Bytes of the transcript; fewer only at its end, or where it is damaged. Raises OSError."""
        if at < self._start:
            self._begin()
        # To one byte behind it: only there a frame says that it is all, and whether that was right.
        while self._start + len(self._buffer) <= at + size and (data := self._more()):
            passed = min(max(at - self._start, 0), len(self._buffer))
            del self._buffer[:passed]
            self._start += passed
            self._buffer += data
        skip = at - self._start
        return bytes(self._buffer[skip : skip + size])

    def all(self) -> Iterator[bytes]:
        """The whole transcript, as fast as it can be had."""
        self._begin()
        yield from iter(self._more, b"")

    def _begin(self) -> None:
        """Before the first byte."""
        self._decompressor = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _WINDOW_LOG})
        self._at = 0
        self._start = 0  # of the buffer, in the transcript
        self._buffer = bytearray()
        self._ended = False

    def _more(self) -> bytes:
        """The next bytes of the transcript; none at its end."""
        while not self._ended:
            piece = b""
            if self._decompressor.needs_input:
                piece = read_at(self._fd, PIECE, self._at)
                self._at += len(piece)
            if self._decompressor.needs_input and not piece:
                self._ended = self.is_damaged = True  # cut off
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

    def _measured(self) -> int:
        """The size, where the frame does not say it: another program has made it from a stream."""
        size = sum(len(data) for data in self.all())
        self._begin()
        return size


def pieces(read: Callable[[int, int], bytes], size: int) -> Iterator[bytes]:
    """What a file holds, up to a size, in chunks."""
    at = 0
    while at < size and (data := read(min(CHUNK, size - at), at)):
        at += len(data)
        yield data


def frame(chunks: Iterator[bytes], size: int | None) -> Iterator[bytes]:
    """The frame of what is so large, piece by piece. Raises ValueError where it is not."""
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


def written(fd: int, chunks: Iterator[bytes]) -> int:
    """How much was written to a file, which is on the disk when this returns. Raises OSError."""
    total = 0
    for chunk in chunks:
        view = memoryview(chunk)
        while view:
            view = view[os.write(fd, view) :]
        total += len(chunk)
    os.fsync(fd)
    return total
