"""The net change of each file, from a session's edits in order. Pure: whoever calls it reads the files as they are now.

Each edit gives the text of a file before and after it. A whole text says both. Where an agent sent only the changed
part, both follow from the text that is known from another edit of the file, before it or after it, or else from
the file as it is now: if the part is there exactly once. If it is not, the change is named and not shown.
"""

import ntpath
import posixpath
from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from acp_proxy.store.same_directory import is_windows_path
from acp_proxy.tools.changes.edits import Edit

Trouble = Literal["part", "deleted", "moved", "outside", "git", "name", "text", "large"]
TROUBLES: dict[Trouble, str] = {
    "part": "only the changed part is recorded, and the file does not say where it was",
    "deleted": "deleted; what was in it is not recorded",
    "moved": "moved and changed; what was in it is not recorded",
    "outside": "outside the session's directory",
    "git": "git's own file",
    "name": "git takes no file of this name",
    "text": "its text cannot be written as UTF-8",
    "large": "too large to compare",
}
"""Why there is no patch for a file, for people."""


_MOST_LINES, _MOST_CHARACTERS = 500_000, 64 * 1024 * 1024
"""Lines and characters of both texts that are compared: some seconds at worst. Else a hostile diff of 100 MB of short
lines takes minutes and gigabytes."""


_BYTE_ORDER_MARK = "\ufeff"
_LONGEST_PATH, _LONGEST_NAME = 4096, 255  # bytes, on Linux


class FileText(Struct, frozen=True):
    """The text of a file. None: the file is not there."""

    text: str | None


ABSENT = FileText(None)
FindCurrentText = Callable[[str], FileText | None]
"""The text of a file now, by its path as the agent wrote it; None: unknown."""


class FileChange(Struct, frozen=True):
    """The net change of one file.

    ``path``: relative to the session's directory, with ``/``; outside of it, absolute.
    ``old``, ``new``: the text before and after; None: not known. ``source``: the path from which it was moved.
    ``trouble``: why there can be no patch. ``edits``: in order.
    ``was_changed_between``: something else changed it between two of the edits, which the net change includes.
    ``uses_current_file``: the file as it is now says where a changed part was.
    ``folder``: of a session in a git work tree, its directory there, with a slash at the end: patches begin at the top.
    """

    path: str
    old: FileText | None
    new: FileText | None
    edits: list[Edit]
    source: str = ""
    trouble: Trouble | None = None
    was_changed_between: bool = False
    uses_current_file: bool = False
    folder: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether the edits took each other back."""
        return self.trouble is None and self.old == self.new and not self.source


class TracedEdit:
    """An edit, and the texts before and after it as far as they are known. For a move, both are the text moved.

    ``path``, ``source``: as ``make_relative`` returns them. ``is_after_another``: something else changed the file
    before it. ``uses_current_file``: the file as it is now was needed.
    """

    def __init__(self, edit: Edit, path: str, source: str) -> None:
        self.edit = edit
        self.path = path
        self.source = source
        self.before: FileText | None = None
        self.after: FileText | None = None
        self.is_after_another = self.uses_current_file = False


def sum_changes(
    edits: Sequence[Edit],
    cwd: str | None,
    find_current_text: FindCurrentText = lambda path: None,
    is_wanted: Callable[[Edit], bool] = lambda edit: True,
) -> list[FileChange]:
    """The net changes, in the order in which the files were changed first.

    ``cwd``: the session's directory. ``is_wanted``: which edits count; the others only say what was in the files.
    """
    steps = trace_edits(edits, cwd, find_current_text)
    wanted_steps = [step for step in steps if is_wanted(step.edit)]
    by_path: dict[str, list[TracedEdit]] = {}
    for step in wanted_steps:
        for path in (step.source, step.path):
            if path:
                by_path.setdefault(path, []).append(step)
    changes = {path: _sum_file(path, file_steps) for path, file_steps in by_path.items()}
    for step in wanted_steps:
        if step.source:
            _merge_move(changes, step)
    return [change for change in changes.values() if not change.is_empty]


def trace_edits(
    edits: Sequence[Edit], cwd: str | None, find_current_text: FindCurrentText = lambda path: None
) -> list[TracedEdit]:
    """Every edit with the texts before and after it, as far as they are known."""
    steps = [
        TracedEdit(edit, make_relative(edit.path, cwd), make_relative(edit.source, cwd) if edit.source else "")
        for edit in edits
    ]
    steps = _order_chains(steps)
    _trace_forward(steps)
    _trace_back(steps, find_current_text)
    return steps


def make_relative(path: str, cwd: str | None) -> str:
    """A path relative to the session's directory, with ``/``; a path outside of it stays absolute."""
    if cwd is None:
        return path
    if is_windows_path(cwd):
        full_path, base, separator = ntpath.normpath(ntpath.join(cwd, path)), ntpath.normpath(cwd), "\\"
        is_inside = ntpath.normcase(full_path).startswith(ntpath.normcase(base.rstrip(separator) + separator))
    elif is_windows_path(path):
        return path
    else:
        full_path, base, separator = _normalize(posixpath.join(cwd, path)), _normalize(cwd), "/"
        is_inside = full_path.startswith(base.rstrip(separator) + separator)
    return full_path[len(base.rstrip(separator)) + 1 :].replace(separator, "/") if is_inside else full_path


