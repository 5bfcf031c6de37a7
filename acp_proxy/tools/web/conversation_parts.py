"""A conversation in parts that a browser can show one after the other, however long it is.

Whoever reads on asks for the next part. The reading that made the last one waits for that, for a minute: to read a long
turn from its beginning for every part would take longer and longer. Whoever jumps to a turn, or reads back, has the
conversation read from a turn on.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import dropwhile, takewhile

from msgspec import Struct

from acp_proxy.tools.search.turn_text import BEGINNING, TurnStart
from acp_proxy.transcript.reader import TranscriptReader
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
                turn, continuation, size = ConversationTurn(part.number, part.started_at, model=part.model), 0, 0
            case TurnEnd():
                turn.stop_reason, turn.error, turn.ended_at = part.stop_reason, part.error, part.ended_at
                turn.model = part.model or turn.model
                yield Piece(turn, continuation)
            case _:
                if len(turn.items) >= _ITEMS or size >= _SIZE:
                    # Without an end: neither the reason why the turn ended nor how long it took is known yet.
                    yield Piece(turn, continuation)
                    turn, continuation, size = replace(turn, started_at="", items=[]), continuation + 1, 0
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


Position = tuple[int, int]
"""Of a piece: the turn's number, and the piece's ``continuation``."""


class ConversationPart(Struct, frozen=True):
    """What is shown at once. ``next``: where it goes on; None: nothing follows in what was recorded so far."""

    pieces: list[Piece]
    next: Position | None


def group_pieces(pieces: Iterable[Piece]) -> Iterator[ConversationPart]:
    """The pieces that make a part each; at least one part."""
    part = _GrowingPart()
    for piece in pieces:
        if part.is_full:
            yield ConversationPart(list(part.pieces), locate_piece(piece))
            part = _GrowingPart()
        part.add(piece)
    yield ConversationPart(list(part.pieces), None)


def find_part_before(pieces: Iterable[Piece], end: Position) -> ConversationPart:
    """The last pieces before a place, no more than fit into a part; at least one if there is one."""
    part = _GrowingPart()
    for piece in takewhile(lambda piece: locate_piece(piece) < end, pieces):
        part.add(piece)
        part.drop_first()
    return ConversationPart(list(part.pieces), end)


class _GrowingPart:
    """The pieces of a part that is being put together."""

    def __init__(self) -> None:
        self.pieces: deque[Piece] = deque()
        self._sizes: deque[tuple[int, int]] = deque()
        self._count = self._size = 0

    @property
    def is_full(self) -> bool:
        return self._count >= _ITEMS or self._size >= _SIZE

    def add(self, piece: Piece) -> None:
        count, size = len(piece.turn.items), sum(map(_measure, piece.turn.items))
        self.pieces.append(piece)
        self._sizes.append((count, size))
        self._count += count
        self._size += size

    def drop_first(self) -> None:
        """Drop the first pieces as long as the others make a full part."""
        while len(self.pieces) > 1:
            count, size = self._sizes[0]
            if self._count - count < _ITEMS and self._size - size < _SIZE:
                return
            self._count -= count
            self._size -= size
            self._sizes.popleft()
            self.pieces.popleft()


def choose_start(starts: Sequence[TurnStart], end: Position, size: int) -> TurnStart:
    """Where to read a part that ends there: no further back than it takes. ``starts``: of the turns. ``size``: of the
    transcript."""
    number, continuation = end
    if continuation:  # what comes before it in its turn fills a part
        return starts[number - 1]
    end_offset = starts[number - 1].offset if number <= len(starts) else size
    first_turn = number - 1
    while first_turn > 1 and end_offset - starts[first_turn - 2].offset <= _SIZE:
        first_turn -= 1
    return starts[first_turn - 1]


def locate_piece(piece: Piece) -> Position:
    return piece.turn.number, piece.continuation


def _measure(item: Item) -> int:
    """The characters of an item, about."""
    if isinstance(item, SpokenMessage):
        return len(repr(item.blocks))
    return len(repr(item.fields)) if isinstance(item, ToolCall) else 100


class OpenConversation:
    """A transcript that is read part by part. ``next``: the place of the part that ``read`` returns."""

    def __init__(
        self,
        reader: TranscriptReader,
        session_id: str,
        open_child: OpenChild,
        start: TurnStart = BEGINNING,
        first_position: Position = (1, 0),
    ) -> None:
        """``session_id``, ``open_child``: as for ``read_parts``. ``start``: where to read; ``first_position``: the
        first that is wanted of what is there."""
        self.next: Position | None = first_position
        self.reader = reader
        self._parts = group_pieces(read_pieces(reader, session_id, open_child, start, first_position))

    def read(self) -> ConversationPart | None:
        """The next part; None after the last one. Raises OSError."""
        part = next(self._parts, None)
        self.next = part.next if part is not None else None
        return part


def read_pieces(
    reader: TranscriptReader,
    session_id: str,
    open_child: OpenChild,
    start: TurnStart,
    first_position: Position = (1, 0),
) -> Iterator[Piece]:
    """The pieces of a conversation from a place on. Raises OSError."""
    lines = reader.read_alike(start.offset, start.line)
    parts = read_parts(reader, session_id, open_child, lines, _FIRST_READ, start.turns)
    return dropwhile(lambda piece: locate_piece(piece) < first_position, name_calls(cut_turns(parts)))


class WaitingConversations:
    """Conversations that wait for a reader to read on. ``seconds``: how long."""

    def __init__(self, most: int = 4, seconds: float = 60.0) -> None:
        self._most = most
        self._seconds = seconds
        self._lock = threading.Lock()
        self._waiting: OrderedDict[tuple[str, str, Position], tuple[OpenConversation, threading.Timer]] = OrderedDict()

    def put(self, agent_folder: str, name: str, conversation: OpenConversation) -> None:
        """Keep a conversation until it is taken, or for a time; then its transcript is closed. Something follows."""
        assert conversation.next is not None
        key = agent_folder, name, conversation.next
        timer = threading.Timer(self._seconds, self._drop, key)
        timer.daemon = True
        self._drop(*key)
        with self._lock:
            self._waiting[key] = conversation, timer
            oldest = next(iter(self._waiting)) if len(self._waiting) > self._most else None
        timer.start()
        if oldest is not None:
            self._drop(*oldest)

    def take(self, agent_folder: str, name: str, position: Position) -> OpenConversation | None:
        """The conversation whose next part begins in this place. It is the caller's now."""
        with self._lock:
            waiting = self._waiting.pop((agent_folder, name, position), None)
        if waiting is None:
            return None
        conversation, timer = waiting
        timer.cancel()
        return conversation

    def _drop(self, agent_folder: str, name: str, position: Position) -> None:
        if (conversation := self.take(agent_folder, name, position)) is not None:
            conversation.reader.close()
