"""Drafts of the protocol that acp-proxy serves with `--unstable`, through real processes."""

from typing import Any

import pytest

from tests.client import RequestFailed
from tests.end_to_end.proxied import NOT_FOUND, Editor, Proxied, entries, kinds, say
from tests.end_to_end.typescript import run_typescript

INVALID_PARAMS = -32602
UNSTABLE = ["--unstable"]
DRAFTS = {"title", "archive", "status"}
WITH_LIST = ["--capabilities", "resume,list,load,close"]
TURN: dict[str, Any] = {"turns": [[say("Done.")]]}


def start(proxied: Proxied, script: Any = TURN, agent: list[str] | None = None) -> Editor:
    return proxied.start(script, options=UNSTABLE, agent=agent or [])


def archived_by_id(editor: Editor, **params: Any) -> dict[str, bool]:
    """Whether each listed session is archived."""
    return {row["sessionId"]: row["archived"] for row in editor.sessions(**params)}


def request_refused(editor: Editor, method: str, **params: Any) -> tuple[int, Any]:
    with pytest.raises(RequestFailed) as failed:
        editor.request(method, params)
    return failed.value.code, failed.value.data


@pytest.mark.parametrize("options", [[], ["--no-synthesize", "--unstable"]])
def test_drafts_are_served_only_on_request(proxied: Proxied, options: list[str]) -> None:
    with proxied.editor(options=options) as editor:
        capabilities = editor.initialize()["agentCapabilities"]
        assert DRAFTS.isdisjoint(capabilities["sessionCapabilities"])
        for method in ("session/set_title", "session/archive", "session/unarchive", "session/status"):
            assert request_refused(editor, method, sessionId="s", title="x")[0] == -32601, "the agent has answered"


@pytest.mark.parametrize("agent", [[], WITH_LIST])
def test_a_title_is_in_lists_loads_and_commands_and_survives_the_process(proxied: Proxied, agent: list[str]) -> None:
    with start(proxied, agent=agent) as editor:
        session = editor.new_session()
        editor.prompt(session, "mend it")
        since = editor.count_lines()
        assert editor.request("session/set_title", {"sessionId": session, "title": " My\ntitle "}) == {
            "title": "My title"
        }
        info = {"sessionUpdate": "session_info_update", "title": "My title"}
        editor.wait_for(lambda message: message.get("params", {}).get("update") == info, since=since)
        assert editor.end() == 0
    with start(proxied, agent=agent) as editor:
        [row] = editor.sessions()
        assert (row["sessionId"], row["title"]) == (session, "My title")
        editor.load(session)
        editor.prompt(session, "and more")
        assert {
            update["title"] for update in editor.list_updates(session) if kinds([update]) == ["session_info_update"]
        } <= {"My title"}
        assert editor.end() == 0
    assert "My title" in proxied.run("list")


def test_a_title_given_on_the_command_line_wins_in_a_running_proxy(proxied: Proxied) -> None:
    theirs = {"update": {"sessionUpdate": "session_info_update", "title": "theirs"}}
    with start(proxied, {"turns": [[say("Done."), theirs]]}) as editor:
        session = editor.new_session()
        editor.prompt(session, "mend it")
        proxied.run("rename", session, "mine")
        assert [update["title"] for update in editor.prompt(session, "again") if "title" in update] == ["mine"]


