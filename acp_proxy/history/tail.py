"""Keeps what an agent sends after the last known message: only this can be new, and only if nothing known follows."""

from itertools import takewhile

from acp_proxy.history.messages import Run, ToldUpdate
from acp_proxy.history.past import CALLS, PLAN
from acp_proxy.wire import acp

TAIL_LIMIT = 1024 * 1024
"""The most bytes of a tail that can be recorded."""
_NEUTRAL = frozenset({acp.USER_CHUNK, acp.THOUGHT_CHUNK, PLAN})
"""Kinds that depend on what the agent sends next."""


class Tail:
    """The tail of one comparison."""

    def __init__(self) -> None:
        self.users = 0
        """How many user messages it has."""
        self.has_unknown = False
        """Whether it has words or calls that the transcript lacks."""
        self.completes = False
        """Whether it completes a turn that the transcript has begun."""
        self.is_rest = False
        """Whether it follows the last words of a turn that was cut, so that new words or calls in it are the rest."""
        self._told: list[ToldUpdate] = []
        self._size = 0
        self._first: list[ToldUpdate] = []  # what came before the first known message, such as a greeting

    def keep(self, *told: ToldUpdate) -> None:
        """Add updates, up to the limit."""
        for each in told:
            self._size += len(each.line)
            if self._size <= TAIL_LIMIT:
                self._told.append(each)

    def clear(self) -> None:
        """Something known follows."""
        self._told, self._size, self.users = [], 0, 0
        self.has_unknown = self.completes = self.is_rest = False

    def begins_history(self) -> None:
        """The first known user message follows: what comes before the first user message may still be new."""
        begins = takewhile(lambda told: told.kind != acp.USER_CHUNK, self._told)
        self._first = [told for told in begins if told.kind not in _NEUTRAL]

    @property
    def goes_on(self) -> bool:
        """Whether it has a user message that follows the transcript's last turn, answered or not."""
        return any(told.goes_on for told in self._told)

    def end_turn(self) -> None:
        """The transcript's last turn has not ended: no user message of the tail follows it."""
        for told in self._told:
            told.goes_on = False

    def lines(self, *, may_be_past: bool) -> tuple[list[bytes], list[bytes]]:
        """All lines, in two parts: those that are new, and the neutral ones after them, which depend on what the agent
        sends next. ``may_be_past``: a user message without an answer is one of these."""
        told = [*self._first, *self._told]
        end = _last_answer(told) if may_be_past else _end(told)
        return [each.line for each in told[:end]], [each.line for each in told[end:]]

    def new(self, *, is_all_new: bool, is_open_elsewhere: bool | None) -> list[bytes]:
        """The lines to record. ``is_all_new``: the transcript is empty. ``is_open_elsewhere``: see ``Comparison``."""
        told_later = {told.line for told in self._told}  # an earlier replay may have ended with the same lines
        tail = [*(told for told in self._first if told.line not in told_later), *self._told]
        if is_all_new:
            return [told.line for told in tail]
        if self.completes and not is_open_elsewhere:
            return [told.line for told in tail[: _end(tail)]]  # what is not shown is not recorded
        begins = _turn_begins(tail, is_answered=self.goes_on and not is_open_elsewhere)
        if self.is_rest and is_open_elsewhere is False and any(map(_is_missing, self._told)):
            begins, tail = len(tail) - len(self._told), tail[: _end(tail)]
        loose = [told for told in tail[:begins] if told.late and told.kind not in _NEUTRAL]
        return [told.line for told in (*(told for told in loose if not told.stands_somewhere), *tail[begins:])]

    @property
    def has_turn(self) -> bool:
        """Whether it has a turn: a user message and something from the agent."""
        return _turn_begins(self._told) < len(self._told)

    def outlasts(self, run: Run) -> bool:
        """Whether a known message does not end the tail: it came after the agent's answer, and a turn made elsewhere
        before it. Such words are a warning that comes with every load."""
        begins = _turn_begins(self._told)
        return run.pieces[0].late and begins < len(self._told) and not self._told[begins].late


def _is_missing(told: ToldUpdate) -> bool:
    """Whether these are words or a call that the transcript has nowhere."""
    return told.kind in (acp.AGENT_CHUNK, *CALLS) and not told.stands_somewhere


def _turn_begins(tail: list[ToldUpdate], *, is_answered: bool = False) -> int:
    """The index of the first user message, if anything from the agent follows it or need not; else the length."""
    begins = next((number for number, told in enumerate(tail) if told.kind == acp.USER_CHUNK), len(tail))
    is_answered = is_answered or any(told.kind not in _NEUTRAL for told in tail[begins:])
    return begins if is_answered else len(tail)


def _end(tail: list[ToldUpdate]) -> int:
    """How many updates are shown and recorded whatever follows: all, if a user message goes on behind the last turn."""
    return len(tail) if any(told.goes_on for told in tail) else _last_answer(tail)


def _last_answer(tail: list[ToldUpdate]) -> int:
    """How many updates there are up to the last one that is not neutral."""
    return max((number for number, each in enumerate(tail, 1) if each.kind not in _NEUTRAL), default=0)
