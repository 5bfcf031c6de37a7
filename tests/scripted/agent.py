"""A small ACP agent over stdio: `python -m tests.scripted.agent`, for tests.

It has no model: it plays a built-in turn, or the steps of a script (`script.py` has the format). What it can do is
a parameter, and all it advertises is real; with `--memory` its sessions outlive the process.
Each prompt, and each request whose script waits for something, is served by a thread of its own; everything else is
answered in the order of arrival. It ends at the end of its stdin, abandoning open turns.

Hundreds of tests start it, so none of its modules imports anything slow, such as argparse, dataclasses or pathlib.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable

from acp_proxy.tools.demo.turn import BUILT_IN_TURN, COMMANDS, make_chunk
from tests.scripted.connection import Call, Connection, RpcError, text_of
from tests.scripted.memory import Exchange, Memory, Session
from tests.scripted.script import SILENT, MethodScript, Script, ScriptError, merge, read_script
from tests.scripted.steps import Player, write_pid

TYPE_CHECKING = False  # as in typing, which takes a fifth of a start
if TYPE_CHECKING:
    from typing import Any, NoReturn, TypeVar

    T = TypeVar("T")

NAME = "acp-proxy-demo-agent"
VERSION = "1.0.0"
CAPABILITIES = ("resume", "list", "load", "delete", "close", "fork")

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
UNKNOWN_METHOD = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
CANCELLED = -32800
NOT_FOUND = -32002


class Agent:
    def __init__(self, connection: Connection, memory: Memory, script: Script, capabilities: list[str]) -> None:
        self._connection = connection
        self._memory = memory
        self._script = script
        self._capabilities = capabilities
        self._player = Player(connection)
        self._info: dict[str, str] | None = None
        self._sessions_made = 0
        offered = (
            {f"session/{name}" for name in (*capabilities, "new", "prompt")} | script.methods.keys() | {"initialize"}
        )
        self._methods = {method: serve for method, serve in self._all_methods().items() if method in offered}

    def introduce_as(self, name: str) -> None:
        self._info = {"name": name, "title": "Demo agent", "version": VERSION}

    def take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            self._connection.refuse_unread(PARSE_ERROR, "Parse error")
            return
        for one in message if isinstance(message, list) and message else [message]:
            self._take_message(one)

    def _take_message(self, message: Any) -> None:
        match message:
            case {"method": str(method), "id": None | str() | int() | float() as request_id}:
                self._take_request(request_id, method, message.get("params"))
            case {"method": str(method)} if "id" not in message:
                self._take_notification(method, message.get("params"))
            case {"result": _} | {"error": _}:
                self._connection.take_answer(message)
            case _:
                self._connection.refuse_unread(INVALID_REQUEST, "Invalid request")

    def _take_notification(self, method: str, params: Any) -> None:
        match method, params:
            case "session/cancel", {"sessionId": str(session)}:
                self._cancel_turns(session)
            case "$/cancel_request", {"requestId": request_id}:
                typed = (type(request_id), request_id)
                self._connection.cancel(lambda call: (type(call.id), call.id) == typed)

    def _cancel_turns(self, session: str) -> None:
        self._connection.cancel(lambda call: call.method == "session/prompt" and call.session == session)

    def _take_request(self, request_id: Any, method: str, params: Any) -> None:
        call = Call(request_id, method, params if isinstance(params, dict) else {})
        play = self._script.methods.get(method, SILENT)
        try:
            if params is not None and not isinstance(params, dict):
                raise RpcError(INVALID_PARAMS, "Invalid params: not an object")
            self._begin(call, play)
        except RpcError as refusal:
            self._connection.refuse(call, refusal.error)
            return
        self._connection.opened(call)
        if method == "session/prompt" or play.waits():
            threading.Thread(target=self._serve, args=(call, play), daemon=True).start()
        else:
            self._serve(call, play)

    def _begin(self, call: Call, play: MethodScript) -> None:
        """Do what must happen in the order of arrival: check, look up, count."""
        begin = self._methods.get(call.method)
        if begin is None and call.method not in self._script.methods:
            raise RpcError(UNKNOWN_METHOD, f"Method not found: {call.method}")
        if begin is None or (play.answer and call.method not in ("session/new", "session/fork", "session/prompt")):
            call.session = optional(call.params, "sessionId", str)
            call.cwd = optional(call.params, "cwd", str) or ""
        else:
            call.result = begin(call)
        call.names |= {"prompt": call.prompt, "session": call.session or "", "cwd": call.cwd, "n": str(call.number)}

    def _serve(self, call: Call, play: MethodScript) -> None:
        try:
            self._player.play(call, play.before)
            if not play.answer and not call.answered:
                self._conduct(call)
            self._answer(call, play)
            usual = COMMANDS if call.method == "session/new" and "error" not in play.answer else []
            self._player.play(call, usual if play.after is None else play.after)
        except ScriptError as problem:
            print(f"{NAME}: {problem}", file=sys.stderr, flush=True)
            self._connection.refuse(call, {"code": INTERNAL_ERROR, "message": str(problem)})
        finally:
            self._connection.closed(call)

    def _conduct(self, call: Call) -> None:
        if call.method == "session/prompt":
            turns = self._script.turns or [BUILT_IN_TURN]
            self._player.play(call, turns[(call.number - 1) % len(turns)])
        elif call.method == "session/load" and (session := self._memory.recall(call.session or "")) is not None:
            self._retell(session)

    def _answer(self, call: Call, play: MethodScript) -> None:
        if call.method == "session/prompt" and call.session is not None:
            self._memory.set_answer(call.session, call.number, "".join(call.said))
        if "error" in play.answer:
            self._connection.refuse(call, play.answer["error"])
        elif "result" in play.answer:
            self._connection.answer(call, merge_session(play.answer["result"], call))
        elif not call.cancelled:
            self._connection.answer(call, call.result)
        elif call.method == "session/prompt":
            self._connection.answer(call, {"stopReason": "cancelled"})
        else:
            self._connection.refuse(call, {"code": CANCELLED, "message": "Request cancelled"})

    def _retell(self, session: Session) -> None:
        for number, exchange in enumerate(session.exchanges, 1):
            self._connection.update(session.id, make_chunk("user_message_chunk", exchange.prompt, f"user-{number}"))
            if exchange.answer:
                answer = make_chunk("agent_message_chunk", exchange.answer, f"answer-{number}")
                self._connection.update(session.id, answer)

    # Each method checks its parameters, does its work, and returns the usual result.

    def _all_methods(self) -> dict[str, Callable[[Call], Any]]:
        return {
            "initialize": self._initialize,
            "session/new": self._new,
            "session/prompt": self._prompt,
            "session/resume": self._open,
            "session/load": self._open,
            "session/list": self._list,
            "session/delete": self._delete,
            "session/close": self._close,
            "session/fork": self._fork,
        }

    def _initialize(self, call: Call) -> Any:
        required(call.params, "protocolVersion", int)
        capabilities: dict[str, Any] = {
            "loadSession": "load" in self._capabilities,
            "promptCapabilities": {"image": True, "embeddedContext": True},
            "sessionCapabilities": {name: {} for name in self._capabilities if name != "load"},
        }
        result: dict[str, Any] = {"protocolVersion": 1, "agentCapabilities": capabilities, "authMethods": []}
        if self._info is not None:
            result["agentInfo"] = self._info
        return merge(result, self._script.initialize)

    def _new(self, call: Call) -> Any:
        call.cwd = directory(call.params)
        return self._create(call, [])

    def _fork(self, call: Call) -> Any:
        parent = self._known(required(call.params, "sessionId", str))
        call.cwd = directory(call.params)
        return self._create(call, parent.exchanges)

    def _create(self, call: Call, exchanges: list[Exchange]) -> Any:
        self._sessions_made += 1
        call.session = f"session-{self._sessions_made}" if self._script.counting_ids else os.urandom(16).hex()
        scripted = self._script.methods.get(call.method, SILENT).answer
        if "error" in scripted:
            return None
        if isinstance(scripted.get("result"), dict):
            call.session = optional(scripted["result"], "sessionId", str) or call.session
        self._memory.create(call.session, call.cwd, exchanges)
        return {"sessionId": call.session}

    def _open(self, call: Call) -> Any:
        call.cwd = directory(call.params)
        call.session = self._known(required(call.params, "sessionId", str)).id
        return {}

    def _prompt(self, call: Call) -> Any:
        blocks = required(call.params, "prompt", list)
        if not all(isinstance(block, dict) and isinstance(block.get("type"), str) for block in blocks):
            raise RpcError(INVALID_PARAMS, "Invalid params: prompt")
        if not all(isinstance(block.get("text"), str) for block in blocks if block["type"] == "text"):
            raise RpcError(INVALID_PARAMS, "Invalid params: a text block without text")
        wanted = required(call.params, "sessionId", str)
        session = self._memory.add_prompt(wanted, text_of(blocks))
        if session is None:
            raise not_found(wanted)
        call.session, call.cwd, call.blocks = session.id, session.cwd, blocks
        call.number = len(session.exchanges)
        call.earlier = [exchange.prompt for exchange in session.exchanges[:-1]]
        return {"stopReason": "end_turn"}

    def _list(self, call: Call) -> Any:
        cwd = optional(call.params, "cwd", str)
        if optional(call.params, "cursor", str) is not None:
            raise RpcError(INVALID_PARAMS, "Invalid cursor")
        sessions = [session for session in self._memory.all() if cwd in (None, session.cwd)]
        return {"sessions": [info(session) for session in sessions]}

    def _delete(self, call: Call) -> Any:
        call.session = required(call.params, "sessionId", str)
        self._cancel_turns(call.session)
        self._memory.forget(call.session)
        return {}

    def _close(self, call: Call) -> Any:
        call.session = self._known(required(call.params, "sessionId", str)).id
        self._cancel_turns(call.session)
        return {}

    def _known(self, session_id: str) -> Session:
        session = self._memory.recall(session_id)
        if session is None:
            raise not_found(session_id)
        return session


def not_found(session_id: str) -> RpcError:
    return RpcError(NOT_FOUND, f"Session not found: {session_id}")


def info(session: Session) -> dict[str, Any]:
    about: dict[str, Any] = {"sessionId": session.id, "cwd": session.cwd, "updatedAt": session.updated_at}
    return about | ({"title": session.title} if session.title else {})


def merge_session(result: Any, call: Call) -> Any:
    """A scripted result of a method that opens a session, with the id added if the script has none."""
    if call.method in ("session/new", "session/fork") and isinstance(result, dict):
        return {"sessionId": call.session} | result
    return result


def optional(params: dict[str, Any], name: str, kind: type[T]) -> T | None:
    value = params.get(name)
    if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
        raise RpcError(INVALID_PARAMS, f"Invalid params: {name}")
    return value


def required(params: dict[str, Any], name: str, kind: type[T]) -> T:
    value = optional(params, name, kind)
    if value is None:
        raise RpcError(INVALID_PARAMS, f"Invalid params: {name} is missing")
    return value


def directory(params: dict[str, Any]) -> str:
    cwd = required(params, "cwd", str)
    optional(params, "mcpServers", list)
    if not os.path.isabs(cwd):
        raise RpcError(INVALID_PARAMS, "Invalid params: cwd is not absolute")
    return cwd


USAGE = f"""usage: python -m tests.scripted.agent [option]…

  --memory DIR          where sessions are remembered (default: nowhere)
  --capabilities NAMES  what is offered: none, or some of {",".join(CAPABILITIES)} (default: resume)
  --name NAME           agentInfo.name (default: {NAME})
  --no-info             leave agentInfo out
  --script FILE         what to play in place of the built-in turn
  --ignore-eof          stay when stdin ends
  --ignore-sigterm      stay at SIGTERM
  --pidfile FILE        where to write the process id
