"""The tokens of every kind as a table, or as JSON."""

from collections.abc import Iterator, Mapping

from acp_proxy.tools.stats.prices import Prices
from acp_proxy.tools.stats.tokens import By, TokenReport, TokenSpending
from acp_proxy.transcript.file_names import name_agent
from acp_proxy.views import formatting, sanitize
from acp_proxy.views.session_table import cut_directory

_HEADINGS = ("turns", "input", "output", "cache read", "cache write", "thought", "total", "cost")
_LESS_IMPORTANT_COLUMNS = ("thought", "cache write", "cache read", "turns", "output", "input")
"""Those that a narrow terminal does not get, the least important first."""
_LEAST_NAME = 16  # columns
_JSON_KEYS: Mapping[By, str] = {"agent": "agent", "model": "model", "project": "cwd", "day": "day", "month": "month"}
_UNKNOWN: Mapping[By, str] = {"model": "(not known)", "project": "(no directory)"}


def format_report(report: TokenReport, by: By, prices: Prices | None, home: str, screen_width: int) -> Iterator[str]:
    """A table without any markup, for people. Columns that do not fit are left out, and a directory keeps its end."""
    rows = [(_format_name(name, by, home), *_format_values(spent, prices)) for name, spent in report.rows.items()]
    table = [("", *_HEADINGS), *rows, ("all", *_format_values(report.total, prices))]
    name_width, *widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    columns = list(range(len(_HEADINGS)))
    for heading in _LESS_IMPORTANT_COLUMNS:
        if min(name_width, _LEAST_NAME) + sum(widths[column] + 2 for column in columns) > screen_width:
            columns.remove(_HEADINGS.index(heading))
    name_width = min(name_width, max(_LEAST_NAME, screen_width - sum(widths[column] + 2 for column in columns)))
    for name, *values in table:
        cells = [f"{values[column]:>{widths[column]}}" for column in columns]
        yield "  ".join([f"{cut_directory(name, name_width, '…'):<{name_width}}", *cells]).rstrip()


def format_tab_separated(report: TokenReport, prices: Prices | None) -> Iterator[str]:
    """One line for each row, for programs: agent, model, directory, day or month, then the figures of the table; what
    is not reported is empty."""
    for name, spent in report.rows.items():
        figures = (value.replace(",", "") if value != "-" else "" for value in _format_values(spent, prices))
        yield "\t".join((sanitize.make_line(name), *figures))


def encode_report(report: TokenReport, by: By, prices: Prices | None) -> dict[str, object]:
    """The report for ``--json``; docs/json.md describes it."""
    rows = [{_JSON_KEYS[by]: name or None, **_encode_spending(spent, prices)} for name, spent in report.rows.items()]
    encoded = {f"{by}s": rows, "total": _encode_spending(report.total, prices)}
    return encoded | ({"modelsWithoutPrice": [name or None for name in report.models_without_price]} if prices else {})


def _format_name(name: str, by: By, home: str) -> str:
    if by == "agent":
        return sanitize.make_line(name_agent(name))
    return sanitize.make_line(formatting.shorten_home(name, home) if by == "project" else name) or _UNKNOWN.get(by, "")


def _format_values(spent: TokenSpending, prices: Prices | None) -> tuple[str, ...]:
    counts = spent.tokens
    numbers = (counts.input, counts.output, counts.cached_read, counts.cached_write, counts.thought, counts.total)
    cost = dict(spent.cost)
    if prices is not None and spent.priced:
        cost[prices.currency] = cost.get(prices.currency, 0.0) + spent.priced
    money = sanitize.make_line(formatting.format_amounts(cost)) if cost else "-"
    # No turn takes none, so nothing was reported.
    return (f"{spent.turns:,}", *(f"{number:,}" if number else "-" for number in numbers), money)


def _encode_spending(spent: TokenSpending, prices: Prices | None) -> dict[str, object]:
    figures: dict[str, object] = {"turns": spent.turns, **spent.tokens.encode()}
    figures["cost"] = {currency: round(amount, 6) for currency, amount in sorted(spent.cost.items())}
    if prices is not None:
        figures |= {"priced": {prices.currency: round(spent.priced, 6)}, "unpricedTokens": spent.unpriced}
    return figures
