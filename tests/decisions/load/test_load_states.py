"""The state table of a load: every path ends, and does each necessary thing once."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_proxy.decisions.load import load_states
from acp_proxy.decisions.load.compared_replay import ComparedReplay
from acp_proxy.decisions.load.current_loads import CurrentLoads
from acp_proxy.decisions.load.load import Load
from acp_proxy.decisions.load.load_machine import LoadMachine
from acp_proxy.decisions.load.load_plan import LoadPlan
from acp_proxy.decisions.load.load_states import (
    ABANDONED_STATES,
    HOLDING_UNTIL_AGENT_ANSWERS,
    OVERTAKABLE_STATES,
    STATES,
    Action,
    LoadEvent,
    LoadPhase,
    LoadState,
)
from acp_proxy.protocol import acp
from acp_proxy.protocol.jsonrpc import Request, RequestId

FIRST = (LoadState.HOLDING_REPLAY, LoadState.PASSING)
AWAITING = {state for state, row in STATES.items() if row.phase is LoadPhase.ASKED}
HOLDING = {state for state, row in STATES.items() if row.holds_lines}
ANSWERS = frozenset({Action.ANSWER, Action.FINISH_PAST_AND_ANSWER, Action.ANSWER_CANCELLED})
"""Actions that answer the client's request."""
HAS_IT_OPEN = frozenset({Action.CLOSE_TRANSCRIPT, Action.CHOOSE_AND_SHOW_PAST})
"""Actions that close or show the transcript that was looked up."""
TOO_MUCH = {LoadEvent.CANNOT_WAIT, LoadEvent.REPLAY_TOO_LARGE}
CLIENTS = {LoadEvent.CANCEL_REQUESTED, LoadEvent.OUTPUT_RESERVED, LoadEvent.PROMPTED}
MEANS_NOTHING = {
    LoadState.HOLDING_REPLAY: {LoadEvent.OUTPUT_RESERVED, LoadEvent.TURN_ENDED},
    LoadState.DROPPING_REPLAY: {LoadEvent.OUTPUT_RESERVED, LoadEvent.PROMPTED, LoadEvent.TURN_ENDED},
    LoadState.PASSING: {LoadEvent.OUTPUT_RESERVED, *TOO_MUCH, LoadEvent.TURN_ENDED},
    LoadState.PASSING_CANCELLING: {
        LoadEvent.CANCEL_REQUESTED,
        LoadEvent.OUTPUT_RESERVED,
        *TOO_MUCH,
        LoadEvent.TURN_ENDED,
    },
    LoadState.PASSING_ABANDONED: {*CLIENTS, *TOO_MUCH, LoadEvent.TURN_ENDED},
    LoadState.CANCELLING: {LoadEvent.CANCEL_REQUESTED, *TOO_MUCH, LoadEvent.PROMPTED, LoadEvent.TURN_ENDED},
    LoadState.CANCELLED: CLIENTS,
    LoadState.ABANDONED: {*CLIENTS, LoadEvent.TURN_ENDED},
    LoadState.CHOOSING_PAST: {LoadEvent.OUTPUT_RESERVED, LoadEvent.PROMPTED, LoadEvent.TURN_ENDED},
    LoadState.CANCELLING_WHILE_SHOWING: {LoadEvent.CANCEL_REQUESTED, LoadEvent.PROMPTED, LoadEvent.TURN_ENDED},
    LoadState.BEFORE_PROMPT: {LoadEvent.TURN_ENDED},
    LoadState.IN_FIRST_TURN: {LoadEvent.PROMPTED},
}
"""Events that can happen in a state and change nothing.

An answered request needs no second answer; a reused id may get the release of the output that an earlier request with
that id waited for.
"""
SETTLING = {LoadEvent.MUST_END, LoadEvent.DROPPED, LoadEvent.AGENT_ENDED}
CANNOT = {
    **{state: {LoadEvent.PAST_CHOSEN, LoadEvent.MUST_END, LoadEvent.DROPPED} for state in AWAITING},
    LoadState.CHOOSING_PAST: {*TOO_MUCH, *SETTLING},
    LoadState.CANCELLING_WHILE_SHOWING: {*TOO_MUCH, *SETTLING},
}
"""Events that cannot happen: no past is shown before the agent agrees, nothing to settle before the client's answer.
The end of the agent does not stop showing it."""
OF_THE_AGENTS_ANSWER = {LoadEvent.AGREED, LoadEvent.REFUSED, LoadEvent.NEEDS_NEW_SESSION}
OPEN_ONLY = {*TOO_MUCH, LoadEvent.CANCEL_REQUESTED, LoadEvent.OUTPUT_RESERVED, LoadEvent.PAST_CHOSEN}
"""Events that happen only to a request that is not answered yet."""


