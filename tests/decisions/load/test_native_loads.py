"""Native loads: compared, imported, replaced by the transcript on request, or passed."""

import json
from dataclasses import replace
from typing import Any

import pytest

from acp_proxy.comparison.whose_past import PastDecision, PastRule, WhosePast
from acp_proxy.decisions.capabilities import STORE, Modes
from acp_proxy.decisions.effects import (
    BeginTranscript,
    BeginTurn,
    ChooseAndShowPast,
    CloseTranscript,
    EndTurn,
    LookUpSession,
    RecordMessage,
    RecordNote,
    ReserveOutput,
    SaveAndIndex,
    StopShowingPast,
)
from acp_proxy.decisions.load import load_limits
from acp_proxy.decisions.load.load_limits import HELD_BYTES_LIMIT
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript import file_format
from tests.conversation import (
    AS_USUAL,
    LOADS,
    RESUMES,
    CoreConversation,
    Said,
    SimulatedSession,
    Step,
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
    notification,
    opened_note,
    permission,
    prompt,
    prompt_answer,
    raw,
    request,
    respell,
    result,
    resume,
    update,
)
from tests.decisions.load.loading import (
    GREETING,
    KEPT_OPENING,
    ONE,
    PAST,
    TURN_ONE,
    TURN_TWO,
    about_to_load,
    kept_lines,
    shown_note,
)

TOLD: list[Said] = [
    chunk("s", "a", "user_message_chunk"),
    respell(chunk("s", "b")),
    commands("s", "x"),
    update("s", "plan"),
]


def loading(
    stored: SimulatedSession | None = None, modes: Modes = AS_USUAL, capabilities: object = None
) -> CoreConversation:
    talk = CoreConversation(modes=modes).initialize(capabilities or LOADS)
    talk.stored["s"] = stored or SimulatedSession(says=PAST)
    talk.client.say(load(1, "s"))
    return talk


# --- comparison


def test_the_agents_replay_is_held_and_compared_after_its_answer() -> None:
    talk = CoreConversation().initialize(LOADS)
    talk.stored["s"] = SimulatedSession()
    step = talk.client.say(respell(load(1, "s")))
    assert step.asked == [LookUpSession(ONE, "s", asks_index=False)]
    assert step.to_agent == respell(load(1, "s"))
    for said in TOLD:
        assert talk.agent.say(said).to_client == b""
    step = talk.agent.say(result(1, {}))
    conversation = agent_lines(*(said for said in TOLD if b"available_commands" not in line(said)))
    assert (step.to_client, step.asked) == (b"", [ChooseAndShowPast(ONE, conversation, needs_comparison=True)])
    assert step.kept == [*KEPT_OPENING, agent_kept("s", TOLD[2])]


def test_a_replay_that_lacks_nothing_passes_with_states_and_later_updates_after_the_answer() -> None:
    talk = loading()
    told = [*map(respell, TURN_ONE), commands("s", "x"), *TURN_TWO]
    talk.agent.say(*told, result(1, {"x": 1.0}), chunk("s", "live"))
    step = talk.end_past(1)
    assert step.to_client == line(*told[:2], *TURN_TWO, result(1, {"x": 1.0}), commands("s", "x"), chunk("s", "live"))
    assert step.kept == [shown_note("agent", PastRule.REPLAY_HAS_ALL)]
    assert talk.open_transcripts == []


def test_the_tail_the_answer_and_the_states_follow_the_transcript() -> None:
    talk = loading()
    talk.agent.say(*TURN_ONE, commands("s", "x"), GREETING, result(1, {"x": 1.0}), chunk("s", "live"))
    talk.send_past(1, *PAST)
    step = talk.end_past(1, commands("s", "stored"))
    assert step.to_client == line(
        GREETING, result(1, {"x": 1.0}), commands("s", "stored"), commands("s", "x"), chunk("s", "live")
    )
    assert step.kept == [shown_note("transcript", PastRule.REPLAY_IS_WORSE)]


def test_an_empty_replay_counts_as_lost_history() -> None:
    talk = loading()
    assert talk.agent.say(result(1, {})).asked == [ChooseAndShowPast(ONE, needs_comparison=True)]
    assert talk.end_past(1).kept == [shown_note("transcript", PastRule.REPLAY_IS_WORSE)]


def test_updates_after_the_answer_are_shown_if_new_and_recorded_once() -> None:
    talk = loading()
    talk.agent.say(*TURN_ONE, result(1, {}))
    talk.send_past(1, *PAST)
    talk.end_past(1)
    assert talk.agent.say(*TURN_TWO).to_client == b"", "the client already has it"
    assert talk.agent.say(GREETING).to_client == line(GREETING)
    assert kept_lines(talk.client.say(prompt(2, "s"))) == [agent_kept("s", GREETING), client_kept("s", prompt(2, "s"))]


def test_a_turn_made_elsewhere_is_recorded_with_the_next_prompt() -> None:
    talk = loading()
    elsewhere = [chunk("s", "and commit it", "user_message_chunk"), chunk("s", "It is committed.")]
    told = [*TURN_ONE, *TURN_TWO, *elsewhere]
    talk.agent.say(*told, result(1, {}))
    assert talk.end_past(1).to_client == line(*told, result(1, {}))
    step = talk.client.say(prompt(2, "s"))
    assert step.kept == [
        *(agent_kept("s", said) for said in elsewhere),
        SaveAndIndex("s"),
        BeginTurn("s"),
        client_kept("s", prompt(2, "s")),
    ]


@pytest.mark.parametrize("ending", ["close", "load", "end"])
def test_new_updates_are_recorded_by_a_close_another_load_or_the_agents_end(ending: str) -> None:
    talk = loading()
    talk.agent.say(*TURN_ONE, *TURN_TWO, result(1, {}))
    talk.end_past(1)
    talk.agent.say(GREETING)
    if ending == "end":
        step = talk.end_agent()
    else:
        step = talk.client.say(load(2, "s") if ending == "load" else request(2, "session/close", {"sessionId": "s"}))
    assert kept_lines(step) == [agent_kept("s", GREETING)]


def test_new_updates_are_recorded_if_the_agent_ends_before_the_past_is_shown() -> None:
    talk = loading()
    talk.agent.say(*TURN_ONE, *TURN_TWO, result(1, {}), GREETING)
    assert kept_lines(talk.end_agent()) == []
    step = talk.end_past(1)
    assert step.to_client == line(*TURN_ONE, *TURN_TWO, result(1, {}), GREETING)
    assert kept_lines(step) == [agent_kept("s", GREETING)]


