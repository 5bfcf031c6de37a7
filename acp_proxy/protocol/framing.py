"""Cuts a stream of bytes into lines, only at the byte ``\\n``.

The lines and then the rest, joined, are exactly the bytes that went in. A line takes time linear in its length, however
small the pieces in which it arrives. The content of lines is not checked.
"""

import io

_BEGINNING_BYTES = 4 * 1024
"""The first bytes of a line: they hold a method and ids of any length seen in practice."""
_LARGE_LINE_BYTES = 1024 * 1024
"""The size from which a single line is not copied."""


class LineFramer:
    """Cuts the bytes of one direction into complete lines, and keeps an unfinished line until the rest arrives."""

    def __init__(self) -> None:
        self._unfinished: list[bytes] = []
        self.unfinished_size = 0
        """The size in bytes of the unfinished line."""

    def feed(self, data: bytes) -> list[bytes]:
        """Add the bytes of one read. Returns the lines that they complete, each with its ``\\n``."""
        lines = split_lines(data)
        unfinished = lines.pop() if lines and not lines[-1].endswith(b"\n") else b""
        if lines and self._unfinished:
            lines[0] = b"".join([*self.take_parts(), lines[0]])
        if unfinished:
            self._unfinished.append(unfinished)
            self.unfinished_size += len(unfinished)
        return lines

    def feed_joined(self, data: bytes) -> bytes:
        """Like ``feed``, but returns the complete lines as one piece, empty if there are none."""
        end = data.rfind(b"\n") + 1
        if not end:
            if data:
                self._unfinished.append(data)
                self.unfinished_size += len(data)
            return b""
        complete = data if end == len(data) else data[:end]
        if self._unfinished:
            complete = b"".join([*self._unfinished, complete])
            self._unfinished.clear()
        self.unfinished_size = len(data) - end
        if self.unfinished_size:
            self._unfinished.append(data[end:])
        return complete

    def take_unfinished(self) -> bytes:
        """Remove and return the unfinished line."""
        return b"".join(self.take_parts())

    def peek_beginning(self) -> bytes:
        """The first bytes of the unfinished line, which stays here: at least 4 KiB, or all of it if it is shorter."""
        count = size = 0
        while count < len(self._unfinished) and size < _BEGINNING_BYTES:
            size += len(self._unfinished[count])
            count += 1
        if count > 1:
            self._unfinished[:count] = [b"".join(self._unfinished[:count])]
        return self._unfinished[0] if self._unfinished else b""

    def take_parts(self) -> list[bytes]:
        """Like ``take_unfinished``, but in pieces. The first one is what ``peek_beginning`` returned, if it was
        called."""
        parts, self._unfinished, self.unfinished_size = self._unfinished, [], 0
        return parts


def split_lines(data: bytes) -> list[bytes]:
    """Split bytes after each ``\\n``. Bytes after the last newline become the last item."""
    if len(data) > _LARGE_LINE_BYTES and data.find(b"\n") + 1 == len(data):
        return [data]  # not copied
    return io.BytesIO(data).readlines()  # three times as fast as ``split``