def paths(
    state: LoadState, done: tuple[Action, ...] = (), seen: tuple[LoadState, ...] = ()
) -> Iterator[tuple[Action, ...]]:
    """The actions on each path from a state to the end. A state repeats at most twice in a row."""
    if state is LoadState.OVER:
        yield done
    for following, does in STATES[state].transitions.values():
        if seen.count(following) < 1 + (following is state):
            yield from paths(following, (*done, *does), (*seen, state))


def reached_from(state: LoadState) -> set[LoadState]:
    found, new = {state}, [state]
    while new:
        for following, _ in STATES[new.pop()].transitions.values():
            if following not in found:
                found.add(following)
                new.append(following)
    return found


def test_every_state_is_in_the_table_and_reachable() -> None:
    assert set(STATES) == set(LoadState)
    assert set[LoadState]().union(*(reached_from(state) for state in FIRST)) == set(LoadState)


@pytest.mark.parametrize("state", LoadState)
def test_every_state_leads_to_the_end(state: LoadState) -> None:
    assert LoadState.OVER in reached_from(state)
    assert not STATES[LoadState.OVER].transitions


@pytest.mark.parametrize("event", LoadEvent)
@pytest.mark.parametrize("state", [state for state in LoadState if state is not LoadState.OVER])
def test_each_event_of_a_state_has_a_row_means_nothing_or_cannot_happen(state: LoadState, event: LoadEvent) -> None:
    impossible = set(CANNOT.get(state, OPEN_ONLY))
    if state not in AWAITING:
        impossible |= OF_THE_AGENTS_ANSWER
    elif state not in HOLDING_UNTIL_AGENT_ANSWERS:  # only a load that waits for the agent can be handed over
        impossible |= {LoadEvent.NEEDS_NEW_SESSION}
    if state not in OVERTAKABLE_STATES:  # only a cancelled load is left out
        impossible |= {LoadEvent.OVERTAKEN}
    if state is LoadState.DROPPING_REPLAY:  # what waits for it leaves without it
        impossible |= {LoadEvent.CANNOT_WAIT}
    if state in (LoadState.CANCELLED, LoadState.ABANDONED):  # nothing waits
        impossible |= TOO_MUCH
    kinds = (event in STATES[state].transitions, event in MEANS_NOTHING[state], event in impossible)
    assert sum(kinds) == 1


@pytest.mark.parametrize("first", FIRST)
def test_every_path_answers_the_client_once(first: LoadState) -> None:
    assert {sum(do in ANSWERS for do in done) for done in paths(first)} == {1}


@pytest.mark.parametrize("first", FIRST)
def test_every_path_shows_or_closes_the_transcript_once(first: LoadState) -> None:
    assert {sum(do in HAS_IT_OPEN for do in done) for done in paths(first)} == {1}


@pytest.mark.parametrize("state", [LoadState.BEFORE_PROMPT, LoadState.IN_FIRST_TURN])
def test_an_answered_load_is_settled_at_the_end_unless_the_session_was_deleted(state: LoadState) -> None:
    for event, (following, does) in STATES[state].transitions.items():
        if following is LoadState.OVER:
            assert ({Action.SETTLE, Action.RELEASE_UPDATES_IN_TURN}.isdisjoint(does)) == (event is LoadEvent.DROPPED)


@pytest.mark.parametrize("first", FIRST)
def test_every_path_notes_the_agents_agreement_once_and_first(first: LoadState) -> None:
    for done in paths(first):
        assert done.count(Action.RECORD_OPENED) == done.count(Action.AWAIT_PROMPT_OR_END) <= 1
        later = [
            done.index(do)
            for do in (Action.CHOOSE_AND_SHOW_PAST, Action.FINISH_PAST_AND_ANSWER, Action.SETTLE)
            if do in done
        ]
        assert all(done.index(Action.RECORD_OPENED) < at for at in later)


@pytest.mark.parametrize("state", LoadState)
def test_leaving_a_holding_state_releases_what_it_held(state: LoadState) -> None:
    """Nothing stays held in a state that cannot release it."""
    leaves = {Action.RELEASE_HELD_LINES, Action.FINISH_PAST_AND_ANSWER, Action.OPEN_NEW_SESSION}
    for following, does in STATES[state].transitions.values():
        if state in HOLDING and following not in HOLDING:
            assert leaves & set(does)
        if state not in HOLDING:
            assert following not in HOLDING


