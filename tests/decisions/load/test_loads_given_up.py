"""Loads that the client cancels, and loads of a session in a turn."""

import json

import pytest

from acp_proxy.comparison.whose_past import PastDecision, PastRule, WhosePast
from acp_proxy.decisions.effects import BeginTurn, ChooseAndShowPast, EndTurn, ReserveOutput, StopShowingPast
from acp_proxy.decisions.events import PastChosen
from tests.conversation import (
    Said,
    SimulatedSession,
    agent_kept,
    cancel,
    chunk,
    client_kept,
    commands,
    error,
    line,
    load,
    notification,
    permission,
    prompt,
    prompt_answer,
    request,
    respell,
    result,
    title_update,
    update,
)
from tests.decisions.load.loading import (
    KEPT_OPENING,
    ONE,
    about_to_load,
    loading,
    showing_past,
)

# Cancelled loads.


def test_a_load_cancelled_before_the_agents_answer_is_answered_at_once_and_only_once() -> None:
    talk = loading()
    talk.agent.say(commands("s", "x"))
    step = talk.client.say(cancel(1))
    assert step.to_agent == line(cancel(1))
    assert step.refusals == [(1, -32800)]
    assert step.to_client.endswith(line(commands("s", "x")))
    step = talk.agent.say(result(1, {}))
    assert step.to_client == b""
    assert step.kept == [*KEPT_OPENING, agent_kept("s", commands("s", "x"))]
    assert talk.open_transcripts == []
    assert talk.agent.say(chunk("s", "live")).to_client == line(chunk("s", "live"))


def test_the_agents_late_error_is_dropped_too() -> None:
    talk = loading()
    talk.client.say(cancel(1))
    step = talk.agent.say(error(1, -32800))
    assert (step.to_client, step.kept, talk.open_transcripts) == (b"", [], [])


def test_after_a_cancel_the_agents_replay_is_dropped_and_state_updates_pass() -> None:
    talk = loading(SimulatedSession(complete=False))
    talk.agent.say(chunk("s", "told"))
    talk.client.say(cancel(1))
    assert talk.agent.say(chunk("s", "told"), commands("s", "x")).to_client == line(commands("s", "x"))
    assert talk.agent.say(result(1, {})).kept == [*KEPT_OPENING, agent_kept("s", commands("s", "x"))]


def test_a_load_cancelled_while_the_past_is_shown_is_answered_at_once_and_gets_no_more_of_it() -> None:
    talk = showing_past()
    talk.send_past(1, chunk("s", "told"))
    talk.agent.say(chunk("s", "live"))
    step = talk.client.say(cancel(1))
    assert step.asked == [StopShowingPast(ONE), ReserveOutput(ONE)]
    assert step.refusals == [(1, -32800)]
    assert step.to_client.endswith(line(chunk("s", "live")))
    assert talk.send_past(1, chunk("s", "more")).to_client == b""
    assert talk.end_past(1, commands("s", "stored")).to_client == b""
    assert talk.agent.say(chunk("s", "later")).to_client == line(chunk("s", "later"))


def test_a_second_cancel_changes_nothing() -> None:
    talk = loading()
    talk.client.say(cancel(1))
    step = talk.client.say(cancel(1))
    assert (step.to_agent, step.to_client) == (line(cancel(1)), b"")


@pytest.mark.parametrize("id", [2, "1", 1.0, True, None, [1], {"id": 1}])
def test_a_cancel_of_another_request_only_passes(id: object) -> None:
    talk = loading()
    step = talk.client.say(cancel(id))
    assert (step.to_agent, step.to_client) == (line(cancel(id)), b"")
    talk.agent.say(result(1, {}))
    assert talk.end_past(1).to_client == line(result(1, {}))


def test_a_notification_that_only_looks_like_a_cancel_passes() -> None:
    said = cancel(1) | {"method": "$/progress"}
    step = loading().client.say(said)
    assert (step.to_agent, step.to_client) == (line(said), b"")


@pytest.mark.parametrize("params", [None, {}, [1], {"id": 1}, 1])
def test_a_cancel_without_a_request_id_only_passes(params: object) -> None:
    step = loading().client.say(notification("$/cancel_request", params))
    assert (step.to_agent, step.to_client) == (line(notification("$/cancel_request", params)), b"")


