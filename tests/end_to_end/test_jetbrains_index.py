"""An agent's own index of its sessions, as JetBrains' editors use it, through real processes."""

from typing import Any

from acp_proxy.protocol import proxy_ids
from acp_proxy.transcript.titles import HANDOVER_RECORD_BEGINNINGS
from tests.end_to_end.handovers import LISTS, continued
from tests.end_to_end.proxied import Editor, Proxied, say

AIR = {"_meta": {"jetbrains": {"air": {"version": 1, "capabilities": ["sessionIndex"]}}}}
PARTS = ["sessionIndex", "sessionRename", "sessionArchive", "sessionBatchGet", "sessionListSubscribe"]


def scripted(*sessions: str) -> dict[str, Any]:
    """An agent with an index of these sessions, whose own titles and archive states never change."""
    air = {"version": 1, "capabilities": PARTS}
    rows = [{"sessionId": session, "cwd": "/w", "title": "The agent's"} for session in sessions]
    done: dict[str, Any] = {
        name: {"result": {}} for name in ("_session/rename", "_session/archive", "_session/unarchive")
    }
    return {
        "initialize": {"result": {"_meta": {"jetbrains": {"air": air}}}},
        "methods": {**done, "_session/batch_get": {"result": {"sessions": rows}}},
        "turns": [[say("Done.")]],
    }


def start(proxied: Proxied, *sessions: str) -> Editor:
    editor = proxied.editor(scripted(*sessions))
    editor.initialize(clientCapabilities=AIR)
    return editor


def looked_up(editor: Editor) -> dict[str, tuple[str, bool]]:
    """The title of each session that the index shows, and whether it is archived."""
    rows = editor.request("_session/batch_get", {"sessionIds": ["any"]})["sessions"]
    return {row["sessionId"]: (row["title"], "_meta" in row) for row in rows}


def test_what_the_editor_changes_in_the_agents_index_is_known_to_our_commands(proxied: Proxied) -> None:
    with start(proxied) as editor:
        session = editor.new_session()
        editor.prompt(session, "mend it")
        assert editor.request("_session/rename", {"sessionId": session, "title": "The login"}) == {}
        assert "The login" in proxied.run("list")
        assert editor.request("_session/archive", {"sessionId": session}) == {}
        assert session not in proxied.run("list")
        assert session in proxied.run("list", "--archived")
        assert editor.request("_session/unarchive", {"sessionId": session}) == {}
        assert session in proxied.run("list")
        assert editor.end() == 0


def test_what_our_commands_change_holds_in_the_agents_index(proxied: Proxied) -> None:
    with start(proxied) as editor:
        one, two = editor.new_session(), editor.new_session()
        for session in (one, two):
            editor.prompt(session, "mend it")
        assert editor.end() == 0
    with start(proxied, one, two) as editor:
        assert looked_up(editor) == {one: ("The agent's", False), two: ("The agent's", False)}
        proxied.run("rename", one, "Mine")
        proxied.run("archive", one)
        proxied.run("delete", two, "--yes")
        assert looked_up(editor) == {one: ("Mine", True)}
        editor.request("_session/rename", {"sessionId": one, "title": "The editor's"})
        editor.request("_session/unarchive", {"sessionId": one})
        assert looked_up(editor) == {one: ("The agent's", False)}, "the agent has the title itself, and may change it"
        assert "The editor's" in proxied.run("list")
        assert editor.end() == 0


def test_a_handed_over_session_has_one_row_in_the_index(proxied: Proxied) -> None:
    session, new, _ = continued(proxied)
    rows = [{"sessionId": each, "cwd": "/w", "title": "The agent's"} for each in (session, new)]
    changed = {"subscriptionId": "x", "sessions": rows, "removed": [session, "other", new]}
    script = scripted(session, new)
    script["turns"] = [[{"notify": "_session/list/changes", "params": changed}, say("Done.")]]
    proxied.run("rename", session, "Mine")
    proxied.run("archive", session)
    with proxied.editor(script, agent=LISTS) as editor:
        editor.initialize(clientCapabilities=AIR)
        for wanted, shown in (([session], session), ([session, new], session), ([new], new)):
            found = editor.request("_session/batch_get", {"sessionIds": wanted})["sessions"]
            assert [(row["sessionId"], row["title"]) for row in found] == [(shown, "Mine")]
            assert found[0]["_meta"]["jetbrains"]["air"]["archived"] is True
        editor.prompt(editor.new_session(), "hello")
        [told] = [
            message["params"] for message in editor.messages() if message.get("method") == "_session/list/changes"
        ]
        assert [(row["sessionId"], row["title"]) for row in told["sessions"]] == [(session, "Mine")]
        assert told["removed"] == ["other"], "the session continues"
        assert editor.end() == 0


def test_the_index_has_rows_that_the_client_asked_for_and_only_acp_proxy_has(proxied: Proxied) -> None:
    session, new, _ = continued(proxied)
    with proxied.editor(scripted(), agent=LISTS) as editor:
        editor.initialize(clientCapabilities=AIR)
        for wanted in ([session], [new]):
            found = editor.request("_session/batch_get", {"sessionIds": [*wanted, "unknown"]})["sessions"]
            assert [(row["sessionId"], row["title"]) for row in found] == [(wanted[0], "mend it")]
        editor.request("session/delete", {"sessionId": session})
        assert editor.request("_session/batch_get", {"sessionIds": [session, new]})["sessions"] == []
        assert editor.end() == 0


def test_the_index_has_rows_of_other_agents_sessions(proxied: Proxied) -> None:
    about = {"agentInfo": {"name": "another", "version": "1"}}
    with proxied.start({"initialize": {"result": about}, "turns": [[say("Done.")]]}) as editor:
        session = editor.new_session()
        editor.prompt(session, "mend it")
        assert editor.end() == 0
    row = proxy_ids.make_other_agents_id(proxied.transcript(session).parent.name, session)
    with proxied.editor(scripted(), agent=LISTS, options=["--also-list", "all"]) as editor:
        editor.initialize(clientCapabilities=AIR)
        assert row in [each["sessionId"] for each in editor.sessions()]
        found = editor.request("_session/batch_get", {"sessionIds": [row]})["sessions"]
        assert [each["sessionId"] for each in found] == [row]
        assert editor.end() == 0


def test_a_title_that_the_agents_session_before_a_handover_got_is_that_of_the_new_one(proxied: Proxied) -> None:
    session, new, _ = continued(proxied)
    script = scripted(new)
    script["methods"]["_session/batch_get"]["result"]["sessions"][0]["title"] = HANDOVER_RECORD_BEGINNINGS[0]
    with proxied.editor(script, agent=LISTS) as editor:
        editor.initialize(clientCapabilities=AIR)
        editor.request("_session/rename", {"sessionId": session, "title": "Mine"})
        for wanted in (session, new):
            found = editor.request("_session/batch_get", {"sessionIds": [wanted]})["sessions"]
            assert [(row["sessionId"], row["title"]) for row in found] == [(wanted, "Mine")]
        assert editor.end() == 0
