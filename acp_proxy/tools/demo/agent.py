"""A small ACP agent over stdio, for the demo: ``python -m acp_proxy.tools.demo.agent --memory DIR``.

It has no model: it plays the turn of the prompt (``sample.py``), or one that quotes it (``turn.py``). It can only
resume sessions: each is one JSON file in DIR, replaced atomically, so that it outlives the process. It answers requests
one by one, in the order of arrival, until its stdin ends.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from acp_proxy.tools.demo.sample import NAME, TURNS
from acp_proxy.tools.demo.turn import BUILT_IN_TURN, COMMANDS, describe_memory, fill, make_chunk

VERSION = "1.0.0"

UNKNOWN_METHOD = -32601
INVALID_PARAMS = -32602
NOT_FOUND = -32002


class Refused(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message}


class DemoAgent:
    def __init__(self, memory: Path, name: str = NAME, *, makes_edits: bool = False) -> None:
        self._memory = memory
        self._name = name
        self._makes_edits = makes_edits
        memory.mkdir(parents=True, exist_ok=True)

    def handle_line(self, line: bytes) -> None:
        match json.loads(line):
            case {"id": number, "method": str(method), **rest}:
                try:
                    answer = {"result": self._answer(method, rest.get("params"))}
                except Refused as refusal:
                    answer = {"error": refusal.error}
                send({"id": number, **answer})
                if method == "session/new" and "result" in answer:
                    self._play(answer["result"]["sessionId"], COMMANDS, {})

    def _answer(self, method: str, params: Any) -> Any:
        match method, params:
            case "initialize", _:
                sessions: dict[str, Any] = {"resume": {}}
                capabilities = {"loadSession": False, "sessionCapabilities": sessions}
                info = {"name": self._name, "title": "Demo agent", "version": VERSION}
                return {"protocolVersion": 1, "agentCapabilities": capabilities, "authMethods": [], "agentInfo": info}
            case "session/new", {"cwd": str(cwd)}:
                session_id = os.urandom(16).hex()
                self._write_memory(session_id, {"cwd": cwd, "prompts": []})
                return {"sessionId": session_id}
            case "session/resume", {"sessionId": str(session_id)}:
                self._read_memory(session_id)
                return {}
            case "session/prompt", {"sessionId": str(session_id), "prompt": list(blocks)}:
                text = "\n".join(block["text"] for block in blocks if block["type"] == "text")
                return self._run_turn(session_id, text)
            case (("session/new" | "session/resume" | "session/prompt"), _):
                raise Refused(INVALID_PARAMS, "Invalid params")
            case _:
                raise Refused(UNKNOWN_METHOD, f"Method not found: {method}")

    def _run_turn(self, session_id: str, text: str) -> Any:
        session_memory = self._read_memory(session_id)
        earlier: list[str] = list(session_memory["prompts"])
        session_memory["prompts"].append(text)
        self._write_memory(session_id, session_memory)
        placeholders = {
            "prompt": text,
            "cwd": session_memory["cwd"],
            "n": str(len(session_memory["prompts"])),
            "memory": describe_memory(earlier),
        }
        return {"stopReason": "end_turn", **self._play(session_id, TURNS.get(text, BUILT_IN_TURN), placeholders)}

    def _play(self, session_id: str, steps: list[dict[str, Any]], placeholders: dict[str, Any]) -> dict[str, Any]:
        """Send the updates of a turn. Returns what its answer has beside the reason to stop."""
        result: dict[str, Any] = {}
        for step in fill(steps, placeholders):
            if "result" in step:
                result |= step["result"]
                continue
            update = step.get("update") or make_chunk("agent_message_chunk", placeholders["memory"], step["messageId"])
            if self._makes_edits and update.get("status") == "completed":
                for part in update["content"]:
                    make_edit(part)
            send({"method": "session/update", "params": {"sessionId": session_id, "update": update}})
        return result

    def _read_memory(self, session_id: str) -> dict[str, Any]:
        try:
            session_memory: dict[str, Any] = json.loads(self._find_path(session_id).read_text("utf-8"))
        except FileNotFoundError:
            raise Refused(NOT_FOUND, f"Session not found: {session_id}") from None
        return session_memory

    def _write_memory(self, session_id: str, session_memory: dict[str, Any]) -> None:
        unfinished = self._find_path(session_id).with_suffix(".new")
        unfinished.write_text(json.dumps(session_memory), "utf-8")
        os.replace(unfinished, self._find_path(session_id))

    def _find_path(self, session_id: str) -> Path:
        return self._memory / f"{session_id.encode('utf-8', 'surrogatepass').hex()}.json"


def make_edit(part: dict[str, Any]) -> None:
    """Change the file of a diff, if it is as the diff expects it."""
    if part["type"] == "diff":
        path = Path(part["path"])
        current_text = path.read_bytes().decode() if path.exists() else None
        if current_text == part["oldText"]:
            path.write_bytes(part["newText"].encode())


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m acp_proxy.tools.demo.agent", description="A small ACP agent over stdio."
    )
    parser.add_argument("--memory", type=Path, metavar="DIR", required=True, help="where sessions are remembered")
    parser.add_argument("--name", default=NAME, help="the agent's name")
    parser.add_argument("--edit", action="store_true", help="make the edits that it reports")
    options = parser.parse_args()
    agent = DemoAgent(options.memory, options.name, makes_edits=options.edit)
    for line in sys.stdin.buffer:
        agent.handle_line(line)


if __name__ == "__main__":
    main()