@pytest.mark.parametrize("id", ["1.0", "1e2", "12345678901234567890123", '"\\u0031"', "null", "true"])
def test_a_load_with_any_id_can_be_cancelled(id: str) -> None:
    talk = about_to_load()
    talk.client.say(f'{{"id":{id},"method":"session/load","params":{{"sessionId":"s"}}}}\n'.encode())
    said = f'{{"method":"$/cancel_request","params":{{"requestId": {id} }}}}\n'.encode()
    told = talk.client.say(said).to_client
    assert json.loads(told)["error"]["code"] == -32800
    assert json.dumps(json.loads(told)["id"]) == json.dumps(json.loads(id))


@pytest.mark.parametrize("id", ["7", "1e2", "12345678901234567890123"])
def test_the_agents_cancel_follows_its_request_with_any_id_that_waits_for_the_past(id: str) -> None:
    talk = showing_past()
    talk.agent.say(f'{{"id":{id},"method":"session/request_permission","params":{{"sessionId":"s"}}}}\n'.encode())
    said = f'{{"method":"$/cancel_request","params":{{"requestId":{id}}}}}\n'.encode()
    assert talk.agent.say(said).to_client == b""
    assert talk.end_past(1).to_client.endswith(said)


def test_an_id_can_be_used_again_after_a_load_cancelled_while_the_past_is_shown() -> None:
    talk = showing_past()
    talk.client.say(cancel(1))
    talk.client.say(request(1, "session/set_mode", {"sessionId": "s", "modeId": "plan"}))
    assert talk.agent.say(result(1, {})).to_client == line(result(1, {}))


def test_the_past_shown_for_a_cancelled_load_does_not_answer_a_new_one_with_the_same_id() -> None:
    talk = showing_past()
    talk.client.say(cancel(1))
    talk.client.say(load(1, "s"))
    assert (
        talk.core.handle(
            PastChosen(
                ONE, PastDecision(WhosePast.TRANSCRIPT, PastRule.REPLAY_IS_WORSE), None, [line(commands("s", "x"))]
            )
        )
        == []
    )
    assert talk.agent.say(result(1, {})).asked == [ChooseAndShowPast(ONE)]
    assert talk.end_past(1).to_client == line(result(1, {}))


def test_a_load_and_another_request_with_one_id_are_answered_oldest_first() -> None:
    talk = about_to_load()
    talk.client.say(request(1, "session/set_mode", {"sessionId": "t"}), load(1, "s"))
    assert talk.agent.say(result(1, None)).to_client == line(result(1, None))
    assert talk.agent.say(result(1, {})).asked == [ChooseAndShowPast(ONE)]


def test_a_session_can_be_prompted_after_a_cancelled_and_unanswered_load() -> None:
    talk = about_to_load().open("s")
    talk.client.say(load(1, "s"))
    talk.client.say(cancel(1))
    talk.client.say(prompt(2, "s"))
    said = [chunk("s", "a"), permission(0, "s"), update("s", "tool_call_update"), prompt_answer(2), chunk("s", "b")]
    step = talk.agent.say(*said[:4])
    assert step.to_client == line(*said[:3], title_update("s"), said[3])
    assert agent_kept("s", chunk("s", "a")) in step.kept


# --- loads during a turn


def test_a_load_during_a_turn_loses_nothing_of_the_turn() -> None:
    talk = about_to_load().open("s")
    talk.client.say(prompt(5, "s"))
    talk.agent.say(chunk("s", "before"))
    assert talk.client.say(load(1, "s")).to_agent == b""  # nobody could tell what it sends for that from the turn
    step = talk.agent.say(chunk("s", "one"), respell(chunk("s", "two")))
    assert step.to_client == b""
    assert step.kept == [agent_kept("s", chunk("s", "one")), agent_kept("s", respell(chunk("s", "two")))]
    step = talk.agent.say(chunk("s", "three"), prompt_answer(5), chunk("s", "four"))
    assert step.to_client == b""
    assert step.kept == [
        agent_kept("s", chunk("s", "three")),
        agent_kept("s", prompt_answer(5), "session/prompt"),
        EndTurn("s"),
        agent_kept("s", chunk("s", "four")),
    ]
    talk.send_past(1, chunk("s", "before"))
    assert talk.end_past(1).to_client == line(
        result(1, {}),
        chunk("s", "one"),
        respell(chunk("s", "two")),
        chunk("s", "three"),
        title_update("s"),
        prompt_answer(5),
        chunk("s", "four"),
    )
    assert talk.agent.say(chunk("s", "five")).to_client == line(chunk("s", "five"))
    assert talk.client.say(prompt(6, "s")).kept == [BeginTurn("s"), client_kept("s", prompt(6, "s"))]


