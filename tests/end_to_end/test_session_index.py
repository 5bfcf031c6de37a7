"""An agent's own index of its sessions, as JetBrains' editors use it, through real processes."""

from typing import Any

from tests import forked
from tests.end_to_end.proxied import PROXY, Editor, Proxied, say

AIR = {"_meta": {"jetbrains": {"air": {"version": 1, "capabilities": ["sessionIndex"]}}}}
PARTS = ["sessionIndex", "sessionRename", "sessionArchive", "sessionBatchGet", "sessionListSubscribe"]


def scripted(*sessions: str) -> dict[str, Any]:
    """An agent with an index of these sessions, whose own titles and archive states never change."""
    air = {"version": 1, "capabilities": PARTS}
    rows = [{"sessionId": each, "cwd": "/w", "title": "The agent's"} for each in sessions]
    done: dict[str, Any] = {
        name: {"result": {}} for name in ("_session/rename", "_session/archive", "_session/unarchive")
    }
    return {
        "initialize": {"result": {"_meta": {"jetbrains": {"air": air}}}},
        "methods": {**done, "_session/batch_get": {"result": {"sessions": rows}}},
        "turns": [[say("Done.")]],
    }


def started(proxied: Proxied, *sessions: str) -> Editor:
    editor = proxied.editor(scripted(*sessions))
    editor.initialize(clientCapabilities=AIR)
    return editor


def command(proxied: Proxied, *words: str) -> str:
    """What a command of ours prints for this store."""
    words = (*PROXY, "sessions", *words, "--store", str(proxied.store))
    return str(forked.run(words, text=True, check=True).stdout)


def looked_up(editor: Editor) -> dict[str, tuple[str, bool]]:
    """The title of each session that the index shows, and whether it is archived."""
    rows = editor.request("_session/batch_get", {"sessionIds": ["any"]})["sessions"]
    return {each["sessionId"]: (each["title"], "_meta" in each) for each in rows}


def test_what_the_editor_changes_in_the_agents_index_is_known_to_our_commands(proxied: Proxied) -> None:
    with started(proxied) as editor:
        session = editor.new_session()
        editor.prompt(session, "mend it")
        assert editor.request("_session/rename", {"sessionId": session, "title": "The login"}) == {}
        assert "The login" in command(proxied, "list")
        assert editor.request("_session/archive", {"sessionId": session}) == {}
        assert session not in command(proxied, "list")
        assert session in command(proxied, "list", "--archived")
        assert editor.request("_session/unarchive", {"sessionId": session}) == {}
        assert session in command(proxied, "list")
        assert editor.end() == 0


def test_what_our_commands_change_holds_in_the_agents_index(proxied: Proxied) -> None:
    with started(proxied) as editor:
        one, two = editor.new_session(), editor.new_session()
        for session in (one, two):
            editor.prompt(session, "mend it")
        assert editor.end() == 0
    with started(proxied, one, two) as editor:
        assert looked_up(editor) == {one: ("The agent's", False), two: ("The agent's", False)}
        command(proxied, "rename", one, "Mine")
        command(proxied, "archive", one)
        command(proxied, "delete", two, "--yes")
        assert looked_up(editor) == {one: ("Mine", True)}
        editor.request("_session/rename", {"sessionId": one, "title": "The editor's"})
        editor.request("_session/unarchive", {"sessionId": one})
        assert looked_up(editor) == {one: ("The agent's", False)}, "the agent has the title itself, and may change it"
        assert "The editor's" in command(proxied, "list")
        assert editor.end() == 0
