"""Holds entries back: until the agent is named, until an answer names their session, and until another agent's session
is prompted."""

from msgspec.structs import replace

from acp_proxy.protocol import acp, jsonrpc, update_kinds
from acp_proxy.proxy.effects import (
    BeginTranscript,
    BeginTurn,
    DeleteSession,
    Effect,
    EndTurn,
    ForgetSession,
    IdentifyAgent,
    IndexSession,
    ProtocolVersion,
    RecordGap,
    RecordLine,
    RecordNote,
    RecordUpdates,
    TranscriptEffect,
    TranscriptEffectBase,
)

UNRECORDED_LIMIT = 1024 * 1024
"""The most bytes that wait until the agent is named, and the most that wait for the answer that names their session."""
HELD_ENTRIES = 200
"""The most entries held of one session: the notes of a few loads, and the states after them."""


class HeldEntries:
    """Holds recording effects until the agent has named itself, because the name chooses its folder in the store.

    Holds at most about ``UNRECORDED_LIMIT`` bytes, and nothing once a prompt comes. Does not change the order of
    effects for the transcript.
    """

    def __init__(self) -> None:
        self.is_named = False
        """Whether the folder is known, so that nothing waits any more."""
        self._unrecorded: list[TranscriptEffect] = []
        self._size = 0

    def name_agent(self, name: IdentifyAgent) -> list[TranscriptEffect]:
        """The name is known: returns it and then everything that waited. From here on nothing waits."""
        self.is_named = True
        waited, self._unrecorded = self._unrecorded, []
        return [name, *waited]

    def drop(self) -> None:
        """Discard what waits."""
        self._unrecorded.clear()

    def hold_unnamed(self, effects: list[Effect]) -> list[Effect]:
        """The effects of one line that need not wait. Call it for each line, since a read may bring lines that must
        wait and the agent's name after them."""
        return effects if self.is_named else self._hold(effects)

    def _hold(self, effects: list[Effect]) -> list[Effect]:
        """Like ``hold_unnamed``. A prompt, or too many bytes, end the waiting without a name."""
        out: list[Effect] = []
        for effect in effects:
            if self.is_named or not isinstance(effect, TranscriptEffectBase):
                out.append(effect)
                continue
            self._unrecorded.append(effect)
            self._size += _size(effect)
            if isinstance(effect, BeginTurn) or self._size > UNRECORDED_LIMIT:
                out += self.name_agent(IdentifyAgent(None, None))
        return out


def _size(effect: TranscriptEffect) -> int:
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
            | IndexSession()
            | ForgetSession()
            | RecordGap()
        ):
            return 0


class EarlyUpdates:
    """Updates of sessions that may be new: an open request may be what opens them, and its answer, which says in which
    directory, has not come. Holds at most ``UNRECORDED_LIMIT`` bytes."""

    def __init__(self) -> None:
        self._held: dict[str, list[tuple[bytes, object]]] = {}
        """By session: lines without newlines, with their updates."""
        self._size = 0

    @property
    def sessions(self) -> list[str]:
        """The sessions of which updates wait."""
        return list(self._held)

    def add(self, session: str, raw: bytes, update: object) -> bool:
        """Let an update wait; returns False if too much does."""
        if self._size + len(raw) > UNRECORDED_LIMIT:
            return False
        self._held.setdefault(session, []).append((raw, update))
        self._size += len(raw)
        return True

    def take(self, session: str) -> list[tuple[bytes, object]]:
        """Remove and return a session's lines and updates."""
        held = self._held.pop(session, [])
        self._size -= sum(len(raw) for raw, _ in held)
        return held

    def take_conversation(self, session: str) -> list[bytes]:
        """Remove and return the lines of a session's conversation updates. The others wait on."""
        taken = []
        for raw, update in self.take(session):
            if update_kinds.is_conversation(acp.update_kind(update)):
                taken.append(raw)
            else:
                self.add(session, raw, update)
        return taken

    def drop(self) -> None:
        """Discard what waits."""
        self._held.clear()
        self._size = 0


class UncopiedSessions:
    """The sessions of other agents that were opened here and not prompted.

    Holds what would be recorded of them: a prompt makes the copy, and releases it. A session that is never prompted
    leaves nothing behind.
    """

    def __init__(self) -> None:
        self._held: dict[str, list[Effect]] = {}

    def add(self, session: str) -> None:
        """The client opens a session that has no copy yet."""
        self._held.setdefault(session, [])

    def holds(self, session: str) -> bool:
        """Whether the session was opened here and not prompted since."""
        return session in self._held

    def hold(self, effects: list[Effect]) -> list[Effect]:
        """The effects without what is held, and with what is released."""
        return [each for effect in effects for each in self._hold_one(effect)] if self._held else effects

    def _hold_one(self, effect: Effect) -> list[Effect]:
        session = getattr(effect, "session", None)
        held = self._held.get(session) if isinstance(session, str) else None
        if held is None or session is None:
            return [effect]
        match effect:
            case DeleteSession():
                del self._held[session]
                return [effect]
            case BeginTurn():
                return [*self._held.pop(session), effect]
            case BeginTranscript():
                self._held[session] = [replace(effect, parent=session)]
            case EndTurn() | IndexSession() | ForgetSession():
                pass
            case TranscriptEffectBase() if len(held) < HELD_ENTRIES:
                held.append(effect)
            case TranscriptEffectBase():
                pass
            case _:
                return [effect]
        return []
