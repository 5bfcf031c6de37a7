"""Loads that we serve on top of the agent's resume."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from acp_proxy.core.capabilities import AGENT, NEVER, Modes
from acp_proxy.core.effects import (
    Begin,
    DeleteSession,
    EndTurn,
    FindSession,
    ForgetReplay,
    Keep,
    KeepNote,
    ReleaseHeld,
    StartReplay,
    StopReplay,
)
from acp_proxy.core.events import ReplayEnded
from acp_proxy.core.restoring import HELD_LIMIT
from acp_proxy.wire import record
from acp_proxy.wire.jsonrpc import Peer
from tests.conversation import (
    RESUMES,
    STATES,
    Said,
    Step,
    Stored,
    Talk,
    cancel,
    chunk,
    commands,
    delete,
    error,
    line,
    load,
    new,
    notification,
    opened_note,
    permission,
    prompt,
    raw,
    request,
    requested,
    result,
    resume,
    spaced,
    stopped,
    titled,
    update,
)

ONE = requested(1)
DEEP = 1000
"""Levels that can be read, but not measured."""
ODD = b'{"n":1.0,"big":123456789012345678901234,"s":"\\ud800\xe2\x80\xa8","mcpServers":[{"env":[{"x":"\xff"}]}],"n":2}'
"""What no encoder would write again."""
CONVERSATION = [
    "user_message_chunk",
    "agent_message_chunk",
    "agent_thought_chunk",
    "tool_call",
    "tool_call_update",
    "plan",
    "compaction_update",
    "a_kind_nobody_knows",
]
KEPT_OPENING = [Begin("s", "/w", [], record.PARTIAL), KeepNote("s", opened_note("session/load"))]


def about_to_load(stored: Stored | None = None, capabilities: object = None) -> Talk:
    talk = Talk().begins(capabilities or RESUMES)
    talk.stored["s"] = stored or Stored()
    return talk


def loading(stored: Stored | None = None) -> Talk:
    """The agent was asked and has not answered."""
    talk = about_to_load(stored)
    talk.client(load(1, "s"))
    return talk


def replaying(stored: Stored | None = None) -> Talk:
    talk = loading(stored)
    talk.agent(result(1, {}))
    assert talk.replays_running == [ONE]
    return talk


def agent_kept(session: str, said: Said, of: str | None = None) -> Keep:
    return Keep(session, Peer.AGENT, raw(said), of)


# The usual course.


def test_a_load_goes_to_the_agent_as_a_resume_is_replayed_and_then_answered() -> None:
    talk = about_to_load()
    step = talk.client(load(1, "s"))
    assert step.asked == [FindSession(ONE, "s")]
    assert (step.to_agent, step.to_client, step.kept) == (line(resume(1, "s")), b"", [])
    answer = result(1, {"modes": {"currentModeId": "plan"}, "sessionId": "s", "unknown": 1.0})
    step = talk.agent(answer)
    assert step.asked == [StartReplay(ONE)]
    assert step.to_client == b""
    note = opened_note("session/load", modes={"currentModeId": "plan"})
    assert step.kept == [KEPT_OPENING[0], KeepNote("s", note)]
    talk.tells(1, chunk("s", "told"))
    step = talk.replay_ends(1, commands("s", "x"))
    assert step.to_client == line(answer, commands("s", "x"))
    assert step.asked == []
    assert talk.agent(chunk("s", "live")).to_client == line(chunk("s", "live"))
    assert talk.replays_left == []


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
    assert about_to_load().client(asked).to_agent == passed


def test_the_answer_is_the_agents_byte_for_byte() -> None:
    talk = loading()
    answer = b' {"result":{"b":1.0,"a":{"x":12345678901234567890123}} , "id":1,"jsonrpc":"2.0"}\r\n'
    talk.agent(answer)
    assert talk.replay_ends(1).to_client == answer


def test_a_result_of_null_becomes_an_object_and_every_other_byte_stays() -> None:
    talk = loading()
    talk.agent(b'{ "result": null, "id":1,"big":12345678901234567890123 }\r\n')
    assert talk.replay_ends(1).to_client == b'{ "result": {}, "id":1,"big":12345678901234567890123 }\r\n'


def test_an_answer_without_a_newline_does_not_run_into_what_follows() -> None:
    talk = loading()
    talk.agent(commands("s", "held"), raw(result(1, {})))
    assert talk.replay_ends(1, commands("s", "stored")).to_client == line(
        result(1, {}), commands("s", "stored"), commands("s", "held")
    )


def test_an_answer_with_neither_result_nor_error_is_passed_on() -> None:
    talk = loading()
    talk.agent(b'{"id":1,"error":null}\n')
    assert talk.replay_ends(1).to_client == b'{"id":1,"error":null}\n'


# Until the agent answers.


@pytest.mark.parametrize("spelling", [line, spaced])
@pytest.mark.parametrize("kind", STATES)
def test_how_things_stand_is_held_until_the_answer_is_out(kind: str, spelling: Any) -> None:
    talk = loading()
    said = spelling(update("s", kind, x=1))
    assert talk.agent(said).to_client == b""
    assert talk.agent(result(1, {})).kept == [
        *KEPT_OPENING,
        agent_kept("s", said),
    ]
    assert talk.replay_ends(1, commands("s", "stored")).to_client == (
        line(result(1, {}), commands("s", "stored")) + said
    )


@pytest.mark.parametrize("spelling", [line, spaced])
@pytest.mark.parametrize("kind", CONVERSATION)
def test_what_the_agent_tells_against_the_rules_is_dropped_where_ours_is_complete(kind: str, spelling: Any) -> None:
    talk = loading()
    assert talk.agent(spelling(update("s", kind))).to_client == b""
    assert talk.agent(result(1, {})).asked == [StartReplay(ONE, if_complete=True)]
    assert talk.replay_ends(1, ours=True).to_client == line(result(1, {}))
    assert talk.all.kept[1:] == KEPT_OPENING


@pytest.mark.parametrize("kind", CONVERSATION)
def test_what_the_agent_tells_against_the_rules_is_the_history_where_ours_has_gaps(kind: str) -> None:
    talk = loading()
    told = [update("s", kind, n=1), commands("s", "x"), update("s", kind, n=2)]
    assert talk.agent(*told).to_client == b""
    step = talk.agent(result(1, {}))
    assert (step.to_client, step.asked) == (b"", [StartReplay(ONE, if_complete=True)])
    assert step.kept == [*KEPT_OPENING, agent_kept("s", told[1])]
    assert talk.agent(chunk("s", "live")).to_client == b""
    assert talk.replay_ends(1, ours=False).to_client == line(
        told[0], told[2], result(1, {}), told[1], chunk("s", "live")
    )
    assert talk.replays_left == []


def test_what_the_agent_tells_against_the_rules_is_the_history_where_there_is_none_of_ours() -> None:
    talk = loading(Stored(held=False))
    talk.agent(chunk("s", "told"))
    step = talk.agent(result(1, {}))
    assert (step.to_client, step.asked) == (line(chunk("s", "told"), result(1, {})), [ForgetReplay(ONE)])


def test_ours_is_told_however_incomplete_where_the_agent_tells_nothing() -> None:
    talk = loading(Stored(complete=False))
    talk.agent(commands("s", "x"))
    assert talk.agent(result(1, {})).asked == [StartReplay(ONE)]


def test_a_session_that_nobody_has_a_word_of_opens_empty_and_that_is_said() -> None:
    talk = loading(Stored(held=False))
    step = talk.agent(result(1, None))
    assert step.to_client == line(result(1, {}))
    assert len(step.warnings) == 1
    assert step.kept == KEPT_OPENING
    assert talk.agent(chunk("s", "live")).kept == [agent_kept("s", chunk("s", "live"))]


def test_what_the_agent_tells_of_a_session_that_we_do_not_have_is_its_history() -> None:
    talk = loading(Stored(held=False))
    talk.agent(chunk("s", "told"))
    step = talk.agent(result(1, {}))
    assert (step.to_client, step.warnings) == (line(chunk("s", "told"), result(1, {})), [])


def test_other_sessions_flow_while_a_load_is_under_way() -> None:
    talk = about_to_load().opens("t")
    talk.client(prompt(5, "t"), load(1, "s"))
    for answer in (None, result(1, {})):
        if answer is not None:
            talk.agent(answer)
        said = [chunk("t", "a"), permission(0, "t"), notification("_x", {"sessionId": "s"})]
        step = talk.agent(*said)
        assert step.to_client == line(*said)
        assert step.kept == [agent_kept("t", chunk("t", "a")), agent_kept("t", permission(0, "t"))]
    assert talk.agent(stopped(5)).to_client == line(titled("t"), stopped(5))


def test_a_question_before_the_agents_answer_is_passed_at_once() -> None:
    """The agent may need the client's answer to be able to give its own."""
    talk = loading()
    asked = request(0, "fs/read_text_file", {"sessionId": "s", "path": "/w/AGENTS.md"})
    assert talk.agent(commands("s", "x"), asked).to_client == line(asked)
    assert talk.client(result(0, {"content": ""})).to_agent == line(result(0, {"content": ""}))
    talk.agent(result(1, {}))
    assert talk.replay_ends(1).to_client == line(result(1, {}), commands("s", "x"))


