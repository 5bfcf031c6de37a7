"""The change of a text as unified hunks.

Time is bounded: a change that is too large to compare becomes one hunk from end to end.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal, cast

_CONTEXT = 3
_MOST_COMPARED_LINES = 10_000
"""Lines of both sides that are compared line by line: a second at worst."""


_Tag = Literal["replace", "delete", "insert", "equal"]
Change = tuple[_Tag, int, int, int, int]
"""What happened to some lines, and where they begin and end before and after, as in ``difflib``."""


@dataclass(frozen=True, slots=True)
class DiffRow:
    """``kind``: ``@`` where a hunk begins, else as in a unified diff: a space, ``-`` or ``+``."""

    kind: str
    text: str


def diff_texts(old: str | None, new: str) -> Iterator[DiffRow]:
    """The rows of a unified diff. ``old``: None if the file is new."""
    old_lines, new_lines = _split_lines(old or ""), _split_lines(new)
    for hunk in group_changes(old_lines, new_lines):
        yield DiffRow("@", format_hunk_heading(hunk))
        for tag, i1, i2, j1, j2 in hunk:
            if tag == "equal":
                yield from (DiffRow(" ", line) for line in old_lines[i1:i2])
            else:
                yield from (DiffRow("-", line) for line in old_lines[i1:i2])
                yield from (DiffRow("+", line) for line in new_lines[j1:j2])


def group_changes(old_lines: list[str], new_lines: list[str]) -> Iterator[list[Change]]:
    """The hunks: changes of lines with the lines around them."""
    yield from cast(
        Iterator[list[Change]], _KnownChanges(find_changes(old_lines, new_lines)).get_grouped_opcodes(_CONTEXT)
    )


def format_hunk_heading(hunk: list[Change]) -> str:
    """The line with the places of a hunk: ``@@ -1,3 +1,4 @@``."""
    (_, old_start, _, new_start, _), (_, _, old_end, _, new_end) = hunk[0], hunk[-1]
    return f"@@ -{_format_span(old_start, old_end)} +{_format_span(new_start, new_end)} @@"


def count_rows(rows: list[DiffRow]) -> tuple[int, int]:
    """The number of added and of removed lines."""
    kinds = [row.kind for row in rows]
    return kinds.count("+"), kinds.count("-")


class _KnownChanges(SequenceMatcher[str]):
    """Lets ``difflib`` group changes that are already known."""

    def __init__(self, changes: list[Change]) -> None:
        super().__init__()
        self._changes = changes

    def get_opcodes(self) -> list[Change]:
        return self._changes


def find_changes(old_lines: list[str], new_lines: list[str]) -> list[Change]:
    """What happened to each line. The common beginning and end are not compared further."""
    shorter = min(len(old_lines), len(new_lines))
    common_start = next((index for index in range(shorter) if old_lines[index] != new_lines[index]), shorter)
    common_end = next(
        (index for index in range(shorter - common_start) if old_lines[-1 - index] != new_lines[-1 - index]),
        shorter - common_start,
    )
    old_middle = old_lines[common_start : len(old_lines) - common_end]
    new_middle = new_lines[common_start : len(new_lines) - common_end]
    middle_changes: list[Change] = (
        [("replace", 0, len(old_middle), 0, len(new_middle))] if old_middle or new_middle else []
    )
    if old_middle and new_middle and len(old_middle) + len(new_middle) <= _MOST_COMPARED_LINES:
        middle_changes = list(SequenceMatcher(None, old_middle, new_middle).get_opcodes())
    changes: list[Change] = [("equal", 0, common_start, 0, common_start)] if common_start else []
    changes += [
        (tag, i1 + common_start, i2 + common_start, j1 + common_start, j2 + common_start)
        for tag, i1, i2, j1, j2 in middle_changes
    ]
    if common_end:
        changes.append(
            ("equal", len(old_lines) - common_end, len(old_lines), len(new_lines) - common_end, len(new_lines))
        )
    return changes


def _format_span(start: int, end: int) -> str:
    """A range of lines, counted from 1. An empty range names the line before it."""
    size = end - start
    return f"{start + 1 if size else start}{'' if size == 1 else f',{size}'}"


def _split_lines(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines
