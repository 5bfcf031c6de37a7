"""Entries that say again what one before them said, but for their time and the text: a message as it is streamed.

Most of a transcript is that. Such lines are known by their bytes, and their texts are read in one go; what is not
certain to be one of them is left to ``record``, which reads any line. Pure; never raises.
"""

import re
from collections.abc import Iterator
from operator import itemgetter

import orjson

from acp_proxy.wire import acp, jsonrpc, record
from acp_proxy.wire.jsonrpc import Peer
from acp_proxy.wire.record import Entry

_SPOKEN = (acp.AGENT_CHUNK, acp.THOUGHT_CHUNK)
_TEXT = b'"text":'
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_BETWEEN = b'",\n'  # no JSON string has a newline in it: texts between newlines are a string each, or no strings
_FEW, _MANY = 16, 1024
"""Lines that are looked at in one go: few at first, since what follows on a single chunk is often something else."""
_WIDTH = 24
_TIME = len(record.ENTRY_START), len(record.ENTRY_START) + _WIDTH
"""Where it stands in a line."""
_starts = itemgetter(slice(_TIME[1]))
_IN_TIMES = b"0123456789-:.TZ"
_START = record.ENTRY_START.translate(None, _IN_TIMES)
"""What is left of a line's start where all that can stand in a time is taken away."""


class Stream:
    """Such entries, one behind the other, as lines."""

    def __init__(self, lines: list[bytes], text: str, ends: bytes, pattern: "_Pattern") -> None:
        """``text``: all texts joined. ``ends``: of each line what stands from its text on."""
        self.lines = lines
        self.text = text
        self._ends = ends
        self._pattern = pattern

    @property
    def count(self) -> int:
        return len(self.lines)

    @property
    def size(self) -> int:
        """Bytes that they take."""
        return len(self._ends) + self.count * self._pattern.start

    @property
    def at(self) -> str:
        """The last one's time."""
        return self.lines[-1][slice(*_TIME)].decode()

    @property
    def messages(self) -> bytes:
        """The exact messages, as lines."""
        before, after = self._pattern.before, self._pattern.after
        told = (before + self._ends).replace(self._pattern.tail, after + before)
        return told[: -len(before)]

    def entries(self) -> Iterator[Entry]:
        """Each by itself."""
        for line in self.lines:
            if (entry := record.decode_entry(line)) is not None:
                yield entry


class Streams:
    """Finds them, for who reads all other lines one by one, and says so: ``last`` is such a line, and its entry."""

    def __init__(self) -> None:
        self.last: tuple[bytes, Entry | None] = b"", None
        self._pattern: _Pattern | None = None
        self._looked_at = b""
        self._many = _FEW

    def stream(self, lines: list[bytes], at: int) -> Stream | None:
        """Some of the lines, from one on, that go on as the last one did; each ends in its newline."""
        line, entry = self.last
        if line is not self._looked_at:
            self._looked_at, self._many = line, _FEW
            self._pattern = _pattern(line, entry, lines[at]) if entry is not None else None
        if self._pattern is None or not self._pattern.begins(lines[at]):
            return None
        found = self._pattern.stream(lines[at : at + self._many])
        self._many = min(2 * self._many, _MANY)
        return found


class _Pattern:
    """What the lines of a stream have in common with the one that it begins with: all but time and text."""

    def __init__(self, line: bytes, text: tuple[int, int], message: int) -> None:
        """Where the text with its quotes stands in the line; where its message begins."""
        self.start, end = text
        self._head = line[_TIME[1] : self.start + 1]
        self._heads, self._ends = itemgetter(slice(_TIME[1], self.start + 1)), itemgetter(slice(self.start, None))
        self.tail = line[end - 1 :]
        """Its last quote is in it, and the newline."""
        self.before, self.after = line[message : self.start], line[end - 1 : -2] + b"\n"

    def begins(self, line: bytes) -> bool:
        return line.startswith(self._head, _TIME[1])

    def stream(self, lines: list[bytes]) -> Stream | None:
        """Those of the lines, from the first one on, that look so; None where that is none, or not certain of all."""
        if list(map(self._heads, lines)).count(self._head) < len(lines):
            return self._some(lines)
        joined = b"".join(map(self._ends, lines))
        texts = joined.replace(self.tail, _BETWEEN)
        if len(joined) - len(texts) != len(lines) * (len(self.tail) - len(_BETWEEN)):
            return self._some(lines)
        if not _are_starts(b"".join(map(_starts, lines)), len(lines)):
            return None
        try:
            values = orjson.loads(b"[%b]" % texts[: -len(_BETWEEN) + 1])
            text = "".join(values)
        except (ValueError, TypeError):  # no JSON, or more than texts
            return None
        return Stream(lines, text, joined, self) if len(values) == len(lines) else None

    def _some(self, lines: list[bytes]) -> Stream | None:
        """Those before the first that looks different."""
        count = [self.begins(line) and line.endswith(self.tail) for line in lines].index(False)
        return self.stream(lines[:count]) if count else None


def _are_starts(joined: bytes, count: int) -> bool:
    """Whether lines begin with a time: seen by place over all of them, which is cheaper than line by line."""
    begin = all(joined[n :: _TIME[1]] == bytes([each]) * count for n, each in enumerate(record.ENTRY_START))
    return begin and joined.translate(None, _IN_TIMES) == _START * count


def _pattern(line: bytes, entry: Entry, following: bytes) -> _Pattern | None:
    """What an entry's line and the one behind it have in common, if both may be of one stream."""
    if entry.raw is None or entry.peer is not Peer.AGENT or len(entry.at) != _WIDTH:
        return None
    start = line.rfind(_TEXT) + len(_TEXT)
    if start < len(_TEXT) or not following.startswith(line[_TIME[1] : start], _TIME[1]):
        return None
    string = _STRING.match(line, start)
    if string is None or line != record.encode_message(entry.at, entry.run, entry.peer, entry.raw):
        return None
    message = len(line) - len(b"}\n") - len(entry.raw)
    # It is the text that stands there if another in its place is what is read.
    other = "" if _spoken(entry.value) else "-"
    probe = b"".join((line[message:start], jsonrpc.dump(other), line[string.end() : -2]))
    return _Pattern(line, string.span(), message) if _spoken(_value(probe)) == other else None


def _spoken(message: object) -> str | None:
    """The text of a chunk of the agent's."""
    update = acp.member(acp.member(message, "params"), "update")
    if acp.text(message, "method") != acp.UPDATE or acp.update_kind(update) not in _SPOKEN:
        return None
    return acp.text(acp.member(update, "content"), "text")


def _value(raw: bytes) -> object:
    try:
        return jsonrpc.parse_text(raw)
    except (ValueError, RecursionError):
        return None
