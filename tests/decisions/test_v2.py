"""A connection of protocol version 2: what is recorded, when turns end, what is served, and what a load shows."""

import json
from typing import Any, Self

import pytest

from acp_proxy.comparison.whose_past import PastDecision, PastRule, WhosePast
from acp_proxy.decisions.capabilities import AGENT, NEVER, STORE, Modes
from acp_proxy.decisions.effects import AddAlias, BeginTurn, ChooseAndShowPast, EndTurn, RecordNote, SetProtocolVersion
from acp_proxy.protocol import jsonrpc
from acp_proxy.transcript.file_format import NoteType
from acp_proxy.transcript.handover_record_text import END, INTRODUCTION
from tests.conversation import (
    AS_USUAL,
    CoreConversation,
    SimulatedSession,
    agent_kept,
    agent_lines,
    chunk,
    delete,
    error,
    line,
    load,
    prompt,
    request,
    result,
    resume,
    title_update,
    update,
)

START = {"type": "start"}


class Second(CoreConversation):
    """A talk in version 2. ``asked``: the version that the client offers."""

    def initialize_second(self, capabilities: Any = None, *, asked: int = 2) -> Self:
        offered = {"session": {}} if capabilities is None else capabilities
        self.client.say(request("initialize", "initialize", {"protocolVersion": asked}))
        answer = {"protocolVersion": 2, "info": {"name": "second", "version": "2"}, "capabilities": offered}
        self.agent.say(result("initialize", answer))
        return self


def talk(modes: Modes = AS_USUAL) -> Second:
    return Second(modes=modes).initialize_second()


def state(name: str, session: str = "s", **more: Any) -> dict[str, Any]:
    return update(session, "state_update", state=name, **more)


def agent_chunk(text: str, session: str = "s") -> dict[str, Any]:
    return update(session, "agent_message_chunk", messageId="a", content={"type": "text", "text": text})


ACCEPTED = result(1, {"messageId": "u"})


def test_a_delete_is_added_to_what_the_agent_offers() -> None:
    answer = json.loads(talk().all.to_client)["result"]
    assert answer["capabilities"]["session"] == {"delete": {}}
    assert answer["capabilities"]["_meta"]["acp-proxy"]["serves"] == ["delete"]
    assert "agentCapabilities" not in answer


@pytest.mark.parametrize("capabilities", [{}, {"session": None}, {"session": {"delete": {}}}])
def test_nothing_is_added_if_the_agent_lacks_nothing_or_has_no_sessions(capabilities: Any) -> None:
    answer = json.loads(Second().initialize_second(capabilities).all.to_client)["result"]
    assert answer["capabilities"] == capabilities


def test_the_transcript_learns_the_version() -> None:
    assert SetProtocolVersion(2) in talk().all.kept
    assert not any(isinstance(record, SetProtocolVersion) for record in CoreConversation().initialize().all.kept)


def test_a_client_that_offers_version_2_may_get_version_1() -> None:
    first = CoreConversation()
    first.client.say(request(0, "initialize", {"protocolVersion": 2, "info": {"name": "editor"}, "capabilities": {}}))
    first.agent.say(result(0, {"protocolVersion": 1, "agentCapabilities": {}}))
    first.open("s").client.say(prompt(1, "s"))
    assert EndTurn("s") in first.agent.say(result(1, {"stopReason": "end_turn"})).kept
    assert not any(isinstance(record, SetProtocolVersion) for record in first.all.kept)


def test_a_turn_ends_when_the_agent_is_idle() -> None:
    second = talk().open("s")
    assert BeginTurn("s") in second.client.say(prompt(1, "s")).kept
    assert second.agent.say(state("running")).kept == [agent_kept("s", state("running"))]
    assert second.agent.say(ACCEPTED).kept == [agent_kept("s", ACCEPTED, "session/prompt")]
    assert second.core._session_tracker.sessions.is_in_turn("s")
    step = second.agent.say(agent_chunk("Done."), state("idle", stopReason="end_turn"))
    assert step.kept[-2:] == [agent_kept("s", state("idle", stopReason="end_turn")), EndTurn("s")]
    assert step.to_client == line(agent_chunk("Done."), title_update("s"), state("idle", stopReason="end_turn"))
    assert not second.core._session_tracker.sessions.is_in_turn("s")


