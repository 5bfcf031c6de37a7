"""What a session used, computed from its entries one by one: turns, tokens, cost. Pure.

Amounts are kept by the quarter of an hour (UTC) in which they were used, because every time zone's days consist of such
quarters.

Agents report a gauge (``used``: tokens in the context now) and a counter (``cost``: of the session so far). A quarter
gets what they grew by during it; for the gauge, growth beyond its highest value so far. The ``usage`` in answers to
prompts comes from a draft of the protocol that agents read in two ways: as of the turn, or as of the session. An agent
whose numbers fall, or do not grow over a completed turn, means the turn.
"""

import math
from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import astuple

from acp_proxy.protocol import acp
from acp_proxy.transcript.file_format import Entry, Header
from acp_proxy.transcript.titles import clean

_CURRENCY_LENGTH = 12  # an ISO code, or a word such as credits
_COUNTED = ("inputTokens", "outputTokens", "totalTokens")
_MOST = 1e15
"""No session uses more of anything; so sums stay numbers that JSON can hold."""
_MINUTES = 15


class Amount(Struct):
    """What was used in one quarter of an hour.

    ``turn_tokens``, ``session_tokens``: the tokens in answers to prompts, read as of the turn and as of the session;
    None: there are none. ``context``: tokens added to the context; None: not reported. ``cost``: by currency, or None.
    """

    turns: int = 0
    turn_tokens: int | None = None
    session_tokens: int | None = None
    context: int | None = None
    cost: dict[str, float] | None = None


class Use(Struct):
    """The use of one session, to which entries are added.

    ``quarters``: the amounts, by the beginning of a quarter of an hour, such as ``2026-11-20T09:15``.
    ``since``: when the session was created; earlier entries were copied from the session that it is a fork of.
    ``project``: the directory where it began. ``last``: the quarter of the last prompt, else of the beginning.
    ``is_per_turn``: the usage in the agent's answers is of the turn alone.
    ``highest``, ``spent``, ``run``, ``told``: the figures that the agent reported last.
    """

    quarters: dict[str, Amount] = field(default_factory=dict)
    spent: dict[str, float] = field(default_factory=dict)
    told: dict[str, int] = field(default_factory=dict)
    since: str = ""
    project: str = ""
    last: str = ""
    is_per_turn: bool = False
    highest: int = 0
    run: str | None = None

    @classmethod
    def begin(cls, header: Header) -> "Use":
        """The use of a transcript that has only this header."""
        return cls(since=header.created_at, project=header.cwd or "", last=find_quarter(header.created_at))

    @classmethod
    def from_state(cls, state: Mapping[str, object]) -> "Use":
        """The use that ``dump_state`` returned. Raises KeyError, TypeError, AttributeError if it is not one."""
        out = cls()
        for name in cls.__struct_fields__:
            setattr(out, name, state[name])
        out.quarters = {at: Amount(*values) for at, values in state["quarters"].items()}  # type: ignore[attr-defined]
        return out

    def dump_state(self) -> dict[str, object]:
        """All of it as JSON values."""
        quarters = {at: astuple(amount) for at, amount in self.quarters.items()}
        return {name: getattr(self, name) for name in self.__struct_fields__} | {"quarters": quarters}

    def add_prompt(self, entry: Entry) -> None:
        """Add a prompt."""
        if self._is_counted(entry):
            self._get_amount(entry).turns += 1
            self.last = find_quarter(entry.at)

    def add_answer(self, entry: Entry, result: object) -> None:
        """Add the end of a turn. ``result``: what may have its usage: the prompt's answer, or a state update."""
        usage, is_turn = read_usage(result)
        self.is_per_turn |= is_turn
        told = {key: count for key in _COUNTED if (count := _number(usage, key)) is not None}
        if "totalTokens" not in told:
            return
        total, before = told["totalTokens"], self.told.get("totalTokens", 0)
        if entry.run == self.run:
            falls = any(count < self.told.get(key, 0) for key, count in told.items())
            stands = total == before and total > 0 and acp.text(result, "stopReason") == "end_turn"
            self.is_per_turn |= falls or stands
        self.run, self.told = entry.run, told
        if self._is_counted(entry):
            amount = self._get_amount(entry)
            amount.turn_tokens = (amount.turn_tokens or 0) + total
            amount.session_tokens = (amount.session_tokens or 0) + (total - before if total >= before else total)

    def add_update(self, entry: Entry, update: object) -> None:
        """Add a ``usage_update``."""
        used, cost = _number(update, "used"), acp.member(update, "cost")
        if used is not None:
            grown, self.highest = max(0, used - self.highest), max(used, self.highest)
            if self._is_counted(entry):
                amount = self._get_amount(entry)
                amount.context = (amount.context or 0) + grown
        counter, currency = acp.member(cost, "amount"), clean(acp.member(cost, "currency"), _CURRENCY_LENGTH)
        if currency is not None and isinstance(counter, int | float) and not isinstance(counter, bool):
            self._add_cost(entry, currency, float(counter))

    def _add_cost(self, entry: Entry, currency: str, counter: float) -> None:
        if not 0 <= counter <= _MOST:
            return
        before = self.spent.get(currency, 0.0)
        grown = counter - before if counter >= before else counter  # the agent's counter has restarted
        self.spent[currency] = counter
        if grown and self._is_counted(entry):
            amount = self._get_amount(entry)
            amount.cost = amount.cost or {}
            amount.cost[currency] = amount.cost.get(currency, 0.0) + grown

    def _is_counted(self, entry: Entry) -> bool:
        return entry.at >= self.since

    def _get_amount(self, entry: Entry) -> Amount:
        return self.quarters.setdefault(find_quarter(entry.at), Amount())


def read_usage(result: object) -> tuple[object, bool]:
    """The usage in the end of a turn, and whether it is certainly of the turn alone. Gemini has it in ``_meta``, under
    names of its own."""
    usage, counts = acp.member(result, "usage"), acp.member(read_quota(result), "token_count")
    given, output = _number(counts, "input_tokens"), _number(counts, "output_tokens")
    if usage is not None or given is None or output is None:
        return usage, False
    return {"inputTokens": given, "outputTokens": output, "totalTokens": given + output}, True


def read_quota(result: object) -> object:
    """What Gemini, and the adapters of Claude and Codex, say of a turn's tokens and models."""
    return acp.member(acp.member(result, "_meta"), "quota")


def find_quarter(at: str) -> str:
    """The beginning of the quarter of an hour of a time in a transcript; of any other text, its beginning."""
    try:
        return f"{at[:14]}{int(at[14:16]) // _MINUTES * _MINUTES:02}"
    except ValueError:
        return at[:16]


def _number(value: object, key: str) -> int | None:
    found = acp.member(value, key)
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        return None
    return int(found) if 0 <= found <= _MOST else None