def test_a_batch_before_the_agents_answer_passes_and_the_past_in_it_is_not_recorded_again() -> None:
    step = loading().agent([chunk("s", "told")])
    assert (step.to_client, step.kept) == (line([chunk("s", "told")]), [])


def test_a_load_that_is_nested_too_deeply_to_be_renamed_is_refused() -> None:
    talk = about_to_load()
    deep = b"[" * DEEP + b"]" * DEEP
    said = b'{"id":1,"method":"session/load","params":{"sessionId":"s","_meta":%s}}\n' % deep
    step = talk.client(said)
    assert (step.refusals, step.to_agent, talk.replays_left) == ([(1, -32602)], b"", [])


# Refusals.


@pytest.mark.parametrize("stored", [Stored(), Stored(complete=False), Stored(held=False)])
def test_the_agents_error_is_passed_on_and_nothing_is_replayed(stored: Stored) -> None:
    talk = loading(stored)
    talk.agent(chunk("s", "told"))
    refusal = b'{"id":1,"error":{"code":-32603,"message":"no", "data":1.0}}\r\n'
    step = talk.agent(refusal)
    assert (step.to_client, step.kept) == (refusal, [])
    assert talk.replays_left == []
    assert talk.agent(chunk("s", "later")).to_client == line(chunk("s", "later"))


