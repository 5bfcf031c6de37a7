"""The figures that agents report are counted once, by month, as increases."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from acp_proxy.transcripts.upkeep.usage import AgentUsed, SessionUsed, Used
from acp_proxy.wire import acp, clock
from acp_proxy.wire.jsonrpc import Peer
from tests.stored import EPOCH, Both, chunk, message, store_session
from tests.strategies import values
from tests.transcripts import talk

OCTOBER, NOVEMBER = -30 * 24 * 60 * 60, 0
"""Seconds for ``talk.time``."""


def usage(used: Any = 0, amount: Any = None, currency: Any = "USD", *, at: int = NOVEMBER) -> bytes:
    cost = {"amount": amount, "currency": currency} if amount is not None else None
    return talk.update(acp.USAGE, at=at, used=used, size=200_000, cost=cost)


def answer(total: Any, output: int = 1, *, at: int = NOVEMBER, run: str = talk.RUN, stop: str = "end_turn") -> bytes:
    told = {"stopReason": stop, "usage": {"totalTokens": total, "inputTokens": total, "outputTokens": output}}
    return talk.message({"id": 1, "result": told}, Peer.AGENT, acp.PROMPT, at=at, run=run)


def counted(*lines: bytes, since: int = 10 * OCTOBER) -> SessionUsed:
    used = SessionUsed(talk.time(since))
    for line in lines:
        used.add(talk.entry(line))
    return used


def agent(*sessions: SessionUsed) -> AgentUsed:
    used = AgentUsed()
    for session in sessions:
        used.add(session)
    return used


def only(used: SessionUsed) -> Used:
    [month] = used.groups.values()
    return month


def test_prompts_are_counted_as_turns_by_month() -> None:
    used = counted(talk.prompt("a", at=OCTOBER), talk.prompt("b"), talk.said("hi"), talk.answer(), talk.prompt("c"))
    assert {name: (month.sessions, month.turns) for name, month in used.groups.items()} == {
        "2026-10": (1, 1),
        "2026-11": (1, 2),
    }
    assert agent(used, used).total.sessions == 2


def test_context_is_the_increase_of_the_highest_value_by_month() -> None:
    used = counted(usage(100, at=OCTOBER), usage(300), usage(50), usage(250), usage(350))
    assert {name: month.context for name, month in used.groups.items()} == {"2026-10": 100, "2026-11": 250}


def test_a_cumulative_cost_is_counted_by_its_increase() -> None:
    used = counted(usage(amount=1.5, at=OCTOBER), usage(amount=1.5), usage(amount=2), usage(amount=0.25))
    assert {name: month.cost for name, month in used.groups.items()} == {
        "2026-10": {"USD": 1.5},
        "2026-11": {"USD": 0.75},  # the last figure comes from a restarted agent
    }


def test_each_currency_is_counted_separately() -> None:
    used = counted(
        usage(amount=1, currency="EUR"), usage(amount=3, currency="credits"), usage(amount=2, currency="EUR")
    )
    assert only(used).cost == {"EUR": 2.0, "credits": 3.0}


@pytest.mark.parametrize("amount", [-1, float("inf"), "1", True, None, []])
@pytest.mark.parametrize("currency", [None, 7, " ", "USD"])
def test_an_invalid_cost_is_ignored(amount: Any, currency: Any) -> None:
    assert not any(month.cost for month in counted(usage(amount=amount, currency=currency)).groups.values())


def test_tokens_that_only_grow_are_a_total_of_the_session() -> None:
    used = counted(answer(36), answer(54), answer(10, run="later"))
    assert agent(used).tokens(only(used)) == 64


@pytest.mark.parametrize(("second", "output"), [(18, 1), (36, 1), (40, 0)])
def test_tokens_that_do_not_grow_are_those_of_the_turn(second: int, output: int) -> None:
    used = counted(answer(36), answer(second, output))
    assert agent(used).tokens(only(used)) == 36 + second


def test_a_turn_cancelled_before_any_cost_does_not_decide_the_kind_of_total() -> None:
    used = counted(answer(36), answer(36, stop="cancelled"), answer(54))
    assert agent(used).tokens(only(used)) == 54


def test_the_kind_of_total_applies_to_all_sessions_of_an_agent() -> None:
    growing, falling = counted(answer(10), answer(20)), counted(answer(10), answer(5))
    together = agent(growing, falling)
    assert together.tokens(together.total) == 45


def test_missing_figures_are_none() -> None:
    used = counted(talk.prompt("a"), talk.answer())
    assert (agent(used).tokens(only(used)), only(used).context, only(used).cost) == (None, None, {})


def test_the_copied_past_of_a_fork_is_not_counted() -> None:
    before = (talk.prompt("a", at=1), usage(100, 1.0, at=1), answer(36, at=1))
    used = counted(*before, talk.prompt("b", at=5), usage(150, 1.5, at=5), answer(54, at=5), since=3)
    month = only(used)
    assert (month.turns, month.context, month.cost, month.session_tokens) == (1, 50, {"USD": 0.5}, 18)


@given(values, values, values, values)
def test_any_figures_are_counted_or_ignored(used: Any, cost: Any, currency: Any, tokens: Any) -> None:
    found = counted(usage(used, cost, currency), answer(tokens), talk.update(acp.USAGE), answer(tokens))
    assert all((month.context or 0) >= 0 and (month.turn_tokens or 0) >= 0 for month in found.groups.values())


@pytest.fixture
def store(tmp_path: Path) -> Both:
    return Both(tmp_path / "store")


def test_sessions_without_a_prompt_count_only_by_their_size(store: Both) -> None:
    told = {"sessionUpdate": "usage_update", "used": 10, "size": 100, "cost": {"amount": 1, "currency": "USD"}}
    first = store_session(store, "a", ("prompt", [chunk("usage"), told]), agent="one", at=EPOCH)
    store_session(store, "b", ("prompt", [told]), agent="other", at=EPOCH)
    silent = store_session(store, "c", agent="one", at=EPOCH)
    params = {"sessionId": "c", "update": told}
    with silent.open("ab") as file:
        file.write(message(clock.stamp(EPOCH), Peer.AGENT, {"method": "session/update", "params": params}))
    agents, failed = store.usage(store.transcripts())
    assert failed == []
    one = agents[first.parent.name]
    assert one.groups == {
        "2023-11": Used(1, 1, None, None, 10, {"USD": 1.0}, first.stat().st_size + silent.stat().st_size)
    }
    assert len(agents) == 2


def test_damaged_and_missing_transcripts_are_skipped(store: Both) -> None:
    path = store_session(store, "a", ("x", []), ("y", []))
    path.write_bytes(path.read_bytes().replace(b"\n", b"\0\0", 2) + b"\0\0 prompt \n")
    agents, failed = store.usage([*store.transcripts(), (path.parent.name, "gone-0123456789abcdef")])
    assert (agents[path.parent.name].total.turns, failed) == (2, [])
    path.unlink()
    path.mkdir()
    agents, failed = store.usage(store.transcripts())
    assert (agents, failed) == ({}, [f"{path.parent.name}/{path.stem}: EISDIR"])
