"""The usage by agent and month, or by something else: one line for each, or JSON."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.bar import Bar
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from acp_proxy.tools.stats.usage import AgentUsage, GroupUsage, sum_agents, sum_groups
from acp_proxy.transcript.file_names import name_agent
from acp_proxy.views import formatting, sanitize


@dataclass(frozen=True, slots=True)
class UsageRow:
    """An amount with its tokens. ``name``: of what it is; ``key``, ``value``: the same for programs."""

    name: str
    key: str
    value: str
    usage: GroupUsage
    tokens: int | None


@dataclass(frozen=True, slots=True)
class UsageReport:
    """What ``acp-proxy stats`` shows. ``sections``: rows by agent, or without an agent (an empty name)."""

    sections: Mapping[str, Sequence[UsageRow]]
    total: UsageRow


def make_report(agents: Mapping[str, AgentUsage], by: str, home: str = "") -> UsageReport:
    """What to show of the usage. ``by``: month, day, project or agent. Months and days are newest first; others begin
    with the most turns."""
    total = UsageRow("all", "", "", *sum_agents(agents))
    if by == "month":
        return UsageReport({folder: _list_months(agent) for folder, agent in agents.items()}, total)
    if by == "agent":
        rows = [
            UsageRow(format_agent(folder), "agent", folder, agent.total, agent.count_tokens(agent.total))
            for folder, agent in agents.items()
        ]
    else:
        key = "day" if by == "day" else "cwd"
        rows = [
            UsageRow(_shorten_group(name, home), key, name, *amounts) for name, amounts in sum_groups(agents).items()
        ]
    rows.sort(key=lambda row: (row.value if by == "day" else "", row.usage.turns, row.usage.bytes), reverse=True)
    return UsageReport({"": rows}, total)


def format_lines(report: UsageReport, width: int) -> Iterator[str]:
    """Each row with a name for every figure, for a terminal that is too narrow for a table. A row that is longer than
    ``width`` goes on in the next line, indented."""
    for folder, rows in report.sections.items():
        for row in rows:
            name, month = (format_agent(folder), row.name) if folder else (row.name, "")
            yield from _wrap(_list_parts(name, month, row.usage, row.tokens), width)
    yield from _wrap(_list_parts("all", "", report.total.usage, report.total.tokens), width)


def format_tab_separated(report: UsageReport) -> Iterator[str]:
    """One line for each row, for programs: agent, then month, day or directory, sessions, turns, tokens, context, cost,
    bytes; what is not known is empty. The agent is empty where a row is of all agents."""
    for folder, rows in report.sections.items():
        for row in rows:
            agent = folder or (row.value if row.key == "agent" else "")
            group = row.value if row.key != "agent" else ""
            usage = row.usage
            numbers = (usage.sessions, usage.turns, row.tokens, usage.context)
            texts = ["" if number is None else str(number) for number in numbers]
            yield "\t".join(
                sanitize.make_line(text) for text in (agent, group, *texts, format_money(usage), str(usage.bytes))
            )


def encode_report(agents: Mapping[str, AgentUsage], by: str) -> dict[str, object]:
    """The usage as ``stats --json`` prints it (docs/json.md). ``by``: month, day, project or agent."""
    report = make_report(agents, by)
    total = {"total": _encode_values(report.total.usage, report.total.tokens)}
    if by == "month":
        encoded_agents = [
            _encode_agent(folder, agent.total, agent.count_tokens(agent.total))
            | {"months": [_encode_row(row) for row in _list_months(agent)]}
            for folder, agent in agents.items()
        ]
        return {"agents": encoded_agents, **total}
    rows = report.sections[""]
    if by == "agent":
        return {"agents": [_encode_agent(row.value, row.usage, row.tokens) for row in rows], **total}
    return {f"{by}s": [_encode_row(row) for row in rows], **total}


def _encode_agent(folder: str, usage: GroupUsage, tokens: int | None) -> dict[str, object]:
    return {"agent": folder, "agentName": name_agent(folder), "total": _encode_values(usage, tokens)}


def _encode_row(row: UsageRow) -> dict[str, object]:
    return {row.key: row.value or None, **_encode_values(row.usage, row.tokens)}


def _list_months(agent: AgentUsage) -> list[UsageRow]:
    months = sorted(agent.groups.items(), reverse=True)
    return [UsageRow(month, "month", month, usage, agent.count_tokens(usage)) for month, usage in months]


def _shorten_group(name: str, home: str) -> str:
    return sanitize.make_line(formatting.shorten_home(name, home)) or "(no directory)"


def _list_parts(name: str, month: str, usage: GroupUsage, tokens: int | None) -> list[str]:
    parts = [
        name,
        month,
        formatting.format_count(usage.sessions, "session"),
        formatting.format_count(usage.turns, "turn"),
    ]
    parts += [f"{_format_short(tokens)} token{'' if tokens == 1 else 's'}"] if tokens is not None else []
    parts += [f"{_format_short(usage.context)} context"] if usage.context is not None else []
    parts += [format_money(usage)] if usage.cost else []
    return [part for part in [*parts, formatting.format_size(usage.bytes)] if part]


def _wrap(parts: Sequence[str], width: int) -> Iterator[str]:
    """Lines of whole parts: half a number is another number."""
    line = parts[0]
    for part in parts[1:]:
        if cell_len(f"{line}  {part}") > width:
            yield line
            line = f"  {part}"
        else:
            line = f"{line}  {part}"
    yield line


def _encode_values(usage: GroupUsage, tokens: int | None) -> dict[str, object]:
    return {
        "sessions": usage.sessions,
        "turns": usage.turns,
        "tokens": tokens,
        "contextTokens": usage.context,
        "cost": {currency: round(amount, 6) for currency, amount in sorted(usage.cost.items())},
        "bytes": usage.bytes,
    }


def format_money(usage: GroupUsage) -> str:
    """The cost, in every currency."""
    return sanitize.make_line(formatting.format_amounts(usage.cost))


def format_agent(folder: str) -> str:
    """An agent's name for people."""
    return sanitize.make_line(name_agent(folder))


