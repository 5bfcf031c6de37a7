"""What is to be kept before the agent has said its name: it waits, since the name says in which folder it is kept."""

from acp_proxy.core.effects import (
    BeginTranscript,
    BeginTurn,
    Effect,
    EndTurn,
    ForgetSession,
    ForTranscript,
    IdentifyAgent,
    Recording,
    RecordLine,
    RecordNote,
    RecordPiece,
    RecordUpdates,
)
from acp_proxy.core.notebook import WAITING_LIMIT
from acp_proxy.wire import jsonrpc


class Filing:
    def __init__(self) -> None:
        self.is_named = False
        """Where the transcripts go is known."""
        self._waiting: list[Recording] = []
        self._size = 0

    def named(self, name: IdentifyAgent) -> list[Recording]:
        """From here on nothing waits; what did comes behind the name."""
        self.is_named = True
        waited, self._waiting = self._waiting, []
        return [name, *waited]

    def drop(self) -> None:
        """What waits is not kept."""
        self._waiting.clear()

    def filed(self, effects: list[Effect]) -> list[Effect]:
        """What comes of one line: a read may bring the agent's name behind lines that wait for it."""
        return effects if self.is_named else self._awaiting_name(effects)

    def _awaiting_name(self, effects: list[Effect]) -> list[Effect]:
        """A prompt, or too much of it, ends the waiting."""
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
        case RecordPiece(data=data):
            return len(data)
        case RecordUpdates(data=data):
            return len(data)
        case RecordNote(note=note):
            return len(jsonrpc.dump(note))
        case IdentifyAgent() | BeginTranscript() | BeginTurn() | EndTurn() | ForgetSession():
            return 0
