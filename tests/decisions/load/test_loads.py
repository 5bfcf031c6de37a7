"""Loads: what waits, what is compared, what is answered and what passes."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from acp_proxy.comparison.whose_past import PastRule
from acp_proxy.decisions.capabilities import AGENT, NEVER, Modes
from acp_proxy.decisions.effects import ChooseAndShowPast, LookUpSession, RecordNote
from tests.conversation import (
    RESUMES,
    STATES,
    CoreConversation,
    SimulatedSession,
    Step,
    agent_kept,
    agent_lines,
    cancel,
    chunk,
    client_kept,
    commands,
    error,
    line,
    load,
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
    title_update,
    update,
)
from tests.decisions.load.loading import (
    CONVERSATION,
    DEEP,
    GREETING,
    KEPT_OPENING,
    ODD,
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

# The usual order.


@pytest.mark.parametrize("meta", [{"terminal_output": True}, {"terminal_output_delta": True}, {}])
def test_whoever_shows_the_past_knows_whether_the_client_shows_the_agents_terminals(meta: dict[str, bool]) -> None:
    talk = CoreConversation()
    talk.stored["s"] = SimulatedSession()
    talk.client.say(request(0, "initialize", {"protocolVersion": 1, "clientCapabilities": {"_meta": meta}}))
    talk.agent.say(result(0, {"protocolVersion": 1, "agentCapabilities": RESUMES}))
    talk.client.say(load(1, "s"))
    [asked] = talk.agent.say(result(1, {})).asked
    assert isinstance(asked, ChooseAndShowPast)
    assert asked.client_shows_agent_terminals == bool(meta)


def test_a_load_is_sent_as_a_resume_then_the_past_is_shown_then_it_is_answered() -> None:
    talk = about_to_load()
    step = talk.client.say(load(1, "s"))
    assert step.asked == [LookUpSession(ONE, "s")]
    assert (step.to_agent, step.to_client, step.kept) == (line(resume(1, "s")), b"", [])
    answer = result(1, {"modes": {"currentModeId": "plan"}, "sessionId": "s", "unknown": 1.0})
    step = talk.agent.say(answer)
    assert step.asked == [ChooseAndShowPast(ONE)]
    assert step.to_client == b""
    note = opened_note("session/load", modes={"currentModeId": "plan"})
    assert step.kept == [KEPT_OPENING[0], RecordNote("s", note)]
    talk.send_past(1, chunk("s", "told"))
    step = talk.end_past(1, commands("s", "x"))
    assert step.to_client == line(answer, commands("s", "x"))
    assert step.asked == []
    assert talk.agent.say(chunk("s", "live")).to_client == line(chunk("s", "live"))
    assert talk.open_transcripts == []


@pytest.mark.parametrize(
    ("asked", "passed"),
    [
        (
            b'{"method":"session/load","id":1,"params":{"sessionId":"s","method":"session/load"}}\n',
            b'{"method":"session/resume","id":1,"params":{"sessionId":"s","method":"session/load"}}\n',
        ),
        (
            b' { "params" : {"cwd":"/w" , "sessionId":"\\u0073","_meta":ODD},"method"\t: "session\\/load","id":1}\r\n',
            b' { "params" : {"cwd":"/w" , "sessionId":"\\u0073","_meta":ODD},"method"\t: "session/resume","id":1}\r\n',
        ),
        (
            b'{"id":1,"method":"first","params":{"sessionId":"s"},"method":"session/load"}\n',
            b'{"id":1,"method":"first","params":{"sessionId":"s"},"method":"session/resume"}\n',
        ),
        (
            b'\xef\xbb\xbf{"id":1,"method":"session/load","params":{"sessionId":"s"}}\n',
            b'\xef\xbb\xbf{"id":1,"method":"session/resume","params":{"sessionId":"s"}}\n',
        ),
    ],
)
def test_only_the_method_of_a_load_is_changed(asked: bytes, passed: bytes) -> None:
    asked, passed = (each.replace(b"ODD", ODD) for each in (asked, passed))
    assert about_to_load().client.say(asked).to_agent == passed


def test_the_agents_answer_passes_byte_for_byte() -> None:
    talk = loading()
    answer = b' {"result":{"b":1.0,"a":{"x":12345678901234567890123}} , "id":1,"jsonrpc":"2.0"}\r\n'
    talk.agent.say(answer)
    assert talk.end_past(1).to_client == answer


def test_a_null_result_becomes_an_object_and_other_bytes_stay() -> None:
    talk = loading()
    talk.agent.say(b'{ "result": null, "id":1,"big":12345678901234567890123 }\r\n')
    assert talk.end_past(1).to_client == b'{ "result": {}, "id":1,"big":12345678901234567890123 }\r\n'


def test_an_answer_without_a_result_gets_an_empty_one() -> None:
    talk = loading()
    talk.agent.say(b'{"jsonrpc":"2.0","id":1}\n')
    assert talk.end_past(1).to_client == line(result(1, {}))


def test_an_answer_without_a_newline_does_not_run_into_what_follows() -> None:
    talk = loading()
    talk.agent.say(commands("s", "held"), raw(result(1, {})))
    assert talk.end_past(1, commands("s", "stored")).to_client == line(
        result(1, {}), commands("s", "stored"), commands("s", "held")
    )


def test_an_answer_with_neither_result_nor_error_is_passed_on() -> None:
    talk = loading()
    talk.agent.say(b'{"id":1,"error":null}\n')
    assert talk.end_past(1).to_client == b'{"id":1,"error":null}\n'


# --- until the agent answers


@pytest.mark.parametrize("spelling", [line, respell])
@pytest.mark.parametrize("kind", STATES)
def test_state_updates_are_held_until_the_answer_is_sent(kind: str, spelling: Any) -> None:
    talk = loading()
    said = spelling(update("s", kind, x=1))
    assert talk.agent.say(said).to_client == b""
    assert talk.agent.say(result(1, {})).kept == [
        *KEPT_OPENING,
        agent_kept("s", said),
    ]
    assert talk.end_past(1, commands("s", "stored")).to_client == (line(result(1, {}), commands("s", "stored")) + said)


@pytest.mark.parametrize("spelling", [line, respell])
def test_the_transcript_is_shown_if_the_agents_replay_lacks_something(spelling: Any) -> None:
    talk = loading(SimulatedSession(says=PAST))
    told = [spelling(said) for said in TURN_ONE]
    assert talk.agent.say(*told).to_client == b""
    step = talk.agent.say(result(1, {}))
    assert (step.to_client, step.asked) == (b"", [ChooseAndShowPast(ONE, agent_lines(*told), needs_comparison=True)])
    step = talk.end_past(1)
    assert step.to_client == line(result(1, {}))
    assert talk.all.kept[1:] == [*KEPT_OPENING, shown_note("transcript", PastRule.REPLAY_IS_WORSE)]


def test_the_tail_of_the_agents_replay_follows_the_transcript() -> None:
    talk = loading(SimulatedSession(says=PAST))
    talk.agent.say(*TURN_ONE, GREETING)
    talk.agent.say(result(1, {}))
    talk.send_past(1, *PAST)
    assert talk.end_past(1, commands("s", "x")).to_client == line(GREETING, result(1, {}), commands("s", "x"))


@pytest.mark.parametrize("complete", [True, False])
def test_an_agents_replay_that_lacks_nothing_is_shown(complete: bool) -> None:
    talk = loading(SimulatedSession(complete=complete, says=PAST))
    told = [*TURN_ONE, commands("s", "x"), *TURN_TWO]
    assert talk.agent.say(*told).to_client == b""
    step = talk.agent.say(result(1, {}))
    assert (step.to_client, talk.being_shown) == (b"", [ONE])
    assert step.kept == [*KEPT_OPENING, agent_kept("s", commands("s", "x"))]
    assert talk.agent.say(chunk("s", "live")).to_client == b""
    step = talk.end_past(1)
    assert step.to_client == line(*TURN_ONE, *TURN_TWO, result(1, {}), commands("s", "x"), chunk("s", "live"))
    assert step.kept == [shown_note("agent", PastRule.REPLAY_HAS_ALL)]
    assert talk.open_transcripts == []


@pytest.mark.parametrize("kind", CONVERSATION)
def test_the_agents_replay_of_an_unrecorded_session_is_shown(kind: str) -> None:
    talk = loading(SimulatedSession(has_transcript=False))
    told = [update("s", kind, n=1), commands("s", "x"), update("s", kind, n=2)]
    assert talk.agent.say(*told).to_client == b""
    step = talk.agent.say(result(1, {}))
    assert step.to_client == line(told[0], told[2], result(1, {}), told[1])
    assert (step.asked, step.warnings) == ([], [])


def test_an_incomplete_transcript_is_shown_if_the_agent_replays_nothing() -> None:
    talk = loading(SimulatedSession(complete=False))
    talk.agent.say(commands("s", "x"))
    assert talk.agent.say(result(1, {})).asked == [ChooseAndShowPast(ONE)]
    assert talk.end_past(1).kept == [shown_note("transcript", PastRule.REPLAY_IS_WORSE)]


def test_a_session_without_any_history_opens_empty_with_a_warning() -> None:
    talk = loading(SimulatedSession(has_transcript=False))
    step = talk.agent.say(result(1, None))
    assert step.to_client == line(result(1, {}))
    assert len(step.warnings) == 1
    assert step.kept == KEPT_OPENING
    assert talk.agent.say(chunk("s", "live")).to_client == line(chunk("s", "live"))
    assert agent_kept("s", chunk("s", "live")) in talk.client.say(prompt(2, "s")).kept


def test_updates_of_other_sessions_pass_during_a_load() -> None:
    talk = about_to_load().open("t")
    talk.client.say(prompt(5, "t"), load(1, "s"))
    for answer in (None, result(1, {})):
        if answer is not None:
            talk.agent.say(answer)
        said = [chunk("t", "a"), permission(0, "t"), notification("_x", {"sessionId": "t"})]
        step = talk.agent.say(*said)
        assert step.to_client == line(*said)
        assert step.kept == [agent_kept("t", chunk("t", "a")), agent_kept("t", permission(0, "t"))]
    assert talk.agent.say(prompt_answer(5)).to_client == line(title_update("t"), prompt_answer(5))


def test_an_agents_request_before_its_answer_passes_at_once() -> None:
    """The agent may need the client's answer before it can answer the load."""
    talk = loading()
    asked = request(0, "fs/read_text_file", {"sessionId": "s", "path": "/w/AGENTS.md"})
    assert talk.agent.say(commands("s", "x"), asked).to_client == line(commands("s", "x"), asked)
    assert talk.client.say(result(0, {"content": ""})).to_agent == line(result(0, {"content": ""}))
    talk.agent.say(result(1, {}))
    assert talk.end_past(1).to_client == line(result(1, {}))


