"""A client of the official Python SDK, whose models judge every line that it receives.

Imported by the tests that use it, not when tests are collected: the SDK takes more than a second.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import acp
import anyio
from acp import schema
from acp.connection import StreamDirection, StreamEvent
from pydantic import BaseModel

from tests.client import TIMEOUT
from tests.end_to_end.proxied import Updates

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
async def connect(command: list[str], project: Path, malformed: list[str]) -> AsyncIterator[Connected]:
    wire = Wire()
    editor = cast(acp.Client, Editor())
    patient = {"shutdown_timeout": TIMEOUT}
    opening = acp.spawn_agent_process(editor, *command, transport_kwargs=patient, observers=[wire.observe])
    async with opening as (agent, process):
        yield Connected(agent, process, wire, project)
    malformed += wire.malformed()
