"""Finds out what the agent of this machine has of a session, from the notes and the header of its transcript. Pure."""

from collections.abc import Mapping

from acp_proxy.protocol import acp
from acp_proxy.transcript.file_format import Header, NoteType, begins_new_session

_PROMPT = b"session/prompt"
"""What every prompt contains."""
NEW_ID_NOTES = frozenset({NoteType.HANDOVER, NoteType.ALIAS})
"""The notes that name another id of the agent."""
_RESTARTING_NOTES = frozenset({NoteType.HANDOVER, NoteType.CONTINUED})
"""The notes after which the conversation began anew for the agent."""
AGENT_NOTES = frozenset({*NEW_ID_NOTES, *_RESTARTING_NOTES, NoteType.OPENED, NoteType.CAUGHT_UP})
"""The notes that say what the agent has."""


class AgentSession:
    """The session that the agent has, as far as the transcript was read. Offsets are of the entries.

    ``lacks_past``: the session continued in a new one of an agent with a record, or on another machine.
    """

    def __init__(self, header: Header | None) -> None:
        self.lacks_past = False
        self.new_session_count = 0
        """How many new sessions the agent has opened to continue it, on any machine."""
        self._last_offset = -1
        """That of the last note. A last line without a newline is read again, since it may become longer."""
        self._header = header
        self._remote_parts = header.remote_parts if header is not None else []
        self._id_note: Mapping[str, object] | None = None
        """The last note that names the agent's new id of the session, or ends such a name: a copy has no session of the
        agent yet, and a fork one of its own."""
        self._handover_record_offset = self._last_remote_offset = 0
        self.reads_all = bool(self._remote_parts)
        """Whether parts of the transcript without a note matter too, since turns were recorded on other machines."""

    def add(self, note: Mapping[str, object], offset: int) -> None:
        """Add the next note of ``AGENT_NOTES``, at this offset. One recorded on another machine counts for nothing
        else but ``new_session_count``."""
        if offset <= self._last_offset:
            return
        self._last_offset = offset
        self.new_session_count += begins_new_session(note)
        if self._remote_parts and self.is_remote(offset):
            return
        kind = note.get("type")
        if kind in _RESTARTING_NOTES:
            self.lacks_past = True
        if kind in _RESTARTING_NOTES or kind == NoteType.CAUGHT_UP:
            self._handover_record_offset = max(self._handover_record_offset, offset)
        if kind in NEW_ID_NOTES or kind == NoteType.CONTINUED or note.get("method") == acp.FORK:
            self._id_note = note

    def read(self, data: bytes, start: int) -> None:
        """Look for turns that were recorded on other machines in the next whole lines, from offset ``start`` on. Any
        line there with ``_PROMPT`` counts: the agent here lacks whatever was recorded there."""
        index = data.rfind(_PROMPT)  # faster than ``in``
        while index >= 0 and not self.is_remote(start + index):
            index = data.rfind(_PROMPT, 0, index)
        if index >= 0:
            self.lacks_past = True
            self._last_remote_offset = max(self._last_remote_offset, start + index)

    @property
    def alias(self) -> str | None:
        """The id that the agent now uses for the session, if it is another one."""
        is_named = self._id_note is not None and self._id_note.get("type") in NEW_ID_NOTES
        return acp.text(self._id_note, "to") if is_named else None

    @property
    def is_missing(self) -> bool:
        """Whether the agent has no session for it yet: it was copied from another agent, or comes from another machine.
        An agent is asked only for ids that it gave on this machine."""
        if self._id_note is None:
            return self._header is not None and not self._header.has_own_id
        return self._id_note.get("type") == NoteType.CONTINUED

    @property
    def is_behind(self) -> bool:
        """Whether the agent's session lacks turns that were recorded on other machines."""
        return self._last_remote_offset > self._handover_record_offset and not self.is_missing

    @property
    def first_lacking(self) -> int:
        """The offset of the first turn that the agent's session lacks, since it was recorded on another machine."""
        return next((start for start, end, _ in self._remote_parts if end > self._handover_record_offset), 0)

    def lacks(self, offset: int) -> bool:
        """Whether the agent's session lacks what is at this offset."""
        return offset > self._handover_record_offset and self.is_remote(offset)

    def is_remote(self, offset: int) -> bool:
        """Whether what is at this offset was recorded on another machine."""
        return any(start <= offset < end for start, end, _ in self._remote_parts)
