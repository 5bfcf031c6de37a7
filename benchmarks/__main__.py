"""`make bench [CASE=relay]`: measure, print, save the figures, and write docs/performance.md from them.

`make bench-quick` prints the main ratios beside the saved ones, and saves and judges nothing.
`python -m benchmarks page` writes the page from the saved figures.
"""

import argparse
import importlib
import os
import platform
import sys
import tempfile
import time
from pathlib import Path

from acp_proxy import __version__
from benchmarks import figures, page
from benchmarks.build import BUILD, CannotBuild, built
from benchmarks.figures import Row, digits
from benchmarks.subjects import Effort

GROUPS = ("relay", "start", "store", "replay", "scale", "changes", "exchange", "peers")
QUICK = ("relay", "start", "store", "replay")


def main() -> int:
    asked = argparse.ArgumentParser(prog="make bench", description=(__doc__ or "").split("\n\n")[0])
    asked.add_argument("group", nargs="*", help=f"of {', '.join(GROUPS)}; default: all; or: page")
    asked.add_argument("--quick", action="store_true", help="only the main rows, beside the last saved ones")
    asked.add_argument("--rounds", type=int, default=1_000, metavar="N", help="at most N rounds, for a first look")
    given = asked.parse_args()
    if given.group == ["page"]:
        page.make(figures.load())
        return 0
    if unknown := set(given.group) - set(GROUPS):
        asked.error(f"there is no group {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}")
    try:
        programs = built()
    except CannotBuild as problem:
        print(problem, file=sys.stderr)
        return 1
    kept, failed = figures.load(), False
    with tempfile.TemporaryDirectory(prefix="run-", dir=BUILD, ignore_cleanup_errors=True) as place:
        effort = Effort(programs, Path(place), given.quick, given.rounds)
        for name in given.group or (QUICK if given.quick else GROUPS):
            group = importlib.import_module(f"benchmarks.groups.{name}")
            about = " ".join((group.__doc__ or "").split())
            print(f"\n{name}: {about}", flush=True)
            began, rows, load = time.monotonic(), [], os.getloadavg()[0]
            try:
                for row in group.run(effort):
                    rows.append(row)
                    print(told_beside(row, kept.row(name, row.what)) if given.quick else format_row(row), flush=True)
            except RuntimeError as problem:
                failed = True
                print(f"{name} ends here, and is not kept: {problem}", file=sys.stderr, flush=True)
                continue
            if not given.quick:
                kept.groups[name], kept.about[name] = rows, about
                kept.machines[name] = machine(time.monotonic() - began, load)
                figures.save(kept)
    if not given.quick:
        page.make(kept)
    return int(failed)


def format_row(row: Row) -> str:
    cells = [f"{subject} {page.cell(row, subject)}" for subject in row.values]
    return f"  {row.what}: {' · '.join(cells)}"


def told_beside(row: Row, before: Row | None) -> str:
    """A row's ratios, each followed by the saved one."""
    cells = []
    for subject in row.values:
        ratio = row.ratios.get(subject)
        if ratio is None:
            if subject != row.against:
                cells.append(f"{subject} {page.cell(row, subject)}")
            continue
        last = before.ratios.get(subject) if before is not None else None
        cells.append(f"{subject} {digits(ratio)} x" + (f" (last {digits(last)})" if last is not None else ""))
    return f"  {row.what}{f' / {row.against}' if row.against else ''}: {' · '.join(cells)}"


def machine(seconds: float, load: float) -> str:
    """``load``: processes waiting for a processor at the start; far above 0, the figures are noise."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        f"{round(seconds):,} s on {model()}, {count} cores (load {load:.1f} before), "
        f"{platform.system()} {platform.release()}, Python {platform.python_version()}, acp-proxy {__version__}"
    )


def model() -> str:
    """The processor's name."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


if __name__ == "__main__":
    sys.exit(main())
