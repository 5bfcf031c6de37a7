"""The answers to session/list: every session once in pages, those of this agent alone, and the agent's own list."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from acp_proxy.protocol import timestamps
from acp_proxy.store.proxy_store import ProxyStore
from tests.client import Client, RequestFailed
from tests.end_to_end.proxied import Editor, Proxied, texts
from tests.scripted.agent import NAME
from tests.stored import EPOCH, store_session

PAGE = 500
MANY = 1200
SILENT: Mapping[str, Any] = {"turns": [[{"stop": "end_turn"}]]}
COUNTING: Mapping[str, Any] = {"sessionIds": "counting", "turns": [[{"update": {
    "sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "{prompt}"}}}]]}  # fmt: skip

Blocks = list[dict[str, Any]]


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def start(proxied: Proxied, script: str | Mapping[str, Any] | None = SILENT, *agent: str) -> Editor:
    editor = proxied.editor(script, agent=agent)
    editor.initialize()
    return editor


def begin_with_prompts(editor: Editor, *prompts: Blocks, **params: Any) -> str:
    """A new session with these prompts."""
    session = editor.new_session(**params)
    for blocks in prompts or ([text("one")],):
        editor.request("session/prompt", {"sessionId": session, "prompt": blocks})
    return session


def code_of(editor: Editor, **params: Any) -> tuple[Any, Any]:
    with pytest.raises(RequestFailed) as refusal:
        editor.request("session/list", params)
    return refusal.value.code, refusal.value.message


# --- pages


def fill(proxied: Proxied, count: int, cwd: str = "/project", prefix: str = "old") -> set[str]:
    """Record so many sessions; every second one has the time of the one before. Their ids."""
    store = ProxyStore(proxied.store)
    names = {f"{prefix}-{number}" for number in range(count)}
    for number, session in enumerate(sorted(names)):
        store_session(store, session, (f"prompt {number}", []), agent=NAME, cwd=cwd, at=EPOCH + number // 2)
    return names


def pages(editor: Editor, between: Any = lambda: None, **params: Any) -> list[list[dict[str, Any]]]:
    """All pages, with a call between each two."""
    found: list[list[dict[str, Any]]] = []
    result: dict[str, Any] = {"nextCursor": None}
    while "nextCursor" in result:
        result = editor.request("session/list", {"cursor": result["nextCursor"]} | params)
        found.append(result["sessions"])
        between()
    return found


def test_sessions_are_paged_completely_while_new_ones_arrive(proxied: Proxied) -> None:
    names = fill(proxied, MANY)
    editor = start(proxied)
    other = start(proxied)
    new: list[str] = []

    def talk_on() -> None:
        new.extend(begin_with_prompts(one) for one in (editor, other))

    found = pages(editor, talk_on)
    assert [len(page) for page in found] == [PAGE, PAGE, MANY - 2 * PAGE]
    rows = [row for page in found for row in page]
    assert sorted(row["sessionId"] for row in rows) == sorted(names)
    times = [row["updatedAt"] for row in rows]
    assert times == sorted(times, reverse=True)

    again = [row for page in pages(editor) for row in page]
    assert {row["sessionId"] for row in again[: len(new)]} == set(new)
    assert again[len(new) :] == rows


def test_a_cursor_of_another_filter_or_agent_is_refused(proxied: Proxied) -> None:
    fill(proxied, PAGE + 1)
    editor = start(proxied)
    cursor = editor.request("session/list", {})["nextCursor"]
    filtered = editor.request("session/list", {"cwd": "/project"})["nextCursor"]
    assert code_of(editor, cursor=cursor, cwd="/project") == (-32602, "Invalid cursor")
    assert code_of(editor, cursor=filtered) == (-32602, "Invalid cursor")
    assert code_of(editor, cursor=filtered, cwd="/elsewhere") == (-32602, "Invalid cursor")
    assert code_of(start(proxied, SILENT, "--name", "another"), cursor=cursor) == (-32602, "Invalid cursor")
    assert len(editor.list_ids(cursor=cursor)) == len(editor.list_ids(cursor=filtered, cwd="/project")) == 1


# --- agents


def test_an_agents_list_load_and_delete_do_not_reach_the_equal_ids_of_another(proxied: Proxied) -> None:
    one = start(proxied, COUNTING, "--name", "one")
    other = start(proxied, COUNTING, "--name", "other", "--memory", str(proxied.base / "other memory"))
    assert (
        begin_with_prompts(one, [text("said to one")])
        == begin_with_prompts(other, [text("said to the other")])
        == "session-1"
    )
    assert [row["title"] for row in one.sessions()] == ["said to one"]
    assert [row["title"] for row in other.sessions()] == ["said to the other"]
    assert texts(other.load("session-1").updates) == ["said to the other"]
    one.request("session/delete", {"sessionId": "session-1"})
    assert one.sessions() == []
    assert [row["title"] for row in other.sessions()] == ["said to the other"]
    assert texts(other.load("session-1").updates) == ["said to the other"]


# --- titles


def test_the_agents_title_time_and_meta_win_until_they_are_cleared(proxied: Proxied) -> None:
    editor = start(proxied, "title")
    session = begin_with_prompts(editor, [text("Mend it")])
    editor.wait_for(lambda update: step_of(update) == 2)
    [found] = editor.sessions()
    assert found["title"] == "What the agent calls it"
    assert found["updatedAt"] == "2026-11-20T09:15:02.000Z"
    assert found["_meta"] == {
        "tags": ["first"],
        "origin": {"kind": "demo", "step": 2},
        "messageCount": 2,
        "hasErrors": False,
    }

    before = timestamps.format_moment(datetime.now(UTC))
    editor.prompt(session, "and more")
    [found] = editor.sessions()
    assert found["title"] == "Another name"
    assert found["updatedAt"] >= before
    assert found["_meta"] == {"origin": {"kind": "demo", "step": 2}, "messageCount": 4, "hasErrors": False}

    editor.prompt(session, "and more")
    [found] = editor.sessions()
    assert found["title"] == "Mend it"
    assert found["_meta"] == {"messageCount": 6, "hasErrors": False}


def test_a_title_that_the_agent_sends_late_replaces_the_first_words_at_once_but_not_the_users(proxied: Proxied) -> None:
    titled = {"update": {"sessionUpdate": "session_info_update", "title": "What the agent calls it"}}
    late = {"turns": [[], *[[{"stop": "end_turn"}, titled]] * 2]}
    editor = start(proxied, late)
    session = begin_with_prompts(editor, [text("Mend it")])
    assert [found["title"] for found in editor.sessions()] == ["Mend it"]
    assert "\tMend it\t" in proxied.run("list")
    editor.prompt(session, "and more")
    editor.wait_for(lambda update: title_of(update) == "What the agent calls it")
    assert [found["title"] for found in editor.sessions()] == ["What the agent calls it"]
    assert "\tWhat the agent calls it\t" in proxied.run("list")

    proxied.run("rename", session, "Mine")
    since = editor.count_lines()
    editor.prompt(session, "and more")
    editor.wait_for(lambda one: title_of(one) is not None, since=since)
    assert [found["title"] for found in editor.sessions()] == ["Mine"]
    assert "\tMine\t" in proxied.run("list")


def title_of(message: Any) -> Any:
    match message:
        case {"params": {"update": {"sessionUpdate": "session_info_update", "title": title}}}:
            return title
    return None


def step_of(message: Any) -> Any:
    match message:
        case {"params": {"update": {"_meta": {"origin": {"step": step}}}}}:
            return step
    return None


# Agents with their own list.

NATIVE = ("--capabilities", "resume,list")


def raw_list(client: Client, **params: Any) -> bytes:
    """The line that answers a list, with a fixed id."""
    since = client.count_lines()
    client.send({"jsonrpc": "2.0", "id": "list", "method": "session/list", "params": params})
    return client.wait_for(lambda message: isinstance(message, dict) and message.get("id") == "list", since=since).raw


def test_the_agents_list_passes_byte_for_byte_without_deleted_sessions(proxied: Proxied) -> None:
    editor = start(proxied, "echo", *NATIVE)
    sessions = [begin_with_prompts(editor, [text(f"Mend {number}")]) for number in range(3)]
    unprompted = editor.new_session()
    with Editor(proxied.bare_agent("echo", NATIVE)) as direct:
        direct.request("initialize", {"protocolVersion": 1})
        own = raw_list(direct)
        assert raw_list(editor) == own
        assert unprompted.encode() in own

        editor.request("session/delete", {"sessionId": sessions[1]})
        rows = [row for row in json.loads(own)["result"]["sessions"] if row["sessionId"] != sessions[1]]
        less = {"jsonrpc": "2.0", "id": "list", "result": {"sessions": rows}}
        assert raw_list(editor) == json.dumps(less, separators=(",", ":")).encode() + b"\n"
        assert raw_list(direct) == own  # the agent still has it
        project = str(proxied.project)
        assert raw_list(editor, cwd="/elsewhere") == raw_list(direct, cwd="/elsewhere") != raw_list(direct, cwd=project)
    with start(proxied, "echo", *NATIVE) as later:
        assert sessions[1].encode() not in raw_list(later)
