"""Reads many similar lines of a transcript at once: the chunks of a streamed message.

Most lines of a transcript differ from the line before only in time and text. Such lines are recognised by their bytes
and their texts are parsed together. A line that is not certainly of this kind is left to ``decode_entry``, which reads
any line. Nothing here raises.
"""

import re
import struct
from collections.abc import Iterator
from itertools import compress, count, repeat
from operator import itemgetter, ne

import orjson

from acp_proxy.protocol import acp, jsonrpc, update_kinds
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import Entry

READ_TOGETHER_KINDS = (update_kinds.AGENT_CHUNK, update_kinds.THOUGHT_CHUNK)
"""The kinds of which long streams come. Others are read one by one."""
_TEXT_KEY = b'"text":'
_JSON_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_SEPARATOR = b"x"
"""Separates texts that are parsed together: it completes no escape, surrogate pair or character cut off before it."""
_FEWEST_LINES, _MOST_LINES = 16, 1024
"""Lines examined at once. After a short stream only few, since other lines often follow."""
_HEAD_LIMIT = 1024
"""The most bytes before a text. Each of up to a thousand lines takes that much memory while they are compared, however
short it is. A line without extra members from the agent needs a quarter of it."""
_TIME_WIDTH = 24
_TIME_SPAN = len(file_format.ENTRY_START), len(file_format.ENTRY_START) + _TIME_WIDTH
"""The offsets of the time in a line."""
_TIME_BYTES = b"0123456789-:.TZ"
_WORD_SIZE = 8
_PADDING = -_TIME_SPAN[0] % _WORD_SIZE
_TIME_WORD_INDEXES = range((_PADDING + _TIME_SPAN[0]) // _WORD_SIZE, (_PADDING + _TIME_SPAN[1]) // _WORD_SIZE)
"""The words that hold the time when a line's beginning is laid out in words of eight bytes."""


class AlikeChunks:
    """Consecutive lines of a transcript that differ only in time and text."""

    def __init__(self, lines: list[bytes], texts: bytes, pattern: "_Pattern") -> None:
        """``texts``: the JSON strings of the lines without their quotes, each followed by a newline."""
        self.lines = lines
        self._texts = texts
        self._pattern = pattern

    @property
    def count(self) -> int:
        """The number of lines."""
        return len(self.lines)

    @property
    def size(self) -> int:
        """The size of the lines in bytes."""
        return len(self._texts) + self.count * self._pattern.fixed_size

    @property
    def at(self) -> str:
        """The time of the last line."""
        return self.lines[-1][slice(*_TIME_SPAN)].decode()

    @property
    def text(self) -> str:
        """All texts joined."""
        text: str = orjson.loads(b'"%b"' % self._texts.replace(b"\n", b""))
        return text

    @property
    def each_text(self) -> list[str]:
        """The text of each line."""
        texts: list[str] = orjson.loads(b'["%b"]' % self._texts[:-1].replace(b"\n", b'","'))
        return texts

    @property
    def messages(self) -> bytes:
        """The messages in the lines, byte for byte, each ending in a newline."""
        start, end = self._pattern.message_start, self._pattern.message_end
        return b"".join((start, self._texts[:-1].replace(b"\n", end + start), end))

    def decode_entries(self) -> Iterator[Entry]:
        """The entry of each line."""
        for line in self.lines:
            if (entry := file_format.decode_entry(line)) is not None:
                yield entry


class AlikeChunksFinder:
    """Finds chunks alike for a reader that reads all other lines one by one, and sets ``last_read`` to each of those
    and its entry."""

    def __init__(self) -> None:
        self.last_read: tuple[bytes, Entry | None] = b"", None
        self._pattern: _Pattern | None = None
        self._examined_line = b""
        self._batch_size = _FEWEST_LINES

    def find(self, lines: list[bytes], index: int) -> AlikeChunks | None:
        """The lines from this index on that are like ``last_read``; None if the first of them is not. Each line ends in
        its newline. More lines like it may follow the returned ones."""
        line, entry = self.last_read
        if line is not self._examined_line:
            self._examined_line = line
            self._pattern = _make_pattern(line, entry, lines[index]) if entry is not None else None
        if self._pattern is None or not self._pattern.matches_start(lines[index]):
            return None
        batch = lines[index : index + self._batch_size]
        chunks = self._pattern.match_lines(batch)
        is_whole = chunks is not None and chunks.count == len(batch)
        self._batch_size = (
            min(2 * self._batch_size, _MOST_LINES) if is_whole else max(self._batch_size // 2, _FEWEST_LINES)
        )
        return chunks


class _Pattern:
    """The bytes that all lines of a stream share: everything but time and text."""

    def __init__(self, line: bytes, text: tuple[int, int], message: int) -> None:
        """``text``: the offsets of the text between its quotes. ``message``: the offset of the message."""
        start, end = text
        self._head, self._tail = line[_TIME_SPAN[1] : start], line[end:]
        self._pack_format = f"{_PADDING}x{start}s{-(_PADDING + start) % _WORD_SIZE}x"
        self._packed_head = struct.pack(
            self._pack_format, b"".join((file_format.ENTRY_START, b" " * _TIME_WIDTH, self._head))
        )
        self._get_head, self._get_end = itemgetter(slice(_TIME_SPAN[1], start)), itemgetter(slice(start, None))
        self.fixed_size = len(line) - (end - start) - len(b"\n")
        """The size in bytes of a line without its text and newline."""
        self.message_start, self.message_end = line[message:start], line[end:-2] + b"\n"

    def matches_start(self, line: bytes) -> bool:
        return line.startswith(self._head, _TIME_SPAN[1])

    def match_lines(self, lines: list[bytes]) -> AlikeChunks | None:
        """The first lines that have these bytes; None if there are none, or if they cannot safely be read together."""
        if not self._have_heads(lines):
            differ = map(ne, map(self._get_head, lines), repeat(self._head))
            lines = lines[: next(compress(count(), differ), 0)]
            if not lines or not self._have_heads(lines):
                return None
        joined_ends = b"".join(map(self._get_end, lines))
        texts = joined_ends.replace(self._tail, b"\n")
        if len(joined_ends) - len(texts) != len(lines) * (len(self._tail) - 1):
            matching_count = next(
                number for number, end in enumerate(map(self._get_end, lines)) if not end.endswith(self._tail)
            )
            return self.match_lines(lines[:matching_count]) if matching_count else None
        try:
            orjson.loads(b'"%b"' % texts.replace(b"\n", _SEPARATOR))
        except ValueError:
            return None
        return AlikeChunks(lines, texts, self)

    def _have_heads(self, lines: list[bytes]) -> bool:
        """Whether all lines begin with these bytes. Their beginnings are packed into one buffer without their times,
        and compared at once."""
        line_count, width, times = len(lines), len(self._packed_head) // _WORD_SIZE, b""
        heads = bytearray(struct.pack(self._pack_format * line_count, *lines))
        words, blanks = memoryview(heads).cast("Q"), memoryview(b" " * _WORD_SIZE * line_count).cast("Q")
        for word_index in _TIME_WORD_INDEXES:
            times += words[word_index::width].tobytes()
            words[word_index::width] = blanks
        return heads == self._packed_head * line_count and not times.translate(None, _TIME_BYTES)


def _make_pattern(line: bytes, entry: Entry, next_line: bytes) -> _Pattern | None:
    """The pattern of an entry's line, or None if it is not a chunk of text or the following line differs from it."""
    if entry.raw is None or entry.peer is not Peer.AGENT or len(entry.at) != _TIME_WIDTH:
        return None
    start = line.rfind(_TEXT_KEY) + len(_TEXT_KEY)
    if not len(_TEXT_KEY) <= start <= _HEAD_LIMIT or not next_line.startswith(
        line[_TIME_SPAN[1] : start], _TIME_SPAN[1]
    ):
        return None
    string = _JSON_STRING.match(line, start)
    expected_line = file_format.encode_message(
        entry.at, entry.run, entry.peer, entry.raw, protocol_version=entry.protocol_version
    )
    if string is None or line != expected_line:
        return None
    message = len(line) - len(b"}\n") - len(entry.raw)
    # The string found is the chunk's text if putting another string in its place changes the text that is read.
    other_text = "" if _read_spoken(entry.value) else "-"
    probe = b"".join((line[message:start], jsonrpc.dump(other_text), line[string.end() : -2]))
    return _Pattern(line, (start + 1, string.end() - 1), message) if _read_spoken(_parse(probe)) == other_text else None


def _read_spoken(message: object) -> str | None:
    """The text of an agent message or thought chunk, or None."""
    update = acp.member(acp.member(message, "params"), "update")
    if acp.text(message, "method") != acp.UPDATE or acp.update_kind(update) not in READ_TOGETHER_KINDS:
        return None
    return acp.text(acp.member(update, "content"), "text")


def _parse(raw: bytes) -> object:
    try:
        return jsonrpc.parse_strictly(raw)
    except (ValueError, RecursionError):
        return None
