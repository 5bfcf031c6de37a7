"""Reads the searchable text of each turn of a transcript.

That is the user's text, the agent's messages (chunks joined) and the titles of tool calls, separated by ``BETWEEN``;
not thoughts, plans, or the input and output of tools. A turn begins with each prompt. In what an agent replayed before
the first prompt, a turn begins with a user message that follows anything but a plan.

Reading can continue later from the last turn. Raises only OSError.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from acp_proxy.protocol import acp, update_kinds
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.protocol.update_kinds import Role
from acp_proxy.tools.search.query import BETWEEN
from acp_proxy.transcript.file_format import Entry
from acp_proxy.transcript.reader import AlikeLines, Reading
from acp_proxy.transcript.v2_entries import read_as_v1

_LONGEST = 1024 * 1024
"""Characters of one turn that are searched: more than anyone says. Longer pasted text is cut."""


@dataclass(frozen=True, slots=True)
class TurnStart:
    """Where a turn begins: offset and number of its first line, and the number of turns before it."""

    offset: int = 0
    line: int = 0
    turns: int = 0


BEGINNING = TurnStart()


@dataclass(slots=True)
class SearchedTurn:
    """One turn.

    ``number``: counted from 1. ``at``: when it began, in transcript format. ``prompt``: the text of its prompt.
    ``titles``: the titles of tool calls so far. ``size``: characters of its text.
    """

    number: int
    at: str
    pieces: list[str] = field(default_factory=list)
    size: int = 0
    prompt: str = ""
    titles: set[str] = field(default_factory=set)
    is_answered: bool = False
    """Whether it contains anything but the user's words."""

    @property
    def text(self) -> str:
        """The searchable text."""
        return "".join(self.pieces)

    def add_text(self, text: str, *, goes_on: bool = False) -> None:
        """Add text; ``goes_on``: it continues the last message."""
        if self.size < _LONGEST:
            start = BETWEEN if self.pieces and not goes_on else ""
            self.pieces.append(f"{start}{text[: _LONGEST - self.size]}")
            self.size += len(text)


class TurnReader:
    """Reads a transcript's turns from a place on.

    ``last``: where its last turn begins. ``size``: the offset up to which it was read.
    """

    def __init__(self, start: TurnStart) -> None:
        self.last = start
        self.size = start.offset
        self._at_line = start.line
        self._count = start.turns
        self._turn: SearchedTurn | None = None
        self._is_prompted = False
        self._message: str | None = None
        """The ``messageId`` of the agent's current message; None if the next chunk begins a new one."""
        self._is_speaking = False
        """Whether the last line was a chunk of the agent's message."""
        self._ended: list[SearchedTurn] = []

    def read(self, reading: Reading) -> Iterator[SearchedTurn]:
        """The turns in order; the last one may be incomplete. Raises OSError."""
        for line in read_as_v1(reading.read_alike(self.size, self._at_line)):
            if isinstance(line, AlikeLines):
                if self._is_speaking and self._turn is not None:
                    self._turn.add_text(line.chunks.text, goes_on=True)
            elif line.entry is not None:
                self._at_line = line.number
                self._add(line.entry)
                yield from self._ended
                self._ended.clear()
            if isinstance(line, AlikeLines) or line.whole:  # else it is read again, as it may be incomplete
                self.size = line.end
        if self._turn is not None:
            yield self._turn

    def _add(self, entry: Entry) -> None:
        self._is_speaking = False
        if entry.note is not None:
            return
        method, params = acp.text(entry.value, "method"), acp.member(entry.value, "params")
        if entry.peer is Peer.CLIENT:
            if method == acp.PROMPT:
                self._add_prompt(entry.at, acp.member(params, "prompt"))
            elif method == acp.STEERING:
                self._add_steering(entry.at, acp.member(params, "prompt"))
        elif method == acp.UPDATE:
            update = acp.member(params, "update")
            if isinstance(update, Mapping):
                self._add_update(entry.at, update)
        elif method == acp.REQUEST_PERMISSION:
            self._add_call(self._find_turn(entry.at), acp.member(params, "toolCall"))

    def _add_prompt(self, at: str, blocks: object) -> None:
        turn = self._begin_turn(at)
        self._is_prompted, self._message = True, None
        turn.prompt = _join_blocks(blocks)
        if turn.prompt:
            turn.add_text(turn.prompt)

    def _add_steering(self, at: str, blocks: object) -> None:
        """The user's words into a running turn."""
        self._message = None
        if said := _join_blocks(blocks):
            self._find_turn(at).add_text(said)

    def _add_update(self, at: str, update: Mapping[str, object]) -> None:
        kind = acp.update_kind(update)
        if kind is None or not update_kinds.is_conversation(kind):
            return
        content = acp.member(update, "content")
        role = update_kinds.find_v1_role(kind)
        if role is Role.USER:
            self._add_user_chunk(at, read_block(content))
            return
        turn = self._find_turn(at)
        turn.is_answered |= kind != update_kinds.PLAN  # replays have only the last of several, which may move
        if role is Role.AGENT and (text := acp.text(content, "text")) is not None:
            message = acp.text(update, "messageId") or ""
            turn.add_text(text, goes_on=self._message == message)
            self._message, self._is_speaking = message, True
            return
        self._message = None
        if role is Role.CALL:
            self._add_call(turn, update)

    def _add_user_chunk(self, at: str, text: str) -> None:
        """A user message from the agent. If the prompt contains it, it is an echo and not added."""
        turn = self._find_turn(at)
        if turn.is_answered and not self._is_prompted:
            turn = self._begin_turn(at)
        if text.strip() in turn.prompt:
            self._message = None
        else:
            turn.add_text(text, goes_on=self._message == update_kinds.USER_CHUNK)
            self._message = update_kinds.USER_CHUNK

    def _add_call(self, turn: SearchedTurn, call: object) -> None:
        title = acp.text(call, "title")
        if title and title not in turn.titles:
            turn.titles.add(title)
            turn.add_text(title)

    def _find_turn(self, at: str) -> SearchedTurn:
        return self._turn if self._turn is not None else self._begin_turn(at)

    def _begin_turn(self, at: str) -> SearchedTurn:
        if self._turn is not None:
            self._ended.append(self._turn)
        if self._turn is None or self._at_line != self.last.line:  # a damaged line may contain several turns
            self.last = TurnStart(self.size, self._at_line, self._count)
        self._count += 1
        self._turn = SearchedTurn(self._count, at)
        return self._turn


def _join_blocks(blocks: object) -> str:
    found = (read_block(block) for block in blocks) if isinstance(blocks, list) else ()
    return " ".join(filter(None, found))


def read_block(block: object) -> str:
    """What a block of the user's adds to the text: its text, or the name or URI it refers to."""
    if acp.text(block, "type") == "text":
        return acp.text(block, "text") or ""
    return acp.text(block, "name") or acp.text(block, "uri") or acp.text(acp.member(block, "resource"), "uri") or ""