def test_how_things_stand_is_not_lost_with_the_agents_error() -> None:
    talk = loading()
    talk.agent(commands("s", "x"))
    assert talk.agent(error(1, -32603)).to_client == line(commands("s", "x"), error(1, -32603))


@pytest.mark.parametrize("ask", [load, resume])
@pytest.mark.parametrize("capabilities", [RESUMES, {"loadSession": True, "sessionCapabilities": {"resume": {}}}])
def test_a_deleted_session_is_not_found_and_the_agent_is_not_asked(ask: Any, capabilities: Any) -> None:
    talk = about_to_load(Stored(deleted=True), capabilities)
    step = talk.client(ask(1, "s"))
    assert step.to_agent == b""
    assert json.loads(step.to_client) == {
        "jsonrpc": "2.0",
        "id": 1,
        "error": {"code": -32002, "message": "Session not found: s"},
    }


@pytest.mark.parametrize("name", ["ENOENT", "EACCES", "EIO", "ETIMEDOUT"])
def test_history_that_cannot_be_read_refuses_the_load_before_the_agent_is_asked(name: str) -> None:
    step = about_to_load(Stored(trouble=name)).client(load(1, "s"))
    assert step.to_agent == b""
    assert json.loads(step.to_client)["error"] == {
        "code": -32603,
        "message": f"Session history cannot be read ({name}). Run: acp-proxy doctor",
    }


def test_a_resume_is_the_agents_whatever_the_state_of_our_history() -> None:
    for stored in (Stored(), Stored(held=False), Stored(trouble="EIO"), Stored(complete=False)):
        talk = about_to_load(stored)
        said = b'{"id":1, "method":"session/resume","params":{"sessionId":"s"}}'
        assert talk.client(said).to_agent == said
        assert talk.agent(chunk("s", "told"), result(1, None)).to_client == line(chunk("s", "told"), result(1, None))
        assert talk.replays_left == []


def test_an_id_that_is_in_use_for_a_load_is_refused_for_another() -> None:
    talk = loading()
    talk.stored["t"] = Stored()
    assert talk.client(load(1, "t")).refusals == [(1, -32600)]
    talk.agent(result(1, {}))
    assert talk.replay_ends(1).to_client == line(result(1, {}))
    assert talk.client(load(1, "t")).to_agent == line(resume(1, "t"))


# Cancelled.


def test_a_load_cancelled_before_the_agents_answer_is_answered_at_once_and_the_late_answer_swallowed() -> None:
    talk = loading()
    talk.agent(commands("s", "x"))
    step = talk.client(cancel(1))
    assert step.to_agent == line(cancel(1))
    assert step.refusals == [(1, -32800)]
    assert step.to_client.endswith(line(commands("s", "x")))
    step = talk.agent(result(1, {}))
    assert step.to_client == b""
    assert step.kept == [*KEPT_OPENING, agent_kept("s", commands("s", "x"))]
    assert talk.replays_left == []
    assert talk.agent(chunk("s", "live")).to_client == line(chunk("s", "live"))


def test_a_late_error_is_swallowed_too() -> None:
    talk = loading()
    talk.client(cancel(1))
    step = talk.agent(error(1, -32800))
    assert (step.to_client, step.kept, talk.replays_left) == (b"", [], [])


def test_after_a_cancel_the_agents_telling_is_swallowed_and_how_things_stand_passes() -> None:
    talk = loading(Stored(complete=False))
    talk.agent(chunk("s", "told"))
    talk.client(cancel(1))
    assert talk.agent(chunk("s", "told"), commands("s", "x")).to_client == line(commands("s", "x"))
    assert talk.agent(result(1, {})).kept == [*KEPT_OPENING, agent_kept("s", commands("s", "x"))]


def test_a_load_cancelled_during_the_replay_is_answered_at_once_and_nothing_more_is_told() -> None:
    talk = replaying()
    talk.tells(1, chunk("s", "told"))
    talk.agent(chunk("s", "live"))
    step = talk.client(cancel(1))
    assert step.asked == [StopReplay(ONE), ReleaseHeld(ONE)]
    assert step.refusals == [(1, -32800)]
    assert step.to_client.endswith(line(chunk("s", "live")))
    assert talk.tells(1, chunk("s", "more")).to_client == b""
    assert talk.replay_ends(1, commands("s", "stored")).to_client == b""
    assert talk.agent(chunk("s", "later")).to_client == line(chunk("s", "later"))


