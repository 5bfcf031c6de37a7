"""Whatever a transcript holds, a replay of it does not fail, and tells nothing but updates of its session."""

import json
from typing import Any, get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from acp_proxy.replay.telling import Mode, Telling
from acp_proxy.wire import jsonrpc, record
from acp_proxy.wire.jsonrpc import Peer
from acp_proxy.wire.record import Entry
from tests.replay.entries import AT

texts = st.one_of(
    st.sampled_from(["s", "t", "1", "text", "terminal", "content", "pending", "failed", "x" * 90]), st.text()
)
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), texts)
keys = st.sampled_from(["type", "text", "content", "terminalId", "toolCallId", "status", "title", "_meta"])
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=12,
)
kinds = st.sampled_from(
    ["user_message_chunk", "agent_message_chunk", "tool_call", "tool_call_update", "plan", "odd", "notice"]
)
blocks = st.one_of(values, st.fixed_dictionaries({"type": st.just("text"), "text": texts}))
shown = st.lists(
    st.one_of(values, st.fixed_dictionaries({"type": st.just("terminal"), "terminalId": texts})), max_size=3
)
fields = st.dictionaries(
    st.sampled_from(["toolCallId", "title", "kind", "status", "locations", "rawInput", "_meta", "messageId", "odd"]),
    values,
)
updates = st.one_of(
    values,
    st.builds(lambda kind, content, more: {**more, "sessionUpdate": kind, "content": content}, kinds, blocks, fields),
    st.builds(
        lambda kind, id, content, more: {**more, "sessionUpdate": kind, "content": content, "toolCallId": id},
        kinds,
        st.sampled_from(["t", "u"]),
        shown,
        fields,
    ),
)
sessions = st.one_of(st.sampled_from(["s", "parent"]), values)
params = st.one_of(
    values,
    st.fixed_dictionaries({"sessionId": sessions, "update": updates}, optional={"odd": values}),
    st.fixed_dictionaries({"sessionId": sessions, "toolCall": updates}),
    st.fixed_dictionaries({"sessionId": sessions, "prompt": st.one_of(values, st.lists(blocks))}),
)
methods = st.sampled_from(["session/update", "session/prompt", "session/request_permission"])
messages = st.one_of(
    values,
    st.fixed_dictionaries({"method": st.one_of(methods, values), "params": params}, optional={"id": values}),
    st.fixed_dictionaries({"result": values}, optional={"id": values}),
)
runs = st.sampled_from(["r1", "r2"])


@st.composite
def entries(draw: st.DrawFn) -> Entry | None:
    run = draw(runs)
    if draw(st.booleans()) and draw(st.booleans()):
        types = st.one_of(st.sampled_from(["terminal", "failed", "gap"]), values)
        note = draw(st.dictionaries(st.sampled_from(["terminalId", "output", "exitStatus", "truncated"]), values))
        return record.decode_entry(record.encode_note(AT, run, {"type": draw(types), **note}))
    raw = jsonrpc.dump(draw(messages))
    peer, of = draw(st.sampled_from(Peer)), draw(st.sampled_from([None, "session/prompt"]))
    return record.decode_entry(record.encode_message(AT, run, peer, raw, of, plain=draw(st.booleans())))


@settings(max_examples=300, deadline=None)
@given(st.lists(entries(), max_size=12), st.sampled_from(get_args(Mode)), st.sampled_from([0, 1, 40, 100_000]))
def test_what_good_there_is_is_told_and_nothing_fails(found: list[Entry | None], mode: Mode, limit: int) -> None:
    telling = Telling("s", run="r1", mode=mode, tool_limit=limit, also=frozenset({"parent"}))
    told = [line for at, entry in enumerate(found) if entry is not None for line in telling.add(at, entry)]
    for line in [*told, *telling.end(), *telling.states()]:
        assert line.endswith(b"\n")
        assert b"\n" not in line[:-1]
        message = json.loads(line)
        assert message["method"] == "session/update"
        assert message["params"]["sessionId"] == "s"
        assert isinstance(message["params"]["update"]["sessionUpdate"], str)
    assert telling.end() == []


def test_what_is_nested_beyond_all_sense_is_skipped_or_told_whole() -> None:
    for depth in (200, 400, *range(880, 1030)):
        deep = '{"a":' * depth + "1" + "}" * depth
        item = f'{{"type":"terminal","terminalId":"1","x":{deep}}}'
        for field in (f'"rawInput":{deep}', f'"content":[{item}]'):
            raw = '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"%s","update":{"sessionUpdate":'
            raw += '"tool_call","toolCallId":"t","title":"T",%s}}}'
            for session in ("s", "parent"):
                encoded = (raw % (session, field)).encode()
                entry = record.decode_entry(record.encode_message(AT, "r", Peer.AGENT, encoded))
                for mode in get_args(Mode):
                    telling = Telling("s", run="r", mode=mode, tool_limit=100, also=frozenset({"parent"}))
                    if entry is not None:
                        telling.add(1, entry)
                    telling.end()
