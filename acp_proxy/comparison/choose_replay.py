"""Decides whose replay a load shows: the agent's or the transcript's. docs/transparency.md has the five rules."""

import enum
from bisect import bisect_right
from operator import itemgetter

from acp_proxy.comparison.compare import Comparison, Span
from acp_proxy.comparison.transcript_text import TranscriptText


class Rule(enum.Enum):
    """The rule that decided. Its value: its number, which transcripts record, and the reason that the doctor shows."""

    HANDED_OVER = (1, "the session was handed over")
    MORE = (2, "the agent's replay has something that the transcript lacks")
    TAKEN_BACK = (3, "the agent's replay lacks a turn, for a known reason")
    LESS = (4, "the agent's replay lacks something")
    SAME = (5, "the agent's replay lacks nothing")
    UNDECIDED = (0, "the comparison would have taken too long")
    ASKED_FOR = (6, "an option asks for the transcript's replay")

    @classmethod
    def numbered(cls, number: object) -> "Rule | None":
        """The rule with this number, or None."""
        return next((rule for rule in cls if rule.value[0] == number), None)

    @property
    def is_ours(self) -> bool:
        """Whether the client sees the transcript's replay rather than the agent's."""
        return self in (Rule.HANDED_OVER, Rule.LESS, Rule.ASKED_FOR)


def verdict(comparison: Comparison) -> Rule:
    """The first rule that fits, for a session that was not handed over. Ends the comparison's open message."""
    comparison.end_message()
    text = comparison.text
    if comparison.is_undecided:
        return Rule.UNDECIDED
    if comparison.has_new_before_tail or comparison.has_unknown_kind or comparison.continues_last:
        return Rule.MORE
    covered = comparison.known_spans
    missing = [turn for turn in _turns(text) if _lacks_some(comparison, covered, turn)]
    lost = [turn for turn in missing if _lacks_all(comparison, covered, turn)]
    if any(_is_explained(comparison, turn) for turn in lost) or _was_forked_before(text, lost):
        return Rule.TAKEN_BACK
    spoken = sum(1 for user in text.users if not user.takes_back)
    told = comparison.user_count
    if told < spoken and any(_is_explained_without_answer(comparison, turn) for turn in range(1, len(text.users) + 1)):
        return Rule.TAKEN_BACK
    if missing or told < spoken or comparison.repeats or (text.thoughts and not comparison.has_thoughts):
        return Rule.LESS
    return Rule.SAME


def _turns(text: TranscriptText) -> list[int]:
    """The numbers of the turns that count: those with an answer, except commands that take something back."""
    return [turn for turn, user in enumerate(text.users, 1) if not user.takes_back and text.has_answer(turn)]


def _lacks_some(comparison: Comparison, covered: list[Span], turn: int) -> bool:
    start, end = comparison.text.span_of(turn)
    if any(number not in comparison.known_calls for number in comparison.text.calls_of(turn)):
        return True
    around = _before(covered, start)
    return start < end and (around is None or around[1] < end)


def _lacks_all(comparison: Comparison, covered: list[Span], turn: int) -> bool:
    start, end = comparison.text.span_of(turn)
    if any(number in comparison.known_calls for number in comparison.text.calls_of(turn)):
        return False
    last = _before(covered, end - 1)
    return last is None or last[1] <= start


def _is_explained_without_answer(comparison: Comparison, turn: int) -> bool:
    """Whether the user message of a turn without an answer, or of a command with a compaction, is missing, and
    something later took it back."""
    text = comparison.text
    is_command = text.users[turn - 1].takes_back
    if text.has_answer(turn) or turn - 1 in comparison.known_users or (is_command and turn not in text.compacted):
        return False
    return turn < text.taken_back_at or (turn == text.taken_back_at and not is_command)


def _was_forked_before(text: TranscriptText, lost: list[int]) -> bool:
    """Whether the last of a fork's copied turns are missing, but not all of them: it was made at an earlier point."""
    copied = [turn for turn in _turns(text) if turn <= text.forked_at]
    gone = [turn for turn in copied if turn in lost]
    return bool(gone) and len(gone) < len(copied) and gone == copied[-len(gone) :]


def _before(covered: list[Span], at: int) -> Span | None:
    """The last of the ordered spans that begins at or before an offset."""
    place = bisect_right(covered, at, key=itemgetter(0))
    return covered[place - 1] if place else None


def _is_explained(comparison: Comparison, turn: int) -> bool:
    """Whether something explains a missing turn: a later command or compaction, or a later turn made elsewhere, where
    something may have been taken back. The latter does not explain an empty replay."""
    text = comparison.text
    later = enumerate(text.users[turn - 1 :], turn)
    elsewhere = any(user.is_elsewhere and text.has_answer(number) for number, user in later)
    went_on = comparison.has_updates and (elsewhere or comparison.has_turn_elsewhere)
    return text.taken_back_at >= turn or went_on