@pytest.mark.parametrize("state", LoadState)
def test_a_load_enters_the_opened_states_once_and_leaves_them_at_the_end(state: LoadState) -> None:
    for following, does in STATES[state].transitions.values():
        assert does.count(Action.AWAIT_PROMPT_OR_END) == (following is LoadState.BEFORE_PROMPT)
        assert does.count(Action.FORGET) == (following is LoadState.OVER)
        if {Action.AWAIT_PROMPT_OR_END, Action.FORGET} & set(does):
            assert does[-1] in (Action.AWAIT_PROMPT_OR_END, Action.FORGET)


def test_an_action_that_brings_an_event_is_the_last() -> None:
    bring = {Action.CHOOSE_AND_SHOW_PAST, Action.OPEN_NEW_SESSION, Action.AWAIT_PROMPT_OR_END}
    assert not any(bring & set(does[:-1]) for row in STATES.values() for _, does in row.transitions.values())


def test_abandoned_loads_were_cancelled_and_hold_nothing() -> None:
    for state in ABANDONED_STATES:
        assert state in AWAITING - HOLDING
        before = {each for each, row in STATES.items() for to, _ in row.transitions.values() if to is state}
        assert before <= OVERTAKABLE_STATES


MAY_CHANGE = {"load_line_handler.py": {"lines", "compared_replay", "unechoed_letters"}}
"""What of a load others than ``LoadMachine`` change, without assigning it."""
CHANGES = {"add", "append", "clear", "close", "drop", "extend", "hold", "insert", "pop", "remove", "replace", "take"}
CHANGES |= {"end_message", "drop_tail", "release", "end", "try_take_repeated"}
CHANGES |= {
    name
    for name, function in vars(ComparedReplay).items()
    if callable(function) and not name.startswith("find_unrecorded")
}
"""Methods that change a buffer, a list, a ``ComparedReplay`` or something in that."""


def test_only_the_machine_assigns_and_only_the_line_handler_also_changes_contents() -> None:
    """The rule in ``load.py``: whoever else wants a change tells ``LoadMachine``."""
    package = Path(load_states.__file__).parent.parent
    request = Request(b"{}", RequestId("1"), acp.LOAD, {})
    names = set(vars(Load(request, "s", LoadPlan(acp.LOAD), has_transcript=True)))
    assert {"state", "answer_line", "lines"} <= names
    assigned: set[tuple[str, str]] = set()
    changed: dict[str, set[str]] = {}
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
                assigned |= {(path.name, name) for name in _find_attribute(node, names)}
            elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
                changed.setdefault(path.name, set()).update(_find_attribute(node.value, names))
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
                changed.setdefault(path.name, set()).update(_find_owner(node.func.value, names))
    assert {file for file, _ in assigned} == {"load_machine.py"}
    functions = [
        node for node in ast.walk(ast.parse(inspect.getsource(LoadMachine))) if isinstance(node, ast.FunctionDef)
    ]
    assert [function.name for function in functions if _assigns_state(function)] == ["_apply_event"]
    assert {file: of for file, of in changed.items() if of and file != "load_machine.py"} == MAY_CHANGE


def _assigns_state(function: ast.FunctionDef) -> bool:
    """Whether a function assigns the ``state`` of anything."""
    nodes = [node for node in ast.walk(function) if isinstance(node, ast.Attribute)]
    return any(node.attr == "state" and not isinstance(node.ctx, ast.Load) for node in nodes)


def _find_attribute(node: ast.expr, names: set[str]) -> set[str]:
    """The name of this attribute, if loads have one of that name. What an object has itself is no load's."""
    is_own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    return {node.attr} & names if isinstance(node, ast.Attribute) and not is_own else set()


def _find_owner(node: ast.expr, names: set[str]) -> set[str]:
    """The same for this attribute, or else for what has it, such as ``compared_replay`` for its ``comparison``."""
    deeper = _find_owner(node.value, names) if isinstance(node, ast.Attribute) else set()
    return _find_attribute(node, names) or deeper


def test_a_load_whose_request_id_is_used_again_is_the_latest_of_its_session() -> None:
    requests = [Request(b"{}", RequestId(id), acp.LOAD, {}) for id in ("1", "2", "1")]
    loads = [Load(each, "s", LoadPlan(acp.LOAD), has_transcript=True) for each in requests]
    registry = CurrentLoads()
    for load in loads:
        registry.add(load)
    assert registry.list_pending_of_session("s") == loads[1:]
    assert registry.list_earlier(loads[2]) == [loads[1]]
