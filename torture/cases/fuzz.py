"""Fuzzed input for everything that parses foreign bytes.

With atheris (`make fuzz` installs it), coverage guides the input; otherwise it is random, and the figures say so.
"""

from collections.abc import Iterator
from itertools import islice

from fuzz import growth, running
from fuzz.corpus import mutations, names, target
from torture.outcome import Outcome, Scale

SECONDS = 60
SHOWN = 500  # bytes of an input that broke something: `make fuzz` saves the file


def run(scale: Scale) -> Iterator[Outcome]:
    for name in names():
        yield guided(name, scale) if running.is_there() and not scale.short else by_chance(name, scale)
    if not scale.short:
        yield grown()


def guided(name: str, scale: Scale) -> Outcome:
    ran = running.run(name, SECONDS, scale.place, scale.seed + 1)
    trouble = (f"{ran.broken.read_bytes()[:SHOWN]!r}: {ran.told}",) if ran.broken is not None else ()
    return outcome(name, ran.executions, f"{SECONDS} s, {ran.coverage:,} edges", trouble)


def by_chance(name: str, scale: Scale) -> Outcome:
    take, tried = target(name), 0
    trouble: tuple[str, ...] = ()
    for data in islice(mutations(name, scale.chance("fuzz", name)), scale.of(20_000, 200)):
        tried += 1
        try:
            take(data)
        except Exception as problem:  # noqa: BLE001 - whatever it is, it is what we are looking for
            trouble = (*trouble, f"{data[:SHOWN]!r}: {type(problem).__name__}: {problem}")
    return outcome(name, tried, "by chance", trouble)


def outcome(name: str, tried: int, how: str, trouble: tuple[str, ...]) -> Outcome:
    return Outcome(name, tried, tried, "inputs", lost=len(trouble), also=how, trouble=trouble)


def grown() -> Outcome:
    found = [growth.measured(shape) for shape in growth.SHAPES]
    steep = tuple(str(one) for one in found if not one.is_well)
    steepest = max(found, key=lambda one: one.times)
    return Outcome(
        f"growth: input {growth.TIMES} times as large",
        tried=len(found),
        checked=len(found),
        what="shapes of input",
        lost=len(steep),
        also=f"at most {steepest.times:.1f} times the cost ({steepest.name})",
        trouble=steep,
    )
