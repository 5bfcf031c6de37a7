"""Agents with the same launcher do not share sessions, and an upgraded agent keeps its own."""

import sys
from collections.abc import Sequence

from tests.end_to_end.proxied import PROXY, Editor, Proxied, texts


def editor(proxied: Proxied, *command: str, agent: Sequence[str]) -> Editor:
    """An editor whose agent is started by this command."""
    words = [*PROXY, "run", "--store", str(proxied.store), "--", *command, *proxied.bare_agent(agent=agent)]
    editor = Editor(words)
    editor.project = proxied.project
    return editor


def test_two_agents_of_one_launcher_do_not_share_sessions(proxied: Proxied) -> None:
    launch = proxied.base / "launch.py"
    launch.write_text("import subprocess, sys\nsys.exit(subprocess.run(sys.argv[2:]).returncode)\n")
    through = (sys.executable, str(launch))
    with editor(proxied, *through, "first", agent=("--no-info", "--capabilities", "none")) as first:
        session = first.open()
        first.prompt(session, "a secret")
        assert first.end() == 0
    with editor(proxied, *through, "other", agent=("--name", "other", "--capabilities", "none")) as other:
        other.initialize()
        assert other.sessions() == []
        assert "error" in other.load(session).answer
        assert other.end() == 0
    with editor(proxied, *through, "first", agent=("--no-info", "--capabilities", "none")) as first:
        first.initialize()
        assert [row["sessionId"] for row in first.sessions()] == [session]


def test_an_agent_that_sends_an_update_before_its_name_has_the_sessions_of_that_name(proxied: Proxied) -> None:
    agent = ("--name", "bob", "--capabilities", "none")
    with proxied.editor(agent=agent) as before:
        session = before.open()
        before.prompt(session, "hello")
        assert before.end() == 0
    early = {"update": {"sessionUpdate": "available_commands_update", "availableCommands": []}, "session": "early"}
    with proxied.editor({"initialize": {"steps": [early]}}, agent=agent) as after:
        new_session = after.open()
        after.prompt(new_session, "hello again")
        assert sorted(after.list_ids()) == sorted([session, new_session])
        assert "hello" in texts(after.load(session).updates, "user_message_chunk")
        assert after.end() == 0
    folder = proxied.transcript(session).parent
    assert proxied.transcript(new_session).parent == proxied.transcript("early").parent == folder


def test_an_agent_that_starts_to_send_its_name_keeps_its_sessions(proxied: Proxied) -> None:
    with editor(proxied, agent=("--no-info", "--capabilities", "none")) as before:
        session = before.open()
        before.prompt(session, "hello")
        assert before.end() == 0
    with editor(proxied, agent=("--name", "@scope/tests.scripted.agent", "--capabilities", "none")) as after:
        after.initialize()
        assert [row["sessionId"] for row in after.sessions()] == [session]