def _normalize(path: str) -> str:
    """An absolute path without dots; ``normpath`` keeps two slashes at the beginning, which mean nothing here."""
    return "/" + posixpath.normpath(path).lstrip("/")


def is_outside(path: str) -> bool:
    """Whether a path that ``make_relative`` returned is outside the session's directory."""
    return path.startswith(("/", "\\")) or is_windows_path(path)


def _order_chains(steps: list[TracedEdit]) -> list[TracedEdit]:
    """The steps, with whole edits of one file in one turn in the order in which each begins where one ended.

    Agents run calls at the same time, and report their ends in any order.
    """
    groups: dict[tuple[int, str], list[int]] = {}
    for index, step in enumerate(steps):
        if step.edit.form == "whole":
            groups.setdefault((step.edit.turn, step.path), []).append(index)
    ordered = list(steps)
    for indexes in groups.values():
        chain = _find_chain([steps[index] for index in indexes])
        for index, step in zip(indexes, chain, strict=True):
            ordered[index] = step
    return ordered


def _find_chain(steps: list[TracedEdit]) -> list[TracedEdit]:
    """The steps in the order in which each begins where one ended, if there is exactly one such order; else as they
    are."""
    news = {step.edit.new for step in steps}
    first_steps = [step for step in steps if step.edit.old not in news]
    by_old = {step.edit.old: step for step in steps}
    if len(first_steps) != 1 or len(by_old) != len(steps):
        return steps
    chain = first_steps
    while len(chain) < len(steps):
        next_step = by_old.get(chain[-1].edit.new)
        if next_step is None or next_step in chain:
            return steps
        chain.append(next_step)
    return chain


def _trace_forward(steps: list[TracedEdit]) -> None:
    """Take what is known of a file to the edits after it."""
    known_texts: dict[str, FileText] = {}
    for step in steps:
        edit, before = step.edit, known_texts.get(step.path)
        match edit.form:
            case "whole":
                stated_text = FileText(edit.old)
                step.before, step.after = stated_text, FileText(edit.new)
                # An empty old text is also what agents send for a new file.
                is_same = before is None or before == stated_text or (not edit.old and not before.text)
                if is_same and before is not None:
                    step.before = before
                elif not is_same and before is not None:
                    if (merged_text := _replace_part(before, edit.old, edit.new)) is not None:
                        step.before, step.after = before, merged_text
                    else:
                        step.is_after_another = True
                elif not edit.old:
                    step.before = ABSENT
            case "part":
                step.before, step.after = before, _replace_part(before, edit.old, edit.new, every=edit.replaces_all)
            case "delete":
                step.before, step.after = before or (FileText(edit.old) if edit.old is not None else None), ABSENT
            case "move":
                step.before = step.after = known_texts.get(step.source)
                known_texts[step.source] = ABSENT
        if step.after is not None:
            known_texts[step.path] = step.after
        else:
            known_texts.pop(step.path, None)


