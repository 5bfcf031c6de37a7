"""A proxy whose editor and agent are both played by one program, so that either can send anything at any time.

The agent's process is two `cat`s on named pipes. `turn` takes turns in an honest session, among all other lines; only
lines with its word, and answers to `ask`, are examined.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HONEST = b"honest-"
TIMEOUT = 120.0  # seconds, for one wait: the proxy must first process everything sent before
_AGENT = 'exec 3<&0; cat <&3 >"$0/to-agent" & exec cat "$0/from-agent"'
_SESSION = "main"


def line(message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


class Side:
    """One peer: it writes anything, reads everything, and keeps only honest lines."""

    def __init__(self, name: str, writes: int, reads: int) -> None:
        self.heard: list[Any] = []
        self._name = name
        self._writes = writes
        self._reads = reads
        self._changed = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._writes, view) :]

    def wait(self, wanted: Callable[[Any], bool], since: int = 0) -> Any:
        """The first honest message from ``since`` on that matches."""
        deadline = time.monotonic() + TIMEOUT
        at = since
        with self._changed:
            while True:
                for message in self.heard[at:]:
                    if wanted(message):
                        return message
                at = len(self.heard)
                if self._ended or not self._changed.wait(deadline - time.monotonic()):
                    raise TimeoutError(f"the {self._name} did not hear what was honestly said to it")

    def end_output(self) -> None:
        os.close(self._writes)

    def join(self) -> None:
        self._thread.join(TIMEOUT)

    def _read(self) -> None:
        parts: list[bytes] = []
        while data := os.read(self._reads, 1024 * 1024):
            *complete, rest = data.split(b"\n")
            honest = []
            for piece in complete:
                whole = b"".join([*parts, piece]) if parts else piece
                parts = []
                if HONEST in whole:
                    with contextlib.suppress(ValueError, RecursionError):  # the line only contains the word
                        honest.append(json.loads(whole))
            if rest:
                parts.append(rest)
            if honest:
                with self._changed:
                    self.heard += honest
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        os.close(self._reads)


class BothSides:
    """``project`` is the honest session's directory; ``pipes`` is the directory of the named pipes."""

    def __init__(self, store: Path, project: Path, pipes: Path) -> None:
        self.session = _SESSION
        self.checked = 0
        self._project = str(project)
        self._turns = 0
        self._asked = 0
        for name in ("to-agent", "from-agent"):
            os.mkfifo(pipes / name)
        command = [sys.executable, "-m", "acp_proxy", "run", "--store", str(store), "--grace", "1", "--"]
        self._stderr = (pipes / "stderr").open("w+b")
        self._process = subprocess.Popen(
            [*command, "sh", "-c", _AGENT, str(pipes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            bufsize=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.editor = Side("editor", os.dup(self._process.stdin.fileno()), os.dup(self._process.stdout.fileno()))
        self._process.stdin.close()
        self._process.stdout.close()
        to_agent = os.open(pipes / "to-agent", os.O_RDONLY)
        self.agent = Side("agent", os.open(pipes / "from-agent", os.O_WRONLY), to_agent)

    # --- the honest part

    def begin(self) -> None:
        """Start an agent that can resume, and an honest session."""
        capabilities: dict[str, Any] = {"sessionCapabilities": {"resume": {}}}
        self._exchange("initialize", {}, {"protocolVersion": 1, "agentCapabilities": capabilities})
        self._exchange("session/new", {"cwd": self._project, "mcpServers": []}, {"sessionId": _SESSION})

    def turn(self) -> None:
        """One honest turn: the prompt reaches the agent, and its updates and answer reach the editor."""
        self._turns += 1
        prompt = [{"type": "text", "text": f"honest-question {self._turns}"}]
        self._exchange(
            "session/prompt",
            {"sessionId": _SESSION, "prompt": prompt},
            {"stopReason": "end_turn"},
            says=f"honest-answer {self._turns}",
        )

    def ask(self, method: str, params: Any) -> Any:
        """The proxy's answer to a request of the editor."""
        id = self._request(method, params)
        self.checked += 1
        return self.editor.wait(lambda message: message.get("id") == id and "method" not in message)

    def check_at_end(self) -> list[str]:
        """What is wrong with the honest session in the list and in a load at the end."""
        trouble = []
        answer = self.ask("session/list", {"cwd": self._project})
        listed = answer.get("result", {}).get("sessions", [])
        found = [row for row in listed if row["sessionId"] == _SESSION]
        if [one.get("title") for one in found] != ["honest-question 1"]:
            trouble.append(f"it is listed as {found or answer}")
        since = len(self.editor.heard)
        self._exchange("session/load", {"sessionId": _SESSION, "cwd": self._project, "mcpServers": []}, {})
        told = [_text(message) for message in self.editor.heard[since:]]
        wanted = [f"honest-{word} {number}" for number in range(1, self._turns + 1) for word in ("question", "answer")]
        self.checked += len(wanted)
        if [text for text in told if text.startswith("honest-")] != wanted:
            trouble.append(f"it is loaded as {told}")
        return trouble

    def wait_until_passed(self, side: Side) -> None:
        """Return when everything that this side has sent has reached the other."""
        self._asked += 1
        word = f"honest-{self._asked}"
        side.write(line({"jsonrpc": "2.0", "method": "_passed", "params": word}))
        other = self.agent if side is self.editor else self.editor
        other.wait(lambda message: message.get("params") == word)
        self.checked += 1

    # --- the proxy's resources

    def measure_cpu(self, action: Callable[[], None]) -> float:
        """Seconds of CPU that the proxy needs to pass everything sent."""
        before = self._cpu()
        action()
        for side in (self.editor, self.agent):
            self.wait_until_passed(side)
        return self._cpu() - before

    def read_peak_bytes(self) -> int:
        """The proxy's peak memory in bytes."""
        with open(f"/proc/{self._process.pid}/status", encoding="ascii", errors="replace") as status:
            [found] = [text for text in status if text.startswith("VmHWM:")]
        return int(found.split()[1]) * 1024

    def end(self) -> tuple[int, list[str]]:
        """The number of processes left, and the proxy's own lines on stderr."""
        for side in (self.editor, self.agent):
            side.end_output()
        try:
            self._process.wait(TIMEOUT)
            left = 0
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            left = 1
        for side in (self.editor, self.agent):
            side.join()
        self._stderr.seek(0)
        said = [text.decode(errors="replace") for text in self._stderr if text.startswith(b"acp-proxy: ")]
        self._stderr.close()
        return left, said

    # --- internal

    def _request(self, method: str, params: Any) -> str:
        self._asked += 1
        id = f"honest-{self._asked}"
        self.editor.write(line({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
        return id

    def _exchange(self, method: str, params: Any, result: Any, says: str = "") -> None:
        id = self._request(method, params)
        since = len(self.editor.heard)
        try:
            self.agent.wait(lambda one: one.get("id") == id)
        except TimeoutError as problem:
            raise TimeoutError(f"{problem}, and the editor: {self.editor.heard[since:]}") from None
        if says:
            content = {"type": "text", "text": says}
            body = {"sessionUpdate": "agent_message_chunk", "content": content}
            params = {"sessionId": _SESSION, "update": body}
            self.agent.write(line({"jsonrpc": "2.0", "method": "session/update", "params": params}))
            self.editor.wait(lambda one: _text(one) == says)
        self.agent.write(line({"jsonrpc": "2.0", "id": id, "result": result}))
        answer = self.editor.wait(lambda message: message.get("id") == id and "method" not in message)
        assert "result" in answer, f"{method} was answered {answer}"
        self.checked += 3 if says else 2

    def _cpu(self) -> float:
        with open(f"/proc/{self._process.pid}/stat", encoding="ascii", errors="replace") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _text(message: Any) -> str:
    try:
        return str(message["params"]["update"]["content"]["text"])
    except (KeyError, TypeError):
        return ""
