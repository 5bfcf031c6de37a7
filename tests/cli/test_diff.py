"""``acp-proxy diff``: what a session changed, for people, for git and for programs."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from acp_proxy.store.proxy_store import ProxyStore
from tests.cli import commands
from tests.cli.commands import Command
from tests.cli.terminal import run_on_terminal
from tests.stored import store_session
from tests.tools.changes.calls import diff, edit_call, ended_call, started_call

command = Command("diff")
run, get_stdout = command.run, command.get_stdout


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The session's directory, as it is after the session."""
    folder = tmp_path / "tree"
    folder.mkdir()
    return folder


def store_turns(store: ProxyStore, tree: Path, *turns: list[dict[str, Any]]) -> None:
    store_session(store, "s", *((f"question {n}", turn) for n, turn in enumerate(turns, 1)), cwd=str(tree))


PATCH = """\
diff --git a/app.py b/app.py
--- a/app.py
+++ b/app.py
@@ -1,2 +1,2 @@
 one
-two
+2
diff --git a/new.py b/new.py
new file mode 100644
--- /dev/null
+++ b/new.py
@@ -0,0 +1 @@
+new
"""


def test_a_session_in_a_directory_that_no_system_has_is_no_traceback(store: ProxyStore, tree: Path) -> None:
    store_session(store, "s", ("edit", edit_call("c", "/pr\0oj/a", "one\n", "two\n")), cwd="/pr\0oj")
    assert "-one\n+two\n" in run(store, "s").stdout


def test_the_patch_has_the_net_change_of_each_file(store: ProxyStore, tree: Path) -> None:
    store_turns(
        store,
        tree,
        edit_call("1", f"{tree}/app.py", "one\ntwo\n", "one\nTWO\n"),
        [*edit_call("2", "app.py", "one\nTWO\n", "one\n2\n"), *edit_call("3", "new.py", None, "new\n")],
    )
    assert get_stdout(store, "s") == PATCH


def test_changes_that_were_taken_back_are_none(store: ProxyStore, tree: Path) -> None:
    store_turns(store, tree, edit_call("1", "a", "0\n", "1\n"), edit_call("2", "a", "1\n", "0\n"))
    result = run(store, "s")
    assert (result.exit_code, result.stdout) == (0, "")  # as git diff
    assert result.stderr == (
        "No changed files: no tool call of these turns reported a change, or each change was taken back.\n"
    )


def test_turns_and_files_choose_what_is_shown(store: ProxyStore, tree: Path) -> None:
    store_turns(
        store,
        tree,
        edit_call("1", "a", "0\n", "1\n"),
        edit_call("2", "a", "1\n", "2\n"),
        edit_call("3", "sub/b", None, "x\n"),
    )
    assert "-1\n+2" in get_stdout(store, "s", "--turn", "2")
    assert "-0\n+2" in get_stdout(store, "s", "--turn", "1-2")
    assert get_stdout(store, "s", "--name-only", "--turn", "-1") == "sub/b\n"
    assert get_stdout(store, "s", "sub", "--name-only") == "sub/b\n"
    assert get_stdout(store, "s", str(tree / "a"), "--name-only") == "a\n"
    assert run(store, "s", "--turn", "4").exit_code == 1
    assert run(store, "s", "other.py").stderr.endswith("To see which were changed: acp-proxy diff s --name-only\n")


def test_the_sum_has_a_line_for_each_file(store: ProxyStore, tree: Path) -> None:
    store_turns(
        store, tree, [*edit_call("1", "a.py", "0\n", "1\n2\n"), *edit_call("2", "long/name.py", "x\n" * 100, "")]
    )
    assert get_stdout(store, "s", "--stat") == (
        f" a.py         |   3 +-\n long/name.py | 100 {'-' * 40}\n 2 files changed, 2 added, 101 removed\n"
    )


def test_the_reverse_takes_the_changes_back(store: ProxyStore, tree: Path) -> None:
    store_turns(store, tree, edit_call("1", "new.py", None, "new\n"))
    assert "deleted file mode 100644\n--- a/new.py\n+++ /dev/null\n" in get_stdout(store, "s", "--reverse")


