"""The agent's own terminals: the client gets their output in the ``_meta`` of the call's updates."""

import json
from typing import Any, get_args

import pytest

from acp_proxy.transcript.file_format import Entry
from acp_proxy.transcript_replay.replayer import TOOL_LIMIT, Mode, Replayer
from acp_proxy.transcript_replay.terminal_output import PLACEHOLDER
from tests.transcript_replay.entries import (
    AGENT,
    RUN,
    SESSION,
    USER,
    Value,
    answer,
    call,
    changed,
    chunk,
    content,
    lines_of,
    message_chunk,
    permission,
    prompt_entry,
    shows,
    started,
    tell,
    terminal,
    updated,
    updates_in,
)
from tests.transcript_replay.held import measure_held

MODES = pytest.mark.parametrize("mode", get_args(Mode))
INFO: Value = {"terminal_info": {"terminal_id": "1", "cwd": "/w"}}
EXIT: Value = {"terminal_exit": {"terminal_id": "1", "exit_code": 0, "signal": None}}
LIMIT = 4000


def output(data: str) -> Value:
    return {"terminal_output": {"terminal_id": "1", "data": data}}


RUNNING = [
    call("t", status="in_progress", content=[shows("1")], _meta=INFO),
    changed("t", _meta=output("a\n")),
    changed("t", _meta=output("b\n")),
    changed("t", status="completed", rawOutput=[1.5], _meta=EXIT),
]


@MODES
def test_every_update_is_replayed_unchanged(mode: Mode) -> None:
    told = lines_of(prompt_entry("go"), chunk("x"), *RUNNING, chunk("y"), answer(), mode=mode)
    assert told[2:6] == [(entry.raw or b"") + b"\n" for entry in RUNNING]
    assert len(told) == 7


def test_updates_are_replayed_in_the_calls_place() -> None:
    told = tell(RUNNING[0], chunk("x"), *RUNNING[1:], chunk("y"))
    assert [one.get("_meta") for one in told] == [INFO, output("a\n"), output("b\n"), EXIT, None]


@MODES
def test_updates_before_the_first_output_are_replayed_before_it(mode: Mode) -> None:
    asked = permission("t", title="May I?", _meta={"x": 1})
    told = tell(asked, changed("t", kind="execute"), *RUNNING[1:], mode=mode)
    assert [update["sessionUpdate"] for update in told] == ["tool_call", *["tool_call_update"] * (len(told) - 1)]
    assert told[0]["title"] == "May I?"
    assert [one.get("_meta") for one in told][-3:] == [output("a\n"), output("b\n"), EXIT]


@MODES
def test_an_update_without_a_start_gets_one(mode: Mode) -> None:
    told = tell(*RUNNING[1:], mode=mode)
    assert told[0] == started("t", title="t", _meta=output("a\n"))
    assert [one["_meta"] for one in told] == [output("a\n"), output("b\n"), EXIT]


@MODES
def test_a_call_continues_unchanged_in_a_later_turn(mode: Mode) -> None:
    told = tell(
        prompt_entry("a"), *RUNNING[:2], prompt_entry("b", id=2), changed("t", title="T"), *RUNNING[2:], mode=mode
    )
    others = [update for update in told[4:] if update["sessionUpdate"] != USER]
    assert others == [
        updated("t", title="T"),
        updated("t", _meta=output("b\n")),
        json.loads(RUNNING[3].raw or b"")["params"]["update"],
    ]


@MODES
def test_an_unfinished_call_has_failed(mode: Mode) -> None:
    assert [one["status"] for one in tell(*RUNNING[:3], mode=mode) if "status" in one] == ["in_progress", "failed"]


@MODES
def test_a_client_terminal_beside_an_own_one_is_replaced(mode: Mode) -> None:
    both = call("t", status="completed", content=[shows("1"), shows("2")], _meta=INFO)
    [told] = tell(both, terminal("2", "ok"), mode=mode)
    assert told["content"] == [shows("1"), content("```\nok\n```")]


@MODES
def test_an_unknown_terminal_has_a_placeholder(mode: Mode) -> None:
    lost = [call("t", status="completed", content=[shows("1")], _meta={"claudeCode": {"toolName": "Bash"}})]
    assert tell(*lost, mode=mode)[0]["content"] == [content(PLACEHOLDER)]


def test_over_the_limit_the_last_values_and_the_size_left_out_are_replayed() -> None:
    flood = [changed("t", _meta=output(f"{number:04}" * 20)) for number in range(200)]
    told = tell(*RUNNING[:2], *flood, RUNNING[3], chunk("x"), tool_limit=LIMIT)
    sizes = [len(json.dumps(one)) for one in told]
    assert sum(sizes) < 2 * LIMIT
    assert told[:2] == [json.loads(entry.raw or b"")["params"]["update"] for entry in RUNNING[:2]]
    assert (told[-3]["status"], told[-3]["_meta"]) == ("completed", EXIT)
    assert told[-2]["content"][0] == shows("1")
    left_out = int(told[-2]["content"][1]["content"]["text"].split()[0].strip("["))
    assert left_out + sum(sizes) > 200 * 80
    assert told[-1] == message_chunk("x")


