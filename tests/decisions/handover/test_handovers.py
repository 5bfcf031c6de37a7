"""Handovers: sessions that the agent cannot restore continue in new ones."""

import json
from typing import Any

import pytest

from acp_proxy.comparison.whose_past import PastDecision, PastRule, WhosePast
from acp_proxy.decisions.capabilities import ALWAYS, NEVER, HandoverMode, Modes
from acp_proxy.decisions.effects import (
    BeginTranscript,
    BeginTurn,
    ChooseAndShowPast,
    EndTurn,
    RecordMessage,
    RecordNote,
    StopShowingPast,
)
from acp_proxy.decisions.handover import handovers
from acp_proxy.decisions.handover.handovers import ATTACHED_LIMIT, Handovers
from acp_proxy.protocol.jsonrpc import Peer, Request
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import NoteType
from acp_proxy.transcript.handover_record_text import ATTACHED, END, INTRODUCTION
from acp_proxy.transcript.titles import HANDOVER_RECORD_BEGINNINGS
from tests.conversation import (
    AS_USUAL,
    LOADS,
    RESUMES,
    CoreConversation,
    Said,
    SimulatedSession,
    Step,
    agent_kept,
    cancel,
    chunk,
    client_kept,
    commands,
    delete,
    error,
    line,
    load,
    make_request_id,
    new,
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

ONE = make_request_id(1)
OURS = "acp-proxy/1"
SHOW_HANDED_OVER = ChooseAndShowPast(
    ONE,
    planned_decision=PastDecision(WhosePast.TRANSCRIPT, PastRule.HANDED_OVER),
    agent_lacks_past=True,
    makes_handover_record=True,
)
HANDOVER_RECORD = f"{INTRODUCTION}\n\nUser:\n> über “all” of it\n\n{END}\n"
BEGINNING, NEXT = HANDOVER_RECORD[:6], HANDOVER_RECORD[6:10]


def about_to_load(
    stored: SimulatedSession | None = None, capabilities: object = None, modes: Modes = AS_USUAL
) -> CoreConversation:
    talk = CoreConversation(modes=modes).initialize(capabilities)
    talk.stored["s"] = stored or SimulatedSession()
    return talk


def opening(stored: SimulatedSession | None = None) -> CoreConversation:
    """The agent was asked for a new session and has not answered."""
    talk = about_to_load(stored)
    talk.client.say(load(1, "s"))
    return talk


def showing_past() -> CoreConversation:
    talk = opening()
    talk.agent.say(result(OURS, {"sessionId": "n"}))
    assert talk.being_shown == [ONE]
    return talk


def hand_over() -> CoreConversation:
    talk = showing_past()
    talk.end_past(1, handover_record=HANDOVER_RECORD)
    return talk


def client_messages(step: Step) -> list[Any]:
    return [json.loads(one) for one in step.to_client.splitlines()]


def prompt_with_handover_record(id: object, session: str, text: str = "hello") -> dict[str, Any]:
    blocks = [{"type": "text", "text": HANDOVER_RECORD}, {"type": "text", "text": text}]
    return request(id, "session/prompt", {"sessionId": session, "prompt": blocks})


# --- a new session


def test_a_load_opens_a_new_session_the_past_is_shown_and_then_it_is_answered() -> None:
    talk = about_to_load()
    step = talk.client.say(load(1, "s"))
    assert json.loads(step.to_agent) == new(OURS)
    assert (step.to_client, step.kept) == (b"", [])
    modes = {"currentModeId": "plan"}
    step = talk.agent.say(result(OURS, {"sessionId": "n", "modes": modes, "configOptions": [], "x": 1}))
    assert step.asked == [SHOW_HANDED_OVER]
    assert step.to_client == b""
    assert step.kept == [
        BeginTranscript("s", "/w", [], file_format.PARTIAL),
        RecordNote("s", opened_note("session/load", anew=True, modes=modes, configOptions=[])),
    ]
    talk.send_past(1, chunk("s", "told"))
    step = talk.end_past(1, commands("s", "stored"), handover_record=HANDOVER_RECORD)
    notice, answer, state = client_messages(step)
    assert notice["params"]["sessionId"] == "s"
    assert notice["params"]["update"]["sessionUpdate"] == "agent_message_chunk"
    assert notice["params"]["update"]["content"]["text"] == (
        "\n\nThis conversation continues in a new session of the agent, which has been given the record above."
    )
    handed_over = {"acp-proxy": {"handover": True}}
    assert answer == result(1, {"modes": modes, "configOptions": [], "x": 1, "_meta": handed_over})
    assert state == commands("s", "stored")
    assert step.kept == [RecordNote("s", {"type": NoteType.REPLAY, "shown": "transcript", "rule": 1})]
    assert talk.open_transcripts == []


def test_the_parameters_of_the_new_session_are_those_of_the_load_byte_for_byte() -> None:
    params = (
        b'"cwd":"/w" , "mcpServers": [ {"n":1.0,"env":[{"x":"\\ud800\xff"}]} ],"_meta":{"big":12345678901234567890123}'
    )
    step = about_to_load().client.say(
        b'{"id":1,"params":{ "sessionId" : "s",' + params + b'},"method":"session/load"}\r\n'
    )
    assert b"sessionId" not in step.to_agent
    for member in (
        b'"cwd":"/w"',
        b'"mcpServers":[ {"n":1.0,"env":[{"x":"\\ud800\xff"}]} ]',
        params[params.index(b'"_meta"') :],
    ):
        assert member in step.to_agent
    assert json.loads(step.to_agent.decode(errors="replace")).keys() == {"jsonrpc", "id", "method", "params"}


def test_an_unrecorded_session_is_refused_without_asking_the_agent() -> None:
    step = about_to_load(SimulatedSession(has_transcript=False)).client.say(load(1, "s"))
    assert (step.to_agent, step.refusals) == (b"", [(1, -32002)])


def test_an_incomplete_transcript_is_handed_over_too() -> None:
    talk = opening(SimulatedSession(complete=False))
    assert talk.agent.say(result(OURS, {"sessionId": "n"})).asked == [SHOW_HANDED_OVER]


@pytest.mark.parametrize("id", [b"1.0", b'"\\u0031"', b"null", b"12345678901234567890123"])
def test_the_agents_refusal_is_passed_on_under_the_clients_id(id: bytes) -> None:
    talk = about_to_load()
    talk.client.say(b'{"id":%b,"method":"session/load","params":{"sessionId":"s"}}' % id)
    step = talk.agent.say(b'{"error": {"code":-32000, "message":"login","data":1.0} ,"id":"acp-proxy/1"}\r\n')
    assert b'"error":{"code":-32000, "message":"login","data":1.0}' in step.to_client
    assert json.loads(step.to_client)["id"] == json.loads(id)
    assert b"acp-proxy/1" not in step.to_client
    assert (step.kept, talk.open_transcripts) == ([], [])


@pytest.mark.parametrize("answer", [None, {}, {"sessionId": 5}, []])
def test_an_answer_without_a_session_is_an_error(answer: object) -> None:
    talk = opening()
    assert talk.agent.say(result(OURS, answer)).refusals == [(1, -32603)]
    assert talk.open_transcripts == []


def test_each_handover_has_its_own_request_id() -> None:
    talk = about_to_load()
    talk.stored["t"] = SimulatedSession()
    first, second = talk.client.say(load(1, "s")), talk.client.say(load(2, "t"))
    assert [json.loads(step.to_agent)["id"] for step in (first, second)] == ["acp-proxy/1", "acp-proxy/2"]
    talk.agent.say(result("acp-proxy/2", {"sessionId": "m"}), result("acp-proxy/1", {"sessionId": "n"}))
    assert talk.client.say(prompt(3, "s"), prompt(4, "t")).to_agent == line(prompt(3, "n"), prompt(4, "m"))


def test_a_session_without_a_word_continues_in_a_new_one_without_a_notice_or_a_record() -> None:
    talk = showing_past()
    (answer,) = client_messages(talk.end_past(1))
    assert answer["id"] == 1
    step = talk.client.say(prompt(2, "s"))
    assert step.to_agent == line(prompt(2, "n"))
    assert RecordNote("s", {"type": NoteType.HANDOVER, "to": "n"}) in talk.agent.say(prompt_answer(2)).kept


def test_a_prompt_before_the_record_is_made_does_not_complete_the_handover() -> None:
    talk = showing_past()
    note = RecordNote("s", {"type": NoteType.HANDOVER, "to": "n"})
    talk.client.say(prompt(2, "s"))
    assert note not in talk.agent.say(prompt_answer(2)).kept
    talk.end_past(1, handover_record=HANDOVER_RECORD)
    assert json.loads(talk.client.say(prompt(3, "s")).to_agent) == prompt_with_handover_record(3, "n")
    assert note in talk.agent.say(prompt_answer(3)).kept


# --- before the new session is known


@pytest.mark.parametrize("spelling", [line, respell])
def test_updates_before_the_answer_follow_it_under_the_clients_id(spelling: Any) -> None:
    talk = opening()
    assert talk.agent.say(spelling(commands("n", "x")), chunk("other", "a")).to_client == b""
    step = talk.agent.say(result(OURS, {"sessionId": "n"}))
    assert step.to_client == line(chunk("other", "a"))
    told = client_messages(talk.end_past(1))
    assert told[1:] == [commands("s", "x")]


def test_updates_of_open_sessions_pass_meanwhile() -> None:
    talk = about_to_load().open("t")
    talk.client.say(load(1, "s"))
    for spelling in (line, respell):
        assert talk.agent.say(spelling(chunk("t", "a"))).to_client == spelling(chunk("t", "a"))


def test_a_load_cancelled_meanwhile_is_answered_once_and_no_past_is_shown() -> None:
    talk = opening()
    step = talk.client.say(cancel(1))
    assert step.refusals == [(1, -32800)]
    assert talk.open_transcripts == []
    step = talk.agent.say(result(OURS, {"sessionId": "n"}))
    assert (step.to_client, step.asked, step.kept) == (b"", [], [])


def test_a_load_whose_session_is_deleted_meanwhile_is_refused() -> None:
    talk = opening()
    talk.client.say(delete(2, "s"))
    step = talk.agent.say(result(OURS, {"sessionId": "n"}), chunk("n", "Welcome!"))
    assert step.refusals == [(1, -32002)]
    assert client_messages(step)[0]["error"]["message"] == "Session not found: s"
    assert len(client_messages(step)) == 1
    assert talk.being_shown == []
    assert talk.client.say(prompt(3, "s")).to_agent == line(prompt(3, "s"))


def test_if_the_agent_ends_meanwhile_the_load_fails_and_held_updates_pass() -> None:
    talk = opening()
    talk.agent.say(chunk("other", "a"))
    step = talk.end_agent()
    assert step.refusals == [(1, -32603)]
    assert line(chunk("other", "a")) in step.to_client
    assert talk.open_transcripts == []


def test_the_record_is_kept_although_the_load_is_cancelled_while_the_past_is_shown() -> None:
    talk = showing_past()
    assert talk.client.say(cancel(1)).refusals == [(1, -32800)]
    assert talk.end_past(1, handover_record=HANDOVER_RECORD).to_client == b""
    assert json.loads(talk.client.say(prompt(2, "s")).to_agent) == prompt_with_handover_record(2, "n")


# --- the conversation continues


def test_ids_are_rewritten_both_ways() -> None:
    talk = hand_over()
    said: list[Said] = [
        notification("session/cancel", {"sessionId": "s"}),
        request(7, "session/set_mode", {"sessionId": "s", "modeId": "x"}),
        request(8, "_vendor/x", {"sessionId": "s"}),
        [notification("session/cancel", {"sessionId": "s"})],
    ]
    assert talk.client.say(*said).to_agent == line(*said).replace(b'"sessionId":"s"', b'"sessionId":"n"')
    told: list[Said] = [
        chunk("n", "a"),
        respell(chunk("n", "b")),
        permission(0, "n"),
        request(5, "fs/read_text_file", {"sessionId": "n", "path": "/w/n"}),
        result(7, {}),
        [chunk("n", "c")],
    ]
    step = talk.agent.say(*told)
    assert step.to_client == line(*told).replace(b'"sessionId":"n"', b'"sessionId":"s"').replace(
        b'"sessionId" : "n"', b'"sessionId" : "s"'
    )
    assert {getattr(record, "session_id", None) for record in step.kept} == {"s"}
    picked = result(0, {"outcome": {"outcome": "selected", "optionId": "x"}})
    step = talk.client.say(picked)
    assert (step.to_agent, step.kept) == (
        line(picked),
        [client_kept("s", picked, "session/request_permission")],
    )


def test_client_lines_are_decided_on_after_a_handover() -> None:
    talk = hand_over()
    assert not talk.core.fast_path.try_admit_simple_lines(
        line(notification("_editor/focus", {"sessionId": "s"})), Peer.CLIENT
    )


def test_the_record_precedes_the_users_blocks_in_the_first_prompt_only() -> None:
    talk = hand_over()
    step = talk.client.say(prompt(2, "s"))
    assert json.loads(step.to_agent) == prompt_with_handover_record(2, "n")
    assert step.kept == [BeginTurn("s"), client_kept("s", prompt(2, "s"))]
    assert talk.agent.say(prompt_answer(2)).to_client == line(prompt_answer(2))
    assert talk.client.say(prompt(3, "s")).to_agent == line(prompt(3, "n"))
    assert HANDOVER_RECORD.encode() not in talk.all.to_client


@pytest.mark.parametrize("reason", ["end_turn", "cancelled", "refusal", "max_tokens"])
def test_the_handover_is_noted_once_a_prompt_with_the_record_has_a_result(reason: str) -> None:
    talk = hand_over()
    note = RecordNote("s", {"type": NoteType.HANDOVER, "to": "n"})
    assert note not in talk.client.say(prompt(2, "s")).kept
    assert talk.agent.say(prompt_answer(2, reason)).kept[0] == note
    talk.client.say(prompt(3, "s"))
    assert note not in talk.agent.say(prompt_answer(3)).kept


def test_the_record_is_sent_again_until_a_prompt_with_it_has_a_result() -> None:
    talk = hand_over()
    for id in (2, 3):
        assert json.loads(talk.client.say(prompt(id, "s")).to_agent) == prompt_with_handover_record(id, "n")
        assert talk.agent.say(error(id, -32000, "login")).to_client == line(error(id, -32000, "login"))
    talk.client.say(prompt(4, "s"))
    talk.end_agent()
    assert not [
        record
        for record in talk.all.kept
        if isinstance(record, RecordNote) and record.note["type"] == NoteType.HANDOVER
    ]


def test_the_prompt_after_a_cancelled_one_carries_the_record_again_unless_that_was_answered() -> None:
    for answers in (False, True):
        talk = hand_over()
        talk.client.say(prompt(2, "s"), notification("session/cancel", {"sessionId": "s"}))
        talk.agent.say(*([prompt_answer(2, "cancelled")] if answers else []))
        sent = json.loads(talk.client.say(prompt(3, "s")).to_agent)
        assert sent == (prompt(3, "n") if answers else prompt_with_handover_record(3, "n"))
        assert json.loads(talk.client.say(prompt(4, "s")).to_agent) == prompt(4, "n")


def test_after_another_handover_before_the_record_was_answered_the_next_prompt_carries_it_again() -> None:
    talk = hand_over()
    talk.client.say(prompt(2, "s"), notification("session/cancel", {"sessionId": "s"}))
    talk.client.say(load(3, "s"))
    talk.agent.say(result("acp-proxy/2", {"sessionId": "m"}))
    talk.end_past(3, handover_record=HANDOVER_RECORD)
    assert json.loads(talk.client.say(prompt(4, "s")).to_agent) == prompt_with_handover_record(4, "m")
    note = RecordNote("s", {"type": NoteType.HANDOVER, "to": "m"})
    assert note not in talk.agent.say(prompt_answer(2)).kept
    assert talk.agent.say(prompt_answer(4)).kept[0] == note


def test_the_first_of_two_queued_prompts_carries_the_record() -> None:
    talk = hand_over()
    step = talk.client.say(prompt(2, "s"), prompt(3, "s"))
    assert [json.loads(each) for each in step.to_agent.splitlines()] == [
        prompt_with_handover_record(2, "n"),
        prompt(3, "n"),
    ]


def test_a_slash_command_goes_out_unchanged_and_the_record_waits_for_the_next_prompt() -> None:
    talk = hand_over()
    assert talk.client.say(prompt(2, "s", " /model fast")).to_agent == line(prompt(2, "n", " /model fast"))
    talk.agent.say(prompt_answer(2))
    assert json.loads(talk.client.say(prompt(3, "s")).to_agent) == prompt_with_handover_record(3, "n")


def test_no_other_byte_of_a_prompt_with_the_record_changes() -> None:
    said = (
        b' {"params":{"prompt" : [ {"type":"text","text":"\\ud800","n":1.0} ],"sessionId":"s"},'
        b'"id":2.0,"method":"session/prompt"}\r\n'
    )
    block = json.dumps({"type": "text", "text": HANDOVER_RECORD}, separators=(",", ":"), ensure_ascii=False).encode()
    expected = said.replace(b'[ {"type"', b"[ " + block + b',{"type"').replace(b'"s"}', b'"n"}')
    assert hand_over().client.say(said).to_agent == expected


@pytest.mark.parametrize("blocks", [[], None, "x", {}])
def test_an_empty_prompt_gets_the_record_and_an_invalid_one_passes(blocks: object) -> None:
    said = request(2, "session/prompt", {"sessionId": "s", "prompt": blocks})
    step = hand_over().client.say(said)
    told = json.loads(step.to_agent)["params"]
    assert told["sessionId"] == "n"
    assert told["prompt"] == ([{"type": "text", "text": HANDOVER_RECORD}] if blocks == [] else blocks)


def test_another_sessions_prompt_carries_no_record() -> None:
    talk = hand_over().open("t")
    assert talk.client.say(prompt(2, "t")).to_agent == line(prompt(2, "t"))
    assert json.loads(talk.client.say(prompt(3, "s")).to_agent) == prompt_with_handover_record(3, "n")


def test_a_second_load_of_the_same_session_is_handed_over_again() -> None:
    talk = hand_over()
    step = talk.client.say(load(2, "s"))
    assert json.loads(step.to_agent) == new("acp-proxy/2")
    talk.agent.say(result("acp-proxy/2", {"sessionId": "m"}))
    talk.end_past(2, handover_record="newer")
    told = json.loads(talk.client.say(prompt(3, "s")).to_agent)["params"]
    assert (told["sessionId"], told["prompt"][0]["text"]) == ("m", "newer")
    assert talk.agent.say(chunk("m", "a"), chunk("n", "late")).to_client == line(chunk("s", "a"), chunk("s", "late"))


def test_the_record_of_a_deleted_session_is_never_sent() -> None:
    talk = hand_over()
    talk.client.say(delete(2, "s"))
    assert talk.client.say(prompt(3, "s")).to_agent == line(prompt(3, "n"))
    talk = showing_past()
    assert StopShowingPast(ONE) in talk.client.say(delete(2, "s")).asked
    assert [told["id"] for told in client_messages(talk.end_past(1, handover_record=HANDOVER_RECORD))] == [1]
    assert talk.client.say(prompt(3, "s")).to_agent == line(prompt(3, "n"))


def test_a_fork_of_a_handed_over_session_has_the_clients_session_as_parent() -> None:
    talk = hand_over()
    step = talk.client.say(request(2, "session/fork", {"sessionId": "s", "cwd": "/w"}))
    assert json.loads(step.to_agent)["params"]["sessionId"] == "n"
    step = talk.agent.say(result(2, {"sessionId": "f"}))
    assert step.to_client == line(result(2, {"sessionId": "f"}))
    assert step.kept[0] == BeginTranscript("f", "/w", [], file_format.PARTIAL, parent_id="s")


# A restore that the agent refuses.

REFUSING = [RESUMES, LOADS]


@pytest.mark.parametrize("capabilities", REFUSING)
def test_a_refused_restore_is_handed_over_on_request(capabilities: Any) -> None:
    talk = about_to_load(capabilities=capabilities, modes=Modes(handover=ALWAYS))
    talk.client.say(load(1, "s"))
    assert talk.agent.say(chunk("s", "told"), commands("s", "x"), chunk("s", "more")).to_client == b""
    step = talk.agent.say(error(1, -32603, "no such session"))
    assert json.loads(step.to_agent) == new(OURS)
    assert (step.to_client, step.kept) == (b"", [])
    assert talk.agent.say(result(OURS, {"sessionId": "n"})).asked == [SHOW_HANDED_OVER]
    told = client_messages(talk.end_past(1, handover_record=HANDOVER_RECORD))
    assert [each.get("id") for each in told] == [None, 1]
    assert json.loads(talk.client.say(prompt(2, "s")).to_agent) == prompt_with_handover_record(2, "n")


@pytest.mark.parametrize("capabilities", REFUSING)
@pytest.mark.parametrize("handover", ["auto", ALWAYS, NEVER])
def test_a_login_error_passes_without_a_handover(capabilities: Any, handover: HandoverMode) -> None:
    talk = about_to_load(capabilities=capabilities, modes=Modes(handover=handover))
    talk.client.say(load(1, "s"))
    step = talk.agent.say(error(1, -32000, "login"))
    assert (step.to_agent, step.to_client) == (b"", line(error(1, -32000, "login")))


@pytest.mark.parametrize("capabilities", REFUSING)
@pytest.mark.parametrize("handover", ["auto", NEVER])
def test_otherwise_a_refused_restore_passes_the_agents_error(capabilities: Any, handover: HandoverMode) -> None:
    talk = about_to_load(capabilities=capabilities, modes=Modes(handover=handover))
    talk.client.say(load(1, "s"))
    assert talk.agent.say(error(1, -32603)).to_client == line(error(1, -32603))
    assert talk.open_transcripts == []


UNKNOWN = [
    error(1, -32002, "x"),
    error(1, -32603, "No previous sessions found for this project"),
    error(1, -32602, "no rollout found for thread id 7"),
    error(1, -32600, "No sessions directory found"),
    error(1, -32001, "Session not found"),
    error(1, -32099, "unknown session"),
    {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "Internal error", "data": "Session not found"}},
]
NOT_HOLDING = [
    error(1, -32603, "service failure"),
    error(1, -32001, "rate limit"),
    error(1, -32000, "no login found"),
    error(1, -32100, "Session not found"),
    error(1, -32601, "Method not found"),
    error(1, -32603),
]


