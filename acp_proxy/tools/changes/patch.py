"""Writes the net change of a file as git does, so that ``git apply`` takes it. Pure.

Nothing of what an agent wrote can add a line of its own to a patch: the text of a file has a mark in front of every
line, and names are quoted as git quotes them.
"""

from collections.abc import Iterator
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from acp_proxy.protocol.git_patch import quote
from acp_proxy.tools.changes.net import ABSENT, FileChange, FileText
from acp_proxy.views import diffs
from acp_proxy.views.diffs import DiffRow

_NO_NEWLINE = "\\ No newline at end of file"


class FileDiff(Struct, frozen=True):
    """The change of a file in rows. ``head``: the lines in front of the hunks.

    ``rows``: of all hunks; a row of kind ``\\`` follows a last line without its newline.
    """

    head: list[str]
    rows: list[DiffRow]

    @property
    def counts(self) -> tuple[int, int]:
        """The number of added and of removed lines."""
        return diffs.count_rows(self.rows)

    def encode(self) -> bytes:
        """The patch."""
        lines = (row.text if row.kind in "@\\" else row.kind + row.text for row in self.rows)
        return "".join(f"{line}\n" for line in chain(self.head, lines)).encode()


def reverse(change: FileChange) -> FileChange:
    """The change that takes this one back."""
    path, source = (change.source, change.path) if change.source else (change.path, "")
    return replace(change, path=path, source=source, old=change.new, new=change.old)


def make_diff(change: FileChange) -> FileDiff:
    """The change of a file without trouble."""
    old, new = change.old, change.new
    new_path = change.folder + change.path
    old_path = change.folder + change.source if change.source else new_path
    old_name, new_name = quote(f"a/{old_path}"), quote(f"b/{new_path}")
    rows = list(_list_rows(old, new)) if old is not None and new is not None else []
    head = [f"diff --git {old_name} {new_name}"]
    if old == ABSENT:
        head.append("new file mode 100644")
    elif new == ABSENT:
        head.append("deleted file mode 100644")
    elif change.source:
        is_same = old == new
        head += [f"similarity index {100 if is_same else 50}%"]
        head += [f"rename from {quote(old_path)}", f"rename to {quote(new_path)}"]
    if rows:
        head.append(f"--- {'/dev/null' if old == ABSENT else _end_name(old_name)}")
        head.append(f"+++ {'/dev/null' if new == ABSENT else _end_name(new_name)}")
    return FileDiff(head, rows)


def _end_name(name: str) -> str:
    """A tab ends a name with spaces: else some programs would read on."""
    return f"{name}\t" if " " in name and not name.startswith('"') else name


def _list_rows(old: FileText, new: FileText) -> Iterator[DiffRow]:
    old_lines, new_lines = split_lines(old.text or ""), split_lines(new.text or "")
    for hunk in diffs.group_changes(old_lines, new_lines):
        yield DiffRow("@", diffs.format_hunk_heading(hunk))
        for tag, i1, i2, j1, j2 in hunk:
            if tag == "equal":
                yield from _make_rows(" ", old_lines[i1:i2])
            else:
                yield from _make_rows("-", old_lines[i1:i2])
                yield from _make_rows("+", new_lines[j1:j2])


def _make_rows(kind: str, lines: list[str]) -> Iterator[DiffRow]:
    for line in lines:
        yield DiffRow(kind, line.removesuffix("\n"))
        if not line.endswith("\n"):
            yield DiffRow("\\", _NO_NEWLINE)


def split_lines(text: str) -> list[str]:
    """The lines with their ends. Only a line feed ends one: git knows no other."""
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
