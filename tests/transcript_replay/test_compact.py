"""Compact replays: what is joined, what is sent once, what keeps its bytes."""

import json
from typing import Any

import orjson
import pytest

from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript.file_format import Entry
from acp_proxy.transcript_replay.replayer import Replayer
from tests.transcript_replay.entries import (
    AGENT,
    IMAGE,
    RUN,
    SESSION,
    THOUGHT,
    USER,
    answer,
    call,
    changed,
    chunk,
    lines_of,
    message_chunk,
    message_entry,
    notification,
    permission,
    plan,
    prompt_entry,
    started,
    tell,
    text,
    update,
    updates_in,
)
from tests.transcript_replay.held import measure_held

# --- the user's words


def test_each_block_of_a_prompt_is_a_chunk_with_the_prompts_id() -> None:
    updates = tell(prompt_entry("look", IMAGE), answer(), prompt_entry("and this", id=2))
    assert [sent_update["content"] for sent_update in updates] == [text("look"), IMAGE, text("and this")]
    assert [sent_update["messageId"] for sent_update in updates] == [
        f"acp-proxy-{RUN}-1",
        f"acp-proxy-{RUN}-1",
        f"acp-proxy-{RUN}-3",
    ]


def test_a_block_keeps_its_bytes() -> None:
    block = b'{"type" : "text", "text":"\\u00e4", "priority":1.0, "n":123456789012345678901}'
    raw = b'{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[' + block + b"]}}"
    [sent_line] = lines_of(message_entry(raw, Peer.CLIENT))
    assert block in sent_line


def test_a_prompts_blocks_are_sent_as_soon_as_no_echo_can_follow() -> None:
    replayer = Replayer(SESSION, run_id=RUN)
    assert replayer.add(1, prompt_entry("look")) == []
    assert replayer.add(2, update("available_commands_update", availableCommands=[])) == []
    assert updates_in(replayer.add(3, chunk("yes"))) == [message_chunk("look", USER, messageId=f"acp-proxy-{RUN}-1")]
    assert replayer.add(4, answer()) == []
    assert updates_in(replayer.add(5, prompt_entry("next", id=2))) == [message_chunk("yes")]


# --- chunks


@pytest.mark.parametrize("kind", [AGENT, THOUGHT, USER])
def test_chunks_of_one_message_become_one(kind: str) -> None:
    assert tell(*(chunk(words, kind) for words in ("a", "", "b", "c"))) == [message_chunk("abc", kind)]


@pytest.mark.parametrize("kind", [AGENT, THOUGHT, USER])
def test_a_message_id_is_kept_and_separates_messages(kind: str) -> None:
    ids = ["m", "m", "n", None, "n", "n"]
    updates = tell(*(chunk(f"{number}", kind, messageId=id) for number, id in enumerate(ids)))
    assert [(sent_update["content"]["text"], sent_update.get("messageId")) for sent_update in updates] == [
        ("01", "m"),
        ("2", "n"),
        ("3", None),
        ("45", "n"),
    ]


def test_null_and_absent_members_make_no_difference_to_joining() -> None:
    bare = {
        "sessionUpdate": AGENT,
        "content": text("a", annotations=None, _meta=None),
        "_meta": None,
        "messageId": None,
    }
    lines = lines_of(message_entry(notification(bare, _meta=None)), chunk("b"))
    assert updates_in(lines) == [message_chunk("ab")]


def test_an_update_of_another_kind_separates_messages() -> None:
    between = [chunk("-", THOUGHT), update("new_kind"), plan("x"), call("t", status="completed")]
    for parting in between:
        updates = tell(chunk("a"), parting, chunk("b"))
        assert [sent_update["sessionUpdate"] for sent_update in updates][::2] == [AGENT, AGENT]
        assert len(updates) == 3


