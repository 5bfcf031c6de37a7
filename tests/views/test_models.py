"""Which model a session has, by what the agent said."""

from typing import Any

import pytest

from acp_proxy.protocol import acp
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import Entry
from acp_proxy.views.models import find_chosen_model
from tests.stored import message

STAMP = "2026-11-20T09:15:02.123Z"
GROUPED = [{"name": "New", "options": [{"value": "l", "name": "Large"}]}]


def options(value: object = "l", **fields: Any) -> dict[str, Any]:
    option = {
        "id": "m",
        "category": "model",
        "currentValue": value,
        "options": [{"value": "l", "name": "Large"}],
        **fields,
    }
    return {"configOptions": [{"id": "mode", "category": "mode", "currentValue": "ask"}, option]}


def entry(value: dict[str, Any], of: str | None = None) -> Entry:
    [piece] = file_format.find_entries(message(STAMP, Peer.AGENT, value, of))
    return piece.value


def note(kind: str, **fields: Any) -> Entry:
    [piece] = file_format.find_entries(file_format.encode_note(STAMP, "k3f9a1", {"type": kind, **fields}))
    return piece.value


def update(**fields: Any) -> Entry:
    return entry({"method": acp.UPDATE, "params": {"sessionId": "s", "update": fields}})


def test_an_opened_session_an_update_and_an_answer_tell_the_model() -> None:
    assert find_chosen_model(note("opened", method=acp.NEW, **options())) == "Large"
    assert find_chosen_model(update(sessionUpdate="config_option_update", **options())) == "Large"
    assert find_chosen_model(entry({"id": 1, "result": options()}, acp.SET_CONFIG_OPTION)) == "Large"


def test_other_entries_tell_none() -> None:
    assert find_chosen_model(note("closed", **options())) is None
    assert find_chosen_model(update(sessionUpdate="agent_message_chunk", **options())) is None
    assert find_chosen_model(entry({"id": 1, "result": options()}, acp.PROMPT)) is None


@pytest.mark.parametrize(
    ("value", "fields", "name"),
    [
        ("l", {"options": GROUPED}, "Large"),
        ("l", {"category": None, "id": "model"}, "Large"),
        ("x", {}, "x"),
        ("l", {"options": None}, "l"),
        ("l", {"category": "model_config"}, None),
        (5, {}, None),
    ],
)
def test_the_name_is_that_of_the_chosen_value(value: object, fields: dict[str, Any], name: str | None) -> None:
    assert find_chosen_model(update(sessionUpdate="config_option_update", **options(value, **fields))) == name


@pytest.mark.parametrize("said", [None, 5, {}, [5, None, {"category": "model"}]])
def test_foreign_options_tell_none(said: object) -> None:
    assert find_chosen_model(note("opened", configOptions=said)) is None
