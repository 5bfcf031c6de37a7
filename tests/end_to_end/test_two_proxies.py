"""Two editors, each with its own proxy, use one session of one agent and one store."""

import re
from typing import Any

import pytest

from acp_proxy.tools.demo.display import list_items
from tests.end_to_end.proxied import (
    ASK,
    NOT_FOUND,
    PROXY,
    Editor,
    Permission,
    Proxied,
    entries,
    say,
    texts,
)

MANY = 2_000
COUNTS: dict[str, Any] = {"flood": {"count": MANY, "text": "{prompt} {i}"}}
COUNTING: dict[str, Any] = {"turns": [[COUNTS, ASK, COUNTS]]}
"""Each update is a write of its own, so that they interleave, and each turn waits for the other half-way."""


@pytest.fixture
def two(proxied: Proxied) -> tuple[str, Editor, Editor]:
    """A recorded session, and two editors that have loaded it."""
    session = proxied.recorded("long ago", script="early-updates")
    one, other = proxied.start(), proxied.start()
    assert one.load(session).answer["result"] == other.load(session).answer["result"] == {}
    return session, one, other


def both_counted(proxied: Proxied) -> tuple[str, Editor, Editor]:
    """A session in which two editors have each had a long turn at the same time."""
    session = proxied.recorded("long ago", script="early-updates")
    permission = Permission()
    one, other = (proxied.start(COUNTING, on_request=permission) for _ in range(2))
    turns = []
    for editor, text in ((one, "one"), (other, "other")):
        editor.load(session)
        turns.append((editor, editor.start_prompt(session, text)))
    for editor, _ in turns:
        editor.wait_for_method("session/request_permission")
    permission.grant()
    for editor, turn in turns:
        assert editor.wait_for_result(turn) == {"stopReason": "end_turn"}
    return session, one, other


def repeat_numbered(text: str) -> list[str]:
    return [f"{text} {number}" for number in range(MANY)] * 2


def test_simultaneous_turns_are_both_recorded_line_by_line(proxied: Proxied) -> None:
    session, one, other = both_counted(proxied)
    assert one.end() == other.end() == 0
    header, *lines = entries(proxied.transcript(session))  # every line is whole
    assert header["acp-transcript"] == 1
    assert [line for line in lines if "acp-transcript" in line] == []
    first, *runs = dict.fromkeys(line["run"] for line in lines)
    assert len(runs) == 2
    told = {}
    for run in runs:
        asked, *middle, answer = (line["message"] for line in lines if line["run"] == run and "message" in line)
        assert answer["result"] == {"stopReason": "end_turn"}
        updates = [message["params"]["update"] for message in middle if message.get("method") == "session/update"]
        assert len(middle) == len(updates) + 2  # and the permission with its answer
        told[asked["params"]["prompt"][0]["text"]] = texts(updates)
    assert told == {"one": repeat_numbered("one"), "other": repeat_numbered("other")}
    assert (lines[0]["run"], lines[0]["note"]["method"]) == (first, "session/new")
    with proxied.start() as later:
        [listed] = later.sessions()
        assert (listed["title"], listed["_meta"]["hasErrors"]) == ("long ago", False)
        loaded = later.load(session).updates
    assert sorted(texts(loaded, "user_message_chunk")) == ["long ago", "one", "other"]
    words = re.findall(r"(?:one|other) \d+", "".join(texts(loaded)))
    assert [[word for word in words if word.startswith(f"{name} ")] for name in told] == list(told.values())


def test_a_turn_in_one_editor_is_in_the_others_next_load(two: tuple[str, Editor, Editor]) -> None:
    session, one, other = two
    live = one.prompt(session, "one")
    updates = other.load(session).updates
    assert "".join(texts(updates)[1:]) == "".join(texts(live))
    [listed] = other.sessions()
    assert listed["_meta"]["messageCount"] == 4


def test_a_prompt_to_a_session_deleted_by_the_other_begins_a_partial_transcript(
    proxied: Proxied, two: tuple[str, Editor, Editor]
) -> None:
    session, one, other = two
    assert one.request("session/delete", {"sessionId": session}) == {}
    assert proxied.transcripts() == []
    assert other.sessions() == []
    live = other.prompt(session, "I am still here")
    header, *lines = entries(proxied.transcript(session))
    assert (header["origin"], header["cwd"]) == ("partial", str(proxied.project))
    assert [line["from"] for line in lines[:1]] == ["client"]
    for editor in (one, other):
        [listed] = editor.sessions()
        assert (listed["sessionId"], listed["title"]) == (session, "I am still here")
        assert listed["_meta"]["messageCount"] == 2
        updates = editor.load(session).updates
        assert list_items(updates)[1:] == list_items(live)
        assert texts(updates, "user_message_chunk") == ["I am still here"]


def test_a_turn_whose_session_the_other_deletes_continues_live_and_leaves_no_file(proxied: Proxied) -> None:
    permission = Permission()
    talking = {"turns": [[say("before the delete"), ASK, say("after the delete")], [say("a new beginning")]]}
    one, other = proxied.start(talking, on_request=permission), proxied.start(talking)
    session = one.new_session()
    turn = one.start_prompt(session, "go")
    one.wait_for_method("session/request_permission")
    assert [listed["sessionId"] for listed in other.sessions()] == [session]
    assert other.request("session/delete", {"sessionId": session}) == {}
    permission.grant()
    assert one.wait_for_result(turn) == {"stopReason": "end_turn"}
    assert texts(one.list_updates(session)) == ["before the delete", "after the delete"]
    assert one.sessions() == other.sessions() == []
    assert proxied.transcripts() == []
    assert one.load(session).answer["error"]["code"] == NOT_FOUND

    assert texts(one.prompt(session, "again")) == ["a new beginning"]
    assert texts(other.load(session).updates) == ["a new beginning"]
    assert entries(proxied.transcript(session))[0]["origin"] == "partial"


def test_one_proxy_in_front_of_another_with_the_same_store_records_nothing(proxied: Proxied) -> None:
    command = [*PROXY, "run", "--store", str(proxied.store), "--", *proxied.command("conversation")]
    with Editor(command) as editor:
        editor.project = proxied.project
        session = editor.open()
        editor.prompt(session, "hello")
        assert editor.end() == 0
        assert editor.read_stderr().count("nothing is recorded: another acp-proxy, nearer to the agent") == 1
    [place] = proxied.transcripts()
    prompts = [entry for entry in entries(place) if entry.get("message", {}).get("method") == "session/prompt"]
    assert len(prompts) == 1
