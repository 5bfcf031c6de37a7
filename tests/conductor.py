"""A small conductor of proxy chains, after the ``Proxy…`` types of the protocol's schema.

Its command line is that of the official one:

    python -m tests.conductor agent 'acp-proxy chain' 'acp-proxy chain' 'some-agent --acp'

Each connection counts its requests from 0, so that the same ids are in use everywhere. A component that exits does not
end the chain: whatever waits for it, or asks it later, gets an error. Like the official one, it never waits for a
component that does not read.
"""

import json
import queue
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import IO, Any

INITIALIZE, PROXY_INITIALIZE, SUCCESSOR = "initialize", "proxy/initialize", "proxy/successor"
CANCEL = "$/cancel_request"
INVALID_REQUEST, INTERNAL_ERROR = -32600, -32603
END_SECONDS = 10.0

Message = dict[str, Any]


class Connection:
    """A connection to the client or to a component. ``handle`` gets its requests and notifications."""

    def __init__(self, name: str, source: IO[bytes], target: IO[bytes], handle: Callable[[Message], None]) -> None:
        self.name = name
        self._source, self._target, self._handle = source, target, handle
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._asked: dict[int, Callable[[Message], None]] = {}
        """What to do with the answers to our requests."""
        self._passed_on: dict[str, tuple[Connection, int]] = {}
        """Where the requests from here went, for a cancellation."""
        self._count = 0
        self._is_gone = False
        self.writer = threading.Thread(target=self._write, daemon=True)
        self.writer.start()

    def ask(self, method: str, params: Any, answered: Callable[[Message], None]) -> int:
        """Send a request. ``answered`` gets the ``result`` or ``error`` of its answer."""
        number = self._count
        self._count += 1
        if self._is_gone:
            answered(self._gone())
        else:
            self._asked[number] = answered
            self._send({"id": number, "method": method, "params": params})
        return number

    def notify(self, method: str, params: Any) -> None:
        self._send({"method": method, "params": params})

    def answer(self, id: Any, outcome: Message) -> None:
        self._passed_on.pop(json.dumps(id), None)
        self._send({"id": id, **outcome})

    def refuse(self, id: Any, code: int, text: str) -> None:
        self.answer(id, {"error": {"code": code, "message": text}})

    def pass_on(self, request: Message, to: "Connection", method: str, params: Any) -> None:
        """Send a request from here to another connection, and its answer back."""
        id = request["id"]
        number = to.ask(method, params, lambda outcome: self.answer(id, outcome))
        if number in to._asked:
            self._passed_on[json.dumps(id)] = to, number

    def end(self) -> None:
        """Close the other side's input once everything is sent."""
        self._lines.put(None)

    def run(self, lock: threading.Lock) -> None:
        """Read until the end."""
        for line in self._source:
            with lock:
                self._take(json.loads(line))
        with lock:
            self._is_gone = True
            asked, self._asked = self._asked, {}
            for answered in asked.values():
                answered(self._gone())

    def _take(self, message: Message) -> None:
        if "method" not in message:
            answered = self._asked.pop(message["id"], None)
            if answered is None:
                sys.stderr.write(f"conductor: {self.name} answers {message['id']}, which nobody asked\n")
            else:
                answered({key: message[key] for key in ("result", "error") if key in message})
        elif message["method"] == CANCEL:  # hop by hop: the id means something only here
            found = self._passed_on.get(json.dumps(message["params"]["requestId"]))
            if found is None:
                sys.stderr.write(f"conductor: {self.name} cancels {message['params']}, which it did not ask\n")
            else:
                found[0].notify(CANCEL, {"requestId": found[1]})
        else:
            self._handle(message)

    def _gone(self) -> Message:
        return {"error": {"code": INTERNAL_ERROR, "message": f"{self.name} has exited"}}

    def _send(self, message: Message) -> None:
        text = json.dumps({"jsonrpc": "2.0"} | message, separators=(",", ":"), ensure_ascii=False)
        self._lines.put(text.encode("utf-8", "surrogatepass") + b"\n")

    def _write(self) -> None:
        try:
            while (line := self._lines.get()) is not None:
                self._target.write(line)
                self._target.flush()
            self._target.close()
        except OSError:  # it has exited
            return


class Conductor:
    """The chain: the client has the place -1, the first proxy 0, the agent the last one."""

    def __init__(self, commands: list[str]) -> None:
        self._lock = threading.Lock()
        self._client = Connection("the client", sys.stdin.buffer, sys.stdout.buffer, lambda it: self._down(it, -1, it))
        self._processes = [
            subprocess.Popen(shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            for command in commands
        ]
        self._components = [self._connected(place) for place in range(len(commands))]

    def run(self) -> None:
        """Run until the client's end; then end all components."""
        threads = [
            threading.Thread(target=component.run, args=(self._lock,), daemon=True) for component in self._components
        ]
        for thread in threads:
            thread.start()
        self._client.run(self._lock)
        for component, process, thread in zip(self._components, self._processes, threads, strict=True):
            component.end()
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                sys.stderr.write(f"conductor: {component.name} did not end\n")
                process.kill()
            thread.join(END_SECONDS)
        self._client.end()
        self._client.writer.join(END_SECONDS)

    def _connected(self, place: int) -> Connection:
        process = self._processes[place]
        assert process.stdin is not None
        assert process.stdout is not None
        name = "the agent" if place == len(self._processes) - 1 else f"proxy {place}"
        return Connection(name, process.stdout, process.stdin, lambda message: self._from(place, message))

    def _from(self, place: int, message: Message) -> None:
        """A request or notification from a component."""
        is_agent = place == len(self._components) - 1
        if message["method"] != SUCCESSOR:
            self._up(message, place)
        elif is_agent or message["params"]["method"] == SUCCESSOR:
            if "id" in message:
                self._components[place].refuse(message["id"], INVALID_REQUEST, f"a misplaced {SUCCESSOR}")
        else:
            self._down(message, place, message["params"])

    def _down(self, message: Message, place: int, inner: Message) -> None:
        """Towards the agent."""
        method, params = inner["method"], inner.get("params")
        target = self._components[place + 1]
        if method == INITIALIZE and place + 1 < len(self._components) - 1:
            method = PROXY_INITIALIZE
        self._deliver(message, place, target, method, params)

    def _up(self, message: Message, place: int) -> None:
        """Towards the client. A proxy gets what comes from its successor in an envelope."""
        method, params = message["method"], message.get("params")
        if place == 0:
            self._deliver(message, place, self._client, method, params)
        else:
            envelope = {"method": method, "params": params}
            self._deliver(message, place, self._components[place - 1], SUCCESSOR, envelope)

    def _deliver(self, message: Message, place: int, target: Connection, method: str, params: Any) -> None:
        source = self._components[place] if place >= 0 else self._client
        if "id" in message:
            source.pass_on(message, target, method, params)
        else:
            target.notify(method, params)


if __name__ == "__main__":
    Conductor(sys.argv[2:]).run()
