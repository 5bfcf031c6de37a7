"""What an agent sends about tool calls that edit files."""

import json
from typing import Any

from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.tools.changes.edits import EditReader
from acp_proxy.transcript.file_format import Entry

CWD = "/work"
Update = dict[str, Any]


def diff(path: str, old: str | None, new: str) -> Update:
    return {"type": "diff", "path": path, "oldText": old, "newText": new}


def started_call(id: str, *content: Update, kind: str = "edit", **more: Any) -> Update:
    more = {"title": f"the call {id}", "kind": kind, "status": "pending", **more}
    return {"sessionUpdate": "tool_call", "toolCallId": id, "content": list(content), **more}


def ended_call(id: str, status: str = "completed", **more: Any) -> Update:
    return {"sessionUpdate": "tool_call_update", "toolCallId": id, "status": status, **more}


def edit_call(id: str, path: str, old: str | None, new: str, **more: Any) -> list[Update]:
    return [started_call(id, diff(path, old, new), **more), ended_call(id)]


class Told:
    """A session in front of an ``EditReader``."""

    def __init__(self) -> None:
        self.reader = EditReader()
        self._requests = 0

    def update(self, turn: int, *updates: Update) -> None:
        for update in updates:
            self._add(turn, Peer.AGENT, {"method": "session/update", "params": {"update": update}})

    def prompt(self, turn: int) -> None:
        params = {"prompt": [{"type": "text", "text": f"prompt {turn}"}]}
        self._add(turn, Peer.CLIENT, {"id": f"prompt {turn}", "method": "session/prompt", "params": params})

    def end(self, turn: int) -> None:
        """The agent answers the prompt of this turn."""
        self._add(turn, Peer.AGENT, {"id": f"prompt {turn}", "result": {"stopReason": "end_turn"}}, "session/prompt")

    def ask(self, turn: int, id: str, answer: str, **call: Any) -> None:
        """The agent asks for permission. ``answer``: the kind of the option that the user takes, or ``cancelled``."""
        self._requests += 1
        kinds = ("allow_once", "allow_always", "reject_once", "reject_always")
        options = [{"optionId": f"o-{kind}", "kind": kind, "name": kind} for kind in kinds]
        params = {"toolCall": {"toolCallId": id, **call}, "options": options}
        self._add(turn, Peer.AGENT, {"id": self._requests, "method": "session/request_permission", "params": params})
        selected = {"outcome": "selected", "optionId": f"o-{answer}"}
        outcome = {"outcome": "cancelled"} if answer == "cancelled" else selected
        self._add(
            turn, Peer.CLIENT, {"id": self._requests, "result": {"outcome": outcome}}, "session/request_permission"
        )

    def _add(self, turn: int, peer: Peer, value: dict[str, Any], of: str | None = None) -> None:
        value = json.loads(json.dumps(value))
        self.reader.add(turn, Entry("2026-11-20T09:15:00.000Z", "run000", peer, of, b"", value))