def test_a_turn_whose_prompt_is_accepted_only_after_its_end_has_ended() -> None:
    second = talk().open("s")
    second.client.say(prompt(1, "s"))
    second.agent.say(state("running"), agent_chunk("Done."), state("idle"))
    assert second.core._session_tracker.sessions.is_in_turn("s")
    assert second.agent.say(ACCEPTED).kept[-1] == EndTurn("s")
    assert not second.core._session_tracker.sessions.is_in_turn("s")


def test_a_queued_prompt_does_not_end_with_the_turn_before_it() -> None:
    second = talk().open("s")
    second.client.say(prompt(1, "s"))
    second.agent.say(state("running"), ACCEPTED)
    second.client.say(prompt(2, "s"))
    second.agent.say(state("idle"))
    assert second.core._session_tracker.sessions.is_in_turn("s")
    second.agent.say(state("running"), result(2, {"messageId": "v"}), state("idle"))
    assert not second.core._session_tracker.sessions.is_in_turn("s")


def test_a_refused_prompt_ends_its_turn() -> None:
    second = talk().open("s")
    second.client.say(prompt(1, "s"))
    assert second.agent.say(error(1, -32000)).kept[-1] == EndTurn("s")
    assert not second.core._session_tracker.sessions.is_in_turn("s")


def test_an_agent_that_exits_in_a_turn_has_failed() -> None:
    second = talk().open("s")
    second.client.say(prompt(1, "s"))
    second.agent.say(ACCEPTED)
    notes = [record for record in second.end_agent().kept if isinstance(record, RecordNote)]
    assert [note.note["type"] for note in notes] == ["failed"]


def test_updates_pass_unread_except_for_the_state() -> None:
    second = talk().open("s")
    second.agent.say(agent_chunk("a"))
    assert second.core.fast_path.try_admit_updates(line(agent_chunk("b"), agent_chunk("c"))) == "s"
    for said in (state("idle"), state("running")):
        assert second.core.fast_path.try_admit_updates(line(agent_chunk("b"), said)) is None
        assert second.core.fast_path.try_admit_updates(line(said)) is None
    assert second.agent.say(agent_chunk("b"), state("running"), agent_chunk("c")).to_client == line(
        agent_chunk("b"), state("running"), agent_chunk("c")
    )


def test_a_first_prompt_after_a_load_is_forgotten_once_the_agent_accepts_it() -> None:
    second = talk()
    second.stored["s"] = SimulatedSession()
    second.client.say(
        request("load", "session/resume", {"sessionId": "s", "cwd": "/w", "replayFrom": {"type": "start"}})
    )
    second.agent.say(result("load", {}))
    second.end_past("load")
    second.client.say(prompt(1, "s"))
    assert second.core.fast_path.try_admit_updates(line(agent_chunk("a"))) is None, "it may be sent again"
    second.agent.say(ACCEPTED)
    assert second.core.fast_path.try_admit_updates(line(agent_chunk("a"))) == "s"


def test_a_delete_is_served() -> None:
    second = talk().open("s")
    assert second.client.say(delete(2, "s")).to_client == line(result(2, {}))


# Titles.

NATIVE = result(3, {"sessions": [{"sessionId": "s", "cwd": "/"}, {"sessionId": "t", "cwd": "/", "title": "Its own"}]})


def test_a_title_is_announced_once_before_the_end_of_the_first_turn_and_not_recorded() -> None:
    second = talk().open("s")
    second.client.say(prompt(1, "s", "mend it"))
    second.agent.say(ACCEPTED)
    step = second.agent.say(state("idle"))
    assert step.to_client == line(title_update("s", "mend it"), state("idle"))
    assert step.kept == [agent_kept("s", state("idle")), EndTurn("s")]
    second.client.say(prompt(2, "s", "and that"))
    assert second.agent.say(result(2, {}), state("idle")).to_client == line(result(2, {}), state("idle"))


def test_a_title_waits_for_the_prompt_of_the_turn_to_be_accepted() -> None:
    second = talk().open("s")
    second.client.say(prompt(1, "s"))
    assert second.agent.say(state("running"), state("idle")).to_client == line(state("running"), state("idle"))
    assert second.agent.say(ACCEPTED).to_client == line(title_update("s"), ACCEPTED)


@pytest.mark.parametrize("name", ["running", "idle"])
def test_a_title_is_not_announced_before_a_turn_has_ended(name: str) -> None:
    second = talk().open("s")
    assert second.agent.say(state(name)).to_client == line(state(name))
    second.client.say(prompt(1, "s"))
    assert second.agent.say(state("running"), ACCEPTED).to_client == line(state("running"), ACCEPTED)


