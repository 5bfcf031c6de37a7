"""Remembers the sessions of other agents that were opened here and not prompted, and holds back what is recorded of
them."""

from msgspec.structs import replace

from acp_proxy.decisions.effects import (
    BeginTranscript,
    BeginTurn,
    DeleteSession,
    Effect,
    EndTurn,
    ForgetSession,
    SaveAndIndex,
    TranscriptEffectBase,
)

UNCOPIED_LIMIT = 200
"""The most entries held of one session: the note of its latest load, and the states after it. What comes above it is
dropped: nothing of it answers a prompt, and an agent that sends state again and again must not fill the memory.
"""


class UncopiedSessions:
    """The sessions of other agents that were opened here and not prompted.

    Holds what would be recorded of them: a prompt makes the copy, and takes it. A session that is never prompted
    leaves nothing behind.
    """

    def __init__(self) -> None:
        self._held_effects: dict[str, list[Effect]] = {}

    def add(self, session_id: str) -> None:
        """The client opens a session that has no copy yet."""
        self._held_effects.setdefault(session_id, [])

    def is_uncopied(self, session_id: str) -> bool:
        """Whether the session was opened here and not prompted since."""
        return session_id in self._held_effects

    def hold_back(self, effects: list[Effect]) -> list[Effect]:
        """Hold those of the effects that must wait, and return the others, after a prompt with what was held."""
        return [passing for effect in effects for passing in self._hold_one(effect)] if self._held_effects else effects

    def _hold_one(self, effect: Effect) -> list[Effect]:
        session_id = getattr(effect, "session_id", None)
        held_effects = self._held_effects.get(session_id) if isinstance(session_id, str) else None
        if held_effects is None or session_id is None:
            return [effect]
        match effect:
            case DeleteSession():
                del self._held_effects[session_id]
                return [effect]
            case BeginTurn():
                return [*self._held_effects.pop(session_id), effect]
            case BeginTranscript():
                # The other agent's transcript becomes the beginning of the copy, as a parent's that of a fork.
                self._held_effects[session_id] = [replace(effect, parent_id=session_id)]
            case EndTurn() | SaveAndIndex() | ForgetSession():
                pass
            case TranscriptEffectBase() if len(held_effects) < UNCOPIED_LIMIT:
                held_effects.append(effect)
            case TranscriptEffectBase():
                pass
            case _:
                return [effect]
        return []