def test_a_check_says_what_became_of_each_file(store: ProxyStore, tree: Path) -> None:
    names = ["applied", "changed", "back", "gone"]
    store_turns(store, tree, [update for name in names for update in edit_call(name, name, "0\n", "1\n")])
    for name, text in (("applied", "1\n"), ("changed", "2\n"), ("back", "0\n")):
        (tree / name).write_text(text)
    result = run(store, "s", "--check")
    assert result.exit_code == 1
    assert [tuple(line.rsplit(None, 1)) for line in result.stdout.splitlines()] == [
        ("applied", "applied"),
        ("changed since", "changed"),
        ("taken back", "back"),
        ("gone", "gone"),
    ]
    assert run(store, "s", "applied", "--check").exit_code == 0


def test_a_part_is_completed_from_the_file_as_it_is_now(store: ProxyStore, tree: Path) -> None:
    given = {"old_string": "b", "new_string": "B"}
    store_turns(store, tree, edit_call("1", "a", "b", "B", rawInput=given))
    (tree / "a").write_bytes(b"a\r\nB\r\nc")
    result = run(store, "s")
    assert "@@ -1,3 +1,3 @@\n a\r\n-b\r\n+B\r\n c\n\\ No newline at end of file\n" in result.stdout_bytes.decode()
    assert "the rest is from the file as it is now" in result.stderr


def test_a_part_that_is_not_there_once_is_named_and_not_guessed(store: ProxyStore, tree: Path) -> None:
    given = {"old_string": "b", "new_string": "B"}
    store_turns(store, tree, edit_call("1", "a", "b", "B", rawInput=given))
    for text in ("B\nB\n", "other\n"):
        (tree / "a").write_text(text)
        result = run(store, "s")
        assert result.stdout == ""
        assert "Not in the patch: a: only the changed part is recorded" in result.stderr


def test_a_text_that_ends_before_the_stated_line_is_a_part(store: ProxyStore, tree: Path) -> None:
    places = [{"path": "a", "line": 58}]
    store_turns(
        store, tree, edit_call("1", "a", "old\n", "new\n", locations=places), edit_call("2", "b", "1\n2\n", "1\n")
    )
    (tree / "b").write_text("1\n")
    result = run(store, "s")
    assert result.stdout.startswith("diff --git a/b b/b\n")
    assert result.stderr.startswith("Not in the patch: a: only the changed part is recorded")
    (tree / "a").write_text("line\n" * 57 + "new\n")
    assert "@@ -55,4 +55,4 @@\n line\n line\n line\n-old\n+new\n" in get_stdout(store, "s")


@pytest.mark.parametrize("line", [1, 3, True, "58", None])
def test_a_stated_line_within_the_text_says_nothing(store: ProxyStore, tree: Path, line: object) -> None:
    store_turns(store, tree, edit_call("1", "a", "1\n2\n", "1\nB\n", locations=[{"path": "a", "line": line}]))
    assert "@@ -1,2 +1,2 @@\n 1\n-2\n+B\n" in get_stdout(store, "s")


def test_lines_around_a_change_are_known_as_a_part_by_the_file_as_it_is_now(store: ProxyStore, tree: Path) -> None:
    store_turns(store, tree, edit_call("1", "a", "2\n3\n", "2\nthree\n"))
    (tree / "a").write_text("1\n2\nthree\n4\n")
    assert " 1\n 2\n-3\n+three\n 4\n" in get_stdout(store, "s")


def test_the_files_line_ends_count_if_the_agent_sent_others(store: ProxyStore, tree: Path) -> None:
    store_turns(store, tree, edit_call("1", "a", "1\n2\n", "1\ntwo\n"))
    (tree / "a").write_bytes(b"1\r\ntwo\r\n")
    assert b"-2\r\n+two\r\n" in run(store, "s").stdout_bytes


def test_a_byte_order_mark_that_the_agent_does_not_report_is_in_the_patch(store: ProxyStore, tree: Path) -> None:
    first, second = edit_call("1", "a", "one\ntwo\n", "one\n2\n"), edit_call("2", "a", "one\n2\n", "1\n2\n")
    store_turns(store, tree, first, second)
    (tree / "a").write_bytes("\ufeff1\n2\n".encode())
    assert "-\ufeffone\n-two\n+\ufeff1\n+2\n" in get_stdout(store, "s")
    assert get_stdout(store, "s", "--check") == "applied        a\n"


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", ".git/hooks/pre-commit", "a/.GIT/config"])
def test_no_patch_writes_outside_of_the_directory_or_into_gits_own(store: ProxyStore, tree: Path, path: str) -> None:
    store_turns(store, tree, edit_call("1", path, None, "x\n"))
    result = run(store, "s")
    assert result.stdout == ""
    assert "Not in the patch: " in result.stderr
    assert get_stdout(store, "s", "--name-only") == ""
    [file] = json.loads(get_stdout(store, "s", "--json"))["files"]
    assert (file["patch"], file["trouble"]) == (None, "git" if "git" in path.lower() else "outside")


