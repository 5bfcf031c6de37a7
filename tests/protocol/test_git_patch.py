"""What a patch in git's format says about each file."""

from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.protocol.git_patch import read_patch

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
    assert [patch.is_of("/p/a file") for patch in (changed, new)] == [True, False]
    assert [patch.is_of("/p/new") for patch in (changed, new)] == [False, True]
    assert not new.is_of("new")


@given(st.lists(st.sampled_from(["diff --git a b", "@@ -1 +1 @@", "\\ No newline", "-a", "+b", " c", "", "x"])))
def test_no_text_raises(lines: list[str]) -> None:
    patches = read_patch("\n".join(lines))
    assert sum(len(patch.hunks) for patch in patches) == lines.count("@@ -1 +1 @@")
