"""What a load replays: few messages or every chunk, and no outdated state."""

import json
import os
import shlex
from typing import Any

import pytest

from acp_proxy.tools.demo.display import ShownItem, list_items
from tests import forked
from tests.client import NO_ANSWER, TIMEOUT, RequestFailed
from tests.end_to_end.proxied import ASK, PROXY, Loaded, Proxied, Updates, conversation, list_replayed, say, texts

MANY = 5_000
LONG: dict[str, Any] = {
    "turns": [[
        {"flood": {"count": MANY, "text": "{i} ", "batch": True}},
        {"update": {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Look", "status": "pending"}},
        *[{"update": {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "in_progress"}}] * 50,
        {"update": {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"}},
        {"flood": {"count": MANY, "text": "{i} ", "batch": True}},
    ]]
}  # fmt: skip
FULL = ["--replay", "full"]


def load_anew(proxied: Proxied, session: str, *options: str, script: Any = None) -> Loaded:
    """The load in another process."""
    with proxied.start(script, options=options) as editor:
        loaded = editor.load(session)
        assert "result" in loaded.answer
        assert editor.end() == 0
    return loaded


def raw(loaded: Loaded) -> list[bytes]:
    return [line.raw for line in loaded.told]


def call_of(updates: Updates) -> dict[str, Any]:
    """The only tool call of these updates, which must be one update."""
    [found] = [update for update in updates if update["sessionUpdate"].startswith("tool_call")]
    assert found["sessionUpdate"] == "tool_call"
    return found


# --- compact and full replays


def test_a_full_replay_has_every_chunk_unchanged(proxied: Proxied) -> None:
    with proxied.start(LONG) as editor:
        session = editor.new_session()
        since = editor.count_lines()
        editor.prompt(session, "count")
        lines = editor.update_lines(session, since)
        live = [line.raw for line in lines if conversation([line.message["params"]["update"]])]
        assert editor.end() == 0
    told = load_anew(proxied, session, *FULL)
    assert texts(told.updates[:1], "user_message_chunk") == ["count"]
    assert raw(told)[1:] == live
    assert list_items(told.updates) == list_items(load_anew(proxied, session).updates)


@pytest.mark.parametrize("options", [[], FULL])
def test_every_load_of_a_session_has_the_same_bytes(proxied: Proxied, options: list[str]) -> None:
    session = proxied.recorded("mend it", "and the other?")
    first = raw(load_anew(proxied, session, *options))
    assert raw(load_anew(proxied, session, *options)) == first
    with proxied.start(options=options) as editor:
        assert raw(editor.load(session)) == first
        again = editor.load(session)  # in the same process: the state after the first load comes in between
        assert [line.raw for line in again.told if conversation([line.message["params"]["update"]])] == first
        assert editor.end() == 0
    assert raw(load_anew(proxied, session, *options)) == first


# --- outdated state


def in_a_terminal(request: dict[str, Any]) -> Any:
    answers: dict[str, Any] = {
        "terminal/create": {"terminalId": "term-1"},
        "terminal/output": {"output": "hello\n", "truncated": False, "exitStatus": {"exitCode": 0, "signal": None}},
        "terminal/wait_for_exit": {"exitCode": 0, "signal": None},
        "terminal/release": {},
    }
    if request["method"] not in answers:
        raise RequestFailed({"code": -32601, "message": request["method"]})
    return answers[request["method"]]


IN_THE_BACKGROUND: dict[str, Any] = {
    "turns": [
        [
            {"request": "terminal/create", "params": {"command": "make"}},
            {
                "update": {
                    "sessionUpdate": "tool_call",
                    "toolCallId": "run",
                    "title": "make",
                    "status": "completed",
                    "content": [{"type": "terminal", "terminalId": "term-1"}],
                }
            },
        ],
        [{"request": "terminal/output", "params": {"terminalId": "term-1"}}, say("It has ended.")],
    ]
}


@pytest.mark.parametrize("options", [[], FULL])
def test_the_output_that_the_agent_asks_for_in_a_later_turn_is_replayed_there(
    proxied: Proxied, options: list[str]
) -> None:
    with proxied.start(IN_THE_BACKGROUND, on_request=in_a_terminal) as editor:
        session = editor.new_session()
        editor.prompt(session, "build it in the background")
        editor.prompt(session, "has it ended?")
        assert editor.end() == 0
    updates = load_anew(proxied, session, *options).updates
    asked = [number for number, one in enumerate(updates) if "has it ended" in json.dumps(one)]
    shown = [number for number, one in enumerate(updates) if "hello" in json.dumps(one)]
    assert asked < shown
    assert list_items(updates)[1].about["content"] == updates[shown[0]]["content"]  # the same call, with its output
    command = [*PROXY, "show", session, "--full", "--store", str(proxied.store)]
    assert b"hello" in forked.run(command, timeout=TIMEOUT, check=True).stdout


@pytest.mark.parametrize("options", [[], FULL])
def test_a_call_interrupted_by_a_kill_is_replayed_as_failed_and_an_open_one_as_open(
    proxied: Proxied, options: list[str]
) -> None:
    open_call = {"sessionUpdate": "tool_call", "toolCallId": "open", "title": "Wait", "status": "in_progress"}
    script = {"turns": [[{"update": open_call}, ASK, say("done")]]}
    editor = proxied.start(script, options=options, on_request=lambda request: NO_ANSWER)
    session = editor.new_session()
    editor.start_prompt(session, "wait")
    editor.wait_for_method("session/request_permission")
    assert status_of(editor.load(session).updates, "open") == "in_progress"
    editor.kill()
    assert status_of(load_anew(proxied, session, *options).updates, "open") == "failed"


def status_of(updates: Updates, call: str) -> Any:
    [status] = [item.about["status"] for item in list_items(updates) if item.about.get("toolCallId") == call]
    return status


# The limit for tool calls.

LIMIT = 2_000
LENGTHY: dict[str, Any] = {
    "turns": [[
        {"update": {
            "sessionUpdate": "tool_call", "toolCallId": "c", "title": "Look", "status": "completed",
            "content": [{"type": "content", "content": {"type": "text", "text": "BEGIN" + "x" * 5_000 + "END"}}],
            "rawOutput": {"all": "y" * 5_000},
        }},
        say("z" * 5_000),
    ]]
}  # fmt: skip


def test_a_long_tool_call_is_cut_and_names_the_command_that_shows_it(proxied: Proxied) -> None:
    session = proxied.recorded("look", script=LENGTHY)
    loaded = load_anew(proxied, session, "--replay-tool-limit", str(LIMIT))
    call = call_of(loaded.updates)
    assert len(json.dumps(call)) < LIMIT * 2
    assert texts(loaded.updates) == ["z" * 5_000]  # messages of the agent are never cut
    assert "BEGIN" in json.dumps(call)
    assert "END" not in json.dumps(call)
    notice = call["content"][-1]["content"]["text"]
    command = notice.rpartition("To see all of it: ")[2].removesuffix("]")
    program, *words = shlex.split(command)
    assert program == "acp-proxy"
    env = os.environ | {"ACP_PROXY_STORE": str(proxied.store)}
    result = forked.run([*PROXY, *words], env=env, timeout=TIMEOUT, check=True)
    assert b"END" in result.stdout
    assert b"y" * 5_000 in result.stdout


# --- damage


def test_intact_entries_of_a_damaged_transcript_are_replayed(proxied: Proxied) -> None:
    session = proxied.recorded("mend it", "and the other?")
    before = list_items(load_anew(proxied, session).updates)
    path = proxied.transcript(session)
    header, *lines = path.read_bytes().splitlines(keepends=True)
    stamp, run = "2026-11-20T09:15:02.123Z", "damage"
    odd: list[Any] = [
        {"method": "session/update", "params": {"sessionId": session, "update": 7}},
        {"method": "session/update", "params": {"sessionId": session, "update": {"sessionUpdate": "tool_call_update"}}},
        {"method": "session/update", "params": {"sessionId": session, "update": {"sessionUpdate": None}}},
        {"method": "session/update", "params": []},
        7,
    ]
    entries = [
        json.dumps({"at": stamp, "run": run, "from": "agent", "message": one}, separators=(",", ":")) for one in odd
    ]
    bad = [*(f"{entry}\n".encode() for entry in entries), b"garbage\n", b"\0" * 100 + b"\n", b'{"at":"x","torn\n']
    bad.append(f'{{"at":"{stamp}","run":"{run}","from":"nobody","whatever":1}}\n'.encode())
    path.write_bytes(b"".join([header, *bad, *lines[:4], *bad, *lines[4:], *bad]))
    assert list_items(load_anew(proxied, session).updates) == before


def test_a_compact_replay_equals_the_live_turns(proxied: Proxied) -> None:
    with proxied.start("conversation") as editor:
        session = editor.new_session()
        turns = [editor.prompt(session, text) for text in ("one", "two", "three")]
        assert editor.end() == 0
    live = [
        told
        for text, turn in zip(("one", "two", "three"), turns, strict=True)
        for told in [ShownItem("user", text), *list_replayed(turn)]
    ]
    assert list_items(load_anew(proxied, session).updates) == live
