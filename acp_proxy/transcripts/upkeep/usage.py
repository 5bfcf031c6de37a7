"""What sessions have used, by agent and month: turns, tokens, cost, bytes.

Each transcript is read once; only lines that may say something of it are parsed. Pure but for that. What agents report
is a gauge (``used``: tokens in the context now) or a counter (``cost``: of the whole session so far), so what counts
for a month is by how much it grew there: of the gauge, its highest value so far. The ``usage`` in answers to prompts is
a draft whose text can be read as of the turn or as of the session, and agents do both: which one an agent means is told
by whether it ever falls.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from acp_proxy.errors import NewerFormat, errno_name
from acp_proxy.titles import cleaned
from acp_proxy.transcripts.files.layout import Layout
from acp_proxy.transcripts.files.reading import Reading
from acp_proxy.wire import acp, record
from acp_proxy.wire.jsonrpc import Peer
from acp_proxy.wire.record import Entry

_MONTH = len("2026-11")
_CURRENCY_LENGTH = 12  # an ISO code, or a word such as credits
_COUNTED = ("inputTokens", "outputTokens", "totalTokens")


@dataclass(slots=True)
class Used:
    """``turn_tokens`` and ``session_tokens``: what the answers to prompts say, read either way; None: they say nothing.

    ``context``: tokens that came into contexts. ``cost``: by currency. ``bytes``: of the files.
    """

    sessions: int = 0
    turns: int = 0
    turn_tokens: int | None = None
    session_tokens: int | None = None
    context: int | None = None
    cost: dict[str, float] = field(default_factory=dict)
    bytes: int = 0

    def add(self, other: "Used") -> None:
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
    """``months``: by name, as 2026-11. ``is_per_turn``: the agent's answers speak of the turn alone."""

    months: dict[str, Used] = field(default_factory=dict)
    total: Used = field(default_factory=Used)
    is_per_turn: bool = False

    def add(self, session: "SessionUsed") -> None:
        for name, used in session.months.items():
            self.months.setdefault(name, Used()).add(used)
            self.total.add(used)
        # A session that went on in another month counts in both, and once in all.
        self.total.sessions += session.is_prompted - sum(used.sessions for used in session.months.values())
        self.is_per_turn |= session.is_per_turn

    def tokens(self, used: Used) -> int | None:
        return used.turn_tokens if self.is_per_turn else used.session_tokens


class SessionUsed:
    """One session's entries in; what it used in each month out."""

    def __init__(self, since: str) -> None:
        """``since``: entries from before that were copied from the session that it is a fork of."""
        self.months: dict[str, Used] = {}
        self.is_prompted = False
        self.is_per_turn = False
        self.last = since
        self._since = since
        self._highest = 0
        self._cost: dict[str, float] = {}
        self._run: str | None = None
        self._told: dict[str, int] = {}

    def add(self, entry: Entry) -> None:
        if entry.peer is Peer.CLIENT and acp.text(entry.value, "method") == acp.PROMPT:
            self._prompted(entry)
        elif entry.peer is Peer.AGENT and entry.of == acp.PROMPT:
            self._answered(entry, acp.member(entry.value, "result"))
        elif entry.peer is Peer.AGENT and acp.text(entry.value, "method") == acp.UPDATE:
            update = acp.member(acp.member(entry.value, "params"), "update")
            if acp.update_kind(update) == acp.USAGE:
                self._updated(entry, update)

    def take(self, size: int) -> None:
        """The bytes of its files: where it was prompted last."""
        self._month(self.last).bytes += size

    def _month(self, at: str) -> Used:
        return self.months.setdefault(at[:_MONTH], Used())

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
        grown = amount - before if amount >= before else amount  # the agent has begun to count anew
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


def read(reading: Reading) -> SessionUsed:
    """What one transcript says. Raises OSError."""
    header = reading.header or reading.remade_header()
    used = SessionUsed(header.created_at if header is not None else "")
    version = header.version if header is not None else record.VERSION
    for _, _, line in reading.raw_lines():
        if b"prompt" in line or b"usage" in line:
            for piece in record.entries_in(line, version):
                used.add(piece.value)
    return used


def of_all(layout: Layout, transcripts: Iterable[tuple[str, str]]) -> tuple[dict[str, AgentUsed], list[str]]:
    """By agent; and those that could not be read, and why. Of what was never prompted only the bytes count."""
    agents: dict[str, AgentUsed] = {}
    sizes: dict[str, dict[str, int]] = {}
    failed = []
    for agent, name in transcripts:
        if agent not in sizes:
            sizes[agent] = layout.sizes(agent)
        try:
            reading = Reading(layout.transcript(agent, name))
            try:
                used = read(reading)
            finally:
                reading.close()
        except FileNotFoundError:  # deleted meanwhile
            continue
        except (OSError, NewerFormat) as problem:
            failed.append(f"{agent}/{name}: {errno_name(problem)}")
            continue
        if not used.is_prompted:
            used.months.clear()
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
    """All together, and their tokens."""
    total, tokens = Used(), None
    for agent in agents.values():
        total.add(agent.total)
        tokens = _sum(tokens, agent.tokens(agent.total))
    return total, tokens