"""
FLAGS = ("--no-info", "--ignore-eof", "--ignore-sigterm")
WITH_VALUE = ("--memory", "--capabilities", "--name", "--script", "--pidfile")


def arguments(words: list[str]) -> dict[str, str]:
    """The options that are given; a flag has an empty value."""
    given: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        value = "" if word in FLAGS else next(rest, None) if word in WITH_VALUE else None
        if value is None:
            wrong_usage(f"unknown option, or one without its value: {word}")
        given[word] = value
    return given


def wrong_usage(problem: str) -> NoReturn:
    print(f"{USAGE}\n{problem}", file=sys.stderr)
    sys.exit(2)


def main() -> NoReturn:
    given = arguments(sys.argv[1:])
    names = given.get("--capabilities", "resume")
    capabilities = [] if names == "none" else names.split(",")
    if unknown := set(capabilities) - set(CAPABILITIES):
        wrong_usage(f"unknown capability: {', '.join(sorted(unknown))}")
    try:
        script = read_script(given["--script"]) if "--script" in given else Script()
    except ScriptError as problem:
        wrong_usage(str(problem))
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if "--ignore-sigterm" in given:
        signal.signal(signal.SIGTERM, lambda *_: None)  # SIG_IGN would be inherited by the script's children
    if "--pidfile" in given:
        write_pid(given["--pidfile"], os.getpid())
    agent = Agent(Connection(), Memory(given.get("--memory")), script, capabilities)
    if "--no-info" not in given:
        agent.introduce_as(given.get("--name", NAME))
    for line in sys.stdin.buffer:
        agent.take(line)
    if "--ignore-eof" in given:
        threading.Event().wait()
    os._exit(0)  # at once: threads of open turns may be blocked forever


if __name__ == "__main__":
    main()
