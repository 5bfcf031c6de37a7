"""Shortens a line that is too long for memory: the result is JSON with the same members, but long strings are cut.

Memory is bounded for any line. Most of a long line is usually one string; its beginning is kept. If that is not enough,
everything after the last member that fits is left out. Pure; never raises. The part that is left out is checked only
roughly for being JSON: brackets, strings, characters.
"""

import codecs
import re
from collections.abc import Callable, Iterator

from acp_proxy.protocol.framing import LineFramer

LONG = 1024 * 1024
"""Lines of more bytes than this are shortened; parsing one takes ten times its size in memory."""
_STRING_BYTES = 80 * 1024
"""Bytes kept of a string that does not fit into one piece: more than a title or a list needs."""
_LINE_BYTES = 2 * 1024 * 1024
"""Bytes kept of a whole line: enough for two dozen long strings, such as images before a prompt's text."""
_READ_SIZE = 64 * 1024

_STRING = rb'"(?:[^"\\\x00-\x1f]++|\\["\\/bfnrtu])*+"'
_STRINGS = re.compile(_STRING)
_STRINGS_AND_BETWEEN = re.compile(rb'(?:[^"\x00-\x08\x0a-\x1f]++|%b)*+' % _STRING)
"""Complete strings and everything between strings."""
_IN_STRING = re.compile(rb'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrtu])*+')
_WHOLE_CHARACTERS = re.compile(
    rb'(?:[^"\\]++|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|\\[^u])*+'
)
"""The longest prefix of a string that does not end within an escape or a surrogate pair."""
_TOKENS = re.compile(rb'"(?:[^"\\]++|\\.)*+"|["\[\]{},]', re.DOTALL)
_MISSING_COMMA = re.compile(rb"[}\]][ \t\r]*[{\[]")
_BYTES_OUTSIDE_STRINGS = b"{}[]:, \t\r+-.0123456789Etruefalsn"
"""The bytes that JSON allows outside of strings."""
_CLOSING = {b"[": b"]", b"{": b"}"}

ReadAt = Callable[[int, int], bytes]
"""Returns up to ``size`` bytes of a file at an offset: fewer at its end."""


class LineShortener:
    """Shortens one line, fed in pieces."""

    def __init__(self) -> None:
        self._shortened = bytearray()
        self._string: int | None = None
        """Where the current string begins in ``_shortened``; None outside of strings."""
        self._is_cut = self._is_full = self._is_broken = False
        self._escape = b""
        self._depth = 0
        self._has_ended = False
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def feed(self, piece: bytes) -> None:
        """Add the next piece of the line."""
        if self._is_broken:
            return
        try:
            self._decoder.decode(piece)
        except UnicodeDecodeError:
            self._is_broken = True
            return
        piece, self._escape = self._escape + piece, b""
        offset = 0
        while offset < len(piece) and not self._is_broken:
            offset = self._scan_structure(piece, offset) if self._string is None else self._scan_string(piece, offset)

    @property
    def text(self) -> bytes | None:
        """The shortened line; None if the line is not a JSON object or has not ended."""
        if self._is_broken or not self._has_ended or self._string is not None:
            return None
        return _close_brackets(bytes(self._shortened)) if self._is_full else bytes(self._shortened)

    def _scan_structure(self, piece: bytes, offset: int) -> int:
        """Reads up to a string that does not end in this piece; returns where to go on."""
        if (match := _STRINGS_AND_BETWEEN.match(piece, offset)) is not None and match[0]:
            self._track_brackets(_STRINGS.sub(b"", match[0]))
            self._keep(match[0])
            return match.end()
        quote = piece.find(b'"', offset)
        end = quote if quote >= 0 else len(piece)
        self._track_brackets(piece[offset:end])
        self._keep(piece[offset : quote + 1] if quote >= 0 else piece[offset:end])
        if quote >= 0:
            self._string, self._is_cut = len(self._shortened), False
        return quote + 1 if quote >= 0 else end

    def _track_brackets(self, outside: bytes) -> None:
        """Tracks brackets outside of strings; anything after the last closing one makes the line broken."""
        self._is_broken |= self._has_ended and not outside.isspace() and outside != b""
        self._is_broken |= (
            outside.translate(None, _BYTES_OUTSIDE_STRINGS) != b"" or _MISSING_COMMA.search(outside) is not None
        )
        self._depth += outside.count(b"{") + outside.count(b"[") - outside.count(b"}") - outside.count(b"]")
        self._has_ended = self._depth <= 0
        self._is_broken |= self._depth < 0

    def _scan_string(self, piece: bytes, offset: int) -> int:
        match = _IN_STRING.match(piece, offset)
        end = match.end() if match is not None else offset
        self._keep_words(piece[offset:end])
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

    def _keep_words(self, words: bytes) -> None:
        if self._string is not None:
            room = max(0, self._string + _STRING_BYTES - len(self._shortened))
            self._is_cut |= len(words) > room
            self._keep(words[:room])

    def _end_string(self) -> None:
        if self._is_cut and self._string is not None and not self._is_full:
            string = bytes(self._shortened[self._string :])
            match = _WHOLE_CHARACTERS.match(string)
            self._shortened[self._string :] = string[: match.end() if match else 0].decode(errors="ignore").encode()
        self._keep(b'"')
        self._string = None

    def _keep(self, data: bytes) -> None:
        if not self._is_full:
            room = _LINE_BYTES - len(self._shortened)
            self._shortened += data[:room]
            self._is_full = len(data) > room


def _close_brackets(text: bytes) -> bytes:
    """Completes the beginning of a JSON text, cut after its last complete member."""
    brackets: list[bytes] = []
    end = 0
    for token in _TOKENS.finditer(text):
        sign = token[0]
        if sign == b'"':  # the unfinished string
            break
        if sign in _CLOSING:
            brackets.append(_CLOSING[sign])
        elif sign in (b"]", b"}") and brackets:
            brackets.pop()
        if len(sign) == 1:
            end = token.start() if sign == b"," else token.end()
    return text[:end] + b"".join(reversed(brackets))


def shorten_line(first_pieces: list[bytes], read: ReadAt, offset: int, size: int) -> tuple[bytes | None, int, bool]:
    """Shorten a line that begins with these pieces and continues at this offset of a file of ``size`` bytes.

    Returns the shortened line (None: it is damaged), the offset of its end, and whether it ends in a newline.
    """
    shortener = LineShortener()
    for piece in first_pieces:
        shortener.feed(piece)
    while offset < size and (data := read(min(_READ_SIZE, size - offset), offset)):
        end = data.find(b"\n") + 1
        shortener.feed(data[: end - 1] if end else data)
        offset += end or len(data)
        if end:
            return shortener.text, offset, True
    return shortener.text, offset, False


def read_shortened(read: ReadAt, size: int) -> Iterator[bytes | None]:
    """The lines of a file of ``size`` bytes; long ones shortened, or None if damaged."""
    framer, offset = LineFramer(), 0
    while offset < size and (data := read(min(_READ_SIZE, size - offset), offset)):
        offset += len(data)
        yield from framer.feed(data)
        if framer.unfinished_size > LONG:
            line, offset, _ = shorten_line(framer.take_parts(), read, offset, size)
            yield line
    if last_line := framer.take_unfinished():
        yield last_line