def test_a_second_cancel_changes_nothing() -> None:
    talk = loading()
    talk.client(cancel(1))
    step = talk.client(cancel(1))
    assert (step.to_agent, step.to_client) == (line(cancel(1)), b"")


@pytest.mark.parametrize("id", [2, "1", 1.0, True, None, [1], {"id": 1}])
def test_a_cancel_of_something_else_only_passes(id: object) -> None:
    talk = loading()
    step = talk.client(cancel(id))
    assert (step.to_agent, step.to_client) == (line(cancel(id)), b"")
    talk.agent(result(1, {}))
    assert talk.replay_ends(1).to_client == line(result(1, {}))


def test_a_notification_that_only_looks_like_a_cancel_passes() -> None:
    said = cancel(1) | {"method": "$/progress"}
    step = loading().client(said)
    assert (step.to_agent, step.to_client) == (line(said), b"")


@pytest.mark.parametrize("params", [None, {}, [1], {"id": 1}, 1])
def test_a_cancel_of_nothing_only_passes(params: object) -> None:
    step = loading().client(notification("$/cancel_request", params))
    assert (step.to_agent, step.to_client) == (line(notification("$/cancel_request", params)), b"")


@pytest.mark.parametrize("id", ["1.0", "1e2", "12345678901234567890123", '"\\u0031"', "null", "true"])
def test_a_load_of_any_id_can_be_cancelled(id: str) -> None:
    talk = about_to_load()
    talk.client(f'{{"id":{id},"method":"session/load","params":{{"sessionId":"s"}}}}\n'.encode())
    said = f'{{"method":"$/cancel_request","params":{{"requestId": {id} }}}}\n'.encode()
    told = talk.client(said).to_client
    assert json.loads(told)["error"]["code"] == -32800
    assert json.dumps(json.loads(told)["id"]) == json.dumps(json.loads(id))


def test_an_id_can_be_used_again_after_a_cancelled_replay() -> None:
    talk = replaying()
    talk.client(cancel(1))
    talk.client(request(1, "session/set_mode", {"sessionId": "s", "modeId": "plan"}))
    assert talk.agent(result(1, {})).to_client == line(result(1, {}))


def test_the_end_of_a_cancelled_replay_is_not_taken_for_that_of_a_load_with_the_same_id() -> None:
    talk = replaying()
    talk.client(cancel(1))
    talk.client(load(1, "s"))
    assert talk.core.handle(ReplayEnded(ONE, [line(commands("s", "x"))])) == []
    assert talk.agent(result(1, {})).asked == [StartReplay(ONE)]
    assert talk.replay_ends(1).to_client == line(result(1, {}))


def test_a_load_and_another_request_of_one_id_are_answered_oldest_first() -> None:
    talk = about_to_load()
    talk.client(request(1, "session/set_mode", {"sessionId": "t"}), load(1, "s"))
    assert talk.agent(result(1, None)).to_client == line(result(1, None))
    assert talk.agent(result(1, {})).asked == [StartReplay(ONE)]


def test_a_session_whose_load_was_cancelled_and_never_answered_can_still_be_talked_to() -> None:
    talk = about_to_load().opens("s")
    talk.client(load(1, "s"))
    talk.client(cancel(1))
    talk.client(prompt(2, "s"))
    said = [chunk("s", "a"), permission(0, "s"), update("s", "tool_call_update"), stopped(2), chunk("s", "b")]
    step = talk.agent(*said[:4])
    assert step.to_client == line(*said[:3], titled("s"), said[3])
    assert agent_kept("s", chunk("s", "a")) in step.kept


# A session that is live.


def test_a_load_during_a_turn_loses_nothing_of_the_turn() -> None:
    talk = about_to_load().opens("s")
    talk.client(prompt(5, "s"))
    talk.agent(chunk("s", "before"))
    talk.client(load(1, "s"))
    step = talk.agent(chunk("s", "one"), spaced(chunk("s", "two")))
    assert step.to_client == b""
    assert step.kept == [agent_kept("s", chunk("s", "one")), agent_kept("s", spaced(chunk("s", "two")))]
    talk.agent(result(1, {}))
    step = talk.agent(chunk("s", "three"), stopped(5), chunk("s", "four"))
    assert step.to_client == b""
    assert step.kept == [
        agent_kept("s", chunk("s", "three")),
        agent_kept("s", stopped(5), "session/prompt"),
        EndTurn("s"),
        agent_kept("s", chunk("s", "four")),
    ]
    talk.tells(1, chunk("s", "before"))
    assert talk.replay_ends(1).to_client == line(
        result(1, {}),
        chunk("s", "one"),
        spaced(chunk("s", "two")),
        chunk("s", "three"),
        titled("s"),
        stopped(5),
        chunk("s", "four"),
    )
    assert talk.agent(chunk("s", "five")).to_client == line(chunk("s", "five"))


def test_a_question_of_a_running_turn_passes_before_the_agents_answer_since_it_may_wait_for_the_reply() -> None:
    talk = about_to_load().opens("s")
    talk.client(prompt(5, "s"))
    talk.client(load(1, "s"))
    assert talk.agent(permission(0, "s")).to_client == line(permission(0, "s"))


