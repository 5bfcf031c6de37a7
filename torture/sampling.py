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


def judge_samples(quiet: Sample, end: Sample, talking: list[Sample], more: dict[str, int]) -> Outcome:
    """``more``: the files and threads that a busy moment may have beyond a quiet one."""
    samples = [quiet, *talking, end]
    slope, _ = linear_regression([sample.at for sample in samples], [sample.memory for sample in samples])
    grown = {"at rest": end.memory - quiet.memory, "while talking": slope * (samples[-1].at - samples[0].at)}
    trouble = [f"memory grew by {format_megabytes(size)} {when}" for when, size in grown.items() if size > GROWTH]
    for what, beyond in more.items():
        first, last = getattr(quiet, what), getattr(end, what)
        most = max(getattr(sample, what) for sample in samples)
        if last != first or most > first + beyond:
            trouble.append(f"{what} at rest: {first}, then {last}; at most {most} while talking")
    memory = [sample.memory for sample in samples]
    return Outcome(
        "samples of memory, open files and threads",
        tried=len(samples),
        checked=3 * len(samples),
        what="figures",
        lost=len(trouble),
        also=f"memory from {format_megabytes(memory[0])} to {format_megabytes(memory[-1])}, "
        f"at most {format_megabytes(max(memory))}, trend {format_megabytes(grown['while talking'])}; "
        f"at rest after the warm-up and at the end: memory {format_megabytes(quiet.memory)} and "
        f"{format_megabytes(end.memory)}, files {quiet.files} and {end.files}, "
        f"threads {quiet.threads} and {end.threads}",
        trouble=tuple(trouble),
    )


def format_megabytes(size: float) -> str:
    return f"{size / 1024 / 1024:.1f} MB"
