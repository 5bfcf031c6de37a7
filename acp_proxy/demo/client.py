"""A small blocking ACP client over stdio, for the demo and for tests.

It keeps every line of the command, in order and unchanged. A condition variable wakes whoever waits for a line. Every
wait is bounded: it ends with the expected line, with ``TimeoutError`` or with ``OutputEnded``, and both errors show the
last lines. It does not check the protocol: lines may contain anything.
"""

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

TIMEOUT = 20.0  # seconds; a first start on a busy machine takes a few
READ_BYTES = 1024 * 1024  # one system call for many short updates, few for a line of 64 MiB
LINES_SHOWN = 5  # with a failed wait: enough to see where the talk stood
LINE_SHOWN = 300  # characters of each
STDERR_SECONDS = 1.0  # a process that outlives the command may hold it open
STDERR_LINES = 1000  # the last lines of stderr, with room for a traceback

NO_ANSWER = object()  # an `on_request` returns it to leave the request open


class OutputEnded(Exception):
    """The command's output ended before the expected line came."""


class RequestFailed(Exception):
    """The answer was an error."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(f"{error.get('message')} ({error.get('code')})")
        self.code: Any = error.get("code")
        self.message: Any = error.get("message")
        self.data: Any = error.get("data")


@dataclass(frozen=True)
class Line:
    raw: bytes  # with its newline, if it had one
    message: Any  # None if it is not JSON


def first_option(request: dict[str, Any]) -> Any:
    """Allow every permission request by its first option; refuse every other request."""
    if request["method"] != "session/request_permission":
        raise RequestFailed({"code": -32601, "message": f"Method not found: {request['method']}"})
    return {"outcome": {"outcome": "selected", "optionId": request["params"]["options"][0]["optionId"]}}


class Client:
    """A running command, seen by its client. Use it in a ``with`` block, which ends it."""

    def __init__(
        self,
        command: Sequence[str | os.PathLike[str]],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | str | None = None,
        inherit_stderr: bool = False,
        on_request: Callable[[dict[str, Any]], Any] = first_option,
    ) -> None:
        pipe = subprocess.PIPE
        stderr = None if inherit_stderr else pipe
        self.process = subprocess.Popen(command, env=env, cwd=cwd, stdin=pipe, stdout=pipe, stderr=stderr, bufsize=0)
        self.lines: list[Line] = []
        self._on_request = on_request
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self._reading = threading.Event()
        self._reading.set()
        self._pause_at: str | None = None
        self._next_id = 0
        self._answers: dict[int, dict[str, Any]] = {}
        self._stderr: deque[bytes] = deque(maxlen=STDERR_LINES)
        self._ended = False
        self._threads = [
            threading.Thread(target=work, daemon=True) for work in (self._read, self._reap, self._read_stderr)
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int:
        return self.process.pid

    # Sending.

    def request(self, method: str, params: Any = None, timeout: float = TIMEOUT) -> Any:
        """The result of a request. Raises RequestFailed if the answer is an error."""
        return self.result_of(self.start_request(method, params), timeout)

    def start_request(self, method: str, params: Any = None) -> int:
        """Send a request without waiting, and return its id."""
        with self._changed:
            number, self._next_id = self._next_id, self._next_id + 1
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number

    def result_of(self, request_id: int, timeout: float = TIMEOUT) -> Any:
        answer = self.answer_of(request_id, timeout)
        if "error" in answer:
            raise RequestFailed(answer["error"])
        return answer["result"]

    def answer_of(self, request_id: int, timeout: float = TIMEOUT) -> dict[str, Any]:
        """The complete message that answered our request."""
        self._wait(lambda: request_id in self._answers, timeout, f"the answer to request {request_id}")
        return self._answers[request_id]

    def notify(self, method: str, params: Any = None) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def send(self, message: Any) -> None:
        self.send_line(json.dumps(message).encode())

    def send_line(self, line: bytes) -> None:
        self.send_bytes(line if line.endswith(b"\n") else line + b"\n")

    def send_bytes(self, data: bytes) -> None:
        assert self.process.stdin is not None
        with self._writing:
            view = memoryview(data)
            while view:
                view = view[os.write(self.process.stdin.fileno(), view) :]

    # Received lines.

    def mark(self) -> int:
        """The number of lines so far, for ``since``."""
        return len(self.lines)

    def messages(self, since: int = 0) -> list[Any]:
        return [line.message for line in self.lines[since:]]

    def updates(self, session: str | None = None, since: int = 0, until: int | None = None) -> list[dict[str, Any]]:
        """The updates of a session, or of all, among the lines from ``since`` to before ``until``."""
        found = (line.message for line in self.lines[since:until])
        notifications = (one for one in found if isinstance(one, dict) and one.get("method") == "session/update")
        return [one["params"]["update"] for one in notifications if session in (None, one["params"]["sessionId"])]

    def position_of_answer(self, request_id: int) -> int:
        """The position of the answer to our request among the lines."""
        answer = self._answers[request_id]
        return next(position for position, line in enumerate(self.lines) if line.message is answer)

    def stderr(self) -> str:
        """The command's stderr so far; all of it once the command has exited."""
        if self.process.returncode is not None:
            self._threads[2].join(STDERR_SECONDS)
        return b"".join(self._stderr).decode(errors="replace")

    # Waiting.

    def wait_for(self, predicate: Callable[[Any], bool], timeout: float = TIMEOUT, *, since: int = 0) -> Line:
        """The first line from ``since`` on whose message satisfies the predicate."""
        position = since
        found: Line | None = None

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

    def wait_for_method(self, method: str, timeout: float = TIMEOUT, *, since: int = 0) -> dict[str, Any]:
        """The first request or notification with this method."""
        line = self.wait_for(lambda one: isinstance(one, dict) and one.get("method") == method, timeout, since=since)
        message: dict[str, Any] = line.message
        return message

    def wait_for_text(self, text: str, timeout: float = TIMEOUT, *, since: int = 0) -> Line:
        """The first update with this text in it."""
        return self.wait_for(lambda one: has_text(one, text), timeout, since=since)

    def wait_for_update(self, kind: str, timeout: float = TIMEOUT, *, since: int = 0) -> dict[str, Any]:
        """The first update of a kind, in any session."""
        line = self.wait_for(lambda one: has_kind(one, kind), timeout, since=since)
        update: dict[str, Any] = line.message["params"]["update"]
        return update

    def wait_for_stderr(self, text: str, timeout: float = TIMEOUT) -> None:
        """Wait until a line on stderr contains this text."""
        wanted = text.encode()
        self._wait(lambda: any(wanted in line for line in self._stderr), timeout, text, needs_output=False)

    def wait_for_end(self, timeout: float = TIMEOUT) -> None:
        """Wait until the command's output ends."""
        self._wait(lambda: self._ended, timeout, "the end of the output")

    def wait(self, timeout: float = TIMEOUT) -> int:
        """Wait until the command has exited; return its status, negative for a signal."""
        self._wait(lambda: self.process.returncode is not None, timeout, "the command's exit", needs_output=False)
        return self.process.returncode

    def all_ended(self, timeout: float = TIMEOUT) -> bool:
        """Whether everything that the command started ends in time: all processes that hold its stderr."""
        self._threads[-1].join(timeout)
        return not self._threads[-1].is_alive()

    # Ending.

    def pause(self, at: str | None = None) -> None:
        """Stop reading, like an editor that hangs: after the current read, or after the one with this text."""
        self._pause_at = at
        if at is None:
            self._reading.clear()

    def resume(self) -> None:
        self._pause_at = None
        self._reading.set()

    def close_stdin(self) -> None:
        assert self.process.stdin is not None
        with self._writing:
            self.process.stdin.close()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """Kill it with SIGKILL, as editors do, and wait for its exit."""
        self.process.kill()
        self.wait()

    def close(self) -> None:
        """Kill it if it runs, and close its streams."""
        self.resume()
        self.kill()
        for thread in self._threads:
            thread.join(1.0)  # longer only if a grandchild holds a stream; then the thread is left behind
        for stream, thread in ((self.process.stdout, self._threads[0]), (self.process.stderr, self._threads[2])):
            if stream is not None and not thread.is_alive():
                stream.close()
        self.close_stdin()

    def _wait(self, until: Callable[[], bool], timeout: float, what: str, *, needs_output: bool = True) -> None:
        deadline = time.monotonic() + timeout
        with self._changed:
            self._changed.wait_for(lambda: until() or (needs_output and self._ended), deadline - time.monotonic())
            if until():
                return
            shown = self._last_lines()
        if needs_output and self._ended:
            raise OutputEnded(f"the output ended before {what} came; {shown}")
        raise TimeoutError(f"no sign of {what} in {timeout:g} s; {shown}")

    def _last_lines(self) -> str:
        last = [repr(line.raw[:LINE_SHOWN])[2:-1] for line in self.lines[-LINES_SHOWN:]]
        lines = "\n  ".join(last) if last else "(none)"
        said = self.stderr()
        return f"the last lines:\n  {lines}" + (f"\nand on stderr:\n{said}" if said else "")

    # Threads.

    def _read(self) -> None:
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        parts: list[bytes] = []
        while True:
            self._reading.wait()
            data = os.read(descriptor, READ_BYTES)
            if not data:
                break
            *complete, rest = data.split(b"\n")
            for line in complete:
                self._take(b"".join([*parts, line, b"\n"]))
                parts = []
            if rest:
                parts.append(rest)
            with self._changed:
                self._changed.notify_all()
        if parts:
            self._take(b"".join(parts))
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _take(self, raw: bytes) -> None:
        line = Line(raw, parsed(raw))
        with self._changed:
            self.lines.append(line)
            if self._pause_at is not None and has_text(line.message, self._pause_at):
                self._reading.clear()
                self._pause_at = None
            match line.message:
                case {"method": str(), "id": _}:
                    threading.Thread(target=self._answer, args=(line.message,), daemon=True).start()
                case {"id": int(number), "result": _} | {"id": int(number), "error": _}:
                    self._answers.setdefault(number, line.message)

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
        with contextlib.suppress(OSError, ValueError):  # the command, or our side of the line, has ended meanwhile
            self.send(about)

    def _reap(self) -> None:
        self.process.wait()
        with self._changed:
            self._changed.notify_all()

    def _read_stderr(self) -> None:
        if self.process.stderr is not None:
            for line in self.process.stderr:
                with self._changed:
                    self._stderr.append(line)
                    self._changed.notify_all()


def parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


def has_kind(message: Any, kind: str) -> bool:
    match message:
        case {"method": "session/update", "params": {"update": {"sessionUpdate": found}}}:
            return bool(found == kind)
    return False


def has_text(message: Any, text: str) -> bool:
    match message:
        case {"method": "session/update", "params": {"update": {"content": {"text": str(found)}}}}:
            return text in found
    return False