def test_a_turn_that_ends_before_the_agent_answers_the_load_loses_nothing() -> None:
    talk = about_to_load().opens("s")
    talk.client(prompt(5, "s"))
    talk.client(load(1, "s"))
    talk.agent(stopped(5))
    assert talk.agent(chunk("s", "late")).kept == [agent_kept("s", chunk("s", "late"))]
    talk.agent(result(1, {}))
    assert talk.replay_ends(1).to_client == line(result(1, {}), titled("s"), stopped(5), chunk("s", "late"))


def test_a_load_during_a_turn_that_is_cancelled_gives_the_turn_back_at_once() -> None:
    talk = about_to_load().opens("s")
    talk.client(prompt(5, "s"))
    talk.client(load(1, "s"))
    talk.agent(chunk("s", "one"))
    assert talk.client(cancel(1)).to_client.endswith(line(chunk("s", "one")))
    step = talk.agent(chunk("s", "two"), stopped(5))
    assert step.to_client == line(chunk("s", "two"), titled("s"), stopped(5))
    assert agent_kept("s", chunk("s", "two")) in step.kept
    assert talk.agent(result(1, {})).to_client == b""


@pytest.mark.parametrize("restored", [False, True])
def test_what_comes_while_a_cancelled_load_waits_for_the_output_does_not_overtake_what_it_held(restored: bool) -> None:
    talk = about_to_load().opens("s")
    talk.client(prompt(5, "s"))
    talk.client(load(1, "s"))
    if restored:
        talk.agent(result(1, {}))
    talk.agent(chunk("s", "one"))
    talk.output_is_busy = True
    talk.client(cancel(1))
    assert talk.agent(chunk("s", "two"), chunk("t", "other")).to_client == line(chunk("t", "other"))
    step = talk.output_is_free()
    assert step.refusals == [(1, -32800)]
    assert step.to_client.endswith(b"}}\n" + line(chunk("s", "one"), chunk("s", "two")))
    assert talk.agent(chunk("s", "three")).to_client == line(chunk("s", "three"))
    assert talk.client(cancel(1)).asked == []


@pytest.mark.parametrize("answer", [result(1, {}), error(1, -32603)])
def test_an_agent_that_answers_a_cancelled_load_before_the_output_is_free_brings_what_it_held(answer: Said) -> None:
    talk = about_to_load().opens("s")
    talk.client(prompt(5, "s"))
    talk.client(load(1, "s"))
    talk.agent(chunk("s", "one"))
    talk.output_is_busy = True
    talk.client(cancel(1))
    step = talk.agent(answer, chunk("s", "two"))
    assert step.refusals == [(1, -32800)]
    assert step.to_client.endswith(b"}}\n" + line(chunk("s", "one"), chunk("s", "two")))
    assert talk.output_is_free().to_client == b""


def test_the_end_of_a_cancelled_replay_brings_what_it_held_where_it_has_the_output_first() -> None:
    talk = replaying()
    talk.agent(chunk("s", "one"))
    talk.output_is_busy = True
    talk.client(cancel(1))
    step = talk.replay_ends(1)
    assert step.refusals == [(1, -32800)]
    assert step.to_client.endswith(b"}}\n" + line(chunk("s", "one")))
    assert talk.output_is_free().to_client == b""


def test_of_two_loads_the_cancelled_one_keeps_its_place_until_the_output_is_free() -> None:
    talk = replaying()
    talk.agent(chunk("s", "one"))
    talk.client(load(2, "s"))
    talk.agent(commands("s", "two"))
    talk.output_is_busy = True
    talk.client(cancel(2))
    talk.agent(commands("s", "three"))
    talk.output_is_free()
    assert talk.replay_ends(1).to_client == line(
        result(1, {}), chunk("s", "one"), commands("s", "two"), commands("s", "three")
    )


def test_a_load_during_a_turn_that_the_agent_refuses_gives_the_turn_back() -> None:
    talk = about_to_load().opens("s")
    talk.client(prompt(5, "s"))
    talk.client(load(1, "s"))
    talk.agent(chunk("s", "one"))
    assert talk.agent(error(1, -32603), chunk("s", "two")).to_client == line(
        chunk("s", "one"), error(1, -32603), chunk("s", "two")
    )


def test_a_close_followed_at_once_by_a_load_keeps_its_answer_and_nothing_comes_twice() -> None:
    talk = about_to_load().opens("s")
    close = request(4, "session/close", {"sessionId": "s"})
    talk.client(close, load(1, "s"))
    assert talk.agent(result(4, {}), result(1, {})).to_client == line(result(4, {}))
    talk.tells(1, chunk("s", "told"))
    assert talk.replay_ends(1).to_client == line(result(1, {}))


# While we replay.


@pytest.mark.parametrize("method", ["session/set_mode", "session/resume", "_vendor/x"])
def test_answers_that_belong_to_no_turn_do_not_wait_for_a_load(method: str) -> None:
    talk = replaying()
    talk.client(request(2, method, {"sessionId": "s"}))
    talk.agent(chunk("s", "held"))
    assert talk.agent(result(2, {})).to_client == line(result(2, {}))
    assert talk.replay_ends(1).to_client == line(result(1, {}), chunk("s", "held"))


