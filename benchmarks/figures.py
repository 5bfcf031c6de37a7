"""Figures: rows of measurements as saved in results.json and as printed."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.rounds import Numbers, ratio

RESULTS = Path(__file__).with_name("results.json")

SECONDS, BYTES, PER_SECOND, BYTES_PER_SECOND, TIMES, COUNT = "s", "B", "/s", "B/s", "x", "n"
_SCALES = {
    SECONDS: ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")),
    BYTES: ((1e6, "MB"), (1e3, "kB"), (1.0, "B")),
    PER_SECOND: ((1e6, "M/s"), (1e3, "k/s"), (1.0, "/s")),
    BYTES_PER_SECOND: ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")),
    TIMES: ((1.0, "x"),),
}


@dataclass(frozen=True)
class Row:
    """One measurement: the median over the rounds for each subject, and its ratio to the baseline.

    ``against``: the baseline subject; empty if there is none. ``sized``: the subjects are sizes of one thing.
    """

    what: str
    unit: str
    values: Mapping[str, float]
    ratios: Mapping[str, float] = field(default_factory=dict)
    against: str = ""
    sized: bool = False


def measured(
    what: str, unit: str, samples: Mapping[str, list[float]], against: str = "", *, sized: bool = False
) -> Row:
    """``samples``: a figure per round for each subject. Ratios are taken within each round."""
    baseline = samples.get(against, [])
    found = {subject: ratio(values, baseline) for subject, values in samples.items() if subject != against}
    ratios = {subject: _rounded(value) for subject, value in found.items() if value is not None}
    return Row(
        what, unit, {subject: _rounded(median(values)) for subject, values in samples.items()}, ratios, against, sized
    )


def _rounded(value: float) -> float:
    """Round to six digits; more would be noise."""
    return float(f"{value:.6g}")


@dataclass(frozen=True)
class Reading:
    """How to compute a row from the tries: the number with this name, times ``factor``."""

    what: str
    unit: str
    key: str
    against: str = ""
    factor: float = 1.0
    of: float | None = None
    """For a rate: this amount divided by the number."""

    def row(self, seen: Mapping[str, list[Numbers]], *, sized: bool = False) -> Row:
        samples = {
            subject: [self.read(numbers) for numbers in tries if self.key in numbers] for subject, tries in seen.items()
        }
        told = {subject: values for subject, values in samples.items() if values}
        return measured(self.what, self.unit, told, self.against, sized=sized)

    def read(self, numbers: Numbers) -> float:
        number = numbers[self.key]
        return (self.of / number if number else 0.0) if self.of is not None else number * self.factor


@dataclass
class Figures:
    """Everything that is saved: the machine, and each group's rows and description."""

    groups: dict[str, list[Row]] = field(default_factory=dict)
    about: dict[str, str] = field(default_factory=dict)
    machines: dict[str, str] = field(default_factory=dict)
    """By group: the machine, and the duration of the measurement."""

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
    """Save the figures, one row per line."""
    groups = []
    for name, rows in figures.groups.items():
        head = f'"about": {_text(figures.about[name])},\n  "machine": {_text(figures.machines[name])}'
        told = ",\n".join(f"   {_text(asdict(row))}" for row in rows)
        groups.append(f' {_text(name)}: {{\n  {head},\n  "rows": [\n{told}\n  ]\n }}')
    path.write_text("{\n" + ",\n".join(groups) + "\n}\n", encoding="utf-8")


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def format_figure(value: float, unit: str) -> str:
    """A figure with three digits and a fitting unit."""
    if unit == COUNT:
        return f"{value:,.0f}"
    scales = _SCALES[unit]
    size, name = next(((size, name) for size, name in scales if abs(value) >= size), scales[-1])
    return f"{digits(value / size)} {name}" if name != "x" else f"{digits(value)} x"


def digits(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