def test_a_first_update_over_the_limit_still_begins_the_call() -> None:
    told = tell(call("t", content=[shows("1")], _meta=INFO | output("x" * LIMIT)), *RUNNING[3:], tool_limit=LIMIT)
    assert told[0]["sessionUpdate"] == "tool_call"
    assert [one["status"] for one in told if "status" in one] == ["completed"]


def test_a_call_takes_little_more_memory_than_the_limit() -> None:
    replayer = Replayer(SESSION, run_id=RUN, tool_limit=LIMIT)
    for number in range(200):
        replayer.add(number, changed("t", _meta=output("x" * 500)))
    assert measure_held(replayer) < 4 * LIMIT


def test_zero_means_no_limit() -> None:
    flood: list[Any] = [changed("t", _meta=output("x" * 100_000)) for _ in range(30)]
    assert len(tell(*RUNNING[:1], *flood, RUNNING[3], tool_limit=0)) == 32


# --- a client that does not show them


def tell_as_text(*entries: Entry, mode: Mode = "compact", tool_limit: int = TOOL_LIMIT) -> list[Value]:
    return updates_in(lines_of(*entries, mode=mode, tool_limit=tool_limit, client_shows_agent_terminals=False))


def find_shown(told: list[Value]) -> list[object]:
    """What is shown in the end, and of ``_meta`` all that came."""
    return [
        [one["content"] for one in told if "content" in one][-1],
        [one["status"] for one in told if "status" in one][-1],
        *[one["_meta"] for one in told if "_meta" in one],
    ]


@MODES
def test_their_output_is_text_for_a_client_that_does_not_show_them(mode: Mode) -> None:
    shown = find_shown(tell_as_text(*RUNNING, mode=mode))
    assert shown == [[content("```\na\nb\n```\n[exited with code 0]")], "completed"]


@MODES
def test_their_output_becomes_text_in_the_calls_place(mode: Mode) -> None:
    told = tell_as_text(prompt_entry("go"), chunk("x"), *RUNNING, chunk("y"), answer(), mode=mode)
    said = [one["content"]["text"] for one in told if one["sessionUpdate"] == AGENT]
    kinds = [one["sessionUpdate"] for one in told]
    assert said == ["x", "y"]
    assert kinds.index("tool_call") == kinds.index(AGENT) + 1


@MODES
def test_other_meta_stays_for_a_client_that_does_not_show_them(mode: Mode) -> None:
    tool = {"claudeCode": {"toolName": "Bash"}}
    told = tell_as_text(RUNNING[0], changed("t", _meta={**output("a"), **tool}), RUNNING[3], mode=mode)
    assert find_shown(told)[2:] == [tool]


@MODES
def test_output_that_replaces_the_pieces_before_it_counts(mode: Mode) -> None:
    piece = {"terminal_output_delta": {"terminal_id": "1", "data": "the first"}}
    told = tell_as_text(RUNNING[0], changed("t", _meta=piece), changed("t", _meta=output("all")), RUNNING[3], mode=mode)
    assert find_shown(told)[0] == [content("```\nall\n```\n[exited with code 0]")]


@MODES
def test_output_in_a_later_turn_is_added_to_the_text(mode: Mode) -> None:
    told = tell_as_text(prompt_entry("a"), *RUNNING[:2], prompt_entry("b", id=2), *RUNNING[2:], mode=mode)
    contents = [one["content"] for one in told if "content" in one and one["sessionUpdate"] != USER]
    assert contents[0] == [content("```\na\n```")]
    assert contents[-1] == [content("```\na\nb\n```\n[exited with code 0]")]


@MODES
def test_output_after_the_exit_is_of_another_terminal_with_that_id(mode: Mode) -> None:
    again = [*RUNNING[:1], changed("t", _meta=output("other\n")), RUNNING[3]]
    told = tell_as_text(prompt_entry("a"), *RUNNING, answer(), prompt_entry("b", id=2), *again, mode=mode)
    assert find_shown(told)[0] == [content("```\nother\n```\n[exited with code 0]")]


@MODES
def test_each_terminal_gets_its_own_output(mode: Mode) -> None:
    piece = {"terminal_output_delta": {"terminal_id": "2", "data": "two"}}
    both = call("t", status="completed", content=[shows("1"), shows("2")], _meta=output("one") | piece)
    [told, *_] = tell_as_text(both, mode=mode)
    assert told["content"] == [content("```\none\n```"), content("```\ntwo\n```")]


def test_a_terminal_that_goes_on_for_many_turns_is_sent_again_when_it_has_doubled() -> None:
    entries = [prompt_entry("a"), RUNNING[0], changed("t", _meta=output("x" * 1000))]
    for number in range(2, 40):
        entries += [prompt_entry("b", id=number), changed("t", _meta=output(f"line {number}\n"))]
    told = tell_as_text(*entries, RUNNING[3])
    contents = [one["content"] for one in told if one["sessionUpdate"] != USER and "content" in one]
    assert len(contents) == 2
    assert contents[-1][0]["content"]["text"].endswith("line 39\n```\n[exited with code 0]")


def test_of_endless_output_the_end_becomes_text() -> None:
    flood = [changed("t", _meta=output(f"{number:07}\n" * 1000)) for number in range(600)]
    [told] = tell_as_text(RUNNING[0], *flood, RUNNING[3])
    shown = told["content"][0]["content"]["text"]
    assert "[the terminal kept only the end of its output]" in shown
    assert "0000599" in shown
    assert "0000001" not in shown
