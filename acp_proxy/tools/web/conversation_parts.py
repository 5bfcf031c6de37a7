"""A conversation in parts that a browser can show one after the other, however long it is.

Whoever reads on asks for the next part. The reading that made the last one waits for that, for a minute: to read from
the beginning for every part would take longer and longer.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from msgspec import Struct

from acp_proxy.store.sessions import Reading
from acp_proxy.views import document
from acp_proxy.views.conversation import (
    ConversationTurn,
    Item,
    OpenChild,
    Part,
    SpokenMessage,
    ToolCall,
    TurnBegin,
    TurnEnd,
    add_item,
    read_parts,
)

_ITEMS = 200
"""Messages and tool calls of a part."""
_SIZE = 256 * 1024
"""Characters of a part, about: more than a screen is tall, and little for a browser."""
_FIRST_READ = 1024 * 1024
"""Bytes of a turn that are read before the first of it is shown."""


class Piece(Struct, frozen=True):
    """A turn or a piece of it. ``continuation``: how many pieces of the same turn come before it."""

    turn: ConversationTurn
    continuation: int


def cut_turns(parts: Iterable[Part]) -> Iterator[Piece]:
    """The turns in pieces, each with no more items than fit into a part."""
    turn, continuation, size = ConversationTurn(0, ""), 0, 0
    for part in parts:
        match part:
            case TurnBegin():
                turn, continuation, size = ConversationTurn(part.number, part.at, model=part.model), 0, 0
            case TurnEnd():
                turn.stop, turn.error, turn.ended = part.stop, part.error, part.at
                yield Piece(turn, continuation)
            case _:
                if len(turn.items) >= _ITEMS or size >= _SIZE:
                    # Without an end: neither the reason why the turn ended nor how long it took is known yet.
                    yield Piece(turn, continuation)
                    turn, continuation, size = replace(turn, at="", items=[]), continuation + 1, 0
                add_item(turn.items, part)
                size += _measure(part)


def name_calls(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Later changes of a call appear under the title of the call."""
    continuations: list[int] = []

    def read_turns() -> Iterator[ConversationTurn]:
        for piece in pieces:
            continuations.append(piece.continuation)
            yield piece.turn

    for turn in document.name_calls(read_turns()):
        yield Piece(turn, continuations.pop())


class ConversationPart(Struct, frozen=True):
    """What is shown at once. ``is_last``: nothing follows in what was recorded so far."""

    pieces: list[Piece]
    is_last: bool


def group_pieces(pieces: Iterable[Piece]) -> Iterator[ConversationPart]:
    """The pieces that make a part each; at least one part."""
    part: list[Piece] = []
    count = size = 0
    for piece in pieces:
        if count >= _ITEMS or size >= _SIZE:
            yield ConversationPart(part, is_last=False)
            part, count, size = [], 0, 0
        part.append(piece)
        count += len(piece.turn.items)
        size += sum(map(_measure, piece.turn.items))
    yield ConversationPart(part, is_last=True)


def _measure(item: Item) -> int:
    """The characters of an item, about."""
    if isinstance(item, SpokenMessage):
        return len(repr(item.blocks))
    return len(repr(item.fields)) if isinstance(item, ToolCall) else 100


class OpenConversation:
    """A transcript that is read part by part. ``next``: the number of the part that ``read`` returns, from 1."""

    def __init__(self, reading: Reading, session: str, child: OpenChild) -> None:
        """``session``, ``child``: as for ``read_parts``."""
        self.next = 1
        self.reading = reading
        self._parts = group_pieces(name_calls(cut_turns(read_parts(reading, session, child, page=_FIRST_READ))))

    def read(self) -> ConversationPart | None:
        """The next part; None after the last one. Raises OSError."""
        self.next += 1
        return next(self._parts, None)


class WaitingConversations:
    """Conversations that wait for a reader to read on, for a minute."""

    def __init__(self, most: int = 4, seconds: float = 60.0) -> None:
        self._most = most
        self._seconds = seconds
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str, int], tuple[OpenConversation, threading.Timer]] = OrderedDict()

    def put(self, agent: str, name: str, conversation: OpenConversation) -> None:
        """Keep a conversation until it is taken, or for a time; then its transcript is closed."""
        place = agent, name, conversation.next
        timer = threading.Timer(self._seconds, self._drop, place)
        timer.daemon = True
        self._drop(*place)
        with self._lock:
            self._kept[place] = conversation, timer
            oldest = next(iter(self._kept)) if len(self._kept) > self._most else None
        timer.start()
        if oldest is not None:
            self._drop(*oldest)

    def take(self, agent: str, name: str, number: int) -> OpenConversation | None:
        """The conversation whose next part has this number. It is the caller's now."""
        with self._lock:
            found = self._kept.pop((agent, name, number), None)
        if found is None:
            return None
        conversation, timer = found
        timer.cancel()
        return conversation

    def _drop(self, agent: str, name: str, number: int) -> None:
        if (found := self.take(agent, name, number)) is not None:
            found.reading.close()