@pytest.mark.parametrize("name", ["a\0b", "x" * 256, "a/" * 2048 + "b"], ids=["nul", "long", "deep"])
def test_a_name_that_no_file_has_does_not_spoil_the_patch(store: ProxyStore, tree: Path, name: str) -> None:
    store_turns(store, tree, edit_call("1", name, None, "x\n"), edit_call("2", "good", None, "x\n"))
    result = run(store, "s")
    assert result.stdout.count("diff --git") == 1
    assert "git takes no file of this name" in result.stderr


def test_no_path_fills_the_screen(store: ProxyStore, tree: Path) -> None:
    places = [{"path": f"p{n}"} for n in range(5_000)]
    store_turns(
        store,
        tree,
        edit_call("1", "../" + "x" * 5_000, None, "x\n"),
        [started_call("2", locations=places), ended_call("2")],
    )
    lines = run(store, "s").stderr.splitlines()
    assert [len(line) < 400 for line in lines] == [True, True]
    assert lines[1].endswith("p11 and 4988 more files reported without a diff.")


def test_files_that_a_session_did_not_change_are_said(store: ProxyStore, tree: Path) -> None:
    store_turns(store, tree, edit_call("1", "a", None, "x\n"))
    assert "a change of these files" in run(store, "s", "b").stderr


def test_no_file_outside_of_the_directory_is_read(store: ProxyStore, tree: Path) -> None:
    (tree.parent / "secret").write_text("the secret B\n")
    (tree / "link").symlink_to(tree.parent / "secret")
    given = {"old_string": "b", "new_string": "B"}
    store_turns(
        store,
        tree,
        [*edit_call("1", "../secret", "b", "B", rawInput=given), *edit_call("2", "link", "b", "B", rawInput=given)],
    )
    assert "secret B" not in get_stdout(store, "s", "--json")


def test_a_file_behind_a_link_has_the_path_that_git_knows(store: ProxyStore, tree: Path) -> None:
    """git refuses the whole patch for one file behind a link."""
    (tree.parent / "elsewhere").mkdir()
    (tree / "out").symlink_to(tree.parent / "elsewhere")
    (tree / "real").mkdir()
    (tree / "in").symlink_to("real")
    (tree / "real" / "file").symlink_to("target")
    calls = [
        *edit_call("1", "out/x", None, "x\n"),
        *edit_call("2", "in/y", None, "y\n"),
        *edit_call("3", "in/file", None, "z\n"),
    ]
    store_turns(
        store, tree, [*calls, started_call("4", kind="delete", locations=[{"path": "in/file"}]), ended_call("4")]
    )
    assert [(file["path"], file["trouble"]) for file in json.loads(get_stdout(store, "s", "--json"))["files"]] == [
        (str(tree.parent / "elsewhere" / "x"), "outside"),
        ("real/y", None),
        ("real/target", None),
        ("real/file", "deleted"),
    ]


def test_what_has_no_diff_is_named_on_stderr(store: ProxyStore, tree: Path) -> None:
    titles = ("make \x1b[31m", f"echo a\necho b; {'z' * 100}", *(f"run {number}" for number in range(11)))
    calls = [
        each
        for id, title in enumerate(titles)
        for each in (started_call(f"{id}", kind="execute", title=title), ended_call(f"{id}"))
    ]
    store_turns(store, tree, calls)
    result = run(store, "s")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith(
        "No changed files: no tool call of these turns reported a change, or each change was taken back.\n"
        "Not shown: what 13 commands may have changed, which is not recorded: 'make' (turn 1), "
        f"'echo a\\necho b; {'z' * 65}…' (turn 1), 'run 0' (turn 1),"
    )
    assert result.stderr.endswith("'run 9' (turn 1), and 1 more (all: --json).\n")
    assert "\x1b" not in result.stderr


