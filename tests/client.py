"""The demo's client with what tests need: it answers requests, waits for lines, and can stop reading.

Every wait has a limit, as in the demo's client.
"""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from acp_proxy.tools.demo import client
from acp_proxy.tools.demo.client import TIMEOUT, OutputEnded, ReceivedLine, RequestFailed
from tests import forked

__all__ = [
    "NO_ANSWER",
    "TIMEOUT",
    "Client",
    "OutputEnded",
    "ReceivedLine",
    "RequestFailed",
    "code_of",
    "first_option",
    "has_kind",
    "prompt_params",
]

NO_ANSWER = object()  # what an `on_request` returns to leave the request open


def prompt_params(session: str, text: str) -> dict[str, Any]:
    """The parameters of a prompt with one block of text."""
    return {"sessionId": session, "prompt": [{"type": "text", "text": text}]}


def code_of(asking: client.Client, method: str, params: Any) -> Any:
    """The code of the error that answers a request."""
    try:
        result = asking.request(method, params)
    except RequestFailed as refusal:
        return refusal.code
    raise AssertionError(f"{method} is answered: {result}")


def first_option(request: dict[str, Any]) -> Any:
    """Answer a permission request with its first option; refuse every other request."""
    if request["method"] != "session/request_permission":
        raise RequestFailed({"code": -32601, "message": f"Method not found: {request['method']}"})
    return {"outcome": {"outcome": "selected", "optionId": request["params"]["options"][0]["optionId"]}}


class Client(client.Client):
    """A running command, as its client sees it; use it in a `with`, which ends it."""

    def __init__(
        self,
        command: Sequence[str | os.PathLike[str]],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | str | None = None,
        inherit_stderr: bool = False,
        on_request: Callable[[dict[str, Any]], Any] = first_option,
    ) -> None:
        self._on_request = on_request
        self._reading = threading.Event()
        self._reading.set()
        self._pause_at: str | None = None
        super().__init__(command, env=env, cwd=cwd, stderr=None if inherit_stderr else subprocess.PIPE)

    def _start(self, command: Sequence[str | os.PathLike[str]], **options: Any) -> "subprocess.Popen[bytes]":
        return forked.start(command, **options)

    # Sending.

    def notify(self, method: str, params: Any = None) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def send_line(self, line: bytes) -> None:
        self.send_bytes(line if line.endswith(b"\n") else line + b"\n")

    # What has arrived.

    def messages(self, since: int = 0) -> list[Any]:
        return [line.message for line in self.lines[since:]]

    # Waiting.

    def wait_for(self, predicate: Callable[[Any], bool], timeout: float = TIMEOUT, *, since: int = 0) -> ReceivedLine:
        """The first line, from `since` on, whose message meets the predicate."""
        position = since
        found: ReceivedLine | None = None

        def look() -> bool:
            nonlocal position, found
            while found is None and position < len(self.lines):
                line = self.lines[position]
                position += 1
                if predicate(line.message):
                    found = line
            return found is not None

        self._wait(look, timeout, "a line")
        assert found is not None
        return found

    def wait_for_line(self, raw: bytes, timeout: float = TIMEOUT) -> None:
        """Wait for a line with these bytes, JSON or not."""
        self._wait(lambda: any(line.raw == raw for line in self.lines), timeout, repr(raw))

    def wait_for_method(self, method: str, timeout: float = TIMEOUT, *, since: int = 0) -> dict[str, Any]:
        """The first request or notification of this method."""
        line = self.wait_for(lambda one: isinstance(one, dict) and one.get("method") == method, timeout, since=since)
        message: dict[str, Any] = line.message
        return message

    def wait_for_text(self, text: str, timeout: float = TIMEOUT, *, since: int = 0) -> ReceivedLine:
        """The first update with this text in it."""
        return self.wait_for(lambda update: has_text(update, text), timeout, since=since)

    def wait_for_update(self, kind: str, timeout: float = TIMEOUT, *, since: int = 0) -> dict[str, Any]:
        """The first update of this kind, in any session."""
        line = self.wait_for(lambda one: has_kind(one, kind), timeout, since=since)
        update: dict[str, Any] = line.message["params"]["update"]
        return update

    def wait_for_stderr(self, text: str, timeout: float = TIMEOUT) -> None:
        """Wait until a line of stderr has this text."""
        wanted = text.encode()
        self._wait(lambda: any(wanted in line for line in self._stderr), timeout, text, needs_output=False)

    def wait_for_end(self, timeout: float = TIMEOUT) -> None:
        """Wait until the command's output ends."""
        self._wait(lambda: self._has_ended, timeout, "the end of the output")

    def all_ended(self, timeout: float = TIMEOUT) -> bool:
        """Whether every process that holds the command's stderr ends in time."""
        self._threads[-1].join(timeout)
        return not self._threads[-1].is_alive()

    # Pausing and ending.

    def pause(self, at: str | None = None) -> None:
        """Stop reading, as a hanging editor does: after the read under way, or after the update with text ``at``."""
        self._pause_at = at
        if at is None:
            self._reading.clear()

    def resume(self) -> None:
        self._pause_at = None
        self._reading.set()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def close(self) -> None:
        self.resume()
        super().close()

    # The threads.

    def _read_data(self, descriptor: int) -> bytes:
        self._reading.wait()
        return super()._read_data(descriptor)

    def _take(self, raw: bytes) -> None:
        super()._take(raw)
        message = self.lines[-1].message
        if self._pause_at is not None and has_text(message, self._pause_at):
            self._reading.clear()
            self._pause_at = None
        match message:
            case {"method": str(), "id": _}:
                threading.Thread(target=self._answer, args=(message,), daemon=True).start()

    def _answer(self, request: dict[str, Any]) -> None:
        about: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        try:
            result = self._on_request(request)
        except RequestFailed as refusal:
            about["error"] = {"code": refusal.code, "message": refusal.message}
        else:
            if result is NO_ANSWER:
                return
            about["result"] = result
        with contextlib.suppress(OSError, ValueError):  # the command or our end of the pipe may have closed
            self.send(about)


def has_kind(message: Any, kind: str) -> bool:
    """Whether a message is an update of this kind."""
    match message:
        case {"method": "session/update", "params": {"update": {"sessionUpdate": found}}}:
            return bool(found == kind)
    return False


def has_text(message: Any, text: str) -> bool:
    """Whether a message is an update with this text in it."""
    match message:
        case {"method": "session/update", "params": {"update": {"content": {"text": str(found)}}}}:
            return text in found
    return False
