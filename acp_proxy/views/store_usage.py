"""The usage by month: a table with bars on a terminal, else one line per month."""

from collections.abc import Iterator, Mapping

from rich.bar import Bar
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from acp_proxy.transcripts.archive import AgentUsed, Used, called, totals
from acp_proxy.views import figures, terminal

_WIDEST_BAR, _SHORTEST_BAR = 20, 4
_GAP = 2  # columns between the figures and the bars
_MONTH_WIDTH = len("  2026-11")
_WIDEST = 1000  # columns: wider than any table
_NOTHING = "-"
_COLUMNS = ("sessions", "turns", "tokens", "context", "cost", "size")


def printed(agents: Mapping[str, AgentUsed], console: Console) -> None:
    """A table for people: per agent its months, newest first, with bars of its turns; and the total."""
    room = console.width - Measurement.get(console, console.options.update_width(_WIDEST), _table(agents)).minimum
    if room >= 0:
        console.print(_table(agents, bar_width=min(room - _GAP, _WIDEST_BAR)))
        return
    for line in lines(agents):  # never cut: half a number is another number
        console.print(line, markup=False, highlight=False)


def _table(agents: Mapping[str, AgentUsed], bar_width: int = 0) -> Table:
    """Without bars if there is no room for the shortest one."""
    months = {
        folder: [(month, used, _figures(used, agent.tokens(used))) for month, used in _months(agent)]
        for folder, agent in agents.items()
    }
    most = max((used.turns for each in months.values() for _, used, _ in each), default=0)
    total = _figures(*totals(agents))
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("", min_width=_MONTH_WIDTH)  # the only column that shrinks
    rows = [total, *(row for each in months.values() for *_, row in each)]
    for at, name in enumerate(_COLUMNS):
        table.add_column(name, justify="right", no_wrap=True, min_width=max(cell_len(row[at]) for row in rows))
    for folder, each in months.items():
        table.add_row(Text(_name(folder), style="bold", no_wrap=True, overflow="ellipsis"))
        for month, used, row in each:
            bar = Bar(max(most, 1), 0, used.turns, width=bar_width, color="cyan")
            table.add_row(f"  {month}", *row, *([bar] if bar_width >= _SHORTEST_BAR else []))
    table.add_row(Text("all", style="bold"), *total)
    return table


def lines(agents: Mapping[str, AgentUsed]) -> Iterator[str]:
    """One line per month, with the agent and a name for every figure."""
    for folder, agent in agents.items():
        for month, used in _months(agent):
            yield _line(_name(folder), month, used, agent.tokens(used))
    total, tokens = totals(agents)
    yield _line("all", "", total, tokens)


def for_programs(agents: Mapping[str, AgentUsed]) -> dict[str, object]:
    total, tokens = totals(agents)
    return {
        "agents": [
            {
                "agent": folder,
                "agentName": called(folder),
                "months": [{"month": month, **_values(used, agent.tokens(used))} for month, used in _months(agent)],
                "total": _values(agent.total, agent.tokens(agent.total)),
            }
            for folder, agent in agents.items()
        ],
        "total": _values(total, tokens),
    }


def _months(agent: AgentUsed) -> list[tuple[str, Used]]:
    return sorted(agent.months.items(), reverse=True)


def _line(name: str, month: str, used: Used, tokens: int | None) -> str:
    parts = [name, month, _counted(used.sessions, "session"), _counted(used.turns, "turn")]
    parts += [_counted(tokens, "token")] if tokens is not None else []
    parts += [f"{used.context} in context"] if used.context is not None else []
    parts += [_money(used)] if used.cost else []
    return "  ".join(part for part in [*parts, figures.size(used.bytes)] if part)


def _figures(used: Used, tokens: int | None) -> list[str]:
    counted = (used.sessions, used.turns, tokens, used.context)
    return [*(_short(each) for each in counted), _money(used) or _NOTHING, figures.size(used.bytes)]


def _values(used: Used, tokens: int | None) -> dict[str, object]:
    return {
        "sessions": used.sessions,
        "turns": used.turns,
        "tokens": tokens,
        "contextTokens": used.context,
        "cost": {currency: round(amount, 6) for currency, amount in sorted(used.cost.items())},
        "bytes": used.bytes,
    }


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _short(number: int | None) -> str:
    if number is None:
        return _NOTHING
    if number < 10_000:
        return f"{number:,}"
    return f"{number / 1e3:.0f}k" if number < 1_000_000 else f"{number / 1e6:,.1f}M"


def _money(used: Used) -> str:
    return terminal.line(figures.money(used.cost))


def _name(folder: str) -> str:
    return terminal.line(called(folder))
