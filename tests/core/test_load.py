"""The table of a request to open a session: all ways through it end, and on each what has to be done is done once."""

from collections.abc import Iterator

import pytest

from acp_proxy.core.load import AWAITING, HOLDING, LIFE, TELLS, Do, Happens, LoadState

FIRST = (LoadState.ASKED, LoadState.PASSING)
ANSWERS = frozenset({Do.ANSWER, Do.ANSWER_TOLD, Do.SAY_CANCELLED, Do.SAY_ENDED})
"""What the client gets for its request."""
HAS_IT_OPEN = frozenset({Do.CLOSE_TRANSCRIPT, Do.TELL})
"""What becomes of the transcript that was looked up."""
MEANS_NOTHING = {
    LoadState.ASKED: {Happens.OUTPUT_TAKEN},
    LoadState.PASSING: {Happens.GAVE_UP, Happens.OUTPUT_TAKEN, Happens.FLOODED, Happens.PROMPTED},
    LoadState.GIVEN_UP: {Happens.GAVE_UP, Happens.FLOODED, Happens.PROMPTED},
    LoadState.CANCELLED: {Happens.GAVE_UP, Happens.OUTPUT_TAKEN},
    LoadState.QUEUED: {Happens.OUTPUT_TAKEN, Happens.FLOODED, Happens.PROMPTED, Happens.ENDED},
    LoadState.TELLING: {Happens.OUTPUT_TAKEN, Happens.FLOODED, Happens.PROMPTED, Happens.ENDED},
    LoadState.STOPPING: {Happens.GAVE_UP, Happens.FLOODED, Happens.PROMPTED, Happens.ENDED},
    LoadState.OPEN: {Happens.TURN_ENDED},
    LoadState.TURN: {Happens.PROMPTED},
}
"""What can happen there and changes nothing.

A request that passes is the agent's to cancel; an answered one is asked for no answer; the end of the agent does not
stop a replay; an id that is used again may hear of the output that an earlier request of that id waited for.
"""
CANNOT = {
    **{state: {Happens.NEXT, Happens.TOLD, Happens.CLOSED, Happens.TURN_ENDED} for state in AWAITING},
    LoadState.QUEUED: {Happens.TOLD, Happens.CLOSED, Happens.TURN_ENDED},
    LoadState.TELLING: {Happens.NEXT, Happens.CLOSED, Happens.TURN_ENDED},
    LoadState.STOPPING: {Happens.NEXT, Happens.CLOSED, Happens.TURN_ENDED},
}
"""What cannot happen: nothing is told before the agent agrees, nothing is in question before the client's answer."""
OF_THE_AGENTS_ANSWER = {Happens.AGREED, Happens.REFUSED, Happens.UNKNOWN}
UNDER_WAY = {Happens.FLOODED, Happens.GAVE_UP, Happens.OUTPUT_TAKEN, Happens.NEXT, Happens.TOLD}
"""What happens only to a request that the client has no answer to."""


def paths(state: LoadState, done: tuple[Do, ...] = (), seen: tuple[LoadState, ...] = ()) -> Iterator[tuple[Do, ...]]:
    """All that is done on each way from a state to the end. A state that stays the same is passed twice at most."""
    if state is LoadState.OVER:
        yield done
    for following, does in LIFE[state].values():
        if seen.count(following) < 1 + (following is state):
            yield from paths(following, (*done, *does), (*seen, state))


def reached_from(state: LoadState) -> set[LoadState]:
    found, new = {state}, [state]
    while new:
        for following, _ in LIFE[new.pop()].values():
            if following not in found:
                found.add(following)
                new.append(following)
    return found


def test_every_state_stands_in_the_table_and_can_be_reached() -> None:
    assert set(LIFE) == set(LoadState)
    assert set[LoadState]().union(*(reached_from(state) for state in FIRST)) == set(LoadState)


@pytest.mark.parametrize("state", LoadState)
def test_every_state_has_a_way_to_the_end(state: LoadState) -> None:
    assert LoadState.OVER in reached_from(state)
    assert LIFE[LoadState.OVER] == {}


@pytest.mark.parametrize("event", Happens)
@pytest.mark.parametrize("state", [state for state in LoadState if state is not LoadState.OVER])
def test_whatever_can_happen_in_a_state_has_a_row_or_means_nothing_there(state: LoadState, event: Happens) -> None:
    impossible = set(CANNOT.get(state, UNDER_WAY))
    if state not in AWAITING:
        impossible |= OF_THE_AGENTS_ANSWER
    elif state is not LoadState.ASKED:  # only one that waits for the agent goes on in a new session
        impossible |= {Happens.UNKNOWN}
    if state is LoadState.CANCELLED:  # nothing waits, and nobody asks for more
        impossible |= {Happens.FLOODED, Happens.PROMPTED}
    kinds = (event in LIFE[state], event in MEANS_NOTHING[state], event in impossible)
    assert sum(kinds) == 1


@pytest.mark.parametrize("first", FIRST)
def test_on_every_way_the_client_is_answered_once(first: LoadState) -> None:
    assert {sum(do in ANSWERS for do in done) for done in paths(first)} == {1}


@pytest.mark.parametrize("first", FIRST)
def test_on_every_way_a_transcript_that_was_looked_up_is_told_or_closed_once(first: LoadState) -> None:
    assert {sum(do in HAS_IT_OPEN for do in done) for done in paths(first)} == {1}


@pytest.mark.parametrize("first", FIRST)
def test_on_every_way_what_the_agent_agreed_to_is_noted_once_and_before_it_is_told_of(first: LoadState) -> None:
    for done in paths(first):
        assert done.count(Do.NOTE) == (Do.SETTLE in done or Do.END_TURN in done)
        later = [done.index(do) for do in (Do.TELL, Do.ANSWER_TOLD, Do.SETTLE) if do in done]
        assert all(done.index(Do.NOTE) < at for at in later)


@pytest.mark.parametrize("state", LoadState)
def test_whatever_waits_leaves_with_the_state_in_which_it_waits(state: LoadState) -> None:
    """Nothing is held where nobody lets it go."""
    leaves = {Do.HAND_BACK, Do.ANSWER_TOLD, Do.OPEN_ANEW}
    for following, does in LIFE[state].values():
        if state in HOLDING and following not in HOLDING:
            assert leaves & set(does)
        if state not in HOLDING:
            assert following not in HOLDING


def test_what_the_shell_tells_waits_for_its_answer() -> None:
    assert TELLS < HOLDING
    assert not TELLS & AWAITING
