"""Whether a replay of a session continues an earlier one."""

import json
from typing import Any

import pytest

from acp_proxy.comparison.repeated_replays import are_alike, continues
from tests.tools.adopt.listing_agent import told

FIRST = told("Mend the login", "Mended.")
MORE = told("And the logout?", "That too.")
CALL: dict[str, Any] = {"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Look", "status": "completed"}


def lines(updates: list[dict[str, Any]]) -> list[bytes]:
    params = ({"sessionId": "s1", "update": update} for update in updates)
    return [json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": each}).encode() for each in params]


@pytest.mark.parametrize(
    ("old", "new", "is_longer"),
    [
        (FIRST, FIRST, False),
        (FIRST, [*FIRST, *MORE], True),
        ([*FIRST, *MORE], FIRST, False),
        (FIRST, MORE, False),
        (FIRST, [*FIRST, CALL], True),
        ([*FIRST, CALL], [*FIRST, *MORE], False),
        ([*FIRST, CALL], [*FIRST, CALL, *MORE], True),
        (FIRST, told("Mend the login", "Mended. And more."), True),
        (FIRST, told("Mend the login", "Men", "ded."), False),
        (FIRST[:1], FIRST, True),
    ],
)
def test_a_replay_continues_one_if_it_has_all_of_it_and_more(
    old: list[dict[str, Any]], new: list[dict[str, Any]], is_longer: bool
) -> None:
    assert continues(lines(old), lines(new)) == is_longer


@pytest.mark.parametrize("id", ["messageId", "toolCallId"])
def test_updates_are_alike_whatever_their_ids_are(id: str) -> None:
    one, same, other = lines([{**CALL, id: "1"}, {**CALL, id: "2"}, {**CALL, id: "1", "title": "Look again"}])
    assert are_alike(one, same)
    assert not are_alike(one, other)
