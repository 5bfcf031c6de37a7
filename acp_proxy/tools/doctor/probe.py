"""An agent that is started to be asked a few things, as an editor would ask them, and then ended.

Every wait is bounded, and so is what is kept of what it says: where an agent is silent, floods, says nothing of the
protocol or dies, ``NoAnswer`` is raised with the reason. Whatever it started ends with it.
"""

import contextlib
import json
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

from acp_proxy import __version__
from acp_proxy.protocol import acp, versions
from acp_proxy.protocol.framing import LineFramer
from acp_proxy.protocol.jsonrpc import (
    Message,
    Notification,
    Opaque,
    Request,
    Response,
    dump,
    make_printable,
    read_message,
)
from acp_proxy.relay import agent_process, process_tree

if TYPE_CHECKING:
    import psutil

GRACE_SECONDS = 1.0
"""How long an agent has from the end of its input to SIGTERM: nothing is under way."""
_POLL_SECONDS = 0.02
_LAST_WORDS_SECONDS = 5.0
"""How long to wait for the status and the last of stderr, once the output has ended; what ends takes a moment."""
_STREAM_SECONDS = 1.0
"""How long to wait for the streams of an agent that has gone: something that has left its tree may hold them."""
_STRAY_SECONDS = 10.0
"""How long an agent that has written something, but no message, may be quiet: a banner or a notice may come first."""
_READ_BYTES = 64 * 1024
_READS_AHEAD = 16
_LINE_BYTES = 64 * 1024 * 1024  # of a line that does not end: more than any agent was seen to say
_KEPT_LINES = 20
_KEPT_CHARACTERS = 300
_METHOD_NOT_FOUND = -32601
_UNSUPPORTED_VERSION = -32022
_MOST_REFUSED = 30
"""How many requests of the agent are refused while it is asked something: it may ask on and on and read none of the
answers, and so many fit into any pipe."""


class NoAnswer(Exception):
    """The text says why there is none: it completes a sentence whose subject is the agent. ``status``: its exit status
    as in subprocess, if it has ended."""

    def __init__(self, text: str, status: int | None = None) -> None:
        super().__init__(text)
        self.status = status