def _trace_back(steps: list[TracedEdit], find_current_text: FindCurrentText) -> None:
    """Take what is known of a file to the edits in front of it, from the file as it is now on."""
    known_texts: dict[str, tuple[FileText | None, bool]] = {}
    """The text after the step, and whether it is the file's now."""
    for step in reversed(steps):
        edit = step.edit
        if step.after is None:
            if step.path not in known_texts:
                known_texts[step.path] = find_current_text(edit.path), True
            text, is_current = known_texts[step.path]
            if edit.form == "part" and text is not None:
                step.before = _replace_part(text, edit.new, edit.old)
                step.after = text if step.before is not None else None
            elif edit.form == "move" and text is not None and text.text is not None:
                step.before = step.after = text
            step.uses_current_file = is_current and step.after is not None
        known_texts[step.path] = step.before if edit.form != "move" else ABSENT, step.uses_current_file
        if edit.form == "move":
            known_texts[step.source] = step.before, step.uses_current_file


def _replace_part(
    file_text: FileText | None, old: str | None, new: str | None, *, every: bool = False
) -> FileText | None:
    """The text with a part replaced that is in it exactly once; None if it is not."""
    if file_text is None or file_text.text is None or not old:
        return None
    count = file_text.text.count(old)
    if not count or (count > 1 and not every):
        return None
    return FileText(file_text.text.replace(old, new or ""))


def _sum_file(path: str, steps: list[TracedEdit]) -> FileChange:
    first, last = steps[0], steps[-1]
    old = first.before if first.path == path and first.edit.form != "move" else None
    if first.edit.form == "move":
        old = first.before if first.source == path else ABSENT
    new = ABSENT if last.source == path else last.after
    was_changed_between = any(step.is_after_another for step in steps[1:])
    change = FileChange(
        path,
        old,
        new,
        [step.edit for step in steps],
        "",
        None,
        was_changed_between,
        any(step.uses_current_file for step in steps),
    )
    return replace(change, trouble=_find_trouble(change))


def _find_trouble(change: FileChange) -> Trouble | None:
    path = change.path
    if is_outside(path):
        return "outside"
    if ".git" in path.lower().split("/"):
        return "git"
    if not path or path == "." or "\0" in path or not _is_possible_name(path):
        return "name"
    if change.new is None:
        return "moved" if change.edits[0].form == "move" else "part"
    if change.old is None:
        return "deleted" if change.new == ABSENT else "part"
    texts = (change.old.text or "", change.new.text or "")
    if sum(map(len, texts)) > _MOST_CHARACTERS or sum(text.count("\n") for text in texts) > _MOST_LINES:
        return "large"
    return None if all(map(_is_encodable, texts)) else "text"


def _is_possible_name(path: str) -> bool:
    """Whether git and file systems can have a file of this path: with one that they cannot write, git applies nothing
    of a patch."""
    try:
        data = path.encode()
    except UnicodeEncodeError:
        return False
    return len(data) < _LONGEST_PATH and all(len(part) <= _LONGEST_NAME for part in data.split(b"/"))


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _merge_move(changes: dict[str, FileChange], step: TracedEdit) -> None:
    """Make one change of a file that went away and one that came, if nothing else happened to either."""
    old_change, new_change = changes.get(step.source), changes.get(step.path)
    unmergeable = ("outside", "git", "name", "text", "large")
    if (
        old_change is None
        or new_change is None
        or old_change.trouble in unmergeable
        or new_change.trouble in unmergeable
    ):
        return
    is_plain = old_change.edits[-1] is step.edit and new_change.edits[0] is step.edit and old_change.new == ABSENT
    was_there = old_change.old != ABSENT
    if not is_plain or not was_there or new_change.new == ABSENT:
        return
    is_only_moved = len(old_change.edits) == 1 and len(new_change.edits) == 1  # then its text does not matter
    trouble: Trouble | None = (
        None if is_only_moved or (old_change.old is not None and new_change.new is not None) else "moved"
    )
    changes[step.path] = replace(
        new_change,
        old=old_change.old,
        source=old_change.source or old_change.path,
        trouble=trouble,
        edits=list({id(edit): edit for edit in (*old_change.edits, *new_change.edits)}.values()),
        was_changed_between=old_change.was_changed_between or new_change.was_changed_between,
        uses_current_file=(old_change.uses_current_file or new_change.uses_current_file) and not is_only_moved,
    )
    del changes[step.source]