def test_the_agents_title_is_not_overridden() -> None:
    second = talk().open("s")
    second.client.say(prompt(1, "s"))
    own = update("s", "session_info_update", title="Its own")
    assert second.agent.say(ACCEPTED, own, state("idle")).to_client == line(ACCEPTED, own, state("idle"))


def test_a_listed_session_without_a_title_gets_one() -> None:
    second = talk()
    second.titles_from_prompts = {"s": "mend it", "t": "Not this"}
    second.client.say(request(3, "session/list", {}))
    row = {"sessionId": "s", "title": "mend it", "cwd": "/"}
    assert second.agent.say(NATIVE).to_client == line(result(3, {"sessions": [row, NATIVE["result"]["sessions"][1]]}))


@pytest.mark.parametrize(
    "second",
    [
        lambda: talk(Modes(list=AGENT)),
        lambda: Second(serves=False).initialize_second(),
        lambda: Second(records=False).initialize_second(),
        lambda: CoreConversation().initialize({"sessionCapabilities": {"list": {}}}),
    ],
    ids=["list is the agent's", "nothing is added", "nothing is recorded", "version 1"],
)
def test_otherwise_titles_are_the_agents(second: Any) -> None:
    begun = second().open("s")
    begun.titles_from_prompts = {"s": "mend it"}
    begun.client.say(prompt(1, "s"), request(3, "session/list", {}))
    assert b'"title":"hello"' not in begun.agent.say(ACCEPTED, state("idle")).to_client
    assert begun.agent.say(NATIVE).to_client == line(NATIVE)


# --- drafts


def drafts(sessions: Any = None) -> Second:
    return Second(modes=Modes(unstable=True)).initialize_second({"session": sessions or {}}).open("s")


@pytest.mark.parametrize("served_by_agent", [set(), {"title"}, {"title", "archive", "status"}])
def test_drafts_are_added_to_what_the_agent_offers(served_by_agent: set[str]) -> None:
    offered = json.loads(drafts({name: {} for name in served_by_agent}).all.to_client.split(b"\n")[0])["result"][
        "capabilities"
    ]
    assert offered["session"].keys() == {"delete", "title", "archive", "status"}
    assert set(offered["_meta"]["acp-proxy"]["serves"]) == offered["session"].keys() - served_by_agent


@pytest.mark.parametrize("method", ["set_title", "archive", "unarchive", "status"])
def test_without_the_option_drafts_pass(method: str) -> None:
    asked = request(1, f"session/{method}", {"sessionId": "s", "title": "Mine"})
    assert talk().open("s").client.say(asked).to_agent == line(asked)


def test_the_users_title_is_stored_and_stays() -> None:
    second = drafts()
    step = second.client.say(request(1, "session/set_title", {"sessionId": "s", "title": " Mine "}))
    assert step.to_client == line(result(1, {"title": "Mine"}), title_update("s", "Mine"))
    assert second.agent.say(title_update("s", "Its own")).to_client == line(title_update("s", "Mine"))


def test_archiving_a_session_cancels_and_closes_it_first() -> None:
    second = drafts()
    second.client.say(prompt(1, "s"))
    second.agent.say(state("running"), ACCEPTED)
    step = second.client.say(request(2, "session/archive", {"sessionId": "s"}))
    cancel, close = (json.loads(each) for each in step.to_agent.splitlines())
    assert [message["method"] for message in (cancel, close)] == ["session/cancel", "session/close"]
    second.agent.say(state("idle", stopReason="cancelled"))
    assert second.agent.say(result(close["id"], {})).to_client == line(result(2, {}))
    assert second.client.say(request(3, "session/status", {"sessionId": "s"})).to_client == line(
        result(3, {"status": "saved"})
    )


def test_the_agents_list_is_filtered_by_archive_state() -> None:
    second = drafts()
    second.archived = frozenset({"s"})
    asked = request(3, "session/list", {"archived": "only"})
    assert json.loads(second.client.say(asked).to_agent)["params"] == {}
    [row] = json.loads(second.agent.say(NATIVE).to_client)["result"]["sessions"]
    assert row == {"sessionId": "s", "cwd": "/", "archived": True}


def opened_again(modes: Modes = AS_USUAL, **stored: Any) -> Second:
    second = talk(modes)
    second.stored["s"] = SimulatedSession(**stored)
    return second


