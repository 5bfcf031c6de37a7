"""Finds the damaged parts of a file of lines: stretches between intact entries.

Pure, apart from the lines passed in; memory is bounded by the longest line. Whatever parses counts as intact: there are
no checksums, so a changed letter within a text is not noticed.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from acp_proxy.protocol import acp, jsonrpc
from acp_proxy.sessions.raw_lines import read_raw_lines
from acp_proxy.store.journal import find_events
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import Entry
from acp_proxy.transcript.reader import TranscriptReader
from acp_proxy.transcript.salvage import Intact

TORN_END = "torn end"
TORN = "torn entry"
NUL = "NUL bytes"
NO_ENTRY = "not an entry"
OF_ANOTHER_PROGRAM = "line of another program"
UNKNOWN = "unknown entry"
SECOND_HEADER = "second header"
BROKEN_HEADER = "broken header"


@dataclass(frozen=True, slots=True)
class Neighbour:
    """An intact entry next to damage. ``line``: counted from 1. ``at``: its time. ``what``: a description. Named as in
    the JSON of ``verify``."""

    line: int
    at: str
    what: str


@dataclass(frozen=True, slots=True)
class DamagedStretch:
    """Damaged bytes, without the final newline.

    The names are those in the JSON of ``verify``. ``line``: where it begins, counted from 1. ``offset``, ``length``: in
    bytes. ``kinds``: of damage, in order. ``behind``: it follows an intact entry on the same line. ``before``: it is
    before one on the same line. ``begins``: the file begins with it, where the header should be. ``ends``: the file
    ends with it, without a newline.
    """

    line: int
    offset: int
    length: int
    kinds: tuple[str, ...]
    behind: bool = False
    before: bool = False
    begins: bool = False
    ends: bool = False
    last: Neighbour | None = None
    """The intact entry before it."""
    next: Neighbour | None = None
    """The intact entry after it."""

    @property
    def end(self) -> int:
        """The offset of its end."""
        return self.offset + self.length


@dataclass(slots=True)
class DamageScan:
    """Turns lines into stretches.

    ``find_intact``: finds the intact entries of a line. ``describe``: describes one, given its line's number from 0.
    """

    find_intact: Callable[[bytes], Sequence[Intact[Any]]]
    describe: Callable[[int, Any], Neighbour]
    _last: Neighbour | None = field(default=None, init=False)
    _open: DamagedStretch | None = field(default=None, init=False)

    def find_stretches(self, lines: Iterable[tuple[int, int, bytes]]) -> Iterator[DamagedStretch]:
        """The stretches in these lines (number from 0, offset, bytes).

        Damaged lines with nothing intact between them form one.
        """
        for number, offset, line in lines:
            yield from self._scan_line(number, offset, line)
        if self._open is not None:
            yield self._open
            self._open = None

    def _scan_line(self, number: int, offset: int, line: bytes) -> Iterator[DamagedStretch]:
        if line.isspace():
            return
        size, position = len(line.rstrip(b"\n")), 0
        follows_intact = number == 0 and offset > 0  # the header comes before it
        for piece in self.find_intact(line):
            if line[position : piece.start].strip():
                self._add_stretch(number, offset, line, position, piece.start, follows_intact, precedes_intact=True)
            neighbour = self.describe(number, piece.value)
            if self._open is not None:
                yield replace(self._open, next=neighbour)
                self._open = None
            self._last, position, follows_intact = neighbour, piece.end, True
        if line[position:size].strip():
            self._add_stretch(number, offset, line, position, size, follows_intact, precedes_intact=False)

    def _add_stretch(
        self, number: int, offset: int, line: bytes, start: int, end: int, follows_intact: bool, precedes_intact: bool
    ) -> None:
        ends_file = not precedes_intact and not line.endswith(b"\n")
        kind = TORN_END if ends_file and line[start:end].strip(b"\0") else _classify(line[start:end])
        if self._open is None:
            begins_file = offset + start == 0
            self._open = DamagedStretch(
                number + 1, offset + start, end - start, (kind,), follows_intact, begins=begins_file, last=self._last
            )
        kinds = self._open.kinds if kind in self._open.kinds else (*self._open.kinds, kind)
        self._open = replace(
            self._open, length=offset + end - self._open.offset, kinds=kinds, before=precedes_intact, ends=ends_file
        )


def find_in_transcript(reader: TranscriptReader) -> Iterator[DamagedStretch]:
    """The damaged stretches, including a broken header; a missing header is not one."""
    scan = DamageScan(file_format.find_entries, _describe_neighbour)
    for stretch in scan.find_stretches(read_raw_lines(reader)):
        yield replace(stretch, kinds=(BROKEN_HEADER,)) if stretch.begins else stretch


def find_in_journal(lines: Iterable[tuple[int, bytes]]) -> Iterator[DamagedStretch]:
    """The damaged stretches of a journal. ``lines``: the offset of each line's end, and its bytes."""
    numbered = ((number, end - len(line), line) for number, (end, line) in enumerate(lines))
    return DamageScan(find_events, lambda number, _: Neighbour(number + 1, "", "event")).find_stretches(numbered)


def describe_entry(entry: Entry) -> str:
    """What an entry is, in a few words."""
    if entry.note is not None:
        return f"note {acp.text(entry.note, 'type') or ''}".rstrip()
    peer_name = entry.peer.value if entry.peer is not None else ""
    if entry.answered_method is not None:
        return f"{peer_name} answers {entry.answered_method}"
    update = acp.member(acp.member(entry.value, "params"), "update")
    return f"{peer_name} {acp.update_kind(update) or acp.text(entry.value, 'method') or 'message'}"


def _describe_neighbour(number: int, entry: Entry) -> Neighbour:
    return Neighbour(number + 1, entry.at, describe_entry(entry))


def _classify(data: bytes) -> str:
    if data.count(0) * 2 > len(data):
        return NUL
    try:
        value = jsonrpc.parse(data)
    except (ValueError, RecursionError):
        return TORN if data.lstrip().startswith(b'{"at":"') else NO_ENTRY
    if isinstance(value, dict) and "acp-transcript" in value:
        return SECOND_HEADER
    return UNKNOWN if isinstance(value, dict) and {"at", "run", "from"} <= value.keys() else OF_ANOTHER_PROGRAM
