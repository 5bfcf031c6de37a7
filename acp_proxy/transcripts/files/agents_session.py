"""Finds out what the agent of this machine has of a session, from the notes and the header of its transcript. Pure."""

from collections.abc import Mapping

from acp_proxy.wire import acp, record
from acp_proxy.wire.record import Header

_PROMPT = b"session/prompt"
"""What every prompt contains."""
NEW_ID = frozenset({record.HANDOVER, record.ALIAS})
"""The notes that name another id of the agent."""
_GIVEN = frozenset({record.HANDOVER, record.CONTINUED})
"""The notes after which the conversation began anew for the agent."""
KINDS = frozenset({*NEW_ID, *_GIVEN, record.OPENED, record.CAUGHT_UP})
"""The notes that say what the agent has."""


class AgentsSession:
    """The session that the agent has, as far as the transcript was read. Offsets are of the entries.

    ``was_handed_over``: the session continued in a new one of an agent with a record, or on another machine.
    """

    def __init__(self, header: Header | None) -> None:
        self.was_handed_over = False
        self._header = header
        self._elsewhere = header.elsewhere if header is not None else []
        self._moved: Mapping[str, object] | None = None
        """The last note that names the agent's new id of the session, or ends such a name: a copy has no session of the
        agent yet, and a fork one of its own."""
        self._briefed_at = self._told_at = 0
        self.reads_all = bool(self._elsewhere)
        """Whether parts of the transcript without a note matter too, since turns were recorded on other machines."""

    def add(self, note: Mapping[str, object], at: int) -> None:
        """Add the next note of ``KINDS``. ``at``: its offset. A note that was recorded elsewhere counts for nothing."""
        if self._elsewhere and self.is_elsewhere(at):
            return
        kind = note.get("type")
        if kind in _GIVEN:
            self.was_handed_over = True
        if kind in _GIVEN or kind == record.CAUGHT_UP:
            self._briefed_at = max(self._briefed_at, at)
        if kind in NEW_ID or kind == record.CONTINUED or note.get("method") == acp.FORK:
            self._moved = note

    def read(self, data: bytes, at: int) -> None:
        """Look for turns that were recorded elsewhere in the next whole lines. ``at``: their offset.

        Any line there that contains ``_PROMPT`` counts: the agent here lacks whatever was recorded elsewhere.
        """
        found = data.rfind(_PROMPT)  # faster than ``in``
        while found >= 0 and not self.is_elsewhere(at + found):
            found = data.rfind(_PROMPT, 0, found)
        if found >= 0:
            self.was_handed_over, self._told_at = True, max(self._told_at, at + found)

    @property
    def alias(self) -> str | None:
        """The id that the agent now uses for the session, if it is another one."""
        is_named = self._moved is not None and self._moved.get("type") in NEW_ID
        return acp.text(self._moved, "to") if is_named else None

    @property
    def is_none(self) -> bool:
        """Whether the agent has no session for it yet: it was copied from another agent, or comes from another machine.

        An agent is asked only for ids that it gave on this machine.
        """
        if self._moved is None:
            return self._header is not None and not self._header.has_own_id
        return self._moved.get("type") == record.CONTINUED

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
