"""Minimal agents, as commands: a test sets their answers, and they note what they are asked."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_SCRIPTED = """
import json, sys
notes, answers, past = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    with open(notes, "a") as file:
        print(line, end="", file=file)
    if asked["method"] == "session/load":
        for update in past:
            say(method="session/update", params={"sessionId": asked["params"]["sessionId"], "update": update})
    say(id=asked["id"], **answers.get(asked["method"], {"error": {"code": -32601, "message": "Method not found"}}))
"""


def offer_capabilities(**capabilities: Any) -> dict[str, Any]:
    """An answer to initialize."""
    about = {"name": "scripted", "version": "1.2.3"}
    return {"result": {"protocolVersion": 1, "agentInfo": about, "agentCapabilities": capabilities}}


def answering_agent(
    notes: Path, answers: Mapping[str, Mapping[str, Any]], past: Sequence[Mapping[str, Any]] = ()
) -> list[str]:
    """The command of an agent with these answers, by method; it sends the updates ``past`` before it answers a load."""
    return python_command(_SCRIPTED, str(notes), json.dumps(answers), json.dumps(past))


def python_command(source: str, *words: str) -> list[str]:
    """The command that runs this program in Python."""
    return [sys.executable, "-c", source, *words]


def read_requests(notes: Path) -> list[Any]:
    """What the agent was asked."""
    return [json.loads(line) for line in notes.read_text().splitlines()]
