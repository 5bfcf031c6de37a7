"""What a session used, computed from its entries one by one: turns, tokens, cost. Pure.

Amounts are kept by the quarter of an hour (UTC) in which they were used, because every time zone's days consist of such
quarters.

Agents report a gauge (``used``: tokens in the context now) and a counter (``cost``: of the session so far). A quarter
gets what they grew by during it; for the gauge, growth beyond its highest value so far. The ``usage`` in answers to
prompts comes from a draft of the protocol that agents read in two ways: as of the turn, or as of the session. An agent
whose numbers fall, or do not grow over a completed turn, means the turn.
"""

import math

from msgspec import Struct, field

from acp_proxy.protocol import acp
from acp_proxy.transcript.file_format import Entry, Header
from acp_proxy.transcript.titles import clean

_CURRENCY_LENGTH = 12
"""The most characters of a currency: an ISO code, or a word such as credits."""
_COUNT_NAMES = ("inputTokens", "outputTokens", "totalTokens")
LARGEST_NUMBER = 1e15
"""No session uses more of anything; so sums stay numbers that JSON can hold."""
_QUARTER_MINUTES = 15


class Usage(Struct, array_like=True):
    """What was used: in a quarter of an hour of a session, or in several together.

    ``turns``: prompts. ``turn_tokens``, ``session_tokens``: the tokens in answers to prompts, read as of the turn and
    as of the session; None: there are none. ``context``: tokens added to the context; None: not reported. ``cost``: by
    currency.
    """

    turns: int = 0
    turn_tokens: int | None = None
    session_tokens: int | None = None
    context: int | None = None
    cost: dict[str, float] = field(default_factory=dict)

    def add(self, other: "Usage") -> None:
        """Add another one to this."""
        self.turns += other.turns
        self.turn_tokens = add_known(self.turn_tokens, other.turn_tokens)
        self.session_tokens = add_known(self.session_tokens, other.session_tokens)
        self.context = add_known(self.context, other.context)
        for currency, amount in other.cost.items():
            self.cost[currency] = self.cost.get(currency, 0.0) + amount


def add_known(first: int | None, second: int | None) -> int | None:
    """The sum; None, which means unknown, counts as nothing beside a number."""
    return second if first is None else first if second is None else first + second


class SessionUsage(Struct):
    """The usage of one session, to which entries are added.

    ``quarters``: by the beginning of a quarter of an hour, such as ``2026-11-20T09:15``. ``since``: when the session
    was created; earlier entries were copied from the session that it is a fork of. ``project``: the directory where it
    began. ``last``: the quarter of the last prompt, else of the beginning. ``is_per_turn``: the usage in the agent's
    answers is of the turn alone. ``last_cost``: what the agent reported last, by currency. ``last_counts``: what it
    reported last at the end of a turn, in ``last_run``. ``highest_context``: the highest that it has reported.
    """

    quarters: dict[str, Usage] = field(default_factory=dict)
    last_cost: dict[str, float] = field(default_factory=dict)
    last_counts: dict[str, int] = field(default_factory=dict)
    since: str = ""
    project: str = ""
    last: str = ""
    is_per_turn: bool = False
    highest_context: int = 0
    last_run: str | None = None

    @classmethod
    def begin(cls, header: Header) -> "SessionUsage":
        """The usage of a transcript that has only this header."""
        return cls(since=header.created_at, project=header.cwd or "", last=find_quarter(header.created_at))

    def add_prompt(self, entry: Entry) -> None:
        """Add a prompt."""
        if self._is_counted(entry):
            self._get_quarter(entry).turns += 1
            self.last = find_quarter(entry.at)

    def add_answer(self, entry: Entry, result: object) -> None:
        """Add the end of a turn. ``result``: what may have its usage: the prompt's answer, or a state update."""
        usage, is_turn = read_usage(result)
        self.is_per_turn |= is_turn
        counts = {key: count for key in _COUNT_NAMES if (count := read_number(usage, key)) is not None}
        if "totalTokens" not in counts:
            return
        total, previous_total = counts["totalTokens"], self.last_counts.get("totalTokens", 0)
        if entry.run == self.last_run:
            # See the docstring of the module: such an agent means the turn.
            has_fallen = any(count < self.last_counts.get(key, 0) for key, count in counts.items())
            has_stayed = total == previous_total and total > 0 and acp.text(result, "stopReason") == "end_turn"
            self.is_per_turn |= has_fallen or has_stayed
        self.last_run, self.last_counts = entry.run, counts
        if self._is_counted(entry):
            quarter = self._get_quarter(entry)
            quarter.turn_tokens = (quarter.turn_tokens or 0) + total
            quarter.session_tokens = (quarter.session_tokens or 0) + (
                total - previous_total if total >= previous_total else total
            )

    def add_update(self, entry: Entry, update: object) -> None:
        """Add a ``usage_update``."""
        used, cost = read_number(update, "used"), acp.member(update, "cost")
        if used is not None:
            growth, self.highest_context = max(0, used - self.highest_context), max(used, self.highest_context)
            if self._is_counted(entry):
                quarter = self._get_quarter(entry)
                quarter.context = (quarter.context or 0) + growth
        counter, currency = acp.member(cost, "amount"), clean(acp.member(cost, "currency"), _CURRENCY_LENGTH)
        if currency is not None and isinstance(counter, int | float) and not isinstance(counter, bool):
            self._add_cost(entry, currency, float(counter))

    def _add_cost(self, entry: Entry, currency: str, counter: float) -> None:
        if not 0 <= counter <= LARGEST_NUMBER:
            return
        previous = self.last_cost.get(currency, 0.0)
        growth = counter - previous if counter >= previous else counter  # the agent's counter has restarted
        self.last_cost[currency] = counter
        if growth and self._is_counted(entry):
            quarter = self._get_quarter(entry)
            quarter.cost[currency] = quarter.cost.get(currency, 0.0) + growth

    def _is_counted(self, entry: Entry) -> bool:
        return entry.at >= self.since

    def _get_quarter(self, entry: Entry) -> Usage:
        return self.quarters.setdefault(find_quarter(entry.at), Usage())


def read_usage(result: object) -> tuple[object, bool]:
    """The usage in the end of a turn, and whether it is certainly of the turn alone. Gemini has it in ``_meta``, under
    names of its own."""
    usage, counts = acp.member(result, "usage"), acp.member(read_quota(result), "token_count")
    input_count, output_count = read_number(counts, "input_tokens"), read_number(counts, "output_tokens")
    if usage is not None or input_count is None or output_count is None:
        return usage, False
    return {"inputTokens": input_count, "outputTokens": output_count, "totalTokens": input_count + output_count}, True


def read_quota(result: object) -> object:
    """What Gemini, and the adapters of Claude and Codex, say of a turn's tokens and models."""
    return acp.member(acp.member(result, "_meta"), "quota")


def find_quarter(stamp: str) -> str:
    """The beginning of the quarter of an hour of a time in a transcript; of any other text, its beginning."""
    try:
        return f"{stamp[:14]}{int(stamp[14:16]) // _QUARTER_MINUTES * _QUARTER_MINUTES:02}"
    except ValueError:
        return stamp[:16]


def read_number(value: object, key: str) -> int | None:
    """The figure under ``key``; None if there is none that anybody could have used."""
    number = acp.member(value, key)
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
        return None
    return int(number) if 0 <= number <= LARGEST_NUMBER else None
