"""Is this checkout slower than another one? `python -m benchmarks.compare CHECKOUT [--rounds N]`.

Both run from their `.venv`. Each round measures both once, in random order, so that a busy machine slows both alike:
look at the ratios. `best` is the ratio of the two least figures, which a busy machine changes least. CPU is that
of acp-proxy's own process. Exits with 1 if a median ratio is above its limit.
"""

import argparse
import random
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks import stores
from benchmarks.build import ROOT, Built, compiled
from benchmarks.figures import BYTES, SECONDS, format_figure
from benchmarks.rounds import Numbers, interleaved, ratio
from benchmarks.subjects import PROXY, Effort

HERE, THERE = "this", "other"
_CHUNKS = 1_000
_SPACED = 100


@dataclass(frozen=True)
class Pair:
    """What the client and the agent do, and which numbers are compared: the name of each, its key and its unit."""

    said: Sequence[object]
    agent: Sequence[object]
    numbers: Sequence[tuple[str, str, str]]
    limit: float | None = None
    """The most that the median ratio of the first number may be."""


_PAIRS = (
    Pair(
        ("ping", 2_000, 200),
        (1, 200),
        (
            ("round trip, p50", "p50", SECONDS),
            ("round trip, p99", "p99", SECONDS),
            ("round trips: CPU", "cpu", SECONDS),
        ),
        1.25,
    ),
    Pair(
        ("stream",),
        (300_000, 200, 64 * 1024),
        (("flood in batches of 64 KiB", "seconds", SECONDS), ("flood in batches: CPU", "cpu", SECONDS)),
        1.25,
    ),
    Pair(("stream",), (100_000, 200), (("flood, message by message", "seconds", SECONDS),)),
    Pair(
        ("stream", _SPACED),
        (_SPACED, 200, 0, 10_000),
        (("an update each 10 ms: delay, p50", "p50", SECONDS), ("an update each 10 ms: CPU", "cpu", SECONDS)),
    ),
    Pair(
        ("turn", 200),
        (1, 200),
        (("a whole turn, p50", "p50", SECONDS), ("whole turns: CPU", "cpu", SECONDS)),
        1.5,
    ),
    Pair(
        ("load",),
        (),
        (("first update of a load", "first", SECONDS), ("the same, from the request", "waited", SECONDS)),
        1.25,
    ),
    Pair(("start",), (), (("agent started", "started", SECONDS), ("first answer", "answered", SECONDS))),
    Pair(("rest", 1), (1, 200), (("memory at rest", "rest", BYTES),)),
)


def main() -> int:
    asked = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    asked.add_argument("checkout", type=Path)
    asked.add_argument("--rounds", type=int, default=15, metavar="N")
    given = asked.parse_args()
    is_slower = False
    with tempfile.TemporaryDirectory() as folder:
        efforts = {HERE: _make_effort(ROOT, Path(folder)), THERE: _make_effort(given.checkout, Path(folder))}
        print(f"| |{HERE}|{THERE}|ratio|best|limit|\n|-|-|-|-|-|-|")
        for pair in _PAIRS:
            tasks = {name: partial(_measure, effort, pair) for name, effort in efforts.items()}
            seen = interleaved(tasks, given.rounds, random.Random())
            for what, key, unit in pair.numbers:
                here, there = ([numbers[key] for numbers in seen[name]] for name in (HERE, THERE))
                limit = pair.limit if key == pair.numbers[0][1] else None
                found = ratio(here, there) or 0.0
                is_slower = is_slower or (limit is not None and found > limit)
                cells = what, format_figure(median(here), unit), format_figure(median(there), unit), f"{found:.2f}x"
                best = f"{min(here) / min(there):.2f}x"
                print(f"|{'|'.join(cells)}|{best}|{f'{limit:.2f}x' if limit else ''}|", flush=True)
    return int(is_slower)


def _make_effort(checkout: Path, place: Path) -> Effort:
    proxy, python = (str(checkout.resolve() / ".venv" / "bin" / name) for name in ("acp-proxy", "python"))
    client, agent, relay = (compiled(name, place) for name in ("client", "agent", "relay"))
    built = Built(client, agent, relay, proxy, python, node=None, typescript_sdk=None, conductor=None)
    return Effort(built, place)


def _measure(effort: Effort, pair: Pair) -> Numbers:
    with effort.folder() as folder:
        if pair.said[0] == "load":
            stores.long(folder / "store", stores.chunks(_CHUNKS))
        return effort.talk(PROXY, pair.said, pair.agent, folder / "store")


if __name__ == "__main__":
    sys.exit(main())
