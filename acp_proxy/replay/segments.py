"""Replays a segment, which is a prompt's turn and everything up to the next prompt, in one of two ways.

``FullSegment`` (mode ``full``) sends every update as it comes. ``CompactSegment`` (``compact``) sends the same state in
fewer lines when the segment has ended. Both make sure that a call begins with a ``tool_call``, that a permission
request counts as an update of its call if that is sent, that terminals are replaced by their output, and that what was
never finished has failed.
"""

from collections import deque
from collections.abc import Collection, Iterator
from typing import Protocol

from msgspec import Struct

from acp_proxy.protocol import update_kinds
from acp_proxy.protocol.update_kinds import COMPACTION, TOOL_CALL, Form, Role
from acp_proxy.replay import tool_calls, unfinished
from acp_proxy.replay.fold_calls import FoldedCall
from acp_proxy.replay.terminal_output import ReplayedTerminals, TerminalContent
from acp_proxy.replay.tool_calls import ReplayedCall
from acp_proxy.replay.unfinished import Compaction, Key, UnfinishedCalls
from acp_proxy.replay.updates import Chunks, Update, find_key
from acp_proxy.transcript.chunk_runs import AlikeChunks


class Segment(Protocol):
    """A segment. The methods return the lines that are certain now, in order; an item may be several lines."""

    def add(self, update: Update) -> list[bytes]:
        """Add an update that is not about a tool call."""

    def add_chunks(self, stream: AlikeChunks) -> list[bytes] | None:
        """Add more chunks of the message that was added last. None: add them one by one instead."""

    def call(self, call: ReplayedCall) -> list[bytes]:
        """Add a statement about a tool call."""

    def end(self, failed: Collection[Key]) -> list[bytes]:
        """End the segment. ``failed``: the calls and compactions that were never finished."""


class _Held(Struct):
    """A line that waits for the output of terminals, which are in ``run``.

    ``is_awaited``: there is no line yet, since a permission request asked about a call that has not come.
    """

    line: bytes
    run: str | None = None
    call: str = ""
    is_awaited: bool = False


class FullSegment:
    """Sends every update as it comes."""

    def __init__(self, session_id: str, calls: UnfinishedCalls, terminals: ReplayedTerminals) -> None:
        self._session_id = session_id
        self._calls = calls
        self._terminals = terminals
        self._shown: dict[str, TerminalContent] = {}
        self._held: deque[_Held] = deque()
        """The lines from the first reference to a terminal on, or from a question about a call that has not come."""
        self._asked: dict[str, _Held] = {}

    def add(self, update: Update) -> list[bytes]:
        if update_kinds.find(update.kind).role is Role.COMPACTION:
            unfinished.note(update, self._calls)
        return self._put(_Held(update.line))

    def add_chunks(self, stream: AlikeChunks) -> list[bytes]:
        return self._put(_Held(stream.messages))

    def call(self, call: ReplayedCall) -> list[bytes]:
        is_new = call.id not in self._calls.known
        ready = self._calls.take(call)
        if not ready and call.id not in self._asked:
            self._asked[call.id] = _Held(b"", is_awaited=True)
            return self._put(self._asked[call.id])
        out: list[bytes] = []
        for statement in ready:
            self._note_terminals(statement)
            line = tool_calls.encode_call(self._session_id, statement, is_start=statement.is_start or is_new)
            is_new = False
            if line is not None:
                out += self._put_call(statement, line)
        return out

    def end(self, failed: Collection[Key]) -> list[bytes]:
        ready = [self._finish_line(held) for held in self._held if not held.is_awaited]
        self._held.clear()
        self._asked.clear()
        own = self._calls.own
        self._terminals.end_turn({id: shown for id, shown in self._shown.items() if id not in own})
        return [*ready, *(_encode_failed(self._session_id, key) for key in failed)]

    def _put_call(self, call: ReplayedCall, line: bytes) -> list[bytes]:
        run = call.run if call.shows_terminal else None
        held = self._asked.pop(call.id, None)
        if held is None:
            return self._put(_Held(line, run, call.id))
        held.line, held.run, held.call, held.is_awaited = line, run, call.id, False
        return self._release()

    def _put(self, held: _Held) -> list[bytes]:
        if not self._held and held.run is None and not held.is_awaited:
            return [held.line]
        self._held.append(held)
        return []

    def _release(self) -> list[bytes]:
        """Remove and return the first lines that wait for nothing."""
        ready = []
        while self._held and self._held[0].run is None and not self._held[0].is_awaited:
            ready.append(self._held.popleft().line)
        return ready

    def _finish_line(self, held: _Held) -> bytes:
        if held.run is None:
            return held.line
        return self._terminals.fill_line(held.line, held.run, own=held.call in self._calls.own)

    def _note_terminals(self, call: ReplayedCall) -> None:
        if call.sets_content:
            self._terminals.stop_awaiting(call.id)
            self._shown.pop(call.id, None)
        if call.shows_terminal:
            self._shown[call.id] = TerminalContent(call.run, call.fields["content"])


