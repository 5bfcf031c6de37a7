"""Finds out what the agent of this machine has of a session, from the notes and the header of its transcript. Pure."""

from collections.abc import Callable

from acp_proxy.wire import record
from acp_proxy.wire.record import Header

_PROMPT = b"session/prompt"
"""What every prompt contains. Other lines that contain it do no harm."""
_NOTE = 64 * 1024
"""Bytes that are read of a note: more than an id has."""
OVERLAP = max(map(len, record.MOVED_MARKS)) - 1
"""Bytes by which two reads must overlap, so that neither misses a mark."""


class AgentsSession:
    """The session that the agent has, as far as the transcript was read. Offsets are of the entries.

    ``was_handed_over``: the session continued in a new one of an agent with a record, or on another machine.
    """

    def __init__(self, header: Header | None) -> None:
        self.was_handed_over = False
        self._header = header
        self._elsewhere = header.elsewhere if header is not None else []
        self._moved: bytes | None = None
        self._moved_at = self._briefed_at = self._told_at = 0
        self.reads_all = bool(self._elsewhere)
        """Whether parts of the transcript without a note matter too, since turns were recorded on other machines."""

    def read(self, data: bytes, at: int, read: Callable[[int, int], bytes]) -> None:
        """Read the next part of the transcript. ``at``: its offset. ``read(size, offset)``: returns other parts."""
        for mark in record.MOVED_MARKS:
            if (found := self._last(data, at, mark, elsewhere=False)) >= self._moved_at:
                self._moved_at, self._moved = found, read(_NOTE, found)
            if found >= 0 and mark in (record.HANDOVER_MARK, record.CONTINUED_MARK):
                self.was_handed_over, self._briefed_at = True, max(self._briefed_at, found)
        if self._elsewhere:
            self._briefed_at = max(self._briefed_at, self._last(data, at, record.CAUGHT_UP_MARK, elsewhere=False))
            if (found := self._last(data, at, _PROMPT, elsewhere=True)) >= 0:
                self.was_handed_over, self._told_at = True, found

    @property
    def alias(self) -> str | None:
        """The id that the agent now uses for the session, if it is another one."""
        return record.moved_to(self._moved) if self._moved is not None else None

    @property
    def is_none(self) -> bool:
        """Whether the agent has no session for it yet: it was copied from another agent, or comes from another machine.

        An agent is asked only for ids that it gave on this machine.
        """
        if self._moved is None:
            return self._header is not None and not self._header.has_own_id
        return self._moved.startswith(record.CONTINUED_MARK)

    @property
    def is_behind(self) -> bool:
        """Whether the agent's session lacks turns that were recorded on other machines."""
        return self._told_at > self._briefed_at and not self.is_none

    @property
    def lacks_from(self) -> int:
        """The offset of the first turn that the agent's session lacks, since it was recorded on another machine."""
        return next((start for start, end, _ in self._elsewhere if end > self._briefed_at), 0)

    def lacks(self, at: int) -> bool:
        """Whether the agent's session lacks what is at this offset."""
        return at > self._briefed_at and self.is_elsewhere(at)

    def is_elsewhere(self, at: int) -> bool:
        """Whether what is at this offset was recorded on another machine."""
        return any(start <= at < end for start, end, _ in self._elsewhere)

    def _last(self, data: bytes, at: int, mark: bytes, *, elsewhere: bool) -> int:
        """The offset of the last mark in what was just read, of those that were recorded elsewhere, or of the others;
        negative if there is none."""
        found = data.rfind(mark)  # faster than ``in``
        while found >= 0 and self._elsewhere and self.is_elsewhere(at + found) is not elsewhere:
            found = data.rfind(mark, 0, found)
        return at + found if found >= 0 else -1
