"""Writes docs/performance.md and docs/performance-figures.md from the saved figures."""

import re
from collections import Counter
from pathlib import Path

from benchmarks import goals
from benchmarks.figures import Figures, Row, digits, format_figure

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "performance.md"
TABLES = ROOT / "docs" / "performance-figures.md"
GOALS_BEGIN, GOALS_END = "<!-- goals: made by `make bench` -->\n", "<!-- end of the goals -->\n"
BEGIN, END = "<!-- figures: made by `make bench` -->\n", "<!-- end of the figures -->\n"
_ORDER = ("relay", "start", "store", "replay", "scale", "changes", "peers")


def make(figures: Figures, page: Path = PAGE, tables: Path = TABLES) -> None:
    text = between(page.read_text(encoding="utf-8"), GOALS_BEGIN, GOALS_END, goals_table(figures))
    page.write_text(text, encoding="utf-8")
    common = Counter(ran_on(figures.machines[name])[1] for name in ordered(figures)).most_common(1)
    told = common[0][0] if common else ""
    tables_of = [section(name, figures, told) for name in ordered(figures)]
    sections = "\n".join([f"Ran on {told}.\n", *tables_of] if told else tables_of)
    tables.write_text(between(tables.read_text(encoding="utf-8"), BEGIN, END, sections), encoding="utf-8")


def ordered(figures: Figures) -> list[str]:
    return sorted(figures.groups, key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER))


def between(text: str, begin: str, end: str, made: str) -> str:
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{made}\n{end}{after}"


def goals_table(figures: Figures) -> str:
    out = ["|what|goal|measured||", "|-|-|-|-|"]
    for goal, row in goals.rows(figures):
        met = goal.is_met(row) if row is not None else None
        sign = {True: "reached", False: "**not reached**", None: ""}[met]
        told = goal.told(row) if row is not None else "not measured"
        out.append(f"|{goal.what}|{goal.limited(row)}|{told}|{sign}|")
    return "\n".join(out) + "\n"


def ran_on(machine: str) -> tuple[str, str]:
    """Split a group's machine text into the duration with the load, and the machine."""
    found = re.fullmatch(r"(.+?) on (.+?) \((load .+? before)\), (.+)", machine)
    return (f"{found[1]}, {found[3]}", f"{found[2]}, {found[4]}") if found else (machine, "")


def section(name: str, figures: Figures, common: str = "") -> str:
    rows = figures.groups[name]
    tables = "\n".join(table([row for row in rows if row.sized == sized]) for sized in (False, True))
    about = figures.about[name]
    effort, machine = ran_on(figures.machines[name])
    where = f" on {machine}" if machine not in ("", common) else ""
    head = f"## {name}\n\n{about} Measured in {effort}{where}.\n\n"
    return f"{head}{tables}".rstrip() + "\n"


def table(rows: list[Row]) -> str:
    """One table for all rows with the same subjects, in the order of the rows."""
    out: list[str] = []
    subjects: list[str] = []
    for row in rows:
        if list(row.values) != subjects:
            subjects = list(row.values)
            out += [*([""] if out else []), f"||{'|'.join(subjects)}|", f"|-|{'-|' * len(subjects)}"]
        out.append(f"|{row.what}|{'|'.join(cell(row, subject) for subject in subjects)}|")
    return "\n".join(out) + "\n"


def cell(row: Row, subject: str) -> str:
    ratio = row.ratios.get(subject)
    return format_figure(row.values[subject], row.unit) + (f" ({digits(ratio)}x)" if ratio is not None else "")
