"""Modes and options of a session: what was announced, and what is chosen."""

from typing import Any

from acp_proxy.protocol import acp, update_kinds
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.tools.mock_agent.state import PlayedState
from tests.store import transcript_lines
from tests.tools.mock_agent.recording import MODES

MODEL = {
    "id": "model",
    "name": "Model",
    "type": "select",
    "currentValue": "small",
    "options": [
        {"value": "small", "name": "Small"},
        {"group": "g", "name": "Large", "options": [{"value": "large", "name": "Large"}]},
    ],
}
SOUND = {"id": "sound", "name": "Sound", "type": "boolean", "currentValue": False}


def taken(*lines: bytes) -> PlayedState:
    state = PlayedState()
    for line in lines:
        state.take(transcript_lines.entry(line))
    return state


def mode(state: PlayedState) -> Any:
    return acp.member(state.describe()["modes"], "currentModeId")


def set_mode(wanted: str, answer: dict[str, Any]) -> tuple[bytes, bytes]:
    request = {"id": 9, "method": acp.SET_MODE, "params": {"sessionId": transcript_lines.SESSION, "modeId": wanted}}
    return transcript_lines.message(request, Peer.CLIENT), transcript_lines.message(
        {"id": 9} | answer, Peer.AGENT, acp.SET_MODE
    )


def test_without_announced_modes_and_options_nothing_can_be_chosen() -> None:
    state = taken(transcript_lines.note("opened", method="session/new"))
    assert (state.is_known, state.describe()) == (False, {})
    assert not state.set_mode("ask")
    assert not state.set_option("model", "small")


def test_the_last_announced_modes_and_options_count() -> None:
    state = taken(
        transcript_lines.note("opened", modes=MODES, configOptions=[SOUND]),
        transcript_lines.note("opened", configOptions=[MODEL]),
    )
    assert state.describe() == {"modes": MODES, "configOptions": [MODEL]}


def test_the_mode_changes_by_an_update_or_a_successful_request() -> None:
    opened = transcript_lines.note("opened", modes=MODES)
    assert mode(taken(opened)) == "ask"
    assert mode(taken(opened, transcript_lines.update(update_kinds.CURRENT_MODE, currentModeId="code"))) == "code"
    assert mode(taken(opened, *set_mode("code", {"result": {}}))) == "code"
    assert mode(taken(opened, *set_mode("code", {"error": {"code": -32602, "message": "no"}}))) == "ask"


def test_options_change_by_updates_and_answers() -> None:
    opened = transcript_lines.note("opened", configOptions=[MODEL])
    answer = {"id": 3, "result": {"configOptions": [SOUND]}}
    assert taken(opened, transcript_lines.update(update_kinds.CONFIG_OPTION, configOptions=[SOUND])).options == [SOUND]
    assert taken(opened, transcript_lines.message(answer, Peer.AGENT, acp.SET_CONFIG_OPTION)).options == [SOUND]


def test_only_announced_values_can_be_chosen() -> None:
    state = PlayedState(MODES, [MODEL, SOUND])
    assert [state.set_mode(wanted) for wanted in ("code", "fly")] == [True, False]
    assert mode(state) == "code"
    for wanted in ("large", "small", "large"):
        assert state.set_option("model", wanted)
    assert state.set_option("sound", True)
    assert [state.set_option(id, value) for id, value in (("model", "huge"), ("sound", "on"), ("x", 1))] == [False] * 3
    assert state.options == [MODEL | {"currentValue": "large"}, SOUND | {"currentValue": True}]


def test_changing_a_copy_keeps_the_original() -> None:
    state = PlayedState(MODES, [SOUND])
    other = state.copy()
    other.set_mode("code")
    other.set_option("sound", True)
    assert state.describe() == {"modes": MODES, "configOptions": [SOUND]}
