"""While the past is shown: updates and prompts, other loads, deletes, the agent's end, too many held updates."""

import json

import pytest

from acp_proxy.comparison.whose_past import PastRule
from acp_proxy.decisions.effects import (
    ChooseAndShowPast,
    CloseTranscript,
    DeleteSession,
    StopShowingPast,
)
from acp_proxy.decisions.load.load_limits import HELD_BYTES_LIMIT
from tests.conversation import (
    LOADS,
    Said,
    SimulatedSession,
    agent_kept,
    agent_lines,
    cancel,
    chunk,
    client_kept,
    commands,
    delete,
    error,
    line,
    load,
    make_request_id,
    permission,
    prompt,
    prompt_answer,
    request,
    respell,
    result,
    resume,
    update,
)
from tests.decisions.load.loading import (
    GREETING,
    ONE,
    PAST,
    TURN_ONE,
    TURN_TWO,
    about_to_load,
    kept_lines,
    loading,
    showing_past,
    shown_note,
)

# Messages while the past is shown.


@pytest.mark.parametrize("method", ["session/set_mode", "_vendor/x"])
def test_answers_outside_a_turn_do_not_wait_for_a_load(method: str) -> None:
    talk = showing_past()
    talk.client.say(request(2, method, {"sessionId": "s"}))
    talk.agent.say(chunk("s", "held"))
    assert talk.agent.say(result(2, {})).to_client == line(result(2, {}))
    assert talk.end_past(1).to_client == line(result(1, {}), chunk("s", "held"))


def test_updates_while_the_past_is_shown_follow_the_answer_in_order() -> None:
    talk = showing_past()
    said: list[Said] = [
        chunk("s", "one"),
        permission(0, "s"),
        respell(commands("s", "x")),
        request(1, "terminal/create", {"sessionId": "s"}),
        update("s", "tool_call"),
    ]
    assert talk.agent.say(*said).to_client == b""
    assert talk.end_past(1, commands("s", "stored")).to_client == line(result(1, {}), commands("s", "stored"), *said)


def test_updates_while_the_past_is_shown_are_recorded_once_known_to_be_new() -> None:
    talk = showing_past(SimulatedSession(says=PAST))
    told = [*TURN_ONE, chunk("s", "rewritten"), *TURN_TWO, GREETING]
    step = talk.agent.say(permission(0, "s"), *told, commands("s", "x"))
    assert step.kept == [agent_kept("s", permission(0, "s")), agent_kept("s", commands("s", "x"))]
    assert talk.end_past(1).kept == [shown_note("transcript", PastRule.REPLAY_IS_WORSE)]
    assert kept_lines(talk.client.say(prompt(2, "s"))) == [agent_kept("s", GREETING), client_kept("s", prompt(2, "s"))]


@pytest.mark.parametrize("together", [True, False])
def test_a_prompt_sent_after_a_load_is_answered_after_it(together: bool) -> None:
    talk = about_to_load()
    if together:
        step = talk.client.say(load(1, "s"), prompt(2, "s"))
    else:
        step = talk.client.say(load(1, "s"))
        step.add(talk.client.say(prompt(2, "s")))
    assert step.to_agent == line(resume(1, "s"), prompt(2, "s"))
    assert talk.kept_when_found[ONE] == talk.all.kept[:1]
    said: list[Said] = [chunk("s", "one"), permission(0, "s"), chunk("s", "two"), prompt_answer(2), commands("s", "x")]
    assert talk.agent.say(result(1, {}), *said).to_client == b""
    talk.send_past(1, chunk("s", "told"))
    assert talk.end_past(1, commands("s", "stored")).to_client == line(result(1, {}), commands("s", "stored"), *said)
    assert agent_kept("s", chunk("s", "one")) in talk.all.kept


def test_updates_for_a_prompt_sent_after_a_load_survive_if_they_precede_the_loads_answer() -> None:
    talk = loading()
    talk.client.say(prompt(2, "s"))
    step = talk.agent.say(chunk("s", "one"), prompt_answer(2))
    assert (step.to_client, step.kept[0]) == (b"", agent_kept("s", chunk("s", "one")))
    talk.agent.say(result(1, {}))
    assert talk.end_past(1).to_client == line(result(1, {}), chunk("s", "one"), prompt_answer(2))


