"""Sessions that the agent can neither load nor resume: shown whole, and continued in a new session of the agent."""

import json
from typing import Any

import pytest

from acp_proxy.tools.demo.display import ShownItem, list_items
from acp_proxy.transcript.handover_record_text import END, INTRODUCTION
from tests.end_to_end.handovers import (
    ANSWERS,
    CLOSING,
    LISTS,
    NOTHING,
    UNKNOWN,
    continued,
    given,
    notes,
    read_memory,
    record_session,
    refusing,
    user_words,
)
from tests.end_to_end.proxied import (
    ASK,
    AUTHENTICATION_REQUIRED,
    INTERNAL_ERROR,
    NOT_FOUND,
    Editor,
    Loaded,
    Proxied,
    entries,
    kinds,
    say,
    texts,
)


def is_handed_over(loaded: Loaded) -> bool:
    meta = loaded.answer["result"].get("_meta", {})
    return bool(meta.get("acp-proxy", {}).get("handover") is True)


def test_load_is_offered_for_an_agent_that_can_restore_nothing(proxied: Proxied) -> None:
    capabilities = proxied.editor(agent=NOTHING).initialize()["agentCapabilities"]
    assert capabilities["loadSession"] is True
    assert capabilities["_meta"]["acp-proxy"]["serves"] == ["list", "delete", "load"]
    capabilities = proxied.editor(agent=NOTHING, options=["--handover", "never"]).initialize()["agentCapabilities"]
    assert capabilities["loadSession"] is False
    assert capabilities["_meta"]["acp-proxy"]["serves"] == ["list", "delete"]


def test_a_handover_shows_the_complete_session_and_a_notice(proxied: Proxied) -> None:
    session, seen = record_session(proxied, "mend it", "and the other?")
    with proxied.start(agent=NOTHING) as editor:
        loaded = editor.load(session)
        assert list_items(loaded.updates) == [*list_items(seen), ShownItem("agent", CLOSING)]
        assert texts(loaded.updates)[-1] == CLOSING
        assert is_handed_over(loaded)
        assert "sessionId" not in loaded.answer["result"]


def test_only_the_agent_gets_the_record_with_the_next_prompt(proxied: Proxied) -> None:
    session, _ = record_session(proxied, "mend it", script="conversation")
    with proxied.start(agent=NOTHING) as editor:
        editor.load(session)
        live = editor.prompt(session, "go on")
        editor.prompt(session, "and on")
        first, second = given(proxied, session)
        assert first.startswith(INTRODUCTION)
        assert first.endswith(f"{END}\n\ngo on")
        for words in [
            "User:\n> mend it",
            "Agent:\n> I read both files.",
            "Read sum.py (completed)",
            "not the sum. 🦦",
        ]:
            assert words in first
        assert second == "and on"  # the record is sent once
        # The editor sees the record only if the agent quotes it, as this one does with its prompt.
        assert kinds(live).count("user_message_chunk") == 0
        assert editor.end() == 0
    path = proxied.transcript(session)
    assert user_words(path) == ["mend it", "go on", "and on"]
    [note] = notes(path, "handover")
    [new] = [one["id"] for one in read_memory(proxied) if one["id"] != session]
    assert note == {"type": "handover", "to": new}
    assert len(proxied.transcripts()) == 1


