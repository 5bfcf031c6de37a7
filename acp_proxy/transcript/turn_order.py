"""Reads the turns of a transcript one after another, where a prompt came during another one's turn.

Entries are recorded in the order in which they came. If two connections prompted the session at the same time, the
answers lie between each other, chunk by chunk. If one connection sent both prompts, its agent may have kept the second
one for later: then the rest of the first answer follows both. No reader can follow that, clients join adjacent chunks,
and agents replay one turn after the other.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property

from acp_proxy.protocol import acp, update_kinds
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript.file_format import ACP_V1, Entry, NoteType
from acp_proxy.transcript.reader import AlikeLines, Line

WAITING_LIMIT = 16 * 1024 * 1024
"""The most bytes of lines that wait for the end of a turn: far more than is said while two turns run. A prompt without
an answer so many bytes later counts as one of a process that was killed."""

_SizedLine = tuple[Line | AlikeLines, int]
_PromptKey = tuple[str, bytes]
"""``Entry.request_key`` of a prompt."""


def order_turns(
    lines: Iterable[Line | AlikeLines], find_last_lines: Callable[[], Mapping[str, int]]
) -> Iterator[Line | AlikeLines]:
    """The lines, where what other connections recorded during a turn follows that turn, and a prompt that waited in the
    agent's queue follows the answer to the one before it. Prompts keep their order, and so does all else of each
    connection.

    ``find_last_lines``: returns by run the offset at which its last line begins; called at most once, if a line meets
    another connection's open turn. If the run of that has no more lines, its process may have been killed, so no other
    turn waits.

    Turns of version 2 stay as they are: there, each message has an id, by which clients keep them apart.
    """
    return _TurnOrder(_QueuedPrompts(lines).read(), find_last_lines).read()


class _QueuedPrompts:
    """Moves prompts that waited in the agent's queue to where their turns begin.

    Whether an agent queues prompts or takes them into the turn that is running, only what follows shows: an agent with
    a queue goes on to speak when it has answered the first prompt, and not the last. Until then, all lines are held. If
    it never does, they stay as they are recorded.
    """

    def __init__(self, lines: Iterable[Line | AlikeLines]) -> None:
        self._source = iter(lines)
        self._released: deque[Line | AlikeLines] = deque()
        """Lines that were held, and are to be looked at again, before those of the transcript."""
        self._open_prompts: dict[_PromptKey, int] = {}
        """The prompts without an answer, in order, and the offsets after their lines."""
        self._silent_runs: set[str] = set()
        """The connections whose last prompt the agent has neither repeated nor answered with a word or a call yet."""
        self._held: list[Line | AlikeLines] = []
        """The lines from a prompt on that came during another one's turn."""
        self._running: _PromptKey = "", b""
        """The prompt whose turn that is."""
        self._waiting: set[_PromptKey] = set()
        """The prompts among the held lines that have no answer yet."""
        self._turn_size = 0
        """How many of the held lines there are up to the running prompt's answer; 0: it has none yet."""
        self._left: frozenset[_PromptKey] = frozenset()
        """The prompts that had no answer when the running one got its own."""

    def read(self) -> Iterator[Line | AlikeLines]:
        while (line := self._released.popleft() if self._released else next(self._source, None)) is not None:
            entry = line.entry if isinstance(line, Line) else None
            if not self._held:
                running = self._find_running(entry, line.end) if entry is not None else None
                if entry is None or running is None:
                    yield self._pass(line)
                    continue
                self._running, self._waiting, self._turn_size = running, set(), 0
            self._held.append(line)
            if entry is not None and self._turn_size and entry.run == self._running[0] and _find_said(entry):
                self._move_prompts()
            elif (entry is not None and not self._may_be_queued(entry)) or self._is_too_long(line.end):
                yield from self._stop_holding()
        yield from self._stop_holding()

    def _find_running(self, entry: Entry, end: int) -> _PromptKey | None:
        """The prompt during whose turn this entry, a prompt of the same connection, came; None for all other entries.
        ``end``: the offset after it."""
        if not (entry.is_prompt and entry.protocol_version == ACP_V1):
            return None
        before = (key for key in reversed(self._open_prompts) if key[0] == entry.run)
        running = next(before, None)
        return running if running is not None and end - self._open_prompts[running] <= WAITING_LIMIT else None

    def _is_too_long(self, end: int) -> bool:
        return end - self._open_prompts[self._running] > WAITING_LIMIT

    def _may_be_queued(self, entry: Entry) -> bool:
        """Note a held entry. Returns whether a held prompt may still be in the agent's queue."""
        run = self._running[0]
        if entry.note is not None:
            return not (_is_fork(entry) or _is_failure(entry, run))
        if entry.run != run:
            return not entry.is_prompt  # which would come before one that it follows
        if entry.protocol_version != ACP_V1:
            return False
        if entry.is_prompt:
            self._waiting.add(entry.request_key)
        elif entry.answered_method == acp.PROMPT:
            self._waiting.discard(entry.request_key)
            if entry.request_key == self._running:
                self._turn_size, self._left = len(self._held), frozenset(self._waiting)
            return bool(self._waiting)
        if _find_said(entry) == update_kinds.USER_CHUNK:
            # An agent that repeats a prompt during the turn has taken it into that. At its beginning, it is the echo of
            # the running one.
            return run in self._silent_runs
        self._note_said(entry)
        return True

    def _move_prompts(self) -> None:
        """Release the held lines, with the prompts that are left at the end of the turn after it."""
        turn, rest = self._held[: self._turn_size], self._held[self._turn_size :]
        is_left = [isinstance(line, Line) and _find_prompt(line.entry) in self._left for line in turn]
        stays = [line for line, moves in zip(turn, is_left, strict=True) if not moves]
        prompts = [line for line, moves in zip(turn, is_left, strict=True) if moves]
        self._released.extendleft(reversed((*stays, *prompts, *rest)))
        self._held.clear()

    def _stop_holding(self) -> Iterator[Line | AlikeLines]:
        """The held lines, as they are recorded."""
        lines, self._held = self._held, []
        return map(self._pass, lines)

    def _pass(self, line: Line | AlikeLines) -> Line | AlikeLines:
        """Note a line that is not held, and return it."""
        entry = line.entry if isinstance(line, Line) else None
        if entry is None:
            return line
        if (key := _find_prompt(entry)) is not None and entry.protocol_version == ACP_V1:
            self._open_prompts.pop(key, None)  # a request id may be used again
            self._open_prompts[key] = line.end
            self._silent_runs.add(entry.run)
        elif entry.answered_method == acp.PROMPT:
            self._open_prompts.pop(entry.request_key, None)
        elif _is_fork(entry):
            self._open_prompts.clear()
        elif _is_failure(entry, entry.run):
            self._open_prompts = {key: end for key, end in self._open_prompts.items() if key[0] != entry.run}
        else:
            self._note_said(entry)
        return line

    def _note_said(self, entry: Entry) -> None:
        if entry.run in self._silent_runs and _find_said(entry):
            self._silent_runs.discard(entry.run)


