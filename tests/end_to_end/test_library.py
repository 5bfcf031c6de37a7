"""The user's changes in the terminal as editors see them: titles, soft deletes, restores."""

import json
from typing import Any

import pytest

from tests.client import RequestFailed
from tests.end_to_end.proxied import ASK, NOT_FOUND, Editor, Permission, Proxied, entries, say, texts

SOFT, PERMANENT = ("--delete-mode", "soft"), ("--delete-mode", "permanent")
LISTS = ("--capabilities", "list,load")


def told_titles(editor: Editor) -> list[Any]:
    updates = [line.message.get("params", {}).get("update", {}) for line in editor.lines]
    return [update["title"] for update in updates if "title" in update and "toolCallId" not in update]


# --- titles


def test_the_users_title_is_in_the_next_list_and_sent_after_a_load(proxied: Proxied) -> None:
    session = proxied.recorded("mend it")
    with proxied.start() as editor:
        assert [row["title"] for row in editor.sessions()] == ["mend it"]
        proxied.run("rename", session, "The\nlogin \x1b[2J")
        assert [row["title"] for row in editor.sessions()] == ["The login"]
        editor.load(session)
        assert told_titles(editor) == ["The login"]
        editor.prompt(session, "another")
        assert [row["title"] for row in editor.sessions()] == ["The login"]
        proxied.run("rename", session, "--clear")
        assert [row["title"] for row in editor.sessions()] == ["mend it"]


def test_the_users_title_replaces_only_the_title_in_the_agents_list(proxied: Proxied) -> None:
    with proxied.start(agent=LISTS) as editor:
        first, other = editor.new_session(), editor.new_session()
        for session in (first, other):
            editor.prompt(session, f"mend {session}")
        raw = raw_list(editor)
        proxied.run("rename", first, 'Mine "too"')
        before = json.dumps(f"mend {first}").encode()
        assert raw.count(before) == 1
        assert raw_list(editor) == raw.replace(before, b'"Mine \\"too\\""')
        proxied.run("delete", other, "--yes")
        [left] = editor.sessions()
        assert (left["sessionId"], left["title"]) == (first, 'Mine "too"')
        proxied.run("rename", first, "--clear")
        assert editor.sessions()[0]["title"] == f"mend {first}"
    with proxied.start(options=("--list", "agent"), agent=LISTS) as editor:
        proxied.run("rename", first, "Mine")
        assert raw_list(editor) == raw


def test_an_archived_session_is_in_no_list_and_can_still_be_loaded(proxied: Proxied) -> None:
    for agent in ((), LISTS):
        with proxied.start(agent=agent) as editor:
            first, other = editor.new_session(), editor.new_session()
            for session in (first, other):
                editor.prompt(session, "mend it")
            before = {row["sessionId"] for row in editor.sessions()}
            proxied.run("archive", first)
            assert {row["sessionId"] for row in editor.sessions()} == before - {first}
            assert first in proxied.run("list", "--archived", "--json")
            editor.load(first)
            editor.prompt(first, "go on")
            assert {row["sessionId"] for row in editor.sessions()} == before - {first}
            proxied.run("unarchive", first)
            assert {row["sessionId"] for row in editor.sessions()} == before


def raw_list(editor: Editor) -> bytes:
    """The agent's line, with a fixed id."""
    number = editor.start_request("session/list", {})
    editor.wait_for_result(number)
    [line] = [line.raw for line in editor.lines if line.message.get("id") == number]
    return line.replace(b'"id":%d' % number, b'"id":0').replace(b'"id": %d' % number, b'"id": 0')


# --- soft deletes


def test_a_delete_by_the_editor_can_be_undone_unless_bin_days_is_0(proxied: Proxied) -> None:
    for options, is_kept in (((), True), (("--bin-days", "0"), False)):
        session = proxied.recorded("mend it")
        with proxied.start(options=options) as editor:
            editor.request("session/delete", {"sessionId": session})
        [kept] = json.loads(proxied.run("restore", "--json")) or [None]
        assert (kept is not None) == is_kept
        if kept is not None:
            assert kept["removedAt"][:10] > kept["deletedAt"][:10]
            proxied.run("restore", session)
            proxied.run("delete", session, "--permanent", "--yes")