def test_a_cancel_read_together_with_its_load_counts() -> None:
    talk = about_to_load()
    step = talk.client.say(load(1, "s"), cancel(1))
    assert step.to_agent == line(resume(1, "s"), cancel(1))
    assert step.refusals == [(1, -32800)]


def test_loads_and_prompts_read_together_keep_their_order() -> None:
    talk = about_to_load().open("t")
    talk.stored["u"] = SimulatedSession(deleted=True)
    step = talk.client.say(prompt(1, "t"), load(2, "s"), prompt(3, "s"), load(4, "u"), load(5, "t"), prompt(6, "t"))
    assert step.to_agent == line(prompt(1, "t"), resume(2, "s"), prompt(3, "s"), prompt(6, "t"))
    assert step.refusals == [(4, -32002)]


def test_lines_after_a_refused_load_go_to_the_agent() -> None:
    step = about_to_load(SimulatedSession(trouble="EIO")).client.say(load(1, "s"), prompt(2, "s"))
    assert step.refusals == [(1, -32603)]
    assert step.to_agent == line(prompt(2, "s"))


def test_other_lines_pass_while_the_store_looks_a_session_up() -> None:
    talk = about_to_load(SimulatedSession(slow=True)).open("t")
    others: list[Said] = [prompt(3, "t"), result(0, {}), request(4, "authenticate"), b"no JSON\n"]
    assert talk.client.say(load(1, "s"), *others).to_agent == line(*others)
    assert talk.finish_lookup(1).to_agent == line(resume(1, "s"))


def test_the_id_of_a_load_being_looked_up_is_in_use() -> None:
    talk = about_to_load(SimulatedSession(slow=True))
    talk.client.say(load(1, "s"))
    assert talk.client.say(load(1, "s")).refusals == [(1, -32600)]
    assert talk.client.say(resume(1, "s")).to_agent == line(resume(1, "s"))


def test_a_repeated_answer_of_the_store_is_ignored() -> None:
    talk = about_to_load(SimulatedSession(slow=True))
    talk.client.say(load(1, "s"))
    assert talk.finish_lookup(1, SimulatedSession(trouble="ETIMEDOUT")).refusals == [(1, -32603)]
    assert talk.finish_lookup(1).done == []


def test_two_sessions_are_loaded_at_once() -> None:
    talk = about_to_load()
    talk.stored["t"] = SimulatedSession()
    talk.client.say(load(1, "s"), load(2, "t"))
    assert talk.agent.say(result(2, {}), result(1, {})).asked == [
        ChooseAndShowPast(make_request_id(2)),
        ChooseAndShowPast(ONE),
    ]
    talk.agent.say(chunk("s", "s"), chunk("t", "t"))
    assert talk.end_past(1).to_client == line(result(1, {}), chunk("s", "s"))
    assert talk.end_past(2).to_client == line(result(2, {}), chunk("t", "t"))


# --- the same session twice


def test_the_end_of_a_turn_that_two_loads_replay_under_other_ids_is_recorded_once() -> None:
    cut, user = prompt(90, "s", "mend it"), TURN_ONE[0]
    first, second = (update("s", "tool_call", toolCallId=id, title="Read") for id in ("a", "b"))
    talk = about_to_load(SimulatedSession(says=(cut,), open=False), LOADS)
    talk.client.say(load(1, "s"), load(2, "s"))
    talk.agent.say(user, first, result(1, {}))
    assert kept_lines(talk.end_past(1)) == [agent_kept("s", first)]
    talk.stored["s"] = SimulatedSession(says=(cut, first))
    talk.agent.say(user, second, result(2, {}))
    talk.end_past(2)
    assert kept_lines(talk.client.say(prompt(3, "s"))) == [client_kept("s", prompt(3, "s"))]


def test_what_another_process_has_recorded_since_a_load_is_not_recorded_again() -> None:
    words = chunk("s", "It is mended now.")
    talk = about_to_load(SimulatedSession(says=(prompt(90, "s", "mend it"),), open=True), LOADS)
    talk.client.say(load(1, "s"))
    talk.agent.say(TURN_ONE[0], result(1, {}))
    talk.end_past(1)
    assert talk.agent.say(words).to_client == line(words)
    talk.stored["s"] = SimulatedSession(says=(prompt(90, "s", "mend it"), words))
    assert kept_lines(talk.client.say(prompt(3, "s"))) == [client_kept("s", prompt(3, "s"))]


