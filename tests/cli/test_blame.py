"""``acp-proxy blame``: who wrote the lines of a file."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.store.proxy_store import ProxyStore
from acp_proxy.transcript.file_format import PARTIAL
from tests.cli.commands import Command
from tests.cli.terminal import run_on_terminal
from tests.stored import EPOCH, message, store_session
from tests.tools.changes.calls import edit_call, ended_call, started_call

command = Command("blame")
run, get_stdout = command.run, command.get_stdout
DAY = 24 * 60 * 60


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "tree").mkdir()
    return tmp_path / "tree" / "a.py"


def store_turns(
    store: ProxyStore, file: Path, session: str, *turns: list[dict[str, Any]], day: int = 0, **more: Any
) -> None:
    told = [(f"{session} question {n}", turn) for n, turn in enumerate(turns, 1)]
    store_session(store, session, *told, cwd=str(file.parent), at=EPOCH + day * DAY, **more)


def writers(store: ProxyStore, file: Path) -> list[tuple[str, int] | None]:
    lines = json.loads(get_stdout(store, str(file), "--json"))["lines"]
    return [(line["sessionId"], line["turn"]) if line["sessionId"] else None for line in lines]


def test_each_line_has_the_turn_that_wrote_it(store: ProxyStore, file: Path) -> None:
    store_turns(
        store, file, "s", edit_call("1", "a.py", "0\n", "0\none\n"), edit_call("2", "a.py", "0\none\n", "0\none\ntwo\n")
    )
    store_turns(store, file, "t", edit_call("1", str(file), "0\none\ntwo\n", "0\none\nTWO\n"), day=1)
    file.write_text("0\none\nTWO\nmine\n")
    assert writers(store, file) == [None, ("s", 1), ("t", 1), None]


def test_the_newest_turn_comes_first_with_its_prompt(store: ProxyStore, file: Path) -> None:
    store_turns(store, file, "s", edit_call("1", "a.py", None, "one\nand\n"))
    store_turns(store, file, "t", edit_call("1", "a.py", "one\nand\n", "one\nand\ntwo\n"), day=1)
    file.write_text("one\nand\ntwo\nmine\n")
    first, two, second, one, _, rest = get_stdout(store, str(file)).splitlines()
    assert first.startswith("t  turn 1  agent  ")
    assert first.endswith("  t question 1")
    assert second.endswith("  s question 1")
    assert (two, one, rest) == ("  3  two", "  1  one", "no session: 4")


@pytest.mark.parametrize(("columns", "own_line"), [(60, True), (100, False), (140, False)])
def test_on_a_terminal_no_heading_is_wrapped(store: ProxyStore, file: Path, columns: int, own_line: bool) -> None:
    question = "Please write a file with two lines, and explain in a comment what each of them is good for and why so."
    store_session(store, "s" * 20, (question, edit_call("1", "a.py", None, "one\n")), cwd=str(file.parent))
    file.write_text("one\n")
    lines = run_on_terminal("blame", str(file), "--store", str(store.root), columns=columns).splitlines()
    heading, prompt = lines[:2] if own_line else (lines[0], lines[0].partition("  Please")[2])
    assert heading.startswith("ssssssss  turn 1  agent  ")
    assert lines[-1] == "  1  one"
    assert all(len(line) <= columns for line in lines)
    assert prompt.endswith("…")
    assert len(prompt) > 25


def test_one_line_can_be_asked_for(store: ProxyStore, file: Path) -> None:
    store_turns(store, file, "s", edit_call("1", "a.py", "one\n", "one\ntwo\n"))
    file.write_text("one\ntwo\n")
    assert get_stdout(store, f"{file}:2").splitlines()[1] == "  2  two"
    assert get_stdout(store, f"{file}:1") == "no session: 1\n"
    assert run(store, f"{file}:3").exit_code == 1


def test_lines_keep_their_writer_when_the_user_moves_them(store: ProxyStore, file: Path) -> None:
    store_turns(store, file, "s", edit_call("1", "a.py", "0\n1\n2\n", "0\nfirst\nsecond\n1\n2\n"))
    file.write_text("0\n1\n2\nfirst\nsecond\nmine\n")
    assert writers(store, file) == [None, None, None, ("s", 1), ("s", 1), None]


def test_lines_that_an_edit_moves_keep_their_writer(store: ProxyStore, file: Path) -> None:
    store_turns(
        store, file, "s", edit_call("1", "a.py", "0\n", "x\n0\n"), edit_call("2", "a.py", "x\n0\n", "0\ny\nx\n")
    )
    file.write_text("0\ny\nx\n")
    assert writers(store, file) == [None, ("s", 2), ("s", 1)]


@pytest.mark.parametrize("between", ["0\n1\n", "x\ny\n0\n1\nx\ny\n"], ids=["cut first", "pasted first"])
def test_lines_that_a_turn_moves_with_two_edits_keep_their_writer(store: ProxyStore, file: Path, between: str) -> None:
    before, after = "0\n1\nx\ny\n", "x\ny\n0\nz\n1\n"
    moved = [*edit_call("2", "a.py", before, between), *edit_call("3", "a.py", between, after)]
    store_turns(store, file, "s", edit_call("1", "a.py", "0\n1\n", before), moved)
    file.write_text(after)
    assert writers(store, file) == [("s", 1), ("s", 1), None, ("s", 2), None]


def test_a_part_counts_although_the_user_has_changed_the_file(store: ProxyStore, file: Path) -> None:
    given = {"old_string": "two", "new_string": "2\nthree"}
    store_turns(store, file, "s", edit_call("1", "a.py", "two", "2\nthree", rawInput=given))
    for text, expected in (("1\n2\nthree\n4\n", [None, ("s", 1), ("s", 1), None]), ("three\n1\n", [("s", 1), None])):
        file.write_text(text)
        assert writers(store, file) == expected


def test_a_moved_file_keeps_what_was_written_under_its_old_name(store: ProxyStore, file: Path) -> None:
    move = [started_call("2", kind="move", locations=[{"path": "old.py"}, {"path": "a.py"}]), ended_call("2")]
    store_turns(store, file, "s", edit_call("1", "old.py", None, "one\n"), move)
    file.write_text("one\n")
    assert writers(store, file) == [("s", 1)]


def test_a_fork_did_not_write_what_its_parent_wrote(store: ProxyStore, file: Path) -> None:
    store_turns(store, file, "s", edit_call("1", "a.py", None, "one\n"))
    store_turns(store, file, "fork", edit_call("2", "a.py", "one\n", "one\ntwo\n"), day=1, parent="s")
    file.write_text("one\ntwo\n")
    assert writers(store, file) == [("s", 1), ("fork", 2)]


def test_what_is_not_known_is_said(store: ProxyStore, file: Path) -> None:
    store_turns(store, file, "s", [started_call("1", locations=[{"path": str(file)}]), ended_call("1")])
    file.write_text("one\n")
    result = run(store, str(file))
    assert result.stdout == "no session: 1\n"
    assert result.stderr == "Not known: s turn 1 edited it without a diff.\n"


def test_a_command_that_names_the_file_is_named_where_no_session_wrote_the_lines(store: ProxyStore, file: Path) -> None:
    def ran(call: str, line: str) -> list[dict[str, Any]]:
        about: dict[str, Any] = {"title": line, "kind": "execute", "rawInput": {"command": line}}
        return [started_call(call, **about), ended_call(call)]

    store_turns(
        store, file, "s", ran("1", "printf 1 >a.py"), ran("2", "cat b-a.py"), *(ran(f"{n}", "wc a.py") for n in "345")
    )
    store_turns(store, file.parent.parent / "else" / "a.py", "t", ran("1", "printf 1 > a.py"))
    file.write_text("1\n")
    result = run(store, str(file))
    assert result.stdout == "no session: 1\n"
    assert [line.split(" ran ")[0] for line in result.stderr.splitlines()] == [
        *(f"Not known: s turn {turn}" for turn in (5, 4, 3)),
        "Earlier commands that name it: 1",
    ]
    assert {each["cause"] for each in json.loads(get_stdout(store, str(file), "--json"))["unclear"]} == {"command"}
    store_turns(store, file, "u", edit_call("1", "a.py", "0\n", "1\n"), day=1)
    assert run(store, str(file)).stderr == ""


def test_a_session_of_another_directory_wrote_what_it_wrote_here_and_is_shown_with_it(
    store: ProxyStore, file: Path
) -> None:
    edits = edit_call("1", "../tree/a.py", None, "one\n"), edit_call("2", str(file), "one\n", "one\ntwo\n")
    store_turns(store, file.parent.parent / "beside" / "b.py", "s", *edits)
    file.write_text("one\ntwo\n")
    assert writers(store, file) == [("s", 1), ("s", 2)]
    assert f"  in {file.parent.parent / 'beside'}  s question 2\n" in get_stdout(store, str(file))


@pytest.mark.parametrize("was_moved", [True, False])
def test_a_project_that_was_moved_keeps_what_was_written_before(store: ProxyStore, file: Path, was_moved: bool) -> None:
    before = file.parent.parent / "before" / "tree"
    if not was_moved:
        before.mkdir(parents=True)
    store_turns(store, before / "a.py", "s", edit_call("1", "a.py", None, "one\n"))
    file.write_text("one\n")
    assert writers(store, file) == [("s", 1) if was_moved else None]


def test_a_line_behind_a_byte_order_mark_has_the_turn_that_wrote_it(store: ProxyStore, file: Path) -> None:
    store_turns(store, file, "s", edit_call("1", "a.py", "0\n", "one\n"))
    file.write_bytes("\ufeffone\n".encode())
    assert writers(store, file) == [("s", 1)]


def test_what_was_written_through_a_link_is_in_the_file(store: ProxyStore, file: Path) -> None:
    (file.parent / "link").symlink_to(file.name)
    (file.parent / "other").symlink_to("elsewhere")
    store_turns(store, file, "s", [*edit_call("1", "link", None, "one\n"), *edit_call("2", "other", None, "two\n")])
    file.write_text("one\ntwo\n")
    assert writers(store, file) == [("s", 1), None]


def test_another_file_of_that_name_is_not_the_file(store: ProxyStore, file: Path) -> None:
    for name in ("other/a.py", "tree/below/a.py", "before/tree/below/a.py"):
        store_turns(store, file.parent.parent / name, name, edit_call("1", "a.py", None, "one\n"))
    file.write_text("one\n")
    assert writers(store, file) == [None]


def test_what_a_subagent_wrote_is_of_the_turn_that_began_it(store: ProxyStore, file: Path) -> None:
    updates = [{"sessionId": "child", "update": each} for each in edit_call("1", str(file), None, "one\n")]
    lines = [message("", Peer.AGENT, {"method": "session/update", "params": update}) for update in updates]
    with store_session(store, "child", cwd=None, origin=PARTIAL).open("ab") as transcript:
        transcript.writelines(lines)
    store_turns(store, file, "s", [{"sessionUpdate": "subagent_update", "sessionId": "child", "status": "completed"}])
    file.write_text("one\n")
    assert writers(store, file) == [("s", 1)]


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_same_file_in_another_work_tree_of_the_repository_is_the_file(store: ProxyStore, file: Path) -> None:
    git = ["git", "-C", str(file.parent), "-c", "user.name=n", "-c", "user.email=e"]
    other = file.parent.parent / "other"
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"], ["worktree", "add", "-q", str(other)]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    store_turns(store, other / "a.py", "s", edit_call("1", "a.py", None, "one\n"))
    file.write_text("one\n")
    assert writers(store, file) == [("s", 1)]


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_commit_is_shown_beside_a_line(store: ProxyStore, file: Path) -> None:
    store_turns(store, file, "s", edit_call("1", "a.py", None, "one\ntwo\n"))
    file.write_text("one\n")
    git = ["git", "-C", str(file.parent), "-c", "user.name=n", "-c", "user.email=e"]
    for words in (["init", "-q"], ["add", "a.py"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    file.write_text("one\ntwo\n")
    assert get_stdout(store, str(file)).splitlines()[1:] == [f"  1  {head[:8]}  one", "  2  -         two"]


def test_a_directory_and_a_missing_file_are_explained(store: ProxyStore, file: Path) -> None:
    assert run(store, str(file.parent)).exit_code == 1
    assert run(store, str(file)).exit_code == 1


def test_a_line_past_the_end_is_refused_with_the_number_of_lines(store: ProxyStore, file: Path) -> None:
    file.write_text("1\n")
    assert "the file has 1 line. Give" in run(store, f"{file}:99").stderr


def test_a_file_that_does_not_exist_is_named(store: ProxyStore, file: Path) -> None:
    result = run(store, str(file))
    assert result.exit_code == 1
    assert result.stderr == f"acp-proxy: {file} does not exist. Check the file's name.\n"