def test_updates_before_an_agents_request_pass_as_its_replay() -> None:
    talk = loading(SimulatedSession(says=PAST))
    asked = permission(0, "s")
    assert talk.agent.say(*TURN_ONE, asked).to_client == line(*TURN_ONE, asked)
    assert talk.agent.say(*TURN_TWO, result(1, {})).to_client == line(*TURN_TWO, result(1, {}))
    assert talk.open_transcripts == []
    assert kept_lines(talk.client.say(prompt(2, "s"))) == [client_kept("s", prompt(2, "s"))]


def test_after_a_cancelled_load_an_agents_request_waits_for_the_output_with_held_updates() -> None:
    talk = loading()
    talk.agent.say(chunk("s", "told"), commands("s", "x"))
    talk.output_is_busy = True
    talk.client.say(cancel(1))
    assert talk.agent.say(permission(0, "s")).to_client == b""
    assert talk.free_output().to_client.endswith(b"}}\n" + line(commands("s", "x"), permission(0, "s")))


def test_extension_messages_of_the_session_wait_and_leave_in_order() -> None:
    talk = showing_past()
    said = [chunk("s", "one"), notification("_x", {"sessionId": "s"}), chunk("s", "two"), permission(0, "s")]
    assert talk.agent.say(*said).to_client == b""
    assert talk.agent.say(cancel(0)).to_client == b""
    assert talk.agent.say(cancel(7)).to_client == line(cancel(7))
    assert talk.end_past(1).to_client == line(result(1, {}), *said, cancel(0))


