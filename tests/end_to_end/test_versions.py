"""Agents with another protocol version, or none: messages pass, nothing is recorded, and a line says so."""

import json
from typing import Any

import pytest

from tests.agents import python_command
from tests.client import Client, prompt_params
from tests.end_to_end.proxied import PROXY, Proxied, entries

# Answers each initialize with the next of the given results.
AGENT = """
import json, sys
results, about = json.loads(sys.argv[1]), {"name": "versions", "version": "1"}
for line in sys.stdin:
    asked = json.loads(line)
    match asked["method"]:
        case "initialize":
            result = {"agentInfo": about, "agentCapabilities": {}, **results.pop(0)}
        case "session/new":
            result = {"sessionId": "s"}
        case _:
            result = {"stopReason": "end_turn"}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


def in_front_of(proxied: Proxied, *results: dict[str, Any]) -> Client:
    return Client([*PROXY, "run", "--store", str(proxied.store), "--", *python_command(AGENT, json.dumps(results))])


def take_turn(proxied: Proxied, client: Client, version: object = 1) -> list[str]:
    """Take a turn. The methods that the client is offered."""
    offered = client.request("initialize", {"protocolVersion": version, "clientCapabilities": {}})
    client.request("session/new", {"cwd": str(proxied.project), "mcpServers": []})
    assert client.request("session/prompt", prompt_params("s", "mend it")) == {"stopReason": "end_turn"}
    serves: list[str] = offered["agentCapabilities"].get("_meta", {}).get("acp-proxy", {}).get("serves", [])
    return serves


@pytest.mark.parametrize(("result", "said"), [({}, "none"), ({"protocolVersion": 7}, "7")])
def test_with_another_protocol_version_nothing_is_recorded_and_one_line_says_so(
    proxied: Proxied, result: dict[str, Any], said: str
) -> None:
    with in_front_of(proxied, result) as client:
        assert take_turn(proxied, client) == []
        client.close_stdin()
        assert client.wait() == 0
        [warning] = client.read_stderr().splitlines()
    assert warning.startswith("acp-proxy: nothing is recorded")
    assert f"protocolVersion is {said}," in warning
    assert proxied.transcripts() == []


def test_recording_begins_after_an_initialize_with_our_version(proxied: Proxied) -> None:
    with in_front_of(proxied, {"protocolVersion": 3}, {"protocolVersion": 1}) as client:
        assert take_turn(proxied, client, 3) == []
        assert take_turn(proxied, client) == ["list", "delete", "load"]
        [listed] = client.request("session/list", {})["sessions"]
        assert (listed["sessionId"], listed["title"]) == ("s", "mend it")
        client.close_stdin()
        assert client.wait() == 0
    methods = [entry.get("message", {}).get("method") for entry in entries(proxied.transcript("s"))]
    assert methods.count("session/prompt") == 1
