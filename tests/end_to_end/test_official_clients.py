"""The main job, and the mock agent, driven by the clients of the official SDKs.

Every line that they receive meets their own models.
"""

import asyncio
import json
import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import acp
import anyio
import anyio.to_thread
import pytest
from acp import schema
from acp.connection import StreamDirection, StreamEvent
from pydantic import BaseModel

from acp_proxy.demo.display import ShownItem, tell
from tests.client import TIMEOUT
from tests.end_to_end.proxied import PROXY, Proxied, Updates, conversation, kept, texts

PROMPTS = ("Mend the failing test", "And the other one?", "And the third?")
LAST_PROMPT = "What did I ask you first?"

ROOT = Path(__file__).parents[2]
TYPESCRIPT = ROOT / "tests" / "typescript"
TYPESCRIPT_TIMEOUT = 60.0  # seconds, for two starts of the proxy and the whole conversation

FROM_AGENT: dict[str, type[BaseModel]] = {
    "session/update": schema.SessionNotification,
    "session/request_permission": schema.RequestPermissionRequest,
}
ANSWERS: dict[str, type[BaseModel]] = {
    "initialize": schema.InitializeResponse,
    "session/new": schema.NewSessionResponse,
    "session/prompt": schema.PromptResponse,
    "session/list": schema.ListSessionsResponse,
    "session/load": schema.LoadSessionResponse,
    "session/delete": schema.DeleteSessionResponse,
}


def assert_main_job_was_done(report: dict[str, Any], proxied: Proxied) -> None:
    """Check a client's report: what it saw live, then in a new process."""
    assert report["malformed"] == []
    offered = report["initialized"]["agentCapabilities"]
    assert offered["loadSession"] is True
    assert offered["sessionCapabilities"].keys() == {"resume", "list", "delete"}
    [listed] = report["listed"]
    assert (listed["sessionId"], listed["cwd"]) == (report["session"], str(proxied.project))
    assert listed["title"] == PROMPTS[0]
    assert listed["_meta"]["messageCount"] == 2 * len(PROMPTS)
    turns = zip(PROMPTS, report["live"], strict=True)
    live = [told for text, turn in turns for told in [ShownItem("user", text), *kept(turn)]]
    assert tell(report["loaded"]) == live
    assert {told.kind for told in live} == {"user", "thought", "plan", "agent", "tool call", "image", "resource_link"}
    assert f"I remember 3 earlier prompts; the first was: {PROMPTS[0]}" in texts(report["further"])
    assert report["left"] == []
    assert report["status"] == 0
    assert proxied.transcripts() == []


def mock_agent(proxied: Proxied) -> tuple[str, list[str]]:
    """A recorded session, and the command of a mock agent that has it."""
    session = proxied.recorded(*PROMPTS)
    return session, [*PROXY, "mock-agent", "--speed", "0", str(proxied.transcript(session))]


def assert_recorded_session_was_played(report: dict[str, Any], recorded: str) -> None:
    """Check a client's report: what it saw of the session, and of a new one with the same first prompt."""
    assert report["malformed"] == []
    assert [(row["sessionId"], row["title"]) for row in report["listed"]] == [(recorded, PROMPTS[0])]
    told = tell(report["loaded"])
    assert [one.text for one in told if one.kind == "user"] == list(PROMPTS)
    second = [one.text for one in told].index(PROMPTS[1])
    assert [ShownItem("user", PROMPTS[0]), *kept(report["live"])] == told[:second]
    continued, live = (conversation(report[which]) for which in ("continued", "live"))
    assert continued == live  # state updates follow the answer to a load, and may arrive with the next prompt
    assert report["session"] != recorded
    assert (report["left"], report["status"]) == ([], 0)


# Python


class Editor:
    """The SDK's callbacks for the agent's requests."""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        pass

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[schema.PermissionOption], **_: Any
    ) -> schema.RequestPermissionResponse:
        chosen = schema.AllowedOutcome(outcome="selected", option_id=options[0].option_id)
        return schema.RequestPermissionResponse(outcome=chosen)

    def on_connect(self, conn: acp.Agent) -> None:
        pass


class Wire:
    """All messages of one process as the SDK saw them."""

    def __init__(self) -> None:
        self._incoming: list[dict[str, Any]] = []
        self._methods: dict[int, str] = {}

    def observe(self, event: StreamEvent) -> None:
        if event.direction is StreamDirection.INCOMING:
            self._incoming.append(event.message)
        elif "method" in event.message and "id" in event.message:
            self._methods[event.message["id"]] = event.message["method"]

    async def ask(self, call: Awaitable[Any]) -> tuple[Any, Updates]:
        """The result of one request, and the updates that came before it."""
        since = len(self._incoming)
        with anyio.fail_after(TIMEOUT):
            await call
        came = self._incoming[since:]
        at = next(at for at, message in enumerate(came) if "method" not in message)
        updates = [message["params"]["update"] for message in came[:at] if message["method"] == "session/update"]
        return came[at]["result"], updates

    def malformed(self) -> list[str]:
        """The messages that the SDK's models reject, with the reason."""
        found = []
        for message in self._incoming:
            answers = self._methods.get(message["id"], "") if "method" not in message else ""
            model = ANSWERS.get(answers) or FROM_AGENT.get(message.get("method", ""))
            try:
                if model is None or message.get("jsonrpc") != "2.0":
                    raise ValueError("nothing of the kind is expected")
                value = message["result"] if answers else message["params"]
                if not contains(model.model_validate(value).model_dump(mode="json", by_alias=True), value):
                    raise ValueError("a part of it was left out")
            except (KeyError, ValueError) as problem:  # ValidationError is a ValueError
                found.append(f"{message}: {problem}")
        return found


