"""Which edit wrote each line of a file as it is now. Pure.

As ``git blame`` does with commits: from the newest edit on backwards, the lines that an edit added are its own, and the
others are looked for in the text before it. What lies between two edits, and in no session, is the user's.
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
    """The text that the lines are followed to, and which line of the file each of its lines still is."""
    for index in range(len(steps) - 1, -1, -1):
        if not origin:
            break
        step = steps[index]
        if step.after is None:
            origin = _take_part(step, index, version, origin, writers)
            continue
        after = split_lines(step.after.text or "")
        at = _match(version, after)
        origin = {at[line]: number for line, number in origin.items() if line in at}
        version = after
        if step.before is None:
            origin = _take_part(step, index, version, origin, writers)
            continue
        before = split_lines(step.before.text or "")
        at = _match(after, before)
        for line, number in origin.items():
            if line not in at:
                writers[number] = index
        origin = {at[line]: number for line, number in origin.items() if line in at}
        version = before
    return [
        WrittenLine(number, line, writer) for number, (line, writer) in enumerate(zip(lines, writers, strict=True), 1)
    ]


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


def _take_part(
    step: TracedEdit, index: int, version: list[str], origin: dict[int, int], writers: list[int | None]
) -> dict[int, int]:
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
