"""The scripted agent alone: what the end-to-end tests rely on and would not find.

They find if it forgets, does not hear a cancel, ends or does not end with its input, or lists too much.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import acp
import anyio
import pytest
from acp import schema

from acp_proxy.tools.demo.display import list_items
from tests.client import TIMEOUT, Client, code_of, prompt_params

SCRIPTS = Path(__file__).parents[2] / "fixtures" / "agents"
AGENT = [sys.executable, "-m", "tests.scripted.agent"]
ALL = "resume,list,load,delete,close,fork"

Start = Callable[..., Client]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start agents that share one memory."""
    clients: list[Client] = []

    def start_agent(*options: str) -> Client:
        clients.append(Client([*AGENT, "--memory", str(tmp_path / "memory"), *options]))
        return clients[-1]

    yield start_agent
    for client in clients:
        client.close()


def open_session(client: Client, cwd: Path) -> str:
    client.request("initialize", {"protocolVersion": 1})
    session = client.request("session/new", {"cwd": str(cwd), "mcpServers": []})["sessionId"]
    assert isinstance(session, str)
    return session


def place(session: str, cwd: Path) -> dict[str, Any]:
    return {"sessionId": session, "cwd": str(cwd), "mcpServers": []}


def kinds(updates: list[dict[str, Any]]) -> list[str]:
    return [update["sessionUpdate"] for update in updates]


def text_said(updates: list[dict[str, Any]]) -> str:
    return "".join(told.text for told in list_items(updates) if told.kind == "agent")


def test_an_unknown_session_is_not_found(start: Start, tmp_path: Path) -> None:
    client = start("--capabilities", ALL)
    for method in ("resume", "load", "fork", "close"):
        assert code_of(client, f"session/{method}", place("../../etc/passwd", tmp_path)) == -32002
    assert code_of(client, "session/prompt", prompt_params("nobody", "hello")) == -32002


def test_everything_offered_is_served(start: Start, tmp_path: Path) -> None:
    client = start("--capabilities", ALL)
    session = open_session(client, tmp_path)
    client.request("session/prompt", prompt_params(session, "otters\nand more"))
    [entry] = client.request("session/list", {"cwd": str(tmp_path)})["sessions"]
    assert (entry["sessionId"], entry["cwd"], entry["title"]) == (session, str(tmp_path), "otters")
    assert entry["updatedAt"].endswith("Z")
    assert client.request("session/list", {"cwd": "/elsewhere"}) == {"sessions": []}
    assert code_of(client, "session/list", {"cursor": "x"}) == -32602

    since = client.count_lines()
    request_id = client.start_request("session/load", place(session, tmp_path))
    assert client.wait_for_result(request_id) == {}
    assert kinds(client.list_updates(session, since)) == ["user_message_chunk", "agent_message_chunk"]
    assert client.find_answer(request_id) == since + 2

    fork = client.request("session/fork", place(session, tmp_path))["sessionId"]
    since = client.count_lines()
    client.request("session/prompt", prompt_params(fork, "and now?"))
    assert "the first was: otters" in text_said(client.list_updates(fork, since))
    assert client.request("session/close", {"sessionId": fork}) == {}

    assert client.request("session/delete", {"sessionId": session}) == {}
    assert client.request("session/delete", {"sessionId": session}) == {}
    assert [row["sessionId"] for row in client.request("session/list")["sessions"]] == [fork]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("initialize", {}),
        ("initialize", {"protocolVersion": True}),
        ("session/new", None),
        ("session/new", {"cwd": "relative"}),
        ("session/new", {"cwd": 1}),
        ("session/new", {"cwd": "/", "mcpServers": {}}),
        ("session/new", ["/"]),
        ("session/resume", {"cwd": "/"}),
        ("session/prompt", {"sessionId": "x"}),
        ("session/prompt", {"sessionId": "x", "prompt": ["text"]}),
        ("session/prompt", {"sessionId": "x", "prompt": [{"type": "text"}]}),
    ],
)
def test_invalid_params_are_refused(start: Start, method: str, params: Any) -> None:
    assert code_of(start(), method, params) == -32602


def test_invalid_messages_are_refused_and_the_agent_continues(start: Start) -> None:
    client = start()
    for line in (b"{", b"42", b"[]", b'"\xff"', b"[" * 100_000, b'{"id":[],"method":"x"}'):
        client.send_line(line)
    client.request("initialize", {"protocolVersion": 1})
    errors = [message["error"]["code"] for message in client.messages()[:-1]]
    assert errors == [-32700, -32600, -32600, -32700, -32700, -32600]
    assert all(message["id"] is None for message in client.messages()[:-1])


@pytest.mark.parametrize(
    "script", ["[]", "{", '{"turn": []}', '{"turns": [[{"say": 1}]]}', '{"turns": [[{"stop": "x", "exit": 1}]]}']
)
def test_an_invalid_script_is_wrong_usage(tmp_path: Path, script: str) -> None:
    written = tmp_path / "script.json"
    written.write_text(script)
    with Client([*AGENT, "--script", str(written)]) as client:
        assert client.wait() == 2


# --- the official SDK as the client: its models must accept everything


class Editor:
    def __init__(self) -> None:
        self.kinds: list[str] = []
        self._came = anyio.Condition()

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        async with self._came:
            self.kinds.append(update.session_update)
            self._came.notify_all()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[schema.PermissionOption], **_: Any
    ) -> schema.RequestPermissionResponse:
        chosen = schema.AllowedOutcome(outcome="selected", option_id=options[0].option_id)
        return schema.RequestPermissionResponse(outcome=chosen)

    def on_connect(self, conn: acp.Agent) -> None:
        pass

    async def has_had(self, count: int, kind: str) -> None:
        with anyio.fail_after(TIMEOUT):
            async with self._came:
                while self.kinds.count(kind) < count:
                    await self._came.wait()


@pytest.mark.anyio
@pytest.mark.parametrize("script", [None, "conversation", "early-updates", "echo", "title"])
async def test_the_official_client_accepts_every_update(tmp_path: Path, script: str | None) -> None:
    editor = Editor()
    options = ["--memory", str(tmp_path / "memory"), "--capabilities", ALL]
    options += ["--script", str(SCRIPTS / f"{script}.json")] if script else []
    async with acp.spawn_agent_process(cast(acp.Client, editor), *AGENT, *options) as (agent, _):
        offered = await agent.initialize(acp.PROTOCOL_VERSION)
        assert offered.agent_capabilities is not None
        assert offered.agent_capabilities.load_session
        session = (await agent.new_session(str(tmp_path), mcp_servers=[])).session_id
        for text in ("first", "second", "third"):
            turn = await agent.prompt(session, [acp.text_block(text)])
            assert turn.stop_reason == "end_turn"
        listed = await agent.list_sessions(cwd=str(tmp_path))
        assert [row.title for row in listed.sessions] == ["first"]
        echoed = editor.kinds.count("user_message_chunk")
        await agent.load_session(cwd=str(tmp_path), session_id=session)
        await editor.has_had(echoed + 3, "user_message_chunk")
        await agent.resume_session(cwd=str(tmp_path), session_id=session)
        fork = await agent.fork_session(cwd=str(tmp_path), session_id=session)
        await agent.close_session(fork.session_id)
