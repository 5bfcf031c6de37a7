"""Bytes as choices: a fuzzer's bytes become values, messages and texts that are nearly valid.

The same bytes give the same choices, each byte decides little, and the bytes never run out: after the end all are 0. So
a fuzzer that changes one byte changes one thing.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

T = TypeVar("T")

SESSIONS = ("a", "b", "parent")
METHODS = (
    "initialize", "authenticate", "session/new", "session/load", "session/resume", "session/fork", "session/close",
    "session/list", "session/delete", "session/prompt", "session/cancel", "session/set_mode",
    "session/set_config_option", "session/update", "session/request_permission", "terminal/create", "terminal/output",
    "terminal/wait_for_exit", "terminal/release", "fs/read_text_file", "$/cancel_request", "_vendor/extension",
)  # fmt: skip
KINDS = (
    "user_message_chunk", "agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan",
    "session_info_update", "usage_update", "available_commands_update", "current_mode_update", "notice", "unheard_of",
)  # fmt: skip
KEYS = (
    "sessionId", "cwd", "cursor", "prompt", "update", "_meta", "sessionUpdate", "content", "title", "type", "text",
    "terminalId", "toolCallId", "status", "messageId", "rawOutput", "rawInput", "locations", "annotations", "kind",
    "requestId", "toolCall", "output", "exitStatus", "updatedAt", "id", "method", "params", "result", "error", "uri",
)  # fmt: skip
TEXTS = (
    "", "a", "x" * 90, "text", "terminal", "content", "pending", "in_progress", "completed", "failed", "/w", "# record",
    "t", "u", "2026-11-20T09:15:02.123Z", "9999-12-31T23:59:59.999-23:59", "\u2028", "\0", "\ud800", "\U0001f468\u200d",
    " \t\n", "/command", "<context>", '{"at":"', "acp-proxy/1",
)  # fmt: skip
NUMBERS = (0, 1, -1, 1.0, -0.0, 1e300, 2**53, 2**63, 2**64, 2**70, -(2**80))
_DEPTH = 6


class Choices:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def more(self) -> bool:
        return self._at < len(self._data)

    def byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1] if self._at <= len(self._data) else 0

    def below(self, number: int) -> int:
        return self.byte() % number

    def maybe(self) -> bool:
        return self.byte() % 2 == 1

    def pick(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def taken(self, size: int) -> bytes:
        found = self._data[self._at : self._at + size]
        self._at += size
        return found

    def rest(self) -> bytes:
        return self.taken(max(0, len(self._data) - self._at))

    def free_text(self) -> str:
        """Any text, including lone surrogates."""
        return self.taken(self.below(24)).decode("utf-8", "surrogateescape")

    def text(self) -> str:
        return self.free_text() if self.below(4) == 3 else self.pick(TEXTS)

    def value(self, depth: int = _DEPTH) -> Any:
        """A JSON value of any kind."""
        match self.below(10 if depth else 6):
            case 0:
                return None
            case 1:
                return self.maybe()
            case 2:
                return self.pick(NUMBERS)
            case 3:
                return self.pick(SESSIONS)
            case 4 | 5:
                return self.text()
            case 6 | 7:
                return [self.value(depth - 1) for _ in range(self.below(5))]
            case _:
                return self.members(*(self.key() for _ in range(self.below(6))), depth=depth - 1)

    def key(self) -> str:
        return self.free_text() if self.below(16) == 15 else self.pick(KEYS)

    def members(self, *keys: str, depth: int = _DEPTH) -> dict[str, Any]:
        return {key: self.value(depth) for key in keys}

    # the protocol's strings

    def id(self) -> Any:
        return self.pick((0, 1, 2, "1", 1.0, True, None, 2**70, "acp-proxy/1", [1], {"a": 1}))

    def update(self) -> Any:
        kind = self.pick(KINDS)
        if self.below(16) == 15:
            return self.value()
        out: dict[str, Any] = {"sessionUpdate": kind}
        if kind.startswith("tool"):
            out["toolCallId"] = self.pick(("t", "u"))
            out["content"] = [self.item() for _ in range(self.below(3))]
        else:
            out["content"] = self.item()
        for _ in range(self.below(4)):
            out[self.key()] = self.value(3)
        return out

    def item(self) -> Any:
        match self.below(5):
            case 0 | 1:
                return {"type": "text", "text": self.text()}
            case 2:
                return {"type": "terminal", "terminalId": self.pick(("t", "u"))}
            case 3:
                return {"type": "content", "content": {"type": "text", "text": self.text()}}
            case _:
                return self.value(3)

    def params(self, method: str) -> Any:
        if self.below(12) == 11:
            return self.value()
        out: dict[str, Any] = {"sessionId": self.pick(SESSIONS) if self.below(8) < 7 else self.value(2)}
        match method:
            case "session/update":
                out["update"] = self.update()
            case "session/prompt":
                out["prompt"] = [self.item() for _ in range(self.below(4))] if self.below(8) < 7 else self.value(3)
            case "session/request_permission":
                out["toolCall"] = self.update()
            case "$/cancel_request":
                out = {"requestId": self.id()}
            case "terminal/create" | "terminal/output" | "terminal/wait_for_exit" | "terminal/release":
                out["terminalId"] = self.pick(("t", "u"))
            case _ if method.startswith("session/"):
                out["cwd"] = self.pick(("/w", "w", None, 5))
        for _ in range(self.below(3)):
            out[self.key()] = self.value(3)
        return out

    def result(self) -> Any:
        match self.below(8):
            case 0:
                return {"protocolVersion": self.pick((1, 1, 1, 2, None)), "agentCapabilities": self.capabilities()}
            case 1 | 2:
                return {"sessionId": self.pick((*SESSIONS, "n")), **self.members(*self.some(("modes", "_meta")))}
            case 3:
                return {"terminalId": self.pick(("t", "u")), **self.members(*self.some(("output", "exitStatus")))}
            case 4:
                return {"sessions": [{"sessionId": self.pick(SESSIONS)}, self.value(2)]}
            case 5:
                return {"stopReason": "end_turn"}
            case 6:
                return {}
            case _:
                return self.value()

    def some(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if self.maybe()]

    def capabilities(self) -> Any:
        if self.below(8) == 7:
            return self.value(3)
        inner: dict[str, Any] = {
            name: self.pick(({}, {}, None, False, [])) for name in self.some(("resume", "list", "delete", "fork"))
        }
        return {"loadSession": self.pick((False, True, None)), "sessionCapabilities": self.pick((inner, inner, None))}

    def message(self) -> Any:
        """A message of a peer: valid, nearly valid, or invalid."""
        match self.below(8):
            case 0 | 1 | 2:
                method = self.pick(METHODS)
                return {"jsonrpc": "2.0", "id": self.id(), "method": method, "params": self.params(method)}
            case 3 | 4:
                method = self.pick(("session/update", "session/update", "session/update", *METHODS))
                return {"jsonrpc": "2.0", "method": method, "params": self.params(method)}
            case 5:
                return {"jsonrpc": "2.0", "id": self.id(), "result": self.result()}
            case 6:
                return {"jsonrpc": "2.0", "id": self.id(), "error": {"code": self.pick((-32603, -32000, 5, None))}}
            case _:
                return self.value()
