"""The state table of a load: every path ends, and does each necessary thing once."""

from collections.abc import Iterator

import pytest

from acp_proxy.proxy.load.states import AWAITING, HOLDING, TELLS, TRANSITIONS, Do, LoadEvent, LoadState

FIRST = (LoadState.ASKED, LoadState.PASSING)
ANSWERS = frozenset({Do.ANSWER, Do.ANSWER_TOLD, Do.SAY_CANCELLED, Do.SAY_ENDED})
"""Actions that answer the client's request."""
HAS_IT_OPEN = frozenset({Do.CLOSE_TRANSCRIPT, Do.TELL})
"""Actions that close or replay the transcript that was looked up."""
MEANS_NOTHING = {
    LoadState.ASKED: {LoadEvent.OUTPUT_TAKEN},
    LoadState.PASSING: {LoadEvent.GAVE_UP, LoadEvent.OUTPUT_TAKEN, LoadEvent.FLOODED, LoadEvent.PROMPTED},
    LoadState.GIVEN_UP: {LoadEvent.GAVE_UP, LoadEvent.FLOODED, LoadEvent.PROMPTED},
    LoadState.CANCELLED: {LoadEvent.GAVE_UP, LoadEvent.OUTPUT_TAKEN},
    LoadState.QUEUED: {LoadEvent.OUTPUT_TAKEN, LoadEvent.FLOODED, LoadEvent.PROMPTED, LoadEvent.ENDED},
    LoadState.TELLING: {LoadEvent.OUTPUT_TAKEN, LoadEvent.FLOODED, LoadEvent.PROMPTED, LoadEvent.ENDED},
    LoadState.STOPPING: {LoadEvent.GAVE_UP, LoadEvent.FLOODED, LoadEvent.PROMPTED, LoadEvent.ENDED},
    LoadState.OPEN: {LoadEvent.TURN_ENDED},
    LoadState.TURN: {LoadEvent.PROMPTED},
}
"""Events that can happen in a state and change nothing.

The agent cancels a request that passes; an answered request needs no second answer; the end of the agent does not stop
a replay; a reused id may get the release of the output that an earlier request with that id waited for.
"""
CANNOT = {
    **{state: {LoadEvent.NEXT, LoadEvent.TOLD, LoadEvent.CLOSED, LoadEvent.TURN_ENDED} for state in AWAITING},
    LoadState.QUEUED: {LoadEvent.TOLD, LoadEvent.CLOSED, LoadEvent.TURN_ENDED},
    LoadState.TELLING: {LoadEvent.NEXT, LoadEvent.CLOSED, LoadEvent.TURN_ENDED},
    LoadState.STOPPING: {LoadEvent.NEXT, LoadEvent.CLOSED, LoadEvent.TURN_ENDED},
}
"""Events that cannot happen: no replay before the agent agrees, no close or turn end before the client's answer."""
OF_THE_AGENTS_ANSWER = {LoadEvent.AGREED, LoadEvent.REFUSED, LoadEvent.UNKNOWN}
UNDER_WAY = {LoadEvent.FLOODED, LoadEvent.GAVE_UP, LoadEvent.OUTPUT_TAKEN, LoadEvent.NEXT, LoadEvent.TOLD}
"""Events that happen only to a request that is not answered yet."""


def paths(state: LoadState, done: tuple[Do, ...] = (), seen: tuple[LoadState, ...] = ()) -> Iterator[tuple[Do, ...]]:
    """The actions on each path from a state to the end. A state repeats at most twice in a row."""
    if state is LoadState.OVER:
        yield done
    for following, does in TRANSITIONS[state].values():
        if seen.count(following) < 1 + (following is state):
            yield from paths(following, (*done, *does), (*seen, state))


def reached_from(state: LoadState) -> set[LoadState]:
    found, new = {state}, [state]
    while new:
        for following, _ in TRANSITIONS[new.pop()].values():
            if following not in found:
                found.add(following)
                new.append(following)
    return found


def test_every_state_is_in_the_table_and_reachable() -> None:
    assert set(TRANSITIONS) == set(LoadState)
    assert set[LoadState]().union(*(reached_from(state) for state in FIRST)) == set(LoadState)


@pytest.mark.parametrize("state", LoadState)
def test_every_state_leads_to_the_end(state: LoadState) -> None:
    assert LoadState.OVER in reached_from(state)
    assert TRANSITIONS[LoadState.OVER] == {}


@pytest.mark.parametrize("event", LoadEvent)
@pytest.mark.parametrize("state", [state for state in LoadState if state is not LoadState.OVER])
def test_each_event_of_a_state_has_a_row_means_nothing_or_cannot_happen(state: LoadState, event: LoadEvent) -> None:
    impossible = set(CANNOT.get(state, UNDER_WAY))
    if state not in AWAITING:
        impossible |= OF_THE_AGENTS_ANSWER
    elif state is not LoadState.ASKED:  # only a load that waits for the agent can be handed over
        impossible |= {LoadEvent.UNKNOWN}
    if state is LoadState.CANCELLED:  # nothing waits, and nobody asks for more
        impossible |= {LoadEvent.FLOODED, LoadEvent.PROMPTED}
    kinds = (event in TRANSITIONS[state], event in MEANS_NOTHING[state], event in impossible)
    assert sum(kinds) == 1


@pytest.mark.parametrize("first", FIRST)
def test_every_path_answers_the_client_once(first: LoadState) -> None:
    assert {sum(do in ANSWERS for do in done) for done in paths(first)} == {1}


@pytest.mark.parametrize("first", FIRST)
def test_every_path_replays_or_closes_the_transcript_once(first: LoadState) -> None:
    assert {sum(do in HAS_IT_OPEN for do in done) for done in paths(first)} == {1}


@pytest.mark.parametrize("first", FIRST)
def test_every_path_notes_the_agents_agreement_once_and_first(first: LoadState) -> None:
    for done in paths(first):
        assert done.count(Do.NOTE) == (Do.SETTLE in done or Do.END_TURN in done)
        later = [done.index(do) for do in (Do.TELL, Do.ANSWER_TOLD, Do.SETTLE) if do in done]
        assert all(done.index(Do.NOTE) < at for at in later)


@pytest.mark.parametrize("state", LoadState)
def test_leaving_a_holding_state_releases_what_it_held(state: LoadState) -> None:
    """Nothing stays held in a state that cannot release it."""
    leaves = {Do.HAND_BACK, Do.ANSWER_TOLD, Do.OPEN_ANEW}
    for following, does in TRANSITIONS[state].values():
        if state in HOLDING and following not in HOLDING:
            assert leaves & set(does)
        if state not in HOLDING:
            assert following not in HOLDING


def test_states_that_wait_for_the_shell_hold_updates_and_do_not_await_the_agent() -> None:
    assert TELLS < HOLDING
    assert not TELLS & AWAITING