def contains(made: Any, value: Any) -> bool:
    """Whether the model still has every field; models add defaults and drop what they cannot read."""
    match value:
        case dict():
            return isinstance(made, dict) and all(contains(made.get(key), value[key]) for key in value)
        case list():
            return isinstance(made, list) and len(made) == len(value) and all(map(contains, made, value))
        case _:
            return bool(made == value)


class Connected:
    """One process, with the requests of a client."""

    def __init__(self, agent: Any, process: asyncio.subprocess.Process, wire: Wire, project: Path) -> None:
        self.process = process
        self._agent = agent
        self._wire = wire
        self._cwd = str(project)

    async def initialize(self) -> Any:
        about = schema.Implementation(name="editor", version="1.0.0")
        wanted = self._agent.initialize(acp.PROTOCOL_VERSION, schema.ClientCapabilities(), about)
        return (await self._wire.ask(wanted))[0]

    async def new(self) -> str:
        opened, _ = await self._wire.ask(self._agent.new_session(self._cwd, mcp_servers=[]))
        assert isinstance(opened["sessionId"], str)
        return opened["sessionId"]

    async def prompt(self, session: str, text: str) -> Updates:
        return (await self._wire.ask(self._agent.prompt(session, [acp.text_block(text)])))[1]

    async def list(self) -> Any:
        return (await self._wire.ask(self._agent.list_sessions(cwd=self._cwd)))[0]["sessions"]

    async def load(self, session: str) -> Updates:
        return (await self._wire.ask(self._agent.load_session(self._cwd, session, mcp_servers=[])))[1]

    async def delete(self, session: str) -> None:
        # The SDK has models of session/delete, but no method for it.
        await self._wire.ask(self._agent._conn.send_request("session/delete", {"sessionId": session}))


@asynccontextmanager
async def connected(command: list[str], project: Path, malformed: list[str]) -> AsyncIterator[Connected]:
    wire = Wire()
    editor = cast(acp.Client, Editor())
    async with acp.spawn_agent_process(editor, *command, observers=[wire.observe]) as (agent, process):
        yield Connected(agent, process, wire, project)
    malformed += wire.malformed()


@pytest.mark.anyio
async def test_the_python_client_does_the_main_job(proxied: Proxied, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)  # the SDK only logs what it cannot read
    report: dict[str, Any] = {"malformed": []}
    place = proxied.command("conversation"), proxied.project, report["malformed"]
    async with connected(*place) as editor:
        await editor.initialize()
        report["session"] = session = await editor.new()
        report["live"] = [await editor.prompt(session, text) for text in PROMPTS]
        editor.process.kill()
        await editor.process.wait()
    async with connected(*place) as editor:
        report["initialized"] = await editor.initialize()
        report["listed"] = await editor.list()
        report["loaded"] = await editor.load(session)
        report["further"] = await editor.prompt(session, LAST_PROMPT)
        await editor.delete(session)
        report["left"] = await editor.list()
    report["status"] = editor.process.returncode
    assert_main_job_was_done(report, proxied)
    assert caplog.messages == []


@pytest.mark.anyio
async def test_the_python_client_plays_a_recorded_session(proxied: Proxied, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    recorded, command = await anyio.to_thread.run_sync(mock_agent, proxied)
    report: dict[str, Any] = {"malformed": []}
    async with connected(command, proxied.project, report["malformed"]) as editor:
        await editor.initialize()
        report["listed"] = await editor.list()
        report["loaded"] = await editor.load(recorded)
        report["continued"] = await editor.prompt(recorded, PROMPTS[0])
        report["session"] = await editor.new()
        report["live"] = await editor.prompt(report["session"], PROMPTS[0])
        for session in (recorded, report["session"]):
            await editor.delete(session)
        report["left"] = await editor.list()
    report["status"] = editor.process.returncode
    assert_recorded_session_was_played(report, recorded)
    assert caplog.messages == []


def test_the_example_in_the_documentation_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "mock-agent.md").read_text(encoding="utf-8")
    [example] = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert "tests/recordings/login.jsonl" in example
    monkeypatch.chdir(ROOT)
    names: dict[str, Any] = {}
    exec(example.replace("tests/recordings/login.jsonl", "fixtures/transcripts/v1/conversation.jsonl"), names)  # noqa: S102 - ours
    names["test_the_words_arrive_in_order"]()


# TypeScript


def node() -> str:
    """Node beside our Python, where `make test` installs it, or on the PATH."""
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    found = shutil.which("node", path=places)
    if found is None:
        pytest.skip("Node is not there")
    if not (TYPESCRIPT / "node_modules" / "@agentclientprotocol" / "sdk").is_dir():
        pytest.skip("the TypeScript SDK is not installed; `make test` does it")
    return found


def typescript(program: str, *words: str) -> Any:
    """The report of one of the programs."""
    command = [node(), str(TYPESCRIPT / program), *words]
    there = os.environ | {"PYTHONPATH": str(ROOT)}  # the scripted agent starts in another directory
    ended = subprocess.run(command, capture_output=True, text=True, timeout=TYPESCRIPT_TIMEOUT, check=False, env=there)
    assert (ended.stderr, ended.returncode) == ("", 0)
    return json.loads(ended.stdout)


def test_the_typescript_client_does_the_main_job(proxied: Proxied) -> None:
    words = [str(proxied.project), *PROMPTS, LAST_PROMPT]
    report = typescript("main_job.mjs", *words, "--", *proxied.command("conversation"))
    assert_main_job_was_done(report, proxied)


def test_the_typescript_client_plays_a_recorded_session(proxied: Proxied) -> None:
    node()
    recorded, command = mock_agent(proxied)
    report = typescript("mock_agent.mjs", str(proxied.project), recorded, PROMPTS[0], "--", *command)
    assert_recorded_session_was_played(report, recorded)
