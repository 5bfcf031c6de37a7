"""A tool call as a title, places, input and output, whatever the agent sent."""

from typing import Any

import pytest

from acp_proxy.views import tool_calls
from acp_proxy.views.conversation import ToolCall
from acp_proxy.views.diffs import DiffRow
from acp_proxy.views.tool_calls import Block, Diff, Raw

UNKNOWN: list[Any] = ['x" onclick="', None, []]
SHAPES: list[Any] = [None, 7, "x", [], [[]], [None], {}, [{"type": "diff", "newText": 3}], [{"type": "content"}]]


def call(**fields: Any) -> ToolCall:
    return ToolCall("id-1", fields, is_new=True)


def text(words: str) -> dict[str, Any]:
    return {"type": "content", "content": {"type": "text", "text": words}}


def test_the_title_of_a_call_is_one_bounded_line() -> None:
    assert tool_calls.read_title(call(title="Read\n a.py\x1b[2J")) == "Read a.py"
    assert tool_calls.read_title(call(name="grep")) == "grep"
    assert tool_calls.read_title(call(title=7)) == "id-1"
    assert len(tool_calls.read_title(call(title="x" * 5000))) == 300


def test_unknown_kinds_and_statuses_are_left_out() -> None:
    assert tool_calls.read_kind(call(kind="read")) == "read"
    assert [tool_calls.read_kind(call(kind=kind)) for kind in ("other", "<b>", None, 3)] == [None] * 4
    assert tool_calls.read_status(call(status="completed")) == "completed"
    assert [tool_calls.read_status(call(status=status)) for status in UNKNOWN] == [None] * 3


def test_each_place_is_shown_once() -> None:
    locations = [{"path": "/a", "line": 3}, {"path": "/a", "line": 3}, {"path": "/b"}, {"path": "/c", "line": True}, 7]
    assert tool_calls.list_paths(call(locations=locations)) == ["/a:3", "/b", "/c"]
    assert tool_calls.list_paths(call(locations="x")) == []


def test_the_input_of_a_call_precedes_its_content() -> None:
    diff = {"type": "diff", "path": "/a", "oldText": None, "newText": "x\n"}
    image = {"type": "content", "content": {"type": "image"}}
    parts = tool_calls.list_parts(
        call(
            rawInput={"q": 1}, rawOutput={"never": "shown"}, content=[text("done"), text("```\ncode\n```"), diff, image]
        )
    )
    assert parts == [
        Raw("input", '{\n  "q": 1\n}', "json"),
        Raw("output", "done", ""),
        Block({"type": "text", "text": "```\ncode\n```"}),
        Diff("/a", True, [DiffRow("@", "@@ -0,0 +1 @@"), DiffRow("+", "x")]),
        Block({"type": "image"}),
    ]


def test_a_command_that_is_the_title_is_not_repeated() -> None:
    given = {"command": "ls -l", "description": "List"}
    assert tool_calls.list_parts(call(title="Look", rawInput=given)) == [Raw("input", "ls -l", "sh")]
    assert tool_calls.list_parts(call(title="ls -l", rawInput=given)) == []


@pytest.mark.parametrize(
    ("given", "is_told"),
    [
        ({"path": "/p/a.py"}, True),
        ({"path": "b.py"}, True),
        ({"path": "/p/a.py", "limit": 3}, False),
        ({"path": "/p/other.py"}, False),
        ({"pattern": "py"}, False),
    ],
)
def test_an_input_that_only_names_the_file_is_left_out(given: dict[str, object], is_told: bool) -> None:
    parts = tool_calls.list_parts(call(title="Read b.py", locations=[{"path": "/p/a.py"}], rawInput=given))
    assert (parts == []) == is_told


def test_commands_and_outputs_of_common_agents_are_recognised() -> None:
    for command, told in (
        ("ls -l", "ls -l"),
        (["/bin/bash", "-lc", "ls -l | wc"], "ls -l | wc"),
        (["ls", "a file"], "ls 'a file'"),
    ):
        given = {"call_id": 1, "command": command}
        gave = {"stdout": "no", "formatted_output": "2 files", "exit_code": 0}
        assert tool_calls.list_parts(call(rawInput=given, rawOutput=gave)) == [
            Raw("input", told, "sh"),
            Raw("output", "2 files", ""),
        ]


def test_raw_output_is_shown_if_there_is_no_content() -> None:
    assert tool_calls.list_parts(call(rawOutput="a\x1b[31mb")) == [Raw("output", "ab", "")]
    assert tool_calls.list_parts(call(rawInput={}, rawOutput=None, content=None)) == []


def test_a_failed_call_has_the_reason_that_the_agent_gave() -> None:
    for given, reason in (
        ({"content": [text("no such"), text("file")]}, "no such\nfile"),
        ({"content": [text("```\nno such file\n```")], "rawOutput": "other"}, "no such file"),
        ({"rawOutput": "denied"}, "denied"),
        ({"rawOutput": {"formatted_output": "1 failed\n", "exit_code": 1}}, "1 failed"),
        ({"rawOutput": {"error": "denied"}}, "denied"),
        ({"rawOutput": {"error": {"message": "denied"}}}, "denied"),
        ({"rawOutput": {"exit_code": 1}}, None),
        ({}, None),
    ):
        assert tool_calls.find_reason(call(status="failed", **given)) == reason
        assert tool_calls.find_reason(call(status="completed", **given)) is None


def test_a_call_of_any_shape_can_be_read() -> None:
    for value in SHAPES:
        found = call(title=value, kind=value, status=value, locations=value, content=value, rawInput=value)
        for read in (
            tool_calls.read_title,
            tool_calls.read_kind,
            tool_calls.read_status,
            tool_calls.list_paths,
            tool_calls.list_parts,
        ):
            read(found)
        tool_calls.find_reason(call(status="failed", content=value, rawOutput=value))
