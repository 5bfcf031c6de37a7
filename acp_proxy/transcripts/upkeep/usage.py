"""What sessions used, by agent and month, day or project: turns, tokens, cost, bytes.

Each transcript is read once, and only lines that may contain usage are parsed.

Agents report a gauge (``used``: tokens in the context now) and a counter (``cost``: of the session so far). A month
gets what they grew by during it; for the gauge, growth beyond its highest value so far. The ``usage`` in answers to
prompts comes from a draft of the protocol that agents read in two ways: as of the turn, or as of the session. An agent
whose numbers fall, or do not grow over a completed turn, means the turn.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from acp_proxy.errors import NewerFormat, errno_name
from acp_proxy.titles import cleaned
from acp_proxy.transcripts.files.layout import Layout
from acp_proxy.transcripts.files.reading import Reading
from acp_proxy.wire import acp, record
from acp_proxy.wire.jsonrpc import Peer
from acp_proxy.wire.record import Entry

By = Literal["month", "day", "project"]
_MONTH, _DAY = len("2026-11"), len("2026-11-20")
_CURRENCY_LENGTH = 12  # an ISO code, or a word such as credits
_COUNTED = ("inputTokens", "outputTokens", "totalTokens")


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
        self.turn_tokens = _sum(self.turn_tokens, other.turn_tokens)
        self.session_tokens = _sum(self.session_tokens, other.session_tokens)
        self.context = _sum(self.context, other.context)
        for currency, amount in other.cost.items():
            self.cost[currency] = self.cost.get(currency, 0.0) + amount
        self.bytes += other.bytes


@dataclass(slots=True)
class AgentUsed:
    """One agent's use.

    ``groups``: by month, such as ``2026-11``, or by day or project. ``is_per_turn``: the usage in the agent's answers
    is of the turn alone.
    """

    groups: dict[str, Used] = field(default_factory=dict)
    total: Used = field(default_factory=Used)
    is_per_turn: bool = False

    def add(self, session: "SessionUsed") -> None:
        """Add a session."""
        for name, used in session.groups.items():
            self.groups.setdefault(name, Used()).add(used)
            self.total.add(used)
        # A session that continued in another month or on another day counts in both, but once in the total.
        self.total.sessions += session.is_prompted - sum(used.sessions for used in session.groups.values())
        self.is_per_turn |= session.is_per_turn

    def tokens(self, used: Used) -> int | None:
        """The tokens of one of its amounts, in the way the agent counts them; None: not reported."""
        return used.turn_tokens if self.is_per_turn else used.session_tokens


class SessionUsed:
    """Adds up a session's use by month, day or project, from its entries.

    ``is_prompted``: it has a turn of its own. ``last``: when it was last prompted.
    """

    def __init__(self, since: str, by: By = "month", project: str = "") -> None:
        """``since``: when it was created; earlier entries were copied from the session that it is a fork of.

        ``project``: its directory, the only group of ``by`` project.
        """
        self.groups: dict[str, Used] = {}
        self.is_prompted = False
        self.is_per_turn = False
        self.last = since
        self._since = since
        self._by = by
        self._project = project
        self._highest = 0
        self._cost: dict[str, float] = {}
        self._run: str | None = None
        self._told: dict[str, int] = {}

    def add(self, entry: Entry) -> None:
        """Add the next entry."""
        if entry.peer is Peer.CLIENT and acp.text(entry.value, "method") == acp.PROMPT:
            self._prompted(entry)
        elif entry.peer is Peer.AGENT and entry.of == acp.PROMPT:
            self._answered(entry, acp.member(entry.value, "result"))
        elif entry.peer is Peer.AGENT and acp.text(entry.value, "method") == acp.UPDATE:
            update = acp.member(acp.member(entry.value, "params"), "update")
            if acp.update_kind(update) == acp.USAGE:
                self._updated(entry, update)
            elif acp.update_kind(update) == acp.STATE:  # the end of a turn in version 2
                self._answered(entry, update)

    def take(self, size: int) -> None:
        """Add the bytes of its files to the month of its last prompt."""
        self._month(self.last).bytes += size

    def _month(self, at: str) -> Used:
        group = self._project if self._by == "project" else at[: _DAY if self._by == "day" else _MONTH]
        return self.groups.setdefault(group, Used())

    def _counts(self, entry: Entry) -> bool:
        return entry.at >= self._since

    def _prompted(self, entry: Entry) -> None:
        if self._counts(entry):
            self.is_prompted, self.last = True, entry.at
            month = self._month(entry.at)
            month.turns += 1
            month.sessions = 1

    def _updated(self, entry: Entry, update: object) -> None:
        used, cost = _number(update, "used"), acp.member(update, "cost")
        if used is not None:
            grown, self._highest = max(0, used - self._highest), max(used, self._highest)
            if self._counts(entry):
                month = self._month(entry.at)
                month.context = _sum(month.context, grown)
        amount, currency = acp.member(cost, "amount"), cleaned(acp.member(cost, "currency"), _CURRENCY_LENGTH)
        if currency is not None and isinstance(amount, int | float) and not isinstance(amount, bool):
            self._spent(entry, currency, float(amount))

    def _spent(self, entry: Entry, currency: str, amount: float) -> None:
        if not math.isfinite(amount) or amount < 0:
            return
        before = self._cost.get(currency, 0.0)
        grown = amount - before if amount >= before else amount  # the agent's counter has restarted
        self._cost[currency] = amount
        if grown and self._counts(entry):
            month = self._month(entry.at)
            month.cost[currency] = month.cost.get(currency, 0.0) + grown

    def _answered(self, entry: Entry, result: object) -> None:
        usage = acp.member(result, "usage")
        told = {key: count for key in _COUNTED if (count := _number(usage, key)) is not None}
        if "totalTokens" not in told:
            return
        total, before = told["totalTokens"], self._told.get("totalTokens", 0)
        if entry.run == self._run:
            falls = any(count < self._told.get(key, 0) for key, count in told.items())
            stands = total == before and total > 0 and acp.text(result, "stopReason") == "end_turn"
            self.is_per_turn |= falls or stands
        self._run, self._told = entry.run, told
        if self._counts(entry):
            month = self._month(entry.at)
            month.turn_tokens = _sum(month.turn_tokens, total)
            month.session_tokens = _sum(month.session_tokens, total - before if total >= before else total)


def read(reading: Reading, by: By = "month") -> SessionUsed:
    """The use of one transcript. Raises OSError."""
    header = reading.header or reading.remade_header()
    used = SessionUsed(header.created_at, by, header.cwd or "") if header is not None else SessionUsed("", by)
    version = header.version if header is not None else record.VERSION
    for _, _, line in reading.raw_lines():
        if b"prompt" in line or b"usage" in line:
            for piece in record.entries_in(line, version):
                used.add(piece.value)
    return used


def of_all(
    layout: Layout, transcripts: Iterable[tuple[str, str]], by: By = "month"
) -> tuple[dict[str, AgentUsed], list[str]]:
    """The use of these transcripts (agent, name) by agent, and a text for each that could not be read.

    A session that was never prompted counts only by its bytes.
    """
    agents: dict[str, AgentUsed] = {}
    sizes: dict[str, dict[str, int]] = {}
    failed = []
    for agent, name in transcripts:
        if agent not in sizes:
            sizes[agent] = layout.sizes(agent)
        try:
            reading = Reading(layout.transcript(agent, name))
            try:
                used = read(reading, by)
            finally:
                reading.close()
        except FileNotFoundError:  # deleted in the meantime
            continue
        except (OSError, NewerFormat) as problem:
            failed.append(f"{agent}/{name}: {errno_name(problem)}")
            continue
        if not used.is_prompted:
            used.groups.clear()
        used.take(sizes[agent].get(name, 0))
        agents.setdefault(agent, AgentUsed()).add(used)
    return agents, failed


def _number(value: object, key: str) -> int | None:
    found = acp.member(value, key)
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found) or found < 0:
        return None
    return int(found)


def _sum(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else one + other


def totals(agents: Mapping[str, AgentUsed]) -> tuple[Used, int | None]:
    """The sum of all agents, and their tokens."""
    total, tokens = Used(), None
    for agent in agents.values():
        total.add(agent.total)
        tokens = _sum(tokens, agent.tokens(agent.total))
    return total, tokens


def grouped(agents: Mapping[str, AgentUsed]) -> dict[str, tuple[Used, int | None]]:
    """The groups of all agents together: each group's sum and its tokens."""
    found: dict[str, tuple[Used, int | None]] = {}
    for agent in agents.values():
        for name, used in agent.groups.items():
            total, tokens = found.get(name, (Used(), None))
            total.add(used)
            found[name] = total, _sum(tokens, agent.tokens(used))
    return found
