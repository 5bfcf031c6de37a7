"""Holds entries back until the agent is named."""

from acp_proxy.decisions.effects import (
    BeginTranscript,
    BeginTurn,
    Effect,
    EndTurn,
    ForgetSession,
    IdentifyAgent,
    RecordGap,
    RecordMessage,
    RecordNote,
    RecordUnparsedUpdates,
    SaveAndIndex,
    SetProtocolVersion,
    TranscriptEffect,
    TranscriptEffectBase,
)
from acp_proxy.protocol import jsonrpc

UNNAMED_AGENT_LIMIT = 1024 * 1024
"""The most bytes that wait until the agent is named."""


class UnnamedAgentEntries:
    """Holds recording effects until the agent has named itself, because the name chooses its folder in the store.

    Holds at most about ``UNNAMED_AGENT_LIMIT`` bytes, and nothing once a prompt comes. Does not change the order of
    effects for the transcript.
    """

    def __init__(self) -> None:
        self.is_folder_known = False
        """Whether the folder is known, so that nothing waits any more."""
        self._unrecorded: list[TranscriptEffect] = []
        self._size = 0
        """The bytes in ``_unrecorded``."""

    def handle_identification(self, identification: IdentifyAgent) -> list[TranscriptEffect]:
        """The agent is named: returns the effect that names it, then everything that was held. From here on nothing
        is."""
        self.is_folder_known = True
        held_effects = self._unrecorded
        self._unrecorded, self._size = [], 0
        return [identification, *held_effects]

    def handle_agent_end(self) -> list[TranscriptEffect]:
        """The agent has ended, and will not be named: returns what was held, if anything was, for its command's
        folder."""
        return self.handle_identification(IdentifyAgent(None, None)) if self._unrecorded else []

    def drop(self) -> None:
        """Forget what is held."""
        self._unrecorded, self._size = [], 0

    def hold_back(self, effects: list[Effect]) -> list[Effect]:
        """Hold those of one line's effects that must wait, and return the others. Call it for each line, since a read
        may bring lines that must wait and the agent's name after them."""
        return effects if self.is_folder_known else self._hold_until_named(effects)

    def _hold_until_named(self, effects: list[Effect]) -> list[Effect]:
        """As ``hold_back``, until a prompt or too many bytes end that without a name."""
        passing: list[Effect] = []
        for effect in effects:
            if self.is_folder_known or not isinstance(effect, TranscriptEffectBase):
                passing.append(effect)
                continue
            self._unrecorded.append(effect)
            self._size += _measure(effect)
            if isinstance(effect, BeginTurn) or self._size > UNNAMED_AGENT_LIMIT:
                passing += self.handle_identification(IdentifyAgent(None, None))
        return passing


def _measure(effect: TranscriptEffect) -> int:
    match effect:
        case RecordMessage(raw=raw):
            return len(raw)
        case RecordUnparsedUpdates(data=data):
            return len(data)
        case RecordNote(note=note):
            return len(jsonrpc.dump(note))
        case (
            IdentifyAgent()
            | SetProtocolVersion()
            | BeginTranscript()
            | BeginTurn()
            | EndTurn()
            | SaveAndIndex()
            | ForgetSession()
            | RecordGap()
        ):
            return 0