def test_a_soft_deleted_session_is_deleted_for_the_editor_until_its_restore(proxied: Proxied) -> None:
    session = proxied.recorded("mend it")
    with proxied.start(options=SOFT) as editor:
        live = texts(editor.load(session).updates)
        for _ in range(2):
            assert editor.request("session/delete", {"sessionId": session}) == {}
        assert editor.sessions() == []
        with pytest.raises(RequestFailed) as refusal:
            editor.request("session/load", editor.place(session))
        assert refusal.value.code == NOT_FOUND
        assert proxied.transcripts() == []
        assert session[:8] in proxied.run("restore")
        proxied.run("restore", session)
        [row] = editor.sessions()
        assert (row["sessionId"], row["title"]) == (session, "mend it")
        assert texts(editor.load(session).updates) == live
        editor.prompt(session, "once more")
        assert editor.end() == 0
    header, *lines = entries(proxied.transcript(session))
    assert header["origin"] == "recorded"
    assert [line for line in lines if line.get("note", {}).get("type") == "gap"] == []
    assert sum(line.get("message", {}).get("method") == "session/prompt" for line in lines) == 2


def test_a_prompt_after_a_soft_delete_begins_a_new_session_beside_the_old_one(proxied: Proxied) -> None:
    with proxied.start(options=SOFT) as editor:
        session = editor.new_session()
        editor.prompt(session, "first words")
        proxied.run("rename", session, "The first")
        editor.request("session/delete", {"sessionId": session})
        editor.prompt(session, "later words")
        [row] = editor.sessions()
        assert (row["title"], row["cwd"]) == ("later words", str(proxied.project))
        proxied.run("restore", session)
        assert [one["title"] for one in editor.sessions()] == ["later words"]
        titles = [row["title"] for row in json.loads(proxied.run("list", "--json"))]
        assert sorted(titles) == ["The first", "later words"]
        editor.prompt(session, "still here")
        assert editor.end() == 0
    origins = {entries(path)[0]["origin"] for path in proxied.transcripts()}
    assert origins == {"recorded", "partial"}
    assert proxied.run("verify") == "No damage found.\n"


def test_a_soft_delete_during_a_turn_leaves_a_gap_after_the_restore(proxied: Proxied) -> None:
    permission = Permission()
    script = {"turns": [[say("before"), ASK, say("granted")]]}
    with proxied.start(script, options=SOFT, on_request=permission) as editor:
        session = editor.new_session()
        number = editor.start_prompt(session, "count")
        editor.wait_for_method("session/request_permission")
        editor.request("session/delete", {"sessionId": session})
        permission.grant()
        editor.wait_for_result(number)
        proxied.run("restore", session)
        assert editor.end() == 0
    gaps = [line["note"] for line in entries(proxied.transcript(session)) if line.get("note", {}).get("type") == "gap"]
    assert [gap["reason"] for gap in gaps] == ["deleted"]


# --- sessions that the agent does not know


def test_a_prompt_that_the_agent_refuses_is_kept_but_in_no_editors_list(proxied: Proxied) -> None:
    unknown = {"code": NOT_FOUND, "message": "Resource not found: session nowhere"}
    script = {"methods": {"session/load": {"error": unknown}}, "turns": [[{"error": unknown}]]}
    with proxied.start(script, agent=("--capabilities", "load")) as editor:
        with pytest.raises(RequestFailed):
            editor.request("session/load", editor.place("nowhere"))
        assert (proxied.transcripts(), proxied.run("list")) == ([], "")
        answer = editor.wait_for_answer(editor.start_prompt("nowhere", "my words"))
        assert "error" in answer
        assert editor.sessions() == []
        assert editor.end() == 0
    with proxied.start(agent=("--capabilities", "load")) as editor:
        assert editor.sessions() == []
        assert proxied.run("list").startswith("nowhere\tmy words\t")