@pytest.mark.parametrize("cancels", [False, True], ids=["two loads at once", "a load, its cancel, and a load"])
def test_the_second_replay_is_in_order_if_the_rest_of_the_first_comes_before_its_beginning(cancels: bool) -> None:
    talk = about_to_load(SimulatedSession(says=PAST), LOADS)
    talk.client.say(load(1, "s"), *([cancel(1)] if cancels else []), load(2, "s"))
    first, *others = (*TURN_ONE, *TURN_TWO)
    talk.agent.say(first, result(1, {}))  # as gemini replays: one message before the answer, the rest after it
    if not cancels:
        talk.end_past(1, rule=PastRule.REPLAY_IS_WORSE)
    talk.agent.say(*others, first)
    [wanted] = [each for each in talk.agent.say(result(2, {})).asked if isinstance(each, ChooseAndShowPast)]
    assert [told for told, _ in wanted.updates] == [line(each) for each in (first, *others)]
    step = talk.end_past(2, rule=PastRule.REPLAY_HAS_ALL)
    assert step.to_client.endswith(line(first, *others, result(2, {})))
    assert talk.agent.say(*others).to_client == b""


def test_a_second_replay_with_new_lines_comes_once() -> None:
    """gemini's second replay has lines that its first one lacks. After a prompt, nothing is left out for that."""
    talk = about_to_load(SimulatedSession(says=PAST), LOADS)
    talk.client.say(load(1, "s"), load(2, "s"))
    first, *others = (*TURN_ONE, *TURN_TWO)
    talk.agent.say(first, result(1, {}))
    talk.end_past(1, rule=PastRule.REPLAY_IS_WORSE)
    talk.agent.say(*others, first)
    talk.agent.say(result(2, {}))
    talk.end_past(2, rule=PastRule.REPLAY_HAS_ALL)
    new = chunk("s", "[Function Call: shell]")
    answer, *rest = others
    assert talk.agent.say(answer, new, rest[0]).to_client == line(new)
    talk.client.say(prompt(3, "s"))
    assert talk.agent.say(rest[1], prompt_answer(3)).to_client == line(rest[1], prompt_answer(3))


CALLING = (
    prompt(90, "s", "mend it"),
    update("s", "tool_call", toolCallId="c", title="Run"),
    update("s", "tool_call_update", toolCallId="c", status="completed"),
    chunk("s", "It is mended now, all of it."),
    prompt_answer(90),
    prompt(91, "s", "go on"),
    chunk("s", "I went on, and it is done."),
    prompt_answer(91),
)


@pytest.mark.parametrize("comes", [False, True], ids=["the rest never comes", "the rest comes later"])
@pytest.mark.parametrize(
    "new",
    [
        (
            update("s", "tool_call", toolCallId="k", title="Watch"),
            update("s", "tool_call_update", toolCallId="k", status="completed"),
        ),
        (chunk("s", "go on", "user_message_chunk"), chunk("s", "There is nothing left to do, I say.")),
    ],
    ids=["a call", "a turn made elsewhere"],
)
def test_what_is_new_is_shown_where_the_rest_of_a_replay_says_the_same_further_on(
    new: tuple[Said, ...], comes: bool
) -> None:
    first, *others = (
        chunk("s", "mend it", "user_message_chunk"),
        *CALLING[1:4],
        chunk("s", "go on", "user_message_chunk"),
        CALLING[6],
    )
    talk = about_to_load(SimulatedSession(says=CALLING), LOADS)
    talk.client.say(load(1, "s"), load(2, "s"))
    talk.agent.say(first, result(1, {}))
    talk.end_past(1)
    talk.agent.say(*others, first)
    talk.agent.say(result(2, {}))
    talk.end_past(2)
    shown = talk.agent.say(*new, *(others if comes else ())).to_client + talk.client.say(prompt(3, "s")).to_client
    assert shown == line(*new)


