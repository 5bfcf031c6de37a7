"""A folded replay in version 2 leaves a client in the same state as every update would, with fewer of them."""

import base64
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript import file_format
from acp_proxy.transcript.chunk_runs import AlikeChunks, AlikeChunksFinder
from acp_proxy.transcript.file_format import Entry
from acp_proxy.transcript_replay.replayer import Replayer
from acp_proxy.transcript_replay.v2_client_replayer import V2ClientReplayer
from acp_proxy.transcript_replay.v2_fold import V2Fold
from acp_proxy.transcript_replay.v2_replayer import V2Replayer
from tests.conversation import line, update
from tests.transcript.test_v2_entries import (
    AT,
    RUN,
    accept_prompt,
    chunk_entry,
    encode_base64,
    prompt_entry,
    state,
    text,
    update_entry,
    whole_message,
)

Update = dict[str, Any]


def fold(*updates: Update, limit: int = 0, page: int = 0) -> list[Update]:
    folding = V2Fold("s", limit, page_size=page)
    lines: list[bytes] = []
    for one in map(dict, updates):
        lines += folding.add([line(update("s", one.pop("sessionUpdate"), **one))])
    return [json.loads(each)["params"]["update"] for each in b"".join([*lines, *folding.end_piece()]).splitlines()]


def part(words: str, id: str = "a", kind: str = "agent_message_chunk") -> Update:
    return {"sessionUpdate": kind, "messageId": id, "content": text(words)}


def message(*words: str, id: str = "a", kind: str = "agent_message") -> Update:
    return {"sessionUpdate": kind, "messageId": id, "content": [text(word) for word in words]}


def call(**more: Any) -> Update:
    return {"sessionUpdate": "tool_call_update", "toolCallId": "c", **more}


def item(words: str) -> Update:
    return {"type": "content", "content": text(words)}


def grows(words: str) -> Update:
    return {"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c", "content": item(words)}


def output(said: bytes) -> Update:
    return {"sessionUpdate": "terminal_output_chunk", "terminalId": "x", "data": encode_base64(said)}


def terminal(**more: Any) -> Update:
    return {"sessionUpdate": "terminal_update", "terminalId": "x", **more}


def plan(id: str, *entries: str) -> Update:
    return {"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": id, "entries": list(entries)}}


def test_texts_of_a_message_are_joined_in_its_first_place() -> None:
    assert fold(part("a"), part("b"), call(title="T"), part("c")) == [part("abc"), call(title="T")]
    other = part("t", "t", "agent_thought_chunk")
    assert fold(part("a"), other, part("b")) == [part("ab"), other]


def test_a_replaced_message_has_only_its_last_content() -> None:
    assert fold(part("pss"), message("one"), message("two"), part("!")) == [message("two"), part("!")]


def test_a_chunk_with_more_than_text_keeps_its_bytes() -> None:
    odd = {**part("b"), "_meta": {"x": 1.0}}
    assert fold(part("a"), odd, part("c")) == [part("a"), odd, part("c")]
    assert fold(odd, message("all")) == [odd, message("all")]


def test_a_call_is_one_update_with_the_last_value_of_each_field() -> None:
    begun = call(title="Run", status="pending", rawInput={"x": 1})
    done = call(status="completed", rawInput=None)
    assert fold(begun, grows("a"), grows("b"), done) == [
        call(title="Run", status="completed", rawInput=None, content=[item("a"), item("b")])
    ]
    assert fold(begun, grows("a"), call(content=[item("c")])) == [
        call(title="Run", status="pending", rawInput={"x": 1}, content=[item("c")])
    ]


def test_in_a_later_turn_a_call_only_grows() -> None:
    folding = V2Fold("s", 0)
    folding.add([line(update("s", "tool_call_update", toolCallId="c", content=[item("a")]))])
    folding.end_piece()
    later = [line(update("s", "tool_call_content_chunk", toolCallId="c", content=item("b")))]
    folding.add(later)
    assert folding.end_piece() == later


