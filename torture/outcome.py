"""What a case is given, and what it says: values shared by every kind of fault."""

import importlib
import pkgutil
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from torture import cases


@dataclass(frozen=True, slots=True)
class Scale:
    """How much to do. ``place`` is an empty directory for the case alone; ``seed`` makes a run repeatable."""

    short: bool
    seed: int
    place: Path

    def of(self, full: int, short: int) -> int:
        """How often: in minutes (`make torture`), and in a second or two (`make test`)."""
        return short if self.short else full

    def chance(self, *what: object) -> random.Random:
        """Random numbers for one part of a case, the same in every run with this seed."""
        return random.Random(repr((self.seed, *what)))


@dataclass(frozen=True, slots=True)
class Outcome:
    """One fault, and what came of it: a row of docs/reliability-figures.md.

    ``fault`` is what was done and ``tried`` how often; ``checked`` of ``what`` were looked at afterwards, ``lost`` of
    them were not as they should be, and ``left`` processes were still there. ``also`` has figures worth reading.
    ``trouble`` tells each thing that went wrong, for whoever has to find out why.
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


def names() -> list[str]:
    """Every case there is."""
    return sorted(module.name for module in pkgutil.iter_modules(cases.__path__))


def run(case: str, scale: Scale) -> Iterator[Outcome]:
    module = importlib.import_module(f"{cases.__name__}.{case}")
    outcomes: Iterator[Outcome] = module.run(scale)
    yield from outcomes


def about(case: str) -> str:
    """The first line of a case's docstring."""
    module = importlib.import_module(f"{cases.__name__}.{case}")
    return (module.__doc__ or "").split("\n")[0].rstrip(".")