@pytest.mark.parametrize("refusal", UNKNOWN)
@pytest.mark.parametrize("capabilities", REFUSING)
def test_a_session_that_the_agent_does_not_know_is_handed_over(capabilities: Any, refusal: Any) -> None:
    talk = about_to_load(capabilities=capabilities)
    talk.client.say(load(1, "s"))
    step = talk.agent.say(refusal)
    assert json.loads(step.to_agent) == new(OURS)
    assert step.to_client == b""


@pytest.mark.parametrize("refusal", NOT_HOLDING)
@pytest.mark.parametrize("capabilities", REFUSING)
def test_a_temporary_error_passes(capabilities: Any, refusal: Any) -> None:
    talk = about_to_load(capabilities=capabilities)
    talk.client.say(load(1, "s"))
    step = talk.agent.say(refusal)
    assert (step.to_agent, step.to_client) == (b"", line(refusal))


def prompted_after_load() -> CoreConversation:
    """The past was shown, and the agent has the first prompt after that."""
    talk = about_to_load(capabilities=RESUMES)
    talk.client.say(load(1, "s"))
    talk.agent.say(result(1, {}))
    talk.end_past(1)
    talk.client.say(prompt(2, "s"))
    return talk


@pytest.mark.parametrize("refusal", [*UNKNOWN, error(1, -32602, "s is none of mine")])
def test_a_prompt_refused_for_an_unknown_session_is_sent_in_a_new_one(refusal: Any) -> None:
    talk = prompted_after_load()
    step = talk.agent.say(refusal | {"id": 2})
    assert json.loads(step.to_agent) == new(OURS)
    assert step.to_client == b""
    wanted = ChooseAndShowPast(
        make_request_id(2),
        planned_decision=PastDecision(WhosePast.NOTHING, PastRule.HANDED_OVER),
        agent_lacks_past=True,
        makes_handover_record=True,
        before_prompt=make_request_id(2),
    )
    assert talk.agent.say(result(OURS, {"sessionId": "n"})).asked == [wanted]
    step = talk.end_past(2, handover_record=HANDOVER_RECORD)
    assert json.loads(step.to_agent) == prompt_with_handover_record(2, "n")
    assert [message.get("id") for message in client_messages(step)] == [None]
    step = talk.agent.say(chunk("n", "a"), prompt_answer(2))
    assert step.to_client == line(chunk("s", "a"), prompt_answer(2))
    assert RecordNote("s", {"type": NoteType.HANDOVER, "to": "n"}) in step.kept
    asked = [entry for entry in talk.all.kept if isinstance(entry, RecordMessage) and entry.peer is Peer.CLIENT]
    assert asked == [client_kept("s", prompt(2, "s"))]