def test_a_login_and_a_crash_before_the_delivery_of_the_record_lose_nothing(proxied: Proxied) -> None:
    session, seen = record_session(proxied, "mend it", script=ANSWERS)
    login = {"code": AUTHENTICATION_REQUIRED, "message": "Authentication required"}
    with proxied.start({"turns": [[{"error": login}], [{"exit": 17}]]}, agent=NOTHING) as editor:
        editor.load(session)
        assert editor.wait_for_answer(editor.start_prompt(session, "log me in"))["error"] == login
        assert editor.wait_for_answer(editor.start_prompt(session, "once more"))["error"]["code"] == INTERNAL_ERROR
        assert editor.wait() == 17
    assert [words.startswith(INTRODUCTION) for words in given(proxied, session)] == [True, True]
    assert notes(proxied.transcript(session), "handover") == []
    with proxied.start(ANSWERS, agent=NOTHING) as editor:
        loaded = editor.load(session)
        unanswered = [ShownItem("user", "log me in"), ShownItem("user", "once more")]
        assert list_items(loaded.updates) == [*list_items(seen), *unanswered, ShownItem("agent", CLOSING)]
        editor.prompt(session, "go on")
        assert editor.end() == 0
    delivered = given(proxied, session)[-1]
    assert delivered.startswith(INTRODUCTION)
    for words in ["mend it", "This is my answer.", "log me in", "once more"]:
        assert f"\n> {words}" in delivered
    assert user_words(proxied.transcript(session)) == ["mend it", "log me in", "once more", "go on"]
    assert len(notes(proxied.transcript(session), "handover")) == 1


def test_messages_of_a_handed_over_session_have_its_old_id(proxied: Proxied) -> None:
    session, _ = record_session(proxied, "mend it")
    asks = {"turns": [[say("before"), ASK, say("granted"), {"wait_cancel": True}]]}
    with proxied.start(asks, agent=NOTHING) as editor:
        editor.load(session)
        since, pending = editor.count_lines(), editor.start_prompt(session, "go on")
        asked = editor.wait_for_method("session/request_permission", since=since)
        assert asked["params"]["sessionId"] == session
        editor.wait_for_text("granted", since=since)
        editor.notify("session/cancel", {"sessionId": session})
        assert editor.wait_for_result(pending) == {"stopReason": "cancelled"}
        [new] = [one["id"] for one in read_memory(proxied) if one["id"] != session]
        assert new not in b"".join(line.raw for line in editor.lines).decode()
        assert texts(editor.list_updates(session, since)) == ["before", "granted"]
        assert editor.end() == 0
    assert new not in "".join(json.dumps(entry.get("message")) for entry in entries(proxied.transcript(session)))


