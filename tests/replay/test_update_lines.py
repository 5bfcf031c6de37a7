"""A line that is written as we would write it is taken apart as any other is."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.replay import update_lines
from acp_proxy.wire import jsonrpc
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
def test_it_makes_no_difference_whether_a_lines_value_is_known(message: dict[str, Any], data: st.DataObject) -> None:
    for text in (
        json.dumps(message, separators=(",", ":")),
        jsonrpc.dump(message).decode(),
        data.draw(spelled(st.just(message))),
    ):
        raw = text.strip().encode()
        value: Any = jsonrpc.parse(raw)
        apart, known = update_lines.taken_apart(raw), update_lines.taken_apart(raw, value)
        assert known == apart
        assert [*known[0]] == [*apart[0]], "in the same order"


@pytest.mark.parametrize("depth", [100, 254, 300, 900])
def test_what_is_nested_deeply_is_taken_apart_all_the_same(depth: int) -> None:
    deep = b"[" * depth + b"]" * depth
    raw = b'{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"x","rawInput":%b}}}' % deep
    value: Any = jsonrpc.parse(raw)
    assert update_lines.taken_apart(raw, value)[0]["rawInput"] == deep
