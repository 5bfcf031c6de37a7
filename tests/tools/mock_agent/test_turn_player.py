"""Recorded lines are played as they were, except for ids."""

import json
from typing import Any

import pytest

from acp_proxy.protocol.jsonrpc import RequestId
from acp_proxy.tools.mock_agent.steps import Answer, Ask, Await, Send, cut_into_turns
from acp_proxy.tools.mock_agent.turn_player import TurnLines, Verdict
from tests.store import transcript_lines
from tests.tools.mock_agent.recording import (
    CANCELLED,
    REFUSED,
    SELECTED,
    call_line,
    entries,
    permission_answer,
    permission_request,
)

ALWAYS = {"outcome": {"outcome": "selected", "optionId": "always"}}


def steps(recorded: Any = SELECTED) -> tuple[Send, Ask, Await, Send, Send, Answer]:
    lines = [
        transcript_lines.prompt_line("go"),
        call_line("pending"),
        permission_request(),
        permission_answer(recorded),
        call_line("completed"),
        transcript_lines.agent_chunk("Done"),
    ]
    [turn] = cut_into_turns(transcript_lines.SESSION, entries([*lines, transcript_lines.answer()]))
    return turn.steps  # type: ignore[return-value]


def test_a_line_in_its_recorded_session_has_its_recorded_bytes() -> None:
    send, *_ = steps()
    assert send.entry.raw is not None
    assert TurnLines(transcript_lines.SESSION).encode_line(send) == send.entry.raw + b"\n"


def test_a_line_in_another_session_differs_only_in_the_session_id() -> None:
    send, *_ = steps()
    assert send.entry.raw is not None
    wanted = send.entry.raw.replace(json.dumps(transcript_lines.SESSION).encode(), b'"a \\"new\\" one"') + b"\n"
    assert TurnLines('a "new" one').encode_line(send) == wanted


def test_a_permission_has_our_id_and_the_answer_has_the_clients() -> None:
    _, ask, *_, answer = steps()
    course = TurnLines("new")
    question = course.encode_question(ask, RequestId("12"))
    assert question is not None
    assert json.loads(question)["id"] == 12
    assert json.loads(question)["params"]["sessionId"] == "new"
    assert json.loads(course.encode_answer(answer, RequestId('"x"'))) == {
        "id": "x",
        "result": {"stopReason": "end_turn"},
    }


@pytest.mark.parametrize(
    ("recorded", "given", "verdict"),
    [
        (SELECTED, SELECTED, Verdict.AS_RECORDED),
        (SELECTED, ALWAYS, Verdict.AS_RECORDED),
        (SELECTED, REFUSED, Verdict.REFUSED),
        (SELECTED, CANCELLED, Verdict.CANCELLED),
        (SELECTED, None, Verdict.REFUSED),
        (SELECTED, {"outcome": {"outcome": "selected", "optionId": "unknown"}}, Verdict.REFUSED),
        (SELECTED, {"outcome": "yes"}, Verdict.REFUSED),
        (REFUSED, REFUSED, Verdict.AS_RECORDED),
        (REFUSED, SELECTED, Verdict.AS_RECORDED),
        (REFUSED, CANCELLED, Verdict.CANCELLED),
        (CANCELLED, CANCELLED, Verdict.AS_RECORDED),
        (CANCELLED, REFUSED, Verdict.AS_RECORDED),
        (None, REFUSED, Verdict.REFUSED),
        (None, SELECTED, Verdict.AS_RECORDED),
        (None, None, Verdict.REFUSED),
    ],
)
def test_the_verdict_on_an_answer_depends_on_the_recorded_one(recorded: Any, given: Any, verdict: Verdict) -> None:
    _, ask, awaited, *_ = steps()
    assert TurnLines("s").judge_answer(ask, Await(awaited.number, recorded), given) is verdict


def test_only_the_failure_of_a_refused_call_is_sent() -> None:
    start, ask, awaited, done, said, _ = steps()
    course = TurnLines(transcript_lines.SESSION)
    assert course.encode_line(start) is not None
    course.judge_answer(ask, awaited, REFUSED)
    failed = course.fail_call(ask)
    assert failed is not None
    update = {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "failed"}
    assert json.loads(failed)["params"] == {"sessionId": transcript_lines.SESSION, "update": update}
    assert course.encode_line(done) is None
    assert course.encode_question(ask, RequestId("1")) is None
    assert course.encode_line(said) is not None
