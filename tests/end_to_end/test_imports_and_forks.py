"""Sessions that did not begin under the proxy, and forks."""

from pathlib import Path
from typing import Any

import pytest

from acp_proxy.store.proxy_store import ProxyStore
from acp_proxy.tools.demo.display import ShownItem, list_items
from tests.cli.commands import get_json, get_stdout
from tests.end_to_end.proxied import (
    Editor,
    Loaded,
    Proxied,
    Updates,
    conversation,
    entries,
    list_replayed,
    list_said,
    say,
    texts,
)

LOADS = ("--capabilities", "load")
TELLS: list[dict[str, Any]] = [
    {"update": {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "said elsewhere"}}},
    say("answered "),
    say("elsewhere"),
    {"update": {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Look", "status": "completed"}},
    {"update": {"sessionUpdate": "available_commands_update", "availableCommands": []}},
]
TOLD = [("user", "said elsewhere"), ("agent", "answered elsewhere"), ("tool call", "Look (completed)")]
IMPORTED: dict[str, Any] = {"methods": {"session/load": {"before": TELLS, "result": {"modes": None}}}}


def begin_elsewhere(proxied: Proxied) -> str:
    """A session of the agent that the proxy does not know."""
    with Editor(proxied.bare_agent()) as editor:
        editor.project = proxied.project
        session = editor.open()
        editor.prompt(session, "said elsewhere")
    return session


def load_in_new_process(proxied: Proxied, session: str, script: Any = IMPORTED, agent: Any = LOADS) -> Loaded:
    with proxied.start(script, agent=agent) as editor:
        loaded = editor.load(session)
        assert editor.end() == 0
    return loaded


def updates_in(path: Path) -> Updates:
    messages = [entry.get("message", {}) for entry in entries(path)]
    return [message["params"]["update"] for message in messages if message.get("method") == "session/update"]


def list_openings(path: Path) -> list[str]:
    return [entry["note"]["method"] for entry in entries(path) if entry.get("note", {}).get("type") == "opened"]


# --- imports


def test_the_first_load_of_an_unknown_session_passes_unchanged_and_is_imported(proxied: Proxied) -> None:
    session = begin_elsewhere(proxied)
    with Editor(proxied.bare_agent(IMPORTED, LOADS)) as direct:
        direct.project = proxied.project
        direct.initialize()
        expected = direct.load(session)
    loaded = load_in_new_process(proxied, session)
    assert [line.raw for line in loaded.told] == [line.raw for line in expected.told]
    assert loaded.answer["result"] == expected.answer["result"] == {"modes": None}
    path = proxied.transcript(session)
    header, *_ = entries(path)
    assert (header["origin"], header["cwd"]) == ("imported", str(proxied.project))
    assert conversation(updates_in(path)) == [step["update"] for step in TELLS[:-1]]
    assert list_openings(path) == ["session/load"]


def test_loads_of_an_imported_session_do_not_lengthen_it(proxied: Proxied) -> None:
    session = begin_elsewhere(proxied)
    load_in_new_process(proxied, session)
    [path] = proxied.transcripts()
    before = updates_in(path)
    sizes = []
    for _ in range(3):
        assert list_said(load_in_new_process(proxied, session).updates) == TOLD
        sizes.append(len(conversation(updates_in(path))))
    assert sizes == [len(conversation(before))] * 3
    with proxied.start(IMPORTED, agent=LOADS) as editor:  # nor within one process
        for _ in range(3):
            assert list_said(conversation(editor.load(session).updates)) == TOLD
        assert editor.end() == 0
    assert conversation(updates_in(path)) == conversation(before)
    assert proxied.transcripts() == [path]


def test_an_imported_session_is_listed_shown_exported_searched_and_deleted_before_it_continues(
    proxied: Proxied,
) -> None:
    session = begin_elsewhere(proxied)
    with proxied.start(IMPORTED, agent=LOADS) as editor:
        editor.load(session)
        [listed] = editor.sessions()
        assert (listed["sessionId"], listed["title"]) == (session, "said elsewhere")
        assert editor.end() == 0
    store = ProxyStore(proxied.store)
    [row] = get_json(store, "list")
    assert (row["sessionId"], row["title"], row["turns"], row["messageCount"]) == (session, "said elsewhere", 1, 2)
    assert "answered elsewhere" in get_stdout(store, "show", session)
    assert "answered elsewhere" in get_stdout(store, "export", session)
    [found] = get_json(store, "search", "answered")
    assert (found["sessionId"], [one["turn"] for one in found["found"]]) == (session, [1])
    get_stdout(store, "delete", session, "--yes")
    assert proxied.transcripts() == []


def test_an_imported_session_is_replayed_with_its_later_turns(
    proxied: Proxied,
) -> None:
    session = begin_elsewhere(proxied)
    with proxied.start(IMPORTED, agent=LOADS) as editor:
        editor.load(session)
        live = editor.prompt(session, "go on")
        [listed] = editor.sessions()
        assert (listed["sessionId"], listed["cwd"]) == (session, str(proxied.project))
        assert editor.end() == 0
    path = proxied.transcript(session)
    assert list_said(updates_in(path))[: len(TOLD)] == TOLD
    assert list_items(updates_in(path))[len(TOLD) :] == list_items(live)
    for _ in range(2):  # the agent replays only what it replayed first
        again = load_in_new_process(proxied, session).updates
        assert list_said(again[: len(TOLD)]) == TOLD
        assert list_items(again)[len(TOLD) :] == [ShownItem("user", "go on"), *list_replayed(live)]


def test_an_imported_session_is_replayed_if_the_agent_can_now_only_resume(proxied: Proxied) -> None:
    session = begin_elsewhere(proxied)
    with proxied.start(IMPORTED, agent=LOADS) as editor:
        editor.load(session)
        live = editor.prompt(session, "go on")
        assert editor.end() == 0
    told = load_in_new_process(proxied, session, script=None, agent=())
    assert list_said(told.updates[: len(TOLD)]) == TOLD
    assert list_items(told.updates)[len(TOLD) :] == [ShownItem("user", "go on"), *list_replayed(live)]


# Forks.

FORKS = ("--capabilities", "fork,resume")


def fork(editor: Editor, session: str) -> str:
    forked = editor.request("session/fork", editor.place(session))["sessionId"]
    assert forked != session
    return str(forked)


@pytest.fixture
def forked(proxied: Proxied) -> tuple[str, str]:
    """A session with a prompt, and a fork of it; both have been continued."""
    with proxied.start(agent=FORKS) as editor:
        parent = editor.new_session()
        editor.prompt(parent, "one")
        child = fork(editor, parent)
        editor.prompt(child, "of the child")
        editor.prompt(parent, "of the parent")
        assert editor.end() == 0
    return parent, child


def users(updates: Updates) -> list[str]:
    return texts(updates, "user_message_chunk")


def test_a_fork_and_its_parent_continue_separately(proxied: Proxied, forked: tuple[str, str]) -> None:
    parent, child = forked
    for _ in range(2):
        with proxied.start(agent=FORKS) as editor:
            of_child, of_parent = editor.load(child), editor.load(parent)
            assert users(of_child.updates) == ["one", "of the child"]
            assert users(of_parent.updates) == ["one", "of the parent"]
            shared, own = list_items(of_child.updates), list_items(of_parent.updates)
            assert (
                shared[: shared.index(ShownItem("user", "of the child"))]
                == own[: own.index(ShownItem("user", "of the parent"))]
            )
            assert parent.encode() not in b"".join(line.raw for line in of_child.told)
            assert editor.end() == 0


def test_a_fork_during_a_turn_has_the_updates_up_to_then(proxied: Proxied) -> None:
    waits = {"turns": [[say("before"), {"wait_cancel": True}, say("after")]]}
    with proxied.start(waits, agent=FORKS) as editor:
        parent = editor.new_session()
        turn = editor.start_prompt(parent, "one")
        editor.wait_for_text("before")
        child = fork(editor, parent)
        editor.notify("session/cancel", {"sessionId": parent})
        assert editor.wait_for_result(turn)["stopReason"] == "cancelled"
        assert editor.end() == 0
    assert texts(load_in_new_process(proxied, child, None, FORKS).updates) == ["before"]
    assert texts(load_in_new_process(proxied, parent, None, FORKS).updates) == ["beforeafter"]
