"""Letters looked for in a transcript, as far as a budget goes: whatever the text, a comparison takes a fraction of a
second."""

from acp_proxy.history.messages import Span
from acp_proxy.history.past import Past

_BUDGET = 32 * 1024 * 1024
"""Letters that are searched in one comparison, a fraction of a second. What takes more is not decided."""
_LOOK = 256
"""Letters that one look costs, however near the place is."""
SHORT = 16
"""Letters of a message that may stand anywhere by chance: one that is shorter has to be a whole message."""


class Search:
    def __init__(self, past: Past) -> None:
        self.is_exhausted = False
        """Something was not looked for to the end."""
        self._past = past
        self._budget = self._thought_budget = _BUDGET
        self._thought_at = 0

    def words(self, said: str, at: int) -> Span | None:
        """Where these letters stand, from one on. A short message must be a whole one, or go on there."""
        words = self._past.words
        if words.startswith(said, at):
            return at, at + len(said)
        while self._budget > 0:
            found = words.find(said, at)
            self._budget -= (found if found >= 0 else len(words)) - at + len(said) + _LOOK
            if found < 0:
                return None
            if len(said) >= SHORT or self._past.begins_message(found):
                return found, found + len(said)
            at = found + 1
        self.is_exhausted = True
        return None

    def thought(self, said: str) -> bool:
        """Whether these thoughts stand behind those that were known before, as far as that is searched."""
        if self._thought_budget <= 0:
            return False
        thoughts, at = self._past.thoughts, self._thought_at
        found = thoughts.find(said, at)
        self._thought_budget -= (found if found >= 0 else len(thoughts)) - at + len(said) + _LOOK
        self._thought_at = found + len(said) if found >= 0 else at
        return found >= 0

    def begin_thoughts(self) -> None:
        """Thoughts are told from the first one again."""
        self._thought_at = 0

    def stands(self, said: str) -> bool:
        """Whether these letters stand anywhere."""
        if self._budget <= 0:
            self.is_exhausted = True
            return False
        self._budget -= len(self._past.words) + _LOOK
        return said in self._past.words