def test_updates_that_are_not_replayed_in_place_separate_no_messages() -> None:
    silent = [
        update("notice", message="x"),
        update("usage_update", used=1, size=2),
        update("current_mode_update", currentModeId="ask"),
        changed("t", status="completed"),
        permission("t"),
        answer(),
    ]
    updates = tell(call("t"), chunk("a"), *(entry for silent_entry in silent for entry in (silent_entry, chunk("b"))))
    assert updates == [started("t", status="completed"), message_chunk("abbbbbb")]


@pytest.mark.parametrize(
    "carrying",
    [
        notification({"sessionUpdate": AGENT, "content": text("b", annotations={"priority": 1.0})}),
        notification({"sessionUpdate": AGENT, "content": text("b", _meta={})}),
        notification({"sessionUpdate": AGENT, "content": text("b", unknown=1)}),
        notification({"sessionUpdate": AGENT, "content": text("b"), "_meta": {"x": 1}}),
        notification({"sessionUpdate": AGENT, "content": text("b"), "unknown": 0}),
        notification({"sessionUpdate": AGENT, "content": text("b"), "messageId": 7}),
        notification({"sessionUpdate": AGENT, "content": text("b")}, _meta={"x": 1}),
        notification({"sessionUpdate": AGENT, "content": text("b")}) | {"unknown": 1},
        notification({"sessionUpdate": AGENT, "content": IMAGE}),
        notification({"sessionUpdate": AGENT, "content": {"type": "video", "text": "b"}}),
    ],
)
def test_a_chunk_with_more_than_text_stays_whole_and_separate(carrying: dict[str, Any]) -> None:
    whole = json.dumps(carrying, indent=None).encode()
    lines = lines_of(chunk("a"), chunk("a"), message_entry(whole), chunk("c"), chunk("c"))
    assert [updates_in([lines[0]]), lines[1], updates_in([lines[2]])] == [
        [message_chunk("aa")],
        whole + b"\n",
        [message_chunk("cc")],
    ]


def test_a_single_chunk_keeps_its_bytes() -> None:
    raw = (
        b'{"method": "session/update","jsonrpc":"2.0", "params":{"update":{"content":{"text":"\\u00e9","type":"text"},'
    )
    raw += b' "sessionUpdate":"agent_message_chunk"},"sessionId":"s"}}'
    assert lines_of(message_entry(raw), update("new_kind"))[0] == raw + b"\n"


def test_a_character_split_over_two_chunks_is_joined() -> None:
    halves = [json.dumps(notification(message_chunk(half))).encode() for half in ("a\ud83d", "\ude00b")]
    [sent_update] = updates_in(lines_of(*(message_entry(half, plain=False) for half in halves)))
    assert sent_update["content"]["text"] == "a😀b"


# --- plans, state, other kinds


def test_only_the_last_plan_of_a_segment_is_replayed_in_its_place() -> None:
    updates = tell(prompt_entry("go"), plan("x"), chunk("a"), plan("y"), chunk("b"), prompt_entry("on"), plan("z"))
    assert [
        sent_update.get("entries", [{}])[0].get("content") or sent_update["content"]["text"] for sent_update in updates
    ] == [
        "go",
        "a",
        "y",
        "b",
        "on",
        "z",
    ]


def test_messages_around_an_older_plan_are_joined() -> None:
    updates = tell(*(entry for number in range(100) for entry in (plan(f"{number}"), chunk("a"))))
    assert [sent_update["sessionUpdate"] for sent_update in updates] == [AGENT, "plan", AGENT]
    assert updates[0] == message_chunk("a" * 99)


def test_messages_with_different_ids_around_a_plan_stay_separate() -> None:
    updates = tell(
        chunk("a", messageId="m"), plan("x"), chunk("b", messageId="n"), plan("y"), chunk("c", messageId="n")
    )
    assert [sent_update.get("messageId") for sent_update in updates] == ["m", "n", None, "n"]


