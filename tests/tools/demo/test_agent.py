"""The demo's agent, which can only resume."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from acp_proxy.tools.demo.client import Client, RequestFailed
from acp_proxy.tools.demo.display import list_items

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


def prompt(session: str, text: str) -> dict[str, Any]:
    return {"sessionId": session, "prompt": [{"type": "text", "text": text}]}


def code_of(client: Client, method: str, params: Any) -> Any:
    with pytest.raises(RequestFailed) as refusal:
        client.request(method, params)
    return refusal.value.code


def test_the_agent_offers_only_resume(start: Start, tmp_path: Path) -> None:
    client = start()
    result = client.request("initialize", {"protocolVersion": 1})
    assert result["agentInfo"]["name"] == "acp-proxy-demo-agent"
    assert result["agentCapabilities"]["loadSession"] is False
    assert result["agentCapabilities"]["sessionCapabilities"] == {"resume": {}}
    for method in ("list", "load", "delete", "close", "fork"):
        assert code_of(client, f"session/{method}", place(tmp_path)) == -32601


def test_a_turn_has_updates_of_every_kind_and_quotes_the_prompt(start: Start, tmp_path: Path) -> None:
    client = start()
    session = client.request("session/new", place(tmp_path))["sessionId"]
    assert client.request("session/prompt", prompt(session, "a note on {n} otters")) == {"stopReason": "end_turn"}
    updates = client.list_updates(session)
    assert (updates[0]["sessionUpdate"], updates[-1]["sessionUpdate"]) == ("available_commands_update", "usage_update")
    told = list_items(updates)
    assert [each.kind for each in told] == ["thought", "plan", "tool call", "tool call", "plan", "image", "agent"]
    assert "a note on {n} otters" in told[-1].text
    assert {entry["status"] for entry in told[4].about["entries"]} == {"completed"}


def test_a_new_process_remembers_a_session(start: Start, tmp_path: Path) -> None:
    first = start()
    session = first.request("session/new", place(tmp_path))["sessionId"]
    first.request("session/prompt", prompt(session, "the first words"))
    first.close_stdin()
    assert first.wait() == 0
    second = start()
    second.request("session/resume", place(tmp_path, sessionId=session))
    second.request("session/prompt", prompt(session, "more"))
    assert (
        "I remember 1 earlier prompt; the first was: the first words"
        in list_items(second.list_updates(session))[-1].text
    )


def test_unknown_sessions_and_invalid_params_are_refused(start: Start, tmp_path: Path) -> None:
    client = start()
    assert code_of(client, "session/resume", place(tmp_path, sessionId="../x")) == -32002
    assert code_of(client, "session/prompt", prompt("nobody", "hello")) == -32002
    assert code_of(client, "session/new", {}) == -32602
