"""A segment: a prompt's turn and all that follows it up to the next prompt, told in one of two ways.

``Streamed`` (full) tells every update as it comes; ``Folded`` (compact) tells the same state in fewer lines when the
segment has ended. Both keep the rules of safety: a call begins with a start, a permission request counts as an update
of its call, terminals are replaced, and a call that nobody will finish has failed.
"""

from collections.abc import Iterator
from typing import Protocol

from acp_proxy.replay import calls
from acp_proxy.replay.calls import Call
from acp_proxy.replay.chunks import Chunks, key
from acp_proxy.replay.folding import Fold
from acp_proxy.replay.terminals import Shown, Terminals
from acp_proxy.replay.updates import CHUNKS, PLAN, Update
from acp_proxy.wire.streams import Stream


class Segment(Protocol):
    def add(self, update: Update) -> list[bytes]:
        """An update that is about no tool call."""

    def go_on(self, stream: Stream) -> list[bytes] | None:
        """More of the message that was added last; None where it has to be added one by one."""

    def call(self, call: Call) -> list[bytes]: ...

    def end(self, *, live: bool) -> list[bytes]:
        """What has not been told yet. ``live``: the turn goes on, so its calls may be finished still."""


class Streamed:
    def __init__(self, session: str, known: set[str], terminals: Terminals) -> None:
        """``known``: the calls that have been told."""
        self._session = session
        self._known = known
        self._terminals = terminals
        self._unfinished: dict[str, None] = {}
        self._shown: dict[str, Shown] = {}
        # From the first reference to a terminal on; with the run of those lines that refer to one.
        self._waiting: list[tuple[bytes, str | None]] = []

    def add(self, update: Update) -> list[bytes]:
        return self._out(update.line)

    def go_on(self, stream: Stream) -> list[bytes]:
        return self._out(stream.messages)

    def call(self, call: Call) -> list[bytes]:
        is_start = call.is_start or call.id not in self._known
        self._known.add(call.id)
        self._note_status(call, is_start=is_start)
        if call.sets_content:
            self._terminals.changed(call.id)
            self._shown.pop(call.id, None)
        if call.shows_terminal:
            self._shown[call.id] = Shown(call.run, call.fields["content"])
        line = self._line(call, is_start=is_start)
        return self._out(line, call.run if call.shows_terminal else None) if line is not None else []

    def end(self, *, live: bool) -> list[bytes]:
        told = [line if run is None else self._terminals.in_line(line, run) for line, run in self._waiting]
        self._waiting.clear()
        self._terminals.end_of_turn(self._shown)
        failed = {"status": calls.FAILED}
        return told if live else [*told, *(calls.updated(self._session, id, failed, {}) for id in self._unfinished)]

    def _out(self, line: bytes, run: str | None = None) -> list[bytes]:
        if run is None and not self._waiting:
            return [line]
        self._waiting.append((line, run))
        return []

    def _note_status(self, call: Call, *, is_start: bool) -> None:
        if call.status in calls.UNFINISHED or (call.status is None and is_start):
            self._unfinished[call.id] = None
        elif call.status is not None:
            self._unfinished.pop(call.id, None)

    def _line(self, call: Call, *, is_start: bool) -> bytes | None:
        if call.line is not None and call.is_start == is_start:
            return call.line
        if is_start:
            return calls.started(self._session, call.id, call.fields, call.around)
        return calls.updated(self._session, call.id, call.fields, call.around) if call.fields else None


class Folded:
    def __init__(self, session: str, known: set[str], terminals: Terminals, limit: int) -> None:
        """``known``: the calls that have been told. ``limit``: bytes that one call may carry; 0 for any."""
        self._session = session
        self._known = known
        self._terminals = terminals
        self._limit = limit
        self._places: list[Chunks | Fold | bytes] = []
        self._folds: dict[str, Fold] = {}
        self._touched: Fold | None = None  # the only one that may hold a line uncut: the next may replace it
        self._plan: int | None = None

    def add(self, update: Update) -> list[bytes]:
        if update.kind in CHUNKS:
            self._chunk(update)
        else:
            if update.kind == PLAN:
                self._drop_plan()
                self._plan = len(self._places)
            self._places.append(update.line)
        return []

    def go_on(self, stream: Stream) -> list[bytes] | None:
        last = self._places[-1]
        if not isinstance(last, Chunks) or last.key is None:
            return None
        last.go_on(stream.text)
        return []

    def call(self, call: Call) -> list[bytes]:
        if (fold := self._folds.get(call.id)) is None:
            fold = Fold(self._session, call.id, self._limit, is_whole=call.id not in self._known)
            self._known.add(call.id)
            self._folds[call.id] = fold
            self._places.append(fold)
        if call.sets_content:
            self._terminals.changed(call.id)
        if self._touched is not None and self._touched is not fold:
            self._touched.cut()
        self._touched = fold
        fold.add(call)
        return []

    def end(self, *, live: bool) -> list[bytes]:
        told = list(self._told(live=live))
        self._terminals.end_of_turn({id: fold.shown for id, fold in self._folds.items() if fold.shown is not None})
        return told

    def _told(self, *, live: bool) -> Iterator[bytes]:
        for place in self._places:
            match place:
                case Chunks():
                    yield place.told()
                case Fold():
                    yield from place.told(self._terminals, live=live)
                case _:
                    yield place

    def _chunk(self, update: Update) -> None:
        last = self._places[-1] if self._places else None
        if isinstance(last, Chunks) and last.joins(key(update)):
            last.add(update)
        else:
            self._places.append(Chunks(self._session, update))

    def _drop_plan(self) -> None:
        """A newer plan is told in its own place; what stood around the older one is adjacent now."""
        if (at := self._plan) is None:
            return
        del self._places[at]
        before, after = self._places[at - 1] if at else None, self._places[at] if at < len(self._places) else None
        if isinstance(before, Chunks) and isinstance(after, Chunks) and before.joins(after.key):
            before.take(after)
            del self._places[at]