KNOWS_THE_SESSION: dict[str, Said] = {
    "words": chunk("s", "I will push it."),
    "a thought": chunk("s", "Hmm.", "agent_thought_chunk"),
    "a call": update("s", "tool_call", toolCallId="c9", title="git push", status="completed"),
    "a question": permission(7, "s"),
}


@pytest.mark.parametrize("said", KNOWS_THE_SESSION.values(), ids=KNOWS_THE_SESSION)
def test_a_prompt_that_the_agent_has_begun_to_work_on_is_not_sent_again(said: Said) -> None:
    talk = prompted_after_load()
    talk.agent.say(said)
    failed = error(2, -32603, "Repository not found")
    step = talk.agent.say(failed)
    assert (step.to_client, step.to_agent) == (line(failed), b"")


@pytest.mark.parametrize("said", [chunk("s", "and now?", "user_message_chunk"), commands("s", "x")])
def test_a_prompt_of_which_the_agent_has_said_nothing_new_is_sent_again(said: Said) -> None:
    talk = prompted_after_load()
    talk.agent.say(said)
    assert json.loads(talk.agent.say(error(2, -32002, "Session not found")).to_agent) == new(OURS)


NOT_FOUND = error(2, -32002, "Session not found")


def refused_prompt() -> CoreConversation:
    """The first prompt after a load was refused, since the agent does not know the session, and is looked up."""
    talk = prompted_after_load()
    talk.stored["s"] = SimulatedSession(slow=True)
    talk.agent.say(NOT_FOUND)
    return talk