def test_what_comes_of_the_session_while_we_replay_follows_the_answer_in_order() -> None:
    talk = replaying()
    said: list[Said] = [
        chunk("s", "one"),
        permission(0, "s"),
        spaced(commands("s", "x")),
        request(1, "terminal/create", {"sessionId": "s"}),
        update("s", "tool_call"),
    ]
    assert talk.agent(*said).to_client == b""
    assert talk.replay_ends(1, commands("s", "stored")).to_client == line(result(1, {}), commands("s", "stored"), *said)


def test_what_comes_while_we_replay_is_recorded_when_it_comes() -> None:
    talk = replaying()
    assert talk.agent(chunk("s", "one"), permission(0, "s")).kept == [
        agent_kept("s", chunk("s", "one")),
        agent_kept("s", permission(0, "s")),
    ]


@pytest.mark.parametrize("together", [True, False])
def test_a_prompt_behind_a_load_is_answered_behind_it(together: bool) -> None:
    talk = about_to_load()
    if together:
        step = talk.client(load(1, "s"), prompt(2, "s"))
    else:
        step = talk.client(load(1, "s"))
        step.add(talk.client(prompt(2, "s")))
    assert step.to_agent == line(resume(1, "s"), prompt(2, "s"))
    assert talk.kept_when_found[ONE] == talk.all.kept[:1]
    said: list[Said] = [chunk("s", "one"), permission(0, "s"), chunk("s", "two"), stopped(2), commands("s", "x")]
    assert talk.agent(result(1, {}), *said).to_client == b""
    talk.tells(1, chunk("s", "told"))
    assert talk.replay_ends(1, commands("s", "stored")).to_client == line(result(1, {}), commands("s", "stored"), *said)
    assert agent_kept("s", chunk("s", "one")) in talk.all.kept


def test_what_the_agent_says_to_a_prompt_behind_a_load_is_not_dropped_if_it_comes_before_the_loads_answer() -> None:
    talk = loading()
    talk.client(prompt(2, "s"))
    step = talk.agent(chunk("s", "one"), stopped(2))
    assert (step.to_client, step.kept[0]) == (b"", agent_kept("s", chunk("s", "one")))
    talk.agent(result(1, {}))
    assert talk.replay_ends(1).to_client == line(result(1, {}), chunk("s", "one"), stopped(2))


def test_a_cancel_in_one_read_with_its_load_is_heard() -> None:
    talk = about_to_load()
    step = talk.client(load(1, "s"), cancel(1))
    assert step.to_agent == line(resume(1, "s"), cancel(1))
    assert step.refusals == [(1, -32800)]


def test_a_whole_read_of_loads_and_prompts_keeps_its_order() -> None:
    talk = about_to_load().opens("t")
    talk.stored["u"] = Stored(deleted=True)
    step = talk.client(prompt(1, "t"), load(2, "s"), prompt(3, "s"), load(4, "u"), load(5, "t"), prompt(6, "t"))
    assert step.to_agent == line(prompt(1, "t"), resume(2, "s"), prompt(3, "s"), resume(5, "t"), prompt(6, "t"))
    assert step.refusals == [(4, -32002)]


def test_what_stands_behind_a_load_that_we_refuse_goes_on_to_the_agent() -> None:
    step = about_to_load(Stored(trouble="EIO")).client(load(1, "s"), prompt(2, "s"))
    assert step.refusals == [(1, -32603)]
    assert step.to_agent == line(prompt(2, "s"))


def test_other_sessions_flow_while_the_store_looks_one_up() -> None:
    talk = about_to_load(Stored(slow=True)).opens("t")
    others: list[Said] = [prompt(3, "t"), result(0, {}), request(4, "authenticate"), b"no JSON\n"]
    assert talk.client(load(1, "s"), *others).to_agent == line(*others)
    assert talk.finds(1).to_agent == line(resume(1, "s"))


def test_an_id_that_is_being_looked_up_is_in_use() -> None:
    talk = about_to_load(Stored(slow=True))
    talk.client(load(1, "s"))
    assert talk.client(load(1, "s")).refusals == [(1, -32600)]
    assert talk.client(resume(1, "s")).to_agent == line(resume(1, "s"))


def test_an_answer_of_the_store_that_comes_twice_counts_once() -> None:
    talk = about_to_load(Stored(slow=True))
    talk.client(load(1, "s"))
    assert talk.finds(1, Stored(trouble="ETIMEDOUT")).refusals == [(1, -32603)]
    assert talk.finds(1).done == []


def test_two_sessions_are_loaded_at_once() -> None:
    talk = about_to_load()
    talk.stored["t"] = Stored()
    talk.client(load(1, "s"), load(2, "t"))
    assert talk.agent(result(2, {}), result(1, {})).asked == [StartReplay(requested(2)), StartReplay(ONE)]
    talk.agent(chunk("s", "s"), chunk("t", "t"))
    assert talk.replay_ends(1).to_client == line(result(1, {}), chunk("s", "s"))
    assert talk.replay_ends(2).to_client == line(result(2, {}), chunk("t", "t"))


