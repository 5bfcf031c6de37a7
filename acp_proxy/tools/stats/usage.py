"""What sessions used, by agent and month, day or project: turns, tokens, cost, bytes.

Sums up what the index knows of each session (``usage``); only a transcript that is not in the index is read. Months
and days are those of the machine's time zone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, Literal

from msgspec import to_builtins
from msgspec.structs import replace

from acp_proxy.cli.session_filter import ALL, SessionFilter
from acp_proxy.errors import NewerFormat
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.sessions.disk_use import measure_sizes
from acp_proxy.sessions.soft_deleted import summarize
from acp_proxy.sessions.unreadable import format_unreadable
from acp_proxy.store.index_database import Index, ListedSession, check_values, parse_json
from acp_proxy.store.layout import Layout
from acp_proxy.transcript.reader import TranscriptReader
from acp_proxy.transcript.usage import Usage, add_known, find_quarter

By = Literal["month", "day", "project"]
UsageState = Mapping[str, Any]
"""A ``SessionUsage`` as JSON values: with 100,000 sessions, making a ``SessionUsage`` of each would take seconds."""
Grouping = Callable[[UsageState, str], str]
"""The group of a quarter of an hour of a session."""
_INDEXED_USAGE = "SELECT name, usage, json_extract(info, '$.size') FROM transcripts WHERE agent = ?"
_FORMS = {"month": "%Y-%m", "day": "%Y-%m-%d"}


class GroupUsage(Usage):
    """The usage of several sessions. ``bytes``: of their files."""

    sessions: int = 0
    bytes: int = 0

    def add_group(self, other: "GroupUsage") -> None:
        """Add another group to this one."""
        self.add(other)
        self.sessions += other.sessions
        self.bytes += other.bytes


@dataclass(slots=True)
class AgentUsage:
    """One agent's usage.

    ``groups``: by month, such as ``2026-11``, or by day or project. ``is_per_turn``: the usage in the agent's answers
    is of the turn alone. ``unprompted``: sessions without a prompt of their own, which count only by their bytes.
    """

    groups: dict[str, GroupUsage] = field(default_factory=dict)
    sessions: int = 0
    is_per_turn: bool = False
    unprompted: int = 0

    def add(self, session: UsageState, size: int, choose_group: Grouping) -> None:
        """Add a session with files of ``size`` bytes. A file that is no session's, such as that of titles, is none."""
        if not session["last"]:
            return
        quarters = [
            (choose_group(session, quarter_start), Usage(*values))
            for quarter_start, values in session["quarters"].items()
        ]
        prompted_groups = {name for name, quarter in quarters if quarter.turns}
        if prompted_groups:
            self.sessions += 1
            self.is_per_turn |= session["is_per_turn"]
            for name, quarter in quarters:
                self._find_group(name).add(quarter)
        else:
            self.unprompted += 1
        for name in prompted_groups:
            self.groups[name].sessions += 1
        self._find_group(choose_group(session, session["last"])).bytes += size

    @property
    def total(self) -> GroupUsage:
        """The sum of the groups. A session that continued in another month or on another day counts in both, but once
        here."""
        total = GroupUsage()
        for group in self.groups.values():
            total.add_group(group)
        total.sessions = self.sessions
        return total

    def count_tokens(self, usage: Usage) -> int | None:
        """The tokens in a part of its usage, in the way the agent counts them; None: not reported."""
        return usage.turn_tokens if self.is_per_turn else usage.session_tokens

    def _find_group(self, name: str) -> GroupUsage:
        group = self.groups.get(name)
        if group is None:
            group = self.groups[name] = GroupUsage()
        return group