class Probe:
    """An agent that is started and asked. Use it in a ``with``, which ends the agent."""

    def __init__(self, command: list[str], umask: int = -1, environment: Mapping[str, str] | None = None) -> None:
        """``umask``: the agent's, where ours is not the user's own. ``environment``: the agent's; None: ours.

        Raises OSError where it cannot be started.
        """
        self.command = command
        pipe = subprocess.PIPE
        program: str | None = None
        arguments: str | list[str] = command
        if sys.platform == "win32":
            from acp_proxy.relay.windows_agent import find_program

            program, arguments = find_program(command)
        self._process = subprocess.Popen(
            arguments,
            executable=program,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            bufsize=0,
            umask=umask,
            env=environment,
        )
        self.stray_lines: deque[str] = deque(maxlen=_KEPT_LINES)
        """What it wrote to its stdout that is none of the protocol."""
        self.stderr_lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._framer = LineFramer()
        self._output: queue.Queue[bytes] = queue.Queue(_READS_AHEAD)
        self._unread: deque[bytes] = deque()
        self._has_message = False
        """Whether any line was one of the protocol."""
        self._request_count = 0
        self._refused_count = 0
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._read, self._read_stderr)]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()

    def ask(
        self,
        method: str,
        params: object,
        seconds: float,
        on_notification: Callable[[Notification], None] = lambda notification: None,
    ) -> Response:
        """The answer; ``on_notification`` gets each notification that comes before it. Raises NoAnswer."""
        self._request_count += 1
        self._refused_count = 0
        self._write({"jsonrpc": "2.0", "id": self._request_count, "method": method, "params": params})
        deadline = time.monotonic() + seconds
        while True:
            while self._unread:
                message = read_message(self._unread.popleft())
                self._has_message |= not isinstance(message, Opaque) or message.is_json
                match message:
                    case Response() if message.id == str(self._request_count):
                        return message
                    case _:
                        self._dispatch(message, on_notification)
            self._read_more(deadline, seconds)

    def initialize(self, client: str, seconds: float) -> Response:
        """The answer to ``initialize``: in version 2 if the agent refuses version 1. Raises NoAnswer.

        ``client``: the name of this client.
        """
        client_info = {"name": client, "version": __version__}
        v1_params = {"protocolVersion": acp.VERSION, "clientCapabilities": {}, "clientInfo": client_info}
        answer = self.ask(acp.INITIALIZE, v1_params, seconds)
        if acp.member(answer.error, "code") != _UNSUPPORTED_VERSION:
            return answer
        v2_params = {"protocolVersion": versions.V2.version, "capabilities": {}, "info": client_info}
        return self.ask(acp.INITIALIZE, v2_params, seconds)

    def listen(self, quiet_seconds: float, seconds: float, on_notification: Callable[[Notification], None]) -> None:
        """Read what comes until nothing has come for ``quiet_seconds``; at most for ``seconds``.

        Raises NoAnswer if it ends, or writes a line that does not end.
        """
        deadline = time.monotonic() + seconds
        while True:
            while self._unread:
                self._dispatch(read_message(self._unread.popleft()), on_notification)
            now = time.monotonic()
            try:
                data = self._output.get(timeout=max(0.0, min(quiet_seconds, deadline - now)))
            except queue.Empty:
                return
            if not data:
                self._output.put(data)  # the next question finds that, too
                raise self._explain_end()
            self._unread.extend(self._framer.feed(data))
            self._check_line()
            if now > deadline:
                return

    def _dispatch(self, message: Message, on_notification: Callable[[Notification], None]) -> None:
        match message:
            case Request():
                self._refuse(message)
            case Notification():
                on_notification(message)
            case Opaque(is_json=False) if message.raw.strip():
                self.stray_lines.append(_shorten(message.raw))

    def _read_more(self, deadline: float, seconds: float) -> None:
        """Wait for more output until the ``deadline``. Raises NoAnswer, whose text says ``seconds``."""
        remaining_seconds = max(0.0, deadline - time.monotonic())
        is_stray = bool(self.stray_lines) and not self._has_message
        try:
            data = self._output.get(timeout=min(remaining_seconds, _STRAY_SECONDS) if is_stray else remaining_seconds)
        except queue.Empty:
            data = None
            if is_stray:
                raise NoAnswer(f'writes "{self.stray_lines[-1]}", and no answer') from None
        if data is None or time.monotonic() > deadline:
            raise NoAnswer(f"does not answer within {seconds:g} s")
        if data:
            self._unread.extend(self._framer.feed(data))
        elif last_line := self._framer.take_unfinished():
            self._unread.append(last_line)
            self._output.put(b"")  # it is over, as we shall see again
        else:
            raise self._explain_end()
        self._check_line()

    def _check_line(self) -> None:
        if self._framer.unfinished_size > _LINE_BYTES:
            raise NoAnswer("writes a line that does not end")

    def _refuse(self, request: Request) -> None:
        self._refused_count += 1
        if self._refused_count <= _MOST_REFUSED:
            refusal = {"code": _METHOD_NOT_FOUND, "message": "Method not found"}
            self._write({"jsonrpc": "2.0", "id": json.loads(request.id), "error": refusal})

    def _write(self, message: object) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it has ended, as its output will tell
            self._process.stdin.write(dump(message) + b"\n")

    def _explain_end(self) -> NoAnswer:
        deadline = time.monotonic() + _LAST_WORDS_SECONDS
        while self._process.poll() is None and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        self._threads[1].join(max(0.0, deadline - time.monotonic()))
        status = self._process.returncode
        text = "closes its output without an answer" if status is None else agent_process.describe_end(status)
        return NoAnswer(text, status)

    def _end(self) -> None:
        """End the agent and its tree, in bounded time; at once if the user interrupts that."""
        processes = process_tree.find_tree(self._process.pid)
        steps = agent_process.find_end_steps(sys.platform, GRACE_SECONDS)
        try:
            self._end_in_steps(processes, steps)
        except KeyboardInterrupt:
            process_tree.send_signal(processes, steps[-1][0] or signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STREAM_SECONDS)
            self._close()
            raise

    def _end_in_steps(self, processes: "list[psutil.Process]", steps: tuple[tuple[int | None, float], ...]) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        for number, seconds in steps:
            if number is not None:
                process_tree.send_signal(process_tree.find_running(processes), number)
            deadline = time.monotonic() + seconds
            while (
                self._process.poll() is None or process_tree.find_running(processes)
            ) and time.monotonic() < deadline:
                self._drop_output()
                time.sleep(_POLL_SECONDS)
            if self._process.returncode is not None and not process_tree.find_running(processes):
                break
        self._close()

    def _drop_output(self) -> None:
        """Read and forget what the agent has written: it may see its end of file only then."""
        while True:
            try:
                self._output.get_nowait()
            except queue.Empty:
                return

    def _close(self) -> None:
        deadline = time.monotonic() + _STREAM_SECONDS
        for thread, stream in zip(self._threads, (self._process.stdout, self._process.stderr), strict=True):
            while thread.is_alive() and time.monotonic() < deadline:
                self._drop_output()
                thread.join(_POLL_SECONDS)
            if stream is not None and not thread.is_alive():
                stream.close()

    # The threads.

    def _read(self) -> None:
        assert self._process.stdout is not None
        while data := self._process.stdout.read(_READ_BYTES):
            self._output.put(data)
        self._output.put(b"")

    def _read_stderr(self) -> None:
        assert self._process.stderr is not None
        framer = LineFramer()
        while data := self._process.stderr.read(_READ_BYTES):
            self.stderr_lines.extend(_shorten(line) for line in framer.feed(data) if line.strip())
            if framer.unfinished_size > _LINE_BYTES:
                framer.take_unfinished()
        if last_line := framer.take_unfinished():
            self.stderr_lines.append(_shorten(last_line))


def _shorten(line: bytes) -> str:
    return make_printable(line[: _KEPT_CHARACTERS * 4].decode("utf-8", "replace").strip())[:_KEPT_CHARACTERS]
