"""The usage as a table with bars, for a terminal."""

from rich.bar import Bar
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from acp_proxy.transcripts.archive import Used
from acp_proxy.views import figures
from acp_proxy.views.store_usage import UsageReport, agent_name, lines, money

_WIDEST_BAR, _SHORTEST_BAR = 20, 4
_GAP = 2  # columns between the figures and the bars
_WIDEST_NAME = 24  # columns: leaves room for bars on a usual terminal
_MONTH_WIDTH = len("  2026-11")
_WIDEST = 1000  # columns: wider than any table
_NOTHING = "-"
_COLUMNS = ("sessions", "turns", "tokens", "context", "cost", "size")


def printed(shown: UsageReport, console: Console) -> None:
    """A table for people, with bars for the turns, and the total."""
    room = console.width - Measurement.get(console, console.options.update_width(_WIDEST), _table(shown)).minimum
    if room >= 0:
        console.print(_table(shown, bar_width=min(room - _GAP, _WIDEST_BAR)))
        return
    for line in lines(shown):  # never cut: half a number is another number
        console.print(line, markup=False, highlight=False)


def _table(shown: UsageReport, bar_width: int = 0) -> Table:
    """Without bars if there is no room for the shortest one."""
    rows = [row for each in shown.used.values() for row in each]
    told = {id(row): _figures(row.used, row.tokens) for row in [*rows, shown.total]}
    most = max((row.used.turns for row in rows), default=0)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("", min_width=_MONTH_WIDTH)  # the only column that shrinks
    for at, name in enumerate(_COLUMNS):
        wide = max(cell_len(each[at]) for each in told.values())
        table.add_column(name, justify="right", no_wrap=True, min_width=wide)
    for folder, each in shown.used.items():
        if folder:
            table.add_row(Text(agent_name(folder), style="bold", no_wrap=True, overflow="ellipsis"))
        for row in each:
            bar = Bar(max(most, 1), 0, row.used.turns, width=bar_width, color="cyan")
            label = Text(f"  {row.name}" if folder else _shortened(row.name), no_wrap=True)
            table.add_row(label, *told[id(row)], *([bar] if bar_width >= _SHORTEST_BAR else []))
    table.add_row(Text("all", style="bold"), *told[id(shown.total)])
    return table


def _shortened(name: str) -> str:
    """A name that leaves room for the figures; a directory keeps its end."""
    if cell_len(name) <= _WIDEST_NAME:
        return name
    while cell_len(name) >= _WIDEST_NAME:
        name = name[1:]
    return f"…{name[max(name.find('/'), 0) :]}"


def _figures(used: Used, tokens: int | None) -> list[str]:
    counted = (used.sessions, used.turns, tokens, used.context)
    return [*(_short(each) for each in counted), money(used) or _NOTHING, figures.size(used.bytes)]


def _short(number: int | None) -> str:
    if number is None:
        return _NOTHING
    if number < 10_000:
        return f"{number:,}"
    return f"{number / 1e3:.0f}k" if number < 1_000_000 else f"{number / 1e6:,.1f}M"
