from typing import Any

from acp_proxy.conversation import Call
from acp_proxy.views import calls
from acp_proxy.views.calls import Block, Change, Raw
from acp_proxy.views.diffs import Row

UNKNOWN: list[Any] = ['x" onclick="', None, []]
SHAPES: list[Any] = [None, 7, "x", [], [[]], [None], {}, [{"type": "diff", "newText": 3}], [{"type": "content"}]]


def call(**fields: Any) -> Call:
    return Call("id-1", fields, is_new=True)


def text(words: str) -> dict[str, Any]:
    return {"type": "content", "content": {"type": "text", "text": words}}


def test_the_title_of_a_call_is_one_bounded_line() -> None:
    assert calls.title(call(title="Read\n a.py\x1b[2J")) == "Read a.py"
    assert calls.title(call(name="grep")) == "grep"
    assert calls.title(call(title=7)) == "id-1"
    assert len(calls.title(call(title="x" * 5000))) == 300


def test_unknown_kinds_and_statuses_are_left_out() -> None:
    assert calls.kind(call(kind="read")) == "read"
    assert [calls.kind(call(kind=kind)) for kind in ("other", "<b>", None, 3)] == [None] * 4
    assert calls.status(call(status="completed")) == "completed"
    assert [calls.status(call(status=status)) for status in UNKNOWN] == [None] * 3


def test_each_place_is_shown_once() -> None:
    locations = [{"path": "/a", "line": 3}, {"path": "/a", "line": 3}, {"path": "/b"}, {"path": "/c", "line": True}, 7]
    assert calls.paths(call(locations=locations)) == ["/a:3", "/b", "/c"]
    assert calls.paths(call(locations="x")) == []


def test_the_input_of_a_call_precedes_its_content() -> None:
    diff = {"type": "diff", "path": "/a", "oldText": None, "newText": "x\n"}
    image = {"type": "content", "content": {"type": "image"}}
    found = calls.parts(
        call(
            rawInput={"q": 1}, rawOutput={"never": "shown"}, content=[text("done"), text("```\ncode\n```"), diff, image]
        )
    )
    assert found == [
        Raw("input", '{\n  "q": 1\n}', "json"),
        Raw("output", "done", ""),
        Block({"type": "text", "text": "```\ncode\n```"}),
        Change("/a", True, [Row("@", "@@ -0,0 +1 @@"), Row("+", "x")]),
        Block({"type": "image"}),
    ]


def test_a_command_that_is_the_title_is_not_repeated() -> None:
    given = {"command": "ls -l", "description": "List"}
    assert calls.parts(call(title="Look", rawInput=given)) == [Raw("input", "ls -l", "sh")]
    assert calls.parts(call(title="ls -l", rawInput=given)) == []


def test_commands_and_outputs_of_common_agents_are_recognised() -> None:
    for command, told in (
        ("ls -l", "ls -l"),
        (["/bin/bash", "-lc", "ls -l | wc"], "ls -l | wc"),
        (["ls", "a file"], "ls 'a file'"),
    ):
        given = {"call_id": 1, "command": command}
        gave = {"stdout": "no", "formatted_output": "2 files", "exit_code": 0}
        assert calls.parts(call(rawInput=given, rawOutput=gave)) == [
            Raw("input", told, "sh"),
            Raw("output", "2 files", ""),
        ]


def test_raw_output_is_shown_if_there_is_no_content() -> None:
    assert calls.parts(call(rawOutput="a\x1b[31mb")) == [Raw("output", "ab", "")]
    assert calls.parts(call(rawInput={}, rawOutput=None, content=None)) == []


def test_a_call_of_any_shape_can_be_read() -> None:
    for value in SHAPES:
        found = call(title=value, kind=value, status=value, locations=value, content=value, rawInput=value)
        calls.title(found), calls.kind(found), calls.status(found), calls.paths(found), calls.parts(found)