CANCEL_TURN = notification("session/cancel", {"sessionId": "s"})


@pytest.mark.parametrize("is_found", [False, True], ids=["looked up", "asked"])
@pytest.mark.parametrize("cancels", [[CANCEL_TURN], [cancel(2)], [CANCEL_TURN, cancel(2), CANCEL_TURN]])
def test_a_cancel_follows_a_prompt_that_is_sent_again(is_found: bool, cancels: list[Said]) -> None:
    talk = refused_prompt()
    if is_found:
        talk.finish_lookup(2)
    talk.client.say(*cancels)
    if not is_found:
        talk.finish_lookup(2)
    talk.agent.say(result(OURS, {"sessionId": "n"}))
    sent = [json.loads(each) for each in talk.end_past(2, handover_record=HANDOVER_RECORD).to_agent.splitlines()]
    methods = [json.loads(line(message))["method"] for message in cancels]
    assert [message["method"] for message in sent] == ["session/prompt", *dict.fromkeys(methods)]
    assert all(message["params"].get("sessionId", "n") == "n" for message in sent)


def test_the_prompt_after_a_cancelled_one_that_was_sent_again_carries_the_record() -> None:
    talk = refused_prompt()
    talk.client.say(CANCEL_TURN)
    talk.finish_lookup(2)
    talk.agent.say(result(OURS, {"sessionId": "n"}))
    talk.end_past(2, handover_record=HANDOVER_RECORD)
    assert json.loads(talk.client.say(prompt(3, "s")).to_agent) == prompt_with_handover_record(3, "n")