def test_a_resume_with_a_replay_is_a_load_and_shows_what_the_agent_lost() -> None:
    second = opened_again()
    asked = resume(1, "s", replayFrom=START)
    assert second.client.say(asked).to_agent == line(asked)
    assert second.agent.say(agent_chunk("part"), state("idle")).to_client == b""
    [wanted] = [each for each in second.agent.say(result(1, {})).asked if isinstance(each, ChooseAndShowPast)]
    assert (wanted.updates, wanted.needs_comparison, wanted.protocol_version) == (
        agent_lines(agent_chunk("part")),
        True,
        2,
    )
    second.send_past(1, agent_chunk("all of it"))
    answered = second.end_past(1, rule=PastRule.REPLAY_IS_WORSE)
    assert answered.to_client.endswith(line(state("idle"), result(1, {}))), "the state comes before the answer"


def test_a_resume_with_a_replay_shows_the_agents_if_that_lacks_nothing() -> None:
    second = opened_again()
    second.client.say(resume(1, "s", replayFrom=START))
    second.agent.say(agent_chunk("all of it"), state("idle"), result(1, {}))
    shown = second.end_past(1, rule=PastRule.REPLAY_HAS_ALL).to_client
    assert shown == line(agent_chunk("all of it"), state("idle"), result(1, {}))


@pytest.mark.parametrize("begins_at", [None, {"type": "message", "messageId": "m"}])
def test_any_other_resume_passes(begins_at: Any) -> None:
    second = opened_again()
    asked = resume(1, "s", replayFrom=begins_at)
    assert second.client.say(asked).to_agent == line(asked)
    assert second.agent.say(state("idle"), result(1, {})).to_client == line(state("idle"), result(1, {}))


def test_a_load_of_version_1_means_nothing() -> None:
    second = opened_again()
    step = second.client.say(load(1, "s"))
    assert (step.to_agent, second.being_shown) == (line(load(1, "s")), [])


def test_with_load_store_the_agent_replays_in_vain() -> None:
    second = opened_again(Modes(load=STORE))
    asked = resume(1, "s", replayFrom=START)
    assert second.client.say(asked).to_agent == line(asked)
    second.agent.say(agent_chunk("part"), state("idle"), result(1, {}))
    shown = second.end_past(1, rule=PastRule.BY_OPTION).to_client
    assert shown.endswith(line(state("idle"), result(1, {})))


def test_a_load_that_the_client_cancels_gets_the_state_after_its_answer() -> None:
    second = opened_again()
    second.client.say(resume(1, "s", replayFrom=START))
    second.agent.say(state("idle"))
    second.client.say({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}})
    assert line(state("idle")) in second.all.to_client


def test_lines_of_version_2_do_not_end_turns_in_version_1() -> None:
    first = CoreConversation().initialize().open("s")
    first.client.say(prompt(1, "s"))
    first.agent.say(chunk("s", "x"), state("idle"))
    assert first.core._session_tracker.sessions.is_in_turn("s")


# Handovers.

HANDOVER_RECORD = f"{INTRODUCTION}\n\nUser:\n> what was said\n\n{END}\n"
NOT_FOUND = error(1, jsonrpc.RESOURCE_NOT_FOUND, "Session not found")
DELIVERED = RecordNote("s", {"type": NoteType.HANDOVER, "to": "n"})


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def echo_message(*blocks: str, session: str = "n") -> dict[str, Any]:
    return update(session, "user_message", messageId="u", content=[text(block) for block in blocks])


def asked_again() -> Second:
    second = opened_again()
    second.client.say(resume(1, "s", replayFrom=START))
    return second


def hand_over() -> Second:
    second = asked_again()
    second.agent.say(NOT_FOUND, result("acp-proxy/1", {"sessionId": "n"}))
    second.end_past(1, rule=PastRule.HANDED_OVER, handover_record=HANDOVER_RECORD)
    return second


def test_a_session_that_the_agent_does_not_know_continues_in_a_new_one() -> None:
    second = asked_again()
    asked = json.loads(second.agent.say(NOT_FOUND).to_agent)
    assert (asked["method"], asked["params"].keys()) == ("session/new", {"cwd", "mcpServers"})
    [aliased, wanted] = second.agent.say(result("acp-proxy/1", {"sessionId": "n", "configOptions": []})).asked
    assert aliased == AddAlias("s", "n")
    assert isinstance(wanted, ChooseAndShowPast)
    assert (wanted.planned_decision, wanted.makes_handover_record, wanted.protocol_version) == (
        PastDecision(WhosePast.TRANSCRIPT, PastRule.HANDED_OVER),
        True,
        2,
    )
    notice, idle, answer = second.end_past(
        1, rule=PastRule.HANDED_OVER, handover_record=HANDOVER_RECORD
    ).to_client.splitlines(True)
    assert json.loads(notice)["params"]["update"]["sessionUpdate"] == "agent_message_chunk"
    assert idle == line(state("idle")), "a resume must tell the state before its answer; a new session need not"
    assert json.loads(answer)["result"] == {"configOptions": [], "_meta": {"acp-proxy": {"handover": True}}}