def test_a_terminal_is_one_update_and_its_output() -> None:
    parts = (terminal(command="make"), output(b"a"), output(b"b"), terminal(exitStatus={"exitCode": 0}))
    assert fold(*parts) == [terminal(command="make", exitStatus={"exitCode": 0}), output(b"ab")]
    assert fold(output(b"a"), terminal(output={"data": encode_base64(b"c")}), output(b"d")) == [
        terminal(output={"data": encode_base64(b"c")}),
        output(b"d"),
    ]


def test_each_plan_is_told_once_and_other_kinds_as_they_came() -> None:
    odd = {"sessionUpdate": "_odd", "x": 1.0}
    assert fold(plan("p", "1"), plan("q"), odd, odd, plan("p", "2")) == [plan("p", "2"), plan("q"), odd, odd]


def test_the_last_that_is_said_of_a_plan_counts_also_if_it_was_removed_or_has_meta() -> None:
    removed, meta = {"sessionUpdate": "plan_removed", "planId": "p"}, {"_meta": {"a": 1}}
    assert fold(plan("p", "1"), removed, plan("p", "2")) == [plan("p", "2")]
    assert fold(plan("p", "1"), plan("p", "2") | meta, plan("p", "3")) == [plan("p", "3")]
    assert fold(plan("p", "1"), plan("p", "2") | meta) == [plan("p", "2") | meta]
    assert fold(plan("p", "1"), removed) == [removed]


def test_what_is_longer_than_the_limit_is_cut_and_a_message_is_not() -> None:
    [cut] = fold(call(title="T", content=[item("x" * 5000)]), limit=1000)
    assert len(json.dumps(cut)) < 1500
    assert "bytes are left out here" in cut["content"][-1]["content"]["text"]
    [shown] = fold(output(b"x" * 5000 + b"the end"), limit=1000)
    left = base64.b64decode(shown["data"])
    assert left.startswith(b"[4007 bytes are left out here")
    assert left.endswith(b"the end")
    assert fold(part("x" * 5000), limit=1000) == [part("x" * 5000)]


def test_what_is_added_later_to_a_call_is_cut_too() -> None:
    first, *more, last = fold(call(title="T"), *[grows("x" * 300)] * 20, limit=1000, page=2000)
    assert first["title"] == "T"
    words = [one["content"]["content"]["text"] for one in (*more, last)]
    assert sum("bytes are left out here" in word for word in words) >= 2, "one notice a piece"
    assert sum(word.startswith("x") for word in words) < 15
    assert fold(call(title="T"), *[grows("x" * 300)] * 2, limit=1000, page=1) == [
        call(title="T"),
        grows("x" * 300),
        grows("x" * 300),
    ]


class _Client:
    """What a client of version 2 shows."""

    def __init__(self, updates: list[Update]) -> None:
        self.messages: dict[tuple[str, str], list[Any]] = {}
        self.calls: dict[str, Update] = {}
        self.output = b""
        self.plans: dict[str, Any] = {}
        self.order: list[Any] = []
        for one in updates:
            self._take(dict(one))

    def _take(self, one: Update) -> None:
        kind = one.pop("sessionUpdate")
        self.order += [id for id in (one.get("messageId") or one.get("toolCallId"),) if id and id not in self.order]
        if "messageId" in one:
            key = kind.removesuffix("_chunk"), one["messageId"]
            before = self.messages.get(key, []) if kind.endswith("_chunk") else []
            new = [one["content"]] if kind.endswith("_chunk") else one["content"]
            self.messages[key] = [*before, *new]
        elif kind == "tool_call_content_chunk":
            self._call(one).setdefault("content", []).append(one["content"])
        elif kind == "tool_call_update":
            known = self._call(one)
            known.update({**one, **({"content": list(one["content"])} if "content" in one else {})})
        elif kind == "terminal_output_chunk":
            self.output += base64.b64decode(one["data"])
        elif kind == "terminal_update" and "output" in one:
            self.output = base64.b64decode(one["output"]["data"])
        elif kind == "plan_update":
            self.plans[one["plan"]["planId"]] = one["plan"]
        elif kind == "plan_removed":
            self.plans.pop(one["planId"], None)

    def _call(self, one: Update) -> Update:
        return self.calls.setdefault(one.pop("toolCallId"), {})

    def shows(self) -> Any:
        words = {key: "".join(block["text"] for block in blocks) for key, blocks in self.messages.items()}
        return words, self.calls, self.output, self.plans, self.order