@pytest.mark.parametrize("is_found", [False, True], ids=["not found", "refused"])
def test_a_prompt_that_cannot_be_sent_again_has_its_refusal_as_its_answer(is_found: bool) -> None:
    talk = refused_prompt()
    if is_found:
        assert json.loads(talk.finish_lookup(2).to_agent) == new(OURS)
        step = talk.agent.say(error(OURS, -32603))
    else:
        step = talk.finish_lookup(2, SimulatedSession(has_transcript=False))
    assert step.to_client == line(NOT_FOUND)
    assert step.kept == [agent_kept("s", NOT_FOUND, of="session/prompt"), EndTurn("s")]
    assert talk.end_agent().to_client == b""


def test_what_follows_the_refusal_of_a_prompt_that_cannot_be_sent_again_is_recorded_after_it() -> None:
    talk = refused_prompt()
    talk.finish_lookup(2)
    step = talk.agent.say(error(OURS, -32603), chunk("s", "By the way."))
    assert step.kept == [
        agent_kept("s", NOT_FOUND, of="session/prompt"),
        EndTurn("s"),
        agent_kept("s", chunk("s", "By the way.")),
    ]


def test_a_cancel_is_not_kept_for_a_prompt_that_cannot_be_sent_again() -> None:
    talk = refused_prompt()
    talk.finish_lookup(2)
    talk.client.say(CANCEL_TURN)
    talk.agent.say(error(OURS, -32603))
    assert talk.core._handovers.end_resending("s") == []


@pytest.mark.parametrize("is_found", [False, True], ids=["looked up", "asked"])
def test_a_prompt_that_is_to_be_sent_again_is_answered_once_when_the_agent_ends(is_found: bool) -> None:
    talk = refused_prompt()
    if is_found:
        talk.finish_lookup(2)
    step = talk.end_agent()
    if not is_found:
        step.add(talk.finish_lookup(2))
    assert [message["id"] for message in client_messages(step)] == [2]


def test_what_waits_for_a_load_is_not_lost_if_the_session_is_opened_anew() -> None:
    """Such as the answer to a prompt that was cancelled: a load does not wait for its turn."""
    talk = about_to_load(SimulatedSession(), LOADS)
    talk.client.say(load(1, "s"))
    talk.agent.say(result(1, {}))
    talk.end_past(1)
    talk.client.say(prompt(2, "s"), CANCEL_TURN, load(3, "s"))
    answer = prompt_answer(2, "cancelled")
    assert talk.agent.say(answer).to_client == b""
    talk.agent.say(error(3, -32002, "Session not found"))
    talk.agent.say(result(OURS, {"sessionId": "n"}))
    assert line(answer) in talk.end_past(3).to_client


def test_the_refusal_of_an_unrecorded_session_passes() -> None:
    talk = about_to_load(SimulatedSession(has_transcript=False), RESUMES, Modes(handover=ALWAYS))
    talk.client.say(load(1, "s"))
    assert talk.agent.say(error(1, -32603)).to_client == line(error(1, -32603))


def test_a_refusal_during_a_turn_causes_no_handover() -> None:
    talk = CoreConversation(modes=Modes(handover=ALWAYS)).initialize(LOADS).open("s")
    talk.client.say(prompt(5, "s"), load(1, "s"))
    assert talk.agent.say(chunk("s", "live")).to_client == line(chunk("s", "live"))
    step = talk.agent.say(error(1, -32603, "busy"))
    assert (step.to_agent, step.to_client) == (b"", line(error(1, -32603, "busy")))