def _find_prompt(entry: Entry | None) -> _PromptKey | None:
    """The key of a prompt; None for all other entries."""
    return entry.request_key if entry is not None and entry.is_prompt else None


def _find_said(entry: Entry) -> str | None:
    """The kind of update with which the agent says something to the user, or the method with which it asks for
    permission; None for all other entries."""
    method = acp.text(entry.value, "method") if entry.peer is Peer.AGENT else None
    if method != acp.UPDATE:
        return method if method == acp.REQUEST_PERMISSION else None
    kind = acp.update_kind(acp.member(acp.member(entry.value, "params"), "update"))
    return kind if kind is not None and update_kinds.is_conversation(kind) else None


def _is_fork(entry: Entry) -> bool:
    """Whether a fork begins here: its parent's open prompts are never answered in it."""
    return entry.note is not None and entry.note.get("type") == NoteType.OPENED and entry.note.get("method") == acp.FORK


def _is_failure(entry: Entry, run: str) -> bool:
    """Whether the agent of this connection has ended before it answered."""
    return entry.note is not None and entry.note.get("type") == NoteType.FAILED and entry.run == run


class _TurnOrder:
    """Has what other connections recorded during a turn follow it."""

    def __init__(self, lines: Iterable[Line | AlikeLines], find_last_lines: Callable[[], Mapping[str, int]]) -> None:
        self._source = _measure(lines)
        self._find_last_lines = find_last_lines
        self._run = ""
        """The connection whose turn is read."""
        self._open_prompts: set[_PromptKey] = set()
        """Its prompts without an answer; several if the agent takes them into one turn."""
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
        if entry.note is not None:
            return _is_fork(entry)
        if entry.protocol_version != ACP_V1:
            return True
        if not entry.is_prompt:
            return False
        # A prompt of the same connection belongs to its turn, but comes after the prompts that wait here.
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
        elif _is_failure(entry, self._run):
            self._open_prompts.clear()


def _measure(lines: Iterable[Line | AlikeLines]) -> Iterator[_SizedLine]:
    end = 0
    for line in lines:
        yield line, max(line.end - end, 0)
        end = max(end, line.end)  # a moved prompt lies before what it follows
