"""`make torture [CASE=crash] [SHORT=1] [SEED=7]`: run the cases, print the outcomes, save the figures.

The figures of a full run are saved by case in torture/results.json, from which docs/reliability-figures.md is made.
Ends with 1 if anything was lost or left.
"""

import argparse
import json
import platform
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from acp_proxy import __version__
from torture.outcome import Outcome, Scale, about, names, run

RESULTS = Path(__file__).with_name("results.json")
PAGE = Path(__file__).parent.parent / "docs" / "reliability-figures.md"
INTRODUCTION = """\
# How often was each fault tried?

Made by `make torture`; [reliability](reliability.md) says what is promised. Checked: examined after the fault. Lost:
missing, wrong, or a process that still ran.
"""
WITH_NOTES = ("crash", "deleted", "disk", "hostile", "shutdown", "soak", "stuck")
"""The cases whose notes are on the page: they say how far a promise goes. Those of the others are printed only."""


def main() -> int:
    asked = argparse.ArgumentParser(prog="make torture", description=(__doc__ or "").split("\n\n")[0])
    asked.add_argument("case", nargs="*", help=f"of {', '.join(names())}; default: all")
    asked.add_argument("--short", action="store_true", help="a short form, which saves no figures")
    asked.add_argument("--seed", type=int, default=0, help="the seed of the random choices")
    asked.add_argument("--page", action="store_true", help="only make the page again, from the saved figures")
    given = asked.parse_args()
    if unknown := set(given.case) - set(names()):
        asked.error(f"there is no case {', '.join(sorted(unknown))}; there are {', '.join(names())}")
    well = True
    for case in [] if given.page else given.case or names():
        print(f"\n{case}: {about(case)}", flush=True)
        began, outcomes = time.monotonic(), []
        with tempfile.TemporaryDirectory(prefix="acp-proxy-torture-", ignore_cleanup_errors=True) as place:
            for outcome in run(case, Scale(given.short, given.seed, Path(place).resolve())):
                outcomes.append(outcome)
                print(f"  {line(outcome)}", flush=True)
                for text in outcome.trouble[:20]:
                    print(f"    {text}", file=sys.stderr, flush=True)
        well = well and all(outcome.is_well for outcome in outcomes)
        if not given.short:
            keep(case, outcomes, time.monotonic() - began, given.seed)
    if not given.short:
        PAGE.write_text(page(read_results()), encoding="utf-8")
    return 0 if well else 1


def line(outcome: Outcome) -> str:
    also = f" · {outcome.also}" if outcome.also else ""
    return (
        f"{outcome.fault}: {outcome.tried:,} times · {outcome.checked:,} {outcome.what} looked at, "
        f"{outcome.lost:,} lost · {outcome.left:,} processes left{also}"
    )


def read_results() -> dict[str, Any]:
    return dict(json.loads(RESULTS.read_text(encoding="utf-8"))) if RESULTS.exists() else {}


def keep(case: str, outcomes: list[Outcome], seconds: float, seed: int) -> None:
    told = [{key: value for key, value in asdict(outcome).items() if key != "trouble"} for outcome in outcomes]
    machine = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    figures = read_results()
    figures[case] = {
        "version": __version__,
        "machine": machine,
        "seed": seed,
        "seconds": round(seconds),
        "about": about(case),
        "outcomes": told,
    }
    RESULTS.write_text(json.dumps(dict(sorted(figures.items())), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def page(figures: dict[str, Any]) -> str:
    """The page. The machine of most cases is named once."""
    most = Counter(ran_on(one) for one in figures.values()).most_common(1)
    common = most[0][0] if most else ""
    return "\n".join(
        [f"{INTRODUCTION}\nRan on {common}.\n", *(table(case, figures[case], common) for case in sorted(figures))]
    )


def ran_on(figures: dict[str, Any]) -> str:
    return f"{figures['machine']}, acp-proxy {figures['version']}, seed {figures['seed']}"


def table(case: str, figures: dict[str, Any], common: str) -> str:
    other = "" if ran_on(figures) == common else f"; {ran_on(figures)}"
    units = {one["what"] for one in figures["outcomes"]}
    unit = f" ({units.pop()})" if len(units) == 1 else ""
    noted = case in WITH_NOTES
    rows = [
        f"|{one['fault']}|{one['tried']:,}|{one['checked']:,}{'' if unit else ' ' + one['what']}"
        f"|{one['lost'] + one['left']:,}|{one['also'] + '|' if noted else ''}\n"
        for one in figures["outcomes"]
    ]
    header = f"|fault|times|{'checked' + unit}|lost|{'notes|' if noted else ''}\n|-|-|-|-|{'-|' if noted else ''}\n"
    return f"## {case}\n\n{figures['about']} ({figures['seconds']:,} s{other}).\n\n{header}{''.join(rows)}"


if __name__ == "__main__":
    sys.exit(main())
