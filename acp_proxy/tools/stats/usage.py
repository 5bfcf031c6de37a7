"""What sessions used, by agent and month, day or project: turns, tokens, cost, bytes.

Sums up what the index knows of each session (``usage``); only a transcript that is not in the index is read. Months
and days are those of the machine's time zone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, Literal

from msgspec.structs import replace

from acp_proxy.cli.session_filter import ALL, SessionFilter
from acp_proxy.errors import NewerFormat
from acp_proxy.store.index import Index, ListedSession, check_values, parse_json
from acp_proxy.store.layout import Layout
from acp_proxy.store.sessions import Sessions
from acp_proxy.store.soft_deleted import summarize
from acp_proxy.transcript.private_files import explain_unreadable
from acp_proxy.transcript.reader import Reading
from acp_proxy.transcript.usage import find_quarter as find_quarter

By = Literal["month", "day", "project"]
UseState = Mapping[str, Any]
"""``Use.dump_state``: with 100,000 sessions, making a ``Use`` of each would take seconds."""
Grouping = Callable[[UseState, str], str]
"""The group of a quarter of an hour of a session's use."""
_KNOWN = "SELECT name, used, json_extract(info, '$.size') FROM transcripts WHERE agent = ?"
_FORMS = {"month": "%Y-%m", "day": "%Y-%m-%d"}


@dataclass(slots=True)
class Used:
    """An amount of use.

    ``turn_tokens``, ``session_tokens``: the tokens in answers to prompts, read as of the turn and as of the session;
    None: there are none.
    ``context``: tokens added to contexts; None: not reported. ``cost``: by currency. ``bytes``: of the files.
    """

    sessions: int = 0
    turns: int = 0
    turn_tokens: int | None = None
    session_tokens: int | None = None
    context: int | None = None
    cost: dict[str, float] = field(default_factory=dict)
    bytes: int = 0

    def add(self, other: "Used") -> None:
        """Add another amount to this one."""
        self.sessions += other.sessions
        self.turns += other.turns
        self.turn_tokens = _add(self.turn_tokens, other.turn_tokens)
        self.session_tokens = _add(self.session_tokens, other.session_tokens)
        self.context = _add(self.context, other.context)
        for currency, amount in other.cost.items():
            self.cost[currency] = self.cost.get(currency, 0.0) + amount
        self.bytes += other.bytes


@dataclass(slots=True)
class AgentUsed:
    """One agent's use.

    ``groups``: by month, such as ``2026-11``, or by day or project. ``is_per_turn``: the usage in the agent's answers
    is of the turn alone. ``unprompted``: sessions without a prompt of their own, which count only by their bytes.
    """

    groups: dict[str, Used] = field(default_factory=dict)
    sessions: int = 0
    is_per_turn: bool = False
    unprompted: int = 0

    def add(self, use: UseState, size: int, group: Grouping) -> None:
        """Add a session with files of ``size`` bytes. A file that is no session's, such as that of titles, is none."""
        if not use["last"]:
            return
        spent = [(group(use, quarter), amounts) for quarter, amounts in use["quarters"].items()]
        prompted = {name for name, amounts in spent if amounts[0]}
        if prompted:
            self.sessions += 1
            self.is_per_turn |= use["is_per_turn"]
            for name, (turns, turn_tokens, session_tokens, context, cost) in spent:
                used = self._find_group(name)
                used.turns += turns
                if turn_tokens is not None:
                    used.turn_tokens = (used.turn_tokens or 0) + turn_tokens
                    used.session_tokens = (used.session_tokens or 0) + session_tokens
                if context is not None:
                    used.context = (used.context or 0) + context
                if cost is not None:
                    for currency, amount in cost.items():
                        used.cost[currency] = used.cost.get(currency, 0.0) + amount
        else:
            self.unprompted += 1
        for name in prompted:
            self.groups[name].sessions += 1
        self._find_group(group(use, use["last"])).bytes += size

    @property
    def total(self) -> Used:
        """A session that continued in another month or on another day counts in both, but once in the total."""
        total = Used()
        for used in self.groups.values():
            total.add(used)
        total.sessions = self.sessions
        return total

    def count_tokens(self, used: Used) -> int | None:
        """The tokens of one of its amounts, in the way the agent counts them; None: not reported."""
        return used.turn_tokens if self.is_per_turn else used.session_tokens

    def _find_group(self, name: str) -> Used:
        used = self.groups.get(name)
        if used is None:
            used = self.groups[name] = Used()
        return used


