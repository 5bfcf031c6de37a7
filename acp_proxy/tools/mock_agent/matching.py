"""Chooses the recorded turn for a prompt. Pure: the same prompts in the same order get the same turns.

``exact``: the same words, except for white space.
``nearest``: the same words; else, ignoring case, turns whose prompt begins with these words or is their beginning; else
the most similar prompt (difflib's ratio, at least ``_LEAST_LIKENESS``).
``next``: the turns in order, whatever the prompt says.

The session's own turns come first. If several turns have the same words, each prompt gets the next one of them.
"""

from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches
from functools import cached_property
from typing import Literal

from acp_proxy.protocol import acp
from acp_proxy.tools.mock_agent.steps import RecordedTurn

Match = Literal["exact", "nearest", "next"]

_LEAST_LIKENESS = 0.6  # the cutoff of difflib.get_close_matches
_MOST_COMPARED = 2000  # characters: the comparison is quadratic, and prompts differ earlier
_MOST_SHOWN, _SHOWN_WIDTH = 20, 100


class TurnMatcher:
    """The turns to play, and how often each session has played them."""

    def __init__(self, turns: Sequence[RecordedTurn], match: Match) -> None:
        self._turns = turns
        self._match = match
        self._played: Counter[tuple[str, str]] = Counter()

    @cached_property
    def _texts(self) -> list[str]:
        return [read_text(turn.prompt) for turn in self._turns]

    def find(self, prompt: object, session_id: str) -> RecordedTurn | None:
        """The turn to play now in this session; None if there is none."""
        own_turns_first = sorted(
            range(len(self._turns)), key=lambda number: self._turns[number].session_id != session_id
        )
        words = "" if self._match == "next" else self._find_known(read_text(prompt))
        if words is None:
            return None
        numbers = (
            own_turns_first
            if self._match == "next"
            else [number for number in own_turns_first if self._texts[number] == words]
        )
        count = self._played[session_id, words]
        if self._match == "next" and count >= len(numbers):
            return None
        self._played[session_id, words] += 1
        return self._turns[numbers[count % len(numbers)]]

    def explain_no_match(self) -> str:
        """The answer to a prompt without a turn."""
        if not self._turns:
            return "There is nothing to play: these files contain no prompt. Start mock-agent with other files."
        if self._match == "next":
            return f"This session has played all {len(self._turns)} recorded turns. Start a new session."
        texts = list(dict.fromkeys(self._texts))
        shown_lines = [f"- {_shorten(text)}" for text in texts[:_MOST_SHOWN]]
        omission = [f"- and {len(texts) - _MOST_SHOWN} more"] if len(texts) > _MOST_SHOWN else []
        return "\n".join(
            [f"No recorded prompt matches this one (--match {self._match}). Use one of these:", *shown_lines, *omission]
        )

    def _find_known(self, text: str) -> str | None:
        """The recorded words that match these."""
        if text in self._texts:
            return text
        if self._match == "exact":
            return None
        words = _cut_compared(text)
        text_by_words = {_cut_compared(recorded): recorded for recorded in reversed(self._texts)}
        near_words = [
            recorded
            for recorded in reversed(text_by_words)
            if words and recorded and (recorded.startswith(words) or words.startswith(recorded))
        ]
        near_words = near_words or get_close_matches(words, text_by_words, n=1, cutoff=_LEAST_LIKENESS)
        return text_by_words[near_words[0]] if near_words else None


def read_text(prompt: object) -> str:
    """The text of a prompt's blocks, with white space folded; without text, the types of its blocks."""
    blocks = prompt if isinstance(prompt, list) else []
    texts = [acp.text(block, "text") or "" for block in blocks if acp.text(block, "type") == "text"]
    if not any(texts):
        texts = [
            f"[{acp.text(block, 'name') or acp.text(block, 'uri') or acp.text(block, 'type')}]" for block in blocks
        ]
    return " ".join(" ".join(texts).split())


def _cut_compared(text: str) -> str:
    return text[:_MOST_COMPARED].casefold()


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN_WIDTH else text[: _SHOWN_WIDTH - 1] + "…"
