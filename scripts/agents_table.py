"""Writes docs/agents.md from conversations with real agents: `make agents`.

    python -m scripts.agents_table                                         # the page
    python -m scripts.agents_table --only gemini,vibe                      # these agents, and no page
    python -m scripts.agents_table --only gemini,vibe --checks loads,fork  # only these checks, line by line

Runs each agent without the proxy and behind it, and the checks of ``agents_checks``. Ends with 1 if a load behind the
proxy shows less than the conversation, or a check finds an error.
"""

import argparse
import json
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from acp_proxy import __version__
from scripts.agents_checks import CHECKS, checked
from scripts.agents_page import cells, lost, page, summary, titled
from scripts.agents_rows import NAMES, SUBJECTS, Row, packaged, tried, untried
from scripts.findings import Finding, format_findings, is_well
from scripts.real_agents import AGENTS, Bench, stand_in_model

PAGE = Path(__file__).parent.parent / "docs" / "agents.md"
AT_ONCE = 2
"""Agents to run at the same time: they mostly wait for the clock and for silence."""


def main(words: Sequence[str]) -> int:
    given = arguments(words)
    if not (AGENTS / "setup").exists():
        print(f"There are no real agents to try: {AGENTS} is not there.", file=sys.stderr)
        return 1
    left_out = untried(given.only)
    with stand_in_model() as port, workplace(given.keep) as base:
        there = [name for name in given.only if name not in left_out]
        found = all_checked(there, given.checks, port, base, taps=given.keep is not None, at_once=given.jobs)
        if given.table:
            rows = table(given.only, left_out, port)
    well = all(is_well(findings) for checks in found.values() for findings in checks.values())
    if not given.table:
        return 0 if well else 1
    if given.only == NAMES:
        PAGE.write_text(page(rows, found), encoding="utf-8")
    if given.json:
        print(json.dumps({"version": __version__, "agents": [summary(row, found) for row in rows]}, indent=2))
    short = {titled(row): less for row in rows if not row.untried and (less := lost(row.behind))}
    for name, less in short.items():
        print(f"{name}: a load with acp-proxy shows less than was said: {', '.join(less)}", file=sys.stderr)
    return 0 if well and not short else 1


def arguments(words: Sequence[str]) -> argparse.Namespace:
    """``only`` and ``checks`` as names in their order; ``table``: whether to make the table."""
    parser = argparse.ArgumentParser(prog="agents_table", description="Tries real agents, and writes docs/agents.md.")
    parser.add_argument("--only", metavar="AGENT,…", default=",".join(NAMES), help=f"of {', '.join(NAMES)}")
    parser.add_argument("--checks", metavar="CHECK,…", help=f"no table; only these, of {', '.join(CHECKS)}")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep stores, states and wires of the checks there")
    parser.add_argument("--jobs", type=int, default=AT_ONCE, metavar="N", help="agents at once, default %(default)s")
    parser.add_argument("--json", action="store_true", help="print a summary for programs")
    given = parser.parse_args(words)
    given.table = given.checks is None
    wanted, checks = given.only.split(","), (given.checks or ",".join(CHECKS)).split(",")
    if unknown := sorted({*wanted, *checks}.difference(NAMES, CHECKS)):
        parser.error(f"no such agent or check here: {', '.join(unknown)}")
    given.only = tuple(name for name in NAMES if name in wanted)
    given.checks = tuple(name for name in CHECKS if name in checks)
    return given


@contextmanager
def workplace(kept: Path | None) -> Iterator[Path]:
    """A directory for the checks; deleted afterwards unless it is to be kept."""
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        yield kept.resolve()
    else:
        with tempfile.TemporaryDirectory(prefix="acp-proxy-agents-", ignore_cleanup_errors=True) as directory:
            yield Path(directory).resolve()


def all_checked(
    agents: Sequence[str], checks: Sequence[str], port: int, base: Path, *, taps: bool, at_once: int
) -> dict[str, dict[str, list[Finding]]]:
    """The findings by agent and check; each is printed as it is found."""

    def of_agent(name: str) -> dict[str, list[Finding]]:
        found = {}
        for check in checks:
            place = base / name / check
            shutil.rmtree(place, ignore_errors=True)  # left by an earlier run
            found[check] = checked(check, Bench(place, name, port, taps=taps))
            mark = "ok" if is_well(found[check]) else "WRONG"
            print(
                "\n".join([f"{name} {check}: {mark}", *(f"    {line}" for line in format_findings(found[check]))]),
                flush=True,
            )
        return found

    with ThreadPoolExecutor(at_once) as pool:
        return dict(zip(agents, pool.map(of_agent, agents), strict=True))


def table(names: Sequence[str], left_out: dict[str, str], port: int) -> list[Row]:
    with (AGENTS / "agents.toml").open("rb") as file:
        recipes = tomllib.load(file)
    rows = []
    for name, opened in SUBJECTS:
        if name in left_out:
            rows.append(Row(name, opened, *packaged(recipes[name]), untried=left_out[name]))
        elif name in names:
            rows.append(tried(name, opened, recipes[name], port))
        else:
            continue
        print(f"{titled(rows[-1])}: {' | '.join(cells(rows[-1], {})[-3:])}", file=sys.stderr)
    return rows


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