@pytest.mark.parametrize(
    ("words", "beginning", "is_named"),
    [
        (("diff", "s"), "Not in the patch", True),
        (("diff", "s", "--stat"), "Not counted", True),
        (("show", "s", "--files"), "Not counted", True),
        (("diff", "s", "--check"), "Not compared", True),
        (("diff", "s", "--name-only"), "Not listed", False),
    ],
)
def test_what_is_left_out_is_named_by_what_is_shown(
    store: ProxyStore, tree: Path, words: tuple[str, ...], beginning: str, is_named: bool
) -> None:
    part = edit_call("1", "part", "b", "B", rawInput={"old_string": "b", "new_string": "B"})
    command_call = [started_call("3", kind="execute", title="make"), ended_call("3")]
    store_turns(store, tree, part, edit_call("2", "../x", None, "x\n"), command_call)
    said = commands.run(store, *words).stderr
    assert f"{beginning}: what a command may have changed, which is not recorded: 'make' (turn 3).\n" in said
    assert re.findall(r"(?m)^(\S[^:]*): (\S+):", said) == [
        *([(beginning, "part")] if is_named else []),
        (beginning, str(tree.parent / "x")),
    ]


def test_a_command_that_ran_often_is_named_once(store: ProxyStore, tree: Path) -> None:
    turns = [
        [
            call
            for id, title in (("a", "pytest -q"), ("b", f"only {number}"), ("c", "make"))
            if number == 2 or id != "c"
            for call in (started_call(f"{id}{number}", kind="execute", title=title), ended_call(f"{id}{number}"))
        ]
        for number in (1, 2, 3)
    ]
    store_turns(store, tree, *turns)
    assert (
        "what 7 commands may have changed, which is not recorded: 'pytest -q' (3 times, turns 1-3), 'only 1' (turn 1)"
        in (run(store, "s", "--stat").stderr)
    )


def test_json_has_everything(store: ProxyStore, tree: Path) -> None:
    store_turns(
        store,
        tree,
        [*edit_call("1", "a", "0\n", "1\n"), started_call("2", kind="execute", title="make"), ended_call("2")],
    )
    told = json.loads(get_stdout(store, "s", "--json"))
    assert told["cwd"] == str(tree)
    [file], [unclear] = told["files"], told["unclear"]
    assert {key: file[key] for key in ("path", "change", "added", "removed", "trouble")} == {
        "path": "a",
        "change": "modified",
        "added": 1,
        "removed": 1,
        "trouble": None,
    }
    assert [edit["toolCallId"] for edit in file["edits"]] == ["1"]
    assert (unclear["title"], unclear["cause"]) == ("make", "command")


def test_a_terminal_gets_colours_and_no_control_characters(store: ProxyStore, tree: Path) -> None:
    store_turns(store, tree, edit_call("1", "a", "0\n", "\x1b]0;title\x07\n"))
    screen = run_on_terminal("diff", "s", "--store", str(store.root))
    assert "\x1b[31m-0\x1b[0m" in screen
    assert "\x1b]0;" not in screen
    assert "\x1b]0;title" in get_stdout(store, "s")


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("place", ["", "part/of it"])
def test_git_takes_the_patch_at_the_top_of_the_work_tree_and_in_the_sessions_directory(
    store: ProxyStore, tree: Path, place: str
) -> None:
    folder = tree / "part" / "of it"
    folder.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", "."], cwd=tree, check=True)
    (folder / "a").write_text("2\n")
    moved = started_call("2", kind="move", locations=[{"path": "b"}, {"path": "c"}])
    store_turns(store, folder, [*edit_call("1", "a", "1\n", "2\n"), moved, ended_call("2")])
    (folder / "c").write_text("text\n")
    patch = get_stdout(store, "s", "--reverse").encode()
    subprocess.run(["git", "apply"], input=patch, cwd=tree / place, check=True)
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"a": "1\n", "b": "text\n"}


def test_the_patch_of_a_directory_that_is_gone_names_no_directory_of_the_work_tree_around(
    store: ProxyStore, tree: Path
) -> None:
    (tree / ".git").mkdir()
    store_turns(store, tree / "worktrees" / "x", edit_call("1", "a", "1\n", "2\n"))
    assert get_stdout(store, "s").startswith("diff --git a/a b/a\n")


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_takes_the_diff_of_a_large_file(store: ProxyStore, tree: Path) -> None:
    text = "line\n" * 200_000
    store_turns(store, tree, [started_call("1", diff("a", text, text + "last\n")), ended_call("1")])
    (tree / "a").write_text(text)
    patch = run(store, "s").stdout_bytes
    assert len(patch) < 1000
    subprocess.run(["git", "apply"], input=patch, cwd=tree, check=True)
    assert (tree / "a").read_bytes().endswith(b"line\nlast\n")


