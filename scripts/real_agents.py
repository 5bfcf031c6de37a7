"""Real agents, offline: their installation, and a conversation with one that is killed and reopened.

They are in ``shared/agents`` beside the checkout, or in ``ACP_REAL_AGENTS``, with a stand-in for their model. Every
wait is bounded; an agent that refuses, hangs or dies raises the errors of `tests.client`.
"""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import psutil

from scripts.shown import Shown, read_shown, text_of
from tests.client import Client, OutputEnded, RequestFailed

AGENTS = Path(os.environ.get("ACP_REAL_AGENTS") or Path(__file__).parents[2] / "shared" / "agents")
PATIENCE = 120.0
"""Seconds: the first start of an agent of 500 MB on a very busy machine."""
QUIET = 0.5
"""Seconds of silence that end a step: titles and usage come late."""
QUIET_LIMIT = 15.0  # seconds, for an agent that is never silent
MINUTE = 60.0
PUNCTUALITY = 1.0  # seconds into a minute, so that it has begun for every process
DEATH = 5.0  # seconds until the kernel has removed killed processes

PROXY = (sys.executable, "-m", "acp_proxy", "run")
PROMPTS = ("please TOOL THINK now", "hello again")
AFTERWARDS = "hello after"
METHOD_NOT_FOUND = -32601

Said = str | Sequence[Mapping[str, Any]]
"""A prompt: its text, or its content blocks."""

SESSION_ORDER = ("load", "resume", "list", "delete", "close", "fork")


def installed() -> frozenset[str]:
    """The names of the installed agents."""
    if not (AGENTS / "setup").exists():
        return frozenset()
    listing = subprocess.run(
        [sys.executable, AGENTS / "setup", "--list"], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    rows = [line.split() for line in listing.stdout.splitlines()]
    return frozenset(row[0] for row in rows if row[1:2] == ["installed"])


@contextmanager
def stand_in_model(log: Path | None = None) -> Iterator[int]:
    """Start a stand-in model. Its port. ``log``: the file for what it is asked, as lines of JSON."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    logs = ["--log", str(log)] if log is not None else []
    with Client([sys.executable, AGENTS / "fake-llm", str(port), *logs]) as served:
        served.wait_for(lambda _: True)  # it prints its address
        yield port


def launched(name: str) -> list[str]:
    """The command of an agent."""
    return [sys.executable, str(AGENTS / "launch"), name]


def environment(port: int, state: Path) -> dict[str, str]:
    """An agent's environment: its model, and a lasting home, without the caller's settings of the proxy."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ACP_PROXY_")}
    return {**kept, "FAKE_LLM_PORT": str(port), "ACP_AGENT_STATE": str(state)}


# The client's side.


class Workplace:
    """Answers an agent's requests like an editor: allows permissions, and has files and terminals."""

    def __init__(self, project: Path) -> None:
        self._project = project
        self._terminals: dict[str, tuple[str, int]] = {}
        self._lock = threading.Lock()

    def __call__(self, request: dict[str, Any]) -> Any:
        params = request.get("params") or {}
        match request["method"]:
            case "session/request_permission":
                return {"outcome": {"outcome": "selected", "optionId": allowing(params["options"])}}
            case "fs/read_text_file":
                return {"content": Path(params["path"]).read_text(encoding="utf-8")}
            case "fs/write_text_file":
                Path(params["path"]).write_text(params["content"], encoding="utf-8")
                return {}
            case "terminal/create":
                return {"terminalId": self._run(params)}
            case "terminal/output":
                output, status = self._terminals[params["terminalId"]]
                return {"output": output, "truncated": False, "exitStatus": {"exitCode": status}}
            case "terminal/wait_for_exit":
                return {"exitCode": self._terminals[params["terminalId"]][1]}
            case "terminal/release" | "terminal/kill":
                return {}
            case method:
                raise RequestFailed({"code": METHOD_NOT_FOUND, "message": f"Method not found: {method}"})

    def _run(self, params: Mapping[str, Any]) -> str:
        """Run the command to its end before its terminal exists: the stand-in model's commands take no time."""
        words = [params["command"], *params["args"]] if params.get("args") else ["sh", "-c", params["command"]]
        done = subprocess.run(
            words,
            cwd=params.get("cwd") or self._project,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE,
            check=False,
        )
        with self._lock:
            name = f"terminal-{len(self._terminals) + 1}"
            self._terminals[name] = done.stdout.decode(errors="replace"), done.returncode
        return name


def allowing(options: Sequence[Mapping[str, Any]]) -> Any:
    """The first option that allows, else the first one."""
    allowed = (option for option in options if str(option.get("kind")).startswith("allow"))
    return next(allowed, options[0])["optionId"]


# A conversation, a kill, and the return.


@dataclass
class Lived:
    """A conversation that was held."""

    initialized: Mapping[str, Any]
    session: str
    shown: Shown
    messages: list[Any]  # every line received


@dataclass
class Reopened:
    """What new processes showed of it. Parts that the agent does not offer are None."""

    initialized: Mapping[str, Any]
    listed: bool | None = None
    answer: Mapping[str, Any] | None = None  # the load's result; else `error` is set
    error: RequestFailed | None = None
    shown: Shown | None = None
    next_turn: Shown | None = None  # one more turn; else `next_error` is set
    next_error: RequestFailed | None = None


