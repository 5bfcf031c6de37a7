"""Rounds: each runs every subject once, in random order.

A temporary disturbance of the machine affects all subjects alike; so only figures of one run are compared, and a ratio
is the median of the ratios within each round.
"""

import random
from collections.abc import Callable, Mapping
from statistics import median

Numbers = Mapping[str, float]
"""The numbers from one try, by name."""
Task = Callable[[], Numbers]


def interleaved(tasks: Mapping[str, Task], rounds: int, chance: random.Random) -> dict[str, list[Numbers]]:
    """The numbers of each round, by subject."""
    seen: dict[str, list[Numbers]] = {subject: [] for subject in tasks}
    for _ in range(rounds):
        for subject in chance.sample(list(tasks), len(tasks)):
            seen[subject].append(tasks[subject]())
    return seen


def ratio(values: list[float], baseline: list[float]) -> float | None:
    """The median of the ratios of the rounds; None without a baseline."""
    pairs = [(value, base) for value, base in zip(values, baseline, strict=False) if base]
    return median(value / base for value, base in pairs) if pairs else None
