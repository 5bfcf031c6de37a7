"""An edit as hunks with context."""

import difflib

from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.views import diffs
from acp_proxy.views.diffs import diff_texts

LINES = st.lists(st.sampled_from("abcde "), max_size=30).map(lambda lines: "".join(f"{line}\n" for line in lines))


def hunk_lines(old: str | None, new: str) -> list[str]:
    return [row.text if row.kind == "@" else row.kind + row.text for row in diff_texts(old, new)]


def test_a_change_is_shown_with_context() -> None:
    old = "".join(f"{number}\n" for number in range(20))
    assert hunk_lines(old, old.replace("10\n", "ten\n")) == [
        "@@ -8,7 +8,7 @@", " 7", " 8", " 9", "-10", "+ten", " 11", " 12", " 13"
    ]  # fmt: skip


def test_a_new_file_is_all_added_and_an_emptied_one_all_removed() -> None:
    assert hunk_lines(None, "a\nb") == ["@@ -0,0 +1,2 @@", "+a", "+b"]
    assert hunk_lines("a\n", "") == ["@@ -1 +0,0 @@", "-a"]


def test_equal_texts_have_no_rows() -> None:
    assert hunk_lines("a\nb\n", "a\nb\n") == hunk_lines("", "") == hunk_lines("a\r\n", "a\n") == []


@given(LINES, LINES)
def test_applying_the_hunks_to_the_old_text_gives_the_new(old: str, new: str) -> None:
    whole = list(diff_texts(f"{old}\n" * 1, f"{new}\n"))
    hunks = [row.text for row in whole if row.kind == "@"]
    reference = list(difflib.unified_diff(f"{old}\n".split("\n")[:-1], f"{new}\n".split("\n")[:-1], lineterm=""))
    assert bool(hunks) == bool(reference)
    assert _applied(f"{old}\n", whole) == f"{new}\n".split("\n")[:-1]


def _applied(old: str, rows: list[diffs.DiffRow]) -> list[str]:
    """The lines of the old text with the hunks applied."""
    lines, out, at = old.split("\n")[:-1], list[str](), 0
    for row in rows:
        if row.kind == "@":
            first = row.text.split()[1][1:].split(",")
            start = int(first[0]) - (len(first) == 1 or first[1] != "0")
            out += lines[at:start]
            at = start
        elif row.kind == "+":
            out.append(row.text)
        else:
            assert lines[at] == row.text
            at += 1
            if row.kind == " ":
                out.append(row.text)
    return out + lines[at:]


def test_a_text_too_large_to_compare_is_one_change() -> None:
    old, new = (f"{name}\n" + "".join(f"{name}{n}\n" for n in range(15_000)) for name in ("x", "y"))
    rows = list(diff_texts(f"same\n{old}end\n", f"same\n{new}end\n"))
    assert diffs.count_rows(rows) == (15_001, 15_001)
    assert [row.text for row in rows if row.kind == " "] == ["same", "end"]
