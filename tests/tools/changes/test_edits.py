"""Which edits a transcript's tool calls made."""

from pathlib import Path
from typing import Any

import pytest

from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.store.proxy_store import ProxyStore
from acp_proxy.tools.changes.edits import CallSummary, Edit, Unclear, read_edits
from tests.store import transcript_lines
from tests.tools.changes.calls import Told, diff, edit_call, ended_call, started_call


def read(*turns: list[dict[str, Any]]) -> tuple[list[Edit], list[Unclear]]:
    told = Told()
    for number, updates in enumerate(turns, 1):
        told.update(number, *updates)
    found = told.reader.finish()
    return found.edits, found.unclear


def changes(edits: list[Edit]) -> list[tuple[int, str, str, str | None, str | None]]:
    return [(edit.turn, edit.path, edit.form, edit.old, edit.new) for edit in edits]


def test_edits_come_in_the_order_in_which_their_calls_ended() -> None:
    edits, unclear = read(
        [
            started_call("1", diff("a", "0", "1")),
            started_call("2", diff("b", None, "x")),
            ended_call("2"),
            ended_call("1"),
        ],
        edit_call("3", "a", "1", "2"),
    )
    assert changes(edits) == [(1, "b", "whole", None, "x"), (1, "a", "whole", "0", "1"), (2, "a", "whole", "1", "2")]
    assert unclear == []


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_call_that_failed_changed_nothing(status: str) -> None:
    edits, _ = read([started_call("1", diff("a", "0", "1")), ended_call("1", status)])
    assert edits == []


@pytest.mark.parametrize("answer", ["reject_once", "reject_always", "cancelled"])
def test_a_call_that_was_denied_changed_nothing_whatever_its_status(answer: str) -> None:
    told = Told()
    told.update(1, started_call("1"))
    told.ask(1, "1", answer, content=[diff("a", "0", "1")])
    told.update(1, ended_call("1"))
    assert told.reader.finish().edits == []


def test_the_last_answer_counts_if_the_agent_asks_again() -> None:
    told = Told()
    told.ask(1, "1", "reject_once", content=[diff("a", "0", "1")])
    told.ask(1, "1", "allow_once", content=[diff("a", "0", "1")])
    told.update(1, ended_call("1"))
    assert changes(told.reader.finish().edits) == [(1, "a", "whole", "0", "1")]


def test_a_later_diff_replaces_an_earlier_one_of_the_call() -> None:
    edits, _ = read([started_call("1", diff("a", "0", "1")), ended_call("1", content=[diff("a", "0", "2")])])
    assert changes(edits) == [(1, "a", "whole", "0", "2")]


def test_a_diff_counts_although_the_call_ends_with_words() -> None:
    words = {"type": "content", "content": {"type": "text", "text": "Edited."}}
    edits, _ = read([started_call("1", diff("a", "0", "1")), ended_call("1", content=[words])])
    assert changes(edits) == [(1, "a", "whole", "0", "1")]


@pytest.mark.parametrize(("old", "new"), [("two", "2"), ("one\ntwo", "one\n2"), ("t", "T")])
def test_a_part_does_not_replace_the_whole_file_that_the_agent_asked_about(old: str, new: str) -> None:
    text = "one\ntwo\nthree\n"
    whole = text.replace("two", new.rpartition("\n")[2]) if old != "t" else "one\nTwo\nthree\n"
    edits, _ = read([started_call("1", diff("a", text, whole)), ended_call("1", content=[diff("a", old, new)])])
    assert changes(edits) == [(1, "a", "whole", text, whole)]


@pytest.mark.parametrize("given", [{"old_str": "0", "new_str": "1"}, {"edits": [{"old": "0", "new": "1"}]}])
def test_what_the_tool_looked_for_is_a_part(given: dict[str, Any]) -> None:
    edits, _ = read(edit_call("1", "a", "0", "1", rawInput=given))
    assert changes(edits) == [(1, "a", "part", "0", "1")]


