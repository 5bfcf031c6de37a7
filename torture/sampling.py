"""A process's resources over time, and whether they grow."""

from dataclasses import dataclass
from statistics import linear_regression

from torture.outcome import Outcome

GROWTH = 10 * 1024 * 1024
"""Bytes that memory may grow by: fluctuations of the allocator, and a little for each of many sessions."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The resources of the proxy's process at one moment."""

    at: float
    memory: int
    files: int
    threads: int


def judged(quiet: Sample, end: Sample, talking: list[Sample], more: dict[str, int]) -> Outcome:
    """``more``: the files and threads that a busy moment may have beyond a quiet one."""
    samples = [quiet, *talking, end]
    slope, _ = linear_regression([each.at for each in samples], [each.memory for each in samples])
    grown = {"at rest": end.memory - quiet.memory, "while talking": slope * (samples[-1].at - samples[0].at)}
    trouble = [f"memory grew by {megabytes(size)} {when}" for when, size in grown.items() if size > GROWTH]
    for what, beyond in more.items():
        first, last = getattr(quiet, what), getattr(end, what)
        most = max(getattr(each, what) for each in samples)
        if last != first or most > first + beyond:
            trouble.append(f"{what} at rest: {first}, then {last}; at most {most} while talking")
    memory = [each.memory for each in samples]
    return Outcome(
        "samples of memory, open files and threads",
        tried=len(samples),
        checked=3 * len(samples),
        what="figures",
        lost=len(trouble),
        also=f"memory from {megabytes(memory[0])} to {megabytes(memory[-1])}, at most {megabytes(max(memory))}, "
        f"trend {megabytes(grown['while talking'])}; at rest after the warm-up and at the end: "
        f"memory {megabytes(quiet.memory)} and {megabytes(end.memory)}, files {quiet.files} and {end.files}, "
        f"threads {quiet.threads} and {end.threads}",
        trouble=tuple(trouble),
    )


def megabytes(size: float) -> str:
    return f"{size / 1024 / 1024:.1f} MB"
