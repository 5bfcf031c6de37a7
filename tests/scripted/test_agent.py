"""The scripted agent alone: what the end-to-end tests rely on."""

import json
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import acp
import anyio
import pytest
from acp import schema

from acp_proxy.tools.demo.display import list_items
from tests.client import TIMEOUT, Client, RequestFailed

SCRIPTS = Path(__file__).parents[2] / "fixtures" / "agents"
AGENT = [sys.executable, "-m", "tests.scripted.agent"]
ALL = "resume,list,load,delete,close,fork"

Start = Callable[..., Client]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start agents that share one memory."""
    clients: list[Client] = []

    def start_agent(*options: str, script: str | dict[str, Any] | None = None, **kwargs: Any) -> Client:
        command = [*AGENT, "--memory", str(tmp_path / "memory"), *options]
        if isinstance(script, str):
            command += ["--script", str(SCRIPTS / f"{script}.json")]
        elif script is not None:
            written = tmp_path / f"script-{len(clients)}.json"
            written.write_text(json.dumps(script))
            command += ["--script", str(written)]
        clients.append(Client(command, **kwargs))
        return clients[-1]

    yield start_agent
    for client in clients:
        client.close()


def opened(client: Client, cwd: Path) -> str:
    client.request("initialize", {"protocolVersion": 1})
    session = client.request("session/new", {"cwd": str(cwd), "mcpServers": []})["sessionId"]
    assert isinstance(session, str)
    return session


def prompt(session: str, text: str) -> dict[str, Any]:
    return {"sessionId": session, "prompt": [{"type": "text", "text": text}]}


def place(session: str, cwd: Path) -> dict[str, Any]:
    return {"sessionId": session, "cwd": str(cwd), "mcpServers": []}


def kinds(updates: list[dict[str, Any]]) -> list[str]:
    return [update["sessionUpdate"] for update in updates]


def text_said(updates: list[dict[str, Any]]) -> str:
    return "".join(told.text for told in list_items(updates) if told.kind == "agent")


def code_of(client: Client, method: str, params: Any) -> Any:
    with pytest.raises(RequestFailed) as refusal:
        client.request(method, params)
    return refusal.value.code


# The agent without a script.


def test_only_resume_is_offered_by_default(start: Start, tmp_path: Path) -> None:
    client = start()
    result = client.request("initialize", {"protocolVersion": 1})
    assert result["protocolVersion"] == 1
    assert result["agentInfo"]["name"] == "acp-proxy-demo-agent"
    assert result["agentCapabilities"]["loadSession"] is False
    assert result["agentCapabilities"]["sessionCapabilities"] == {"resume": {}}
    session = client.request("session/new", {"cwd": str(tmp_path), "mcpServers": []})["sessionId"]
    for method in ("list", "load", "delete", "close", "fork"):
        assert code_of(client, f"session/{method}", place(session, tmp_path)) == -32601


def test_name_and_capabilities_are_options(start: Start) -> None:
    result = start("--capabilities", "list,load", "--name", "other").request("initialize", {"protocolVersion": 1})
    assert result["agentInfo"]["name"] == "other"
    assert result["agentCapabilities"]["loadSession"] is True
    assert result["agentCapabilities"]["sessionCapabilities"] == {"list": {}}
    assert "agentInfo" not in start("--no-info").request("initialize", {"protocolVersion": 1})
    nothing = start("--capabilities", "none").request("initialize", {"protocolVersion": 1})["agentCapabilities"]
    assert nothing["sessionCapabilities"] == {}


def test_the_built_in_turn_has_updates_of_every_kind(start: Start, tmp_path: Path) -> None:
    client = start()
    session = opened(client, tmp_path)
    assert client.request("session/prompt", prompt(session, "a note on otters")) == {"stopReason": "end_turn"}
    updates = client.list_updates(session)
    assert [told.kind for told in list_items(updates)] == ["thought", "plan", "tool call", "image", "agent"]
    assert kinds(updates)[0] == "available_commands_update"
    assert kinds(updates)[-1] == "usage_update"
    assert "a note on otters" in text_said(updates)
    call = next(told.about for told in list_items(updates) if told.kind == "tool call")
    assert (call["kind"], call["status"], call["content"][0]["type"]) == ("edit", "completed", "diff")


def test_a_new_process_remembers_a_resumed_session(start: Start, tmp_path: Path) -> None:
    first = start()
    session = opened(first, tmp_path)
    first.request("session/prompt", prompt(session, "the first words"))
    first.request("session/prompt", prompt(session, "the second words"))
    first.kill()
    second = start()
    assert second.request("session/resume", place(session, tmp_path)) == {}
    assert second.list_updates() == []
    second.request("session/prompt", prompt(session, "and now?"))
    assert "I remember 2 earlier prompts; the first was: the first words" in text_said(second.list_updates(session))


def test_an_unknown_session_is_not_found(start: Start, tmp_path: Path) -> None:
    client = start("--capabilities", ALL)
    for method in ("resume", "load", "fork", "close"):
        assert code_of(client, f"session/{method}", place("../../etc/passwd", tmp_path)) == -32002
    assert code_of(client, "session/prompt", prompt("nobody", "hello")) == -32002


def test_everything_offered_is_served(start: Start, tmp_path: Path) -> None:
    client = start("--capabilities", ALL)
    session = opened(client, tmp_path)
    client.request("session/prompt", prompt(session, "otters\nand more"))
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
    client.request("session/prompt", prompt(fork, "and now?"))
    assert "the first was: otters" in text_said(client.list_updates(fork, since))
    assert client.request("session/close", {"sessionId": fork}) == {}

    assert client.request("session/delete", {"sessionId": session}) == {}
    assert client.request("session/delete", {"sessionId": session}) == {}
    assert [one["sessionId"] for one in client.request("session/list")["sessions"]] == [fork]


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


def test_ids_are_returned_unchanged(start: Start) -> None:
    client = start()
    for request_id in ("a", 7, "7", None, 2**53 - 1):
        client.send({"jsonrpc": "2.0", "id": request_id, "method": "nothing"})
    client.wait_for(lambda one: one["id"] == 2**53 - 1)
    assert [one["id"] for one in client.messages()] == ["a", 7, "7", None, 2**53 - 1]


def test_invalid_messages_are_refused_and_the_agent_continues(start: Start) -> None:
    client = start()
    for line in (b"{", b"42", b"[]", b'"\xff"', b"[" * 100_000, b'{"id":[],"method":"x"}'):
        client.send_line(line)
    client.request("initialize", {"protocolVersion": 1})
    errors = [one["error"]["code"] for one in client.messages()[:-1]]
    assert errors == [-32700, -32600, -32600, -32700, -32700, -32600]
    assert all(one["id"] is None for one in client.messages()[:-1])


def test_requests_sent_together_are_answered_in_order(start: Start, tmp_path: Path) -> None:
    client = start()
    requests = [("initialize", {"protocolVersion": 1}), ("session/new", {"cwd": str(tmp_path)})] * 2
    ids = [client.start_request(method, params) for method, params in requests]
    client.wait_for_answer(ids[-1])
    assert [one["id"] for one in client.messages() if "id" in one] == ids


def test_the_agent_ends_with_its_input(start: Start, tmp_path: Path) -> None:
    client = start(script="cancel")
    session = opened(client, tmp_path)
    client.start_request("session/prompt", prompt(session, "search"))
    client.wait_for_text("searching")
    client.close_stdin()
    assert client.wait() == 0


def test_the_agent_can_ignore_the_end_of_its_input_and_sigterm(start: Start, tmp_path: Path) -> None:
    pidfile = tmp_path / "pid"
    client = start("--ignore-eof", "--ignore-sigterm", "--pidfile", str(pidfile), script={"turns": [[{"sleep": 60}]]})
    session = opened(client, tmp_path)
    assert int(pidfile.read_text()) == client.pid
    client.signal(signal.SIGTERM)
    client.request("initialize", {"protocolVersion": 1})
    client.start_request("session/prompt", prompt(session, "wait"))
    client.close_stdin()
    with pytest.raises(TimeoutError):
        client.wait(0.2)
    client.kill()
    assert client.wait() == -signal.SIGKILL


@pytest.mark.parametrize(
    "script", ["[]", "{", '{"turn": []}', '{"turns": [[{"say": 1}]]}', '{"turns": [[{"stop": "x", "exit": 1}]]}']
)
def test_an_invalid_script_is_wrong_usage(tmp_path: Path, script: str) -> None:
    written = tmp_path / "script.json"
    written.write_text(script)
    with Client([*AGENT, "--script", str(written)]) as client:
        assert client.wait() == 2


# The scripts of the tests.


@pytest.mark.parametrize("by", ["session/cancel", "$/cancel_request"])
def test_a_cancel_ends_only_the_wait_of_its_turn(start: Start, tmp_path: Path, by: str) -> None:
    client = start(script="cancel")
    sessions = [opened(client, tmp_path) for _ in range(2)]
    turns = [client.start_request("session/prompt", prompt(session, "search")) for session in sessions]
    client.wait_for(lambda _: all("tool_call" in kinds(client.list_updates(session)) for session in sessions))
    client.notify(by, {"sessionId": sessions[0], "requestId": turns[0]})
    assert client.wait_for_result(turns[0]) == {"stopReason": "cancelled"}
    assert "I stopped." in text_said(client.list_updates(sessions[0]))
    assert "I stopped." not in text_said(client.list_updates(sessions[1]))
    client.notify("session/cancel", {"sessionId": sessions[1]})
    assert client.wait_for_result(turns[1]) == {"stopReason": "cancelled"}


def test_flood_waits_for_a_client_that_does_not_read(start: Start, tmp_path: Path) -> None:
    client = start(script="flood")
    session = opened(client, tmp_path)
    client.pause()
    turn = client.start_request("session/prompt", prompt(session, "go"))
    with pytest.raises(TimeoutError):
        client.wait_for_answer(turn, 0.1)
    client.notify("session/cancel", {"sessionId": session})
    client.resume()
    assert client.wait_for_result(turn) == {"stopReason": "cancelled"}


def test_a_script_can_change_the_offer_and_answers(start: Start, tmp_path: Path) -> None:
    script = {
        "initialize": {"result": {"agentCapabilities": {"sessionCapabilities": {"resume": None}, "_meta": {"x": 1}}}},
        "sessionIds": "counting",
        "methods": {
            "session/list": {"result": None},
            "session/load": {},
            "_demo/echo": {"before": [{"notify": "_demo/note", "params": {"of": "{session}"}}], "result": {"ok": True}},
        },
        "turns": [
            [{"raw": '{"jsonrpc":"2.0",'}, {"line": '"method":"_demo/cut"}'}, {"result": {"stopReason": "end_turn"}}]
        ],
    }
    client = start("--capabilities", "none", script=script)
    capabilities = client.request("initialize", {"protocolVersion": 1})["agentCapabilities"]
    assert capabilities["_meta"] == {"x": 1}
    assert capabilities["sessionCapabilities"] == {"resume": None}
    assert opened(client, tmp_path) == "session-1"
    assert opened(client, tmp_path) == "session-2"
    assert client.request("session/list") is None
    assert client.request("session/load", place("session-1", tmp_path)) == {}
    assert client.request("_demo/echo", {"sessionId": "session-2"}) == {"ok": True}
    assert client.wait_for_method("_demo/note")["params"] == {"of": "session-2"}
    client.request("session/prompt", prompt("session-1", "go"))
    client.wait_for_method("_demo/cut")


# The official SDK as the client: its models must accept everything.


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
        assert [one.title for one in listed.sessions] == ["first"]
        echoed = editor.kinds.count("user_message_chunk")
        await agent.load_session(cwd=str(tmp_path), session_id=session)
        await editor.has_had(echoed + 3, "user_message_chunk")
        await agent.resume_session(cwd=str(tmp_path), session_id=session)
        fork = await agent.fork_session(cwd=str(tmp_path), session_id=session)
        await agent.close_session(fork.session_id)