def test_a_replay_that_runs_into_a_turn_is_not_recorded() -> None:
    talk = loading()
    talk.agent.say(TURN_ONE[0], result(1, {}))
    talk.send_past(1, *PAST)
    talk.end_past(1)
    talk.client.say(prompt(2, "s", "once more"))
    new = [chunk("s", "once more", "user_message_chunk"), chunk("s", "As you like.")]
    step = talk.agent.say(TURN_ONE[1], *TURN_TWO, *new)
    step.add(talk.agent.say(prompt_answer(2)))
    assert step.to_client == line(TURN_ONE[1], *new, prompt_answer(2)), (
        "it may be the answer until the user message comes"
    )
    assert kept_lines(step) == [
        *(agent_kept("s", said) for said in new),
        agent_kept("s", prompt_answer(2), "session/prompt"),
    ]


@pytest.mark.parametrize("number", range(4))
def test_an_answer_that_the_agent_did_not_replay_is_sent_and_recorded_when_it_comes_again(number: int) -> None:
    talk = loading()
    talk.agent.say(*[*TURN_ONE, *TURN_TWO][:number], result(1, {}))
    talk.send_past(1, *PAST)
    talk.end_past(1)
    talk.client.say(prompt(2, "s", "and test it"))
    assert talk.agent.say(PAST[4]).to_client == line(PAST[4])
    talk.agent.say(prompt_answer(2))
    kept = kept_lines(talk.all)
    assert kept.count(agent_kept("s", PAST[4])) == 1
    assert kept.index(agent_kept("s", PAST[4])) < kept.index(agent_kept("s", prompt_answer(2), "session/prompt"))


@pytest.mark.parametrize("ending", ["permission", "prompt", "end"])
def test_an_answer_that_is_not_recorded_at_once_is_recorded_before_what_comes_next(ending: str) -> None:
    talk = loading()
    talk.agent.say(TURN_ONE[0], result(1, {}))
    talk.send_past(1, *PAST)
    talk.end_past(1)
    talk.client.say(prompt(2, "s", "mend it"))
    assert talk.agent.say(TURN_ONE[1]).kept == []
    if ending == "end":
        step = talk.end_agent()
    else:
        step = talk.agent.say(permission(0, "s")) if ending == "permission" else talk.client.say(prompt(3, "s"))
    assert kept_lines(step)[0] == agent_kept("s", TURN_ONE[1])


def test_a_null_result_becomes_an_object_and_other_bytes_stay() -> None:
    talk = loading()
    talk.agent.say(b' {"result":null,"id":1 ,"n":1.0}\r\n')
    assert talk.end_past(1).to_client == b' {"result":{},"id":1 ,"n":1.0}\r\n'


def test_the_agents_error_follows_the_held_updates() -> None:
    talk = loading()
    talk.agent.say(*TOLD)
    step = talk.agent.say(error(1, -32603))
    assert (step.to_client, step.kept) == (line(TOLD[0], TOLD[1], TOLD[3], TOLD[2], error(1, -32603)), [])
    assert talk.open_transcripts == []


def test_held_updates_are_not_lost_when_the_agent_ends() -> None:
    talk = loading()
    talk.agent.say(*TOLD)
    step = talk.end_agent()
    held = line(TOLD[0], TOLD[1], TOLD[3], TOLD[2])
    assert step.to_client.startswith(held)
    told = json.loads(step.to_client.removeprefix(held))
    assert (told["id"], told["error"]["code"]) == (1, -32603)
    assert talk.open_transcripts == []