@pytest.mark.parametrize("old", ["0", ""])
def test_a_hunk_of_version_2_is_a_part(old: str) -> None:
    hunk = {**diff("a", old, "1"), "_meta": {"acp-proxy": {"isHunk": True}}}
    edits, _ = read([started_call("1", hunk), ended_call("1")])
    assert changes(edits) == [(1, "a", "part", old, "1")]


def test_more_than_one_diff_of_a_file_in_a_call_are_parts() -> None:
    edits, _ = read([started_call("1", diff("a", "0", "1"), diff("a", "2", "3")), ended_call("1")])
    assert changes(edits) == [(1, "a", "part", "0", "1"), (1, "a", "part", "2", "3")]


def test_the_file_before_the_edit_in_the_output_makes_a_part_whole() -> None:
    given = {"old_string": "two", "new_string": "2"}
    for output in ({"rawOutput": {"previousContent": "one\ntwo\n"}}, {"_meta": {"x": {"originalFile": "one\ntwo\n"}}}):
        edits, _ = read([started_call("1", diff("a", "two", "2"), rawInput=given), ended_call("1", **output)])
        assert changes(edits) == [(1, "a", "whole", "one\ntwo\n", "one\n2\n")]


def test_the_file_before_the_edit_makes_hunks_whole_if_each_is_there_once() -> None:
    hunks, meta = [diff("a", "1", "one"), diff("a", "3", "three")], {"tool": {"originalFile": "0\n1\n2\n3\n"}}
    edits, _ = read([started_call("1", *hunks), ended_call("1", _meta=meta)])
    assert changes(edits) == [(1, "a", "whole", "0\n1\n2\n3\n", "0\none\n2\nthree\n")]
    edits, _ = read([started_call("1", *hunks), ended_call("1", _meta={"originalFile": "0\n1\n3\n3\n"})])
    assert [change[2] for change in changes(edits)] == ["part", "part"]


def test_a_call_that_is_repeated_later_counts_once() -> None:
    edits, _ = read(edit_call("1", "a", "0", "1"), edit_call("1", "a", "0", "1"))
    assert changes(edits) == [(1, "a", "whole", "0", "1")]


def test_an_id_that_is_used_again_is_another_call() -> None:
    edits, _ = read(edit_call("1", "a", "0", "1"), edit_call("1", "a", "1", "2"))
    assert changes(edits) == [(1, "a", "whole", "0", "1"), (2, "a", "whole", "1", "2")]


@pytest.mark.parametrize("ending", ["denied", "cancelled", "unfinished", "failed"])
@pytest.mark.parametrize("begins_with_question", [False, True])
def test_an_id_that_is_used_again_is_another_call_whatever_became_of_the_first(
    ending: str, begins_with_question: bool
) -> None:
    told = Told()
    told.update(1, started_call("1", diff("a", None, "x")))
    match ending:
        case "denied" | "cancelled":
            told.ask(1, "1", "cancelled" if ending == "cancelled" else "reject_once")
        case "unfinished" | "failed":
            told.update(1, ended_call("1", "in_progress" if ending == "unfinished" else ending))
    if begins_with_question:
        told.ask(2, "1", "allow_once", kind="edit", content=[diff("b", None, "y")])
    told.update(2, *([] if begins_with_question else [started_call("1", diff("b", None, "y"))]), ended_call("1"))
    assert changes(told.reader.finish().edits) == [(2, "b", "whole", None, "y")]
    assert [(call.turn, call.result) for call in told.reader.list_calls()] == [
        (1, "denied" if ending == "cancelled" else ending),
        (2, "completed"),
    ]


@pytest.mark.parametrize("repeats_diff", [False, True])
def test_a_call_is_one_if_its_permission_request_comes_after_a_queued_prompt(repeats_diff: bool) -> None:
    told = Told()
    told.prompt(1)
    told.update(1, started_call("1", diff("a", "0", "1")))
    told.prompt(2)
    told.ask(2, "1", "allow_once", **({"content": [diff("a", "0", "1")]} if repeats_diff else {}))
    told.update(2, ended_call("1"))
    found = told.reader.finish()
    assert changes(found.edits) == [(1, "a", "whole", "0", "1")]
    assert found.unclear == []


