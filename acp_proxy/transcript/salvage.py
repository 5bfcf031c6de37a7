"""Finds intact JSON objects in a damaged line.

Never raises, and takes time linear in the line's length. An object inside another one is not returned: a message may
contain what looks like an entry, and the object around it may be torn.
"""

import re
from collections.abc import Callable
from typing import Generic, TypeVar

from msgspec import Struct

from acp_proxy.protocol import json_splice

_READ_FACTOR = 64
"""Times the line's length that are read at most: a false beginning costs a read of the rest, and a line may be made of
false beginnings."""

T = TypeVar("T")


class Intact(Struct, Generic[T], frozen=True):
    """An intact value, and its place in the line: the byte offsets ``start`` and ``end``."""

    start: int
    end: int
    value: T


def find_pieces(line: bytes, beginning: re.Pattern[bytes], read: Callable[[bytes, bool], T | None]) -> list[Intact[T]]:
    """Everything in the line that matches ``beginning``, ends where its JSON value ends, and that ``read`` accepts.
    That gets the piece, and whether it stands where a value of another object or array may stand, so that it may be a
    part of that; it returns the value, or None to refuse it."""
    pieces: list[Intact[T]] = []
    line = line.rstrip(b"\r\n")
    text = line.decode("latin-1")  # one character for each byte: offsets are the same
    read_size, match = 0, beginning.search(line)
    while match is not None and read_size < _READ_FACTOR * len(line):
        start = match.start()
        end = _find_end(text, start)
        # A message may quote an entry. With a colon, a comma or a bracket before it, and a comma or a bracket after,
        # this is a part of such a message, whose own beginning or end may be lost. With only the former it may be that,
        # or the entry that follows a torn one, which ended there: ``read`` decides.
        is_value = _is_value(line, start)
        is_member = is_value and line[end : end + 1] in (b",", b"}", b"]")
        value = read(line[start:end], is_value) if not is_member else None
        read_size += end - start
        if value is None:
            end = start + 1  # not past the piece: a torn entry reaches over the intact one that follows it
        else:
            pieces.append(Intact(start, end, value))
        match = beginning.search(line, end)
    return pieces


def get_first_value(line: bytes) -> bytes:
    """The bytes of the JSON value at the start of a line, or the whole line if that value does not end."""
    return line[: _find_end(line.decode("latin-1"), 0)]


def _find_end(text: str, start: int) -> int:
    """The offset of the value's end; the line's end if the value is damaged."""
    try:
        return json_splice.find_end(text, start)
    except ValueError:
        return len(text)


def _is_value(line: bytes, start: int) -> bool:
    while start and line[start - 1] in b" \t\r":
        start -= 1
    return line[start - 1 : start] in (b":", b",", b"[")