def measure_usage(
    store: Sessions, wanted: SessionFilter = ALL, by: By = "month"
) -> tuple[dict[str, AgentUsed], list[str]]:
    """What the wanted sessions used, by agent, and a line of text for each transcript that could not be read.

    Of a session, only the quarters of an hour that the filter's times leave count. Raises OSError, Unreadable.
    """
    layout, agents = store.layout, store.list_agents(wanted.agent)
    is_whole = wanted.cwd is None and not wanted.branch
    chosen = (
        set() if is_whole else {(row.agent, row.name) for row in replace(wanted, since="", until="").list_newest(store)}
    )
    first = find_quarter(wanted.since) if wanted.since else ""

    def narrow(use: UseState) -> UseState | None:
        """What the times leave of a session's use; None: nothing."""
        if not first and not wanted.until:
            return use
        left = {
            at: spent
            for at, spent in use["quarters"].items()
            if first <= at and (not wanted.until or at < wanted.until)
        }
        return {**use, "quarters": left, "last": max(left)} if left else None

    group: Grouping = _choose_project if by == "project" else _group_by_time(by)

    def sum_up(index: Index) -> tuple[dict[str, AgentUsed], list[str]]:
        found: dict[str, AgentUsed] = {}
        failed = []
        for agent in agents:
            plain = set[str]()
            sizes = layout.measure_sizes(agent, plain)
            used = AgentUsed()
            with check_values():
                for name, state, size in index.iterate(_KNOWN, (agent,)):
                    size = sizes.pop(name, 0) + (size if name in plain else 0)
                    plain.discard(name)
                    if (is_whole or (agent, name) in chosen) and (use := narrow(parse_json(state))) is not None:
                        used.add(use, size, group)
            for name in plain | sizes.keys():
                if (is_whole or (agent, name) in chosen) and layout.has_transcript(agent, name):
                    try:
                        whole, size = _read_usage(layout, agent, name)
                        if (use := narrow(whole)) is not None:
                            used.add(use, sizes.get(name, 0) + (size if name in plain else 0), group)
                    except (OSError, NewerFormat) as problem:
                        path, why, what_to_do = explain_unreadable(layout.transcript_path(agent, name), problem)
                        failed.append(f"{path}: {why}. {what_to_do}")
            if used.groups:
                found[agent] = used
        return found, failed

    return store.index.query(sum_up, *agents)


def measure_session(store: Sessions, listed: ListedSession) -> AgentUsed:
    """What a session used, without its bytes. Raises Unreadable."""

    def read_use(index: Index) -> AgentUsed:
        used = AgentUsed()
        for (state,) in index.select(
            "SELECT used FROM transcripts WHERE agent = ? AND name = ?", (listed.agent, listed.name)
        ):
            with check_values():
                used.add(parse_json(state), 0, _choose_project)
        return used

    return store.index.query(read_use)


def _read_usage(layout: Layout, agent: str, name: str) -> tuple[UseState, int]:
    """The use of a transcript, and its size."""
    reading = Reading(layout.transcript_path(agent, name))
    try:
        return summarize(reading).use.dump_state(), reading.size
    finally:
        reading.close()


def _choose_project(use: UseState, quarter: str) -> str:
    return str(use["project"])


def _group_by_time(by: Literal["month", "day"]) -> Grouping:
    form = _FORMS[by]

    @cache
    def format_local(quarter: str) -> str:
        try:
            return datetime.fromisoformat(f"{quarter}+00:00").astimezone().strftime(form)
        except (ValueError, OverflowError):  # a damaged transcript
            return quarter[: len("2026-11-20" if by == "day" else "2026-11")]

    return lambda use, quarter: format_local(quarter)


def _add(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else one + other


def sum_agents(agents: Mapping[str, AgentUsed]) -> tuple[Used, int | None]:
    """The sum of all agents, and their tokens."""
    total, tokens = Used(), None
    for agent in agents.values():
        total.add(agent.total)
        tokens = _add(tokens, agent.count_tokens(agent.total))
    return total, tokens


def explain_unprompted(agents: Mapping[str, AgentUsed]) -> str:
    """Why there are fewer sessions than in the list; empty if there are not."""
    count = sum(agent.unprompted for agent in agents.values())
    what = "1 session without a prompt of its own" if count == 1 else f"{count} sessions without a prompt of their own"
    return f"Counted only in size: {what} (copies, adopted ones, subagents)." if count else ""


def sum_groups(agents: Mapping[str, AgentUsed]) -> dict[str, tuple[Used, int | None]]:
    """The groups of all agents together: each group's sum and its tokens."""
    found: dict[str, tuple[Used, int | None]] = {}
    for agent in agents.values():
        for name, used in agent.groups.items():
            total, tokens = found.get(name, (Used(), None))
            total.add(used)
            found[name] = total, _add(tokens, agent.count_tokens(used))
    return found
