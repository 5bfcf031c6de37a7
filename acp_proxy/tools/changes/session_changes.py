"""Reads what a session changed: its edits, the files as they are now where that is needed, and the net changes."""

import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from acp_proxy.errors import NoSuchTurn
from acp_proxy.recording.git_head import find_work_tree
from acp_proxy.store.same_directory import is_windows_path
from acp_proxy.tools.changes.edits import Edit, OpenChild, SessionEdits, Unclear, read_edits
from acp_proxy.tools.changes.net import (
    ABSENT,
    FileChange,
    FileText,
    FindCurrentText,
    fit_to_files,
    make_relative,
    sum_changes,
)
from acp_proxy.transcript.reader import TranscriptReader

_LARGEST_FILE_BYTES = 64 * 1024 * 1024
"""Bytes of a file that is read to find where a changed part was: nobody edits larger ones by hand."""


ChangeState = Literal["applied", "changed since", "taken back", "gone", "unknown"]
"""What became of a change: the file is as it left it, or something else, or as it was before it, or not there, or
nobody can say."""


class SessionChanges(Struct, frozen=True):
    """What a session changed. ``cwd``: its directory. ``turns``: how many it has."""

    cwd: str | None
    changes: list[FileChange]
    unclear: list[Unclear]
    turns: int


def read_changes(
    reader: TranscriptReader,
    cwd: str | None,
    open_child: OpenChild | None = None,
    turns: tuple[int, int | None] = (1, None),
    files: Sequence[str] = (),
    *,
    looks_at_files: bool = True,
) -> SessionChanges:
    """The changes of these turns, as a user names them, in these files or below these directories; empty: in all.

    ``looks_at_files``: the files as they are now may say where a changed part was. Raises OSError, NoSuchTurn.
    """
    header = reader.header
    may_read_files = cwd is not None and looks_at_files and not (header is not None and header.machine)
    find_current_text = make_reader(cwd) if may_read_files and cwd is not None else _find_nothing
    session_edits = read_edits(reader, open_child)
    edits = complete_edits(session_edits, cwd, find_current_text, follows_links=may_read_files)
    count = max(session_edits.starts, default=0)
    first, last = _number_turns(turns, count)

    def is_wanted(turn: int, paths: Sequence[str]) -> bool:
        return first <= turn <= last and (
            not files or any(_is_named(make_relative(path, cwd), files, cwd) for path in paths)
        )

    changes = sum_changes(
        edits, cwd, find_current_text, lambda edit: is_wanted(edit.turn, [edit.path, edit.source or edit.path])
    )
    if may_read_files and cwd is not None:
        folder = _find_in_work_tree(cwd)
        changes = [replace(change, folder=folder) for change in changes]
    unclear_calls = [call for call in session_edits.unclear if is_wanted(call.turn, call.paths or ("",))]
    return SessionChanges(cwd, changes, unclear_calls, count)


def complete_edits(
    session_edits: SessionEdits, cwd: str | None, find_current_text: FindCurrentText, *, follows_links: bool
) -> list[Edit]:
    """The edits, with what the files as they are now say. ``follows_links``: and with the paths that git knows."""
    edits = session_edits.edits
    if follows_links and cwd is not None and not is_windows_path(cwd):
        edits = [
            replace(
                edit,
                path=_follow_links(edit.path, cwd, is_file=edit.form not in ("delete", "move")),
                source=_follow_links(edit.source, cwd, is_file=False) if edit.source else "",
            )
            for edit in edits
        ]
    return fit_to_files(edits, find_current_text)