@pytest.mark.parametrize("agent", [[], WITH_LIST])
def test_archived_sessions_are_hidden_shown_and_marked(proxied: Proxied, agent: list[str]) -> None:
    with start(proxied, agent=agent) as editor:
        kept, put_away = editor.new_session(), editor.new_session()
        for session in (kept, put_away):
            editor.prompt(session, "mend it")
        assert editor.request("session/archive", {"sessionId": put_away}) == {}
        assert archived_by_id(editor) == archived_by_id(editor, archived="exclude") == {kept: False}
        assert archived_by_id(editor, archived="only") == {put_away: True}
        assert archived_by_id(editor, archived="include") == {kept: False, put_away: True}
        assert request_refused(editor, "session/list", archived="some")[0] == INVALID_PARAMS
        assert put_away not in proxied.run("list", "--json")
        assert put_away in proxied.run("list", "--archived", "--json")
        assert editor.end() == 0
    with start(proxied, agent=agent) as editor:
        assert archived_by_id(editor) == {kept: False}
        assert editor.request("session/unarchive", {"sessionId": put_away}) == {}
        assert archived_by_id(editor) == {kept: False, put_away: False}
        assert editor.end() == 0
    proxied.run("verify")


def test_an_open_session_is_cancelled_and_closed_before_it_is_archived(proxied: Proxied) -> None:
    script = {
        "turns": [[{"wait_cancel": True}]],
        "methods": {"session/close": {"before": [{"stderr": "heard close of {session}"}]}},
    }
    with start(proxied, script, ["--capabilities", "resume,list,close"]) as editor:
        session = editor.new_session()
        number = editor.start_prompt(session, "mend it")
        assert editor.request("session/archive", {"sessionId": session}) == {}
        assert editor.wait_for_result(number) == {"stopReason": "cancelled"}
        assert editor.request("session/status", {"sessionId": session}) == {"status": "saved"}
        assert archived_by_id(editor, archived="only") == {session: True}
        assert editor.end() == 0
        assert f"heard close of {session}" in editor.read_stderr()
    assert [entry["note"]["type"] for entry in entries(proxied.transcript(session)) if "note" in entry] == [
        "opened",
        "closed",
    ]


def test_a_session_of_the_agents_list_that_was_not_recorded_can_have_a_title_and_be_archived(proxied: Proxied) -> None:
    with Editor(proxied.bare_agent(TURN, WITH_LIST)) as editor:
        editor.project = proxied.project
        session = editor.open()
        editor.prompt(session, "mend it")
        assert editor.end() == 0
    with start(proxied, agent=WITH_LIST) as editor:
        assert request_refused(editor, "session/archive", sessionId=session)[0] == NOT_FOUND
        assert archived_by_id(editor) == {session: False}
        editor.request("session/set_title", {"sessionId": session, "title": "mine"})
        editor.request("session/archive", {"sessionId": session})
        assert editor.request("session/status", {"sessionId": session}) == {"status": "saved"}
        [row] = editor.sessions(archived="only")
        assert (row["sessionId"], row["title"], row["archived"]) == (session, "mine", True)
        assert archived_by_id(editor) == {}
        assert editor.end() == 0
    proxied.run("verify")


def test_the_typescript_client_uses_every_draft(proxied: Proxied) -> None:
    report = run_typescript("drafts.mjs", str(proxied.project), "--", *proxied.command(TURN, options=UNSTABLE))
    assert report["malformed"] == []
    assert report["initialized"]["agentCapabilities"]["sessionCapabilities"].keys() >= DRAFTS
    first, second = report["sessions"]
    mine, other = {"title": "My title"}, {"title": "the second"}
    assert report["titled"] == mine
    assert (report["open"], report["saved"]) == ("open", "saved")
    assert report["lists"] == {
        "exclude": {first: mine | {"archived": False}},
        "include": {first: mine | {"archived": False}, second: other | {"archived": True}},
        "only": {second: other | {"archived": True}},
        "later": {first: mine | {"archived": False}, second: other | {"archived": False}},
    }
    unknown = {"code": NOT_FOUND, "data": {"sessionId": "unknown"}}
    assert {name: report["refused"][name] for name in ("title", "archive", "unarchive", "status")} == dict.fromkeys(
        ("title", "archive", "unarchive", "status"), unknown
    )
    assert (report["refused"]["empty"]["code"], report["refused"]["filter"]["code"]) == (INVALID_PARAMS,) * 2
    assert report["status"] == 0
