"""Replayed tool calls: folded, finished, with the output of their terminals, and cut to a limit."""

import json
from typing import Any, get_args

import pytest

from acp_proxy.transcript.file_format import Entry
from acp_proxy.transcript_replay.replayer import Mode, Replayer
from acp_proxy.transcript_replay.terminal_output import KEPT_OUTPUT_BYTES, PLACEHOLDER
from tests.transcript_replay.entries import (
    RUN,
    SESSION,
    Value,
    answer,
    call,
    changed,
    chunk,
    content,
    crashed,
    lines_of,
    message_chunk,
    message_entry,
    notification,
    permission,
    prompt_entry,
    shows,
    started,
    tell,
    terminal,
    text,
    updated,
    updates_in,
)
from tests.transcript_replay.held import measure_held

MODES = pytest.mark.parametrize("mode", get_args(Mode))
DONE = {"status": "completed"}


# --- folding


def test_a_call_is_replayed_once_in_its_first_place_with_the_last_value_of_every_field() -> None:
    told = tell(
        call("t", status="pending", kind="read", rawInput={"a": 1}),
        chunk("a"),
        changed("t", status="in_progress", title="Better"),
        changed("t", status="completed", rawOutput=[1]),
    )
    assert told == [
        started("t", status="completed", kind="read", rawInput={"a": 1}, title="Better", rawOutput=[1]),
        message_chunk("a"),
    ]


def test_content_and_locations_are_replaced() -> None:
    first = {"content": [content("a"), content("b")], "locations": [{"path": "/a"}, {"path": "/b"}]}
    last = {"content": [content("c")], "locations": []}
    assert tell(call("t", **DONE, **first), changed("t", **last)) == [started("t", **DONE, **last)]


def test_null_and_absent_keep_the_earlier_value() -> None:
    fields: Value = {"content": [content("a")], "locations": [{"path": "/a"}], "rawInput": 0, "kind": "read", **DONE}
    nulls = dict.fromkeys([*fields, "title", "rawOutput", "_meta"])
    assert tell(call("t", **fields), changed("t", **nulls), changed("t")) == [started("t", **fields)]


def test_known_and_unknown_fields_keep_their_bytes() -> None:
    raw = b'"rawInput":{"n": 1.0, "m":123456789012345678901234567890},"odd":[1.50],"_meta":{"\\u0061": 1e2}'
    head = (
        b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call",'
    )
    [told] = lines_of(
        message_entry(head + b'"toolCallId":"t","title":"T",%b}}}' % raw), changed("t", status="completed")
    )
    assert told == head + b'"toolCallId":"t","title":"T",%b,"status":"completed"}}}\n' % raw


def test_fields_keep_their_bytes_in_any_spelling() -> None:
    raw = b' { "params" : { "_meta": {"p": 1.0}, "update": { "rawInput" : 1.0 , "toolCallId" : "t",'
    raw += b' "sessionUpdate":"tool_call_update" }, "sessionId":"s"}, "method":"session/update" }'
    [told] = lines_of(call("t", **DONE), message_entry(raw))
    assert told.endswith(b'"rawInput":1.0},"_meta":{"p": 1.0}}}\n')
    nothing = message_entry(notification({"sessionUpdate": "tool_call_update", "toolCallId": "t"}, _meta=None))
    assert lines_of(call("t", **DONE), message_entry(raw), nothing) == [told]


