"""`--list`, `--load`, `--delete` and `--resume` decide who answers."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from acp_proxy.tools.demo.display import ShownItem, list_items
from tests.client import RequestFailed
from tests.end_to_end.proxied import (
    NOT_FOUND,
    Editor,
    Proxied,
    Updates,
    conversation,
    entries,
    say,
    texts,
)

ANSWER = "All of it is mended now."
TELLS: list[dict[str, Any]] = [
    {"update": {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "mend it"}}},
    say("All of it is "),
    say("mended now."),
]
"""The conversation in the agent's chunks."""
ELSEWHERE: list[dict[str, Any]] = [
    {"update": {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "from another client"}}},
    say("Done there as well."),
]
COMMANDS: dict[str, Any] = {
    "sessionUpdate": "available_commands_update",
    "availableCommands": [{"name": "go", "description": "Go"}],
}
HEARD = [{"stderr": "heard load of {session} in {cwd}"}]
HEARD_RESUME = [{"stderr": "heard resume of {session} in {cwd}"}]
BOTH: dict[str, Any] = {
    "methods": {
        "session/load": {"before": [*HEARD, *TELLS, {"update": COMMANDS}], "result": {"x": 1.0}},
        "session/resume": {"before": HEARD_RESUME, "result": {"x": 2.0}},
    }
}


def with_options(proxied: Proxied, *options: str, can: str, script: Any = None) -> Editor:
    """An editor after `initialize`, with an agent of these capabilities."""
    methods = {f"session/{name}" for name in can.split(",")}
    if script is not None:
        used = {name: given for name, given in script.get("methods", {}).items() if name in methods}
        script = {**script, "methods": used}
    return proxied.start(script, options=options, agent=["--capabilities", can])


def record_session(proxied: Proxied, can: str) -> tuple[str, Updates]:
    with with_options(proxied, can=can, script={"turns": [[say(ANSWER)]]}) as editor:
        session = editor.new_session()
        live = editor.prompt(session, "mend it")
        assert editor.end() == 0
    return session, live


def list_offered(proxied: Proxied, options: Sequence[str], can: str) -> tuple[bool, set[str], list[str]]:
    """Whether load is offered, the other methods, and those reported as ours."""
    editor = proxied.editor(options=options, agent=["--capabilities", can])
    capabilities = editor.initialize()["agentCapabilities"]
    meta = capabilities.get("_meta", {}).get("acp-proxy", {})
    return capabilities["loadSession"], set(capabilities["sessionCapabilities"]), meta.get("serves", [])


EVERYTHING = "resume,list,load,delete"

OFFERED: list[tuple[Sequence[str], str, tuple[bool, set[str], list[str]]]] = [
    ([], EVERYTHING, (True, {"resume", "list", "delete"}, [])),
    (["--resume", "store"], "load", (True, {"list", "delete", "resume"}, ["list", "delete", "resume"])),
    (["--load", "agent"], "none", (False, {"list", "delete"}, ["list", "delete"])),
    (["--list", "agent", "--load", "agent", "--delete", "agent"], "resume", (False, {"resume"}, [])),
    (["--no-synthesize"], "resume", (False, {"resume"}, [])),
]


@pytest.mark.parametrize(("options", "can", "expected"), OFFERED)
def test_the_options_decide_the_offer(
    proxied: Proxied, options: Sequence[str], can: str, expected: tuple[bool, set[str], list[str]]
) -> None:
    assert list_offered(proxied, options, can) == expected


# --- --load


def test_load_store_swallows_the_replay_of_an_agent_that_can_only_load(proxied: Proxied) -> None:
    session, live = record_session(proxied, "load")
    before = proxied.transcript(session).read_bytes()
    editor = with_options(proxied, "--load", "store", can="load", script=BOTH)
    loaded = editor.load(session)
    assert list_items(loaded.updates) == [ShownItem("user", "mend it"), *list_items(live)]
    assert loaded.answer["result"] == {"x": 1.0}
    editor.sessions()
    later = editor.list_updates(session)[len(loaded.told) :]
    assert conversation(later) == []
    assert COMMANDS in later
    assert editor.end() == 0
    assert f"heard load of {session} in {proxied.project}" in editor.read_stderr()
    after = proxied.transcript(session).read_bytes()
    assert after.startswith(before)
    assert b"message_chunk" not in after[len(before) :]


