"""Counts the tokens of every kind by agent, model, project, day or month, and prices them.

Reads the transcripts: the index has only the sums that ``stats`` shows by default, and no models.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from acp_proxy.cli.session_filter import SessionFilter
from acp_proxy.errors import NewerFormat
from acp_proxy.protocol import acp, update_kinds
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.sessions.unreadable import format_unreadable
from acp_proxy.store.index_database import ListedSession
from acp_proxy.tools.stats.prices import Prices, TokenCounts, read_number
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import Entry
from acp_proxy.transcript.reader import Line, TranscriptReader
from acp_proxy.transcript.titles import clean
from acp_proxy.transcript.usage import LARGEST_NUMBER, read_usage
from acp_proxy.views.models import find_chosen_model, find_used_model

By = Literal["month", "day", "project", "agent", "model"]
_FORMS = {"month": "%Y-%m", "day": "%Y-%m-%d"}
_CURRENCY_LENGTH = 12


class TokenSpending(Struct):
    """What one row used.

    ``cost``: what agents reported, by currency. ``priced``: what the price list says of the rest. ``unpriced``: the
    tokens that have no price.
    """

    turns: int = 0
    tokens: TokenCounts = field(default_factory=TokenCounts)
    cost: dict[str, float] = field(default_factory=dict)
    priced: float = 0.0
    unpriced: int = 0

    def add(self, other: "TokenSpending") -> None:
        """Add another amount to this one."""
        self.turns += other.turns
        self.tokens = self.tokens.add(other.tokens)
        for currency, amount in other.cost.items():
            self.cost[currency] = self.cost.get(currency, 0.0) + amount
        self.priced += other.priced
        self.unpriced += other.unpriced


class _Answer(Struct):
    """A turn's end. ``as_turn``, ``as_session``: its tokens, if the agent counts the turn, or the session so far."""

    stamp: str
    model: str
    as_turn: TokenCounts
    as_session: TokenCounts


class _SessionUse(Struct):
    """What one transcript says. ``costs``: time, model, currency and amount of each growth of the agent's counter."""

    row: ListedSession
    answers: list[_Answer] = field(default_factory=list)
    costs: list[tuple[str, str, str, float]] = field(default_factory=list)
    turns: list[tuple[str, str]] = field(default_factory=list)
    """Time of each prompt, and the model of its turn."""
    is_per_turn: bool = False


class TokenReport(Struct):
    """What the transcripts say. ``rows``: by name; days and months newest first, others with the most tokens first.
    ``models_without_price``: the models whose tokens have no price. ``failures``: a line for each transcript that could
    not be read."""

    rows: dict[str, TokenSpending]
    total: TokenSpending
    models_without_price: list[str]
    failures: list[str]


def count_tokens(
    store: CommandStore,
    session_filter: SessionFilter,
    by: By,
    prices: Prices | None,
    progress: Callable[[int, int], None] = lambda done_count, total: None,
) -> TokenReport:
    """The tokens of the wanted sessions, in the turns that the filter's times leave. Raises Unreadable."""
    rows = list(replace(session_filter, since="", until="").list_newest(store))
    sessions: list[_SessionUse] = []
    failures: list[str] = []
    for done_count, row in enumerate(rows):
        progress(done_count, len(rows))
        try:
            with closing(store.open_listed(row)) as reader:
                sessions.append(_read_session(row, reader))
        except (OSError, NewerFormat) as problem:
            failures.append(format_unreadable(store.find_path(row), problem))
    # How an agent counts shows in any of its sessions.
    per_turn = {session_use.row.agent_folder for session_use in sessions if session_use.is_per_turn}
    spent_by_row: dict[str, TokenSpending] = {}
    models_without_price: dict[str, None] = {}
    total = TokenSpending()
    for session in sessions:
        for stamp, model, spent in _list_spent(session, prices, is_per_turn=session.row.agent_folder in per_turn):
            if stamp < session_filter.since or (session_filter.until and stamp >= session_filter.until):
                continue
            spent_by_row.setdefault(_choose_row(by, session.row, stamp, model), TokenSpending()).add(spent)
            total.add(spent)
            models_without_price |= {model: None} if spent.unpriced else {}
    order = (
        sorted(spent_by_row, reverse=True)
        if by in _FORMS
        else sorted(spent_by_row, key=lambda name: -spent_by_row[name].tokens.total)
    )
    return TokenReport({name: spent_by_row[name] for name in order}, total, sorted(models_without_price), failures)


