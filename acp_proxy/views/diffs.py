"""The change of a text as unified hunks.

Time is bounded: a change that is too large to compare becomes one hunk from end to end.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal, cast

_CONTEXT = 3
_COMPARED = 10_000
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
    """``old``: None where the file is new."""
    before, after = _split_lines(old or ""), _split_lines(new)
    for hunk in group_changes(before, after):
        yield DiffRow("@", format_hunk_heading(hunk))
        for tag, i1, i2, j1, j2 in hunk:
            if tag == "equal":
                yield from (DiffRow(" ", line) for line in before[i1:i2])
            else:
                yield from (DiffRow("-", line) for line in before[i1:i2])
                yield from (DiffRow("+", line) for line in after[j1:j2])


def group_changes(before: list[str], after: list[str]) -> Iterator[list[Change]]:
    """The changes of lines with the lines around them, in groups."""
    yield from cast(Iterator[list[Change]], _Compared(find_changes(before, after)).get_grouped_opcodes(_CONTEXT))


def format_hunk_heading(hunk: list[Change]) -> str:
    """The line with the places of a hunk: ``@@ -1,3 +1,4 @@``."""
    (_, first, _, start, _), (_, _, last, _, end) = hunk[0], hunk[-1]
    return f"@@ -{_format_span(first, last)} +{_format_span(start, end)} @@"


def count_rows(rows: list[DiffRow]) -> tuple[int, int]:
    """The number of added and of removed lines."""
    kinds = [row.kind for row in rows]
    return kinds.count("+"), kinds.count("-")


class _Compared(SequenceMatcher[str]):
    """Changes that are already known, to be grouped."""

    def __init__(self, changes: list[Change]) -> None:
        super().__init__()
        self._changes = changes

    def get_opcodes(self) -> list[Change]:
        return self._changes


def find_changes(before: list[str], after: list[str]) -> list[Change]:
    """What happened to each line. The common beginning and end are not compared further."""
    least = min(len(before), len(after))
    head = next((at for at in range(least) if before[at] != after[at]), least)
    tail = next((at for at in range(least - head) if before[-1 - at] != after[-1 - at]), least - head)
    left, right = before[head : len(before) - tail], after[head : len(after) - tail]
    changed: list[Change] = [("replace", 0, len(left), 0, len(right))] if left or right else []
    if left and right and len(left) + len(right) <= _COMPARED:
        changed = list(SequenceMatcher(None, left, right).get_opcodes())
    changes: list[Change] = [("equal", 0, head, 0, head)] if head else []
    changes += [(tag, i1 + head, i2 + head, j1 + head, j2 + head) for tag, i1, i2, j1, j2 in changed]
    if tail:
        changes.append(("equal", len(before) - tail, len(before), len(after) - tail, len(after)))
    return changes


def _format_span(start: int, end: int) -> str:
    """A range of lines, counted from 1. An empty range names the line before it."""
    size = end - start
    return f"{start + 1 if size else start}{'' if size == 1 else f',{size}'}"


def _split_lines(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines
