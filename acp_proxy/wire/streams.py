"""Entries that say again what one before them said, but for their time and the text: a message as it is streamed.

Most of a transcript is that. Such lines are known by their bytes, and their texts are read in one go; what is not
certain to be one of them is left to ``record``, which reads any line. Pure; never raises.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import orjson

from acp_proxy.wire import acp, jsonrpc, record
from acp_proxy.wire.jsonrpc import Peer
from acp_proxy.wire.record import Entry

_SPOKEN = (acp.AGENT_CHUNK, acp.THOUGHT_CHUNK)
_TEXT = b'"text":'
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_BETWEEN = b",\n"  # no JSON string has a newline in it: texts between newlines are a string each, or no strings
_FEW, _MANY = 16, 1024
"""Lines that are looked at in one go: few at first, since what follows on a single chunk is often something else."""


@dataclass(frozen=True, slots=True)
class Stream:
    """Such entries, one behind the other, their newlines left out. ``size``: bytes that they take, with newlines.

    ``at``: the last one's time. ``text``: all texts joined. ``messages``: the exact messages, as lines.
    """

    lines: list[bytes]
    size: int
    at: str
    text: str
    messages: bytes

    @property
    def count(self) -> int:
        return len(self.lines)

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
        """Some of the lines, from one on, that go on as the last one did; lines have no newline here."""
        line, entry = self.last
        if line is not self._looked_at:
            self._looked_at, self._many = line, _FEW
            self._pattern = _pattern(line[:-1], entry, lines[at]) if entry is not None else None
        if self._pattern is None or not self._pattern.begins(lines[at]):
            return None
        found = self._pattern.stream(lines[at : at + self._many])
        self._many = min(2 * self._many, _MANY)
        return found


class _Pattern:
    """What the lines of a stream have in common with the one that it begins with: all but time and text."""

    def __init__(self, line: bytes, time: tuple[int, int], text: tuple[int, int], message: int) -> None:
        """Where the time, and the text with its quotes, stand in the line; where its message begins."""
        (start_of_time, self._time), (self._start, end) = time, text
        self._end = end - len(line)
        self._head, self._tail = line[self._time : self._start + 1], line[end - 1 :]
        self._before, self._after = line[message : self._start], line[end:-1] + b"\n"
        self._around = message + len(b"}")
        width = self._time - start_of_time
        self._times = re.compile(rb"(?:%b[ !#-\[\]-~]{%d})+" % (re.escape(line[:start_of_time]), width))
        self._start_of_time = start_of_time

    def begins(self, line: bytes) -> bool:
        return line.startswith(self._head, self._time)

    def stream(self, lines: list[bytes]) -> Stream | None:
        """Those of the lines, from the first one on, that look so; None where that is none, or not certain of all."""
        head, tail, time, start, end = self._head, self._tail, self._time, self._start, self._end
        texts = [line[start:end] for line in lines if line.startswith(head, time) and line.endswith(tail)]
        if len(texts) < len(lines):
            other = next(n for n, x in enumerate(lines) if not (x.startswith(head, time) and x.endswith(tail)))
            lines, texts = lines[:other], texts[:other]
        if not lines or not self._times.fullmatch(b"".join({line[:time] for line in lines})):
            return None
        try:
            values = orjson.loads(b"[%b]" % _BETWEEN.join(texts))
            if len(values) != len(texts):
                return None
            text = "".join(values)
        except (ValueError, TypeError):  # no JSON, or more than texts
            return None
        messages = b"".join((self._before, (self._after + self._before).join(texts), self._after))
        size = len(messages) + len(lines) * self._around
        return Stream(lines, size, lines[-1][self._start_of_time : time].decode(), text, messages)


def _pattern(line: bytes, entry: Entry, following: bytes) -> _Pattern | None:
    """What an entry's line and the one behind it have in common, if both may be of one stream."""
    if entry.raw is None or entry.peer is not Peer.AGENT:
        return None
    time = len(record.ENTRY_START), len(record.ENTRY_START) + len(entry.at)
    start = line.rfind(_TEXT) + len(_TEXT)
    if start < len(_TEXT) or not following.startswith(line[time[1] : start], time[1]):
        return None
    string = _STRING.match(line, start)
    if string is None or line + b"\n" != record.encode_message(entry.at, entry.run, entry.peer, entry.raw):
        return None
    message = len(line) - len(b"}") - len(entry.raw)
    # It is the text that stands there if another in its place is what is read.
    other = "" if _spoken(entry.value) else "-"
    probe = b"".join((line[message:start], jsonrpc.dump(other), line[string.end() : -1]))
    return _Pattern(line, time, string.span(), message) if _spoken(_value(probe)) == other else None


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
