"""Which edit wrote each line of a file as it is now. Pure.

As ``git blame`` does with commits: from the newest edit on backwards, the lines that an edit added are its own, and the
others are looked for in the text before it. What lies between two edits, and in no session, is the user's. Agents move
a block with two edits, so edits of one turn that follow each other are looked at together first.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from acp_proxy.tools.changes.net import TracedEdit
from acp_proxy.tools.changes.patch import split_lines
from acp_proxy.views import diffs


class WrittenLine(Struct, frozen=True):
    """A line of a file. ``number``: from 1. ``edit``: the index of the edit that wrote it; None: no session did."""

    number: int
    text: str
    edit: int | None


def find_writers(text: str, edits: Sequence[TracedEdit]) -> list[WrittenLine]:
    """The lines of a text, with who wrote them. ``edits``: all edits of the file, oldest first."""
    lines = split_lines(text)
    search = _WriterSearch(lines, dict(enumerate(range(len(lines)))), [None] * len(lines))
    last = len(edits) - 1
    while last >= 0 and search.origin:
        first = _find_first(edits, last)
        if first == last:
            search.follow(edits[last], last)
        else:
            search.follow_turn(edits, first, last)
        last = first - 1
    return [
        WrittenLine(number, line, writer)
        for number, (line, writer) in enumerate(zip(lines, search.writers, strict=True), 1)
    ]


def _find_first(edits: Sequence[TracedEdit], last: int) -> int:
    """The first of the edits of a turn that end with ``last``, if each begins where the one before it ended."""
    first = last
    while first > 0:
        edit, previous = edits[first], edits[first - 1]
        is_next = edit.before is not None and edit.before == previous.after and previous.before is not None
        if not is_next or edit.edit.turn != previous.edit.turn or edit.after is None:
            break
        first -= 1
    return first


class _WriterSearch:
    """The way back from the file as it is now to ever older texts.

    ``version``: the lines of the text that was reached. ``origin``: by a line in it, the line of the file that it still
    is: only lines that nobody is known to have written yet. ``writers``: by a line of the file, the index of the edit
    that wrote it.
    """

    def __init__(self, version: list[str], origin: dict[int, int], writers: list[int | None]) -> None:
        self.version, self.origin, self.writers = version, origin, writers

    def follow(self, edit: TracedEdit, index: int) -> None:
        """Give an edit the lines that it added, and go to the text before it."""
        if edit.after is None:
            self._give_part(edit, index)
            return
        self._go_to(split_lines(edit.after.text or ""))
        if edit.before is None:
            self._give_part(edit, index)
            return
        old_lines = split_lines(edit.before.text or "")
        old_numbers = _match_lines(self.version, old_lines)
        for line, number in self.origin.items():
            if line not in old_numbers:
                self.writers[number] = index
        self._move(old_lines, old_numbers)

    def follow_turn(self, edits: Sequence[TracedEdit], first: int, last: int) -> None:
        """Go to the text before a turn: lines that were there are found wherever they were moved; the others are of the
        turn's edits, from ``first`` to ``last``."""
        after, before = edits[last].after, edits[first].before
        assert after is not None
        assert before is not None
        self._go_to(split_lines(after.text or ""))
        old_lines = split_lines(before.text or "")
        old_numbers = _match_lines(self.version, old_lines)
        origin = {old_numbers[line]: number for line, number in self.origin.items() if line in old_numbers}
        added = {line: number for line, number in self.origin.items() if line not in old_numbers}
        turn_search = _WriterSearch(self.version, added, self.writers)
        for index in range(last, first - 1, -1):
            turn_search.follow(edits[index], index)
        # What is left was there edit by edit, but not in the turn as a whole, such as an empty line.
        for line, number in turn_search.origin.items():
            if origin.setdefault(line, number) != number:
                self.writers[number] = last
        self.version, self.origin = old_lines, origin

    def _go_to(self, older: list[str]) -> None:
        """Go to an older text; lines that are not in it are the user's."""
        if older != self.version:
            self._move(older, _match_lines(self.version, older))

    def _move(self, older: list[str], old_numbers: Mapping[int, int]) -> None:
        self.version = older
        self.origin = {old_numbers[line]: number for line, number in self.origin.items() if line in old_numbers}

    def _give_part(self, edit: TracedEdit, index: int) -> None:
        """Give lines to an edit of which only the part is known: those that are the same as one that it added."""
        if edit.edit.form != "part":
            return
        old, new = split_lines(edit.edit.old or ""), split_lines(edit.edit.new or "")
        old_numbers = _match_lines(new, old)
        added = {
            line.rstrip("\r\n")
            for number, line in enumerate(new)
            if number not in old_numbers and any(map(str.isalnum, line))
        }
        remaining = {}
        for line, number in self.origin.items():
            if self.version[line].rstrip("\r\n") in added:
                self.writers[number] = index
            else:
                remaining[line] = number
        self.origin = remaining


def _match_lines(new: list[str], old: list[str]) -> dict[int, int]:
    """By the index of a line of ``new``: its index in ``old``. It may have been moved, if it has a word in it."""
    old_numbers: dict[int, int] = {}
    for tag, i1, i2, j1, _ in diffs.find_changes(old, new):
        if tag == "equal":
            old_numbers.update(zip(range(j1, j1 + i2 - i1), range(i1, i2), strict=True))
    unmatched: dict[str, list[int]] = {}
    matched = set(old_numbers.values())
    for index in range(len(old) - 1, -1, -1):
        if index not in matched:
            unmatched.setdefault(old[index].rstrip("\r\n"), []).append(index)
    for index, line in enumerate(new):
        stripped = line.rstrip("\r\n")
        if index not in old_numbers and any(map(str.isalnum, stripped)) and (indexes := unmatched.get(stripped)):
            old_numbers[index] = indexes.pop()
    return old_numbers
