"""A minimal agent with a list of sessions, as a command. A test says what each load does; it notes what it is asked."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.agents import offer_capabilities, python_command

_SOURCE = """
import json, sys, time
notes, plan = sys.argv[1], json.loads(open(sys.argv[2]).read())
def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def tell(session, updates):
    for update in updates:
        say(method="session/update", params={"sessionId": session, "update": update})
def note(line):
    with open(notes, "a") as file:
        print(line.strip(), file=file)
note('{"started": true}')
for line in sys.stdin:
    note(line)
    asked = json.loads(line)
    if "method" not in asked:
        continue
    method, params = asked["method"], asked.get("params", {})
    if method == "session/list" and "error" not in plan["list"]:
        at = int(params.get("cursor", 0))
        more = {"nextCursor": str(at + 1)} if at + 1 < len(plan["pages"]) else {}
        say(id=asked["id"], result={"sessions": plan["pages"][at], **more})
    elif method == "session/list":
        say(id=asked["id"], **plan["list"])
    elif method == "session/load":
        session = params["sessionId"]
        does = plan["loads"].get(session, {})
        for number in range(does.get("asks", 0)):
            say(id=number, method="fs/read_text_file", params={"sessionId": session, "path": "/etc/passwd"})
            note(sys.stdin.readline())
        tell(session, does.get("before", []))
        if does.get("hangs"):
            time.sleep(600)
        if "dies" in does:
            sys.exit(does["dies"])
        say(id=asked["id"], **({"error": does["error"]} if "error" in does else {"result": does.get("result", {})}))
        tell(session, does.get("after", []))
        if "dies_after" in does:
            sys.exit(does["dies_after"])
    else:
        say(id=asked["id"], **plan["answers"].get(method, {"error": {"code": -32601, "message": "Method not found"}}))
"""
ABLE = {"loadSession": True, "sessionCapabilities": {"list": {}, "close": {}}}


class ListingAgent:
    """``command``: its command. ``base``: where its notes and its plan are, which a test may change at any time."""

    def __init__(self, base: Path, offer: Mapping[str, Any] = ABLE) -> None:
        self._notes, self._file = base / "notes.jsonl", base / "plan.json"
        self._offer = offer_capabilities(**offer)
        self.command = python_command(_SOURCE, str(self._notes), str(self._file))
        self.plan()

    def plan(
        self,
        *pages: Sequence[Mapping[str, Any]],
        loads: Mapping[str, Mapping[str, Any]] | None = None,
        answers: Mapping[str, Mapping[str, Any]] | None = None,
        refuses_list: Mapping[str, Any] | None = None,
    ) -> None:
        """``pages``: of its list. ``loads``: what it does at a load, by session. ``answers``: to other methods."""
        others = {"initialize": self._offer, "session/close": {"result": {}}, **(answers or {})}
        refusal = {"error": refuses_list} if refuses_list is not None else {}
        self._file.write_text(
            json.dumps({"pages": pages or [[]], "loads": loads or {}, "answers": others, "list": refusal})
        )

    def asked(self, method: str = "") -> list[Any]:
        """The parameters of the requests of this method; without a method, all lines that it got."""
        lines = [json.loads(line) for line in self._notes.read_text().splitlines()]
        sent = [line for line in lines if "started" not in line]
        return [line.get("params") for line in sent if line.get("method") == method] if method else sent

    @property
    def starts(self) -> int:
        return self._notes.read_text().count('{"started": true}')


def listed(session: str, cwd: Path | str, updated: str | None = None, **more: Any) -> dict[str, Any]:
    """A session in a list."""
    return {"sessionId": session, "cwd": str(cwd), **({"updatedAt": updated} if updated else {}), **more}


def replay_of(*texts: str) -> list[dict[str, Any]]:
    """A replay of turns: the user's words and the agent's, in turn."""
    kinds = ("user_message_chunk", "agent_message_chunk")
    return [
        {"sessionUpdate": kinds[at % 2], "content": {"type": "text", "text": text}} for at, text in enumerate(texts)
    ]
