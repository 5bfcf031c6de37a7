"""The figures that agents report are counted once, by the quarter of an hour, as increases."""

from typing import Any

import pytest
from hypothesis import given
from msgspec import convert, to_builtins

from acp_proxy.protocol import acp, jsonrpc, update_kinds
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript.summary import Summary
from acp_proxy.transcript.usage import SessionUsage, Usage, find_quarter
from tests.store import transcript_lines
from tests.strategies import values

OCTOBER, NOVEMBER = -30 * 24 * 60 * 60, 0
"""Seconds for ``transcript_lines.time``."""


def usage(used: Any = 0, amount: Any = None, currency: Any = "USD", *, at: int = NOVEMBER) -> bytes:
    cost = {"amount": amount, "currency": currency} if amount is not None else None
    return transcript_lines.update(update_kinds.USAGE, at=at, used=used, size=200_000, cost=cost)


def answer(
    total: Any, output: int = 1, *, at: int = NOVEMBER, run: str = transcript_lines.RUN, stop: str = "end_turn"
) -> bytes:
    told = {"stopReason": stop, "usage": {"totalTokens": total, "inputTokens": total, "outputTokens": output}}
    return transcript_lines.message({"id": 1, "result": told}, Peer.AGENT, acp.PROMPT, at=at, run=run)


def count_usage(*lines: bytes, since: int = 10 * OCTOBER) -> SessionUsage:
    summary = Summary()
    summary.usage = SessionUsage(since=transcript_lines.time(since))
    for line in lines:
        summary.add(transcript_lines.entry(line))
    return summary.usage


def only(use: SessionUsage) -> Usage:
    [amount] = use.quarters.values()
    return amount


def test_prompts_are_counted_as_turns() -> None:
    use = count_usage(
        transcript_lines.prompt_line("a", at=OCTOBER),
        transcript_lines.prompt_line("b"),
        transcript_lines.agent_chunk("hi"),
        transcript_lines.answer(),
        transcript_lines.prompt_line("c"),
    )
    assert {at: amount.turns for at, amount in use.quarters.items()} == {
        find_quarter(transcript_lines.time(OCTOBER)): 1,
        find_quarter(transcript_lines.time(NOVEMBER)): 2,
    }
    assert use.last == find_quarter(transcript_lines.time(NOVEMBER))


def test_context_is_the_increase_of_the_highest_value() -> None:
    use = count_usage(usage(100, at=OCTOBER), usage(300), usage(50), usage(250), usage(350))
    assert [amount.context for amount in use.quarters.values()] == [100, 250]


def test_a_cumulative_cost_is_counted_by_its_increase() -> None:
    use = count_usage(usage(amount=1.5, at=OCTOBER), usage(amount=1.5), usage(amount=2), usage(amount=0.25))
    # the last figure comes from a restarted agent
    assert [amount.cost for amount in use.quarters.values()] == [{"USD": 1.5}, {"USD": 0.75}]


def test_each_currency_is_counted_separately() -> None:
    use = count_usage(
        usage(amount=1, currency="EUR"), usage(amount=3, currency="credits"), usage(amount=2, currency="EUR")
    )
    assert only(use).cost == {"EUR": 2.0, "credits": 3.0}


@pytest.mark.parametrize("amount", [-1, float("inf"), 1e200, "1", True, None, []])
@pytest.mark.parametrize("currency", [None, 7, " ", "USD"])
def test_an_invalid_cost_is_ignored(amount: Any, currency: Any) -> None:
    assert not any(quarter.cost for quarter in count_usage(usage(amount=amount, currency=currency)).quarters.values())


def test_tokens_that_only_grow_are_a_total_of_the_session() -> None:
    use = count_usage(answer(36), answer(54), answer(10, run="later"))
    assert (use.is_per_turn, only(use).session_tokens) == (False, 64)


@pytest.mark.parametrize(("second", "output"), [(18, 1), (36, 1), (40, 0)])
def test_tokens_that_do_not_grow_are_those_of_the_turn(second: int, output: int) -> None:
    use = count_usage(answer(36), answer(second, output))
    assert (use.is_per_turn, only(use).turn_tokens) == (True, 36 + second)


def test_a_turn_cancelled_before_any_cost_does_not_decide_the_kind_of_total() -> None:
    use = count_usage(answer(36), answer(36, stop="cancelled"), answer(54))
    assert (use.is_per_turn, only(use).session_tokens) == (False, 54)


def test_missing_figures_are_none() -> None:
    assert only(count_usage(transcript_lines.prompt_line("a"), transcript_lines.answer())) == Usage(turns=1)


def test_the_copied_past_of_a_fork_is_not_counted() -> None:
    before = (transcript_lines.prompt_line("a", at=1), usage(100, 1.0, at=1), answer(36, at=1))
    use = count_usage(
        *before, transcript_lines.prompt_line("b", at=5), usage(150, 1.5, at=5), answer(54, at=5), since=3
    )
    assert only(use) == Usage(1, 54, 18, 50, {"USD": 0.5})


@given(values, values, values, values)
def test_any_figures_are_counted_or_ignored_and_survive_the_index(
    used: Any, cost: Any, currency: Any, tokens: Any
) -> None:
    found = count_usage(
        usage(used, cost, currency), answer(tokens), transcript_lines.update(update_kinds.USAGE), answer(tokens)
    )
    assert all((quarter.context or 0) >= 0 and (quarter.turn_tokens or 0) >= 0 for quarter in found.quarters.values())
    kept: Any = jsonrpc.parse(jsonrpc.dump(to_builtins(found)))
    assert convert(kept, SessionUsage) == found


@pytest.mark.parametrize(
    ("at", "expected"),
    [("2026-11-20T09:59:59.999Z", "2026-11-20T09:45"), ("2026-11-20T09:00:00.000Z", "2026-11-20T09:00"), ("x", "x")],
)
def test_a_quarter_begins_at_full_minutes(at: str, expected: str) -> None:
    assert find_quarter(at) == expected