# The same session twice.


def test_a_second_load_of_a_session_waits_for_the_first_replay() -> None:
    talk = replaying()
    talk.agent(chunk("s", "one"))
    assert talk.client(load(2, "s")).to_agent == line(resume(2, "s"))
    assert talk.agent(result(2, {"second": 1}), chunk("s", "two")).asked == []
    step = talk.replay_ends(1)
    assert step.to_client == line(result(1, {}), chunk("s", "one"))
    assert step.asked == [StartReplay(requested(2))]
    talk.agent(chunk("s", "three"))
    assert talk.replay_ends(2).to_client == line(result(2, {"second": 1}), chunk("s", "two"), chunk("s", "three"))
    assert talk.replays_left == []


def test_three_loads_of_a_session_are_told_one_after_the_other() -> None:
    talk = about_to_load()
    talk.client(load(1, "s"), load(2, "s"), load(3, "s"))
    talk.agent(result(2, {}), result(1, {}), result(3, {}))
    assert talk.replays_running == [requested(2)]
    assert talk.replay_ends(2).asked == [StartReplay(ONE)]
    assert talk.replay_ends(1).asked == [StartReplay(requested(3))]
    talk.replay_ends(3)
    assert talk.all.to_client.endswith(line(result(2, {}), result(1, {}), result(3, {})))


def test_a_second_load_that_has_nothing_to_replay_waits_for_the_first_all_the_same() -> None:
    talk = replaying(Stored(complete=False))
    talk.agent(chunk("s", "one"))
    talk.client(load(2, "s"))
    talk.agent(chunk("s", "history"))
    assert talk.agent(result(2, {}), chunk("s", "two")).to_client == b""
    step = talk.replay_ends(1)
    assert step.to_client == line(result(1, {}), chunk("s", "one"))
    assert step.asked == [StartReplay(requested(2), if_complete=True)]
    assert talk.replay_ends(2, ours=False).to_client == line(chunk("s", "history"), result(2, {}), chunk("s", "two"))
    assert talk.replays_left == []


@pytest.mark.parametrize("ending", ["cancelled", "refused"])
def test_what_a_second_load_held_waits_for_the_first_when_the_second_comes_to_nothing(ending: str) -> None:
    talk = replaying()
    talk.agent(chunk("s", "one"))
    talk.client(load(2, "s"))
    talk.agent(commands("s", "two"))
    step = talk.client(cancel(2)) if ending == "cancelled" else talk.agent(error(2, -32603))
    assert [id for id, _ in step.refusals] == [2]
    assert commands("s", "two") not in map(json.loads, step.to_client.splitlines())
    assert talk.agent(chunk("s", "three")).to_client == b""
    assert talk.replay_ends(1).to_client == line(
        result(1, {}), chunk("s", "one"), commands("s", "two"), chunk("s", "three")
    )


def test_a_cancelled_replay_makes_way_for_the_next() -> None:
    talk = replaying()
    talk.client(load(2, "s"))
    talk.agent(result(2, {}))
    assert talk.client(cancel(1)).asked == [StopReplay(ONE), ReleaseHeld(ONE), StartReplay(requested(2))]
    talk.replay_ends(1)
    assert talk.replay_ends(2).to_client == line(result(2, {}))


def test_a_load_that_waits_for_another_replay_can_be_cancelled() -> None:
    talk = replaying()
    talk.client(load(2, "s"))
    talk.agent(result(2, {}))
    assert talk.client(cancel(2)).refusals == [(2, -32800)]
    assert talk.replays_left == [ONE]
    step = talk.replay_ends(1)
    assert (step.to_client, step.asked) == (line(result(1, {})), [])


def test_of_loads_that_wait_one_can_be_cancelled_and_the_rest_wait_on() -> None:
    talk = replaying()
    talk.client(load(2, "s"), load(3, "s"))
    talk.agent(result(2, {}), result(3, {}))
    assert StartReplay(requested(3)) not in talk.client(cancel(2)).asked
    assert talk.replay_ends(1).asked == [StartReplay(requested(3))]


# Deleted meanwhile.


def test_a_delete_during_the_replay_ends_it_and_nothing_more_is_recorded() -> None:
    talk = replaying()
    step = talk.client(delete(2, "s"))
    assert step.asked == [StopReplay(ONE), DeleteSession("s", requested(2))]
    assert talk.tells(1, chunk("s", "told")).to_client == b""
    assert talk.agent(chunk("s", "live")).kept == []
    assert talk.replay_ends(1).to_client == line(result(1, {}), chunk("s", "live"))


def test_a_delete_before_the_agents_answer_leaves_nothing_to_tell() -> None:
    talk = loading()
    talk.client(delete(2, "s"))
    assert talk.agent(result(1, {})).kept == []
    assert talk.tells(1, chunk("s", "told")).to_client == b""
    assert talk.replay_ends(1).to_client == line(result(1, {}))


