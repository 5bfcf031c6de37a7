"""Cut a stream of bytes into lines, at the byte ``\\n`` and at nothing else.

Guarantees: the lines joined, then the rest, are exactly the bytes that were fed; a line of any length costs time
linear in its length, however small the pieces it comes in. Does not look into a line.
"""

import io

_ENOUGH = 4 * 1024  # bytes: a method, and ids of any length that anybody uses


class LineFramer:
    """The bytes of one direction, cut into complete lines with their terminators kept."""

    def __init__(self) -> None:
        self._open: list[bytes] = []
        self.waiting = 0
        """Bytes of the line whose end has not come."""

    def feed(self, data: bytes) -> list[bytes]:
        """Take what one read brought; return the lines that it completed, each ending in ``\\n``."""
        lines = cut(data)
        rest = lines.pop() if lines and not lines[-1].endswith(b"\n") else b""
        if lines and self._open:
            lines[0] = b"".join([*self.parts(), lines[0]])
        if rest:
            self._open.append(rest)
            self.waiting += len(rest)
        return lines

    def take(self, data: bytes) -> bytes:
        """Complete lines, joined into one piece."""
        end = data.rfind(b"\n") + 1
        if not end:
            if data:
                self._open.append(data)
                self.waiting += len(data)
            return b""
        complete = data if end == len(data) else data[:end]
        if self._open:
            complete = b"".join([*self._open, complete])
            self._open.clear()
        self.waiting = len(data) - end
        if self.waiting:
            self._open.append(data[end:])
        return complete

    def rest(self) -> bytes:
        """What stands after the last newline; it is handed out once."""
        return b"".join(self.parts())

    def beginning(self) -> bytes:
        """How that begins, to look at: all of it, or enough to know it by."""
        count = size = 0
        while count < len(self._open) and size < _ENOUGH:
            size += len(self._open[count])
            count += 1
        if count > 1:
            self._open[:count] = [b"".join(self._open[:count])]
        return self._open[0] if self._open else b""

    def parts(self) -> list[bytes]:
        """The rest in pieces, of which the first is the beginning, if that was looked at; handed out once."""
        parts, self._open, self.waiting = self._open, [], 0
        return parts


def cut(lines: bytes) -> list[bytes]:
    """One by one; what stands after the last newline comes last."""
    return io.BytesIO(lines).readlines()  # three times as fast as ``split``, which looks at byte after byte
