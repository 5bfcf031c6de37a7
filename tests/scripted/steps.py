"""Plays the steps of a script, in order, for one call.

Guarantees that a cancel ends every wait but a hang, and that the call is answered at most once.
`script.py` says what each step means.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading

from acp_proxy.tools.demo.turn import describe_memory, fill, make_chunk
from tests.scripted.connection import Call, Connection, encode
from tests.scripted.script import ScriptError

TYPE_CHECKING = False  # as in typing, which takes a fifth of a start
if TYPE_CHECKING:
    import subprocess
    from typing import Any

    from tests.scripted.script import Step

STDERR = 2
BATCH_BYTES = 64 * 1024  # what a pipe takes at once on Linux
FLOOD_MARK = "{i}"

# The child's stdin ends when the agent, which holds the other end, is gone.
CHILD = """
import os, select, sys, time
seconds, ignore_eof = float(sys.argv[1]), sys.argv[2] == "True"
time.sleep(seconds) if ignore_eof else select.select([0], [], [], seconds)
"""


class Player:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._children: list[subprocess.Popen[bytes]] = []

    def play(self, call: Call, steps: list[Step]) -> None:
        for step in steps:
            self._step(call, fill(step, call.names))

    def say(self, call: Call, text: str, message_id: str | None = None) -> None:
        self._update(call, call.session, make_chunk("agent_message_chunk", text, message_id))

    def _step(self, call: Call, step: Step) -> None:
        match step:
            case {"update": dict(update)}:
                self._update(call, step.get("session", call.session), update)
            case {"flood": {"count": int(count), "text": str(text), **rest}}:
                self._flood(call, count, text, batch=bool(rest.get("batch")))
            case {"request": str(method)}:
                self._ask(call, method, step)
            case {"say_answer": True}:
                self.say(call, json.dumps(call.last_answer))
            case {"notify": str(method)}:
                self._connection.notify(method, step.get("params"))
            case {"echo_prompt": True}:
                for block in call.blocks:
                    if block.get("type") == "text":
                        self._update(
                            call, call.session, make_chunk("user_message_chunk", block["text"], f"user-{call.number}")
                        )
            case {"remember": True}:
                self.say(call, describe_memory(call.earlier), step.get("messageId"))
            case {"sleep": int() | float() as seconds}:
                self._connection.wait(call, timeout=seconds)
            case {"wait_cancel": True}:
                self._connection.wait(call)
            case {"hang": True}:
                threading.Event().wait()
            case {"stop": str(reason)}:
                self._connection.answer(call, {"stopReason": reason})
            case {"result": result}:
                self._connection.answer(call, result)
            case {"error": dict(error)}:
                self._connection.refuse(call, error)
            case {"line": str(text)}:
                self._connection.write(text.encode() + b"\n")
            case {"raw": str(text)}:
                self._connection.write(text.encode())
            case {"stderr": str(text)}:
                os.write(STDERR, text.encode() + b"\n")
            case {"exit": int(status)}:
                os._exit(status)
            case {"signal": str(name)}:
                os.kill(os.getpid(), getattr(signal, name, signal.SIGTERM))  # Windows has no SIGKILL
            case {"close_stdout": True}:
                self._connection.close_stdout()
            case {"spawn": dict(options)}:
                self._spawn(options)
            case _:
                raise ScriptError(f"cannot be played: {json.dumps(step)}")

    def _update(self, call: Call, session: str | None, update: dict[str, Any]) -> None:
        self._connection.update(session, update)
        content = update.get("content")
        said = update.get("sessionUpdate") == "agent_message_chunk" and session == call.session
        if said and isinstance(content, dict) and isinstance(content.get("text"), str):
            call.said.append(content["text"])

    def _flood(self, call: Call, count: int, text: str, *, batch: bool) -> None:
        params = {"sessionId": call.session, "update": make_chunk("agent_message_chunk", text)}
        line = encode({"jsonrpc": "2.0", "method": "session/update", "params": params})
        pending = bytearray()
        for number in range(count):
            pending += line.replace(FLOOD_MARK.encode(), b"%d" % number)
            if not batch or len(pending) >= BATCH_BYTES:
                self._connection.write(bytes(pending))
                pending.clear()
            if call.cancelled:
                break
        if pending:
            self._connection.write(bytes(pending))

    def _ask(self, call: Call, method: str, step: Step) -> None:
        wait = step.get("wait", True) is not False
        number = self._connection.ask(method, {"sessionId": call.session} | step.get("params", {}), wait=wait)
        call.names["request"] = number
        if wait:
            call.last_answer = self._connection.wait_answer(call, number)
            if "keep" in step and isinstance(call.last_answer, dict):
                kept = {f"{step['keep']}.{key}": value for key, value in call.last_answer.items()}
                call.names.update(kept)

    def _spawn(self, options: dict[str, Any]) -> None:
        import subprocess  # slow, and few scripts need it

        command = [sys.executable, "-c", CHILD, str(options.get("seconds", 0)), str(bool(options.get("ignore_eof")))]
        output = None if options.get("holds_stdout") else subprocess.DEVNULL
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.DEVNULL)
        self._children.append(child)
        if "pidfile" in options:
            write_pid(options["pidfile"], child.pid)


def write_pid(path: str, pid: int) -> None:
    """Write the number so that nobody reads a part of it."""
    with open(f"{path}.new", "w") as file:
        file.write(str(pid))
    os.replace(f"{path}.new", path)