def test_an_agents_request_in_a_turn_follows_the_answer_to_the_load() -> None:
    talk = about_to_load().open("s")
    talk.client.say(prompt(5, "s"))
    talk.client.say(load(1, "s"))
    assert talk.agent.say(permission(0, "s")).to_client == b""
    assert talk.end_past(1).to_client == line(result(1, {}), permission(0, "s"))


def test_a_turn_that_ends_before_the_answer_to_the_load_loses_nothing() -> None:
    talk = about_to_load().open("s")
    talk.client.say(prompt(5, "s"))
    talk.client.say(load(1, "s"))
    talk.agent.say(prompt_answer(5), commands("s", "x"))
    assert agent_kept("s", chunk("s", "late")) in talk.agent.say(chunk("s", "late")).kept
    assert talk.end_past(1).to_client == line(
        result(1, {}), title_update("s"), prompt_answer(5), commands("s", "x"), chunk("s", "late")
    )


def test_cancelling_a_load_during_a_turn_releases_the_turn_at_once() -> None:
    talk = about_to_load().open("s")
    talk.client.say(prompt(5, "s"))
    talk.client.say(load(1, "s"))
    talk.agent.say(chunk("s", "one"))
    assert talk.client.say(cancel(1)).to_client.endswith(line(chunk("s", "one")))
    step = talk.agent.say(chunk("s", "two"), prompt_answer(5))
    assert step.to_client == line(chunk("s", "two"), title_update("s"), prompt_answer(5))
    assert agent_kept("s", chunk("s", "two")) in step.kept


def test_updates_follow_what_a_cancelled_load_held_while_the_output_was_busy() -> None:
    talk = about_to_load().open("s")
    talk.client.say(prompt(5, "s"))
    talk.client.say(load(1, "s"))
    talk.agent.say(chunk("s", "one"))
    talk.output_is_busy = True
    talk.client.say(cancel(1))
    assert talk.agent.say(chunk("s", "two"), chunk("t", "other")).to_client == line(chunk("t", "other"))
    step = talk.free_output()
    assert step.refusals == [(1, -32800)]
    assert step.to_client.endswith(b"}}\n" + line(chunk("s", "one"), chunk("s", "two")))
    assert talk.agent.say(chunk("s", "three")).to_client == line(chunk("s", "three"))
    assert talk.client.say(cancel(1)).asked == []


@pytest.mark.parametrize("answer", [result(1, {}), error(1, -32603)])
def test_the_agents_answer_releases_a_cancelled_load_before_the_output_is_free(answer: Said) -> None:
    talk = loading()
    talk.agent.say(commands("s", "one"))
    talk.output_is_busy = True
    talk.client.say(cancel(1))
    step = talk.agent.say(answer, commands("s", "two"))
    assert step.refusals == [(1, -32800)]
    assert step.to_client.endswith(b"}}\n" + line(commands("s", "one"), commands("s", "two")))
    assert talk.free_output().to_client == b""


def test_the_past_shown_for_a_cancelled_load_releases_what_it_held() -> None:
    talk = showing_past()
    talk.agent.say(chunk("s", "one"))
    talk.output_is_busy = True
    talk.client.say(cancel(1))
    step = talk.end_past(1)
    assert step.refusals == [(1, -32800)]
    assert step.to_client.endswith(b"}}\n" + line(chunk("s", "one")))
    assert talk.free_output().to_client == b""


def test_a_cancelled_load_keeps_its_place_until_the_output_is_free() -> None:
    talk = showing_past()
    talk.agent.say(chunk("s", "one"))
    talk.client.say(load(2, "s"))
    talk.agent.say(commands("s", "two"))
    talk.output_is_busy = True
    talk.client.say(cancel(2))
    talk.agent.say(commands("s", "three"))
    talk.free_output()
    assert talk.end_past(1).to_client == line(
        result(1, {}), chunk("s", "one"), commands("s", "two"), commands("s", "three")
    )


def test_a_refused_load_releases_what_it_held() -> None:
    talk = loading()
    talk.agent.say(commands("s", "one"))
    assert talk.agent.say(error(1, -32603), chunk("s", "two")).to_client == line(
        commands("s", "one"), error(1, -32603), chunk("s", "two")
    )


def test_a_close_just_before_a_load_keeps_its_answer_and_nothing_is_sent_twice() -> None:
    talk = about_to_load().open("s")
    close = request(4, "session/close", {"sessionId": "s"})
    talk.client.say(close, load(1, "s"))
    assert talk.agent.say(result(4, {}), result(1, {})).to_client == line(result(4, {}))
    talk.send_past(1, chunk("s", "told"))
    assert talk.end_past(1).to_client == line(result(1, {}))