def test_a_byte_order_mark_hides_no_update() -> None:
    raw = json.dumps(notification({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T"})).encode()
    entry = message_entry(b"\xef\xbb\xbf" + raw, plain=False)
    assert tell(entry, changed("t", **DONE)) == [started("t", title="T", **DONE)]


def test_every_call_is_folded_separately_in_its_own_place() -> None:
    told = tell(
        call("a"), call("b"), chunk("x"), changed("b", **DONE), call("c", **DONE), changed("a", status="failed")
    )
    assert told == [started("a", status="failed"), started("b", **DONE), message_chunk("x"), started("c", **DONE)]


def test_an_update_without_a_start_gets_one() -> None:
    told = tell(changed("t", **DONE, kind=None, content=None))
    assert told == [{"sessionUpdate": "tool_call", "toolCallId": "t", "title": "t", "status": "completed"}]
    assert tell(changed("t", **DONE, title="Own"))[0]["title"] == "Own"


def test_a_later_segment_sends_one_update_with_the_changes() -> None:
    told = tell(
        call("t", **DONE), prompt_entry("on"), changed("t", title="New"), changed("t", rawOutput=1), changed("u")
    )
    assert told[2:] == [
        updated("t", title="New", rawOutput=1),
        {"sessionUpdate": "tool_call", "toolCallId": "u", "title": "u", "status": "failed"},
    ]


def test_a_later_update_without_a_change_is_not_replayed() -> None:
    assert tell(call("t", **DONE), prompt_entry("on"), changed("t", title=None))[2:] == []


def test_a_repeated_start_resets_the_call() -> None:
    old = {"kind": "read", "content": [content("a")], "locations": [{"path": "/a"}], **DONE}
    assert tell(call("t", **old), call("t", title="New")) == [started("t", title="New", status="failed")]


def test_a_repeated_start_that_clients_read_differently_is_sent_in_two_lines() -> None:
    told = tell(call("t", rawInput=1, rawOutput=2, **DONE), call("t", rawOutput=3, **DONE))
    assert told == [
        {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "t", "rawInput": 1},
        started("t", rawOutput=3, **DONE),
    ]


def test_a_repeated_start_in_a_later_segment_is_a_start() -> None:
    told = tell(call("t", kind="read", **DONE), prompt_entry("on"), changed("t", kind="edit"), call("t", **DONE))
    assert told[2:] == [started("t", **DONE)]


@MODES
def test_fields_of_the_wrong_type_do_not_count(mode: Mode) -> None:
    wrong: Value = {"status": 7, "title": [], "content": "x", "locations": {}, "kind": 1, "_meta": 2}
    told = tell(call("t", kind="read", **DONE), changed("t", **wrong), mode=mode)
    assert told[0] == started("t", kind="read", **DONE)
    assert len(told) == (1 if mode == "compact" else 2)


@MODES
def test_a_start_without_a_title_gets_its_id_as_title(mode: Mode) -> None:
    assert tell(call("t", title=None, **DONE), mode=mode) == [started("t", title="t", **DONE)]


# --- permissions


def test_fields_of_a_permission_request_count() -> None:
    told = tell(call("t"), permission("t", rawInput={"x": 1.0}, content=[content("diff")]), changed("t", **DONE))
    assert told == [started("t", rawInput={"x": 1.0}, content=[content("diff")], **DONE)]


def test_a_call_may_first_appear_in_a_permission_request() -> None:
    told = tell(permission("t", title="May I?"), chunk("a"), changed("t", **DONE))
    assert told == [started("t", title="May I?", **DONE), message_chunk("a")]


@MODES
def test_a_call_that_appears_only_in_a_permission_request_is_not_replayed(mode: Mode) -> None:
    asked = [permission("t", status="pending", content=[shows("1")]), terminal("1", "x"), permission("t")]
    assert tell(prompt_entry("go"), *asked, chunk("a"), answer(), prompt_entry("on", id=2), chunk("b"), mode=mode)[
        1:
    ] == [
        message_chunk("a"),
        message_chunk("on", "user_message_chunk", messageId=f"acp-proxy-{RUN}-7"),
        message_chunk("b"),
    ]


@MODES
def test_fields_of_a_permission_request_count_for_a_call_in_a_later_turn(mode: Mode) -> None:
    asked = [permission("t", title="May I?", rawInput={"x": 1.0}), permission("t", kind="edit", rawInput=2)]
    told = tell(*asked, prompt_entry("on"), chunk("a"), changed("t", **DONE), mode=mode)
    assert [update["sessionUpdate"] for update in told][1:3] == ["agent_message_chunk", "tool_call"]
    expected = started("t", title="May I?", rawInput=2, kind="edit")
    assert told[2:] == ([expected | DONE] if mode == "compact" else [expected, updated("t", **DONE)])


@MODES
def test_a_call_belongs_to_the_turn_where_it_starts_not_to_that_of_its_permission_request(mode: Mode) -> None:
    told = tell(permission("t", "another run"), prompt_entry("on"), changed("t", rawInput=1), mode=mode, run=RUN)
    assert [one["status"] for one in told if "status" in one] == []


def test_full_mode_waits_from_a_permission_request_until_its_call() -> None:
    replayer = Replayer(SESSION, run_id=RUN, mode="full")
    entries = [permission("t", title="May I?"), chunk("a"), permission("u"), changed("t", kind="edit"), chunk("b")]
    told = [replayer.add(1, entry) for entry in entries]
    assert [len(lines) for lines in told] == [0, 0, 0, 2, 0]
    assert updates_in(told[3]) == [started("t", title="May I?"), message_chunk("a")]
    assert updates_in(replayer.end()) == [updated("t", kind="edit"), message_chunk("b"), updated("t", status="failed")]


def test_remembered_permission_requests_are_limited() -> None:
    replayer = Replayer(SESSION, run_id=RUN, tool_limit=0)
    for number in range(8):
        replayer.add(1, permission(f"t{number}", rawInput=f"{number}" * (KEPT_OUTPUT_BYTES // 2)))
        replayer.add(1, prompt_entry("on", run=f"{number}"))
    assert KEPT_OUTPUT_BYTES // 2 < measure_held(replayer) < 2 * KEPT_OUTPUT_BYTES
    replayer.add(1, permission("large", rawInput="x" * 2 * KEPT_OUTPUT_BYTES))
    replayer.add(1, changed("large", **DONE))
    assert len(updates_in(replayer.end())[-1]["rawInput"]) > KEPT_OUTPUT_BYTES, "the newest is kept whatever its size"


# --- full


def test_full_mode_replays_every_line_unchanged() -> None:
    entries = [chunk("a"), chunk("b"), call("t"), changed("t", content=None, odd=1), changed("t", **DONE), chunk("c")]
    assert lines_of(*entries, mode="full") == [(entry.raw or b"") + b"\n" for entry in entries]


def test_full_mode_replays_at_once() -> None:
    replayer = Replayer(SESSION, run_id=RUN, mode="full")
    assert [len(replayer.add(1, entry)) for entry in (chunk("a"), call("t"), changed("t", **DONE))] == [1, 1, 1]


def test_full_mode_gives_an_update_without_a_start_one() -> None:
    told = tell(changed("t", kind=None, rawInput=1), changed("t", **DONE, kind=None), mode="full")
    assert told == [started("t", title="t", rawInput=1), updated("t", **DONE, kind=None)]


# --- unfinished calls


@MODES
@pytest.mark.parametrize("status", ["pending", "in_progress", None])
@pytest.mark.parametrize("ending", [[], [answer()], [crashed()], [answer(), prompt_entry("on", id=2)]])
def test_an_unfinished_call_has_failed_once(status: str | None, ending: list[Any], mode: Mode) -> None:
    fields = {"status": status} if status is not None else {}
    told = tell(prompt_entry("go"), call("t", **fields), *ending, chunk("x"), mode=mode)
    mine = [update for update in told if update.get("toolCallId") == "t"]
    expected = [started("t", **fields), updated("t", status="failed")]
    assert mine == ([started("t", status="failed")] if mode == "compact" else expected)


@MODES
@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_a_finished_call_is_unchanged(status: str, mode: Mode) -> None:
    told = tell(call("t"), changed("t", status=status), prompt_entry("on"), answer(), mode=mode)
    assert [one["status"] for one in told if "status" in one] == [status]


@MODES
def test_a_call_of_the_running_turn_is_unchanged(mode: Mode) -> None:
    entries = [prompt_entry("go"), call("t", status="pending"), call("u")]
    told = tell(*entries, mode=mode, run=RUN)
    assert told[1:] == [started("t", status="pending"), started("u")]


@MODES
@pytest.mark.parametrize(
    "ended",
    [
        [prompt_entry("go"), call("t"), answer()],
        [prompt_entry("go"), call("t"), crashed()],
        [prompt_entry("go", run="other"), call("t")],
        [call("t")],
    ],
)
def test_only_a_turn_with_an_open_prompt_of_this_run_is_running(ended: list[Any], mode: Mode) -> None:
    assert tell(*ended, mode=mode, run=RUN)[-1]["status"] == "failed"


@MODES
@pytest.mark.parametrize(
    "between", [answer(id=2), answer(id="1"), answer(run="other"), crashed("other"), answer(id=1.0)]
)
def test_another_prompts_answer_does_not_end_the_running_turn(between: Any, mode: Mode) -> None:
    assert tell(prompt_entry("go"), call("t"), between, mode=mode, run=RUN)[-1] == started("t")


@MODES
def test_unfinished_calls_of_an_earlier_turn_have_failed_even_while_a_turn_is_running(mode: Mode) -> None:
    told = tell(
        prompt_entry("go"), call("t"), answer(), prompt_entry("on", id=2), changed("t", title="x"), mode=mode, run=RUN
    )
    assert [one["status"] for one in told if "status" in one] == ["failed"]


# --- terminals


def output_in(told: list[Value], id: str = "t") -> str:
    """The text that a client finally shows for a call."""
    contents = [update["content"] for update in told if update.get("toolCallId") == id and "content" in update]
    [item] = contents[-1]
    assert item["type"] == "content"
    return str(item["content"]["text"])


@MODES
@pytest.mark.parametrize("note_first", [True, False])
def test_a_terminals_output_and_exit_status_take_its_place(mode: Mode, note_first: bool) -> None:
    note = terminal("1", "ok\n", exitStatus={"exitCode": 1, "signal": None})
    shown = call("t", **DONE, content=[content("before"), shows("1"), content("after")])
    [told] = tell(*([note, shown] if note_first else [shown, note]), mode=mode)
    assert told["content"] == [content("before"), content("```\nok\n```\n[exited with code 1]"), content("after")]


@MODES
def test_the_end_of_a_terminal_is_described(mode: Mode) -> None:
    def shown_output(*notes: Any) -> str:
        return output_in(tell(call("t", **DONE, content=[shows("1")]), *notes, mode=mode))

    assert shown_output() == PLACEHOLDER
    assert "\n" not in PLACEHOLDER
    assert shown_output(terminal("1", None)) == PLACEHOLDER
    assert shown_output(terminal("1", "a", run="other")) == PLACEHOLDER
    assert shown_output(terminal("1", "a", exitStatus={"signal": "SIGKILL"})) == "```\na\n```\n[ended by SIGKILL]"
    assert shown_output(terminal("1", "a\n```\nb")) == "````\na\n```\nb\n````"
    cut = shown_output(terminal("1", "a", truncated=True))
    assert cut == "[the terminal kept only the end of its output]\n```\na\n```"


@MODES
def test_terminals_with_the_same_id_in_different_runs_are_not_confused(mode: Mode) -> None:
    one, two = call("t", "r1", **DONE, content=[shows("1")]), call("u", "r2", **DONE, content=[shows("1")])
    told = tell(one, terminal("1", "one", "r1"), prompt_entry("on"), two, terminal("1", "two", "r2"), mode=mode)
    assert ("one" in output_in(told, "t"), "two" in output_in(told, "u")) == (True, True)


@MODES
def test_an_output_known_from_an_earlier_turn_is_replayed(mode: Mode) -> None:
    told = tell(terminal("1", "ok"), prompt_entry("on"), call("t", **DONE, content=[shows("1")]), mode=mode)
    assert "ok" in output_in(told)


@MODES
@pytest.mark.parametrize("before", [[], [terminal("1", None)], [terminal("1", "o")]])
def test_an_output_that_becomes_known_in_a_later_turn_is_replayed_there(before: list[Entry], mode: Mode) -> None:
    """As older versions have noted it, or not at all since they were killed."""
    shown = [call("t", **DONE, content=[shows("1")]), *before]
    told = tell(*shown, prompt_entry("on"), terminal("1", "ok"), chunk("x"), mode=mode)
    assert "ok" not in json.dumps(told[0])
    assert "ok" in output_in(told)
    assert len(tell(*shown, prompt_entry("on"), terminal("1", "ok", "another run"), mode=mode)) == 2
    assert len(tell(*shown, *before, prompt_entry("on"), *before, mode=mode)) == 2
    assert (
        tell(*shown, prompt_entry("on"), changed("t", content=[]), terminal("1", "ok"), mode=mode)[-1]["content"] == []
    )
    assert (
        tell(*shown, prompt_entry("on"), terminal("1", "ok"), changed("t", content=[]), mode=mode)[-1]["content"] == []
    )


@MODES
def test_a_late_output_does_not_end_the_wait_for_an_echo(mode: Mode) -> None:
    shown = call("t", **DONE, content=[shows("1")])
    told = tell(
        shown, prompt_entry("on"), terminal("1", "ok"), chunk("on", "user_message_chunk"), chunk("x"), mode=mode
    )
    assert [one.get("content") for one in told].count(text("on")) == 1


def test_full_mode_waits_from_the_first_terminal_on_and_changes_nothing_else() -> None:
    replayer = Replayer(SESSION, run_id=RUN, mode="full")
    odd = b'{"method":"session/update", "params":{"update":{"toolCallId":"t","content":['
    odd += b'{"terminalId":"1","type":"terminal"}],'
    odd += b'"n":1.0,"sessionUpdate":"tool_call","title":"T","status":"completed"},"sessionId":"s"}}'
    second = chunk("b")
    assert [len(replayer.add(1, one)) for one in (chunk("a"), message_entry(odd), second, terminal("1", "ok"))] == [
        1,
        0,
        0,
        0,
    ]
    shown = json.dumps(content("```\nok\n```"), separators=(",", ":")).encode()
    assert replayer.end() == [
        odd.replace(b'{"terminalId":"1","type":"terminal"}', shown) + b"\n",
        (second.raw or b"") + b"\n",
    ]


@MODES
def test_terminals_are_replaced_in_the_running_turn_too(mode: Mode) -> None:
    told = tell(prompt_entry("go"), call("t", content=[shows("1")]), mode=mode, run=RUN)
    assert told[1:] == [started("t", content=[content(PLACEHOLDER)])]


@MODES
@pytest.mark.parametrize("what", ["outputs", "contents"])
def test_terminal_outputs_and_contents_kept_for_later_turns_are_limited(what: str, mode: Mode) -> None:
    replayer = Replayer(SESSION, run_id=RUN, mode=mode)
    for number in range(8):
        if what == "outputs":
            replayer.add(1, terminal(f"{number}", f"{number}" * (KEPT_OUTPUT_BYTES // 2)))
        else:
            big = [shows(f"lost {number}"), content(f"{number}" * (KEPT_OUTPUT_BYTES // 2))]
            replayer.add(1, call(f"t{number}", content=big))
        replayer.add(1, prompt_entry("on"))
    assert KEPT_OUTPUT_BYTES // 2 < measure_held(replayer) < 1.5 * KEPT_OUTPUT_BYTES


# --- the limit

LIMIT = 4000
SHOW = f"acp-proxy show {SESSION} --json"


def carried(one: Value) -> int:
    fields = {name: value for name, value in one.items() if name != "sessionUpdate"}
    return len(json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode())


def notice_in(one: Value) -> str:
    last = one["content"][-1]
    assert last["type"] == "content"
    assert SHOW in last["content"]["text"]
    return str(last["content"]["text"])


BIG: dict[str, Value] = {
    "text": {"content": [content("é" * 5000)]},
    "many items": {"content": [content("x" * 900) for _ in range(10)]},
    "diff": {"content": [{"type": "diff", "path": "/a", "oldText": "x" * 5000, "newText": "y"}]},
    "image": {"content": [{"type": "content", "content": {"type": "image", "data": "A" * 5000, "mimeType": "i/p"}}]},
    "rawInput": {"rawInput": {"x": "x" * 5000}},
    "rawOutput": {"content": [content("kept")], "rawOutput": "x" * 5000},
    "locations": {"locations": [{"path": "/" + "x" * 5000}]},
    "title": {"title": "x" * 5000},
    "unknown": {"odd": ["x" * 5000]},
    "_meta": {"_meta": {"x": "x" * 5000}},
    "all": {"content": [content("x" * 2000)], "rawInput": "x" * 1500, "rawOutput": "x" * 1500},
    "quotes": {"content": [content('"\n' * 3000)]},
    "text with more": {
        "content": [{"type": "content", "content": text("x" * 5000, _meta={"a": 1.0}), "_meta": {"b": 2}}]
    },
}


@pytest.mark.parametrize("what", BIG)
def test_a_call_over_the_limit_is_cut_and_stays_valid(what: str) -> None:
    from acp.schema import SessionNotification  # takes a second, which every process that collects tests would need

    [line] = lines_of(call("t", **DONE, **BIG[what]), tool_limit=LIMIT)
    [one] = updates_in([line])
    assert carried(one) < LIMIT + 400
    assert (one["status"], one["toolCallId"]) == ("completed", "t")
    left_out = int(notice_in(one).split()[0].strip("["))
    assert 0 < left_out <= 31_000
    assert carried(one) + left_out >= carried(call_value(BIG[what]))
    SessionNotification.model_validate(json.loads(line)["params"])
    for item in one["content"]:
        assert item["type"] in ("content", "diff")


def call_value(fields: Value) -> Value:
    return started("t", **{**DONE, **fields})


def test_a_cut_text_keeps_its_beginning_and_the_members_beside_it() -> None:
    [one] = tell(call("t", **DONE, **BIG["text with more"]), tool_limit=LIMIT)
    cut = one["content"][0]
    assert cut["content"]["text"] in "x" * 5000
    assert len(cut["content"]["text"]) > LIMIT - 200
    assert (cut["content"]["_meta"], cut["_meta"]) == ({"a": 1.0}, {"b": 2})


def test_content_takes_precedence_over_raw_input_and_output() -> None:
    [one] = tell(
        call("t", **DONE, rawInput="i" * 3000, rawOutput="o" * 3000, content=[content("kept")]), tool_limit=LIMIT
    )
    assert one["content"][0] == content("kept")
    assert ("rawInput" in one, "rawOutput" in one) == (True, False)


def test_a_value_that_replaces_a_cut_one_is_whole() -> None:
    told = tell(
        call("t", **DONE, content=[content("x" * 9000)]), changed("t", content=[content("y")]), tool_limit=LIMIT
    )
    assert told == [started("t", **DONE, content=[content("y")])]


def test_a_cut_value_that_was_replaced_is_not_counted() -> None:
    told = tell(
        call("t", **DONE, content=[content("x" * 9000)]),
        call("another one in between", **DONE),
        changed("t", content=[content("y")]),
        tool_limit=LIMIT,
    )
    assert told[0] == started("t", **DONE, content=[content("y")])


def test_bytes_left_out_are_counted_over_all_updates() -> None:
    told = tell(call("t", **DONE, rawOutput="x" * 9998), changed("t", rawInput="x" * 4998), tool_limit=LIMIT)
    assert notice_in(told[0]).startswith("[15000 bytes ")


def test_a_call_takes_little_more_memory_than_the_limit() -> None:
    replayer = Replayer(SESSION, run_id=RUN, tool_limit=LIMIT)
    for number in range(200):
        replayer.add(1, call("t", **BIG["all"]) if number % 7 == 0 else changed("t", **{f"odd {number}": "x" * 3000}))
        replayer.add(
            1, message_entry(notification({"sessionUpdate": "tool_call_update", "toolCallId": "t"}, odd="x" * 3000))
        )
        replayer.add(1, changed("t", content=[content("x" * 10_000)]))
        assert measure_held(replayer) < LIMIT + 10_000 + 4000


def test_memory_for_repeated_starts_is_limited_too() -> None:
    replayer = Replayer(SESSION, run_id=RUN, tool_limit=LIMIT)
    for number in range(20):
        replayer.add(1, call("t", **{f"odd {number}": "x" * 3000}))
    assert measure_held(replayer) < 3 * LIMIT


def test_only_the_last_call_is_held_uncut() -> None:
    replayer = Replayer(SESSION, run_id=RUN, tool_limit=LIMIT)
    for number in range(20):
        replayer.add(1, call(f"t{number}", content=[content("x" * 100_000)]))
    assert measure_held(replayer) < 20 * LIMIT + 110_000


def test_members_beside_an_update_count_towards_the_limit() -> None:
    big = notification({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T"}, odd="x" * 9000)
    [told] = lines_of(message_entry(big), tool_limit=LIMIT)
    assert len(told) < LIMIT
    assert notice_in(updates_in([told])[0]).startswith("[9002 bytes ")


def test_zero_means_no_limit_and_full_mode_cuts_nothing() -> None:
    big = {"content": [content("x" * 3_000_000)], "rawOutput": "x" * 3_000_000}
    assert tell(call("t", **DONE, **big), tool_limit=0) == [started("t", **DONE, **big)]
    assert tell(call("t", **DONE, **big), mode="full", tool_limit=LIMIT) == [started("t", **DONE, **big)]
    shown = [call("t", **DONE, content=[shows("1")]), terminal("1", "x" * 9000)]
    assert len(output_in(tell(*shown, mode="full", tool_limit=LIMIT))) > 9000


def test_text_of_user_and_agent_is_never_cut() -> None:
    told = tell(prompt_entry("x" * 5000), chunk("y" * 5000), chunk("z" * 5000), tool_limit=LIMIT)
    assert [len(one["content"]["text"]) for one in told] == [5000, 10_000]


def test_a_later_update_over_the_limit_keeps_the_content_replayed_before() -> None:
    told = tell(
        call("t", **DONE, content=[content("a")]),
        prompt_entry("on"),
        changed("t", rawOutput="x" * 9000),
        tool_limit=LIMIT,
    )
    assert set(told[-1]) == {"sessionUpdate", "toolCallId", "rawOutput"}
    assert SHOW in told[-1]["rawOutput"]


@pytest.mark.parametrize("size", [3000, 4000, 40_000])
def test_a_terminals_output_counts_towards_the_limit_and_its_end_is_kept(size: int) -> None:
    shown = call("t", **DONE, content=[shows("1")], rawInput="x" * 100)
    [one] = tell(shown, terminal("1", "x" * size, exitStatus={"exitCode": 3}), tool_limit=LIMIT)
    assert carried(one) < LIMIT + 400
    assert one["content"][0]["content"]["text"].endswith("\n```\n[exited with code 3]")
    assert (len(one["content"]) == 2) == (size > 3000)
    if size > 3000:
        assert size - LIMIT < int(notice_in(one).split()[0].strip("[")) < size


def test_an_output_shares_the_limit_with_the_other_fields() -> None:
    shown = call("t", **DONE, content=[shows("1")], rawInput="x" * 2000)
    [one] = tell(shown, terminal("1", "x" * 3000), tool_limit=LIMIT)
    assert carried(one) < LIMIT + 400
    assert notice_in(one)


def test_a_session_id_is_quoted_for_the_shell() -> None:
    replayer = Replayer("it's; rm", run_id=RUN, tool_limit=100)
    replayer.add(
        1,
        message_entry(notification({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "x" * 200}, "it's; rm")),
    )
    [told] = replayer.end()
    assert """show 'it'"'"'s; rm' --json""" in json.loads(told)["params"]["update"]["content"][0]["content"]["text"]


def test_a_call_with_too_many_fields_is_replayed_with_the_first_ones() -> None:
    [told] = tell(call("t", **DONE), *(changed("t", **{f"x{number}": number}) for number in range(2000)))
    assert told["x0"] == 0
    assert 900 < len(told) < 1100
    assert "are left out here" in json.dumps(told["content"])


def test_without_a_limit_all_fields_are_replayed() -> None:
    [told] = tell(call("t", **DONE), *(changed("t", **{f"x{number}": number}) for number in range(2000)), tool_limit=0)
    assert told["x1999"] == 1999
