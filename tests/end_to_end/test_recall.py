"""`run --recall`: the agent gets a server with which it finds what was said to other agents."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scripts.real_agents import Bench
from tests import agents
from tests.client import Client
from tests.end_to_end.proxied import PROXY, Proxied
from tests.stored import WholeStore, chunk, store_session
from tests.tools.recall.asking import ask_server, texts

ABLE: dict[str, Any] = {"loadSession": True, "sessionCapabilities": {"resume": {}, "fork": {}}}
OPENED = {"result": {"sessionId": "s"}}
ANSWERS = {"initialize": agents.offer_capabilities(**ABLE)} | {
    f"session/{name}": OPENED for name in ("new", "load", "resume", "fork")
}
USERS = {"name": "mine", "command": "/mine", "args": [], "env": []}
SAID = "Remember the demo: the heron lands at noon."
ATTEMPTS = 3
"""Sessions in which a real agent may start its servers: on a busy machine the first one may be too late for it."""


def list_opened_servers(proxied: Proxied, *options: str, env: dict[str, str] | None = None) -> tuple[list[Any], bytes]:
    """The servers that an agent gets with each request that opens a session, and the proxy's stderr."""
    notes = proxied.base / "notes.jsonl"
    command = [*PROXY, "run", "--store", str(proxied.store), *options, "--", *agents.answering_agent(notes, ANSWERS)]
    place = {"cwd": str(proxied.project), "mcpServers": [USERS]}
    with Client(command, env=os.environ | (env or {})) as editor:
        editor.request("initialize", {"protocolVersion": 1})
        for name in ("new", "load", "resume", "fork"):
            editor.request(f"session/{name}", place | ({} if name == "new" else {"sessionId": "s"}))
        editor.close_stdin()
        editor.wait()
    said = b"".join(editor._stderr)
    return [
        request["params"]["mcpServers"] for request in agents.read_requests(notes) if request["method"] != "initialize"
    ], said


def without_mcp(folder: Path) -> dict[str, str]:
    """Variables for a Python in which the package is missing."""
    (folder / "sitecustomize.py").write_text("import sys\nsys.modules['mcp'] = None\n")
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(paths)}


def test_the_agent_gets_a_server_that_finds_what_was_said_to_another_agent(proxied: Proxied) -> None:
    store_session(WholeStore(proxied.store), "old", (SAID, [chunk("I will.")]), agent="other", cwd=str(proxied.project))
    given, said = list_opened_servers(proxied, "--recall")
    assert said == b""
    assert [servers[:-1] for servers in given] == [[USERS]] * 4
    [server] = {str(servers[-1]): servers[-1] for servers in given}.values()
    assert (server["name"], server["env"]) == ("acp-proxy", [])
    for module in ("acp_proxy", "mcp"):  # the agent may start the server in a repository with such files
        (proxied.project / f"{module}.py").write_text("raise SystemExit(1)\n")
    _, results = ask_server(
        ("search_history", {"query": "heron"}), command=[server["command"], *server["args"]], cwd=proxied.project
    )
    [found] = texts(results)
    assert "Session other/old ·" in found
    assert f"> {SAID}" in found


def test_without_the_option_the_agent_gets_the_users_servers(proxied: Proxied) -> None:
    assert list_opened_servers(proxied) == ([[USERS]] * 4, b"")


def test_without_a_record_the_agent_gets_the_users_servers(proxied: Proxied) -> None:
    assert list_opened_servers(proxied, "--recall", "--no-record") == ([[USERS]] * 4, b"")


def test_without_the_package_one_line_on_stderr_says_what_to_install(proxied: Proxied) -> None:
    given, said = list_opened_servers(proxied, "--recall", env=without_mcp(proxied.base))
    assert given == [[USERS]] * 4
    assert said.count(b"\n") == 1
    assert re.search(rb"\[mcp[],]", said)  # with the extras that are there


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, stand_in_model: int, need_agent: Callable[[str], None]) -> Bench:
    """Where a real agent was told something."""
    need_agent("deepagents")
    bench = Bench(tmp_path_factory.mktemp("deepagents"), "deepagents", stand_in_model)
    bench.talk([SAID])
    return bench


@pytest.mark.parametrize(("name", "tool"), [("opencode", "acp-proxy_search_history"), ("openhands", "search_history")])
def test_a_real_agent_finds_what_was_said_to_another_one(
    tmp_path: Path, told: Bench, stand_in_model: int, need_agent: Callable[[str], None], name: str, tool: str
) -> None:
    need_agent(name)
    asking = Bench(tmp_path / name, name, stand_in_model, ["--store", str(told.store), "--recall"])
    asking.project = told.project
    talks = (asking.talk([f"please use TOOL={tool} now"]) for _ in range(ATTEMPTS))
    assert any(SAID in results(talk.messages) for talk in talks)


def results(messages: list[Any]) -> str:
    """What the agent's tool calls returned."""
    updates = [message.get("params", {}).get("update", {}) for message in messages]
    return str([update for update in updates if update.get("sessionUpdate") == "tool_call_update"])