class Bench:
    """The place of a conversation's processes. ``options`` are the proxy's; None: the agent without it.

    ``taps``: keep the lines on both sides of the proxy in the base, as ``drivers/tap.py`` writes them.
    """

    def __init__(
        self, base: Path, name: str, port: int, options: Sequence[str] | None = (), *, taps: bool = False
    ) -> None:
        self.name = name
        self._base = base
        self.project = base / "project"
        self.project.mkdir(parents=True)
        self.store = base / "store"
        proxy = [] if options is None else [*PROXY, "--store", str(self.store), *options, "--"]
        self._parts = [proxy, launched(name)]
        self._environment = environment(port, base / "state")
        self._taps = taps
        self._started = 0

    def command(self) -> list[str]:
        """The command of the next process."""
        self._started += 1
        if not self._taps:
            return [word for part in self._parts for word in part]
        logs = (self._base / f"{self._started:02}-{side}.jsonl" for side in ("client", "agent"))
        tap = [sys.executable, str(AGENTS / "drivers" / "tap.py")]
        return [word for log, part in zip(logs, self._parts, strict=True) for word in (*tap, str(log), *part)]

    @contextmanager
    def client(self) -> Iterator[Client]:
        """A client of the agent. At its end, the command and all its descendants are killed."""
        workplace = Workplace(self.project)
        with Client(self.command(), env=self._environment, cwd=self.project, on_request=workplace) as client:
            try:
                yield client
            finally:
                kill_all(client, self._base)

    def talk(self, prompts: Sequence[Said] = PROMPTS) -> Lived:
        """Hold a conversation, then kill the proxy and the agent."""
        with self.client() as client:
            initialized = initialize(client)
            session = str(client.request("session/new", self.place(), PATIENCE)["sessionId"])
            whole = Shown()
            for said in prompts:
                whole.add(prompt(client, session, said))
            return Lived(initialized, session, whole, client.messages())

    def reopen(self, session: str) -> Reopened:
        """List and load the session in new processes, as far as offered, and send one more prompt."""
        with self.client() as client:
            found = Reopened(initialize(client))
            offered = offers(found.initialized)
            if "list" in offered:
                entries = client.request("session/list", {"cwd": str(self.project)}, PATIENCE)["sessions"]
                found.listed = session in [entry["sessionId"] for entry in entries]
            if "load" in offered:
                self._load(client, session, found)
            return found

    def _load(self, client: Client, session: str, found: Reopened) -> None:
        since = client.count_lines()
        try:
            found.answer = client.request("session/load", self.place(session), PATIENCE)
        except RequestFailed as refusal:
            found.error = refusal
        wait_for_quiet(client)
        found.shown = read_shown(client.messages(since), session)
        if found.error is None:
            try:
                found.next_turn = prompt(client, session, AFTERWARDS)
            except RequestFailed as refusal:
                found.next_error = refusal

    def place(self, session: str | None = None) -> dict[str, Any]:
        """The params that open a session here: a new one, or this one."""
        named = {} if session is None else {"sessionId": session}
        return {**named, "cwd": str(self.project), "mcpServers": []}


def initialize(client: Client, *air: str) -> dict[str, Any]:
    """The agent's answer. ``air``: what the client declares of JetBrains' extensions."""
    able: dict[str, Any] = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
    if air:
        able["_meta"] = {"jetbrains": {"air": {"version": 1, "capabilities": list(air)}}}
    about = {"name": "editor", "version": "1.0.0"}
    params = {"protocolVersion": 1, "clientCapabilities": able, "clientInfo": about}
    answer: dict[str, Any] = client.request("initialize", params, PATIENCE)
    return answer


def prompt(client: Client, session: str, said: Said) -> Shown:
    """What a turn shows. Of the prompt, the text before any other block: agents add text around those."""
    since = client.count_lines()
    client.request("session/prompt", {"sessionId": session, "prompt": blocks(said)}, PATIENCE)
    wait_for_quiet(client)
    return read_shown(client.messages(since), session, "".join(map(text_of, takewhile(is_text, blocks(said)))))


def blocks(said: Said) -> Sequence[Mapping[str, Any]]:
    return [{"type": "text", "text": said}] if isinstance(said, str) else said


def is_text(block: Mapping[str, Any]) -> bool:
    return block.get("type") == "text"


def offers(initialized: Mapping[str, Any]) -> list[str]:
    """The session methods that an answer to initialize offers."""
    capabilities = initialized.get("agentCapabilities") or {}
    marked = capabilities.get("sessionCapabilities") or {}
    names = {name for name, marker in marked.items() if marker not in (None, False)} - {"_meta"}
    if capabilities.get("loadSession") is True:
        names.add("load")
    return [*(name for name in SESSION_ORDER if name in names), *sorted(names.difference(SESSION_ORDER))]


def second_of_the_minute() -> float:
    return time.time() % MINUTE


def wait_for_the_next_minute() -> None:
    time.sleep(MINUTE - second_of_the_minute() + PUNCTUALITY)


def wait_for_quiet(client: Client) -> None:
    """Wait until no line comes any more."""
    deadline = time.monotonic() + QUIET_LIMIT
    with suppress(TimeoutError, OutputEnded):
        while time.monotonic() < deadline:
            client.wait_for(lambda _: True, QUIET, since=client.count_lines())


def kill_all(client: Client, base: Path) -> None:
    """Send SIGKILL to the command and all its descendants, including detached ones that name its directory."""
    with suppress(psutil.NoSuchProcess):
        started = psutil.Process(client.pid).children(recursive=True)
        client.kill()
        started += [process for process in psutil.process_iter() if names(process, base)]
        for process in started:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        deadline = time.monotonic() + DEATH
        while any(map(lives, started)) and time.monotonic() < deadline:
            time.sleep(0.02)


def names(process: psutil.Process, base: Path) -> bool:
    """Whether a process was started for this directory: openhands leaves a tmux server behind, a daemon."""
    with suppress(psutil.Error):
        return any(str(base) in word for word in process.cmdline())
    return False


def lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
