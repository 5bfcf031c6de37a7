"""An agent whose session lacks turns of other machines gets a record of them with the next prompt."""

import json
from typing import Any

import pytest

from acp_proxy.comparison.whose_past import PastDecision, PastRule, WhosePast
from acp_proxy.decisions.effects import ChooseAndShowPast, RecordNote
from acp_proxy.transcript.file_format import NoteType
from acp_proxy.transcript.handover_record_text import END, LACKING
from tests.conversation import (
    LOADS,
    CoreConversation,
    SimulatedSession,
    chunk,
    error,
    line,
    load,
    make_request_id,
    new,
    prompt,
    prompt_answer,
    request,
    result,
)

ONE = make_request_id(1)
HANDOVER_RECORD = f"{LACKING}\n\nUser:\n> what was said there\n\n{END}\n"
NOTE = RecordNote("s", {"type": NoteType.CAUGHT_UP})


def loading(alias: str | None = None, method: str = "session/load", capabilities: Any = LOADS) -> CoreConversation:
    """The agent is asked for its own session."""
    talk = CoreConversation().initialize(capabilities)
    talk.stored["s"] = SimulatedSession(alias=alias, moved=True, behind=True)
    asked = request(1, method, {"sessionId": "s", "cwd": "/w", "mcpServers": []})
    step = talk.client.say(asked)
    assert json.loads(step.to_agent)["params"]["sessionId"] == (alias or "s")
    return talk


def open_native(alias: str | None = None) -> CoreConversation:
    """The agent has opened it, and the transcript was replayed."""
    talk = loading(alias)
    step = talk.agent.say(chunk(alias or "s", "an old answer"), result(1, {}))
    [wanted] = step.asked
    assert isinstance(wanted, ChooseAndShowPast)
    assert (
        wanted.planned_decision,
        wanted.makes_handover_record,
        wanted.only_what_agent_lacks,
    ) == (
        PastDecision(WhosePast.TRANSCRIPT, PastRule.HANDED_OVER),
        True,
        True,
    )
    talk.end_past(1, handover_record=HANDOVER_RECORD)
    return talk


def prompt_with_handover_record(id: object, session: str, text: str = "hello") -> dict[str, Any]:
    blocks = [{"type": "text", "text": HANDOVER_RECORD}, {"type": "text", "text": text}]
    return request(id, "session/prompt", {"sessionId": session, "prompt": blocks})


def test_the_user_sees_the_transcript_and_no_message_about_a_handover() -> None:
    talk = open_native()
    told = [json.loads(each) for each in talk.all.to_client.splitlines()]
    assert told[-1] == result(1, {})
    assert "acp-proxy-handover" not in str(told)


@pytest.mark.parametrize("alias", [None, "n"])
def test_the_next_prompt_carries_the_record_until_one_has_a_result(alias: str | None) -> None:
    talk = open_native(alias)
    agents = alias or "s"
    assert talk.client.say(prompt(2, "s", "/help")).to_agent == line(prompt(2, agents, "/help"))
    assert NOTE not in talk.agent.say(prompt_answer(2)).kept
    assert json.loads(talk.client.say(prompt(3, "s")).to_agent) == prompt_with_handover_record(3, agents)
    assert NOTE not in talk.agent.say(error(3, -32000, "login")).kept
    assert json.loads(talk.client.say(prompt(4, "s")).to_agent) == prompt_with_handover_record(4, agents)
    assert NOTE in talk.agent.say(prompt_answer(4)).kept
    assert talk.client.say(prompt(5, "s")).to_agent == line(prompt(5, agents))


def test_the_user_sees_nothing_of_the_record_that_the_agent_echoes() -> None:
    talk = open_native()
    talk.client.say(prompt(2, "s"))
    step = talk.agent.say(chunk("s", f"{HANDOVER_RECORD}hello", "user_message_chunk"))
    assert b"what was said there" not in step.to_client
    assert "what was said there" not in str(step.kept)
    assert b"hello" in step.to_client


def test_a_session_that_the_agent_has_lost_is_handed_over_whole() -> None:
    talk = loading()
    assert json.loads(talk.agent.say(error(1, -32002, "not found")).to_agent) == new("acp-proxy/1")
    [wanted] = talk.agent.say(result("acp-proxy/1", {"sessionId": "n"})).asked
    assert isinstance(wanted, ChooseAndShowPast)
    assert (wanted.makes_handover_record, wanted.only_what_agent_lacks) == (True, False)


def test_a_first_prompt_to_a_session_that_the_agent_has_lost_gets_the_whole_record_instead() -> None:
    talk = open_native()
    talk.client.say(prompt(2, "s"))
    assert json.loads(talk.agent.say(error(2, -32002, "not found")).to_agent) == new("acp-proxy/1")
    [wanted] = talk.agent.say(result("acp-proxy/1", {"sessionId": "n"})).asked
    assert isinstance(wanted, ChooseAndShowPast)
    assert (wanted.makes_handover_record, wanted.only_what_agent_lacks) == (True, False)
    step = talk.end_past(2, handover_record="# all of it")
    assert [block["text"] for block in json.loads(step.to_agent)["params"]["prompt"]] == ["# all of it", "hello"]
    assert RecordNote("s", {"type": NoteType.HANDOVER, "to": "n"}) in talk.agent.say(prompt_answer(2)).kept


def test_if_nothing_was_said_there_the_prompt_goes_out_unchanged() -> None:
    talk = loading()
    talk.agent.say(result(1, {}))
    talk.end_past(1)
    assert talk.client.say(prompt(2, "s")).to_agent == line(prompt(2, "s"))
    assert NOTE not in talk.agent.say(prompt_answer(2)).kept


def test_another_load_before_the_record_is_delivered_makes_it_again() -> None:
    talk = open_native()
    talk.client.say(load(2, "s"))
    [wanted] = talk.agent.say(result(2, {})).asked
    assert isinstance(wanted, ChooseAndShowPast)
    assert wanted.only_what_agent_lacks
    talk.end_past(2, handover_record=HANDOVER_RECORD)
    assert json.loads(talk.client.say(prompt(3, "s")).to_agent) == prompt_with_handover_record(3, "s")
