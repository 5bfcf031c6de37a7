"""Figures: rows of measurements, as they are kept in results.json and as they are written for people."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.rounds import Numbers, ratio

RESULTS = Path(__file__).with_name("results.json")

SECONDS, BYTES, PER_SECOND, BYTES_PER_SECOND, TIMES = "s", "B", "/s", "B/s", "x"
_SCALES = {
    SECONDS: ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")),
    BYTES: ((1e6, "MB"), (1e3, "kB"), (1.0, "B")),
    PER_SECOND: ((1e6, "M/s"), (1e3, "k/s"), (1.0, "/s")),
    BYTES_PER_SECOND: ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")),
    TIMES: ((1.0, "x"),),
}


@dataclass(frozen=True)
class Row:
    """One thing that was measured: of each subject, a figure per round.

    ``against`` is the subject that the others are compared with; empty where nothing is. ``more`` is better, else less.
    ``sized``: the subjects are sizes of one thing, which a picture shows as a line.
    """

    what: str
    unit: str
    samples: Mapping[str, list[float]]
    against: str = ""
    more: bool = False
    sized: bool = False

    def value(self, subject: str) -> float:
        return median(self.samples[subject])

    def ratio(self, subject: str) -> float | None:
        if subject == self.against or self.against not in self.samples:
            return None
        return ratio(self.samples[subject], self.samples[self.against])

    def cost(self, subject: str) -> float | None:
        """The ratio turned so that more is worse."""
        found = self.ratio(subject)
        return 1 / found if found and self.more else found


@dataclass(frozen=True)
class Reading:
    """How a row is made of what a try brought: the number with this name, times ``factor``."""

    what: str
    unit: str
    key: str
    against: str = ""
    more: bool = False
    factor: float = 1.0
    of: float | None = None
    """A rate: this much, divided by the number."""

    def row(self, seen: Mapping[str, list[Numbers]], *, sized: bool = False) -> Row:
        samples = {
            subject: [self.read(numbers) for numbers in tries if self.key in numbers] for subject, tries in seen.items()
        }
        told = {subject: values for subject, values in samples.items() if values}
        return Row(self.what, self.unit, told, self.against, self.more, sized)

    def read(self, numbers: Numbers) -> float:
        number = numbers[self.key]
        return (self.of / number if number else 0.0) if self.of is not None else number * self.factor


@dataclass
class Figures:
    """All that is kept: the machine, and the rows of each group with what it is about."""

    groups: dict[str, list[Row]] = field(default_factory=dict)
    about: dict[str, str] = field(default_factory=dict)
    machines: dict[str, str] = field(default_factory=dict)
    """By group: where it was measured, and how long that took."""

    def row(self, group: str, what: str) -> Row | None:
        return next((row for row in self.groups.get(group, []) if row.what == what), None)


def load(path: Path = RESULTS) -> Figures:
    if not path.exists():
        return Figures()
    kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    found = Figures()
    for name, group in kept.items():
        found.groups[name] = [Row(**row) for row in group["rows"]]
        found.about[name], found.machines[name] = group["about"], group["machine"]
    return found


def save(figures: Figures, path: Path = RESULTS) -> None:
    kept = {
        name: {
            "about": figures.about[name],
            "machine": figures.machines[name],
            "rows": [_rounded(asdict(row)) for row in rows],
        }
        for name, rows in figures.groups.items()
    }
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    """Four digits: more is noise."""
    row["samples"] = {subject: [float(f"{each:.4g}") for each in values] for subject, values in row["samples"].items()}
    return row


def written(value: float, unit: str) -> str:
    """For people: three digits and a unit that fits."""
    scales = _SCALES[unit]
    size, name = next(((size, name) for size, name in scales if abs(value) >= size), scales[-1])
    return f"{digits(value / size)} {name}" if name != "x" else f"{digits(value)} x"


def digits(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
