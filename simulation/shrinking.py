"""Makes a failing plan small: fewer steps, fewer habits, shorter turns, while it fails in the same way."""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

from simulation.choices import possible
from simulation.plan import Plan, Step

_RUNS = 600
"""The most runs for one plan."""


def shrink(plan: Plan, fails: Callable[[Plan], bool]) -> Plan:
    """The smallest plan that was found for which ``fails`` still holds, as it does for ``plan``."""
    left = _RUNS

    def tried(smaller: Plan) -> bool:
        nonlocal left
        left -= 1
        return left >= 0 and fails(smaller)

    changed = True
    while changed and left > 0:
        changed = False
        for make in (_fewer_steps, _simpler_steps, _simpler_agents):
            while (found := next((each for each in make(plan) if tried(each)), None)) is not None:
                plan, changed = found, True
    return plan


def _fewer_steps(plan: Plan) -> Iterator[Plan]:
    """Without a part of the steps: halves first, single ones last; from the end."""
    size = len(plan.steps)
    length = size // 2
    while length:
        for start in range(size - length, -1, -length):
            yield plan.with_steps([*plan.steps[:start], *plan.steps[start + length :]])
        length //= 2


def _simpler_steps(plan: Plan) -> Iterator[Plan]:
    for at, step in enumerate(plan.steps):
        for simpler in _simpler(step):
            yield plan.with_steps([*plan.steps[:at], simpler, *plan.steps[at + 1 :]])


def _simpler(step: Step) -> Iterator[Step]:
    for name in ("again", "cancel", "while told", "at"):
        if name in step:
            yield {key: value for key, value in step.items() if key != name}
    if step.get("come"):
        yield {**step, "come": 0}
    if "then" in step:
        yield {key: value for key, value in step.items() if key not in ("then", "come")}
        for turn in _shorter(step["then"]["turn"]):
            yield {**step, "then": {**step["then"], "turn": turn}}
    for turn in _shorter(step.get("turn", [])):
        yield {**step, "turn": turn}


def _shorter(turn: list[str]) -> Iterator[list[str]]:
    for at in range(len(turn)):
        yield [*turn[:at], *turn[at + 1 :]]


def _simpler_agents(plan: Plan) -> Iterator[Plan]:
    """With fewer odd habits. Some require others: what would be an impossible agent says nothing."""
    if plan.options:
        yield replace(plan, options={})
    for each in fields(plan.habits):
        value = getattr(plan.habits, each.name)
        fewer = [tuple(other for other in value if other != one) for one in value] if isinstance(value, tuple) else []
        for one in [each.default, *fewer] if value != each.default else ():
            changed: dict[str, Any] = {each.name: one}
            habits = replace(plan.habits, **changed)
            if habits == possible(habits):
                yield replace(plan, habits=habits)
