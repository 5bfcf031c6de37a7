"""A line is taken apart in the same way whatever its spelling."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.protocol import jsonrpc
from acp_proxy.transcript_replay import raw_members
from tests.strategies import spelled, texts, values

MEMBERS = st.dictionaries(texts, values, max_size=4)
UPDATES = st.builds(
    lambda update, beside: {
        "jsonrpc": "2.0",
        "method": "session/update",
        "params": {"sessionId": "s", "update": update | {"sessionUpdate": "tool_call"}, **beside},
    },
    MEMBERS,
    MEMBERS.filter(lambda beside: not beside.keys() & {"sessionId", "update"}),
)


@given(UPDATES, st.data())
def test_a_line_is_taken_apart_in_the_same_way_with_and_without_its_value(
    message: dict[str, Any], data: st.DataObject
) -> None:
    for text in (
        json.dumps(message, separators=(",", ":")),
        jsonrpc.dump(message).decode(),
        data.draw(spelled(st.just(message))),
    ):
        raw = text.strip().encode()
        value: Any = jsonrpc.parse(raw)
        apart, known = raw_members.split_update(raw), raw_members.split_update(raw, value)
        assert known == apart
        assert [*known[0]] == [*apart[0]], "in the same order"


@pytest.mark.parametrize("depth", [100, 254, 300, 900])
def test_deeply_nested_lines_are_taken_apart(depth: int) -> None:
    deep = b"[" * depth + b"]" * depth
    raw = b'{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"x","rawInput":%b}}}' % deep
    value: Any = jsonrpc.parse(raw)
    assert raw_members.split_update(raw, value)[0]["rawInput"] == deep