def fit_to_files(edits: Sequence[Edit], find_current_text: FindCurrentText) -> list[Edit]:
    """The edits, with what agents leave out and the files as they are now say: line ends, that a text is a part, and
    byte order marks."""
    with_line_ends = _restore_line_ends(edits, find_current_text)
    return _restore_byte_order_marks(_mark_parts(with_line_ends, find_current_text), find_current_text)


def _restore_line_ends(edits: Sequence[Edit], find_current_text: FindCurrentText) -> list[Edit]:
    """The edits with the line ends of their files: some agents read a file with CRLF, and send it with LF.

    Only if the file now has nothing but CRLF, and no edit of it has any.
    """
    with_lf, with_cr = ({edit.path for edit in edits if _has_mark(edit, mark)} for mark in "\n\r")
    changed = {path for path in with_lf - with_cr if _has_crlf(find_current_text(path))}
    return [
        replace(edit, old=_restore_crlf(edit.old), new=_restore_crlf(edit.new)) if edit.path in changed else edit
        for edit in edits
    ]


def _restore_byte_order_marks(edits: Sequence[Edit], find_current_text: FindCurrentText) -> list[Edit]:
    """The edits with the byte order marks of their files: some agents read a file without it.

    Only of whole texts, if the file now has one, and no edit of it has any.
    """
    with_mark = {edit.path for edit in edits if _BYTE_ORDER_MARK in ((edit.old or "")[:1], (edit.new or "")[:1])}
    changed = {
        path for path in {edit.path for edit in edits} - with_mark if _has_byte_order_mark(find_current_text(path))
    }
    return [
        replace(edit, old=_BYTE_ORDER_MARK + edit.old, new=_BYTE_ORDER_MARK + edit.new)
        if edit.path in changed and edit.form == "whole" and edit.old and edit.new
        else edit
        for edit in edits
    ]


def _mark_parts(edits: Sequence[Edit], find_current_text: FindCurrentText) -> list[Edit]:
    """The edits, with those marked as parts that claim to be whole and are not.

    The protocol wants the whole file, but some agents send the changed lines and the ones around them, and do not say
    so. It shows in the file as it is now, if the text is there once, with more before it and after it, and the
    next edit does not go on from it. An agent that does this once does it with every file.
    """
    by_path: dict[str, list[Edit]] = {}
    for edit in edits:
        by_path.setdefault(edit.path, []).append(edit)
    doubtful: set[int] = set()
    sends_parts = False
    for path, file_edits in by_path.items():
        current_text = find_current_text(path)
        text = (current_text.text or "") if current_text is not None else ""
        for index, edit in enumerate(file_edits):
            follows_previous = index > 0 and file_edits[index - 1].new == edit.old
            is_followed = index + 1 < len(file_edits) and file_edits[index + 1].old == edit.new
            if (
                edit.form != "whole"
                or not edit.old
                or not edit.new
                or follows_previous
                or is_followed
                or text == edit.new
            ):
                continue
            doubtful.add(id(edit))
            if text.count(edit.new) == 1 and not text.startswith(edit.new) and not text.endswith(edit.new):
                sends_parts = True
    return [replace(edit, form="part") if sends_parts and id(edit) in doubtful else edit for edit in edits]


def _has_mark(edit: Edit, mark: str) -> bool:
    return mark in (edit.old or "") or mark in (edit.new or "")


def _has_crlf(file_text: FileText | None) -> bool:
    text = (file_text.text or "") if file_text is not None else ""
    return "\r\n" in text and text.count("\n") == text.count("\r\n")


def _has_byte_order_mark(file_text: FileText | None) -> bool:
    return file_text is not None and (file_text.text or "").startswith(_BYTE_ORDER_MARK)


def _restore_crlf(text: str | None) -> str | None:
    return text.replace("\n", "\r\n") if text is not None else None