words = st.sampled_from(["a", "bc", ""])
said = st.one_of(
    st.builds(part, words, st.sampled_from(["a", "b"])),
    st.builds(message, words),
    st.builds(grows, words),
    st.builds(lambda title: call(title=title), words),
    st.builds(lambda said: call(content=[item(said)], status="completed"), words),
    st.builds(lambda said: output(said.encode()), words),
    st.builds(lambda said: terminal(output={"data": encode_base64(said.encode())}), words),
    st.builds(plan, st.sampled_from("pq"), words),
    st.builds(lambda plan: {"sessionUpdate": "plan_removed", "planId": plan}, st.sampled_from("pq")),
)


@given(st.lists(said, max_size=20), st.sampled_from([0, 1, 300, 1000]))
def test_a_client_shows_the_same_also_if_a_turn_is_folded_in_pieces(updates: list[Update], page: int) -> None:
    assert _Client(fold(*updates, page=page)).shows() == _Client(updates).shows()


def replay(*, is_folded: bool, page: int = 0) -> V2ClientReplayer:
    folding = V2Fold("s", 0, page_size=page) if is_folded else None
    return V2ClientReplayer("s", Replayer("s", run_id="own"), V2Replayer("s"), folding)


def replayed_updates(either: V2ClientReplayer, entries: list[Entry]) -> list[Update]:
    lines = [each for number, one in enumerate(entries) for each in either.add(number, one)] + either.end()
    return [json.loads(each)["params"]["update"] for each in b"".join(lines).splitlines()]


def test_turns_are_folded_apart() -> None:
    turn = [prompt_entry(), state("running"), whole_message("hello", id="u1", kind="user_message"), accept_prompt()]
    turn += [
        update_entry("tool_call_update", toolCallId="c", title="T"),
        chunk_entry("a"),
        chunk_entry("b"),
        state("idle"),
    ]
    kinds = [one["sessionUpdate"] for one in replayed_updates(replay(is_folded=True), turn * 2)]
    assert kinds == ["user_message", "tool_call_update", "agent_message_chunk"] * 2
    assert len(replayed_updates(replay(is_folded=False), turn)) == 5, "with the call, which has failed in the end"


def test_a_long_turn_comes_in_pieces_and_short_ones_after_each_other_do_not() -> None:
    turn = [
        prompt_entry(),
        whole_message("hello", id="u1", kind="user_message"),
        accept_prompt(),
        *[chunk_entry("a")] * 10,
        state("idle"),
    ]
    size = sum(len(one.raw or b"") for one in turn)
    said = [
        one
        for one in replayed_updates(replay(is_folded=True, page=size * 3 // 2), turn * 3)
        if "chunk" in one["sessionUpdate"]
    ]
    assert [one["content"]["text"] for one in said] == ["a" * 10] * 3
    said = [
        one for one in replayed_updates(replay(is_folded=True, page=size // 2), turn) if "chunk" in one["sessionUpdate"]
    ]
    assert len(said) == 2
    assert "".join(one["content"]["text"] for one in said) == "a" * 10


def test_many_chunks_at_once_are_folded_as_one_by_one() -> None:
    lines = [
        file_format.encode_message(AT, RUN, Peer.AGENT, chunk_entry(f"{n} ").raw or b"", protocol_version=2)
        for n in range(40)
    ]
    first = file_format.decode_entry(lines[0])
    assert first is not None
    streams = AlikeChunksFinder()
    streams.last_read = lines[0], first
    stream = streams.find(lines[1:], 0)
    assert isinstance(stream, AlikeChunks)
    for page, pieces in ((0, 1), (stream.size, 1), (1, 2)):
        either = replay(is_folded=True, page=page)
        out = either.add(0, first) + either.add_chunks(stream.count, stream) + either.end()
        said = [json.loads(each)["params"]["update"]["content"]["text"] for each in out]
        assert "".join(said) == "0 " + stream.text
        assert len(said) == pieces
