"""The input and the outcomes of every kind of case."""

import importlib
import os
import pkgutil
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from torture import cases


@dataclass(frozen=True, slots=True)
class Scale:
    """The amount of work. ``place`` is an empty directory for the case; ``seed`` makes a run repeatable."""

    short: bool
    seed: int
    place: Path

    def of(self, full: int, short: int) -> int:
        """How often: for minutes (`make torture`), or for a second or two (`make test`)."""
        return short if self.short else full

    def chance(self, *what: object) -> random.Random:
        """Random numbers for one part of a case, the same in every run with this seed."""
        return random.Random(repr((self.seed, *what)))


@dataclass(frozen=True, slots=True)
class Outcome:
    """One fault and its outcome: a row of docs/reliability-figures.md.

    ``fault`` was caused ``tried`` times; ``checked`` of ``what`` were examined afterwards, ``lost`` of them were wrong,
    and ``left`` processes still ran. ``also`` has notable figures. ``trouble`` describes each problem for debugging.
    """

    fault: str
    tried: int
    checked: int
    what: str
    lost: int = 0
    left: int = 0
    also: str = ""
    trouble: tuple[str, ...] = ()

    @property
    def is_well(self) -> bool:
        return self.tried > 0 and self.checked > 0 and not (self.lost or self.left or self.trouble)


def list_cases() -> list[str]:
    """The names of all cases."""
    return sorted(module.name for module in pkgutil.iter_modules(cases.__path__))


def run(case: str, scale: Scale) -> Iterator[Outcome]:
    module = importlib.import_module(f"{cases.__name__}.{case}")
    outcomes: Iterator[Outcome] = module.run(scale)
    with patch.dict(os.environ, ACP_PROXY_DELETE_MODE="permanent"):  # what a delete leaves is looked for at once
        yield from outcomes


def get_summary(case: str) -> str:
    """The first line of a case's docstring."""
    module = importlib.import_module(f"{cases.__name__}.{case}")
    return (module.__doc__ or "").split("\n")[0].rstrip(".")
