"""Which edit wrote each line of a file as it is now. Pure.

As ``git blame`` does with commits: from the newest edit on backwards, the lines that an edit added are its own, and the
others are looked for in the text before it. What lies between two edits, and in no session, is the user's. Agents move
a block with two edits, so edits of one turn that follow each other are looked at together first.
"""

from collections.abc import Sequence

from msgspec import Struct

from acp_proxy.tools.changes.net import TracedEdit
from acp_proxy.tools.changes.patch import split_lines
from acp_proxy.views import diffs


class WrittenLine(Struct, frozen=True):
    """A line of a file. ``number``: from 1. ``step``: the index of the edit that wrote it; None: no session did."""

    number: int
    text: str
    step: int | None


def find_writers(text: str, steps: Sequence[TracedEdit]) -> list[WrittenLine]:
    """The lines of a text, with who wrote them. ``steps``: all edits of the file, oldest first."""
    lines = split_lines(text)
    writers: list[int | None] = [None] * len(lines)
    version, origin = lines, dict(enumerate(range(len(lines))))
    last = len(steps) - 1
    while last >= 0 and origin:
        first = _find_first(steps, last)
        if first == last:
            version, origin = _follow(steps[last], last, version, origin, writers)
        else:
            version, origin = _follow_turn(steps, first, last, version, origin, writers)
        last = first - 1
    return [
        WrittenLine(number, line, writer) for number, (line, writer) in enumerate(zip(lines, writers, strict=True), 1)
    ]


_Origin = dict[int, int]
"""Which line of the file each line of an older text still is: the lines that nobody is known to have written yet."""


def _find_first(steps: Sequence[TracedEdit], last: int) -> int:
    """The first of the edits of a turn that end with ``last``, if each begins where the one before it ended."""
    first = last
    while first > 0:
        step, before = steps[first], steps[first - 1]
        is_next = step.before is not None and step.before == before.after and before.before is not None
        if not is_next or step.edit.turn != before.edit.turn or step.after is None:
            break
        first -= 1
    return first


def _follow_turn(
    steps: Sequence[TracedEdit],
    first: int,
    last: int,
    version: list[str],
    origin: _Origin,
    writers: list[int | None],
) -> tuple[list[str], _Origin]:
    """The lines that were there before the turn, wherever they were moved; the others are of the turn's edits."""
    after, before = steps[last].after, steps[first].before
    assert after is not None
    assert before is not None
    version, origin = _go_to(split_lines(after.text or ""), version, origin)
    old = split_lines(before.text or "")
    at = _match(version, old)
    found = {at[line]: number for line, number in origin.items() if line in at}
    added = {line: number for line, number in origin.items() if line not in at}
    for index in range(last, first - 1, -1):
        version, added = _follow(steps[index], index, version, added, writers)
    for line, number in added.items():  # such as an empty line, whose place is not the same seen edit by edit
        if found.setdefault(line, number) != number:
            writers[number] = last
    return old, found


def _follow(
    step: TracedEdit, index: int, version: list[str], origin: _Origin, writers: list[int | None]
) -> tuple[list[str], _Origin]:
    """Give an edit the lines that it added. Returns the text before it, and the lines that are left."""
    if step.after is None:
        return version, _take_part(step, index, version, origin, writers)
    version, origin = _go_to(split_lines(step.after.text or ""), version, origin)
    if step.before is None:
        return version, _take_part(step, index, version, origin, writers)
    before = split_lines(step.before.text or "")
    at = _match(version, before)
    for line, number in origin.items():
        if line not in at:
            writers[number] = index
    return before, {at[line]: number for line, number in origin.items() if line in at}


def _go_to(older: list[str], version: list[str], origin: _Origin) -> tuple[list[str], _Origin]:
    """The lines in an older text; those that are not in it are the user's."""
    if older == version:
        return version, origin
    at = _match(version, older)
    return older, {at[line]: number for line, number in origin.items() if line in at}


def _match(new: list[str], old: list[str]) -> dict[int, int]:
    """Where each line of ``new`` was in ``old``: in its place, or moved, if it has a word in it."""
    found: dict[int, int] = {}
    for tag, i1, i2, j1, _ in diffs.find_changes(old, new):
        if tag == "equal":
            found.update(zip(range(j1, j1 + i2 - i1), range(i1, i2), strict=True))
    free: dict[str, list[int]] = {}
    taken = set(found.values())
    for at in range(len(old) - 1, -1, -1):
        if at not in taken:
            free.setdefault(old[at].rstrip("\r\n"), []).append(at)
    for at, line in enumerate(new):
        bare = line.rstrip("\r\n")
        if at not in found and any(map(str.isalnum, bare)) and (places := free.get(bare)):
            found[at] = places.pop()
    return found


def _take_part(step: TracedEdit, index: int, version: list[str], origin: _Origin, writers: list[int | None]) -> _Origin:
    """Give lines to an edit of which only the part is known: those that are the same as one that it added."""
    if step.edit.form != "part":
        return origin
    old, new = split_lines(step.edit.old or ""), split_lines(step.edit.new or "")
    same = _match(new, old)
    added = {line.rstrip("\r\n") for at, line in enumerate(new) if at not in same and any(map(str.isalnum, line))}
    rest = {}
    for line, number in origin.items():
        if version[line].rstrip("\r\n") in added:
            writers[number] = index
        else:
            rest[line] = number
    return rest
