"""A small blocking ACP client over stdio.

It keeps every line of the command, in order and unchanged. A condition variable wakes whoever waits for a line. Every
wait is bounded: it ends with the expected line, with ``TimeoutError`` or with ``OutputEnded``, and both errors show the
last lines. It does not check the protocol: lines may contain anything. It does not answer the agent's own requests.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

TIMEOUT = 120.0 if sys.platform == "win32" else 20.0
"""Seconds. A first start on a busy machine takes a few, on Windows many: it may check each file of a new program."""
READ_BYTES = 1024 * 1024  # one system call for many short updates, few for a line of 64 MiB
SHOWN_LINES = 5  # with a failed wait: enough to see where the talk stood
SHOWN_LINE_LENGTH = 300
STDERR_SECONDS = 1.0  # a process that outlives the command may hold it open
STDERR_LINES = 1000  # the last lines of stderr, with room for a traceback


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
class ReceivedLine:
    raw: bytes  # with its newline, if it had one
    message: Any  # None if it is not JSON


class Client:
    """A running command, seen by its client. Use it in a ``with`` block, which ends it."""

    def __init__(self, command: Sequence[str | os.PathLike[str]], **options: Any) -> None:
        """`options`: as for `Popen`."""
        pipe = subprocess.PIPE
        streams: dict[str, Any] = {"stdin": pipe, "stdout": pipe, "stderr": pipe}
        self.process = self._start(command, bufsize=0, **streams | options)
        self.lines: list[ReceivedLine] = []
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self._next_id = 0
        self._answers: dict[int, dict[str, Any]] = {}
        self._stderr: deque[bytes] = deque(maxlen=STDERR_LINES)
        self._has_ended = False
        self._threads = [
            threading.Thread(target=work, daemon=True) for work in (self._read, self._wait_for_exit, self._read_stderr)
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
        return self.wait_for_result(self.start_request(method, params), timeout)

    def start_request(self, method: str, params: Any = None) -> int:
        """Send a request without waiting, and return its id."""
        with self._changed:
            number, self._next_id = self._next_id, self._next_id + 1
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number

    def wait_for_result(self, request_id: int, timeout: float = TIMEOUT) -> Any:
        answer = self.wait_for_answer(request_id, timeout)
        if "error" in answer:
            raise RequestFailed(answer["error"])
        return answer["result"]

    def wait_for_answer(self, request_id: int, timeout: float = TIMEOUT) -> dict[str, Any]:
        """The complete message that answered our request."""
        self._wait(lambda: request_id in self._answers, timeout, f"the answer to request {request_id}")
        return self._answers[request_id]

    def send(self, message: Any) -> None:
        self.send_bytes(json.dumps(message).encode() + b"\n")

    def send_bytes(self, data: bytes) -> None:
        assert self.process.stdin is not None
        with self._writing:
            view = memoryview(data)
            while view:
                view = view[os.write(self.process.stdin.fileno(), view) :]

    # Received lines.

    def count_lines(self) -> int:
        """The number of lines so far, for ``since``."""
        return len(self.lines)

    def list_updates(
        self, session_id: str | None = None, since: int = 0, until: int | None = None
    ) -> list[dict[str, Any]]:
        """The updates of a session, or of all, among the lines from ``since`` to before ``until``."""
        messages = (line.message for line in self.lines[since:until])
        notifications = (
            message for message in messages if isinstance(message, dict) and message.get("method") == "session/update"
        )
        return [
            notification["params"]["update"]
            for notification in notifications
            if session_id in (None, notification["params"]["sessionId"])
        ]

    def find_answer(self, request_id: int) -> int:
        """The position of the answer to our request among the lines."""
        answer = self._answers[request_id]
        return next(position for position, line in enumerate(self.lines) if line.message is answer)

    def read_stderr(self) -> str:
        """The command's stderr so far; all of it once the command has exited."""
        if self.process.returncode is not None:
            self._threads[2].join(STDERR_SECONDS)
        return b"".join(self._stderr).decode(errors="replace")

    def wait(self, timeout: float = TIMEOUT) -> int:
        """Wait until the command has exited; return its status, negative for a signal."""
        self._wait(lambda: self.process.returncode is not None, timeout, "the command's exit", needs_output=False)
        return self.process.returncode

    def close_stdin(self) -> None:
        assert self.process.stdin is not None
        with self._writing:
            self.process.stdin.close()

    def kill(self) -> None:
        """Kill it with SIGKILL, as editors do, and wait for its exit."""
        self.process.kill()
        self.wait()

    def close(self) -> None:
        """Kill it if it runs, and close its streams."""
        self.kill()
        for thread in self._threads:
            thread.join(1.0)  # longer only if a grandchild holds a stream; then the thread is left behind
        for stream, thread in ((self.process.stdout, self._threads[0]), (self.process.stderr, self._threads[2])):
            if stream is not None and not thread.is_alive():
                stream.close()
        self.close_stdin()

    def _wait(self, until: Callable[[], bool], timeout: float, awaited: str, *, needs_output: bool = True) -> None:
        deadline = time.monotonic() + timeout
        with self._changed:
            self._changed.wait_for(lambda: until() or (needs_output and self._has_ended), deadline - time.monotonic())
            if until():
                return
            shown = self._format_last_lines()
        if needs_output and self._has_ended:
            raise OutputEnded(f"the output ended before {awaited} came; {shown}")
        raise TimeoutError(f"no sign of {awaited} in {timeout:g} s; {shown}")

    def _format_last_lines(self) -> str:
        last = [repr(line.raw[:SHOWN_LINE_LENGTH])[2:-1] for line in self.lines[-SHOWN_LINES:]]
        lines = "\n  ".join(last) if last else "(none)"
        errors = self.read_stderr()
        return f"the last lines:\n  {lines}" + (f"\nand on stderr:\n{errors}" if errors else "")

    def _start(self, command: Sequence[str | os.PathLike[str]], **options: Any) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(command, **options)

    # Threads.

    def _read(self) -> None:
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        parts: list[bytes] = []
        while True:
            data = self._read_data(descriptor)
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
            self._has_ended = True
            self._changed.notify_all()

    def _read_data(self, descriptor: int) -> bytes:
        return os.read(descriptor, READ_BYTES)

    def _take(self, raw: bytes) -> None:
        line = ReceivedLine(raw, parse(raw))
        with self._changed:
            self.lines.append(line)
            match line.message:
                case {"method": str()}:
                    pass
                case {"id": int(number), "result": _} | {"id": int(number), "error": _}:
                    self._answers.setdefault(number, line.message)

    def _wait_for_exit(self) -> None:
        self.process.wait()
        with self._changed:
            self._changed.notify_all()

    def _read_stderr(self) -> None:
        if self.process.stderr is not None:
            for line in self.process.stderr:
                with self._changed:
                    self._stderr.append(line)
                    self._changed.notify_all()


def parse(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None
