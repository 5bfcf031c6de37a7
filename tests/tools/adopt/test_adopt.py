"""Adopting goes on after an agent that hangs, and refuses what the store does not allow."""

from pathlib import Path
from typing import Any

import pytest

from acp_proxy.decisions.capabilities import Offer
from acp_proxy.tools.adopt import agent_loader
from acp_proxy.tools.adopt.adopt import Adoption, Result
from acp_proxy.tools.adopt.agent_loader import AgentLoader, AgentStart, CannotAdopt
from acp_proxy.tools.adopt.plan import AdoptionFilter
from acp_proxy.transcript.file_names import file_name
from tests.stored import WholeStore
from tests.tools.adopt.listing_agent import ListingAgent, listed, replay_of

HELLO = {"before": replay_of("Mend the login", "Mended.")}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acp_proxy.tools.doctor.probe.GRACE_SECONDS", 0.05)
    monkeypatch.setattr(agent_loader, "_QUIET_SECONDS", 0.05)


@pytest.fixture
def agent(tmp_path: Path) -> ListingAgent:
    return ListingAgent(tmp_path)


def test_a_session_that_hangs_is_given_up_and_the_next_one_gets_a_new_process(
    store: WholeStore, agent: ListingAgent, tmp_path: Path
) -> None:
    times = ("2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z")
    agent.plan(
        [listed("hangs", tmp_path, times[0]), listed("s1", tmp_path, times[1])],
        loads={"hangs": {"hangs": True}, "s1": HELLO},
    )
    with Adoption(store, AgentStart(agent.command), AdoptionFilter(), None) as adoption:
        choice = adoption.choose()
        assert adoption._loader is not None
        adoption._loader._seconds = 0.3  # the agent has started: only the load waits
        first, second = adoption.load(choice)
    assert (first.result, first.reason) == (Result.FAILED, "the agent does not answer within 0.3 s")
    assert (second.offered.session_id, second.result) == ("s1", Result.ADOPTED)
    assert agent.starts == 2


def test_a_session_in_whose_replay_the_agent_ends_is_not_kept_and_tried_again(
    store: WholeStore, agent: ListingAgent, tmp_path: Path
) -> None:
    whole = replay_of("Mend the login", "Mended.", "And the logout", "Mended, too.")
    for load, expected in (
        ({"after": whole[:2], "dies_after": 3}, (Result.FAILED, "the agent exited with status 3")),
        ({"after": whole}, (Result.ADOPTED, "")),
    ):
        agent.plan([listed("s1", tmp_path)], loads={"s1": load})
        with Adoption(store, AgentStart(agent.command), AdoptionFilter(), None) as adoption:
            [outcome] = adoption.load(adoption.choose())
        assert (outcome.result, outcome.reason) == expected


def test_an_agent_that_ends_well_after_each_load_is_started_again_for_the_next_one(
    store: WholeStore, agent: ListingAgent, tmp_path: Path
) -> None:
    agent.plan(
        [listed("s1", tmp_path), listed("s2", tmp_path)],
        loads={session: {**HELLO, "dies_after": 0} for session in ("s1", "s2")},
    )
    with Adoption(store, AgentStart(agent.command), AdoptionFilter(), None) as adoption:
        outcomes = [*adoption.load(adoption.choose())]
    assert [outcome.result for outcome in outcomes] == [Result.ADOPTED, Result.ADOPTED]


def test_a_session_that_is_deleted_or_appears_meanwhile_is_not_adopted(
    store: WholeStore, agent: ListingAgent, tmp_path: Path
) -> None:
    agent.plan([listed("gone", tmp_path), listed("come", tmp_path)], loads={"gone": HELLO, "come": HELLO})
    with Adoption(store, AgentStart(agent.command), AdoptionFilter(), None) as adoption:
        choice = adoption.choose()
        store.delete(adoption.folder, "gone", soft=False)
        path = store.root / "transcripts" / adoption.folder / f"{file_name('come')}.jsonl"
        path.write_bytes(b"")
        outcomes = [*adoption.load(choice)]
    assert [(outcome.offered.session_id, outcome.result, outcome.reason) for outcome in outcomes] == [
        ("gone", Result.FAILED, "it was deleted here"),
        ("come", Result.FAILED, "something was recorded in it in the meantime"),
    ]


def test_a_replay_that_is_too_large_is_given_up(
    store: WholeStore, agent: ListingAgent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_loader, "_LONGEST_REPLAY", 100)
    agent.plan([listed("s1", tmp_path)], loads={"s1": HELLO})
    with Adoption(store, AgentStart(agent.command), AdoptionFilter(), None) as adoption:
        [outcome] = adoption.load(adoption.choose())
    assert (outcome.result, outcome.reason) == (Result.FAILED, "its replay is larger than 256 MiB")


def test_an_agent_that_does_not_start_again_is_given_one_more_try(
    store: WholeStore, agent: ListingAgent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: dict[str, dict[str, Any]] = {"s1": {"dies": 1}, "s2": HELLO, "s3": HELLO}
    agent.plan([listed(name, tmp_path) for name in loads], loads=loads)
    offered, fails = AgentLoader._ask_offer, [False, True, False]

    def flaky(self: AgentLoader) -> Offer:
        if fails and fails.pop(0):
            raise CannotAdopt("the agent does not answer")
        return offered(self)

    monkeypatch.setattr(AgentLoader, "_ask_offer", flaky)
    with Adoption(store, AgentStart(agent.command), AdoptionFilter(), None) as adoption:
        outcomes = [*adoption.load(adoption.choose())]
    assert [outcome.result for outcome in outcomes] == [Result.FAILED, Result.ADOPTED, Result.ADOPTED]
    assert fails == []
