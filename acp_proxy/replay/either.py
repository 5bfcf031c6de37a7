"""Replays a transcript to a client of version 2, whatever version its parts are of.

A part of version 2 is replayed by ``Verbatim``. A part of version 1 is replayed as to a client of version 1, and
restated. A part ends where the next line is of the other version. Notes belong to the part in which they are.
"""

from acp_proxy.replay.restating import Restating
from acp_proxy.replay.telling import Telling
from acp_proxy.replay.verbatim import Verbatim
from acp_proxy.wire.record import FIRST, Entry
from acp_proxy.wire.streams import Stream


class EitherVersion:
    """One replay. The methods are those of ``Telling``."""

    def __init__(self, session: str, first: Telling, verbatim: Verbatim) -> None:
        """``first``, ``verbatim``: of the same session, and new."""
        self._first = first
        self._second = verbatim
        self._restating = Restating(session)
        self._is_first = False

    def add(self, number: int, entry: Entry) -> list[bytes]:
        """Add the next entry. ``number``: its line in the transcript."""
        told: list[bytes] = []
        is_first = entry.protocol == FIRST if entry.peer is not None else self._is_first
        if is_first != self._is_first:
            told = self.end()
            self._is_first = is_first
        return told + (
            self._restating.all(self._first.add(number, entry)) if is_first else self._second.add(number, entry)
        )

    def go_on(self, number: int, stream: Stream) -> list[bytes]:
        """Add entries that equal the last one except for time and text. ``number``: the line of the last one."""
        if not self._is_first:
            return self._second.go_on(number, stream)
        return self._restating.all(self._first.go_on(number, stream))

    def end(self) -> list[bytes]:
        """End the replay, or a part of it."""
        return self._restating.all(self._first.end()) if self._is_first else self._second.end()

    def states(self) -> list[bytes]:
        """Nothing: in version 2 the agent itself has sent its state before its answer."""
        return []
