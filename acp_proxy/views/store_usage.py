"""The usage by agent and month, or by something else: one line for each, or JSON."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from acp_proxy.transcripts.archive import AgentUsed, Used, called, grouped, totals
from acp_proxy.views import figures, terminal


@dataclass(frozen=True, slots=True)
class UsageRow:
    """An amount with its tokens. ``name``: of what it is; ``key``, ``value``: the same for programs."""

    name: str
    key: str
    value: str
    used: Used
    tokens: int | None


@dataclass(frozen=True, slots=True)
class UsageReport:
    """What ``sessions stats`` shows. ``sections``: rows by agent, or without an agent (an empty name)."""

    sections: Mapping[str, Sequence[UsageRow]]
    total: UsageRow

    @property
    def used(self) -> dict[str, list[UsageRow]]:
        """The sections, without bytes that belong to no session, such as those of titles: the total has them."""
        kept = {
            name: [row for row in each if row.value or row.used.sessions or row.used.turns]
            for name, each in self.sections.items()
        }
        return {name: each for name, each in kept.items() if each}


def report(agents: Mapping[str, AgentUsed], by: str, home: str = "") -> UsageReport:
    """``by``: month, day, project or agent. Months and days are newest first; others begin with the most turns."""
    total = UsageRow("all", "", "", *totals(agents))
    if by == "month":
        return UsageReport({folder: _months(agent) for folder, agent in agents.items()}, total)
    if by == "agent":
        rows = [
            UsageRow(agent_name(folder), "agent", folder, agent.total, agent.tokens(agent.total))
            for folder, agent in agents.items()
        ]
    else:
        key = "day" if by == "day" else "cwd"
        rows = [UsageRow(_group(name, home), key, name, *amounts) for name, amounts in grouped(agents).items()]
    rows.sort(key=lambda row: (row.value if by == "day" else "", row.used.turns, row.used.bytes), reverse=True)
    return UsageReport({"": rows}, total)


def lines(shown: UsageReport) -> Iterator[str]:
    """One line for each row, with a name for every figure."""
    for folder, each in shown.used.items():
        for row in each:
            yield _line(agent_name(folder) if folder else row.name, row.name if folder else "", row.used, row.tokens)
    yield _line("all", "", shown.total.used, shown.total.tokens)


def for_programs(agents: Mapping[str, AgentUsed], by: str) -> dict[str, object]:
    shown = report(agents, by)
    total = {"total": _values(shown.total.used, shown.total.tokens)}
    if by == "month":
        each = [
            _of_agent(folder, agent.total, agent.tokens(agent.total))
            | {"months": [_row(row) for row in _months(agent)]}
            for folder, agent in agents.items()
        ]
        return {"agents": each, **total}
    rows = shown.sections[""]
    if by == "agent":
        return {"agents": [_of_agent(row.value, row.used, row.tokens) for row in rows], **total}
    return {f"{by}s": [_row(row) for row in rows], **total}


def _of_agent(folder: str, used: Used, tokens: int | None) -> dict[str, object]:
    return {"agent": folder, "agentName": called(folder), "total": _values(used, tokens)}


def _row(row: UsageRow) -> dict[str, object]:
    return {row.key: row.value or None, **_values(row.used, row.tokens)}


def _months(agent: AgentUsed) -> list[UsageRow]:
    found = sorted(agent.groups.items(), reverse=True)
    return [UsageRow(month, "month", month, used, agent.tokens(used)) for month, used in found]


def _group(name: str, home: str) -> str:
    return terminal.line(figures.from_home(name, home)) or "(no directory)"


def _line(name: str, month: str, used: Used, tokens: int | None) -> str:
    parts = [name, month, _counted(used.sessions, "session"), _counted(used.turns, "turn")]
    parts += [_counted(tokens, "token")] if tokens is not None else []
    parts += [f"{used.context} in context"] if used.context is not None else []
    parts += [money(used)] if used.cost else []
    return "  ".join(part for part in [*parts, figures.size(used.bytes)] if part)


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


def money(used: Used) -> str:
    """The cost, in every currency."""
    return terminal.line(figures.money(used.cost))


def agent_name(folder: str) -> str:
    """An agent's name for people."""
    return terminal.line(called(folder))
