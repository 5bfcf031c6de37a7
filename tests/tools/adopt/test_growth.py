"""Whether a replay of a session continues an earlier one."""

import json
from typing import Any

import pytest

from acp_proxy.tools.adopt.growth import continues
from tests.tools.adopt.listing_agent import replay_of

FIRST = replay_of("Mend the login", "Mended.")
MORE = replay_of("And the logout?", "That too.")
CALL: dict[str, Any] = {"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Look", "status": "completed"}


def lines(updates: list[dict[str, Any]]) -> list[bytes]:
    params = ({"sessionId": "s1", "update": update} for update in updates)
    return [json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": param}).encode() for param in params]


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
        (FIRST, replay_of("Mend the login", "Mended. And more."), True),
        (FIRST, replay_of("Mend the login", "Men", "ded."), False),
        (FIRST[:1], FIRST, True),
    ],
)
def test_a_replay_continues_one_if_it_has_all_of_it_and_more(
    old: list[dict[str, Any]], new: list[dict[str, Any]], is_longer: bool
) -> None:
    assert continues(lines(old), lines(new)) == is_longer
