"""Whose replay the client sees, decided when the agent has answered. docs/transparency.md has the five rules."""

import enum
from bisect import bisect_right
from operator import itemgetter

from acp_proxy.history.comparison import Comparison
from acp_proxy.history.messages import Span
from acp_proxy.history.past import Past


class Rule(enum.Enum):
    """The first that fits decides. ``value``: its number, and why."""

    HANDED_OVER = (1, "the session was handed over")
    MORE = (2, "the agent tells what the transcript lacks")
    TAKEN_BACK = (3, "a turn is missing, and something recorded explains it")
    LESS = (4, "the agent's replay lacks something")
    SAME = (5, "the agent's replay lacks nothing")
    UNDECIDED = (0, "the comparison would have taken too long")
    ASKED_FOR = (6, "the replay of transcripts was asked for")

    @classmethod
    def numbered(cls, number: object) -> "Rule | None":
        return next((rule for rule in cls if rule.value[0] == number), None)

    @property
    def is_ours(self) -> bool:
        """Whether the transcript is replayed; else the agent's own replay is shown."""
        return self in (Rule.HANDED_OVER, Rule.LESS, Rule.ASKED_FOR)


def verdict(comparison: Comparison) -> Rule:
    """The rule that fits a session that was not handed over."""
    comparison.end_message()
    past = comparison.past
    if comparison.is_undecided:
        return Rule.UNDECIDED
    if comparison.lacks or comparison.is_odd or comparison.continues:
        return Rule.MORE
    covered = comparison.covered
    missing = [turn for turn in _turns(past) if _lacks_some(comparison, covered, turn)]
    if any(_lacks_all(comparison, covered, turn) and _is_explained(comparison, turn) for turn in missing):
        return Rule.TAKEN_BACK
    spoken = sum(1 for user in past.users if not user.takes_back)
    told = comparison.users
    if missing or told < spoken or comparison.repeats or (past.thoughts and not comparison.told_thoughts):
        return Rule.LESS
    return Rule.SAME


def _turns(past: Past) -> list[int]:
    """The turns that count: not what was said before the first prompt, nor a command that takes something back."""
    return [turn for turn, user in enumerate(past.users, 1) if not user.takes_back and past.has_answer(turn)]


def _lacks_some(comparison: Comparison, covered: list[Span], turn: int) -> bool:
    start, end = comparison.past.span(turn)
    if any(number not in comparison.called for number in comparison.past.calls_of(turn)):
        return True
    around = _before(covered, start)
    return start < end and (around is None or around[1] < end)


def _lacks_all(comparison: Comparison, covered: list[Span], turn: int) -> bool:
    start, end = comparison.past.span(turn)
    if any(number in comparison.called for number in comparison.past.calls_of(turn)):
        return False
    last = _before(covered, end - 1)
    return last is None or last[1] <= start


def _before(covered: list[Span], at: int) -> Span | None:
    """The last of some spans, in order, that begins at a letter or before it."""
    place = bisect_right(covered, at, key=itemgetter(0))
    return covered[place - 1] if place else None


def _is_explained(comparison: Comparison, turn: int) -> bool:
    """By a command or a compaction behind it, or by a turn behind it that was made elsewhere: there something may have
    been taken back, but hardly all."""
    elsewhere = any(user.is_elsewhere for user in comparison.past.users[turn - 1 :])
    went_on = comparison.told_anything and (elsewhere or comparison.went_on_elsewhere)
    return comparison.past.taken_back_at >= turn or went_on