def _follow_links(path: str, cwd: str, *, is_file: bool) -> str:
    """The path of an edited file without links, below the directory as the session spells it.

    Some agents resolve the links in the directory's own path. And git refuses a whole patch if a file in it is behind
    a link, which may lead out of the directory. ``is_file``: the last part, too, may be a link to what was edited.
    """
    full_path = os.path.join(cwd, make_relative(path, cwd))
    try:
        real = os.path.realpath(cwd).rstrip("/")
        resolved = os.path.join(os.path.realpath(os.path.dirname(full_path)), os.path.basename(full_path))
        if is_file:
            resolved = os.path.realpath(resolved)
    except (OSError, ValueError):  # a NUL in the path, or a name that no file has
        return path
    return cwd.rstrip("/") + resolved[len(real) :] if resolved.startswith(f"{real}/") else resolved


def _find_in_work_tree(cwd: str) -> str:
    """A directory below the top of its git work tree, with a slash at the end; empty if it is the top, or in none.

    Empty, too, if it is gone: it may have been a work tree of its own, such as ``.claude/worktrees/x``.
    """
    try:
        real = Path(os.path.realpath(cwd))
        work_tree = find_work_tree(real) if os.path.isabs(cwd) and real.is_dir() else None
    except (OSError, ValueError):  # a NUL in it
        return ""
    return "".join(f"{name}/" for name in real.relative_to(work_tree[0]).parts) if work_tree is not None else ""


def make_reader(cwd: str) -> Callable[[str], FileText | None]:
    """A function that reads the files of a directory as they are now; never one outside of it, and each once."""
    try:
        real = os.path.realpath(cwd)
    except ValueError:  # a NUL in it: no directory has such a name
        return lambda path: None

    @cache
    def find_current_text(path: str) -> FileText | None:
        relative = make_relative(path, cwd)
        try:
            full_path = os.path.realpath(os.path.join(cwd, relative))
            if not full_path.startswith(real.rstrip(os.sep) + os.sep):
                return None
            if not os.path.lexists(os.path.join(cwd, relative)):
                return ABSENT if os.path.isdir(real) else None
            if not os.path.isfile(full_path) or os.path.getsize(full_path) > _LARGEST_FILE_BYTES:
                return None
            with open(full_path, "rb") as file:
                return FileText(file.read(_LARGEST_FILE_BYTES + 1).decode())
        except (OSError, ValueError):  # also a NUL in the path, and what is not UTF-8
            return None

    return find_current_text


def check_file(change: FileChange, cwd: str | None) -> ChangeState:
    """What became of a change: compares it with the file as it is now."""
    if cwd is None or change.trouble is not None:
        return "unknown"
    find_current_text = make_reader(cwd)
    new_text = find_current_text(change.path)
    old_place_text = find_current_text(change.source) if change.source else ABSENT
    if new_text is None:
        return "changed since" if os.path.lexists(os.path.join(cwd, change.path)) else "unknown"
    if change.new is None or change.old is None:  # it was only moved
        return "gone" if new_text == ABSENT else "applied" if old_place_text == ABSENT else "changed since"
    if new_text == change.new and old_place_text == ABSENT:
        return "applied"
    if (old_place_text if change.source else new_text) == change.old and (not change.source or new_text == ABSENT):
        return "taken back"
    return "gone" if new_text == ABSENT else "changed since"


def _find_nothing(path: str) -> None:
    return None


def _number_turns(turns: tuple[int, int | None], count: int) -> tuple[int, int]:
    first, last = turns
    if turns == (1, None):
        return 0, count
    if first < 0:
        first = last = count + first + 1
    last = count if last is None else last
    if not 1 <= first <= min(count, last):
        raise NoSuchTurn(f"there is no such turn: the conversation has {count}. Give a smaller number with --turn.")
    return first, last


def _is_named(path: str, files: Sequence[str], cwd: str | None) -> bool:
    """Whether a user means this path: relative to the session's directory, or to the current one."""
    for file in files:
        for meant in (make_relative(file, cwd), make_relative(os.path.abspath(file), cwd)):
            if meant in ("", path) or meant == (cwd or "").rstrip("/") or path.startswith(meant.rstrip("/") + "/"):
                return True
    return False