def test_a_delete_by_the_agent_itself_ends_the_replay_too() -> None:
    talk = about_to_load(capabilities={"sessionCapabilities": {"resume": {}, "delete": {}}})
    talk.client(load(1, "s"))
    talk.agent(result(1, {}))
    talk.client(delete(2, "s"))
    step = talk.agent(result(2, {}))
    assert step.asked == [StopReplay(ONE), DeleteSession("s")]
    assert step.to_client == line(result(2, {}))
    assert talk.tells(1, chunk("s", "told")).to_client == b""
    assert talk.replay_ends(1).to_client == line(result(1, {}))


# The agent's end.


def test_a_load_that_the_agent_never_answers_is_answered_at_its_end_with_what_was_held_before() -> None:
    talk = loading()
    talk.agent(commands("s", "x"))
    step = talk.agent_ends()
    assert step.to_client.startswith(line(commands("s", "x")))
    assert step.refusals == [(1, -32603)]
    assert talk.replays_left == []


def test_a_cancelled_load_is_not_answered_twice_at_the_agents_end() -> None:
    talk = loading()
    talk.client(cancel(1))
    assert talk.agent_ends().to_client == b""


def test_a_load_that_is_still_looked_up_is_answered_at_the_agents_end() -> None:
    talk = about_to_load(Stored(slow=True))
    talk.client(load(1, "s"))
    assert talk.agent_ends().refusals == [(1, -32603)]
    step = talk.finds(1)
    assert (step.to_client, step.to_agent) == (b"", b"")


def test_ids_that_are_used_twice_are_answered_twice_at_the_agents_end() -> None:
    talk = about_to_load()
    talk.client(request(1, "session/set_mode", {"sessionId": "t"}), load(1, "s"))
    talk.client(cancel(1))
    assert talk.agent_ends().refusals == [(1, -32603)]


# How much waits.

BIG = b"x" * (HELD_LIMIT // 8)


def big(kind: str) -> bytes:
    return line(update("s", kind, x="?")).replace(b"?", BIG)


def test_too_much_held_while_we_replay_stops_the_reading_until_the_replay_ends() -> None:
    talk = replaying()
    said = big("agent_message_chunk")
    holds_too_much = []
    for _ in range(8):
        talk.agent(said)
        holds_too_much.append(talk.core.holds_too_much)
    assert holds_too_much == [False] * 7 + [True]
    assert talk.replay_ends(1).to_client == line(result(1, {})) + said * 8
    holds_too_much.append(talk.core.holds_too_much)
    assert holds_too_much[-1] is False


@pytest.mark.parametrize("waits", ["queued", "cancelled"])
def test_too_much_held_by_a_load_that_waits_counts_too(waits: str) -> None:
    talk = replaying()
    talk.client(load(2, "s"))
    talk.agent(result(2, {}))
    for _ in range(8):
        talk.agent(big("plan"))
    assert talk.core.holds_too_much
    if waits == "cancelled":
        talk.client(cancel(2), cancel(1))
        assert not talk.core.holds_too_much


def test_too_much_before_the_agents_answer_is_let_go_and_is_the_agents_telling() -> None:
    talk = loading(Stored(complete=False))
    said = big("agent_message_chunk")
    talk.agent(commands("s", "x"))
    for _ in range(7):
        assert talk.agent(said).to_client == b""
    assert talk.agent(said).to_client == said * 8 + line(commands("s", "x"))
    assert talk.agent(chunk("s", "more"), commands("s", "y")).to_client == line(chunk("s", "more"), commands("s", "y"))
    assert not talk.core.holds_too_much
    step = talk.agent(result(1, {}))
    assert (step.to_client, step.asked, step.warnings) == (line(result(1, {})), [ForgetReplay(ONE)], [])


# Served only where we said so.


@pytest.mark.parametrize(
    "begin",
    [
        lambda: Talk(modes=Modes(handover=NEVER)).begins(),
        lambda: Talk(modes=Modes(load=AGENT)).begins(RESUMES),
        lambda: Talk(serves=False).begins(RESUMES),
    ],
)
def test_a_load_that_we_do_not_serve_is_the_agents(begin: Callable[[], Talk]) -> None:
    talk = begin()
    talk.stored["s"] = Stored()
    assert talk.client(load(1, "s")).to_agent == line(load(1, "s"))
    step = talk.agent(chunk("s", "told"), result(1, None))
    assert step.to_client == line(chunk("s", "told"), result(1, None))
    assert talk.replays_left == []


def test_a_load_in_a_batch_is_the_agents() -> None:
    assert about_to_load().client([load(1, "s")]).to_agent == line([load(1, "s")])


def test_a_session_that_is_new_flows_while_another_is_loaded() -> None:
    talk = loading()
    talk.client(new(2))
    early = commands("n", "x")
    assert talk.agent(early).to_client == line(early)
    step: Step = talk.agent(result(2, {"sessionId": "n"}))
    assert step.to_client == line(result(2, {"sessionId": "n"}))
    assert step.kept[-1] == agent_kept("n", early)