def test_a_permission_request_begins_another_call_once_the_turn_of_the_earlier_one_is_answered() -> None:
    told = Told()
    told.prompt(1)
    told.update(1, started_call("1", diff("a", "0", "1")))
    told.prompt(2)
    told.end(1)
    told.ask(2, "1", "allow_once", content=[diff("b", None, "y")])
    told.update(2, ended_call("1"))
    found = told.reader.finish()
    assert changes(found.edits) == [(2, "b", "whole", None, "y")]
    assert [(call.turn, call.cause) for call in found.unclear] == [(1, "unfinished")]


def test_a_title_for_a_call_that_is_over_begins_another_one_and_a_late_update_does_not() -> None:
    late = ended_call("1", content=[diff("a", "0", "2")])
    again = ended_call("1", title="again", kind="edit", content=[diff("b", None, "y")])
    edits, _ = read(edit_call("1", "a", "0", "1"), [late], [again])
    assert changes(edits) == [(1, "a", "whole", "0", "2"), (3, "b", "whole", None, "y")]


@pytest.mark.parametrize("second", ["1", "2"])
def test_edits_of_two_windows_at_once_have_the_turns_of_their_windows(tmp_path: Path, second: str) -> None:
    def sent(run: str, update: dict[str, Any]) -> bytes:
        value = {"method": "session/update", "params": {"sessionId": transcript_lines.SESSION, "update": update}}
        return transcript_lines.message(value, Peer.AGENT, run=run)

    store = ProxyStore(tmp_path / "store")
    lines = [
        *(transcript_lines.prompt_line(run, run=run) for run in ("run001", "run002")),
        sent("run001", started_call("1")),
        sent("run002", started_call(second)),
        sent("run001", ended_call("1", content=[diff("a", None, "x")])),
        sent("run002", ended_call(second, content=[diff("b", None, "y")])),
        *(transcript_lines.answer(run=run) for run in ("run001", "run002")),
    ]
    transcript_lines.store_lines(store, "agent", transcript_lines.SESSION, *lines)
    reader = store.open_reader("agent", transcript_lines.SESSION)
    found = read_edits(reader)
    reader.close()
    assert changes(found.edits) == [(1, "a", "whole", None, "x"), (2, "b", "whole", None, "y")]
    assert found.prompts == {1: "run001", 2: "run002"}


def test_deletes_and_moves_are_known_by_their_kind() -> None:
    edits, unclear = read(
        [started_call("1", kind="delete", locations=[{"path": "a"}]), ended_call("1")],
        [started_call("2", kind="move", locations=[{"path": "b"}, {"path": "c"}]), ended_call("2")],
        [started_call("3", {**diff("d", "text", ""), "_meta": {"kind": "delete"}}), ended_call("3")],
    )
    assert changes(edits) == [
        (1, "a", "delete", None, None),
        (2, "c", "move", None, None),
        (3, "d", "delete", "text", None),
    ]
    assert edits[1].source == "b"
    assert unclear == []


def test_codexs_patch_says_what_its_diffs_do_not() -> None:
    """As Zed's adapter of Codex sends it: the diff of a deleted file is like that of an emptied one, and the diff of a
    file that was moved has only the new name."""
    moved = {"from": {"type": "update", "unified_diff": "@@ -1 +1 @@", "move_path": "to"}}
    edits, _ = read(
        [
            started_call(
                "1", diff("a", "text", ""), rawInput={"changes": {"a": {"type": "delete", "content": "text"}}}
            ),
            ended_call("1"),
        ],
        [
            started_call("2", diff("to", "0", "1"), rawInput={"changes": moved}),
            ended_call("2", rawOutput={"changes": moved}),
        ],
        [
            started_call("3", diff("b", "0", ""), rawInput={"changes": {"b": {"type": "update", "move_path": None}}}),
            ended_call("3"),
        ],
        [started_call("4", diff("c", "0", "1"), rawInput={"changes": ["a", {"type": "delete"}]}), ended_call("4")],
    )
    assert changes(edits) == [
        (1, "a", "delete", "text", None),
        (2, "to", "move", None, None),
        (2, "to", "whole", "0", "1"),
        (3, "b", "whole", "0", ""),
        (4, "c", "whole", "0", "1"),
    ]
    assert edits[1].source == "from"