def test_a_batch_before_the_agents_answer_passes_and_is_not_recorded() -> None:
    step = loading().agent.say([chunk("s", "told")])
    assert (step.to_client, step.kept) == (line([chunk("s", "told")]), [])


def test_a_load_nested_too_deeply_to_rewrite_is_refused() -> None:
    talk = about_to_load()
    deep = b"[" * DEEP + b"]" * DEEP
    said = b'{"id":1,"method":"session/load","params":{"sessionId":"s","_meta":%s}}\n' % deep
    step = talk.client.say(said)
    assert (step.refusals, step.to_agent, talk.open_transcripts) == ([(1, -32602)], b"", [])


# --- refusals


@pytest.mark.parametrize(
    "stored", [SimulatedSession(), SimulatedSession(complete=False), SimulatedSession(has_transcript=False)]
)
def test_the_agents_error_is_passed_on_and_nothing_is_shown(stored: SimulatedSession) -> None:
    talk = loading(stored)
    talk.agent.say(chunk("s", "told"))
    refusal = b'{"id":1,"error":{"code":-32603,"message":"no", "data":1.0}}\r\n'
    step = talk.agent.say(refusal)
    assert (step.to_client, step.kept) == (line(chunk("s", "told")) + refusal, [])
    assert talk.open_transcripts == []
    assert talk.agent.say(chunk("s", "later")).to_client == line(chunk("s", "later"))


