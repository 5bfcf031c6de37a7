"""A line that is too long to be held, cut short: JSON that says the same, but for the ends of long strings.

Memory is bounded, whatever the line: nearly all of a long one is one string, of which the beginning is kept. Where the
rest of it is long too, what does not fit is left out behind the last member that does. Pure; never raises. Whether the
line is JSON is only half seen in what is left out: brackets, strings, characters.
"""

import codecs
import re
from collections.abc import Callable, Iterator

from acp_proxy.wire.framing import LineFramer

LONG = 1024 * 1024
"""Bytes of a line that are held without a thought; reading one takes ten times as much for a moment."""
_KEPT = 80 * 1024
"""Bytes of a string that comes in several pieces: more than makes a title or may stand in a list."""
_MOST = 2 * 1024 * 1024
"""Bytes of what is kept of a line: two dozen long strings, as images in front of a prompt's words."""
_READ_SIZE = 64 * 1024

_STRING = rb'"(?:[^"\\\x00-\x1f]++|\\["\\/bfnrtu])*+"'
_STRINGS = re.compile(_STRING)
_MANY = re.compile(rb'(?:[^"\x00-\x08\x0a-\x1f]++|%b)*+' % _STRING)
"""What stands between strings, and strings that are whole."""
_IN_STRING = re.compile(rb'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrtu])*+')
_WHOLE = re.compile(
    rb'(?:[^"\\]++|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|\\[^u])*+'
)
"""The part of a string's beginning in which no escape, and no pair of them, is cut off."""
_STEPS = re.compile(rb'"(?:[^"\\]++|\\.)*+"|["\[\]{},]', re.DOTALL)
_GLUED = re.compile(rb"[}\]][ \t\r]*[{\[]")
_OUTSIDE = b"{}[]:, \t\r+-.0123456789Etruefalsn"
"""What stands outside of strings."""
_CLOSING = {b"[": b"]", b"{": b"}"}

Read = Callable[[int, int], bytes]
"""So many bytes of a file, from an offset on; none behind its end."""


class Short:
    """One long line, fed piece by piece."""

    def __init__(self) -> None:
        self._out = bytearray()
        self._string: int | None = None
        """Where the string that is under way begins in what is kept."""
        self._is_cut = self._is_full = self._is_broken = False
        self._escape = b""
        self._depth = 0
        self._has_ended = False
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def feed(self, piece: bytes) -> None:
        if self._is_broken:
            return
        try:
            self._decoder.decode(piece)
        except UnicodeDecodeError:
            self._is_broken = True
            return
        piece, self._escape = self._escape + piece, b""
        at = 0
        while at < len(piece) and not self._is_broken:
            at = self._structure(piece, at) if self._string is None else self._in_string(piece, at)

    @property
    def text(self) -> bytes | None:
        """None: it is no JSON object, or not all of one."""
        if self._is_broken or not self._has_ended or self._string is not None:
            return None
        return _closed(bytes(self._out)) if self._is_full else bytes(self._out)

    def _structure(self, piece: bytes, at: int) -> int:
        """What stands there up to a string that is not all in this piece."""
        if (many := _MANY.match(piece, at)) is not None and many[0]:
            self._count(_STRINGS.sub(b"", many[0]))
            self._keep(many[0])
            return many.end()
        quote = piece.find(b'"', at)
        end = quote if quote >= 0 else len(piece)
        self._count(piece[at:end])
        self._keep(piece[at : quote + 1] if quote >= 0 else piece[at:end])
        if quote >= 0:
            self._string, self._is_cut = len(self._out), False
        return quote + 1 if quote >= 0 else end

    def _count(self, between: bytes) -> None:
        """The brackets outside of strings. Behind the last nothing may come."""
        self._is_broken |= self._has_ended and not between.isspace() and between != b""
        self._is_broken |= between.translate(None, _OUTSIDE) != b"" or _GLUED.search(between) is not None
        self._depth += between.count(b"{") + between.count(b"[") - between.count(b"}") - between.count(b"]")
        self._has_ended = self._depth <= 0
        self._is_broken |= self._depth < 0

    def _in_string(self, piece: bytes, at: int) -> int:
        found = _IN_STRING.match(piece, at)
        end = found.end() if found is not None else at
        self._said(piece[at:end])
        if end == len(piece):
            return end
        if piece[end : end + 1] == b'"':
            self._end_string()
            return end + 1
        if end + 1 == len(piece) and piece[end:] == b"\\":
            self._escape = b"\\"
        else:
            self._is_broken = True
        return len(piece)

    def _said(self, words: bytes) -> None:
        if self._string is not None:
            room = max(0, self._string + _KEPT - len(self._out))
            self._is_cut |= len(words) > room
            self._keep(words[:room])

    def _end_string(self) -> None:
        if self._is_cut and self._string is not None and not self._is_full:
            kept = bytes(self._out[self._string :])
            whole = _WHOLE.match(kept)
            self._out[self._string :] = kept[: whole.end() if whole else 0].decode(errors="ignore").encode()
        self._keep(b'"')
        self._string = None

    def _keep(self, data: bytes) -> None:
        if not self._is_full:
            room = _MOST - len(self._out)
            self._out += data[:room]
            self._is_full = len(data) > room


def _closed(text: bytes) -> bytes:
    """The beginning of a JSON text as one of its own: up to the last member that is whole."""
    open: list[bytes] = []
    end, closing = 0, b""
    for step in _STEPS.finditer(text):
        sign = step[0]
        if sign == b'"':  # the string that was under way
            break
        if sign in _CLOSING:
            open.append(_CLOSING[sign])
        elif sign in (b"]", b"}") and open:
            open.pop()
        if len(sign) == 1:
            end = step.start() if sign == b"," else step.end()
            closing = b"".join(reversed(open))
    return text[:end] + closing


def long_line(begun: list[bytes], read: Read, at: int, size: int) -> tuple[bytes | None, int, bool]:
    """A line that is read on from an offset, cut short (None: it is damaged); where it ends; whether with a newline."""
    short = Short()
    for piece in begun:
        short.feed(piece)
    while at < size and (data := read(min(_READ_SIZE, size - at), at)):
        end = data.find(b"\n") + 1
        short.feed(data[: end - 1] if end else data)
        at += end or len(data)
        if end:
            return short.text, at, True
    return short.text, at, False


def cut_short(read: Read, size: int) -> Iterator[bytes | None]:
    """The lines of a file up to a size, those that are too long cut short; None for one of them that is damaged."""
    framer, at = LineFramer(), 0
    while at < size and (data := read(min(_READ_SIZE, size - at), at)):
        at += len(data)
        yield from framer.feed(data)
        if framer.waiting > LONG:
            line, at, _ = long_line(framer.parts(), read, at, size)
            yield line
    if rest := framer.rest():
        yield rest
