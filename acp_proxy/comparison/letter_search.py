"""Finds letters in a transcript within a budget, so that every comparison takes a fraction of a second.

Letters are the characters of a text but white space. Agents cut their texts into other chunks in a replay, join the
messages of a turn, and trim or add blank lines where they do. Without white space the same words are the same letters,
however they were cut, so one search finds them. Nothing else is ignored: other letters are other words.
"""

from bisect import bisect_right
from operator import itemgetter

from acp_proxy.comparison.letters import SHORT_TEXT_LIMIT
from acp_proxy.comparison.transcript_text import TranscriptText

Span = tuple[int, int]
"""A range of letters: the position of the first one, and of the one after the last."""

_BUDGET = 32 * 1024 * 1024
"""The most letters that are searched in one comparison. One that needs more is left undecided."""
_SEARCH_COST = 256
"""The least that one search costs, in letters, however near its result is."""


class LetterSearch:
    """The searches of one comparison, with their budget."""

    def __init__(self, text: TranscriptText) -> None:
        self.is_exhausted = False
        """Whether the budget ended before a search did."""
        self._text = text
        self._budget = self._thought_budget = _BUDGET
        self._thought_position = 0

    def find_words(self, letters: str, position: int) -> Span | None:
        """The first place of these letters from this position on, or None.

        A short text must stand exactly at the position, or at the beginning of a message.
        """
        words = self._text.agent_letters
        if words.startswith(letters, position):
            return position, position + len(letters)
        while self._budget > 0:
            start = words.find(letters, position)
            self._budget -= (start if start >= 0 else len(words)) - position + len(letters) + _SEARCH_COST
            if start < 0:
                return None
            if len(letters) >= SHORT_TEXT_LIMIT or self._text.begins_message(start):
                return start, start + len(letters)
            position = start + 1
        self.is_exhausted = True
        return None

    def move_past_thought(self, letters: str) -> bool:
        """Whether the transcript has these thoughts after the last known ones. False if the budget is spent."""
        if self._thought_budget <= 0:
            return False
        thoughts, position = self._text.thought_letters, self._thought_position
        start = thoughts.find(letters, position)
        self._thought_budget -= (start if start >= 0 else len(thoughts)) - position + len(letters) + _SEARCH_COST
        self._thought_position = start + len(letters) if start >= 0 else position
        return start >= 0

    def restart(self) -> None:
        """Search for thoughts from the first one again, since another replay begins."""
        self._thought_position = 0

    def has_words(self, letters: str) -> bool:
        """Whether the transcript has these letters anywhere. False if the budget is spent."""
        if self._budget <= 0:
            self.is_exhausted = True
            return False
        self._budget -= len(self._text.agent_letters) + _SEARCH_COST
        return letters in self._text.agent_letters


def merge_spans(spans: list[Span]) -> list[Span]:
    """The spans in order, with overlapping and adjacent ones joined."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


class SentSpans:
    """The spans of the transcript's letters that an agent has sent, in one replay after another."""

    def __init__(self) -> None:
        self._current: list[Span] = []
        """The spans of the current replay, in order."""
        self._earlier: list[Span] = []
        """The spans of the replays before it."""

    @property
    def all_spans(self) -> list[Span]:
        """The spans of all letters that were sent, in order."""
        return merge_spans([*self._earlier, *self._current]) if self._earlier else self._current

    def add(self, span: Span) -> None:
        """The agent has sent these letters."""
        if self._current and self._current[-1][0] <= span[0] <= self._current[-1][1]:
            self._current[-1] = self._current[-1][0], max(span[1], self._current[-1][1])
        elif self._current and span[0] < self._current[-1][0]:
            self._current = merge_spans([*self._current, span])
        else:
            self._current.append(span)

    def restart(self) -> None:
        """The agent begins its replay once more."""
        self._earlier, self._current = merge_spans([*self._earlier, *self._current]), []

    def contains(self, span: Span) -> bool:
        """Whether the current replay has all of these letters."""
        index = bisect_right(self._current, span[0], key=itemgetter(0)) - 1
        return index >= 0 and self._current[index][1] >= span[1]

    def has_sent_earlier(self, span: Span) -> bool:
        """Whether an earlier replay had these letters."""
        index = bisect_right(self._earlier, span[0], key=itemgetter(0)) - 1
        return index >= 0 and self._earlier[index][1] >= span[1]
