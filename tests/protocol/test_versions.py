"""What the versions of the protocol say in different ways."""

from typing import Any

import pytest

from acp_proxy.protocol import acp, jsonrpc, versions
from acp_proxy.protocol.jsonrpc import Request, Response
from acp_proxy.protocol.versions import BUSY, IDLE, V1, V2
from tests.conversation import error, line, load, result, resume


@pytest.mark.parametrize("version", [None, True, "1", "2", 0, 3, 1.0, 2.0])
def test_only_the_numbers_1_and_2_are_understood(version: object) -> None:
    assert versions.find_dialect(version) is None
    assert (versions.find_dialect(1), versions.find_dialect(2)) == (V1, V2)


@pytest.mark.parametrize(
    ("begins_at", "method"),
    [
        ({"type": "start"}, acp.LOAD),
        (None, acp.RESUME),
        ({"type": "message", "messageId": "m"}, acp.RESUME),
        ("start", acp.RESUME),
    ],
)
def test_in_version_2_a_resume_with_a_replay_from_the_start_is_a_load(begins_at: object, method: str) -> None:
    message = jsonrpc.read_message(line(resume(1, "s", replayFrom=begins_at)))
    meant = V2.read_as_v1(message)
    assert isinstance(meant, Request)
    assert isinstance(message, Request)
    assert (meant.method, meant.raw) == (method, message.raw)
    assert V1.read_as_v1(message) == message
    assert V2.read_as_v1(jsonrpc.read_message(line(load(1, "s")))) == jsonrpc.read_message(line(load(1, "s")))


@pytest.mark.parametrize(
    ("update", "state"),
    [
        ({"sessionUpdate": "state_update", "state": "idle"}, IDLE),
        ({"sessionUpdate": "state_update", "state": "running"}, BUSY),
        ({"sessionUpdate": "state_update", "state": "_paused"}, BUSY),
        ({"sessionUpdate": "state_update"}, BUSY),
        ({"sessionUpdate": "agent_message", "state": "idle"}, None),
        (None, None),
    ],
)
def test_only_idle_ends_turns(update: Any, state: str | None) -> None:
    assert V2.read_work_state(update) == state
    assert V1.read_work_state(update) is None


def test_in_version_2_a_prompts_result_only_accepts_it() -> None:
    accepted, refused = (jsonrpc.read_message(line(said)) for said in (result(1, {}), error(1, -32000)))
    assert isinstance(accepted, Response)
    assert isinstance(refused, Response)
    assert (V2.is_acceptance(accepted), V2.is_acceptance(refused), V1.is_acceptance(accepted)) == (True, False, False)