def test_state_updates_are_not_lost_with_the_agents_error() -> None:
    talk = loading()
    talk.agent.say(commands("s", "x"))
    assert talk.agent.say(error(1, -32603)).to_client == line(commands("s", "x"), error(1, -32603))


@pytest.mark.parametrize("ask", [load, resume])
@pytest.mark.parametrize("capabilities", [RESUMES, {"loadSession": True, "sessionCapabilities": {"resume": {}}}])
def test_a_deleted_session_is_not_found_and_the_agent_is_not_asked(ask: Any, capabilities: Any) -> None:
    talk = about_to_load(SimulatedSession(deleted=True), capabilities)
    step = talk.client.say(ask(1, "s"))
    assert step.to_agent == b""
    assert json.loads(step.to_client) == {
        "jsonrpc": "2.0",
        "id": 1,
        "error": {"code": -32002, "message": "Session not found: s"},
    }


@pytest.mark.parametrize("name", ["ENOENT", "EACCES", "EIO", "ETIMEDOUT"])
def test_unreadable_history_refuses_the_load_without_asking_the_agent(name: str) -> None:
    step = about_to_load(SimulatedSession(trouble=name)).client.say(load(1, "s"))
    assert step.to_agent == b""
    assert json.loads(step.to_client)["error"] == {
        "code": -32603,
        "message": f"Session history cannot be read ({name}). Run: acp-proxy doctor",
    }


def test_a_resume_passes_whatever_the_state_of_the_transcript() -> None:
    for stored in (
        SimulatedSession(),
        SimulatedSession(has_transcript=False),
        SimulatedSession(trouble="EIO"),
        SimulatedSession(complete=False),
    ):
        talk = about_to_load(stored)
        said = b'{"id":1, "method":"session/resume","params":{"sessionId":"s"}}'
        assert talk.client.say(said).to_agent == said
        assert talk.agent.say(chunk("s", "told"), result(1, None)).to_client == line(
            chunk("s", "told"), result(1, None)
        )
        assert talk.open_transcripts == []


def test_a_load_with_the_id_of_an_open_load_is_refused() -> None:
    talk = loading()
    talk.stored["t"] = SimulatedSession()
    assert talk.client.say(load(1, "t")).refusals == [(1, -32600)]
    talk.agent.say(result(1, {}))
    assert talk.end_past(1).to_client == line(result(1, {}))
    assert talk.client.say(load(1, "t")).to_agent == line(resume(1, "t"))


# --- loads that are not served


@pytest.mark.parametrize(
    "begin",
    [
        lambda: CoreConversation(modes=Modes(handover=NEVER)).initialize(),
        lambda: CoreConversation(modes=Modes(load=AGENT)).initialize(RESUMES),
        lambda: CoreConversation(serves=False).initialize(RESUMES),
    ],
)
def test_a_load_that_is_not_served_passes(begin: Callable[[], CoreConversation]) -> None:
    talk = begin()
    talk.stored["s"] = SimulatedSession()
    assert talk.client.say(load(1, "s")).to_agent == line(load(1, "s"))
    step = talk.agent.say(chunk("s", "told"), result(1, None))
    assert step.to_client == line(chunk("s", "told"), result(1, None))
    assert talk.open_transcripts == []


def test_a_load_in_a_batch_passes() -> None:
    assert about_to_load().client.say([load(1, "s")]).to_agent == line([load(1, "s")])


def test_a_new_session_passes_while_another_is_loaded() -> None:
    talk = loading()
    talk.client.say(new(2))
    early = commands("n", "x")
    assert talk.agent.say(early).to_client == line(early)
    step: Step = talk.agent.say(result(2, {"sessionId": "n"}))
    assert step.to_client == line(result(2, {"sessionId": "n"}))
    assert step.kept[-1] == agent_kept("n", early)
