"""What a patch in git's format says about each file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.protocol.git_patch import PatchedFiles, quote, read_patch

PATCH = """\
diff --git /p/a file /p/a file
index 1..2 100644
--- /p/a file\t
+++ /p/a file\t
@@ -1,3 +1,3 @@
 one
--- two
+++ 2

@@ -9 +9 @@ def f():
-nine
\\ No newline at end of file
+9
diff --git /p/new /p/new
new file mode 100644
--- /dev/null
+++ /p/new
@@ -0,0 +1 @@
+x
\\ No newline at end of file
"""


def test_each_hunk_has_its_lines_before_and_after() -> None:
    changed, new = read_patch(PATCH)
    assert changed.hunks == [(["one\n", "-- two\n", "\n"], ["one\n", "++ 2\n", "\n"]), (["nine"], ["9\n"])]
    assert new.hunks == [([], ["x"])]


def test_a_file_is_known_by_its_whole_path() -> None:
    changed, new = read_patch(PATCH)
    files = PatchedFiles([changed, new])
    assert [files.find(path) for path in ("/p/a file", "/p/new", "new", "file")] == [changed, new, None, None]


@pytest.mark.parametrize("name", ['"/p/caf\\303\\251.py"', "/p/café.py"])
def test_a_file_is_known_by_its_path_with_and_without_gits_quotes(name: str) -> None:
    [patch] = read_patch(f"diff --git {name} {name}\n--- {name}\n+++ {name}\n@@ -1 +1 @@\n-a\n+b\n")
    assert PatchedFiles([patch]).find("/p/café.py") is patch


@pytest.mark.parametrize("rest", ["\n", "-- \n2.40.1\n", "\n\\ No newline at end of file\n"])
def test_what_follows_the_last_line_of_a_hunk_is_no_part_of_it(rest: str) -> None:
    [patch] = read_patch(f"--- /a\n+++ /a\n@@ -1,2 +1,2 @@\n x\n-y\n+z\n{rest}")
    assert patch.hunks == [(["x\n", "y\n"], ["x\n", "z\n"])]


@pytest.mark.parametrize("heading", ["@@ @@", "@@ -1,x +1 @@", "@@ ... @@", f"@@ -1,{'9' * 5000} +1 @@"])
def test_a_hunk_whose_heading_has_no_numbers_has_all_lines(heading: str) -> None:
    [patch] = read_patch(f"--- /a\n+++ /a\n{heading}\n x\n-y\n+z\n w\n")
    assert patch.hunks == [(["x\n", "y\n", "w\n"], ["x\n", "z\n", "w\n"])]


@pytest.mark.parametrize(
    ("path", "quoted"),
    [
        ("a b", "a b"),
        ("a\nb", '"a\\nb"'),
        ('a"b\\', '"a\\"b\\\\"'),
        ("ü", '"\\303\\274"'),
        ("\ud800", '"\\355\\240\\200"'),
        ("\x1b[31m", '"\\033[31m"'),
    ],
)
def test_names_are_quoted_as_git_quotes_them(path: str, quoted: str) -> None:
    assert quote(path) == quoted


@given(st.lists(st.sampled_from(["diff --git a b", "@@ -1 +1 @@", "\\ No newline", "-a", "+b", " c", "", "x"])))
def test_no_text_raises(lines: list[str]) -> None:
    patches = read_patch("\n".join(lines))
    assert sum(len(patch.hunks) for patch in patches) == lines.count("@@ -1 +1 @@")
