"""The scripted agent's connection: it writes complete lines, sends its own requests, and can cancel calls.

Lines of different threads never interleave, and a wait ends when its call is cancelled. If the client has left, writes
are dropped without an error.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable

TYPE_CHECKING = False  # as in typing, which takes a fifth of a start
if TYPE_CHECKING:
    from typing import Any

STDOUT = 1


class RpcError(Exception):
    """An error as the answer to a request."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{message} ({code})")
        self.error: dict[str, Any] = {"code": code, "message": message} | ({} if data is None else {"data": data})


class Call:
    """A request in service, from its arrival to the last step after its answer."""

    def __init__(self, id: Any, method: str, params: dict[str, Any]) -> None:
        self.id = id
        self.method = method
        self.params = params
        self.session: str | None = None
        self.cwd = ""
        self.blocks: list[dict[str, Any]] = []
        self.number = 0
        self.earlier: list[str] = []
        self.result: Any = None
        self.cancelled = False
        self.answered = False
        self.said: list[str] = []
        self.names: dict[str, Any] = {}
        self.last_answer: Any = None

    @property
    def prompt(self) -> str:
        return text_of(self.blocks)


def text_of(blocks: list[dict[str, Any]]) -> str:
    texts = (block.get("text") for block in blocks if block.get("type") == "text")
    return "\n".join(text for text in texts if isinstance(text, str))


def encode(message: Any) -> bytes:
    try:
        return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    except UnicodeEncodeError:  # a lone surrogate has no UTF-8, only an escape
        return json.dumps(message, separators=(",", ":")).encode() + b"\n"


class Connection:
    def __init__(self) -> None:
        self._output = threading.Lock()
        self._changed = threading.Condition()
        self._next_id = 0
        self._answers: dict[int, Any] = {}
        self._awaited: set[int] = set()
        self._calls: list[Call] = []

    def write(self, data: bytes) -> None:
        with self._output:
            view = memoryview(data)
            try:
                while view:
                    view = view[os.write(STDOUT, view) :]
            except BrokenPipeError:
                pass

    def close_stdout(self) -> None:
        with self._output:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, STDOUT)  # the number stays taken, so that no file opened later gets what is written here
            os.close(nowhere)

    def notify(self, method: str, params: Any) -> None:
        self.write(encode({"jsonrpc": "2.0", "method": method, "params": params}))

    def update(self, session: str | None, update: dict[str, Any]) -> None:
        self.notify("session/update", {"sessionId": session, "update": update})

    def answer(self, call: Call, result: Any) -> None:
        if not call.answered:
            call.answered = True
            self.write(encode({"jsonrpc": "2.0", "id": call.id, "result": result}))

    def refuse(self, call: Call, error: dict[str, Any]) -> None:
        if not call.answered:
            call.answered = True
            self.write(encode({"jsonrpc": "2.0", "id": call.id, "error": error}))

    def refuse_unread(self, code: int, message: str) -> None:
        """Refuse a line without a readable id."""
        self.write(encode({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}))

    def ask(self, method: str, params: dict[str, Any], *, wait: bool) -> int:
        """Send a request of the agent, and return its id."""
        with self._changed:
            number, self._next_id = self._next_id, self._next_id + 1
            if wait:
                self._awaited.add(number)
        self.write(encode({"jsonrpc": "2.0", "id": number, "method": method, "params": params}))
        return number

    def wait_answer(self, call: Call, number: int) -> Any:
        """The result or the error of the answer; None if the call was cancelled first."""
        self.wait(call, lambda: number in self._answers)
        with self._changed:
            self._awaited.discard(number)
            return self._answers.pop(number, None)

    def take_answer(self, message: dict[str, Any]) -> None:
        with self._changed:
            number = message.get("id")
            if type(number) is int and number in self._awaited:
                self._answers[number] = message.get("result", message.get("error"))
                self._changed.notify_all()

    def wait(self, call: Call, until: Callable[[], bool] = lambda: False, timeout: float | None = None) -> None:
        with self._changed:
            self._changed.wait_for(lambda: call.cancelled or until(), timeout)

    def opened(self, call: Call) -> None:
        with self._changed:
            self._calls.append(call)

    def closed(self, call: Call) -> None:
        with self._changed:
            self._calls.remove(call)

    def cancel(self, chosen: Callable[[Call], bool]) -> None:
        with self._changed:
            for call in self._calls:
                call.cancelled = call.cancelled or chosen(call)
            self._changed.notify_all()