def test_too_many_held_updates_pass_as_the_agents_replay() -> None:
    talk = loading()
    big = line(update("s", "plan", x="?")).replace(b"?", b"x" * (HELD_BYTES_LIMIT // 4))
    for each in (commands("s", "x"), big, big, big):
        assert talk.agent.say(each).to_client == b""
    assert talk.agent.say(big).to_client == big * 4 + line(commands("s", "x"))
    assert talk.agent.say(chunk("s", "more"), commands("s", "y")).to_client == line(
        chunk("s", "more"), commands("s", "y")
    )
    step = talk.agent.say(result(1, {}))
    assert (step.to_client, step.asked) == (line(result(1, {})), [CloseTranscript(ONE)])
    assert kept_lines(talk.client.say(prompt(2, "s"))) == [client_kept("s", prompt(2, "s"))]


def test_a_load_passes_if_the_transcript_cannot_be_read() -> None:
    talk = loading(SimulatedSession(trouble="EIO"))
    assert talk.all.to_agent.endswith(line(load(1, "s")))
    assert talk.agent.say(*TOLD).to_client == line(*TOLD)
    assert talk.agent.say(result(1, None)).to_client == line(result(1, None))
    assert talk.open_transcripts == []


def test_a_load_during_a_turn_passes_at_once() -> None:
    talk = CoreConversation().initialize(LOADS).open("s")
    talk.client.say(prompt(5, "s"), load(1, "s"))
    said: list[Said] = [chunk("s", "a"), permission(0, "s"), result(1, {}), chunk("s", "b")]
    assert talk.agent.say(*said).to_client == line(*said)
    assert agent_kept("s", chunk("s", "a")) in talk.all.kept
    assert talk.open_transcripts == []


@pytest.mark.parametrize("first", ["go", "mend it"])
def test_a_replay_in_the_turn_of_a_prompt_that_begins_like_the_first_one_is_not_recorded_again(first: str) -> None:
    talk = CoreConversation().initialize({"loadSession": True, **RESUMES})
    talk.stored["s"] = SimulatedSession(says=(prompt(90, "s", first), *PAST[1:]))
    talk.client.say(resume(1, "s"))
    talk.agent.say(result(1, {}))
    talk.client.say(prompt(5, "s", "go on"))
    replay: list[Said] = [chunk("s", first, "user_message_chunk"), PAST[1]]
    echo: list[Said] = [chunk("s", "go", "user_message_chunk"), chunk("s", " on", "user_message_chunk")]
    step = talk.agent.say(*replay, *echo, chunk("s", "I go on."))
    assert step.to_client == line(*replay, *echo, chunk("s", "I go on."))
    assert kept_lines(step) == [agent_kept("s", each) for each in (*echo, chunk("s", "I go on."))]


def test_the_echo_of_a_prompt_is_one_message_and_the_same_words_again_are_the_past() -> None:
    talk = CoreConversation().initialize({"loadSession": True, **RESUMES})
    talk.stored["s"] = SimulatedSession(says=PAST)
    talk.client.say(resume(1, "s"))
    talk.agent.say(result(1, {}))
    talk.client.say(prompt(5, "s", "mend it"))
    assert kept_lines(talk.agent.say(TURN_ONE[0])) == [agent_kept("s", TURN_ONE[0])]
    assert kept_lines(talk.agent.say(*TURN_ONE)) == []


def test_an_unanswered_cancelled_prompt_does_not_prevent_the_comparison() -> None:
    talk = CoreConversation().initialize(LOADS).open("s")
    talk.stored["s"] = SimulatedSession(says=PAST)
    talk.client.say(prompt(5, "s"), notification("session/cancel", {"sessionId": "s"}), load(1, "s"))
    assert talk.agent.say(*TURN_ONE, *TURN_TWO).to_client == b""
    talk.agent.say(result(1, {}))
    assert kept_lines(talk.end_past(1)) == []
    assert kept_lines(talk.client.say(prompt(6, "s"))) == [client_kept("s", prompt(6, "s"))]


def test_a_cancel_is_answered_at_once_and_the_rest_of_the_replay_is_dropped() -> None:
    talk = loading()
    talk.agent.say(chunk("s", "a"))
    assert talk.client.say(cancel(1)).refusals == [(1, -32800)]
    assert talk.agent.say(chunk("s", "b"), result(1, {})).to_client == b""
    talk = loading()
    talk.agent.say(*TURN_ONE, *TURN_TWO, result(1, {}))
    step = talk.client.say(cancel(1))
    assert (step.asked, step.refusals) == ([StopShowingPast(ONE), ReserveOutput(ONE)], [(1, -32800)])
    assert talk.end_past(1).to_client == b""


def test_that_a_session_was_handed_over_is_known_also_if_an_option_decides_whose_past_is_shown() -> None:
    talk = loading(SimulatedSession(says=PAST, moved=True), Modes(load=STORE))
    [wanted] = talk.agent.say(result(1, {})).asked
    assert isinstance(wanted, ChooseAndShowPast)
    assert (wanted.planned_decision, wanted.agent_lacks_past) == (
        PastDecision(WhosePast.TRANSCRIPT, PastRule.BY_OPTION),
        True,
    )


@pytest.mark.parametrize("is_compared_first", [True, False])
def test_the_late_rest_of_a_cancelled_loads_replay_is_hidden_whatever_comes_first(is_compared_first: bool) -> None:
    talk = loading()
    talk.agent.say(*TURN_ONE, update("s", "more_than_the_transcript_has"), result(1, {}))
    talk.output_is_busy = is_compared_first
    talk.client.say(cancel(1))
    talk.end_past(1)
    talk.free_output()
    assert talk.agent.say(*TURN_TWO).to_client == b""
    assert talk.agent.say(GREETING).to_client == line(GREETING)


def test_new_updates_after_a_load_cancelled_during_its_replay_are_recorded() -> None:
    talk = loading()
    talk.agent.say(*TURN_ONE, *TURN_TWO, result(1, {}), GREETING)
    assert talk.client.say(cancel(1)).to_client.endswith(line(GREETING))
    assert kept_lines(talk.client.say(prompt(2, "s"))) == [agent_kept("s", GREETING), client_kept("s", prompt(2, "s"))]


@pytest.mark.parametrize("ending", ["told", "cancelled"])
def test_new_updates_are_recorded_if_the_client_prompts_before_the_past_is_shown(ending: str) -> None:
    talk = loading()
    talk.agent.say(*TURN_ONE, *TURN_TWO, result(1, {}), GREETING)
    talk.client.say(prompt(2, "s"))
    step = talk.end_past(1) if ending == "told" else talk.client.say(cancel(1))
    assert kept_lines(step) == [agent_kept("s", GREETING)]
    assert step.to_client.endswith(line(GREETING))
    steered = [chunk("s", "mind the tests", "user_message_chunk"), chunk("s", "I do.")]
    assert kept_lines(talk.agent.say(*steered)) == [agent_kept("s", said) for said in steered]


def test_a_cancelled_loads_replay_is_not_taken_for_the_next_ones() -> None:
    talk = loading()
    talk.client.say(cancel(1), load(2, "s"))
    assert talk.agent.say(*TURN_ONE).to_client == b""
    step = talk.agent.say(result(1, {}), *TURN_ONE, *TURN_TWO, result(2, {}))
    assert step.asked == [
        ChooseAndShowPast(make_request_id(2), agent_lines(*TURN_ONE, *TURN_TWO, late=True), needs_comparison=True)
    ]
    assert talk.end_past(2).to_client == line(*TURN_ONE, *TURN_TWO, result(2, {}))
    assert kept_lines(talk.client.say(prompt(3, "s"))) == [client_kept("s", prompt(3, "s"))]


@pytest.mark.parametrize("is_busy", [False, True], ids=["at once", "while the client's output is busy"])
def test_a_load_that_follows_a_cancelled_and_never_answered_one_gets_all_that_is_told(is_busy: bool) -> None:
    talk = loading()
    talk.output_is_busy = is_busy
    talk.client.say(cancel(1), load(2, "s"))
    talk.free_output()
    talk.agent.say(*TURN_ONE, *TURN_TWO, result(2, {}), GREETING)
    talk.end_past(2)
    assert talk.all.to_client.endswith(line(*TURN_ONE, *TURN_TWO, result(2, {}), GREETING))
    assert kept_lines(talk.client.say(prompt(3, "s"))) == [agent_kept("s", GREETING), client_kept("s", prompt(3, "s"))]


def test_each_of_two_loads_at_once_gets_one_replay() -> None:
    talk = loading()
    talk.client.say(load(2, "s"))
    told = [*TURN_ONE, *TURN_TWO]
    talk.agent.say(*told, result(1, {}))
    assert talk.end_past(1).to_client == line(*told, result(1, {}))
    talk.agent.say(*told, result(2, {}))
    assert talk.end_past(2).to_client == line(*told, result(2, {}))
    assert kept_lines(talk.client.say(prompt(3, "s"))) == [client_kept("s", prompt(3, "s"))]


def test_new_updates_are_recorded_if_the_next_load_comes_before_the_past_is_shown() -> None:
    talk = loading()
    talk.agent.say(*TURN_ONE, *TURN_TWO, result(1, {}), GREETING)
    talk.client.say(load(2, "s"))
    talk.end_past(1)
    talk.stored["s"] = SimulatedSession(says=(*PAST, GREETING))
    told = [*TURN_ONE, *TURN_TWO, GREETING]
    talk.agent.say(*told, result(2, {}))
    assert talk.end_past(2).to_client == line(*told, result(2, {}))
    talk.client.say(prompt(3, "s"))
    assert kept_lines(talk.all) == [agent_kept("s", GREETING), client_kept("s", prompt(3, "s"))]


def test_repeated_loads_record_nothing_twice() -> None:
    talk = CoreConversation().initialize(LOADS).open("s")
    talk.stored["s"] = SimulatedSession(says=PAST)
    for id in (1, 2, 3):
        talk.client.say(load(id, "s"))
        talk.agent.say(TURN_ONE[0], result(id, {}), TURN_ONE[1], *TURN_TWO)
        talk.end_past(id)
    talk.client.say(prompt(4, "s"))
    assert kept_lines(talk.all) == [client_kept("s", prompt(4, "s"))]


def test_after_a_delete_the_rest_of_a_replay_passes_and_is_not_recorded() -> None:
    talk = CoreConversation().initialize(LOADS).open("s")
    talk.stored["s"] = SimulatedSession(says=PAST)
    talk.client.say(load(1, "s"))
    talk.agent.say(TURN_ONE[0], result(1, {}))
    talk.end_past(1)
    talk.client.say(delete(2, "s"))
    step = talk.agent.say(TURN_ONE[1], *TURN_TWO)
    assert (step.to_client, step.kept) == (line(TURN_ONE[1], *TURN_TWO), [])


def test_a_load_without_a_session_passes() -> None:
    talk = CoreConversation().initialize(LOADS)
    said = request(1, "session/load", {"sessionId": 5})
    assert talk.client.say(said).to_agent == line(said)


def test_a_load_of_a_deleted_session_does_not_reach_the_agent() -> None:
    talk = CoreConversation().initialize(LOADS)
    talk.client.say(delete(2, "s"))
    step = talk.client.say(load(1, "s"))
    assert (step.to_agent, step.refusals) == (b"", [(1, -32002)])


# --- forks


def test_a_fork_that_is_answered_with_an_open_session_settles_what_came_after_its_load() -> None:
    capabilities = {"loadSession": True, "sessionCapabilities": {"fork": {}}}
    talk = about_to_load(SimulatedSession(says=PAST), capabilities)
    talk.client.say(load(1, "s"))
    talk.agent.say(*TURN_ONE, *TURN_TWO, result(1, {}))
    talk.end_past(1)
    talk.agent.say(GREETING)
    talk.client.say(request(2, "session/fork", {"sessionId": "other", "cwd": "/w"}))
    assert agent_kept("s", GREETING) in talk.agent.say(result(2, {"sessionId": "s"})).kept


def test_a_forks_replay_of_its_parent_is_not_recorded() -> None:
    talk = CoreConversation().initialize(LOADS).open("s")
    talk.stored["s"] = SimulatedSession(says=PAST)
    talk.client.say(request(1, "session/fork", {"sessionId": "s", "cwd": "/w"}))
    told = [json.loads(line(said).replace(b'"s"', b'"f"')) for said in (*TURN_ONE, *TURN_TWO)]
    assert talk.agent.say(*told[:2]).to_client == line(*told[:2])
    step = talk.agent.say(result(1, {"sessionId": "f"}), *told[2:])
    assert step.to_client == line(result(1, {"sessionId": "f"}), *told[2:])
    step = talk.client.say(prompt(2, "f"))
    assert kept_lines(step) == [client_kept("f", prompt(2, "f"))]


# --- imports


def importing() -> CoreConversation:
    return loading(SimulatedSession(has_transcript=False))


def test_the_replay_of_an_unrecorded_session_passes_and_begins_its_transcript() -> None:
    talk = importing()
    for said in TOLD:
        step = talk.agent.say(said)
        assert (step.to_client, step.kept) == (line(said), [])
    step = talk.agent.say(result(1, None))
    assert (step.to_client, step.warnings) == (line(result(1, None)), [])
    assert step.kept == [
        BeginTranscript("s", "/w", [], file_format.IMPORTED),
        *(agent_kept("s", said) for said in (TOLD[0], TOLD[1], TOLD[3], TOLD[2])),
        RecordNote("s", opened_note("session/load")),
        SaveAndIndex("s"),
    ]
    assert talk.client.say(prompt(2, "s")).kept == [BeginTurn("s"), client_kept("s", prompt(2, "s"))]


def test_a_session_is_imported_once() -> None:
    talk = importing()
    talk.agent.say(*TOLD, result(1, {}))
    before = len(talk.all.kept)
    talk.stored["s"] = SimulatedSession(complete=False, says=tuple(TOLD))
    talk.client.say(load(2, "s"))
    assert talk.agent.say(*TOLD).to_client == b""
    talk.agent.say(result(2, {}))
    assert talk.end_past(2).to_client == line(TOLD[0], TOLD[1], TOLD[3], result(2, {}), TOLD[2])
    talk.client.say(prompt(3, "s"))
    assert kept_lines(Step(kept=talk.all.kept[before:])) == [agent_kept("s", TOLD[2]), client_kept("s", prompt(3, "s"))]


def test_updates_after_the_answer_are_imported_too() -> None:
    talk = importing()
    late = [chunk("s", "hm", "agent_thought_chunk"), chunk("s", "b"), *TURN_ONE]
    talk.agent.say(TOLD[0], result(1, {}), *late)
    talk.stored["s"] = SimulatedSession(complete=False, says=(TOLD[0],))
    kept = kept_lines(talk.client.say(prompt(2, "s")))
    assert kept == [*(agent_kept("s", said) for said in late), client_kept("s", prompt(2, "s"))]


@pytest.mark.parametrize("capabilities", [RESUMES, LOADS])
@pytest.mark.parametrize("told", [[GREETING, *TURN_ONE], [*TURN_ONE, GREETING], [TURN_ONE[1], *TURN_TWO]])
def test_a_replay_begins_a_transcript_wherever_the_answer_comes(capabilities: Any, told: Any) -> None:
    for number in range(len(told) + 1):
        talk = loading(SimulatedSession(has_transcript=False), capabilities=capabilities)
        talk.agent.say(*told[:number], result(1, {}))
        before = tuple(json.loads(record.raw) for record in kept_lines(talk.all))
        talk.stored["s"] = SimulatedSession(complete=False, says=before)
        talk.agent.say(*told[number:])
        talk.client.say(prompt(2, "s"))
        assert kept_lines(talk.all) == [*(agent_kept("s", said) for said in told), client_kept("s", prompt(2, "s"))]


@pytest.mark.parametrize("early", [0, 1, 6])
def test_a_transcript_begins_with_what_the_user_said_again_wherever_the_answer_comes(early: int) -> None:
    thought = chunk("s", "Now for the other part.", "agent_thought_chunk")
    told = [*TURN_ONE, TURN_ONE[0], thought, chunk("s", "Now the second part is done."), *TURN_TWO]
    talk = importing()
    talk.agent.say(*told[:early], result(1, {}))
    said = tuple(json.loads(record.raw) for record in kept_lines(talk.all))
    talk.stored["s"] = SimulatedSession(complete=False, says=said)
    talk.agent.say(*told[early:])
    talk.client.say(prompt(2, "s"))
    assert kept_lines(talk.all) == [*(agent_kept("s", said) for said in told), client_kept("s", prompt(2, "s"))]


@pytest.mark.parametrize("title", ["Deploy", "Run tests"])
def test_a_call_of_the_turn_is_not_one_of_a_late_replay_that_has_its_number(title: str) -> None:
    """The agent numbers its calls anew in each turn. Its replay, which it begins before the turn, ends in it."""
    run = update("s", "tool_call", toolCallId="call_0", title="Run tests", status="in_progress")
    end = update("s", "tool_call_update", toolCallId="call_0", status="completed")
    talk = about_to_load(SimulatedSession(says=(*PAST[:4], run, end, *PAST[4:])), LOADS)
    talk.client.say(load(1, "s"))
    talk.agent.say(TURN_ONE[0], result(1, {}))
    talk.end_past(1)
    talk.client.say(prompt(2, "s", "deploy it"))
    talk.agent.say(TURN_ONE[1], TURN_TWO[0], run, end, TURN_TWO[1])
    other = update("s", "tool_call", toolCallId="call_0", title=title, status="in_progress")
    assert talk.agent.say(other, end).to_client == line(other, end)


def test_a_call_of_the_turn_is_new_where_a_late_replay_sends_no_end_of_that_number() -> None:
    run = update("s", "tool_call", toolCallId="call_0", title="Run tests", status="in_progress")
    talk = about_to_load(SimulatedSession(says=(*PAST[:4], run, *PAST[4:])), LOADS)
    talk.client.say(load(1, "s"))
    talk.agent.say(TURN_ONE[0], result(1, {}))
    talk.end_past(1)
    talk.client.say(prompt(2, "s", "deploy it"))
    talk.agent.say(TURN_ONE[1], TURN_TWO[0], run, TURN_TWO[1])
    other = update("s", "tool_call", toolCallId="call_0", title="Deploy", status="in_progress")
    step = talk.agent.say(other)
    assert (step.to_client, step.kept) == (line(other), [agent_kept("s", other)])


def test_a_call_of_the_turn_is_new_where_the_transcript_has_remarks_that_no_replay_has() -> None:
    run = update("s", "tool_call", toolCallId="call_0", title="Run tests", status="in_progress")
    end = update("s", "tool_call_update", toolCallId="call_0", status="completed")
    remark = chunk("s", "A server could not be started: foo.")
    talk = about_to_load(SimulatedSession(says=(*PAST[:4], run, end, *PAST[4:], remark)), LOADS)
    talk.client.say(load(1, "s"))
    talk.agent.say(TURN_ONE[0], result(1, {}))
    talk.end_past(1)
    talk.client.say(prompt(2, "s", "deploy it"))
    talk.agent.say(TURN_ONE[1], TURN_TWO[0], run, end, TURN_TWO[1])
    step = talk.agent.say(run, end)
    assert (step.to_client, step.kept) == (line(run, end), [agent_kept("s", run), agent_kept("s", end)])


def test_a_call_of_the_turn_is_new_where_a_late_replay_has_its_number_twice_in_an_earlier_turn() -> None:
    """The model numbers its calls anew in each answer."""
    calls = [update("s", "tool_call", toolCallId=id, title="Bash", status="completed") for id in ("call_0", "call_1")]
    turn = [calls[0], chunk("s", "Let me look at it."), *calls]
    said = [prompt(89, "s", "look at it"), *turn, prompt_answer(89), *PAST]
    talk = about_to_load(SimulatedSession(says=tuple(said)), LOADS)
    talk.client.say(load(1, "s"))
    talk.agent.say(chunk("s", "look at it", "user_message_chunk"), result(1, {}))
    talk.end_past(1)
    talk.client.say(prompt(2, "s", "deploy it"))
    talk.agent.say(*turn, *TURN_ONE, *TURN_TWO)
    run = update("s", "tool_call", toolCallId="call_0", title="Bash", status="in_progress")
    step = talk.agent.say(run)
    assert (step.to_client, step.kept) == (line(run), [agent_kept("s", run)])


def test_a_transcript_begins_with_all_that_precedes_the_first_words_said_again() -> None:
    """The answer to the repeated first prompt begins as that to another one: this is no second replay."""
    told = [TURN_ONE[0], chunk("s", "Here is my plan."), TURN_TWO[0], chunk("s", "Let me look."), TURN_TWO[1]]
    told += [TURN_ONE[0], chunk("s", "Let me look."), chunk("s", "All of it is finished.")]
    talk = importing()
    talk.agent.say(told[0], result(1, {}))
    talk.stored["s"] = SimulatedSession(complete=False, says=(told[0],))
    talk.agent.say(*told[1:])
    talk.client.say(prompt(2, "s"))
    assert kept_lines(talk.all) == [*(agent_kept("s", said) for said in told), client_kept("s", prompt(2, "s"))]


def test_a_call_that_comes_twice_in_a_late_replay_is_not_recorded_again() -> None:
    run = update("s", "tool_call", toolCallId="call_0", title="Run tests", status="completed")
    talk = about_to_load(SimulatedSession(says=(*PAST[:4], run, run, *PAST[4:])), LOADS)
    talk.client.say(load(1, "s"))
    talk.agent.say(TURN_ONE[0], result(1, {}))
    talk.end_past(1)
    talk.client.say(prompt(2, "s", "deploy it"))
    step = talk.agent.say(TURN_ONE[1], TURN_TWO[0], run, run, TURN_TWO[1])
    assert step.to_client == line(TURN_ONE[1])
    answer = chunk("s", "Deployed it.")
    talk.agent.say(answer)
    assert kept_lines(talk.all) == [client_kept("s", prompt(2, "s", "deploy it")), agent_kept("s", answer)]


def test_a_history_that_begins_with_a_compaction_begins_a_transcript_once() -> None:
    told = [TURN_ONE[0], update("s", "compaction_update", status="completed"), TURN_ONE[1], *TURN_TWO]
    talk = importing()
    talk.agent.say(told[0], result(1, {}))
    talk.stored["s"] = SimulatedSession(complete=False, says=(told[0],))
    talk.agent.say(*told[1:], *told)
    talk.client.say(prompt(2, "s"))
    assert kept_lines(talk.all) == [*(agent_kept("s", said) for said in told), client_kept("s", prompt(2, "s"))]


@pytest.mark.parametrize("early", range(6))
def test_context_begins_no_transcript_wherever_the_answer_comes(early: int) -> None:
    context = chunk("s", "<session_context>\nMonday\n</session_context>", "user_message_chunk")
    response = chunk("s", "[Function Response: run]", "user_message_chunk")
    call = update("s", "tool_call", toolCallId="c", title="Run")
    told = [context, TURN_ONE[0], call, response, TURN_ONE[1]]
    talk = importing()
    assert talk.agent.say(*told[:early]).to_client == line(*told[:early])
    talk.agent.say(result(1, {}))
    said = tuple(json.loads(record.raw) for record in kept_lines(talk.all))
    talk.stored["s"] = SimulatedSession(complete=False, says=said)
    talk.agent.say(*told[early:])
    talk.client.say(prompt(2, "s"))
    kept = [*(agent_kept("s", said) for said in (TURN_ONE[0], call, TURN_ONE[1])), client_kept("s", prompt(2, "s"))]
    assert kept_lines(talk.all) == kept


def test_an_error_imports_nothing() -> None:
    talk = importing()
    talk.agent.say(*TOLD)
    step = talk.agent.say(error(1, -32603))
    assert (step.to_client, talk.all.kept[1:]) == (line(error(1, -32603)), [])


def test_nothing_is_imported_once_a_turn_has_begun() -> None:
    talk = importing()
    talk.agent.say(TOLD[0])
    talk.client.say(prompt(2, "s"))
    talk.agent.say(chunk("s", "live"), result(1, {}))
    kept = [record for record in talk.all.kept if isinstance(record, RecordMessage)]
    assert kept == [client_kept("s", prompt(2, "s")), agent_kept("s", chunk("s", "live"))]


# --- served from the store on request


def test_on_request_only_new_updates_of_a_native_load_pass() -> None:
    talk = loading(modes=Modes(load=STORE))
    told = [*TURN_ONE, *TURN_TWO]
    assert talk.agent.say(*told, commands("s", "x"), GREETING).to_client == b""
    asked = ChooseAndShowPast(
        ONE,
        agent_lines(*told, GREETING),
        needs_comparison=True,
        planned_decision=PastDecision(WhosePast.TRANSCRIPT, PastRule.BY_OPTION),
    )
    assert talk.agent.say(result(1, None)).asked == [asked]
    assert talk.end_past(1).to_client == line(GREETING, result(1, {}), commands("s", "x"))


def test_updates_that_are_not_shown_have_no_limit() -> None:
    talk = loading(modes=Modes(load=STORE))
    big = line(update("s", "agent_message_chunk", x="?")).replace(b"?", b"x" * (HELD_BYTES_LIMIT // 8))
    for _ in range(9):
        assert talk.agent.say(big).to_client == b""
    (asked,) = talk.agent.say(result(1, {})).asked
    assert isinstance(asked, ChooseAndShowPast)
    assert asked.planned_decision == PastDecision(WhosePast.TRANSCRIPT, PastRule.BY_OPTION)


@pytest.mark.parametrize("modes", [Modes(load=STORE), Modes()])
def test_too_much_state_before_the_answer_does_not_cost_a_transcript_that_is_to_be_shown(
    monkeypatch: pytest.MonkeyPatch, modes: Modes
) -> None:
    """The replay was dropped as too large and needless: what waits beside it leaves, and the transcript is shown."""
    monkeypatch.setattr(load_limits, "HELD_BYTES_LIMIT", 500)
    talk = loading(SimulatedSession(says=PAST, moved=modes.load != STORE), modes)
    state = line(commands("s", "x" * 600))
    assert talk.agent.say(*TURN_ONE, *TURN_TWO, state, state, GREETING).to_client == state * 2
    (asked,) = talk.agent.say(result(1, {})).asked
    assert isinstance(asked, ChooseAndShowPast)
    assert asked.planned_decision is not None
    assert asked.planned_decision.whose_past is WhosePast.TRANSCRIPT


@pytest.mark.parametrize("modes", [Modes(load=STORE), Modes()])
@pytest.mark.parametrize("interruption", ["prompt", "request of the agent"])
def test_what_comes_before_the_answer_does_not_cost_a_transcript_that_is_to_be_shown(
    monkeypatch: pytest.MonkeyPatch, modes: Modes, interruption: str
) -> None:
    """The replay was dropped as too large and needless, so what is left of it must not pass in its place."""
    talk = loading(SimulatedSession(says=PAST, moved=modes.load != STORE), modes)
    with monkeypatch.context() as limited:
        limited.setattr(load_limits, "HELD_BYTES_LIMIT", 100)
        talk.agent.say(*TURN_ONE)
    talk.agent.say(*TURN_TWO)
    if interruption == "prompt":
        talk.client.say(prompt(2, "s"))
    else:
        assert talk.agent.say(permission(70, "s")).to_client == line(permission(70, "s"))
    (asked,) = talk.agent.say(result(1, {})).asked
    assert isinstance(asked, ChooseAndShowPast)
    assert asked.planned_decision is not None
    assert asked.planned_decision.whose_past is WhosePast.TRANSCRIPT
    assert talk.end_past(1).to_client == line(result(1, {}))


@pytest.mark.parametrize("stored", [SimulatedSession(says=PAST), SimulatedSession(says=PAST, moved=True)])
def test_a_replay_that_comes_in_a_turn_is_whole_if_the_transcript_is_not_shown_after_all(
    stored: SimulatedSession,
) -> None:
    """An option, or a handover, asks for the transcript, until another prompt meets the rest of the replay, which then
    passes."""
    talk = loading(stored, Modes() if stored.moved else Modes(load=STORE))
    talk.client.say(prompt(2, "s"))
    talk.agent.say(*TURN_ONE)
    talk.agent.say(prompt_answer(2))
    talk.agent.say(*TURN_TWO)
    talk.client.say(prompt(3, "s"))
    talk.agent.say(result(1, {}))
    assert talk.being_shown == []
    for told in (*TURN_ONE, *TURN_TWO):
        assert line(told) in talk.all.to_client


def test_what_is_recorded_of_a_load_in_a_turn_does_not_end_the_turn() -> None:
    talk = loading(SimulatedSession(says=PAST, behind=True))
    talk.agent.say(*TURN_ONE, *TURN_TWO, result(1, {}), GREETING)
    talk.client.say(prompt(2, "s"))
    talk.end_past(1)
    talk.agent.say(chunk("s", "Of course."))
    in_turn = talk.all.kept[talk.all.kept.index(BeginTurn("s")) :]
    assert raw(GREETING) in [record.raw for record in kept_lines(talk.all)]
    assert EndTurn("s") not in in_turn
    assert EndTurn("s") in talk.agent.say(prompt_answer(2)).kept


def test_on_request_a_load_is_sent_as_a_resume_if_possible() -> None:
    both = LOADS | RESUMES
    assert loading(modes=Modes(load=STORE), capabilities=both).all.to_agent.endswith(line(resume(1, "s")))


@pytest.mark.parametrize(
    "stored", [SimulatedSession(), SimulatedSession(complete=False), SimulatedSession(has_transcript=False)]
)
def test_a_resume_served_by_a_native_load_shows_nothing(stored: SimulatedSession) -> None:
    talk = CoreConversation(modes=Modes(resume=STORE)).initialize(LOADS)
    talk.stored["s"] = replace(stored, says=tuple(TOLD))
    assert talk.client.say(resume(1, "s")).to_agent == line(load(1, "s"))
    assert talk.agent.say(*TOLD).to_client == b""
    step = talk.agent.say(result(1, None))
    if stored.has_transcript:
        conversation = agent_lines(TOLD[0], TOLD[1], TOLD[3])
        assert step.asked == [
            ChooseAndShowPast(
                ONE,
                conversation,
                needs_comparison=True,
                planned_decision=PastDecision(WhosePast.NOTHING, PastRule.BY_OPTION),
            )
        ]
        step = talk.end_past(1)
    assert step.to_client == line(result(1, {}), TOLD[2])
    assert (step.warnings, talk.open_transcripts) == ([], [])


ELSEWHERE: list[Said] = [chunk("s", "and now the docs", "user_message_chunk"), chunk("s", "They are written as well.")]
"""A turn that the transcript lacks, as an agent replays it."""

UNANSWERED = chunk("s", "one more thing", "user_message_chunk")


def resuming() -> CoreConversation:
    """A resume that the agent serves by a load; it has not answered."""
    talk = CoreConversation(modes=Modes(resume=STORE)).initialize(LOADS)
    talk.stored["s"] = SimulatedSession(says=PAST)
    talk.client.say(resume(1, "s"))
    return talk


@pytest.mark.parametrize(
    ("tail", "kept"),
    [
        (ELSEWHERE, ELSEWHERE),
        ([GREETING], []),  # what comes before the answer, without a user's message, is the agent's rewriting
        ([*ELSEWHERE, UNANSWERED], [*ELSEWHERE, UNANSWERED]),
    ],
)
def test_a_resume_served_by_a_native_load_records_the_tail_without_sending_it(
    tail: list[Said], kept: list[Said]
) -> None:
    talk = resuming()
    assert talk.agent.say(*TURN_ONE, *TURN_TWO, *tail, result(1, {})).to_client == b""
    assert talk.end_past(1).to_client == line(result(1, {}))
    step = talk.client.say(prompt(2, "s"))
    assert step.to_client == b""
    recorded = [record.raw for record in kept_lines(step) if record.peer is Peer.AGENT]
    assert recorded == [raw(each) for each in kept]


def test_a_resume_served_by_a_native_load_sends_what_is_new_after_its_answer() -> None:
    talk = resuming()
    talk.agent.say(*TURN_ONE, TURN_TWO[0], result(1, {}))
    talk.end_past(1)
    assert talk.agent.say(TURN_TWO[1]).to_client == b""
    assert talk.agent.say(GREETING).to_client == line(GREETING)
    assert agent_kept("s", GREETING) in talk.client.say(prompt(2, "s")).kept


def test_a_users_message_before_the_answer_to_a_resume_is_not_sent_with_what_the_agent_says_after_it() -> None:
    talk = resuming()
    talk.agent.say(*TURN_ONE, *TURN_TWO, UNANSWERED, result(1, {}))
    talk.end_past(1)
    assert talk.agent.say(GREETING).to_client == line(GREETING)
    step = talk.client.say(prompt(2, "s"))
    assert kept_lines(step)[:2] == [agent_kept("s", UNANSWERED), agent_kept("s", GREETING)]


@pytest.mark.parametrize("method", ["fs/read_text_file", "terminal/create"])
def test_a_replay_that_lacks_a_turn_is_held_while_the_agent_uses_a_file_or_a_terminal(method: str) -> None:
    talk = loading()
    asked = request("f", method, {"sessionId": "s"})
    assert talk.agent.say(*TURN_ONE, asked).to_client == line(asked)
    talk.agent.say(result(1, {}))
    assert talk.being_shown


@pytest.mark.parametrize("asked", [permission("p", "s"), request("f", "fs/read_text_file", {"sessionId": "s"})])
def test_a_resume_served_by_a_native_load_shows_nothing_when_the_agent_asks_the_client(asked: Said) -> None:
    talk = resuming()
    assert talk.agent.say(*TURN_ONE, asked, *TURN_TWO, *ELSEWHERE, result(1, {})).to_client == line(asked)
    assert talk.end_past(1).to_client == line(result(1, {}))
    assert agent_kept("s", ELSEWHERE[1]) in talk.client.say(prompt(2, "s")).kept


def test_a_prompt_before_the_answer_to_a_resume_shows_nothing_of_the_agents_replay() -> None:
    talk = resuming()
    talk.agent.say(*TURN_ONE)
    assert talk.client.say(prompt(2, "s")).to_client == b""
    answer = chunk("s", "Of course.")
    assert talk.agent.say(result(1, {}), answer, prompt_answer(2)).to_client == line(
        result(1, {}), answer, prompt_answer(2)
    )


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ([], [*TURN_ONE, *TURN_TWO], []),
        ([], TURN_TWO, []),
        (TURN_ONE, TURN_TWO, []),
        (TURN_ONE[:1], [*TURN_ONE[1:], *TURN_TWO], TURN_ONE[1:]),  # words alone prove nothing
    ],
)
def test_a_prompt_before_the_answer_to_a_resume_shows_nothing_of_the_rest_of_the_agents_replay(
    before: list[Said], after: list[Said], shown: list[Said]
) -> None:
    talk = resuming()
    talk.agent.say(*before)
    talk.client.say(prompt(2, "s"))
    answer = chunk("s", "Of course.")
    step = talk.agent.say(*after, result(1, {}), answer, prompt_answer(2))
    if talk.being_shown:
        step = talk.end_past(1)
    assert step.to_client == line(*shown, result(1, {}), answer, prompt_answer(2))
    recorded = [record.raw for record in kept_lines(talk.all) if record.peer is Peer.AGENT]
    assert recorded == [*map(raw, [*shown, answer, prompt_answer(2)])]


@pytest.mark.parametrize("prompts", [False, True])
def test_a_resume_of_which_too_much_waits_shows_no_replay_and_still_catches_up(
    monkeypatch: pytest.MonkeyPatch, prompts: bool
) -> None:
    monkeypatch.setattr(load_limits, "HELD_BYTES_LIMIT", 1000)
    talk = CoreConversation().initialize(RESUMES | LOADS)
    talk.stored["s"] = SimulatedSession(says=PAST, behind=True)
    talk.client.say(resume(1, "s"))
    assert talk.agent.say(*TURN_ONE, *[GREETING] * 9, *TURN_TWO).to_client == b""
    if prompts:
        assert talk.client.say(prompt(2, "s")).to_client == b""
    [wanted] = talk.agent.say(result(1, {})).asked
    assert isinstance(wanted, ChooseAndShowPast)
    assert wanted.planned_decision == PastDecision(WhosePast.NOTHING, PastRule.HANDED_OVER)
    assert wanted.makes_handover_record
    assert talk.end_past(1, handover_record="What was said elsewhere.").to_client == line(result(1, {}))


def test_a_transcript_that_could_not_be_read_in_a_turn_is_still_asked_for() -> None:
    talk = resuming()
    talk.client.say(prompt(2, "s"))
    talk.stored["s"] = SimulatedSession(has_transcript=False)
    talk.agent.say(*TURN_ONE)
    talk.agent.say(result(1, {}))
    assert (talk.being_shown, talk.all.warnings) == ([ONE], [])


def test_a_refused_resume_served_by_a_native_load_shows_what_the_agent_said() -> None:
    talk = resuming()
    assert talk.agent.say(GREETING, error(1, -32000, "log in")).to_client == line(GREETING, error(1, -32000, "log in"))


def test_on_request_native_list_and_delete_are_served_from_the_store() -> None:
    capabilities: dict[str, Any] = {"sessionCapabilities": {"list": {}, "delete": {}}}
    talk = CoreConversation(modes=Modes(list=STORE, delete=STORE)).initialize(capabilities)
    for asked in (request(1, "session/list"), delete(2, "s")):
        step = talk.client.say(asked)
        assert step.to_agent == b""
        assert b'"result"' in step.to_client


# --- ids that change


def test_a_session_restored_under_another_id_keeps_the_clients_id() -> None:
    talk = CoreConversation().initialize(RESUMES)
    talk.stored["s"] = SimulatedSession()
    talk.client.say(load(1, "s"))
    talk.agent.say(b'{"id":1,"result":{"sessionId":"n","n":1.0}}\n')
    assert talk.end_past(1).to_client == b'{"id":1,"result":{"sessionId":"s","n":1.0}}\n'
    assert talk.client.say(prompt(2, "s")).to_agent == line(prompt(2, "n"))
    step = talk.agent.say(chunk("n", "a"), prompt_answer(2))
    assert step.to_client == line(chunk("s", "a"), prompt_answer(2))
    assert step.kept[0] == agent_kept("s", chunk("s", "a"))
    assert talk.client.say(load(3, "s")).to_agent == line(resume(3, "n"))


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
def test_a_replay_is_not_recorded_again_where_acp_proxy_adds_nothing(method: str) -> None:
    talk = CoreConversation(serves=False).initialize(LOADS)
    talk.stored["s"] = SimulatedSession(says=PAST)
    talk.client.say(load(1, "s") | {"method": method})
    step = talk.agent.say(*TURN_ONE, *TURN_TWO, result(1, {}))
    assert step.to_client == line(*TURN_ONE, *TURN_TWO, result(1, {}))
    assert agent_kept("s", TURN_ONE[1]) not in [*step.kept, *talk.client.say(prompt(2, "s")).kept]


# A turn that was cut, and that the agent finished.

CUT: tuple[Said, ...] = (*PAST[:4], chunk("s", "All the tests"), update("s", "tool_call", toolCallId="1", title="Test"))
FINISHED: list[Said] = [*TURN_ONE, TURN_TWO[0], chunk("s", "All the tests have passed.")]
"""What the agent replays of it; it leaves the call out."""
REST = chunk("s", " have passed.")


def test_the_rest_of_a_turn_that_was_cut_is_shown_and_recorded() -> None:
    talk = loading(SimulatedSession(says=CUT, open=False))
    talk.agent.say(*FINISHED, result(1, {}))
    step = talk.end_past(1)
    assert step.to_client == line(REST, result(1, {}))
    assert step.kept == [shown_note("transcript", PastRule.REPLAY_IS_WORSE)]
    assert kept_lines(talk.client.say(prompt(2, "s", "go on"))) == [
        agent_kept("s", REST),
        client_kept("s", prompt(2, "s", "go on")),
    ]


def test_a_rest_that_was_recorded_is_known_at_the_next_load() -> None:
    talk = loading(SimulatedSession(says=(*CUT, REST), open=False))
    talk.agent.say(*FINISHED, result(1, {}))
    assert talk.end_past(1).to_client == line(result(1, {}))
    assert kept_lines(talk.client.say(prompt(2, "s"))) == [client_kept("s", prompt(2, "s"))]


@pytest.mark.parametrize("is_open", [True, None])
def test_the_rest_of_a_turn_that_may_be_running_elsewhere_is_shown_and_not_recorded(is_open: bool | None) -> None:
    talk = loading(SimulatedSession(says=CUT, open=is_open))
    talk.agent.say(*FINISHED, result(1, {}))
    assert talk.end_past(1).to_client == line(REST, result(1, {}))
    assert kept_lines(talk.client.say(prompt(2, "s"))) == [client_kept("s", prompt(2, "s"))]


def test_a_turn_is_not_completed_by_a_second_load_in_a_process_which_has_the_transcript_open_itself() -> None:
    talk = loading(SimulatedSession(says=CUT, open=True))
    talk.agent.say(*FINISHED, result(1, {}))
    talk.end_past(1)
    talk.stored["s"] = SimulatedSession(says=CUT, open=False)
    talk.client.say(load(2, "s"))
    talk.agent.say(*FINISHED, result(2, {}))
    talk.end_past(2)
    assert kept_lines(talk.client.say(prompt(3, "s"))) == [client_kept("s", prompt(3, "s"))]
