"""The main job: a session that the agent cannot replay is listed, loaded, continued and deleted."""

import json
from datetime import datetime
from typing import Any

import pytest

from acp_proxy.tools.demo.display import ShownItem, list_items
from tests.client import RequestFailed
from tests.end_to_end.proxied import Editor, Proxied, Updates, conversation, entries, kinds, list_replayed, texts

FIRST, SECOND, THIRD = "Mend the failing test", "And the other one?", "What did I ask you first?"
STATE_AFTER_LOAD = ["available_commands_update", "usage_update", "session_info_update"]


def talk(proxied: Proxied, *prompts: str) -> tuple[str, list[Updates]]:
    """Hold a conversation, and kill the proxy. The session's id, and the updates of each turn."""
    with proxied.editor("conversation") as editor:
        session = editor.open()
        turns = [editor.prompt(session, text) for text in prompts]
        editor.kill()
    return session, turns


def test_the_list_has_title_directory_time_and_number_of_messages(proxied: Proxied) -> None:
    session, turns = talk(proxied, FIRST, SECOND)
    editor = proxied.editor("conversation")
    editor.initialize()
    [listed] = editor.sessions(cwd=str(proxied.project))
    last = [entry["at"] for entry in entries(proxied.transcript(session)) if entry.get("of") == "session/prompt"][-1]
    assert listed == {
        "sessionId": session,
        "cwd": str(proxied.project),
        "title": FIRST,
        "updatedAt": last,
        "_meta": {"messageCount": len(turns) * 2, "hasErrors": False},
    }
    assert datetime.fromisoformat(listed["updatedAt"]).tzinfo is not None
    assert len(listed["updatedAt"]) == len("2026-11-20T09:15:02.123Z")


def test_a_load_replays_the_complete_history_in_order(proxied: Proxied) -> None:
    with proxied.editor("conversation") as first:
        session = first.open()
        live: list[bytes] = []
        for text in (FIRST, SECOND):
            since = first.count_lines()
            first.prompt(session, text)
            lines = first.update_lines(session, since)
            live += [line.raw for line in lines if conversation([line.message["params"]["update"]])]
        first.kill()

    editor = proxied.editor("conversation", options=["--replay", "full"])
    editor.initialize()
    loaded = editor.load(session)

    assert loaded.answer["result"] == {}
    agent = [
        line.raw for line in loaded.told if line.message["params"]["update"]["sessionUpdate"] != "user_message_chunk"
    ]
    # A permission request is replayed as an update of its tool call.
    asked = [json.loads(line)["params"]["update"] for line in agent if line not in live]
    assert [(update["sessionUpdate"], update["toolCallId"]) for update in asked] == [("tool_call_update", "edit-1")]
    assert [line for line in agent if line in live] == live
    assert [told.kind for told in list_items(loaded.updates)] == [
        *["user", "thought", "plan", "agent", "tool call", "tool call", "plan", "tool call", "image", "agent"],
        *["user", "thought", "agent", "tool call", "resource_link", "agent"],
    ]
    assert texts(loaded.updates, "user_message_chunk") == [FIRST, SECOND]


def test_the_state_of_a_loaded_session_follows_the_answer(proxied: Proxied) -> None:
    session, _ = talk(proxied, FIRST)
    editor = proxied.editor("conversation")
    editor.initialize()
    loaded = editor.load(session)
    assert conversation(loaded.updates) == loaded.updates
    info = editor.wait_for_update("session_info_update")
    assert info["title"] == FIRST
    assert kinds(editor.list_updates(session)[len(loaded.told) :]) == STATE_AFTER_LOAD


def test_a_loaded_session_continues_in_the_agent_and_in_the_transcript(proxied: Proxied) -> None:
    session, turns = talk(proxied, FIRST)
    with proxied.editor("conversation") as editor:
        editor.initialize()
        assert editor.load(session).answer["result"] == {}
        live = editor.prompt(session, THIRD)
        assert f"I remember 1 earlier prompt; the first was: {FIRST}" in texts(live)
        [listed] = editor.sessions()
        assert listed["_meta"]["messageCount"] == 4
        assert editor.end() == 0
    with proxied.editor("conversation") as editor:
        editor.initialize()
        items = list_items(editor.load(session).updates)
    assert items == [ShownItem("user", FIRST), *list_replayed(turns[0]), ShownItem("user", THIRD), *list_replayed(live)]


def test_a_delete_removes_the_file_and_the_list_entry(proxied: Proxied) -> None:
    session, _ = talk(proxied, FIRST)
    with proxied.editor("conversation") as other:
        other.initialize()
        assert [listed["sessionId"] for listed in other.sessions()] == [session]
        path = proxied.transcript(session)
        with proxied.editor("conversation") as editor:
            editor.initialize()
            assert editor.request("session/delete", {"sessionId": session}) == {}
            assert editor.sessions() == []
            assert not path.exists()
            assert load_refused(editor, session)["code"] == -32002
            assert editor.request("session/delete", {"sessionId": session}) == {}
            editor.kill()
        assert other.sessions() == []
        assert load_refused(other, session)["code"] == -32002
    assert proxied.transcripts() == []
    later = proxied.editor("conversation")
    later.initialize()
    assert later.sessions() == []


def load_refused(editor: Editor, session: str) -> dict[str, Any]:
    """The error that answers a load, without any update."""
    loaded = editor.load(session)
    assert loaded.told == []
    error = loaded.answer["error"]
    assert isinstance(error, dict)
    return error


def test_a_complete_agent_passes_unchanged(proxied: Proxied) -> None:
    everything = ["--capabilities", "resume,list,load,delete,close,fork"]
    editor = proxied.editor("conversation", agent=everything)
    params = {"protocolVersion": 1, "clientCapabilities": {}}
    with Editor(proxied.bare_agent("conversation", everything)) as direct:
        direct.request("initialize", params)
        editor.request("initialize", params)
        assert editor.lines[0].raw == direct.lines[0].raw
    session = editor.new_session()
    live = editor.prompt(session, FIRST)
    assert editor.request("session/list", {})["sessions"][0]["title"] == FIRST
    # The agent's replay is shorter, so ours is shown, unless an option prevents it.
    assert list_items(editor.load(session).updates) == [ShownItem("user", FIRST), *list_replayed(live)]
    editor = proxied.start("conversation", agent=everything, options=["--load", "agent"])
    assert kinds(editor.load(session).updates) == ["user_message_chunk", "agent_message_chunk"]


def test_without_recording_nothing_is_added_or_stored(proxied: Proxied) -> None:
    editor = proxied.editor("conversation", options=["--no-record"])
    capabilities = editor.initialize()["agentCapabilities"]
    assert capabilities["sessionCapabilities"] == {"resume": {}}
    assert capabilities["loadSession"] is False
    session = editor.new_session()
    editor.prompt(session, FIRST)
    with pytest.raises(RequestFailed) as refusal:
        editor.request("session/list", {})
    assert refusal.value.code == -32601
    assert not proxied.store.exists()