@pytest.mark.parametrize("mode", ["compact", "full"])
def test_the_latest_state_is_sent_at_the_end_only(mode: Any) -> None:
    replayer = Replayer(SESSION, run_id=RUN, mode=mode)
    kinds = ["usage_update", "available_commands_update", "current_mode_update", "config_option_update"]
    kinds += ["session_info_update", "notice"]
    states = [update(kind, value=number) for number in range(2) for kind in kinds]
    assert [sent_line for number, entry in enumerate(states) for sent_line in replayer.add(number, entry)] == []
    assert replayer.end() == []
    latest = updates_in(replayer.list_states())
    assert [(sent_update["sessionUpdate"], sent_update["value"]) for sent_update in latest] == [
        ("available_commands_update", 1),
        ("usage_update", 1),
    ]


@pytest.mark.parametrize("mode", ["compact", "full"])
def test_updates_of_unknown_kinds_keep_their_bytes_and_their_place(mode: Any) -> None:
    raw = b'{"jsonrpc":"2.0","method":"session/update",'
    raw += b'"params":{"sessionId":"s", "update":{"sessionUpdate":"new_kind","n":1.0}}}'
    lines = lines_of(chunk("a"), message_entry(raw), message_entry(raw), chunk("b"), mode=mode)
    assert lines[1:3] == [raw + b"\n"] * 2
    assert len(lines) == 4


# --- other sessions, bad input, cost