def test_a_file_of_too_many_lines_is_named(store: ProxyStore, tree: Path) -> None:
    store_turns(store, tree, edit_call("1", "a", None, "x\n" * 600_000))
    result = run(store, "s")
    assert (result.stdout, result.stderr) == ("", "Not in the patch: a: too large to compare (turn 1).\n")


def test_forms_of_the_output_exclude_each_other(store: ProxyStore, tree: Path) -> None:
    assert run(store, "s", "--stat", "--json").exit_code == 2


def test_the_patch_may_go_into_a_file(store: ProxyStore, tree: Path, tmp_path: Path) -> None:
    store_turns(
        store, tree, edit_call("1", "app.py", "one\ntwo\n", "one\n2\n"), edit_call("2", "new.py", None, "new\n")
    )
    patch = tmp_path / "x.patch"
    assert run(store, "s", "--output", str(patch)).stdout == f"{patch}\n"
    assert patch.read_text() == PATCH
    assert (run(store, "s", "-o", str(patch)).exit_code, run(store, "s", "-o", str(patch), "--force").exit_code) == (
        1,
        0,
    )
    assert run(store, "s", "-o", str(patch), "--stat").exit_code == 2
    assert run(store, "s", "elsewhere.py", "-o", str(tmp_path / "none")).exit_code == 0
    assert not (tmp_path / "none").exists()


def test_show_lists_the_changed_files(store: ProxyStore, tree: Path) -> None:
    store_turns(store, tree, edit_call("1", "a", "0\n", "1\n"), edit_call("2", "b", None, "x\n"))
    shown = Command("show")
    assert shown.get_stdout(store, "s", "--files") == " a | 2 +-\n b | 1 +\n 2 files changed, 2 added, 1 removed\n"
    assert shown.get_stdout(store, "s", "--files", "--turn", "2") == " b | 1 +\n 1 file changed, 1 added, 0 removed\n"
    assert shown.run(store, "s", "--files", "--json").exit_code == 2


def test_exports_end_with_the_changed_files(store: ProxyStore, tree: Path) -> None:
    hostile = "</code>`````\n<script>\n"
    store_turns(
        store,
        tree,
        edit_call("1", "a", "0\n1\n", "0\n2\n"),
        edit_call("2", "../b", None, "x\n"),
        edit_call("3", "c", None, hostile),
    )
    export = Command("export")
    told = export.get_stdout(store, "s").partition("## Changed files\n")[2]
    assert (
        "<details><summary><code>a</code> modified, +1 -1</summary>\n\n```diff\n@@ -1,2 +1,2 @@\n 0\n-1\n+2\n```"
        in told
    )
    place = str(tree.parent / "b").replace(os.path.expanduser("~"), "~")
    assert f"* <code>{place}</code> added: outside the session's directory" in told
    assert "``````diff\n@@ -0,0 +1,2 @@\n+</code>`````\n" in told
    page = export.get_stdout(store, "s", "--format", "html").partition('id="files"')[2]
    assert '<span class="what" dir="auto">a modified</span>' in page
    assert "+&lt;script&gt;" in page
    assert "+<script>" not in page
    assert "Changed files" not in export.get_stdout(store, "s", "--tools", "none")


def test_an_export_of_some_turns_has_their_changes(store: ProxyStore, tree: Path) -> None:
    store_turns(store, tree, edit_call("1", "a", "0\n", "1\n"), edit_call("2", "b", None, "x\n"))
    told = Command("export").get_stdout(store, "s", "--turn", "2").partition("## Changed files\n")[2]
    assert "<code>b</code> added" in told
    assert "<code>a</code>" not in told


def test_an_export_does_not_read_the_files_as_they_are_now(store: ProxyStore, tree: Path) -> None:
    store_turns(store, tree, edit_call("1", "a", "b", "B", rawInput={"old_string": "b", "new_string": "B"}))
    (tree / "a").write_text("private\nB\n")
    text = Command("export").get_stdout(store, "s")
    assert "private" not in text
    assert "* <code>a</code> modified: only the changed part is recorded" in text


def test_a_long_diff_is_cut_in_an_export(store: ProxyStore, tree: Path) -> None:
    store_turns(store, tree, edit_call("1", "a", None, "x\n" * 1000))
    assert "… 501 more rows\n```" in Command("export").get_stdout(store, "s")
