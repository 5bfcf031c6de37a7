"""The table and the screens in docs/editors.md."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from scripts.editors.steps import STEPS, Outcome

PAGE = Path(__file__).parents[2] / "docs" / "editors.md"
BEGIN, END = "<!-- results: made by `make editors` -->\n", "<!-- end of the results -->\n"


def page(text: str, outcomes: Sequence[Outcome]) -> str:
    """The page with new results."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(outcomes)}\n{END}{after}"


def table(outcomes: Iterable[Outcome]) -> str:
    """One row for each editor and agent."""
    rows = [["editor", "agent", *STEPS], ["-"] * (len(STEPS) + 2)]
    for outcome in outcomes:
        editor = f"{outcome.editor.title} {outcome.version}"
        rows.append([editor, outcome.agent, *map(outcome.of, STEPS)])
    return "".join(f"|{'|'.join(row)}|\n" for row in rows)