@pytest.mark.parametrize("mode", ["compact", "full"])
def test_a_forks_copy_of_its_parents_updates_is_replayed_as_its_own(mode: Any) -> None:
    odd = b'{"jsonrpc": "2.0","method":"session/update",'
    odd += b'"params":{"sessionId":"parent","update":{"sessionUpdate":"odd", "n":1.0}}}'
    parents = [
        message_entry(notification(message_chunk("a"), "parent")),
        message_entry(odd),
        message_entry(
            notification({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T", "status": "failed"}, "parent")
        ),
    ]
    lines = lines_of(
        *parents,
        chunk("b"),
        message_entry(notification(message_chunk("c"), "stranger")),
        mode=mode,
        other_ids=frozenset({"parent"}),
    )
    assert [sent_update["sessionUpdate"] for sent_update in updates_in(lines)] == [AGENT, "odd", "tool_call", AGENT]
    assert lines[1] == odd.replace(b'"parent"', b'"s"') + b"\n"
    assert lines_of(*parents, mode=mode) == []


@pytest.mark.parametrize("mode", ["compact", "full"])
@pytest.mark.parametrize(
    "bad",
    [
        notification(None),
        notification([]),
        notification("text"),
        notification({}),
        notification({"sessionUpdate": 7}),
        notification({"sessionUpdate": AGENT}),
        notification({"sessionUpdate": AGENT, "content": "text"}),
        notification({"sessionUpdate": AGENT, "content": {}}),
        notification({"sessionUpdate": AGENT, "content": {"type": "text"}}),
        notification({"sessionUpdate": "plan"}),
        notification({"sessionUpdate": "plan", "entries": {}}),
        notification({"sessionUpdate": "tool_call", "title": "T"}),
        notification({"sessionUpdate": "tool_call_update", "toolCallId": 7}),
        notification(message_chunk("a")) | {"id": 1},
        {"jsonrpc": "2.0", "method": "session/update", "params": None},
        {"jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": {"sessionId": "s"}},
        {"jsonrpc": "2.0", "id": 1, "method": "session/request_permission"},
        [],
        b"nonsense",
    ],
)
def test_invalid_updates_are_skipped(bad: Any, mode: Any) -> None:
    lines = lines_of(chunk("a"), message_entry(bad, plain=bad != b"nonsense"), plan("x"), mode=mode)
    assert [sent_update["sessionUpdate"] for sent_update in updates_in(lines)] == [AGENT, "plan"]


def test_a_message_with_a_newline_is_skipped() -> None:
    broken = json.dumps(notification(message_chunk("a")), indent=1).encode()
    assert lines_of(message_entry(broken, plain=False)) == []


@pytest.mark.parametrize("blocks", [None, [], "text", [7, {}, {"type": "text"}, None]])
def test_a_prompt_without_blocks_still_begins_a_turn(blocks: object) -> None:
    params = {"sessionId": SESSION, "prompt": blocks}
    empty = message_entry({"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": params}, Peer.CLIENT)
    assert tell(call("t"), empty, changed("t", status="completed")) == [
        started("t", status="failed"),
        {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"},
    ]


def test_ten_thousand_chunks_become_a_few_messages_and_take_the_memory_of_their_text() -> None:
    replayer = Replayer(SESSION, run_id=RUN)
    replayer.add(1, prompt_entry("go"))
    words = [chunk("word ", THOUGHT), chunk("word ", AGENT)]
    tool = changed("t", content=[{"type": "content", "content": text("x" * 100)}])
    line_count = 0
    for number in range(20_000):
        line_count += len(replayer.add(number + 2, words[number // 10_000]))
        line_count += len(replayer.add(number + 2, tool))
        if number == 10_000:
            held = measure_held(replayer)
    assert line_count == 1
    assert held < 2 * 10_000 * len("word ")
    assert [
        len(sent_update.get("content", {}).get("text", ""))
        for sent_update in updates_in(replayer.end())
        if "title" not in sent_update
    ] == [
        len("word "),
        9_999 * len("word "),
        10_000 * len("word "),
    ]


# --- pieces of a turn


def test_only_a_turn_that_is_longer_than_a_page_comes_in_pieces() -> None:
    turn = [prompt_entry("go"), *[chunk("a")] * 10, answer()]
    size = sum(len(entry.raw or b"") for entry in turn)

    def pieces(entries: list[Entry], page: int) -> list[str]:
        replayer = Replayer(SESSION, run_id="a later one", page_size=page)
        lines = [line for number, entry in enumerate(entries, 1) for line in replayer.add(number, entry)]
        updates = updates_in([*lines, *replayer.end()])
        return [sent_update["content"]["text"] for sent_update in updates if sent_update["sessionUpdate"] == AGENT]

    assert pieces(turn * 3, page=size * 3 // 2) == ["a" * 10] * 3
    assert "".join(pieces(turn, page=size // 2)) == "a" * 10
    assert len(pieces(turn, page=size // 2)) == 2


# --- what strict parsers refuse


@pytest.mark.parametrize(
    ("pieces", "joined"),
    [
        (["a", r"b \ud83d", "c"], "ab \ufffdc"),
        (["a", r"\uDE00", "c"], "a\ufffdc"),
        (["a", r"\uD83D", r"\uDE00 b"], "a\U0001f600 b"),
        (["a", r"\\ud83d"], r"a\ud83d"),
        (["a", "caf\udce9"], "acaf\ufffd"),
    ],
)
def test_half_a_character_does_not_make_a_message_unreadable(pieces: list[str], joined: str) -> None:
    start = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":'
    start += b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'
    raws = [start + piece.encode(errors="surrogateescape") + b'"}}}}' for piece in pieces]
    [line] = lines_of(*(message_entry(raw, Peer.AGENT) for raw in raws))
    assert orjson.loads(line)["params"]["update"]["content"]["text"] == joined


@pytest.mark.parametrize("half", [rb"\ud83d", b"\xe9"])
def test_half_a_character_in_an_update_does_not_make_a_call_unreadable(half: bytes) -> None:
    start = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":'
    start += b'{"sessionUpdate":"tool_call_update","toolCallId":"c","rawOutput":"'
    output = message_entry(start + half + b'"}}}', Peer.AGENT)
    [line] = lines_of(call("c"), output, changed("c", status="completed"))
    sent = orjson.loads(line)["params"]["update"]
    assert (sent["title"], sent["rawOutput"], sent["status"]) == ("Call c", "\ufffd", "completed")