def test_the_rest_of_a_replay_with_a_call_is_recorded_once_if_it_comes_twice() -> None:
    """The agent answers after its first message, as gemini does, and sends the rest for each of two loads."""
    run = update("s", "tool_call", toolCallId="c", title="Run", status="completed")
    first, *rest = (*TURN_ONE, TURN_TWO[0], run, TURN_TWO[1])
    talk = about_to_load(SimulatedSession(says=(*PAST[:4], run, *PAST[4:])), LOADS)
    talk.client.say(load(1, "s"), load(2, "s"))
    for id in (1, 2):
        talk.agent.say(first, result(id, {}))
        talk.end_past(id)
    talk.agent.say(*rest, *rest)
    assert kept_lines(talk.client.say(prompt(3, "s"))) == [client_kept("s", prompt(3, "s"))]


def test_new_words_are_whole_where_some_of_them_are_in_the_rest_of_a_replay() -> None:
    talk = about_to_load(SimulatedSession(says=PAST), LOADS)
    talk.client.say(load(1, "s"), load(2, "s"))
    first, *others = (TURN_ONE[0], *(chunk("s", text) for text in ("It is ", "mended ", "now, ", "all ", "of it.")))
    talk.agent.say(first, result(1, {}))
    talk.end_past(1)
    talk.agent.say(*others, first)
    talk.agent.say(result(2, {}))
    talk.end_past(2)
    new = [chunk("s", text) for text in ("Note: ", "all ", "the servers ", "mended ", "their disks.")]
    assert talk.agent.say(*new).to_client == line(*new)
    assert kept_lines(talk.client.say(prompt(3, "s")))[:-1] == [agent_kept("s", part) for part in new]


def test_what_follows_a_message_that_the_second_replay_has_in_another_form_is_not_new() -> None:
    talk = about_to_load(SimulatedSession(says=PAST), LOADS)
    talk.client.say(load(1, "s"), load(2, "s"))
    first, answer, *others = (*TURN_ONE, *TURN_TWO)
    other_answer = json.loads(json.dumps(answer))
    other_answer["params"]["update"]["_meta"] = {"at": 2}
    talk.agent.say(first, result(1, {}))
    talk.end_past(1)
    talk.agent.say(answer, *others, first, result(2, {}))
    talk.end_past(2)
    assert talk.agent.say(other_answer, *others).to_client == line(other_answer)


def test_the_second_replay_is_compared_in_order_if_it_has_no_user_messages() -> None:
    talk = about_to_load(SimulatedSession(says=PAST), LOADS)
    talk.client.say(load(1, "s"), load(2, "s"))
    first, *others = (TURN_ONE[1], TURN_TWO[1], chunk("s", "And done."))
    talk.agent.say(first, result(1, {}))
    talk.end_past(1, rule=PastRule.REPLAY_IS_WORSE)
    talk.agent.say(*others, first)
    [wanted] = [each for each in talk.agent.say(result(2, {})).asked if isinstance(each, ChooseAndShowPast)]
    assert [told for told, _ in wanted.updates] == [line(each) for each in (first, *others)]
    talk.end_past(2, rule=PastRule.REPLAY_IS_WORSE)
    assert talk.agent.say(*others).to_client == b""
    assert talk.agent.say(chunk("s", "And more.")).to_client == line(chunk("s", "And more."))


def test_what_came_for_a_cancelled_load_before_the_next_one_was_sent_is_not_the_replay_of_that() -> None:
    talk = about_to_load(SimulatedSession(says=PAST), LOADS)
    talk.client.say(load(1, "s"), cancel(1))
    talk.agent.say(*TURN_ONE)  # and then the first turn is taken back elsewhere
    talk.client.say(load(2, "s"))
    step = talk.agent.say(*TURN_TWO, result(2, {}))
    assert step.asked == [ChooseAndShowPast(make_request_id(2), agent_lines(*TURN_TWO), needs_comparison=True)]


def test_what_came_for_a_cancelled_load_that_the_agent_answers_is_not_missing_in_the_next_replay() -> None:
    talk = about_to_load(SimulatedSession(says=PAST), LOADS)
    talk.client.say(load(1, "s"), cancel(1))
    talk.agent.say(*TURN_ONE)
    talk.client.say(load(2, "s"), cancel(2))
    talk.client.say(load(3, "s"))
    talk.agent.say(error(1, -32800))
    step = talk.agent.say(*TURN_TWO, result(3, {}))  # and never answers the second
    assert step.asked == [ChooseAndShowPast(make_request_id(3), agent_lines(*TURN_TWO), needs_comparison=True)]


