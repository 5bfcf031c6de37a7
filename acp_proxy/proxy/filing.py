"""Holds recording effects until the agent has named itself, because the name chooses its folder in the store.

Holds at most about ``WAITING_LIMIT`` bytes, and nothing once a prompt comes. Does not change the order of effects for
the transcript.
"""

from acp_proxy.protocol import jsonrpc
from acp_proxy.proxy.effects import (
    BeginTranscript,
    BeginTurn,
    Effect,
    EndTurn,
    ForgetSession,
    ForTranscript,
    IdentifyAgent,
    ProtocolVersion,
    RecordGap,
    Recording,
    RecordLine,
    RecordNote,
    RecordUpdates,
)
from acp_proxy.proxy.session_log import WAITING_LIMIT


class Filing:
    """The recording effects that wait for the agent's name."""

    def __init__(self) -> None:
        self.is_named = False
        """Whether the folder is known, so that nothing waits any more."""
        self._waiting: list[Recording] = []
        self._size = 0

    def named(self, name: IdentifyAgent) -> list[Recording]:
        """The name is known: returns it and then everything that waited. From here on nothing waits."""
        self.is_named = True
        waited, self._waiting = self._waiting, []
        return [name, *waited]

    def drop(self) -> None:
        """Discard what waits."""
        self._waiting.clear()

    def filed(self, effects: list[Effect]) -> list[Effect]:
        """The effects of one line that need not wait. Call it for each line, since a read may bring lines that must
        wait and the agent's name after them."""
        return effects if self.is_named else self._awaiting_name(effects)

    def _awaiting_name(self, effects: list[Effect]) -> list[Effect]:
        """Like ``filed``. A prompt, or too many bytes, end the waiting without a name."""
        out: list[Effect] = []
        for effect in effects:
            if self.is_named or not isinstance(effect, ForTranscript):
                out.append(effect)
                continue
            self._waiting.append(effect)
            self._size += _size(effect)
            if isinstance(effect, BeginTurn) or self._size > WAITING_LIMIT:
                out += self.named(IdentifyAgent(None, None))
        return out


def _size(effect: Recording) -> int:
    match effect:
        case RecordLine(raw=raw):
            return len(raw)
        case RecordUpdates(data=data):
            return len(data)
        case RecordNote(note=note):
            return len(jsonrpc.dump(note))
        case (
            IdentifyAgent()
            | ProtocolVersion()
            | BeginTranscript()
            | BeginTurn()
            | EndTurn()
            | ForgetSession()
            | RecordGap()
        ):
            return 0