# --- The usage as a table with bars, for a terminal.


_WIDEST_BAR = 20
_BAR_HEADING = "turns"
"""The heading of the bars, and so their least width."""
_GAP = 2  # columns between the figures and the bars
_WIDEST_NAME = 24  # columns: leaves room for bars on a usual terminal
_MONTH_WIDTH = len("  2026-11")
_WIDEST_TABLE = 1000  # columns: wider than any table
_NO_FIGURE = "-"
_COLUMNS = ("sessions", "turns", "tokens", "context", "cost", "size")
_LESS_IMPORTANT_COLUMNS = ("context", "sessions", "size")
"""Those that a narrow terminal does not get, the least important first."""


def print_report(report: UsageReport, console: Console) -> None:
    """A table for people, with bars for the turns, and the total. Columns that do not fit are left out."""
    options = console.options.update_width(_WIDEST_TABLE)
    for count in range(len(_LESS_IMPORTANT_COLUMNS) + 1):
        names = [name for name in _COLUMNS if name not in _LESS_IMPORTANT_COLUMNS[:count]]
        free_columns = console.width - Measurement.get(console, options, _make_table(report, names)).minimum
        if free_columns >= 0:
            console.print(_make_table(report, names, bar_width=min(free_columns - _GAP, _WIDEST_BAR)))
            return
    for line in format_lines(report, console.width):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _make_table(report: UsageReport, names: Sequence[str], bar_width: int = 0) -> Table:
    """The table of ``print_report`` with these columns, without bars if there is no room for the shortest one."""
    rows = [row for section in report.sections.values() for row in section]
    figures = {
        id(row): [
            figure
            for name, figure in zip(_COLUMNS, _format_figures(row.usage, row.tokens), strict=True)
            if name in names
        ]
        for row in [*rows, report.total]
    }
    most_turns = max((row.usage.turns for row in rows), default=0)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("", min_width=_MONTH_WIDTH)  # the only column that shrinks
    for column, name in enumerate(names):
        width = max(cell_len(figures_of_row[column]) for figures_of_row in figures.values())
        table.add_column(name, justify="right", no_wrap=True, min_width=width)
    if has_bars := bar_width >= len(_BAR_HEADING):
        table.add_column(_BAR_HEADING, no_wrap=True)
    for folder, section in report.sections.items():
        if folder:
            table.add_row(Text(format_agent(folder), style="bold", no_wrap=True, overflow="ellipsis"))
        for row in section:
            bar = Bar(max(most_turns, 1), 0, row.usage.turns, width=bar_width, color="cyan")
            label = Text(f"  {row.name}" if folder else _shorten(row.name), no_wrap=True)
            table.add_row(label, *figures[id(row)], *([bar] if has_bars else []))
    table.add_row(Text("all", style="bold"), *figures[id(report.total)])
    return table


def _shorten(name: str) -> str:
    """A name that leaves room for the figures; a directory keeps its end."""
    if cell_len(name) <= _WIDEST_NAME:
        return name
    while cell_len(name) >= _WIDEST_NAME:
        name = name[1:]
    return f"…{name[max(name.find('/'), 0) :]}"


def _format_figures(usage: GroupUsage, tokens: int | None) -> list[str]:
    numbers = (usage.sessions, usage.turns, tokens, usage.context)
    return [
        *(_format_short(number) for number in numbers),
        format_money(usage) or _NO_FIGURE,
        formatting.format_size(usage.bytes),
    ]


def _format_short(number: int | None) -> str:
    return formatting.format_number(number) if number is not None else _NO_FIGURE
