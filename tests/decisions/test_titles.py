"""When the client gets a title made from a prompt."""

from typing import Any

import pytest

from acp_proxy.decisions.capabilities import STORE, Modes
from acp_proxy.decisions.effects import RecordMessage
from acp_proxy.transcript.handover_record_text import INTRODUCTION
from acp_proxy.transcript.titles import HANDOVER_RECORD_BEGINNINGS
from tests.conversation import (
    LOADS,
    RESUMES,
    CoreConversation,
    chunk,
    line,
    load,
    new,
    prompt,
    prompt_answer,
    request,
    respell,
    result,
    resume,
    title_update,
    update,
)


def test_a_title_is_announced_once_before_the_first_answer_and_not_recorded() -> None:
    talk = CoreConversation().initialize().open("s")
    talk.client.say(prompt(1, "s", "/go\nmend it"))
    talk.agent.say(chunk("s", "a"))
    step = talk.agent.say(prompt_answer(1))
    assert step.to_client == line(title_update("s", "/go"), prompt_answer(1))
    assert not any(isinstance(record, RecordMessage) and b"session_info_update" in record.raw for record in step.kept)
    talk.client.say(prompt(2, "s", "and that"))
    assert talk.agent.say(prompt_answer(2)).to_client == line(prompt_answer(2))


@pytest.mark.parametrize("spelling", [line, respell])
@pytest.mark.parametrize("when", ["before the answer to new", "before the prompt", "in the turn"])
def test_the_agents_title_is_not_overridden(when: str, spelling: Any) -> None:
    own = spelling(update("s", "session_info_update", title="Its own"))
    talk = CoreConversation().initialize()
    talk.client.say(new(0))
    moments = {
        "before the answer to new": result(0, {"sessionId": "s"}),
        "before the prompt": None,
        "in the turn": None,
    }
    for moment, said in moments.items():
        if moment == "in the turn":
            talk.client.say(prompt(1, "s"))
        if moment == when:
            talk.agent.say(own)
        if said is not None:
            talk.agent.say(said)
    assert talk.agent.say(prompt_answer(1)).to_client == line(prompt_answer(1))


def test_a_title_made_from_the_record_of_an_earlier_process_is_neither_shown_nor_recorded() -> None:
    talk = CoreConversation().initialize().open("s")
    talk.client.say(prompt(1, "s"))
    title_of_handover_record = f"[archived] {HANDOVER_RECORD_BEGINNINGS[0]}an…"
    step = talk.agent.say(
        chunk("s", "a"), update("s", "session_info_update", title=title_of_handover_record), chunk("s", "b")
    )
    assert step.to_client == line(chunk("s", "a"), chunk("s", "b"))
    assert not any(
        b"session_info_update" in getattr(record, "raw", getattr(record, "data", b"")) for record in step.kept
    )
    step = talk.agent.say(
        update("s", "session_info_update", title=title_of_handover_record, updatedAt="2026-01-01T00:00:00Z")
    )
    assert step.to_client == line(update("s", "session_info_update", updatedAt="2026-01-01T00:00:00Z"))
    assert talk.agent.say(prompt_answer(1)).to_client == line(title_update("s", "hello"), prompt_answer(1))


def test_words_from_a_record_pass_where_they_are_no_title() -> None:
    talk = CoreConversation().initialize().open("s")
    talk.client.say(prompt(1, "s"))
    said = update("s", "agent_message_chunk", content={"type": "text", "text": f'"session_info_update" {INTRODUCTION}'})
    assert talk.agent.say(said).to_client == line(said)


def test_an_update_without_a_title_does_not_suppress_ours() -> None:
    talk = CoreConversation().initialize().open("s")
    talk.client.say(prompt(1, "s"))
    talk.agent.say(update("s", "session_info_update", title=None), update("s", "session_info_update", updatedAt="x"))
    assert talk.agent.say(prompt_answer(1)).to_client == line(title_update("s"), prompt_answer(1))


@pytest.mark.parametrize(
    "talk",
    [
        lambda: CoreConversation().initialize({"sessionCapabilities": {"list": {}}}),
        lambda: CoreConversation(serves=False).initialize(),
        lambda: CoreConversation(records=False).initialize(),
        lambda: CoreConversation(modes=Modes(list="agent")).initialize(),
    ],
)
def test_no_title_is_announced_unless_the_list_is_served(talk: Any) -> None:
    begun = talk().open("s")
    begun.client.say(prompt(1, "s"))
    assert begun.agent.say(prompt_answer(1)).to_client == line(prompt_answer(1))


def test_a_native_list_served_on_request_has_our_titles() -> None:
    talk = CoreConversation(modes=Modes(list=STORE)).initialize({"sessionCapabilities": {"list": {}}}).open("s")
    talk.client.say(prompt(1, "s"))
    assert talk.agent.say(prompt_answer(1)).to_client == line(title_update("s"), prompt_answer(1))


def test_an_unopened_session_or_an_empty_prompt_gets_no_title() -> None:
    talk = CoreConversation().initialize().open("t")
    talk.client.say(prompt(1, "s"), request(2, "session/prompt", {"sessionId": "t", "prompt": []}))
    assert talk.agent.say(prompt_answer(1), prompt_answer(2)).to_client == line(prompt_answer(1), prompt_answer(2))


@pytest.mark.parametrize("reopened", [load, resume])
def test_a_session_that_was_not_new_gets_no_title(reopened: Any) -> None:
    talk = CoreConversation().initialize(LOADS | RESUMES)
    talk.client.say(reopened(1, "s"))
    talk.agent.say(result(1, {}))
    talk.client.say(prompt(2, "s"))
    assert talk.agent.say(prompt_answer(2)).to_client == line(prompt_answer(2))
