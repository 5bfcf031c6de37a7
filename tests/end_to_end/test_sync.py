"""Two machines, each with a proxy and an agent of its own: a session begins here, continues there, and comes back."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_proxy.transcript.handover_record_text import INTRODUCTION, LACKING
from tests import forked
from tests.client import TIMEOUT
from tests.end_to_end.handovers import read_memory
from tests.end_to_end.proxied import PROXY, Editor, Proxied, say, texts
from tests.waiting import wait_until

ANSWERS = {"turns": [[say("My answer.")]]}
AGENTS = [("--capabilities", "none"), ("--capabilities", "load,list"), ("--capabilities", "resume")]


class Synchronized(Proxied):
    """A machine."""

    def sync(self, *words: str) -> str:
        command = [*PROXY, "sync", *words, "--store", str(self.store)]
        result = forked.run(command, text=True, timeout=3 * TIMEOUT)
        assert result.returncode == 0, result.stderr
        return str(result.stdout)

    def let_a_minute_pass(self) -> None:
        """The next round may begin at once."""
        os.utime(self._lock, (0, 0))

    def wait_for_round(self, sent: int) -> None:
        """Wait until a round has begun since then, and this many records have been sent in all."""
        wait_until(lambda: self._lock.stat().st_mtime and json.loads(self.sync("status", "--json"))["sent"] == sent)

    @property
    def _lock(self) -> Path:
        return self.store / "sync" / "lock"

    def prompts(self) -> list[str]:
        """All prompts that this machine's agent got."""
        return [exchange["prompt"] for session in read_memory(self) for exchange in session["exchanges"]]


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
    machines: list[Synchronized], place: str, agent: tuple[str, ...]
) -> None:
    laptop, desktop = machines
    script = ANSWERS | {"sessionIds": "counting" if "load" in agent[1] else "random"}  # both give the id session-1 then
    shared, key = place, laptop.base.parent / "key"
    options = ("--agent-id", "agent")
    with laptop.start(script, agent=agent, options=options) as editor:
        session = editor.new_session()
        editor.prompt(session, "Begin here")
        assert editor.end() == 0
    laptop.sync("init", shared, "--key-file", str(key), "--yes", "--manual")
    desktop.sync("join", shared, "--key-file", str(key), "--yes", "--manual")

    with desktop.start(script, agent=agent, options=options) as editor:
        [listed] = editor.sessions()
        other = editor.new_session()
        editor.prompt(other, "Something else")
        assert users_words(editor, listed["sessionId"]) == ["Begin here"]
        editor.prompt(listed["sessionId"], "Continue there")
        now = {row["sessionId"] for row in editor.sessions()}
        assert now == {listed["sessionId"], other}  # not the agent's new one
        assert editor.end() == 0
    first, second = desktop.prompts()
    assert (first, "> Begin here" in second) == ("Something else", True)
    desktop.sync("now")
    laptop.sync("now")

    with laptop.start(script, agent=agent, options=options) as editor:
        assert users_words(editor, session) == ["Begin here", "Continue there"]
        editor.prompt(session, "Come back")
        assert editor.end() == 0
    *_, last = laptop.prompts()
    assert last.startswith(INTRODUCTION if agent[1] == "none" else LACKING)
    assert "> Continue there" in last
    assert ("Begin here" in last, len(read_memory(laptop))) == ((True, 2) if agent[1] == "none" else (False, 1))

    with laptop.start(script, agent=agent, options=options) as editor:  # it has caught up, so nothing more is told
        assert users_words(editor, session) == ["Begin here", "Continue there", "Come back"]
        if agent[1] != "none":
            editor.prompt(session, "And on")
            assert laptop.prompts()[-1] == "And on"
        assert editor.end() == 0
    laptop.sync("now")
    desktop.sync("now")
    path = desktop.transcript(listed["sessionId"])
    assert [word in path.read_text() for word in ("Begin here", "Continue there", "Come back")] == [True] * 3


def test_a_session_that_is_open_here_gets_its_turns_with_the_next_load(
    machines: list[Synchronized], place: str
) -> None:
    laptop, desktop = machines
    shared, key = place, laptop.base.parent / "key"
    agent, options = ("--capabilities", "load"), ("--agent-id", "agent")
    with laptop.start(ANSWERS, agent=agent, options=options) as editor:
        session = editor.new_session()
        editor.prompt(session, "Begin here")
        laptop.sync("init", shared, "--key-file", str(key), "--yes", "--manual")
        desktop.sync("join", shared, "--key-file", str(key), "--yes", "--manual")
        with desktop.start(ANSWERS, agent=agent, options=options) as there:
            [listed] = there.sessions()
            there.load(listed["sessionId"])
            there.prompt(listed["sessionId"], "Continue there")
            assert there.end() == 0
        desktop.sync("now")
        laptop.sync("now")
        assert json.loads(laptop.sync("status", "--json"))["waiting"] == 1
        assert "Continue there" not in laptop.transcript(session).read_text()
        assert users_words(editor, session) == ["Begin here", "Continue there"]
        editor.prompt(session, "Come back")
        assert editor.end() == 0
    assert "Continue there" in "".join(laptop.prompts())
    laptop.sync("now")
    desktop.sync("now")
    path = desktop.transcript(listed["sessionId"])
    assert [word in path.read_text() for word in ("Begin here", "Continue there", "Come back")] == [True] * 3


def test_a_turn_reaches_the_other_machine_by_itself_also_the_last_before_the_editor_is_closed(
    machines: list[Synchronized],
) -> None:
    laptop, desktop = machines
    shared, key = (laptop.base.parent / "shared").as_uri(), laptop.base.parent / "key"
    agent, options = ("--capabilities", "resume"), ("--agent-id", "agent")
    laptop.sync("init", shared, "--key-file", str(key), "--yes")
    desktop.sync("join", shared, "--key-file", str(key), "--yes")
    for machine in machines:
        machine.let_a_minute_pass()
    with laptop.start(ANSWERS, agent=agent, options=options) as editor:
        session = editor.new_session()
        for sent, words in enumerate(("Begin here", "Continue here"), 1):
            laptop.wait_for_round(sent)  # the first: at the start
            laptop.let_a_minute_pass()
            editor.prompt(session, words)
        assert editor.end() == 0
    laptop.wait_for_round(3)
    (desktop.store / "sync" / "trouble").write_text("the shared place cannot be used")
    with desktop.start(ANSWERS, agent=agent, options=options) as editor:
        wait_until(lambda: "Continue here" in "".join(path.read_text() for path in desktop.transcripts()))
        assert users_words(editor, editor.sessions()[0]["sessionId"]) == ["Begin here", "Continue here"]
        editor.wait_for_stderr("sync failed: the shared place cannot be used")
        assert editor.end() == 0