def test_a_load_in_a_turn_after_a_handover_shows_the_transcript_and_leaves_the_agent_to_its_turn() -> None:
    talk = opening()
    talk.agent.say(result(OURS, {"sessionId": "n", "models": ["m"]}))
    talk.end_past(1, handover_record=HANDOVER_RECORD)
    talk.client.say(prompt(2, "s"))
    assert talk.client.say(load(3, "s")).to_agent == b""
    assert talk.agent.say(chunk("n", "live")).to_client == b""
    talk.send_past(3, chunk("s", "before"))
    assert talk.end_past(3).to_client == line(result(3, {"models": ["m"]}), chunk("s", "live"))
    later = talk.agent.say(chunk("n", "later"), prompt_answer(2))
    assert later.to_client == line(chunk("s", "later"), prompt_answer(2))
    recorded = [record for record in talk.all.kept if isinstance(record, RecordMessage) and b"later" in record.raw]
    assert len(recorded) == 1


@pytest.mark.parametrize("is_in_turn", [True, False])
def test_a_session_that_another_windows_agent_gave_an_id_is_asked_for_by_the_one_open_here(is_in_turn: bool) -> None:
    talk = CoreConversation().initialize(RESUMES).open("s")
    talk.stored["s"] = SimulatedSession(alias="other", moved=True)
    talk.client.say(*([prompt(5, "s")] if is_in_turn else []))
    assert talk.client.say(resume(1, "s")).to_agent == line(resume(1, "other"))
    refused = talk.agent.say(error(1, -32602, "session not found: other"))
    assert (refused.to_agent, refused.to_client) == (line(resume(1, "s")), b"")
    assert talk.agent.say(result(1, {})).to_client == line(result(1, {}))
    assert talk.client.say(resume(2, "s")).to_agent == line(resume(2, "s"))


def test_a_session_that_was_closed_here_is_asked_for_by_the_id_from_before_another_windows_handover() -> None:
    talk = CoreConversation().initialize(RESUMES).open("s")
    talk.client.say(request(4, "session/close", {"sessionId": "s"}))
    talk.agent.say(result(4, {}))
    talk.stored["s"] = SimulatedSession(alias="other", moved=True)
    talk.client.say(resume(1, "s"))
    refused = talk.agent.say(error(1, -32600, "No sessions directory found"))
    assert (refused.to_agent, refused.to_client) == (line(resume(1, "s")), b"")
    assert talk.agent.say(result(1, {})).to_client == line(result(1, {}))


def test_a_session_that_the_agent_refuses_by_both_ids_is_refused_once() -> None:
    talk = CoreConversation().initialize(RESUMES).open("s")
    talk.stored["s"] = SimulatedSession(alias="other", moved=True)
    talk.client.say(resume(1, "s"))
    talk.agent.say(error(1, -32602, "session not found: other"))
    last = error(1, -32602, "session not found: s")
    step = talk.agent.say(last)
    assert (step.to_agent, step.to_client) == (b"", line(last))


def asked_by_another_windows_id(*loads: dict[str, Any]) -> CoreConversation:
    """A session that was opened here, and that another window has handed over, is loaded here."""
    talk = CoreConversation().initialize(LOADS).open("s")
    talk.stored["s"] = SimulatedSession(alias="other", moved=True)
    talk.client.say(*loads)
    assert line(load(1, "other")) in talk.all.to_agent
    return talk


def test_the_session_that_the_agent_had_before_another_windows_handover_gets_a_record_of_the_rest() -> None:
    talk = asked_by_another_windows_id(load(1, "s"))
    assert talk.agent.say(error(1, -32002, "session not found")).to_agent == line(load(1, "s"))
    step = talk.agent.say(result(1, {}))
    assert step.asked == [SHOW_HANDED_OVER]
    assert client_messages(talk.end_past(1, handover_record=HANDOVER_RECORD)) == [result(1, {})]
    assert json.loads(talk.client.say(prompt(2, "s")).to_agent) == prompt_with_handover_record(2, "s")
    assert talk.agent.say(prompt_answer(2)).kept[0] == RecordNote("s", {"type": NoteType.HANDOVER, "to": "s"})


def test_a_session_is_handed_over_again_if_the_agent_knows_neither_of_its_ids() -> None:
    talk = asked_by_another_windows_id(load(1, "s"))
    assert talk.agent.say(error(1, -32002, "session not found")).to_agent == line(load(1, "s"))
    assert json.loads(talk.agent.say(error(1, -32002, "session not found")).to_agent) == new(OURS)
    talk.agent.say(result(OURS, {"sessionId": "n"}))
    talk.end_past(1, handover_record=HANDOVER_RECORD)
    talk.client.say(prompt(2, "s"))
    assert talk.agent.say(prompt_answer(2)).kept[0] == RecordNote("s", {"type": NoteType.HANDOVER, "to": "n"})


def test_the_load_after_a_cancelled_one_is_asked_for_by_the_earlier_id_too() -> None:
    talk = asked_by_another_windows_id(load(1, "s"), cancel(1), load(2, "s"))
    assert talk.agent.say(error(1, -32002, "session not found")).to_agent == b""
    assert talk.agent.say(error(2, -32002, "session not found")).to_agent == line(load(2, "s"))


def test_a_session_that_was_not_opened_here_is_asked_for_by_the_latest_id_only() -> None:
    talk = about_to_load(SimulatedSession(alias="other", moved=True), RESUMES)
    talk.client.say(resume(1, "s"))
    last = error(1, -32602, "session not found: other")
    step = talk.agent.say(last)
    assert (step.to_agent, step.to_client) == (b"", line(last))


def test_a_cancelled_load_is_not_handed_over() -> None:
    talk = about_to_load(capabilities=RESUMES, modes=Modes(handover=ALWAYS))
    talk.client.say(load(1, "s"), cancel(1))
    step = talk.agent.say(error(1, -32800))
    assert (step.to_agent, step.to_client) == (b"", b"")


