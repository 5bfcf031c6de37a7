"""docs/performance.md, made from the figures that are kept."""

from pathlib import Path

from benchmarks import goals
from benchmarks.figures import Figures, Row, digits, written

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "performance.md"
GOALS_BEGIN, GOALS_END = "<!-- goals: made by `make bench` -->\n", "<!-- end of the goals -->\n"
BEGIN, END = "<!-- figures: made by `make bench` -->\n", "<!-- end of the figures -->\n"
_ORDER = ("relay", "start", "store", "replay", "scale", "peers")


def make(figures: Figures, page: Path = PAGE) -> None:
    text = page.read_text(encoding="utf-8")
    text = between(text, GOALS_BEGIN, GOALS_END, goals_table(figures))
    text = between(text, BEGIN, END, "\n".join(section(name, figures) for name in ordered(figures)))
    page.write_text(text, encoding="utf-8")


def ordered(figures: Figures) -> list[str]:
    return sorted(figures.groups, key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER))


def between(text: str, begin: str, end: str, made: str) -> str:
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{made}\n{end}{after}"


def goals_table(figures: Figures) -> str:
    out = ["| what | goal | measured | |", "|---|---|---|---|"]
    for goal, row in goals.rows(figures):
        met = goal.is_met(row) if row is not None else None
        sign = {True: "reached", False: "**not reached**", None: ""}[met]
        told = goal.told(row) if row is not None else "not measured"
        out.append(f"| {goal.what} | {goal.limited(row)} | {told} | {sign} |")
    return "\n".join(out) + "\n"


def section(name: str, figures: Figures) -> str:
    rows = figures.groups[name]
    tables = "\n".join(table([row for row in rows if row.sized == sized]) for sized in (False, True))
    about = figures.about[name]
    head = f"### {name}\n\n{about}\n\n`make bench CASE={name}`: {figures.machines[name]}.\n\n"
    return f"{head}{tables}".rstrip() + "\n"


def table(rows: list[Row]) -> str:
    """One table for all rows with the same subjects, in the order of the rows."""
    out: list[str] = []
    subjects: list[str] = []
    for row in rows:
        if list(row.values) != subjects:
            subjects = list(row.values)
            out += [*([""] if out else []), f"| | {' | '.join(subjects)} |", f"|---|{'---|' * len(subjects)}"]
        out.append(f"| {row.what} | {' | '.join(cell(row, subject) for subject in subjects)} |")
    return "\n".join(out) + "\n"


def cell(row: Row, subject: str) -> str:
    ratio = row.ratios.get(subject)
    return written(row.values[subject], row.unit) + (f" ({digits(ratio)} x)" if ratio is not None else "")