def test_without_handovers_an_unknown_session_is_the_agents_error() -> None:
    second = opened_again(Modes(handover=NEVER))
    second.client.say(resume(1, "s", replayFrom=START))
    step = second.agent.say(NOT_FOUND)
    assert (step.to_client, step.to_agent) == (line(NOT_FOUND), b"")


def test_an_agent_without_sessions_is_asked_for_none() -> None:
    second = Second().initialize_second({})
    second.stored["s"] = SimulatedSession()
    asked = resume(1, "s", replayFrom=START)
    assert second.client.say(asked).to_agent == line(asked)
    assert second.agent.say(NOT_FOUND).to_client == line(NOT_FOUND)


@pytest.mark.parametrize(
    ("ends", "is_delivered"), [({}, True), ({"stopReason": "cancelled"}, True), ({"stopReason": "error"}, False)]
)
def test_the_record_is_delivered_when_a_turn_that_carried_it_ends_well(ends: Any, *, is_delivered: bool) -> None:
    second = hand_over()
    sent = json.loads(second.client.say(prompt(2, "s")).to_agent)
    assert sent["params"] == {"sessionId": "n", "prompt": [text(HANDOVER_RECORD), text("hello")]}
    second.agent.say(state("running", "n"), result(2, {"messageId": "u"}))
    assert DELIVERED not in second.all.kept, "the agent has only accepted the prompt"
    second.agent.say(state("idle", "n", **ends))
    assert (DELIVERED in second.all.kept) is is_delivered
    again = json.loads(second.client.say(prompt(3, "s")).to_agent)["params"]["prompt"]
    assert again == [text("hello")] if is_delivered else [text(HANDOVER_RECORD), text("hello")]


def test_a_load_in_a_turn_after_a_handover_says_before_its_answer_that_the_turn_is_under_way() -> None:
    second = hand_over()
    second.client.say(prompt(2, "s"))
    second.agent.say(result(2, {"messageId": "u"}), state("running", "n"))
    assert second.client.say(resume(3, "s", replayFrom=START)).to_agent == b""
    second.agent.say(state("idle", "n"))
    shown = second.end_past(3, rule=PastRule.HANDED_OVER).to_client
    assert shown.startswith(line(state("running"), result(3, {})))
    assert shown.endswith(line(state("idle")))


def test_a_turn_that_is_over_before_its_prompt_is_accepted_delivers_the_record() -> None:
    second = hand_over()
    second.client.say(prompt(2, "s"))
    assert DELIVERED in second.agent.say(state("running", "n"), state("idle", "n"), result(2, {"messageId": "u"})).kept


def test_the_client_does_not_see_the_record_that_the_agent_repeats() -> None:
    second = hand_over()
    second.client.say(prompt(2, "s"))
    for said in (
        echo_message(HANDOVER_RECORD, "hello"),
        echo_message(f"{HANDOVER_RECORD}\nhello"),
        echo_message("hello"),
    ):
        step = second.agent.say(said)
        assert step.to_client == line(echo_message("hello", session="s"))
        assert step.kept == [agent_kept("s", echo_message("hello", session="s"))]
    assert second.agent.say(echo_message(HANDOVER_RECORD)).to_client == b""


def test_a_first_prompt_that_is_refused_is_sent_again_in_a_new_session() -> None:
    second = asked_again()
    second.agent.say(state("idle"), result(1, {}))
    second.end_past(1, rule=PastRule.REPLAY_IS_WORSE)
    second.client.say(prompt(2, "s"))
    opened = json.loads(second.agent.say(error(2, jsonrpc.RESOURCE_NOT_FOUND, "Session not found")).to_agent)
    second.agent.say(result(opened["id"], {"sessionId": "n"}))
    step = second.end_past(2, rule=PastRule.HANDED_OVER, handover_record=HANDOVER_RECORD)
    assert json.loads(step.to_agent)["params"] == {"sessionId": "n", "prompt": [text(HANDOVER_RECORD), text("hello")]}
