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
from torture.outcome import Outcome, Scale, get_summary, list_cases, run

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
    asked.add_argument("case", nargs="*", help=f"of {', '.join(list_cases())}; default: all")
    asked.add_argument("--short", action="store_true", help="a short form, which saves no figures")
    asked.add_argument("--seed", type=int, default=0, help="the seed of the random choices")
    asked.add_argument("--page", action="store_true", help="only make the page again, from the saved figures")
    args = asked.parse_args()
    if unknown := set(args.case) - set(list_cases()):
        asked.error(f"there is no case {', '.join(sorted(unknown))}; there are {', '.join(list_cases())}")
    well = True
    for case in [] if args.page else args.case or list_cases():
        print(f"\n{case}: {get_summary(case)}", flush=True)
        began, outcomes = time.monotonic(), []
        with tempfile.TemporaryDirectory(prefix="acp-proxy-torture-", ignore_cleanup_errors=True) as place:
            for outcome in run(case, Scale(args.short, args.seed, Path(place).resolve())):
                outcomes.append(outcome)
                print(f"  {format_outcome(outcome)}", flush=True)
                for text in outcome.trouble[:20]:
                    print(f"    {text}", file=sys.stderr, flush=True)
        well = well and all(outcome.is_well for outcome in outcomes)
        if not args.short:
            save_outcomes(case, outcomes, time.monotonic() - began, args.seed)
    if not args.short:
        PAGE.write_text(page(read_results()), encoding="utf-8")
    return 0 if well else 1


def format_outcome(outcome: Outcome) -> str:
    also = f" · {outcome.also}" if outcome.also else ""
    return (
        f"{outcome.fault}: {outcome.tried:,} times · {outcome.checked:,} {outcome.what} looked at, "
        f"{outcome.lost:,} lost · {outcome.left:,} processes left{also}"
    )


def read_results() -> dict[str, Any]:
    return dict(json.loads(RESULTS.read_text(encoding="utf-8"))) if RESULTS.exists() else {}


def save_outcomes(case: str, outcomes: list[Outcome], seconds: float, seed: int) -> None:
    told = [{key: value for key, value in asdict(outcome).items() if key != "trouble"} for outcome in outcomes]
    machine = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    figures = read_results()
    figures[case] = {
        "version": __version__,
        "machine": machine,
        "seed": seed,
        "seconds": round(seconds),
        "about": get_summary(case),
        "outcomes": told,
    }
    RESULTS.write_text(json.dumps(dict(sorted(figures.items())), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def page(figures: dict[str, Any]) -> str:
    """The page. The machine of most cases is named once."""
    most = Counter(describe_run(figure) for figure in figures.values()).most_common(1)
    common = most[0][0] if most else ""
    return "\n".join(
        [f"{INTRODUCTION}\nRan on {common}.\n", *(table(case, figures[case], common) for case in sorted(figures))]
    )


def describe_run(figures: dict[str, Any]) -> str:
    return f"{figures['machine']}, acp-proxy {figures['version']}, seed {figures['seed']}"


def table(case: str, figures: dict[str, Any], common: str) -> str:
    other = "" if describe_run(figures) == common else f"; {describe_run(figures)}"
    units = {outcome["what"] for outcome in figures["outcomes"]}
    unit = f" ({units.pop()})" if len(units) == 1 else ""
    noted = case in WITH_NOTES
    rows = [
        f"|{outcome['fault']}|{outcome['tried']:,}|{outcome['checked']:,}{'' if unit else ' ' + outcome['what']}"
        f"|{outcome['lost'] + outcome['left']:,}|{outcome['also'] + '|' if noted else ''}\n"
        for outcome in figures["outcomes"]
    ]
    header = f"|fault|times|{'checked' + unit}|lost|{'notes|' if noted else ''}\n|-|-|-|-|{'-|' if noted else ''}\n"
    return f"## {case}\n\n{figures['about']} ({figures['seconds']:,} s{other}).\n\n{header}{''.join(rows)}"


if __name__ == "__main__":
    sys.exit(main())