class CompactSegment:
    """Sends everything when the segment ends, in as few lines as possible."""

    def __init__(self, session_id: str, calls: UnfinishedCalls, terminals: ReplayedTerminals, limit: int) -> None:
        """``limit``: the most bytes of one call; 0 for no limit."""
        self._session_id = session_id
        self._calls = calls
        self._terminals = terminals
        self._limit = limit
        self._places: list[Chunks | FoldedCall | Compaction | bytes] = []
        self._folds: dict[str, FoldedCall] = {}
        self._compactions: dict[str, Compaction] = {}
        self._touched: FoldedCall | None = None  # the only fold with an uncut line, which its next update may replace
        self._plan: int | None = None

    def add(self, update: Update) -> list[bytes]:
        kind = update_kinds.find(update.kind)
        if kind.v1 is Form.JOINED:
            self._add_chunk(update)
        elif kind.role is Role.COMPACTION:
            self._add_compaction(update)
        else:
            if kind.v1 is Form.LAST_OF_TURN:
                self._drop_plan()
                self._plan = len(self._places)
            self._places.append(update.line)
        return []

    def add_chunks(self, stream: AlikeChunks) -> list[bytes] | None:
        last = self._places[-1]
        if not isinstance(last, Chunks) or last.key is None:
            return None
        last.add_chunks(stream.text)
        return []

    def call(self, call: ReplayedCall) -> list[bytes]:
        if (fold := self._folds.get(call.id)) is None:
            fold = FoldedCall(self._session_id, call.id, self._limit, is_whole=call.id not in self._calls.known)
            self._folds[call.id] = fold
            self._places.append(fold)
        for statement in self._calls.take(call):
            if statement.sets_content:
                self._terminals.stop_awaiting(statement.id)
            if self._touched is not None and self._touched is not fold:
                self._touched.cut()
            self._touched = fold
            fold.take(statement, one_by_one=statement.id in self._calls.own)
        return []

    def end(self, failed: Collection[Key]) -> list[bytes]:
        ready = list(self._encode_all(set(failed)))
        ready += [_encode_failed(self._session_id, key) for key in failed if not self._is_here(key)]
        self._terminals.end_turn({id: fold.shown for id, fold in self._folds.items() if fold.shown is not None})
        return ready

    def _encode_all(self, failed: Collection[Key]) -> Iterator[bytes]:
        for place in self._places:
            match place:
                case Chunks():
                    yield place.encode()
                case FoldedCall() if place.id in self._calls.known:
                    yield from place.encode(self._terminals, failed=(TOOL_CALL, place.id) in failed)
                case Compaction():
                    yield place.encode(failed=(COMPACTION, place.id) in failed)
                case bytes():
                    yield place

    def _is_here(self, key: Key) -> bool:
        kind, id = key
        return id in (self._folds if kind == TOOL_CALL else self._compactions)

    def _add_chunk(self, update: Update) -> None:
        last = self._places[-1] if self._places else None
        if isinstance(last, Chunks) and last.may_join(find_key(update)):
            last.add(update)
        else:
            self._places.append(Chunks(self._session_id, update))

    def _add_compaction(self, update: Update) -> None:
        """Fold all updates of a compaction into its first place. Updates in later segments pass unchanged."""
        id = unfinished.find_id(update)
        is_new = unfinished.note(update, self._calls)
        if is_new:
            self._compactions[id] = Compaction(self._session_id, id)
            self._places.append(self._compactions[id])
        if id in self._compactions:
            self._compactions[id].add(update)
        else:
            self._places.append(update.line)

    def _drop_plan(self) -> None:
        """Remove the segment's earlier plan, and join the chunks around it, which are adjacent now."""
        if (at := self._plan) is None:
            return
        del self._places[at]
        before, after = self._places[at - 1] if at else None, self._places[at] if at < len(self._places) else None
        if isinstance(before, Chunks) and isinstance(after, Chunks) and before.may_join(after.key):
            before.take(after)
            del self._places[at]


def _encode_failed(session_id: str, key: Key) -> bytes:
    kind, id = key
    if kind == TOOL_CALL:
        return tool_calls.encode_update(session_id, id, {"status": tool_calls.FAILED}, {})
    return unfinished.encode_failed(session_id, id)
