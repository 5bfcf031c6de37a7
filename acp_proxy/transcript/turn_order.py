"""Reads the turns of a transcript one after another, where two connections prompted the session at the same time.

Entries are recorded in the order in which they came, so the answers to two such prompts lie between each other, chunk
by chunk. No reader can follow that, clients join adjacent chunks, and agents replay one turn after the other.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property

from acp_proxy.protocol import acp
from acp_proxy.transcript.file_format import ACP_V1, Entry, NoteType
from acp_proxy.transcript.reader import AlikeLines, Line

WAITING_LIMIT = 16 * 1024 * 1024
"""The most bytes of lines that wait for the end of a turn: far more than is said while two turns run."""

_SizedLine = tuple[Line | AlikeLines, int]


def order_turns(
    lines: Iterable[Line | AlikeLines], find_last_lines: Callable[[], Mapping[str, int]]
) -> Iterator[Line | AlikeLines]:
    """The lines, where what other connections recorded during a turn follows that turn. Prompts keep their order, and
    so do the lines of each connection.

    ``find_last_lines``: returns by run the offset at which its last line begins; called at most once, if a line meets
    another connection's open turn. If the run of that has no more lines, its process may have been killed, so no other
    turn waits.

    Turns of version 2 stay as they are: there, each message has an id, by which clients keep them apart.
    """
    return _TurnOrder(lines, find_last_lines).read()


class _TurnOrder:
    """``order_turns``, under way."""

    def __init__(self, lines: Iterable[Line | AlikeLines], find_last_lines: Callable[[], Mapping[str, int]]) -> None:
        self._source = _measure(lines)
        self._find_last_lines = find_last_lines
        self._run = ""
        """The connection whose turn is read."""
        self._open_prompts: set[tuple[str, bytes]] = set()
        """The ``Entry.request_key`` of its prompts without an answer; several if some wait in the agent's queue."""
        self._waiting: deque[_SizedLine] = deque()
        """The lines that wait for the end of that turn."""
        self._waiting_size = 0
        self._released: deque[_SizedLine] = deque()
        """Lines that have waited, and come before those of the transcript."""

    def read(self) -> Iterator[Line | AlikeLines]:
        waits = False
        while True:
            item = self._released.popleft() if self._released else next(self._source, None)
            if item is None and not self._waiting:
                return
            if item is None:
                self._end_turn()
                waits = False
                continue
            line, size = item
            if isinstance(line, Line):  # lines alike go where the line before them went
                if line.entry is not None and self._is_turn_over_before(line.entry, line.end):
                    self._end_turn(item)
                    continue
                waits = line.entry is not None and bool(self._open_prompts) and line.entry.run != self._run
                if line.entry is not None and not waits:
                    self._note(line.entry)
            if waits:
                self._waiting.append(item)
                self._waiting_size += size
                if self._waiting_size > WAITING_LIMIT:
                    yield from (waiting_line for waiting_line, _ in self._waiting)
                    self._waiting.clear()
                    self._end_turn()
                    waits = False
                continue
            yield line
            if self._waiting and (not self._open_prompts or not self._goes_on_after(line.end)):
                self._end_turn()

    def _is_turn_over_before(self, entry: Entry, end: int) -> bool:
        """Whether nothing waits for the turn any longer when this entry comes, whose line ends at ``end``."""
        if not self._open_prompts:
            return False
        # In a fork, the parent's open prompts are never answered.
        if entry.note is not None:
            return entry.note.get("type") == NoteType.OPENED and entry.note.get("method") == acp.FORK
        if entry.protocol_version != ACP_V1:
            return True
        if not entry.is_prompt:
            return False
        # A prompt of the same connection goes into the agent's queue, but comes after the prompts that wait here.
        return bool(self._waiting) if entry.run == self._run else not self._goes_on_after(end)

    @cached_property
    def _last_lines(self) -> Mapping[str, int]:
        return self._find_last_lines()

    def _goes_on_after(self, offset: int) -> bool:
        """Whether the connection whose turn is read recorded something from this offset on."""
        return self._last_lines.get(self._run, 0) >= offset

    def _end_turn(self, *following: _SizedLine) -> None:
        """Go on with what waits, and then with ``following``."""
        self._released.extendleft(reversed((*self._waiting, *following)))
        self._waiting.clear()
        self._waiting_size = 0
        self._open_prompts.clear()

    def _note(self, entry: Entry) -> None:
        """Note an entry that does not wait."""
        if entry.is_prompt and entry.protocol_version == ACP_V1:
            self._run = entry.run
            self._open_prompts.add(entry.request_key)
        elif entry.answered_method == acp.PROMPT:
            self._open_prompts.discard(entry.request_key)
        elif entry.note is not None and entry.note.get("type") == NoteType.FAILED and entry.run == self._run:
            self._open_prompts.clear()


def _measure(lines: Iterable[Line | AlikeLines]) -> Iterator[_SizedLine]:
    end = 0
    for line in lines:
        yield line, max(line.end - end, 0)
        end = line.end