def test_a_handed_over_session_is_one_session_for_later_processes(proxied: Proxied) -> None:
    session, seen = record_session(proxied, "mend it", script=ANSWERS)
    with proxied.start(ANSWERS, agent=NOTHING) as editor:
        editor.load(session)
        seen += [{"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "go on"}}]
        seen += editor.prompt(session, "go on")
        assert [row["sessionId"] for row in editor.sessions()] == [session]
        assert editor.end() == 0
    with proxied.start(ANSWERS, agent=NOTHING) as editor:
        [found] = editor.sessions()
        assert (found["sessionId"], found["title"]) == (session, "mend it")
        loaded = editor.load(session)
        assert list_items(loaded.updates) == [*list_items(seen), ShownItem("agent", CLOSING)]
        editor.prompt(session, "and on")
        assert editor.end() == 0
    assert user_words(proxied.transcript(session)) == ["mend it", "go on", "and on"]
    assert len(notes(proxied.transcript(session), "handover")) == 2
    last = given(proxied, session)[-1]
    assert last.count("\nUser:\n") == 2
    assert CLOSING not in last


def is_update(message: Any) -> bool:
    return bool(message.get("method") == "session/update")


# --- --handover


@pytest.mark.parametrize("can", ["resume", "load"])
def test_always_hands_over_a_session_that_the_agent_refuses(proxied: Proxied, can: str) -> None:
    agent = ("--capabilities", can)
    session, seen = record_session(proxied, "mend it", agent=agent)
    with proxied.start(refusing(f"session/{can}"), agent=agent, options=["--handover", "always"]) as editor:
        loaded = editor.load(session)
        assert list_items(loaded.updates) == [*list_items(seen), ShownItem("agent", CLOSING)]
        assert is_handed_over(loaded)
        editor.prompt(session, "go on")
        assert editor.end() == 0
    [record] = given(proxied, session)
    assert record.startswith(INTRODUCTION)
    assert user_words(proxied.transcript(session)) == ["mend it", "go on"]
    assert b"half of the past" not in proxied.transcript(session).read_bytes()


@pytest.mark.parametrize(("can", "error"), list(zip(["resume", "load"], UNKNOWN, strict=True)))
def test_a_session_unknown_to_the_agent_is_handed_over(proxied: Proxied, can: str, error: dict[str, Any]) -> None:
    agent = ("--capabilities", can)
    session, seen = record_session(proxied, "mend it", agent=agent)
    with proxied.start(refusing(f"session/{can}", error), agent=agent) as editor:
        loaded = editor.load(session)
        assert list_items(loaded.updates) == [*list_items(seen), ShownItem("agent", CLOSING)]
        assert is_handed_over(loaded)
        seen += [{"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "go on"}}]
        seen += editor.prompt(session, "go on")
        assert editor.end() == 0
    with proxied.start(agent=agent) as editor:  # it knows the new session, and is asked for it
        loaded = editor.load(session)
        assert list_items(loaded.updates) == list_items(seen)
        assert not is_handed_over(loaded)
        editor.prompt(session, "and on")
        assert editor.end() == 0
    assert given(proxied, session)[1:] == ["and on"]
    assert user_words(proxied.transcript(session)) == ["mend it", "go on", "and on"]
    assert len(read_memory(proxied)) == 2


@pytest.mark.parametrize("can", ["resume", "load"])
def test_a_prompt_refused_after_a_load_is_sent_again_in_a_new_session_and_answered_once(
    proxied: Proxied, can: str
) -> None:
    agent = ("--capabilities", can)
    session, seen = record_session(proxied, "mend it", agent=agent)
    unknown = {"error": {"code": INTERNAL_ERROR, "message": "Session not found"}}
    forgetful = {"turns": [[say("As you wish.")], [unknown]]}  # the second turn of the forgotten session
    with proxied.start(forgetful, agent=agent) as editor:
        assert list_items(editor.load(session).updates) == list_items(seen)
        since, pending = editor.count_lines(), editor.start_prompt(session, "go on")
        assert editor.wait_for_result(pending) == {"stopReason": "end_turn"}
        assert texts(editor.list_updates(session, since)) == [CLOSING, "As you wish."]
        later = editor.wait_for_answer(editor.start_prompt(session, "and on"))
        assert later["error"] == unknown["error"]  # only the first prompt after a load is sent again
        assert editor.end() == 0
        assert len(editor.answers_to(pending)) == 1
    first, second = given(proxied, session)
    assert first.startswith(INTRODUCTION)
    assert first.endswith(f"{END}\n\ngo on")
    assert first.count("go on") == 1
    assert second == "and on"
    assert user_words(proxied.transcript(session)) == ["mend it", "go on", "and on"]
    assert len(notes(proxied.transcript(session), "handover")) == 1


# --- agents with a list of their own


def test_a_handed_over_session_is_one_row_of_the_agents_own_list(proxied: Proxied) -> None:
    session, _, _ = continued(proxied)
    with proxied.start(ANSWERS, agent=LISTS) as editor:
        other = editor.new_session()
        editor.prompt(other, "something else")
        found = editor.sessions(cwd=str(editor.project))
        assert [(row["sessionId"], row["title"]) for row in found] == [(other, "something else"), (session, "mend it")]
        assert editor.end() == 0


def test_a_handed_over_session_stays_listed_when_the_agent_has_only_the_new_one(proxied: Proxied) -> None:
    session, _, _ = continued(proxied)
    [old] = [path for path in proxied.memory.glob("*.json") if json.loads(path.read_text())["id"] == session]
    old.unlink()
    with proxied.start(ANSWERS, agent=LISTS) as editor:
        assert [row["sessionId"] for row in editor.sessions()] == [session]
        assert editor.end() == 0
    with proxied.start(ANSWERS, agent=LISTS, options=["--handover", "never"]) as editor:
        assert [row["sessionId"] for row in editor.sessions()] == [session]
        assert editor.end() == 0


def test_the_agents_id_of_a_handed_over_session_opens_the_whole_session(proxied: Proxied) -> None:
    session, new, seen = continued(proxied)
    with proxied.start(ANSWERS, agent=LISTS) as editor:
        assert list_items(editor.load(new).updates) == list_items(seen)
        seen += [{"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "and on"}}]
        seen += editor.prompt(new, "and on")
        assert session not in b"".join(line.raw for line in editor.lines).decode()
        # Now the editor knows it by its own id again.
        assert list_items(editor.load(session).updates) == list_items(seen)
        since, pending = editor.count_lines(), editor.start_prompt(session, "once more")
        assert editor.wait_for_result(pending) == {"stopReason": "end_turn"}
        assert texts(editor.list_updates(session, since)) == ["This is my answer."]
        assert editor.end() == 0
    assert [path.stem for path in proxied.transcripts()] == [proxied.transcript(session).stem]
    assert user_words(proxied.transcript(session)) == ["mend it", "go on", "and on", "once more"]
    assert given(proxied, session)[1:] == ["and on", "once more"]


@pytest.mark.parametrize("by", ["its own id", "the agent's id"])
@pytest.mark.parametrize("can_delete", [True, False])
def test_deleting_a_row_of_a_handed_over_session_deletes_the_session(
    proxied: Proxied, by: str, can_delete: bool
) -> None:
    session, new, _ = continued(proxied)
    agent = LISTS if can_delete else ("--capabilities", "load,list")
    with proxied.start(ANSWERS, agent=agent) as editor:
        editor.request("session/delete", {"sessionId": session if by == "its own id" else new})
        assert editor.sessions() == []
        assert {editor.load(each).answer["error"]["code"] for each in (session, new)} == {NOT_FOUND}
        assert editor.end() == 0
    assert proxied.transcripts() == []
    assert (new in [one["id"] for one in read_memory(proxied)]) is not can_delete


def test_a_session_handed_over_before_aliases_were_noted_is_one_row_once_it_was_opened(proxied: Proxied) -> None:
    session, new, seen = continued(proxied)
    (proxied.transcript(session).parent / "state.jsonl").unlink()
    with proxied.start(ANSWERS, agent=LISTS) as editor:
        rows = {row["sessionId"]: row.get("title") for row in editor.sessions()}
        assert rows == {session: "mend it", new: None}  # not the title that the agent has made from the record
        assert list_items(editor.load(session).updates) == list_items(seen)
        assert [row["sessionId"] for row in editor.sessions()] == [session]
        assert editor.end() == 0


# --- agents that answer a resume with another id


def renaming(session: str) -> dict[str, Any]:
    """An agent that restores a session as a copy with a new id."""
    return {"methods": {"session/resume": {"result": {"sessionId": session, "x": 1.0}}}}


def test_a_session_that_the_agent_renames_keeps_its_id(proxied: Proxied) -> None:
    session, seen = record_session(proxied, "mend it", agent=("--capabilities", "resume"))
    with Editor(proxied.bare_agent()) as direct:
        direct.project = proxied.project
        copy = direct.open()
    script = {**renaming(copy), "turns": [[say("before"), ASK, say("I heard: {prompt}")]]}
    with proxied.start(script) as editor:
        since = editor.count_lines()
        loaded = editor.load(session)
        assert list_items(loaded.updates) == list_items(seen)
        assert loaded.answer["result"] == {"sessionId": session, "x": 1.0}
        assert texts(editor.prompt(session, "go on")) == ["before", "I heard: go on"]
        assert editor.wait_for_method("session/request_permission", since=since)["params"]["sessionId"] == session
        assert copy not in b"".join(line.raw for line in editor.lines[since:]).decode()
        assert [row["sessionId"] for row in editor.sessions()] == [session]
        assert editor.end() == 0
    assert user_words(proxied.transcript(session)) == ["mend it", "go on"]
    assert given(proxied, session) == ["go on"]
    with proxied.start() as editor:  # from now on the agent is asked for the copy
        assert texts(editor.load(session).updates, "user_message_chunk") == ["mend it", "go on"]
        editor.prompt(session, "and on")
        assert editor.end() == 0
    assert given(proxied, session) == ["go on", "and on"]
    assert user_words(proxied.transcript(session)) == ["mend it", "go on", "and on"]