def test_what_has_no_diff_is_named() -> None:
    edits, unclear = read(
        [started_call("1", locations=[{"path": "a"}]), ended_call("1")],
        [started_call("2", kind="execute", rawInput={"command": ["bash", "-lc", "rm b"]}), ended_call("2", "failed")],
        [started_call("3", diff("c", "0", "1"))],
        [started_call("4", kind="move", locations=[{"path": "d"}]), ended_call("4")],
        [started_call("5", kind="read", locations=[{"path": "e"}]), ended_call("5")],
    )
    assert edits == []
    assert [(each.turn, each.title, each.paths, each.cause) for each in unclear] == [
        (1, "the call 1", ("a",), "no-diff"),
        (2, "rm b", (), "command"),
        (3, "the call 3", ("c",), "unfinished"),
        (4, "the call 4", ("d",), "no-diff"),
    ]


@pytest.mark.parametrize(
    "content",
    [None, 7, [None], [{"type": "diff"}], [{"type": "diff", "path": 1, "newText": "x"}], [diff("", "0", "1")]],
)
def test_content_of_another_form_changes_nothing(content: Any) -> None:
    edits, _ = read([{**started_call("1"), "content": content}, ended_call("1")])
    assert edits == []


def summarize(*updates: dict[str, Any]) -> CallSummary:
    told = Told()
    told.update(1, *updates)
    return told.reader.list_calls()[0]


@pytest.mark.parametrize(
    "begun_as",
    [
        started_call("1", name="bash"),
        started_call("1", _meta={"tool_name": "bash"}),
        started_call("1", _meta={"claudeCode": {"toolName": "bash"}}),
        started_call("1", title="bash"),
        started_call("bash__bash_1795540795709_0"),
        started_call("bash-1795540795709"),
    ],
    ids=["name", "meta", "in meta", "first title", "id", "older id"],
)
def test_a_tool_has_the_name_that_its_agent_gives_it_wherever_that_is(begun_as: dict[str, Any]) -> None:
    assert summarize(begun_as, ended_call(begun_as["toolCallId"], title="Runs the tests")).name == "bash"


def test_a_title_and_an_id_without_a_tools_name_name_no_tool() -> None:
    assert summarize(started_call("call_90847c84e5", title="ls"), ended_call("call_90847c84e5")).name == ""
    assert summarize(started_call("1", title="Read File"), ended_call("1", title="src/a.py")).name == ""


@pytest.mark.parametrize(
    ("output", "result"),
    [
        ({"metadata": {"exit": 3}}, "failed"),
        ({"contents": [{"type": "shell_exit", "exitCode": 3}]}, "failed"),
        ({"exit_code": 0}, "completed"),
        ({"exit": True, "exits": 1}, "completed"),
    ],
)
def test_a_command_has_failed_if_its_agent_states_an_exit_status_other_than_0(
    output: dict[str, Any], result: str
) -> None:
    assert summarize(started_call("1", kind="execute"), ended_call("1", rawOutput=output)).result == result
    assert summarize(started_call("1", kind="read"), ended_call("1", rawOutput=output)).result == "completed"


@pytest.mark.parametrize(("old", "action"), [(None, "create"), ("", "create"), ("0", "edit")])
def test_a_file_with_no_text_before_was_created(old: str | None, action: str) -> None:
    assert summarize(*edit_call("1", "a", old, "1")).files == ((action, "a"),)
