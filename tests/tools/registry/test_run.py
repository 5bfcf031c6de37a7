"""``run`` with an agent that the registry names."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_proxy.tools.registry.agents import find_platform
from tests import forked
from tests.tools.registry.server import Server, make_tar, serve
from tests.waiting import SECONDS

PROGRAM = """\
#!/bin/sh
read line
format='{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentInfo":{"name":"%s","version":"%s"}}}'
printf "$format\\n" "$MODE" "$1"
"""
INITIALIZE = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the agent is a shell script")


@pytest.fixture
def server() -> Iterator[Server]:
    with serve() as found:
        yield found


def agent(server: Server) -> dict[str, object]:
    target = {"archive": f"{server.url}/a.tgz", "cmd": "./agent", "args": ["acp"], "env": {"MODE": "from-registry"}}
    return {"id": "tiny", "name": "Tiny", "version": "1.0.0", "distribution": {"binary": {find_platform(): target}}}


def run(home: Path, *words: str, by: str = "run", **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("ACP_PROXY_", "XDG_"))}
    return forked.run(
        [sys.executable, "-m", "acp_proxy", by, *words],
        given=INITIALIZE,
        text=True,
        timeout=SECONDS,
        env=environment | {"HOME": str(home)} | variables,
        check=False,
    )


def test_an_id_starts_the_agent_and_a_second_start_needs_no_network(server: Server, tmp_path: Path) -> None:
    server.answers["/a.tgz"] = make_tar({"agent": PROGRAM.encode()})
    url = server.serve_agents(agent(server))
    for _ in range(2):
        result = run(tmp_path, "--registry", url, "tiny")
        answer = json.loads(result.stdout)
        assert answer["result"]["agentInfo"] == {"name": "from-registry", "version": "acp"}
    assert server.asked == ["/registry.json", "/a.tgz"]


def test_a_variable_of_the_user_wins_over_that_of_the_registry(server: Server, tmp_path: Path) -> None:
    server.answers["/a.tgz"] = make_tar({"agent": PROGRAM.encode()})
    result = run(tmp_path, "--registry", server.serve_agents(agent(server)), "tiny", MODE="mine")
    assert json.loads(result.stdout)["result"]["agentInfo"]["name"] == "mine"


def test_an_unknown_id_is_named_with_what_to_do(server: Server, tmp_path: Path) -> None:
    result = run(tmp_path, "--registry", server.serve_agents(agent(server)), "registry:other")
    assert result.returncode == 127
    assert "the registry has no agent 'other'. It has: tiny" in result.stderr
    assert json.loads(result.stdout)["error"]["message"] == "the registry has no agent 'other'. It has: tiny"


def test_a_word_that_is_no_program_says_why_it_is_no_id_either(server: Server, tmp_path: Path) -> None:
    result = run(tmp_path, "--registry", server.serve_agents(agent(server)), "tinny")
    assert result.returncode == 127
    assert "tinny is not in PATH. The registry has no agent 'tinny'" in result.stderr


NEEDED = """{} not in the PATH that your editor gives. Install {}, or add its directory to PATH in "env" of the \
agent's entry in your editor's settings."""


def test_the_program_that_starts_an_agent_is_named_if_it_is_missing(server: Server, tmp_path: Path) -> None:
    url = server.serve_agents({"id": "tiny", "distribution": {"npx": {"package": "tiny-acp"}}})
    for words, what, package in (
        (["registry:tiny"], "tiny needs npx, which is", "Node.js"),
        (["npx", "-y", "tiny"], "npx is", "Node.js"),
        (["uvx", "tiny"], "uvx is", "uv"),
    ):
        result = run(tmp_path, "--registry", url, *words, PATH=str(tmp_path))
        assert (result.returncode, result.stderr) == (127, f"acp-proxy: {NEEDED.format(what, package)}\n")
    told = run(tmp_path, "--registry", url, "uvx", "tiny", by="doctor", PATH=str(tmp_path)).stdout
    assert "uvx is not in PATH, so it would not start. Install uv, or add its directory" in told
    assert "The registry has no agent" not in told
    assert server.asked == ["/registry.json"]


def test_a_program_asks_no_registry(server: Server, tmp_path: Path) -> None:
    result = run(tmp_path, "--registry", server.serve_agents(agent(server)), "cat")
    assert result.stdout.startswith("{")
    assert server.asked == []


@pytest.mark.parametrize("command", [["adopt", "--dry-run"], ["doctor"]])
def test_commands_that_start_an_agent_take_a_registry(server: Server, tmp_path: Path, command: list[str]) -> None:
    server.answers["/a.tgz"] = make_tar({"agent": PROGRAM.encode()})
    url = server.serve_agents(agent(server))
    run(tmp_path, *command[1:], "--registry", url, "tiny", by=command[0])
    assert server.asked == ["/registry.json", "/a.tgz"]