@pytest.mark.parametrize("mode", ["load", "resume"])
def test_store_modes_record_a_turn_made_elsewhere_and_only_a_load_shows_it(proxied: Proxied, mode: str) -> None:
    session, _ = record_session(proxied, "load")
    script = {"methods": {"session/load": {"before": [*TELLS, *ELSEWHERE], "result": {}}}}
    with with_options(proxied, f"--{mode}", "store", can="load", script=script) as editor:
        editor.request(f"session/{mode}", editor.place(session))
        assert texts(editor.list_updates(session))[-1:] == (["Done there as well."] if mode == "load" else [])
        said = texts(editor.list_updates(session), "user_message_chunk")
        assert said[-1:] == (["from another client"] if mode == "load" else [])
        assert editor.end() == 0
    with with_options(proxied, can="load", script=script) as editor:
        loaded = editor.load(session)
        assert texts(loaded.updates) == ["All of it is ", "mended now.", "Done there as well."]
        assert editor.end() == 0
    told = proxied.transcript(session).read_bytes()
    assert [told.count(words) for words in (b"from another client", b"Done there", b"mended now")] == [1, 1, 1]


# --- --list


def test_list_store_shows_only_recorded_sessions(proxied: Proxied) -> None:
    with Editor(proxied.bare_agent(agent=["--capabilities", "list"])) as direct:
        direct.project = proxied.project
        unseen = direct.open()
    session, _ = record_session(proxied, "list")
    with with_options(proxied, "--list", "store", can="list") as editor:
        assert editor.list_ids() == [session]
    with with_options(proxied, can="list") as editor:
        assert set(editor.list_ids()) == {session, unseen}


def test_list_agent_shows_sessions_deleted_here(proxied: Proxied) -> None:
    session, _ = record_session(proxied, "list")
    with with_options(proxied, can="list") as editor:
        editor.request("session/delete", {"sessionId": session})
        assert editor.list_ids() == []
    editor = with_options(proxied, "--list", "agent", "--delete", "agent", can="list")
    assert editor.list_ids() == [session]
    with pytest.raises(RequestFailed, match="-32601"):
        editor.request("session/delete", {"sessionId": session})


# --- --delete


def test_delete_store_keeps_the_agents_session(proxied: Proxied) -> None:
    can = "list,delete,load"
    session, _ = record_session(proxied, can)
    with with_options(proxied, "--delete", "store", can=can) as editor:
        assert editor.request("session/delete", {"sessionId": session}) == {}
        assert editor.list_ids() == []
        assert editor.load(session).answer["error"]["code"] == NOT_FOUND
        assert len(list(proxied.memory.glob("*.json"))) == 1
    assert proxied.transcripts() == []


def test_delete_agent_deletes_our_transcript_too(proxied: Proxied) -> None:
    can = "list,delete,load"
    session, _ = record_session(proxied, can)
    with with_options(proxied, can=can) as editor:
        assert editor.request("session/delete", {"sessionId": session}) == {}
        assert editor.list_ids() == []
        assert list(proxied.memory.glob("*.json")) == []
        assert editor.end() == 0
    assert proxied.transcripts() == []


# --- --resume


def test_resume_store_is_a_load_without_a_replay(proxied: Proxied) -> None:
    session, _ = record_session(proxied, "load")
    before = proxied.transcript(session).read_bytes()
    editor = with_options(proxied, "--resume", "store", can="load", script=BOTH)
    assert editor.request("session/resume", editor.place(session)) == {"x": 1.0}
    assert "I remember 1 earlier prompt; the first was: mend it" in texts(editor.prompt(session, "go on"))
    assert texts(editor.list_updates(session), "user_message_chunk") == []
    assert "mended now." not in texts(editor.list_updates(session))
    assert COMMANDS in editor.list_updates(session)
    assert editor.end() == 0
    assert f"heard load of {session} in {proxied.project}" in editor.read_stderr()
    path = proxied.transcript(session)
    assert path.read_bytes().startswith(before)
    assert b"user_message_chunk" not in path.read_bytes()[len(before) :]
    assert path.read_bytes().count(b"mended now.") == 1
    methods = [entry["note"]["method"] for entry in entries(path) if entry.get("note", {}).get("type") == "opened"]
    assert methods == ["session/new", "session/resume"]


# --- titles


def titles(updates: Updates) -> list[Any]:
    return [update.get("title") for update in updates if update["sessionUpdate"] == "session_info_update"]


def test_the_title_in_the_list_is_sent_once_before_the_first_answer(proxied: Proxied) -> None:
    with with_options(proxied, can="resume") as editor:
        session = editor.new_session()
        first = editor.prompt(session, "/init\nMend it")
        assert titles(first) == ["/init"]
        assert first[-1] == {"sessionUpdate": "session_info_update", "title": "/init"}
        assert titles(editor.prompt(session, "and more")) == []
        other = editor.new_session()
        assert titles(editor.prompt(other, "Something else")) == ["Something else"]
        assert {row["sessionId"]: row["title"] for row in editor.sessions()}[other] == "Something else"
        assert editor.end() == 0
    assert not any("session_info_update" in json.dumps(entry) for entry in entries(proxied.transcript(session)))
