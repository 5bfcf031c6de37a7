"""Writes the tables in docs/redaction.md, of the rules and of the comparison with secret scanners: `make docs`."""

from pathlib import Path

from acp_proxy.redaction.secret_rules import RULES
from scripts import secret_scanners

PAGE = Path(__file__).parent.parent / "docs" / "redaction.md"
RULES_BEGIN, RULES_END = "<!-- rules: made by `make docs` -->\n", "<!-- end of the rules -->\n"
COMPARISON_BEGIN, COMPARISON_END = "<!-- comparison: made by `make docs` -->\n", "<!-- end of the comparison -->\n"
_MOST_LITERALS = 4


def page(text: str) -> str:
    """The page with new tables."""
    rows = "".join(f"|{rule.name}|{_list_some(rule.literals)}|\n" for rule in RULES)
    text = _replace(text, RULES_BEGIN, f"|key or token|recognised by|\n|-|-|\n{rows}", RULES_END)
    return _replace(text, COMPARISON_BEGIN, secret_scanners.table(), COMPARISON_END)


def _list_some(literals: tuple[str, ...]) -> str:
    """The first few texts, since some keys have a dozen of them."""
    texts = [f"`{literal.strip()}`" for literal in literals]
    return ", ".join(texts[:_MOST_LITERALS] if len(texts) <= _MOST_LITERALS else [*texts[:_MOST_LITERALS], "…"])


def _replace(text: str, begin: str, table: str, end: str) -> str:
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{table}\n{end}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
