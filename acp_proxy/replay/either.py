"""Replays a transcript to a client of version 2, whatever version its parts are of.

A part of version 2 is replayed by ``Verbatim``, and folded by ``Upserting`` turn by turn if that is wanted. A part of
version 1 is replayed as to a client of version 1, and restated. A part ends where the next line is of the other
version. Notes belong to the part in which they are.

After a handover, the ids from before it are changed, since the agent's new session may use them again.
"""

from collections.abc import Iterable

from acp_proxy.replay.renaming import renamed
from acp_proxy.replay.restating import Restating
from acp_proxy.replay.telling import Telling
from acp_proxy.replay.upserting import Upserting
from acp_proxy.replay.verbatim import Verbatim
from acp_proxy.wire import acp, record
from acp_proxy.wire.record import FIRST, Entry
from acp_proxy.wire.streams import Stream


class EitherVersion:
    """One replay. The methods are those of ``Telling``."""

    def __init__(self, session: str, first: Telling, verbatim: Verbatim, folding: Upserting | None = None) -> None:
        """``first``, ``verbatim``: of the same session, and new. ``folding``: folds parts of version 2."""
        self._folding = folding
        self._first = first
        self._second = verbatim
        self._restating = Restating(session)
        self._is_first = False
        self._handovers = 0
        self.handovers = 0
        """How many handovers the session has had, this one included."""

    def add(self, number: int, entry: Entry) -> list[bytes]:
        """Add the next entry. ``number``: its line in the transcript."""
        told: list[bytes] = []
        is_first = entry.protocol == FIRST if entry.peer is not None else self._is_first
        begins_anew = _begins_anew(entry)
        if is_first != self._is_first or begins_anew:
            told = self._end(entry.run if begins_anew else None)
            self._is_first = is_first
            self._handovers += begins_anew
        if is_first:
            return told + self._told(self._first.add(number, entry))
        if acp.text(entry.value, "method") == acp.PROMPT:
            told += self._told(self._folded())
        return told + self._told(self._fold(self._second.add(number, entry)))

    def go_on(self, number: int, stream: Stream) -> list[bytes]:
        """Add entries that equal the last one except for time and text. ``number``: the line of the last one."""
        if self._is_first:
            return self._told(self._first.go_on(number, stream))
        told = self._folding.go_on(stream) if self._folding is not None else None
        return self._told(self._fold(self._second.go_on(number, stream)) if told is None else told)

    def end(self) -> list[bytes]:
        """End the replay."""
        return self._end(None)

    def _end(self, sends_again: str | None) -> list[bytes]:
        """End the replay, or a part of it. ``sends_again``: the run whose open prompts belong to the next part."""
        if self._is_first:
            return self._told(self._first.end())
        return self._told([*self._fold(self._second.end(sends_again=sends_again)), *self._folded()])

    def states(self) -> list[bytes]:
        """Nothing: in version 2 the agent itself has sent its state before its answer."""
        return []

    def _fold(self, lines: list[bytes]) -> list[bytes]:
        """Fold these lines of a turn, or return them if nothing is folded."""
        return self._folding.add(lines) if self._folding is not None else lines

    def _folded(self) -> list[bytes]:
        return self._folding.end_turn() if self._folding is not None else []

    def _told(self, lines: list[bytes]) -> list[bytes]:
        told = self._restating.all(lines) if self._is_first else lines
        return renamed(told, f"acp-proxy-{self._handovers}-") if self._handovers < self.handovers else told


def handovers(entries: Iterable[Entry | None]) -> int:
    """How many handovers these entries have begun."""
    return sum(1 for entry in entries if entry is not None and _begins_anew(entry))


def _begins_anew(entry: Entry) -> bool:
    note = entry.note or {}
    return note.get("type") == record.OPENED and note.get(record.ANEW) is True
