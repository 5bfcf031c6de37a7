"""A replay in version 2: what was recorded, byte for byte, and what a client needs beside it."""

import json
import tracemalloc
from typing import Any

import pytest

from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript import file_format
from acp_proxy.transcript.chunk_runs import AlikeChunks, AlikeChunksFinder
from acp_proxy.transcript.file_format import Entry
from acp_proxy.transcript_replay.replayed_calls import PERMISSION_BYTES
from acp_proxy.transcript_replay.v2_replayer import V2Replayer
from tests.conversation import error, raw, result
from tests.transcript.test_v2_entries import (
    AT,
    RUN,
    accept_prompt,
    chunk_entry,
    entry,
    note,
    prompt_entry,
    state,
    text,
    update_entry,
    whole_message,
)


def replayer(**more: Any) -> V2Replayer:
    return V2Replayer("s", **more)


def replay_v2(*entries: Entry) -> list[Any]:
    verbatim = replayer()
    lines = [line for number, one in enumerate(entries) for line in verbatim.add(number, one)] + verbatim.end()
    return [json.loads(line)["params"]["update"] for line in b"".join(lines).splitlines()]


def echo(id: str = "u1", said: str = "hello") -> Entry:
    return whole_message(said, id=id, kind="user_message")


def test_updates_are_replayed_byte_for_byte_and_state_is_left_out() -> None:
    odd = update_entry("_odd", spaced=[1.0, 10**30])
    entries = [
        prompt_entry(),
        state("running"),
        echo(),
        accept_prompt(),
        chunk_entry("a"),
        odd,
        update_entry("notice"),
        state("idle"),
    ]
    verbatim = replayer()
    lines = [line for number, one in enumerate(entries) for line in verbatim.add(number, one)] + verbatim.end()
    assert lines == [(one.raw or b"") + b"\n" for one in (echo(), chunk_entry("a"), odd)]


def test_a_prompt_that_the_agent_does_not_repeat_is_told_with_its_id() -> None:
    said = {"sessionUpdate": "user_message", "messageId": "u1", "content": [text("hello")]}
    assert replay_v2(prompt_entry(), accept_prompt(), chunk_entry("a"))[0] == said
    assert replay_v2(prompt_entry(), accept_prompt()) == [said]


def test_a_repetition_that_comes_too_late_is_not_told_twice() -> None:
    [first, second] = replay_v2(prompt_entry(), accept_prompt(), chunk_entry("a"), echo())
    assert (first["messageId"], second["messageId"]) == ("u1", "a")


def test_a_prompt_without_an_answer_is_told_and_a_refused_one_is_not() -> None:
    assert replay_v2(prompt_entry())[0]["messageId"] == f"acp-proxy-{RUN}-0"
    assert replay_v2(prompt_entry(), note("failed"), chunk_entry("a"))[0]["content"] == [text("hello")]
    assert replay_v2(prompt_entry(), entry(error(1, -32000), of="session/prompt")) == []


def test_calls_that_never_ended_have_failed() -> None:
    begun = update_entry("tool_call_update", toolCallId="c", title="Run")
    ended = update_entry("tool_call_update", toolCallId="c", status="completed")
    failed = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "failed"}
    assert replay_v2(begun)[-1] == failed
    assert replay_v2(begun, ended)[-1]["status"] == "completed"
    assert replay_v2(begun, ended, update_entry("tool_call_update", toolCallId="c", title="Ran"))[-1]["title"] == "Ran"
    assert replay_v2(begun, ended, update_entry("tool_call_update", toolCallId="c", status=None))[-1] == failed


def test_a_compaction_that_never_ended_has_failed() -> None:
    begun = update_entry("compaction_update", compactionId="k", status="in_progress")
    assert replay_v2(begun)[-1] == {"sessionUpdate": "compaction_update", "compactionId": "k", "status": "failed"}
    assert len(replay_v2(begun, update_entry("compaction_update", compactionId="k", status="completed"))) == 2


def permission(call: str, **fields: Any) -> Entry:
    subject = {"type": "tool_call", "toolCall": {"toolCallId": call, **fields}}
    params = {"sessionId": "s", "title": "May I?", "options": [], "subject": subject}
    return entry({"jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": params})


def test_what_a_permission_request_says_about_a_call_is_told_if_the_call_comes() -> None:
    question = permission("c", rawInput=1.0)
    assert replay_v2(question) == []
    done = update_entry("tool_call_update", toolCallId="c", status="completed")
    assert replay_v2(question, done)[0] == {"sessionUpdate": "tool_call_update", "toolCallId": "c", "rawInput": 1.0}


def test_several_permission_requests_about_a_call_are_one_update_with_the_last_values() -> None:
    done = update_entry("tool_call_update", toolCallId="c", status="completed")
    first, *rest = replay_v2(permission("c", title="Old", kind="edit"), permission("c", title="New"), done)
    assert first == {"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "New", "kind": "edit"}
    assert len(rest) == 1


@pytest.mark.parametrize("name", ["c", "c{}"], ids=["one call", "many calls"])
def test_permission_requests_for_calls_that_never_come_take_a_bounded_amount_of_memory(name: str) -> None:
    replay = replayer()
    tracemalloc.start()
    try:
        for number in range(32):
            replay.add(number, permission(name.format(number), **{f"field{number}": "x" * 256 * 1024}))
        assert tracemalloc.get_traced_memory()[0] < 2 * PERMISSION_BYTES
    finally:
        tracemalloc.stop()


def test_entries_of_a_forks_parent_are_told_with_the_forks_id() -> None:
    verbatim = V2Replayer("fork", other_ids=frozenset({"s"}))
    [line] = verbatim.add(1, chunk_entry("a"))
    assert json.loads(line)["params"]["sessionId"] == "fork"
    assert replayer().add(1, entry({**json.loads(line)})) == []


def test_many_chunks_at_once_are_the_same_as_one_by_one() -> None:
    said = [
        file_format.encode_message(AT, RUN, Peer.AGENT, chunk_entry(f"{n}").raw or b"", protocol_version=2)
        for n in range(40)
    ]
    for session, other_ids in (("s", frozenset[str]()), ("fork", frozenset({"s"}))):
        streams, alone, together = (
            AlikeChunksFinder(),
            V2Replayer(session, other_ids=other_ids),
            V2Replayer(session, other_ids=other_ids),
        )
        first = file_format.decode_entry(said[0])
        assert first is not None
        streams.last_read = said[0], first
        stream = streams.find(said[1:], 0)
        assert isinstance(stream, AlikeChunks)
        found = together.add(0, first) + together.add_chunks(stream.count, stream)
        one_by_one = [line for one in [first, *stream.decode_entries()] for line in alone.add(0, one)]
        assert b"".join(found) == b"".join(one_by_one)


def test_what_makes_no_sense_is_left_out() -> None:
    odd = entry(result(9, {}))
    assert replay_v2(odd, entry({"jsonrpc": "2.0", "method": "session/update", "params": None})) == []
    assert replay_v2(Entry(AT, RUN, Peer.AGENT, raw=raw(b"x\ny"), protocol_version=2)) == []
