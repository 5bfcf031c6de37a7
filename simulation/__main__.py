"""`make simulate [SEED=7] [PLANS=2000] [PLAN=file]`: run plans, and keep what fails.

A failing plan is made small, printed, and written to simulation/plans/new/, from where it is run again with PLAN. The
same arguments print the same, byte for byte. Ends with 1 if a plan failed.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

from simulation import choices
from simulation.plan import Plan, read_file
from simulation.running import Run, report, run
from simulation.shrinking import shrink

NEW = Path(__file__).with_name("plans") / "new"


def main() -> int:
    asked = argparse.ArgumentParser(prog="make simulate", description=(__doc__ or "").split("\n\n")[0])
    asked.add_argument("--seed", type=int, default=0, help="the seed of the first plan")
    asked.add_argument("--plans", type=int, default=2000, help="how many plans")
    asked.add_argument("--plan", type=Path, help="run this file only, and print everything that happened")
    asked.add_argument("--context", action="store_true", help="agents that add user messages to their replays")
    asked.add_argument("--processes", action="store_true", help="with real processes, which are killed")
    asked.add_argument("--new", type=Path, default=NEW, help="where failing plans are written")
    given = asked.parse_args()
    if given.plan is not None:
        plan = read_file(given.plan)
        result = run(plan, with_processes=given.processes)
        print("\n".join(report(plan, result)))
        return 1 if result.broken else 0
    seeds = range(given.seed, given.seed + given.plans)
    return _many(seeds, given.new, has_context=given.context, with_processes=given.processes)


def _many(seeds: range, place: Path, *, has_context: bool, with_processes: bool) -> int:
    failed: Counter[str] = Counter()
    for seed in seeds:
        plan = choices.make(seed, has_context=has_context)
        result = run(plan, with_processes=with_processes)
        if not result.broken:
            continue
        small, how = smallest(plan, result, with_processes=with_processes)
        failed[", ".join(sorted(how.kinds))] += 1
        place.mkdir(parents=True, exist_ok=True)
        file = place / f"seed-{seed}{'-context' if has_context else ''}.json"
        file.write_text(small.text(), encoding="utf-8")
        print(f"seed {seed}: after step {how.at} of this plan:\n\n{small.text()}")
        print("\n".join(f"  {each}" for each in how.broken[:8]))
        print(f"\n  again: make simulate PLAN={_short(file)}\n", flush=True)
    print(f"{len(seeds)} plans, {sum(failed.values())} failed")
    for kinds, count in failed.most_common():
        print(f"  {count} {kinds}")
    return 1 if failed else 0


def smallest(plan: Plan, result: Run, *, with_processes: bool = False) -> tuple[Plan, Run]:
    """A small plan that breaks the same promise, and its run."""
    kinds = result.kinds

    def fails(smaller: Plan) -> bool:
        return bool(run(smaller, with_processes=with_processes).kinds & kinds)

    small = shrink(plan, fails)
    return small, run(small, with_processes=with_processes)


def _short(file: Path) -> Path:
    return file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file


if __name__ == "__main__":
    sys.exit(main())
