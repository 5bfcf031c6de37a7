"""The demo's agent, which can only resume."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from acp_proxy.tools.demo import sample
from acp_proxy.tools.demo.agent import make_edit
from acp_proxy.tools.demo.client import Client
from acp_proxy.tools.demo.display import list_items
from tests.client import code_of, prompt_params

Start = Callable[[], Client]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start agents that share one memory."""
    clients: list[Client] = []

    def start_agent() -> Client:
        command = [sys.executable, "-m", "acp_proxy.tools.demo.agent", "--memory", str(tmp_path / "memory")]
        clients.append(Client(command))
        return clients[-1]

    yield start_agent
    for client in clients:
        client.close()


def place(cwd: Path, **more: Any) -> dict[str, Any]:
    return {"cwd": str(cwd), "mcpServers": [], **more}


def test_the_agent_offers_only_resume(start: Start, tmp_path: Path) -> None:
    client = start()
    result = client.request("initialize", {"protocolVersion": 1})
    assert result["agentInfo"]["name"] == "demo-agent"
    assert result["agentCapabilities"]["loadSession"] is False
    assert result["agentCapabilities"]["sessionCapabilities"] == {"resume": {}}
    for method in ("list", "load", "delete", "close", "fork"):
        assert code_of(client, f"session/{method}", place(tmp_path)) == -32601


def test_a_turn_has_updates_of_every_kind_and_quotes_the_prompt(start: Start, tmp_path: Path) -> None:
    client = start()
    session = client.request("session/new", place(tmp_path))["sessionId"]
    assert client.request("session/prompt", prompt_params(session, "a note on {n} otters")) == {
        "stopReason": "end_turn"
    }
    updates = client.list_updates(session)
    assert (updates[0]["sessionUpdate"], updates[-1]["sessionUpdate"]) == ("available_commands_update", "usage_update")
    items = list_items(updates)
    assert [each.kind for each in items] == ["thought", "plan", "tool call", "image", "agent"]
    assert "a note on {n} otters" in items[-1].text


def test_a_new_process_remembers_a_session(start: Start, tmp_path: Path) -> None:
    first = start()
    session = first.request("session/new", place(tmp_path))["sessionId"]
    first.request("session/prompt", prompt_params(session, "the first words"))
    first.close_stdin()
    assert first.wait() == 0
    second = start()
    second.request("session/resume", place(tmp_path, sessionId=session))
    second.request("session/prompt", prompt_params(session, "more"))
    assert (
        "I remember 1 earlier prompt; the first was: the first words"
        in list_items(second.list_updates(session))[-1].text
    )


def test_unknown_sessions_and_invalid_params_are_refused(start: Start, tmp_path: Path) -> None:
    client = start()
    assert code_of(client, "session/resume", place(tmp_path, sessionId="../x")) == -32002
    assert code_of(client, "session/prompt", prompt_params("nobody", "hello")) == -32002
    assert code_of(client, "session/new", {}) == -32602


def test_an_edit_is_made_only_where_the_file_is_as_it_expects(tmp_path: Path) -> None:
    path = tmp_path / "login.py"
    diff = {"type": "diff", "path": str(path), "oldText": None, "newText": "one\n"}
    make_edit(diff)
    assert path.read_bytes() == b"one\n"
    make_edit(diff | {"newText": "not new any more\n"})
    make_edit(diff | {"oldText": "another\n", "newText": "two\n"})
    assert path.read_bytes() == b"one\n"
    make_edit(diff | {"oldText": "one\n", "newText": "two\n"})
    assert path.read_bytes() == b"two\n"


def test_each_turn_of_the_sample_begins_with_what_the_one_before_it_left(tmp_path: Path) -> None:
    for project, _, prompts in sample.CONVERSATIONS:
        texts = {f"{{cwd}}/{name}": text for name, text in sample.FILES[project].items()}
        for prompt_text in prompts:
            updates = [step["update"] for step in sample.TURNS[prompt_text] if "update" in step]
            parts = [part for update in updates for part in update.get("content", []) if "newText" in part]
            for part in parts:
                assert texts.get(part["path"]) == part["oldText"]
                texts[part["path"]] = part["newText"]
