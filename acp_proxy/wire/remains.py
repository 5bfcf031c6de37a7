"""What is intact in a damaged line: JSON objects that stand whole between bytes that nobody can read.

Pure; never raises. A line costs time linear in its length. An object that is a member of another (of a torn one, as
what an agent says may look like an entry of ours) is not taken for one that stands there by itself.
"""

import re
from collections.abc import Callable
from typing import Generic, TypeVar

from acp_proxy.wire import splice
from acp_proxy.wire.value import Value

_LOOKS = 64  # so often a line is gone through at most: what only looks like a beginning costs a look at the rest

T = TypeVar("T")


class Intact(Value, Generic[T]):
    """What is intact, and where it stands in its line."""

    start: int
    end: int
    value: T


def pieces(line: bytes, beginning: re.Pattern[bytes], read: Callable[[bytes], T | None]) -> list[Intact[T]]:
    """Everything in the line that begins so, ends as a JSON object does, and can be read."""
    found: list[Intact[T]] = []
    line = line.rstrip(b"\r\n")
    text = line.decode("latin-1")  # one character for each byte: offsets are the same
    work, match = 0, beginning.search(line)
    while match is not None and work < _LOOKS * len(line):
        start = match.start()
        end = _end(text, start)
        value = read(line[start:end]) if not _is_member(line, start, end) else None
        work += end - start
        if value is None:
            end = start + 1
        else:
            found.append(Intact(start, end, value))
        match = beginning.search(line, end)
    return found


def first_value(line: bytes) -> bytes:
    """The JSON value that a line begins with, or all of it."""
    return line[: _end(line.decode("latin-1"), 0)]


def _end(text: str, start: int) -> int:
    """Where the value ends; where that cannot be told, it may be the line's end."""
    try:
        return splice.end_of(text, start)
    except ValueError:
        return len(text)


def _is_member(line: bytes, start: int, end: int) -> bool:
    return line[:start].rstrip()[-1:] in (b":", b",", b"[") and line[end : end + 1] in (b",", b"}", b"]")
