"""Loading a session: first and last update, bytes sent, and memory.

Times count from the request, `first update` from the agent's answer. `copy` copies the transcript's file; `cat` sends
it through a pipe.
"""

import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from benchmarks import stores
from benchmarks.figures import BYTES, SECONDS, Reading, Row
from benchmarks.rounds import Numbers, Task, interleaved
from benchmarks.subjects import CAT, Effort

COPY, FULL, COMPACT = "copy", "full", "compact"
_SESSIONS: dict[str, Callable[[], Iterable[bytes]]] = {
    "1,000 chunks": lambda: stores.chunks(1_000),
    "100,000 chunks": lambda: stores.chunks(100_000),
    "1,000,000 chunks": lambda: stores.chunks(1_000_000),
    "500 MB of tool output": lambda: stores.outputs(500),
}
_QUICK = ("100,000 chunks",)


def run(effort: Effort) -> Iterator[Row]:
    for name in _QUICK if effort.quick else _SESSIONS:
        with effort.folder() as folder:
            seen = loads(effort, folder, _SESSIONS[name](), effort.rounds(5))
        yield Reading(f"{name}: first update", SECONDS, "first").row(seen)
        yield Reading(f"{name}: first update, from the request", SECONDS, "waited").row(seen)
        yield Reading(f"{name}: last update", SECONDS, "last", COPY).row(seen)
        yield Reading(f"{name}: bytes", BYTES, "received", COPY).row(seen)
        yield Reading(f"{name}: memory growth", BYTES, "growth").row(seen)


def loads(effort: Effort, folder: Path, lines: Iterable[bytes], rounds: int) -> dict[str, list[Numbers]]:
    transcript = stores.long(folder / "store", lines)
    tasks: dict[str, Task] = {
        COPY: partial(copied, transcript, folder / "copy"),
        CAT: partial(sent, effort, transcript),
    }
    tasks |= {mode: partial(effort.talk, mode, ["load"], [], folder / "store") for mode in (FULL, COMPACT)}
    return interleaved(tasks, rounds, effort.chance)


def copied(source: Path, target: Path) -> Numbers:
    """A program that only copies the file, from the page cache."""
    began = time.perf_counter()
    shutil.copyfile(source, target)
    spent = time.perf_counter() - began
    target.unlink()
    return {"last": spent, "received": float(source.stat().st_size)}


def sent(effort: Effort, source: Path) -> Numbers:
    """Send the file through a pipe to the C client, which drops it."""
    seen = effort.client(["exit"], ["cat", str(source)])
    return {"last": seen["wall"], "received": float(source.stat().st_size)}
