"""Writes the table in docs/redaction.md from the rules: `make docs`."""

from pathlib import Path

from acp_proxy.redaction.secret_rules import RULES

PAGE = Path(__file__).parent.parent / "docs" / "redaction.md"
BEGIN, END = "<!-- rules: made by `make docs` -->\n", "<!-- end of the rules -->\n"


def page(text: str) -> str:
    """The page with a new table."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    rows = (f"|{rule.name}|{', '.join(f'`{literal.strip()}`' for literal in rule.literals)}|\n" for rule in RULES)
    return f"{before}{BEGIN}\n|key|recognised by|\n|-|-|\n{''.join(rows)}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
