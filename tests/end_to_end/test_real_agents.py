"""Real agents behind the proxy, offline: what they gain, and that everything else passes byte for byte.

They lie in ``shared/agents`` beside the checkout, with a stand-in for their model; without them the tests are skipped.
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts.real_agents import AGENTS, PATIENCE, environment, launched
from tests.client import TIMEOUT
from tests.end_to_end.proxied import PROXY, Editor, Proxied

PROMPT = "please use a TOOL, and THINK"


class RealEditor(Editor):
    """An editor that keeps its own lines, and those of the agent behind the tap."""

    def __init__(self, command: list[str], log: Path, env: dict[str, str]) -> None:
        self.sent: list[bytes] = []
        self._log = log
        super().__init__(command, env=env)

    def send_bytes(self, data: bytes) -> None:
        self.sent.append(data)
        super().send_bytes(data)

    def wait_for_answer(self, request_id: int, timeout: float = TIMEOUT) -> dict[str, Any]:
        return super().wait_for_answer(request_id, max(timeout, PATIENCE))

    def announced_title(self, title: str) -> bytes:
        return self.wait_for(lambda message: message.get("params", {}).get("update", {}).get("title") == title).raw

    def received(self) -> list[bytes]:
        return [line.raw for line in self.lines]

    def beyond(self, peer: str) -> list[bytes]:
        """The lines of one peer between proxy and agent; both have ended."""
        noted = [json.loads(line) for line in self._log.read_text().splitlines()]
        lines = [note["line"] + ("" if note.get("torn") else "\n") for note in noted if note.get("from") == peer]
        return [line.encode("utf-8", "surrogateescape") for line in lines]


Start = Callable[[str], RealEditor]


@pytest.fixture
def start(proxied: Proxied, stand_in_model: int, need_agent: Callable[[str], None]) -> Iterator[Start]:
    """Start an agent by name with its earlier memory."""
    editors: list[RealEditor] = []

    def start_agent(name: str) -> RealEditor:
        need_agent(name)
        log = proxied.base / f"tap-{len(editors)}.jsonl"
        tapped = [sys.executable, str(AGENTS / "drivers" / "tap.py"), str(log)]
        # Interpreters of real agents take seconds to end on a busy machine.
        command = [*PROXY, "run", "--store", str(proxied.store), "--grace", "60", "--", *tapped, *launched(name)]
        editor = RealEditor(command, log, environment(stand_in_model, proxied.base / "state"))
        editor.project = proxied.project
        editors.append(editor)
        return editor

    yield start_agent
    for editor in editors:
        editor.close()


def without_additions(line: bytes, *added: str) -> str:
    """An answer to `initialize` without what the proxy adds, as text with its keys in order."""
    message = json.loads(line)
    capabilities = message["result"]["agentCapabilities"]
    assert capabilities["_meta"].pop("acp-proxy")["serves"] == list(added)
    for name in added:
        if name == "load":
            assert capabilities["loadSession"] is True
            capabilities["loadSession"] = False
        else:
            assert capabilities["sessionCapabilities"].pop(name) == {}
    for holder in ("_meta", "sessionCapabilities"):
        if not capabilities[holder]:  # it was absent before
            del capabilities[holder]
    return json.dumps(message)


def sort_keys(line: bytes) -> str:
    return json.dumps(json.loads(line))


def test_an_agent_without_list_and_load_gains_list_load_and_delete(proxied: Proxied, start: Start) -> None:
    with start("deepagents") as editor:
        session = editor.open()
        assert editor.prompt(session, PROMPT)
        number = editor.start_request("session/list", {"cwd": str(proxied.project)})
        [found] = editor.wait_for_result(number)["sessions"]
        assert (found["sessionId"], found["title"]) == (session, PROMPT)
        assert found["_meta"] == {"messageCount": 2, "hasErrors": False}
        ours = {editor.lines[editor.find_answer(number)].raw, editor.announced_title(PROMPT)}
        assert editor.end() == 0
        received, said = editor.received(), editor.beyond("agent")
    assert without_additions(received[0], "list", "delete", "load") == sort_keys(said[0])
    assert [line for line in received[1:] if line not in ours] == said[1:]

    with start("deepagents") as editor:
        editor.initialize()
        assert [row["sessionId"] for row in editor.sessions()] == [session]
        assert editor.request("session/delete", {"sessionId": session}) == {}
        assert editor.sessions() == []
        assert editor.end() == 0
    assert proxied.transcripts() == []


def test_an_agent_that_lacks_only_delete_gains_only_delete(proxied: Proxied, start: Start) -> None:
    with start("opencode") as editor:
        session = editor.open()
        assert editor.prompt(session, PROMPT)
        other = editor.new_session()
        editor.prompt(other, "hello")
        assert {row["sessionId"] for row in editor.sessions()} >= {session, other}
        assert editor.end() == 0
        assert without_additions(editor.lines[0].raw, "delete") == sort_keys(editor.beyond("agent")[0])
        assert editor.received()[1:] == editor.beyond("agent")[1:]
        assert editor.sent == editor.beyond("client")

    with start("opencode") as editor:
        editor.initialize()
        loaded = editor.load(session)
        assert loaded.updates
        before = editor.request("session/list", {})
        marked, sent = editor.count_lines(), len(editor.sent)
        assert editor.request("session/delete", {"sessionId": session}) == {}
        after = editor.request("session/list", {})
        again = editor.load(session)
        assert again.answer["error"]["code"] == -32002
        assert editor.end() == 0
        assert editor.received()[1:marked] == editor.beyond("agent")[1:marked]
        assert editor.sent[:sent] == editor.beyond("client")[:sent]
        native = [json.loads(line) for line in editor.beyond("agent")[marked:]]
    assert session in [row["sessionId"] for row in before["sessions"]]
    assert after == {**before, "sessions": [row for row in before["sessions"] if row["sessionId"] != session]}
    assert [one["result"] for one in native if "result" in one] == [before]  # the agent still has it
