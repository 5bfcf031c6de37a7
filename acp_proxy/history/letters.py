"""Finds letters in a transcript within a budget, so that every comparison takes a fraction of a second."""

from acp_proxy.history.messages import Span
from acp_proxy.history.past import Past

_BUDGET = 32 * 1024 * 1024
"""The most letters that are searched in one comparison. One that needs more is left undecided."""
_LOOK = 256
"""The least that one search costs, in letters, however near its result is."""
SHORT = 16
"""A text with fewer letters may be found anywhere by chance, so it counts only at the beginning of a message."""


class Search:
    """The searches of one comparison, with their budget."""

    def __init__(self, past: Past) -> None:
        self.is_exhausted = False
        """Whether the budget ended before a search did."""
        self._past = past
        self._budget = self._thought_budget = _BUDGET
        self._thought_at = 0

    def words(self, said: str, at: int) -> Span | None:
        """The first place of these letters from the offset ``at`` on, or None.

        A short text must stand exactly at the offset, or at the beginning of a message.
        """
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
        """Whether the transcript has these thoughts after the last known ones. False if the budget is spent."""
        if self._thought_budget <= 0:
            return False
        thoughts, at = self._past.thoughts, self._thought_at
        found = thoughts.find(said, at)
        self._thought_budget -= (found if found >= 0 else len(thoughts)) - at + len(said) + _LOOK
        self._thought_at = found + len(said) if found >= 0 else at
        return found >= 0

    def begin_thoughts(self) -> None:
        """Search for thoughts from the first one again, since another replay begins."""
        self._thought_at = 0

    def stands(self, said: str) -> bool:
        """Whether the transcript has these letters anywhere. False if the budget is spent."""
        if self._budget <= 0:
            self.is_exhausted = True
            return False
        self._budget -= len(self._past.words) + _LOOK
        return said in self._past.words