def test_updates_of_one_load_do_not_wait_for_another_sessions_handover() -> None:
    talk = about_to_load(capabilities=RESUMES, modes=Modes(handover=ALWAYS))
    talk.stored["t"] = SimulatedSession(has_transcript=False)
    talk.client.say(load(1, "s"), load(2, "t"))
    talk.agent.say(error(1, -32603))
    talk.agent.say(update("t", "plan"), result(2, {}))
    assert talk.all.to_client.endswith(line(update("t", "plan"), result(2, {})))


# --- what the agent sends of the record


def user_chunk(session: str, text: str) -> dict[str, Any]:
    return update(session, "user_message_chunk", content={"type": "text", "text": text})


def hand_over_and_prompt() -> CoreConversation:
    """The agent has the first prompt after the handover, with the record."""
    talk = showing_past()
    talk.end_past(1, handover_record=HANDOVER_RECORD)
    talk.client.say(prompt(5, "s", "go on"))
    return talk


@pytest.mark.parametrize(
    "echo",
    [
        [HANDOVER_RECORD, "go on"],
        [HANDOVER_RECORD + "\n\ngo on"],
        [HANDOVER_RECORD[:7], HANDOVER_RECORD[7:], "go on"],
        [HANDOVER_RECORD[:7], HANDOVER_RECORD[7:] + "\ngo on"],
    ],
)
def test_an_echo_of_the_record_is_neither_shown_nor_recorded(echo: list[str]) -> None:
    talk = hand_over_and_prompt()
    step = talk.agent.say(*(user_chunk("n", text) for text in echo))
    assert step.to_client == line(user_chunk("s", "go on"))
    assert step.kept == [agent_kept("s", user_chunk("s", "go on"))]


@pytest.mark.parametrize(
    "follows",
    [
        user_chunk("n", " left?"),
        chunk("n", "Let me see."),
        commands("n", "help"),
        permission(7, "n"),
        notification("_agent/noted", {"sessionId": "n"}),
        prompt_answer(5),
        error(5, -32603),
    ],
)
def test_user_messages_that_only_begin_like_the_record_are_shown_and_recorded_before_what_follows(
    follows: Said,
) -> None:
    talk = hand_over_and_prompt()
    begins = [user_chunk("n", BEGINNING), user_chunk("n", NEXT)]
    waits = talk.agent.say(*begins)
    assert (waits.to_client, waits.kept) == (b"", [])
    step = talk.agent.say(follows)
    shown = [chunk("s", text, "user_message_chunk") for text in (BEGINNING, NEXT)]
    assert step.to_client.startswith(line(*shown))
    assert len(step.to_client) > len(line(*shown))
    assert step.kept[:2] == [agent_kept("s", each) for each in shown]


def test_the_agents_words_in_other_sessions_do_not_end_an_echo_of_the_record() -> None:
    talk = hand_over_and_prompt().open("t")
    other = [chunk("t", "Hello."), prompt_answer(6)]
    talk.client.say(prompt(6, "t"))
    assert talk.agent.say(user_chunk("n", HANDOVER_RECORD[:7])).to_client == b""
    assert BEGINNING.encode() not in talk.agent.say(*other).to_client
    assert talk.agent.say(user_chunk("n", HANDOVER_RECORD[7:])).to_client == b""


def test_a_beginning_of_the_record_that_may_be_the_past_is_compared_and_then_shown_before_what_follows() -> None:
    talk = about_to_load(SimulatedSession(says=(prompt(9, "s", "earlier"),), behind=True), RESUMES)
    talk.client.say(load(1, "s"))
    talk.agent.say(result(1, {}))
    talk.end_past(1, handover_record=HANDOVER_RECORD)
    talk.client.say(prompt(5, "s", "go on"))
    talk.agent.say(user_chunk("s", BEGINNING))
    step = talk.agent.say(chunk("s", "Let me see."))
    shown = [user_chunk("s", BEGINNING), chunk("s", "Let me see.")]
    assert step.to_client == line(*shown)
    assert step.kept == [agent_kept("s", each) for each in shown]


def test_what_begins_like_the_record_is_shown_when_the_agent_ends() -> None:
    talk = hand_over_and_prompt()
    talk.agent.say(user_chunk("n", BEGINNING))
    step = talk.end_agent()
    assert step.to_client.startswith(line(user_chunk("s", BEGINNING)))
    assert step.kept[0] == agent_kept("s", user_chunk("s", BEGINNING))


def test_the_record_is_found_after_something_that_only_began_like_it() -> None:
    talk = hand_over_and_prompt()
    step = talk.agent.say(*(user_chunk("n", text) for text in (BEGINNING, BEGINNING, HANDOVER_RECORD[6:], "go on")))
    assert step.to_client == line(user_chunk("s", BEGINNING), user_chunk("s", "go on"))


def test_a_beginning_of_the_record_waits_only_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = hand_over_and_prompt()
    said = [chunk("s", HANDOVER_RECORD[at : at + 4], "user_message_chunk") for at in range(0, 12, 4)]
    monkeypatch.setattr(handovers, "HELD_BYTES_LIMIT", len(line(*said[:2])))
    assert talk.agent.say(*said[:2]).to_client == b""
    assert talk.agent.say(said[2]).to_client == line(*said)
    assert talk.agent.say(user_chunk("n", HANDOVER_RECORD)).to_client == b""


def test_a_title_made_from_the_record_is_dropped_and_other_titles_pass() -> None:
    talk = hand_over_and_prompt()
    step = talk.agent.say(update("n", "session_info_update", title=f"{HANDOVER_RECORD_BEGINNINGS[0][:40]}…"))
    assert (step.to_client, step.kept) == (b"", [])
    named = talk.agent.say(update("n", "session_info_update", title="Mend it"))
    assert named.to_client == line(update("s", "session_info_update", title="Mend it"))


# What is attached to the record.

IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
TAKES_IMAGES = {"promptCapabilities": {"image": True, "embeddedContext": False}}


def hand_over_with_image() -> CoreConversation:
    """The agent has the first prompt after the handover, with the record and an image."""
    talk = about_to_load(capabilities=TAKES_IMAGES)
    talk.client.say(load(1, "s"))
    wanted = ChooseAndShowPast(
        ONE,
        planned_decision=PastDecision(WhosePast.TRANSCRIPT, PastRule.HANDED_OVER),
        agent_lacks_past=True,
        makes_handover_record=True,
        accepted_content=frozenset({"image"}),
    )
    assert talk.agent.say(result(OURS, {"sessionId": "n"})).asked == [wanted]
    talk.end_past(1, handover_record=HANDOVER_RECORD, attached=(raw(IMAGE),))
    return talk