def _choose_row(by: By, row: ListedSession, stamp: str, model: str) -> str:
    if by in _FORMS:
        return _format_local(stamp, _FORMS[by])
    return {"agent": row.agent_folder, "project": row.cwd or "", "model": model}[by]


def _format_local(stamp: str, form: str) -> str:
    try:
        return datetime.fromisoformat(stamp).astimezone().strftime(form)
    except (ValueError, OverflowError, OSError):  # a damaged transcript
        return stamp[: len("2026-11-20" if form.endswith("%d") else "2026-11")]


def _list_spent(
    session: _SessionUse, prices: Prices | None, *, is_per_turn: bool
) -> Iterator[tuple[str, str, TokenSpending]]:
    for stamp, model in session.turns:
        yield stamp, model, TokenSpending(turns=1)
    for stamp, model, currency, amount in session.costs:
        yield stamp, model, TokenSpending(cost={currency: amount})
    for answer in session.answers:
        tokens = answer.as_turn if is_per_turn else answer.as_session
        spent = TokenSpending(tokens=tokens)
        # The agent's own figure counts for the whole session: a price beside it would count twice.
        if prices is not None and tokens.total and not session.costs:
            price = prices.find(answer.model)
            if price is None or not tokens.has_kinds:
                spent.unpriced = tokens.total
            else:
                spent.priced = price.compute(tokens)
        yield answer.stamp, answer.model, spent


def _read_session(row: ListedSession, reader: TranscriptReader) -> _SessionUse:
    """What one transcript says. Raises OSError."""
    header = reader.header
    session_use = _SessionUse(row)
    since = header.created_at if header is not None else ""  # what is older was copied into a fork
    model, run, previous_tokens, cost_counters = "", "", TokenCounts(), dict[str, float]()
    used_model, costs_before = "", 0  # the model that the last turn used, and how many costs came before the turn
    for line in reader.read_alike():
        entry = line.entry if isinstance(line, Line) else None
        if entry is None:
            continue
        model = find_chosen_model(entry) or model
        is_counted = entry.at >= since
        if entry.is_prompt and is_counted:
            session_use.turns.append((entry.at, model))
            used_model, costs_before = "", len(session_use.costs)
        result = _find_result(entry)
        if result is not None and session_use.turns:
            used_model = find_used_model(result)
            session_use.turns[-1] = (session_use.turns[-1][0], used_model or model)
            session_use.costs[costs_before:] = [
                (at, used_model or chosen, currency, amount)
                for at, chosen, currency, amount in session_use.costs[costs_before:]
            ]
        usage, is_turn = read_usage(result)
        if (tokens := TokenCounts.read(usage)) is not None:
            session_use.is_per_turn |= is_turn
            if entry.run == run:
                is_unchanged = (
                    tokens.total == previous_tokens.total > 0 and acp.text(result, "stopReason") == "end_turn"
                )
                session_use.is_per_turn |= is_unchanged or tokens.is_below(previous_tokens)
            if is_counted:
                growth = tokens.subtract(previous_tokens) if tokens.total >= previous_tokens.total else tokens
                session_use.answers.append(_Answer(entry.at, used_model or model, tokens, growth))
            run, previous_tokens = entry.run, tokens
        if (cost := _read_cost(entry)) is not None:
            currency, counter = cost
            cost_growth = counter - cost_counters.get(currency, 0.0)
            cost_growth = cost_growth if cost_growth >= 0 else counter  # the agent's counter has restarted
            cost_counters[currency] = counter
            if cost_growth and is_counted:
                session_use.costs.append((entry.at, used_model or model, currency, cost_growth))
    return session_use


def _find_result(entry: Entry) -> object:
    """What may have the usage of a turn: the prompt's answer, or the state that ends it in version 2."""
    if entry.peer is not Peer.AGENT:
        return None
    if entry.answered_method == acp.PROMPT:
        return acp.member(entry.value, "result")
    update = acp.member(acp.member(entry.value, "params"), "update")
    is_state = entry.protocol_version != file_format.ACP_V1 and acp.update_kind(update) == update_kinds.WORK_STATE
    return update if is_state else None


def _read_cost(entry: Entry) -> tuple[str, float] | None:
    """The agent's counter of a session's cost, with its currency."""
    update = acp.member(acp.member(entry.value, "params"), "update")
    if entry.peer is not Peer.AGENT or acp.update_kind(update) != update_kinds.USAGE:
        return None
    cost = acp.member(update, "cost")
    currency = clean(acp.member(cost, "currency"), _CURRENCY_LENGTH)
    amount = read_number(acp.member(cost, "amount"), LARGEST_NUMBER)
    return (currency, amount) if currency is not None and amount is not None else None
