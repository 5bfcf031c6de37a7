"""Two machines, each with a proxy and an agent of its own: a session begins here, continues there, and comes back."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client import TIMEOUT
from tests.end_to_end.proxied import PROXY, Editor, Proxied, say, texts
from tests.end_to_end.test_handover import remembered

ANSWERS = {"turns": [[say("My answer.")]]}
AGENTS = [("--capabilities", "none"), ("--capabilities", "load"), ("--capabilities", "resume")]


class Synchronized(Proxied):
    """A machine."""

    def sync(self, *words: str) -> str:
        command = [*PROXY, "sync", *words, "--store", str(self.store)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=3 * TIMEOUT)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def prompts(self) -> list[str]:
        """All prompts that this machine's agent got."""
        return [exchange["prompt"] for session in remembered(self) for exchange in session["exchanges"]]


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[list[Synchronized]]:
    places = []
    for name in ("laptop", "desktop"):
        (tmp_path / name).mkdir()
        places.append(Synchronized(tmp_path / name))
    yield places
    for place in places:
        place.close()


def users_words(editor: Editor, session: str) -> list[str]:
    loaded = editor.load(session)
    assert "result" in loaded.answer, loaded.answer
    return [text for text in texts(loaded.updates, "user_message_chunk") if not text.startswith("The record")]


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent[1])
def test_a_session_continues_on_another_machine_and_both_agents_know_all_of_it(
    machines: list[Synchronized], agent: tuple[str, ...]
) -> None:
    laptop, desktop = machines
    shared, key = (laptop.base.parent / "shared").as_uri(), laptop.base.parent / "key"
    options = ("--agent-id", "agent")
    with laptop.started(ANSWERS, agent=agent, options=options) as editor:
        session = editor.new_session()
        editor.prompt(session, "Begin here")
        assert editor.end() == 0
    laptop.sync("init", shared, "--key-file", str(key), "--yes")
    desktop.sync("join", shared, "--key-file", str(key), "--yes")

    with desktop.started(ANSWERS, agent=agent, options=options) as editor:
        [listed] = editor.sessions()
        assert users_words(editor, listed["sessionId"]) == ["Begin here"]
        editor.prompt(listed["sessionId"], "Continue there")
        assert editor.end() == 0
    assert "Begin here" in "".join(desktop.prompts())
    desktop.sync("now")
    laptop.sync("now")

    with laptop.started(ANSWERS, agent=agent, options=options) as editor:
        assert users_words(editor, session) == ["Begin here", "Continue there"]
        editor.prompt(session, "Come back")
        assert editor.end() == 0
    assert "Continue there" in "".join(laptop.prompts())
    laptop.sync("now")
    desktop.sync("now")
    [path] = desktop.transcripts()
    assert [word in path.read_text() for word in ("Begin here", "Continue there", "Come back")] == [True] * 3


def test_a_session_that_is_open_here_gets_its_turns_when_it_is_closed(machines: list[Synchronized]) -> None:
    laptop, desktop = machines
    shared, key = (laptop.base.parent / "shared").as_uri(), laptop.base.parent / "key"
    agent, options = ("--capabilities", "load"), ("--agent-id", "agent")
    with laptop.started(ANSWERS, agent=agent, options=options) as editor:
        session = editor.new_session()
        editor.prompt(session, "Begin here")
        laptop.sync("init", shared, "--key-file", str(key), "--yes")
        desktop.sync("join", shared, "--key-file", str(key), "--yes")
        with desktop.started(ANSWERS, agent=agent, options=options) as there:
            [listed] = there.sessions()
            there.load(listed["sessionId"])
            there.prompt(listed["sessionId"], "Continue there")
            assert there.end() == 0
        desktop.sync("now")
        laptop.sync("now")
        assert json.loads(laptop.sync("status", "--json"))["waiting"] == 1
        assert editor.end() == 0
    laptop.sync("now")
    assert "Continue there" in laptop.transcript(session).read_text()
