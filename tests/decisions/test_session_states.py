"""What is remembered of sessions, and of their prompts."""

import pytest

from acp_proxy.decisions import session_states, terminal_notes
from acp_proxy.decisions.session_states import PromptsInTurn, SessionStates
from acp_proxy.protocol import acp
from acp_proxy.protocol.jsonrpc import RequestId


def test_a_prompt_that_is_over_before_its_answer_ends_with_that() -> None:
    prompts = PromptsInTurn()
    prompts.add(RequestId("1"))
    prompts.begin_work()
    assert not prompts.end_work()
    assert prompts
    assert prompts.accept(RequestId("1"))
    assert not prompts


def test_a_prompt_that_came_after_the_work_goes_on_when_that_ends() -> None:
    prompts = PromptsInTurn()
    prompts.add(RequestId("1"))
    prompts.begin_work()
    prompts.add(RequestId("2"))
    assert not prompts.accept(RequestId("1"))
    assert prompts.end_work()
    assert not prompts.accept(RequestId("2"))
    assert prompts.accepted_ids == [RequestId("2")]


def test_cancelled_prompts_are_open_until_they_are_dropped() -> None:
    prompts = PromptsInTurn()
    prompts.add(RequestId("1"))
    prompts.cancel_all()
    prompts.add(RequestId("2"))
    prompts.drop_cancelled()
    prompts.end(RequestId("1"))
    assert prompts
    prompts.end(RequestId("2"))
    assert not prompts


def test_the_session_that_was_used_longest_ago_and_is_in_no_turn_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_states, "REMEMBERED_LIMIT", 2 * 2048 + 2)
    sessions = SessionStates()
    sessions.find_or_add("a")[0].prompts.add(RequestId("1"))
    sessions.find_or_add("b")
    _, forgotten = sessions.find_or_add("c")
    assert list(forgotten) == ["b"]
    assert set(sessions) == {"a", "c"}


def test_after_all_are_forgotten_there_is_room_for_as_many_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_states, "REMEMBERED_LIMIT", 2 * 2048 + 2)
    sessions = SessionStates()
    for session in "ab":
        sessions.find_or_add(session)
    sessions.forget_all()
    assert [forgotten for session in "cd" for forgotten in sessions.find_or_add(session)[1]] == []


def test_after_all_are_forgotten_as_many_unopened_ones_are_admitted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_states, "UNOPENED_LIMIT", 1)
    sessions = SessionStates()
    assert sessions.try_admit_session("a")
    assert not sessions.try_admit_session("b")
    sessions.forget_all()
    assert sessions.try_admit_session("c")


def test_after_all_are_forgotten_their_terminals_take_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    output = "x" * 1_000
    monkeypatch.setattr(terminal_notes, "OUTPUT_LIMIT", 512 + len(output))
    sessions = SessionStates()

    def keep_output(session_id: str) -> str | None:
        terminals, params = sessions.find_or_add(session_id)[0].terminals, {"terminalId": "t"}
        terminals.handle_answer(acp.TERMINAL_CREATE, {}, params)
        terminals.handle_answer(acp.TERMINAL_OUTPUT, params, {"output": output})
        terminal = terminals.find(params)
        return terminal.output if terminal is not None else None

    assert keep_output("a") == output
    assert keep_output("b") is None
    sessions.forget_all()
    assert keep_output("c") == output