# --- deletes while the past is shown


def test_a_delete_while_the_past_is_shown_ends_that_and_nothing_more_is_recorded() -> None:
    talk = showing_past()
    step = talk.client.say(delete(2, "s"))
    assert step.asked == [StopShowingPast(ONE), DeleteSession("s", make_request_id(2))]
    assert talk.send_past(1, chunk("s", "told")).to_client == b""
    assert talk.agent.say(chunk("s", "live")).kept == []
    assert talk.end_past(1).to_client == line(result(1, {}), chunk("s", "live"))


def test_a_delete_before_the_agents_answer_leaves_nothing_to_show() -> None:
    talk = loading()
    talk.client.say(delete(2, "s"))
    assert talk.agent.say(result(1, {})).kept == []
    assert talk.send_past(1, chunk("s", "told")).to_client == b""
    assert talk.end_past(1).to_client == line(result(1, {}))


def test_a_native_delete_stops_showing_the_past_too() -> None:
    talk = about_to_load(capabilities={"sessionCapabilities": {"resume": {}, "delete": {}}})
    talk.client.say(load(1, "s"))
    talk.agent.say(result(1, {}))
    talk.client.say(delete(2, "s"))
    step = talk.agent.say(result(2, {}))
    assert step.asked == [StopShowingPast(ONE), DeleteSession("s")]
    assert step.to_client == line(result(2, {}))
    assert talk.send_past(1, chunk("s", "told")).to_client == b""
    assert talk.end_past(1).to_client == line(result(1, {}))


# --- the agent's end


def test_when_the_agent_ends_an_unanswered_load_fails_after_its_held_updates() -> None:
    talk = loading()
    talk.agent.say(commands("s", "x"))
    step = talk.end_agent()
    assert step.to_client.startswith(line(commands("s", "x")))
    assert step.refusals == [(1, -32603)]
    assert talk.open_transcripts == []


def test_when_the_agent_ends_a_cancelled_load_is_not_answered_again() -> None:
    talk = loading()
    talk.client.say(cancel(1))
    assert talk.end_agent().to_client == b""


def test_when_the_agent_ends_a_load_being_looked_up_is_answered() -> None:
    talk = about_to_load(SimulatedSession(slow=True))
    talk.client.say(load(1, "s"))
    assert talk.end_agent().refusals == [(1, -32603)]
    step = talk.finish_lookup(1)
    assert (step.to_client, step.to_agent) == (b"", b"")


def test_when_the_agent_ends_two_requests_with_one_id_are_both_answered() -> None:
    talk = about_to_load()
    talk.client.say(request(1, "session/set_mode", {"sessionId": "t"}), load(1, "s"))
    talk.client.say(cancel(1))
    assert talk.end_agent().refusals == [(1, -32603)]


# Limits on held updates.

BIG = b"x" * (HELD_BYTES_LIMIT // 8)


def big(kind: str) -> bytes:
    return line(update("s", kind, x="?")).replace(b"?", BIG)


def test_too_many_held_updates_stop_reading_until_the_past_is_shown() -> None:
    talk = showing_past()
    said = big("agent_message_chunk")
    holds_too_much = []
    for _ in range(8):
        talk.agent.say(said)
        holds_too_much.append(talk.core.must_pause_agent)
    assert holds_too_much == [False] * 7 + [True]
    assert talk.end_past(1).to_client == line(result(1, {})) + said * 8
    holds_too_much.append(talk.core.must_pause_agent)
    assert holds_too_much[-1] is False


def test_too_many_updates_before_the_agents_answer_pass_as_its_replay() -> None:
    talk = loading(SimulatedSession(complete=False))
    said = big("agent_message_chunk")
    talk.agent.say(commands("s", "x"))
    for _ in range(7):
        assert talk.agent.say(said).to_client == b""
    assert talk.agent.say(said).to_client == said * 8 + line(commands("s", "x"))
    assert talk.agent.say(chunk("s", "more"), commands("s", "y")).to_client == line(
        chunk("s", "more"), commands("s", "y")
    )
    assert not talk.core.must_pause_agent
    step = talk.agent.say(result(1, {}))
    assert (step.to_client, step.asked, step.warnings) == (line(result(1, {})), [CloseTranscript(ONE)], [])
