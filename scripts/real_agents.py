"""Real agents, offline: where they lie, and a conversation with one that is killed and opened again.

They lie in ``shared/agents`` beside the checkout, or where ``ACP_REAL_AGENTS`` says, with a stand-in for their model.
Every wait is bounded; an agent that refuses, hangs or dies raises what `tests.client` raises.
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

from scripts.shown import Shown, shown, text_of
from tests.client import Client, OutputEnded, RequestFailed

AGENTS = Path(os.environ.get("ACP_REAL_AGENTS") or Path(__file__).parents[2] / "shared" / "agents")
PATIENCE = 120.0
"""Seconds: the first start of an agent of 500 MB on a very busy machine."""
QUIET = 0.5
"""Seconds without a line, after which a step has brought all that it brings: titles and usage come late."""
QUIET_LIMIT = 15.0  # seconds, for an agent that is never quiet
MINUTE = 60.0
PUNCTUALITY = 1.0  # seconds into a minute, so that it is the next one for everybody
DEATH = 5.0  # seconds, for the kernel to take what was killed

PROXY = (sys.executable, "-m", "acp_proxy", "run")
PROMPTS = ("please TOOL THINK now", "hello again")
AFTERWARDS = "hello after"
METHOD_NOT_FOUND = -32601

Said = str | Sequence[Mapping[str, Any]]
"""A prompt: its words, or its content blocks."""

SESSION_ORDER = ("load", "resume", "list", "delete", "close", "fork")


def installed() -> frozenset[str]:
    """The names of what is there to be started."""
    if not (AGENTS / "setup").exists():
        return frozenset()
    listing = subprocess.run(
        [sys.executable, AGENTS / "setup", "--list"], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    rows = [line.split() for line in listing.stdout.splitlines()]
    return frozenset(row[0] for row in rows if row[1:2] == ["installed"])


@contextmanager
def stand_in_model() -> Iterator[int]:
    """A stand-in model of our own; its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    with Client([sys.executable, AGENTS / "fake-llm", str(port)]) as served:
        served.wait_for(lambda _: True)  # it says where it listens
        yield port


def launched(name: str) -> list[str]:
    """The command of an agent."""
    return [sys.executable, str(AGENTS / "launch"), name]


def environment(port: int, state: Path) -> dict[str, str]:
    """What an agent finds: its model, and a home that outlives it. The caller's settings of the proxy stay outside."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ACP_PROXY_")}
    return {**kept, "FAKE_LLM_PORT": str(port), "ACP_AGENT_STATE": str(state)}


# The client's own duties.


class Workplace:
    """Answers an agent's requests as an editor would: allows what is asked for, and has files and terminals."""

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
        """The command has ended when its terminal is created: the stand-in model's take no time."""
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
    """The first option that allows, else the first."""
    allowed = (option for option in options if str(option.get("kind")).startswith("allow"))
    return next(allowed, options[0])["optionId"]


# A conversation, its end, and its return.


@dataclass
class Lived:
    """A conversation as it was held."""

    initialized: Mapping[str, Any]
    session: str
    shown: Shown
    messages: list[Any]  # all that came


@dataclass
class Reopened:
    """What new processes knew of it. What is not offered is not asked for, and is None."""

    initialized: Mapping[str, Any]
    listed: bool | None = None
    answer: Mapping[str, Any] | None = None  # the load's, else its error
    error: RequestFailed | None = None
    shown: Shown | None = None
    next_turn: Shown | None = None  # what one more prompt brought, else its error
    next_error: RequestFailed | None = None


class Bench:
    """Where the processes of one conversation live. ``options`` are the proxy's; None: the agent alone.

    ``taps``: whether the lines on both sides of the proxy are kept in the base, as ``drivers/tap.py`` writes them.
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
        """Of the next process."""
        self._started += 1
        if not self._taps:
            return [word for part in self._parts for word in part]
        logs = (self._base / f"{self._started:02}-{side}.jsonl" for side in ("client", "agent"))
        tap = [sys.executable, str(AGENTS / "drivers" / "tap.py")]
        return [word for log, part in zip(logs, self._parts, strict=True) for word in (*tap, str(log), *part)]

    @contextmanager
    def client(self) -> Iterator[Client]:
        """A client of the agent. At the end the command and all that it started are killed."""
        workplace = Workplace(self.project)
        with Client(self.command(), env=self._environment, cwd=self.project, on_request=workplace) as client:
            try:
                yield client
            finally:
                kill_all(client, self._base)

    def talk(self, prompts: Sequence[Said] = PROMPTS) -> Lived:
        """Hold a conversation. Proxy and agent are dead when this returns."""
        with self.client() as client:
            initialized = initialize(client)
            session = str(client.request("session/new", self.place(), PATIENCE)["sessionId"])
            whole = Shown()
            for said in prompts:
                whole.add(prompt(client, session, said))
            return Lived(initialized, session, whole, client.messages())

    def reopen(self, session: str) -> Reopened:
        """List and load the session in new processes, as far as that is offered, and say one thing more."""
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
        since = client.mark()
        try:
            found.answer = client.request("session/load", self.place(session), PATIENCE)
        except RequestFailed as refusal:
            found.error = refusal
        settle(client)
        found.shown = shown(client.messages(since), session)
        if found.error is None:
            try:
                found.next_turn = prompt(client, session, AFTERWARDS)
            except RequestFailed as refusal:
                found.next_error = refusal

    def place(self, session: str | None = None) -> dict[str, Any]:
        """The params that open a session here: a new one, or this one."""
        named = {} if session is None else {"sessionId": session}
        return {**named, "cwd": str(self.project), "mcpServers": []}


def initialize(client: Client) -> dict[str, Any]:
    able = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
    about = {"name": "editor", "version": "1.0.0"}
    params = {"protocolVersion": 1, "clientCapabilities": able, "clientInfo": about}
    answer: dict[str, Any] = client.request("initialize", params, PATIENCE)
    return answer


def prompt(client: Client, session: str, said: Said) -> Shown:
    """What a turn shows. Of the prompt, the words before a block that is no text: agents put words around such."""
    since = client.mark()
    client.request("session/prompt", {"sessionId": session, "prompt": blocks(said)}, PATIENCE)
    settle(client)
    return shown(client.messages(since), session, "".join(map(text_of, takewhile(is_text, blocks(said)))))


def blocks(said: Said) -> Sequence[Mapping[str, Any]]:
    return [{"type": "text", "text": said}] if isinstance(said, str) else said


def is_text(block: Mapping[str, Any]) -> bool:
    return block.get("type") == "text"


def offers(initialized: Mapping[str, Any]) -> list[str]:
    """What an answer to initialize offers to do with sessions."""
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


def settle(client: Client) -> None:
    """Wait until nothing comes any more."""
    deadline = time.monotonic() + QUIET_LIMIT
    with suppress(TimeoutError, OutputEnded):
        while time.monotonic() < deadline:
            client.wait_for(lambda _: True, QUIET, since=client.mark())


def kill_all(client: Client, base: Path) -> None:
    """SIGKILL to the command and to all that it started, also to what has left its tree and names its directory."""
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
    """Whether a process was started for this directory: openhands leaves a tmux server behind, which is a daemon."""
    with suppress(psutil.Error):
        return any(str(base) in word for word in process.cmdline())
    return False


def lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
