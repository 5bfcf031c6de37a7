"""Rounds: every subject once, in an order that chance decides, as often as is asked.

What disturbs the machine for a while disturbs all subjects alike; so only figures of one run are compared, and a ratio
is the median of the ratios within each round.
"""

import random
from collections.abc import Callable, Mapping
from statistics import median

Numbers = Mapping[str, float]
"""What one try brought, by name."""
Task = Callable[[], Numbers]


def interleaved(tasks: Mapping[str, Task], rounds: int, chance: random.Random) -> dict[str, list[Numbers]]:
    """By subject: what each round brought."""
    seen: dict[str, list[Numbers]] = {subject: [] for subject in tasks}
    for _ in range(rounds):
        for subject in chance.sample(list(tasks), len(tasks)):
            seen[subject].append(tasks[subject]())
    return seen


def ratio(values: list[float], baseline: list[float]) -> float | None:
    """The median of the ratios, round by round; None where there is nothing to compare with."""
    pairs = [(value, base) for value, base in zip(values, baseline, strict=False) if base]
    return median(value / base for value, base in pairs) if pairs else None