def test_what_is_attached_follows_the_record_and_precedes_the_users_blocks() -> None:
    told = json.loads(hand_over_with_image().client.say(prompt(5, "s", "go on")).to_agent)["params"]["prompt"]
    assert told == [{"type": "text", "text": HANDOVER_RECORD}, IMAGE, {"type": "text", "text": "go on"}]


def test_an_echo_of_what_is_attached_is_neither_shown_nor_recorded() -> None:
    talk = hand_over_with_image()
    talk.client.say(prompt(5, "s", "go on"))
    echo = update("n", "user_message_chunk", content={"type": "image", "data": "aGk=", "mimeType": "image/png", "x": 1})
    step = talk.agent.say(user_chunk("n", HANDOVER_RECORD), echo)
    assert (step.to_client, step.kept) == (b"", [])
    assert talk.agent.say(echo).to_client == line(echo | {"params": echo["params"] | {"sessionId": "s"}})


def test_the_users_own_image_is_shown_if_the_agent_does_not_repeat_the_record() -> None:
    talk = hand_over_with_image()
    talk.client.say(prompt(5, "s", "go on"))
    echo = update("n", "user_message_chunk", content=IMAGE)
    assert talk.agent.say(echo).to_client == line(update("s", "user_message_chunk", content=IMAGE))


def test_too_much_that_is_attached_is_dropped_with_the_oldest_record_first() -> None:
    waiting = Handovers()
    half = b"x" * (ATTACHED_LIMIT // 2)
    for session in ("a", "b", "c"):
        waiting.keep_handover_record(session, "record", (half,))
    sent = {
        letter: waiting.add_handover_record(
            line(prompt(1, letter)), Request(b"", make_request_id(letter), "", {}), letter
        )
        for letter in "abc"
    }
    assert [half in sent[letter] for letter in "abc"] == [False, True, True]


# a later process, which has not the record's text

OLD_HANDOVER_RECORD = f"{INTRODUCTION}\n\nUser:\n> mend it\n\n{{attached}}{END}\n"


def reopened(capabilities: Any = LOADS) -> CoreConversation:
    """A handed-over session, which is loaded or resumed in a later process."""
    talk = CoreConversation().initialize(capabilities)
    talk.stored["s"] = SimulatedSession(says=(prompt(1, "s", "mend it"), prompt_answer(1)), alias="new", moved=True)
    talk.client.say(load(2, "s") if capabilities is LOADS else resume(2, "s"))
    return talk


def chunks(text: str, length: int) -> list[dict[str, Any]]:
    return [user_chunk("new", text[at : at + length]) for at in range(0, len(text), length)]


@pytest.mark.parametrize("length", [1000, 40, 7])
@pytest.mark.parametrize("is_late", [False, True])
def test_the_record_of_an_earlier_process_is_not_shown_by_a_resume(length: int, is_late: bool) -> None:
    talk = reopened(RESUMES)
    told = chunks(OLD_HANDOVER_RECORD.format(attached="") + "and test it", length)
    talk.agent.say(*([result(2, {}), *told] if is_late else [*told, result(2, {})]))
    talk.agent.say(chunk("new", "Done."))
    texts = [
        message["params"]["update"]["content"]["text"] for message in client_messages(talk.all) if "params" in message
    ]
    assert "".join(texts) == "and test itDone."


def test_in_the_turn_after_a_load_the_record_of_an_earlier_process_is_neither_shown_nor_recorded() -> None:
    talk = reopened()
    talk.agent.say(result(2, {}))
    talk.end_past(2)
    talk.client.say(prompt(3, "s", "go on"))
    step = talk.agent.say(user_chunk("new", OLD_HANDOVER_RECORD.format(attached="")), chunk("new", "Going on."))
    assert step.to_client == line(chunk("s", "Going on."))
    assert [record.raw for record in step.kept if isinstance(record, RecordMessage)] == [raw(chunk("s", "Going on."))]


@pytest.mark.parametrize(("named", "left"), [("", 2), (f"{ATTACHED}image 1.\n\n", 1)])
def test_only_what_an_earlier_record_names_is_left_out_directly_after_it(named: str, left: int) -> None:
    talk = reopened(RESUMES)
    images = [update("new", "user_message_chunk", content=IMAGE)] * 2
    step = talk.agent.say(user_chunk("new", OLD_HANDOVER_RECORD.format(attached=named)), *images, result(2, {}))
    assert step.to_client.count(b"aGk=") == left


def test_an_image_after_words_of_the_users_is_theirs() -> None:
    talk = reopened(RESUMES)
    said = user_chunk("new", OLD_HANDOVER_RECORD.format(attached=f"{ATTACHED}image 1.\n\n")), user_chunk("new", "look")
    step = talk.agent.say(*said, update("new", "user_message_chunk", content=IMAGE), result(2, {}))
    assert step.to_client.count(b"aGk=") == 1


@pytest.mark.parametrize("said", [f"{INTRODUCTION} Is that so?", f"{INTRODUCTION}\n\nUser:\n> mend it", "mend it"])
def test_what_the_user_typed_is_shown_although_it_begins_like_a_record(said: str) -> None:
    talk = reopened(RESUMES)
    talk.agent.say(user_chunk("new", said), chunk("new", "Yes."), result(2, {}))
    assert line(user_chunk("s", said), chunk("s", "Yes.")) in talk.all.to_client


def test_in_a_session_that_was_not_handed_over_a_record_is_the_users_words() -> None:
    talk = CoreConversation().initialize(RESUMES)
    talk.stored["s"] = SimulatedSession()
    talk.client.say(resume(2, "s"))
    said = user_chunk("s", OLD_HANDOVER_RECORD.format(attached=""))
    assert line(said) in talk.agent.say(said, result(2, {})).to_client


def test_after_the_first_turn_updates_pass_unparsed_again() -> None:
    talk = CoreConversation().initialize(LOADS)
    talk.stored["s"] = SimulatedSession(moved=True)
    talk.client.say(load(2, "s"))
    talk.agent.say(result(2, {}))
    talk.end_past(2)
    talk.client.say(prompt(3, "s"))
    assert talk.core.fast_path.try_admit_updates(line(chunk("s", "a"))) is None
    talk.agent.say(prompt_answer(3))
    assert talk.core.fast_path.try_admit_updates(line(chunk("s", "a"))) == "s"
