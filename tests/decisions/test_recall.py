"""The server of recall in requests that open a session: nothing else in their lines changes."""

import json
from typing import Any

import pytest
from hypothesis import given as any_of
from hypothesis import strategies as st

from acp_proxy.decisions import capabilities
from acp_proxy.protocol import jsonrpc, versions
from tests.conversation import (
    LOADS,
    RESUMES,
    CoreConversation,
    error,
    initialize_answer,
    line,
    load,
    raw,
    request,
    respell,
    result,
    resume,
)
from tests.conversation import SimulatedSession as SessionFileState
from tests.strategies import values

COMMAND = ("/python", "-m", "acp_proxy", "mcp")
SERVER = {"name": "acp-proxy", "command": "/python", "args": [*COMMAND[1:], "--cwd", "/p"], "env": []}
USERS = {"name": "mine", "command": "/mine", "args": [], "env": []}
OPENING = ["session/new", "session/load", "session/resume", "session/fork"]


def talk(offered: Any = None) -> CoreConversation:
    return CoreConversation(recall=COMMAND).initialize(offered)


def opens(method: str = "session/new", **more: Any) -> dict[str, Any]:
    """A request that opens a session in a directory."""
    named = {} if method == "session/new" else {"sessionId": "s"}
    return request(1, method, named | {"cwd": "/p", "mcpServers": []} | more)


def add_recall(said: Any, form: versions.Dialect = versions.V1) -> bytes:
    sent = line(said)
    return capabilities.with_recall_server(sent, jsonrpc.read_message(sent), COMMAND, form)


def servers(sent: bytes) -> Any:
    return json.loads(sent)["params"]["mcpServers"]


@pytest.mark.parametrize("method", OPENING)
def test_a_request_that_opens_a_session_gets_the_server_after_the_users(method: str) -> None:
    said = opens(method, mcpServers=[USERS])
    assert add_recall(said) == line({**said, "params": {**said["params"], "mcpServers": [USERS, SERVER]}})


def test_a_request_with_another_spelling_keeps_every_other_byte() -> None:
    said = respell(opens(mcpServers=[USERS], _meta={"price": "2"})).replace(b'"2"', b"2.50")
    own = respell(USERS).strip()
    assert add_recall(said) == said.replace(own, own + b"," + raw(SERVER))


@pytest.mark.parametrize("own", [[], None])
def test_a_request_with_an_empty_list_of_servers_gets_a_list_of_one(own: Any) -> None:
    assert servers(add_recall(opens(mcpServers=own))) == [SERVER]


def test_a_request_without_a_list_of_servers_gets_one() -> None:
    said = line(request(1, "session/resume", {"sessionId": "s", "cwd": "/p"}))
    assert add_recall(said) == said.replace(b'"/p"', b'"/p","mcpServers":[' + raw(SERVER) + b"]")


@pytest.mark.parametrize(
    "said",
    [
        opens(cwd=None),
        opens(cwd="p"),
        opens(cwd=1),
        opens(mcpServers={"mine": USERS}),
        opens(mcpServers="mine"),
        opens(mcpServers=[USERS, SERVER | {"command": "/another"}]),
        request(1, "session/new"),
        request(1, "session/new", []),
        request(1, "session/prompt", {"sessionId": "s", "cwd": "/p", "mcpServers": []}),
        [opens()],
        b"session/new\n",
    ],
)
def test_everything_else_passes_unchanged(said: Any) -> None:
    assert add_recall(said) == line(said)


def test_in_version_2_the_server_names_its_type() -> None:
    said = resume(1, "s", cwd="/p", replayFrom={"type": "start"})
    sent = line(said)
    meant = versions.V2.read_as_v1(jsonrpc.read_message(sent))
    assert servers(capabilities.with_recall_server(sent, meant, COMMAND, versions.V2)) == [{"type": "stdio"} | SERVER]


@pytest.mark.parametrize(
    ("offered", "is_given"), [({"mcp": {"stdio": {}}}, True), ({"mcp": {"http": {}}}, False), ({}, False)]
)
def test_in_version_2_only_an_agent_that_starts_servers_gets_it(offered: Any, is_given: bool) -> None:
    talked = CoreConversation(recall=COMMAND)
    talked.client.say(request("initialize", "initialize", {"protocolVersion": 2}))
    talked.agent.say(
        result("initialize", {"protocolVersion": 2, "info": {"name": "a"}, "capabilities": {"session": offered}})
    )
    step = talked.client.say(opens())
    assert (step.to_agent != line(opens())) is is_given


def test_nothing_is_added_before_the_agent_has_answered_or_without_the_option_or_in_an_unknown_version() -> None:
    early, off, unknown = (
        CoreConversation(recall=COMMAND),
        CoreConversation().initialize(),
        CoreConversation(recall=COMMAND),
    )
    unknown.client.say(request("initialize", "initialize", {"protocolVersion": 9}))
    unknown.agent.say(initialize_answer("initialize", protocolVersion=9))
    for talked in (early, off, unknown):
        assert talked.client.say(opens()).to_agent == line(opens())


def test_a_load_that_becomes_a_resume_keeps_the_server() -> None:
    talked = talk(RESUMES)
    talked.stored["s"] = SessionFileState()
    step = talked.client.say(opens("session/load"))
    assert json.loads(step.to_agent)["method"] == "session/resume"
    assert servers(step.to_agent) == [SERVER]


def test_a_session_that_is_handed_over_keeps_the_server() -> None:
    talked = talk(LOADS)
    talked.stored["s"] = SessionFileState()
    talked.client.say(opens("session/load"))
    step = talked.agent.say(error(1, -32002))
    assert json.loads(step.to_agent)["method"] == "session/new"
    assert servers(step.to_agent) == [SERVER]


def test_a_load_that_waits_is_given_the_server_once() -> None:
    talked = talk(LOADS)
    talked.stored["s"] = SessionFileState()
    step = talked.client.say(opens("session/load"), load(2, "t"))
    first, *_ = step.to_agent.splitlines()
    assert servers(first) == [SERVER]


@any_of(st.sampled_from(OPENING), st.dictionaries(st.sampled_from(["cwd", "mcpServers", "sessionId", "x"]), values))
def test_any_request_keeps_its_values_and_has_at_most_one_server_more(method: str, params: dict[str, Any]) -> None:
    said = request(1, method, {"cwd": "/p"} | params)
    before, after = json.loads(line(said))["params"], json.loads(add_recall(said))["params"]
    own, more = before.pop("mcpServers", None), after.pop("mcpServers", None)
    assert before == after
    assert more == own or more == [*(own or []), SERVER | {"args": [*COMMAND[1:], "--cwd", before["cwd"]]}]
