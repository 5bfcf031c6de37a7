"""The report on an agent's abilities matches what the proxy does."""

from itertools import chain, combinations, product
from typing import get_args

import pytest

from acp_proxy.decisions.capabilities import HandoverMode, Mode, Modes, Offer, choose_served_here
from acp_proxy.tools.doctor.capabilities import BY_AGENT, BY_NOBODY, BY_PROXY, Ability, list_abilities

NAMES = ("list", "load", "resume", "delete")
DRAFTS = ("title", "archive", "status")
NATIVES = [frozenset(some) for some in chain.from_iterable(combinations(NAMES, size) for size in range(5))]
SETTINGS = [
    Modes(listing, loading, deleting, resuming, handover, unstable)
    for listing, loading, deleting, resuming in product(get_args(Mode), repeat=4)
    for handover, unstable in product(get_args(HandoverMode), (False, True))
]


def offer(served_by_agent: frozenset[str], version: object = 1) -> Offer:
    return Offer(version, served_by_agent, "agent", "1", False)


def list_by_name(
    served_by_agent: set[str],
    modes: Modes = Modes(),  # noqa: B008 - a value
    off: str | None = None,
    version: object = 1,
) -> dict[str, Ability]:
    return {ability.name: ability for ability in list_abilities(offer(frozenset(served_by_agent), version), modes, off)}


@pytest.mark.parametrize(
    "served_by_agent", NATIVES, ids=lambda served_by_agent: "+".join(sorted(served_by_agent)) or "nothing"
)
def test_abilities_follow_the_decision_of_the_core_and_have_reasons(served_by_agent: frozenset[str]) -> None:
    for modes in SETTINGS:
        served = choose_served_here(offer(served_by_agent), modes)
        for ability in list_abilities(offer(served_by_agent), modes, None):
            by = BY_PROXY if ability.name in served else BY_AGENT if ability.name in served_by_agent else BY_NOBODY
            assert (ability.answered_by, bool(ability.reason)) == (by, True), (ability, modes)


@pytest.mark.parametrize("served_by_agent", [frozenset(), frozenset(DRAFTS), frozenset({"archive", "list", "load"})])
def test_drafts_are_told_if_they_are_wanted(served_by_agent: frozenset[str]) -> None:
    assert [ability.name for ability in list_abilities(offer(served_by_agent), Modes(), None)] == list(NAMES)
    for modes in SETTINGS:
        if modes.unstable:
            served = choose_served_here(offer(served_by_agent), modes)
            told = [
                ability for ability in list_abilities(offer(served_by_agent), modes, None) if ability.name in DRAFTS
            ]
            assert [one.answered_by for one in told] == [
                BY_PROXY if name in served else BY_AGENT if name in served_by_agent else BY_NOBODY for name in DRAFTS
            ]


def test_each_reason_names_the_deciding_fact() -> None:
    assert "can neither load nor resume" in list_by_name(set())["load"].reason
    assert "can resume" in list_by_name({"resume"})["load"].reason
    assert "leaves something out" in list_by_name({"load"})["load"].reason
    assert "--load store" in list_by_name({"load"}, Modes(load="store"))["load"].reason
    assert "--load agent" in list_by_name({"load"}, Modes(load="agent"))["load"].reason
    assert "--load agent" in list_by_name(set(), Modes(load="agent"))["load"].reason
    assert "--handover never" in list_by_name(set(), Modes(handover="never"))["load"].reason
    assert "new session" in list_by_name({"load"}, Modes(handover="always"))["load"].reason
    assert "--list store" in list_by_name({"list"}, Modes(list="store"))["list"].reason
    assert "--list agent" in list_by_name(set(), Modes(list="agent"))["list"].reason
    assert "--delete agent" in list_by_name({"delete"}, Modes(delete="agent"))["delete"].reason
    assert "--resume store" in list_by_name({"load"}, Modes(resume="store"))["resume"].reason
    assert "--resume store" in list_by_name({"load"})["resume"].reason
    assert "--resume store" not in list_by_name(set())["resume"].reason


def test_if_nothing_is_added_every_reason_says_why() -> None:
    for one in list_by_name({"load"}, off="no room").values():
        assert one.answered_by != BY_PROXY
        assert "no room" in one.reason or one.name == "load"


@pytest.mark.parametrize("version", [3, None, True])
def test_nothing_is_added_to_another_version_of_the_protocol(version: object) -> None:
    assert {one.answered_by for one in list_by_name(set(), version=version).values()} == {BY_NOBODY}
    assert "protocolVersion is " in list_by_name(set(), version=version)["list"].reason
