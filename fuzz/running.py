"""Runs a target under atheris for a time, and reports the outcome.

Inputs that reached new code are kept under `.fuzz/` for the next run, and so are those that broke the target.
"""

import hashlib
import importlib.util
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from fuzz.corpus import seeds

KEPT = Path(".fuzz")
INPUT_SECONDS = 10  # an input of at most INPUT_BYTES takes milliseconds: this long is a hang
INPUT_BYTES = 4096
MEMORY_MB = 1024

_EXECUTIONS = re.compile(r"stat::number_of_executed_units:\s+(\d+)")
_COVERAGE = re.compile(r"\bcov: (\d+) ft: (\d+)")
_FOUND = re.compile(r"Test unit written to (\S+)")


@dataclass(frozen=True, slots=True)
class Ran:
    """``broken``: the input that broke the target. ``told``: the end of the engine's output."""

    executions: int
    coverage: int
    broken: Path | None
    told: str


def is_there() -> bool:
    return importlib.util.find_spec("atheris") is not None


def run(name: str, seconds: int, kept: Path = KEPT, seed: int = 0) -> Ran:
    """``seed``: for repeatable runs; 0 is random."""
    corpus, broken = kept / name, kept / "broken" / name
    for folder in (corpus, broken):
        folder.mkdir(parents=True, exist_ok=True)
    for data in seeds(name):
        (corpus / hashlib.sha1(data).hexdigest()).write_bytes(data)
    options = {
        "max_total_time": seconds,
        "max_len": INPUT_BYTES,
        "timeout": INPUT_SECONDS,
        "rss_limit_mb": MEMORY_MB,
        "print_final_stats": 1,
        "seed": seed,
    }
    command = [sys.executable, "-m", "fuzz.engine", name, *(f"-{key}={value}" for key, value in options.items())]
    command += [f"-artifact_prefix={broken}/", str(corpus)]
    ended = subprocess.run(command, capture_output=True, check=False)
    told = (ended.stdout + ended.stderr).decode(errors="replace")
    counted, covered, found = _EXECUTIONS.search(told), _COVERAGE.findall(told), _FOUND.search(told)
    if ended.returncode and found is None:
        raise RuntimeError(f"the engine ended with {ended.returncode}: {told[-2000:]}")
    return Ran(
        executions=int(counted[1]) if counted else 0,
        coverage=int(covered[-1][0]) if covered else 0,
        broken=Path(found[1]) if found else None,
        told=told[-3000:],
    )