def measure_usage(
    store: CommandStore, session_filter: SessionFilter = ALL, by: By = "month"
) -> tuple[dict[str, AgentUsage], list[str]]:
    """What the wanted sessions used, by agent, and a line of text for each transcript that could not be read.

    Of a session, only the quarters of an hour that the filter's times leave count. Raises OSError, Unreadable.
    """
    layout, agents = store.layout, store.list_agents(session_filter.agent)
    is_whole = session_filter.cwd is None and not session_filter.branch
    chosen_keys = (
        set()
        if is_whole
        else {(row.agent_folder, row.name) for row in replace(session_filter, since="", until="").list_newest(store)}
    )
    first_quarter = find_quarter(session_filter.since) if session_filter.since else ""

    def narrow(session: UsageState) -> UsageState | None:
        """What the times leave of a session's usage; None: nothing."""
        if not first_quarter and not session_filter.until:
            return session
        remaining = {
            at: values
            for at, values in session["quarters"].items()
            if first_quarter <= at and (not session_filter.until or at < session_filter.until)
        }
        return {**session, "quarters": remaining, "last": max(remaining)} if remaining else None

    choose_group: Grouping = _choose_project if by == "project" else _group_by_time(by)

    def sum_up(index: Index) -> tuple[dict[str, AgentUsage], list[str]]:
        usage_by_agent: dict[str, AgentUsage] = {}
        failures = []
        for agent_folder in agents:
            plain_names = set[str]()
            sizes = measure_sizes(layout, agent_folder, plain_names)
            agent_usage = AgentUsage()
            with check_values():
                for name, state, size in index.iterate(_INDEXED_USAGE, (agent_folder,)):
                    size = sizes.pop(name, 0) + (size if name in plain_names else 0)
                    plain_names.discard(name)
                    if (is_whole or (agent_folder, name) in chosen_keys) and (
                        usage := narrow(parse_json(state))
                    ) is not None:
                        agent_usage.add(usage, size, choose_group)
            for name in plain_names | sizes.keys():
                if (is_whole or (agent_folder, name) in chosen_keys) and layout.has_transcript(agent_folder, name):
                    try:
                        session_usage, size = _read_usage(layout, agent_folder, name)
                        if (usage := narrow(session_usage)) is not None:
                            agent_usage.add(
                                usage, sizes.get(name, 0) + (size if name in plain_names else 0), choose_group
                            )
                    except (OSError, NewerFormat) as problem:
                        failures.append(format_unreadable(layout.transcript_path(agent_folder, name), problem))
            if agent_usage.groups:
                usage_by_agent[agent_folder] = agent_usage
        return usage_by_agent, failures

    return store.store_index.query(sum_up, *agents)


def measure_session(store: CommandStore, listed: ListedSession) -> AgentUsage:
    """What a session used, without its bytes. Raises Unreadable."""

    def read_usage(index: Index) -> AgentUsage:
        usage = AgentUsage()
        for (state,) in index.select(
            "SELECT usage FROM transcripts WHERE agent = ? AND name = ?", (listed.agent_folder, listed.name)
        ):
            with check_values():
                usage.add(parse_json(state), 0, _choose_project)
        return usage

    return store.store_index.query(read_usage)


def _read_usage(layout: Layout, agent_folder: str, name: str) -> tuple[UsageState, int]:
    """The usage of a transcript, and its size in bytes."""
    reader = TranscriptReader(layout.transcript_path(agent_folder, name))
    try:
        return to_builtins(summarize(reader).usage), reader.size
    finally:
        reader.close()


def _choose_project(session: UsageState, quarter: str) -> str:
    return str(session["project"])


def _group_by_time(by: Literal["month", "day"]) -> Grouping:
    form = _FORMS[by]

    @cache
    def format_local(quarter: str) -> str:
        try:
            return datetime.fromisoformat(f"{quarter}+00:00").astimezone().strftime(form)
        except (ValueError, OverflowError, OSError):  # a damaged transcript
            return quarter[: len("2026-11-20" if by == "day" else "2026-11")]

    return lambda session, quarter: format_local(quarter)


def sum_agents(agents: Mapping[str, AgentUsage]) -> tuple[GroupUsage, int | None]:
    """The sum of all agents, and their tokens."""
    total, tokens = GroupUsage(), None
    for agent in agents.values():
        total.add_group(agent.total)
        tokens = add_known(tokens, agent.count_tokens(agent.total))
    return total, tokens


def explain_unprompted(agents: Mapping[str, AgentUsage]) -> str:
    """Why there are fewer sessions than in the list; empty if there are not."""
    count = sum(agent.unprompted for agent in agents.values())
    sessions = (
        "1 session without a prompt of its own" if count == 1 else f"{count} sessions without a prompt of their own"
    )
    return f"Counted only in size: {sessions} (copies, adopted ones, subagents)." if count else ""


def sum_groups(agents: Mapping[str, AgentUsage]) -> dict[str, tuple[GroupUsage, int | None]]:
    """The groups of all agents together: each group's sum and its tokens."""
    sums: dict[str, tuple[GroupUsage, int | None]] = {}
    for agent in agents.values():
        for name, group in agent.groups.items():
            total, tokens = sums.get(name, (GroupUsage(), None))
            total.add_group(group)
            sums[name] = total, add_known(tokens, agent.count_tokens(group))
    return sums
