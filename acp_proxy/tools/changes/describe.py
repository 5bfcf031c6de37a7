"""Changes of files for people and for programs: rows with colours, a summary like ``git diff --stat``, JSON."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from acp_proxy.tools.changes.edits import Cause, Unclear
from acp_proxy.tools.changes.net import ABSENT, TROUBLES, FileChange, Trouble
from acp_proxy.tools.changes.patch import FileDiff, make_diff
from acp_proxy.views import formatting, sanitize
from acp_proxy.views.diffs import DiffRow

NOT_PATCHABLE: frozenset[Trouble | None] = frozenset({"outside", "git", "name"})
"""The troubles of files that no patch may touch."""
_CAUSES: dict[Cause, str] = {
    "no-diff": "reported without a diff",
    "command": "a command; what it changed is not recorded",
    "unfinished": "not finished",
}
_COLOURS = {"@": "\x1b[36m", "-": "\x1b[31m", "+": "\x1b[32m"}
_BOLD, _RESET = "\x1b[1m", "\x1b[0m"
_WIDEST_BAR = 40
_MOST_NAMED = 12
"""How many files or calls are named on stderr; ``--json`` has all."""
_TITLE_CHARACTERS = 80
_PATH_CHARACTERS = 200
"""Characters of a path on stderr: a hostile agent may name one that fills the screen."""


def format_diff(diff: FileDiff, *, has_colours: bool) -> Iterator[str]:
    """The rows for a terminal, as ``git diff`` shows them."""
    for line in diff.head:
        yield f"{_BOLD}{sanitize.make_line(line)}{_RESET}\n" if has_colours else f"{sanitize.make_line(line)}\n"
    for row in diff.rows:
        text = sanitize.make_line(row.text if row.kind in "@\\" else row.kind + row.text)
        colour = _COLOURS.get(row.kind) if has_colours else None
        yield f"{colour}{text}{_RESET}\n" if colour else f"{text}\n"


def format_stat(changes: Sequence[FileChange], width: int) -> Iterator[str]:
    """A line for each file with its added and removed lines, and their sum."""
    rows = [(_format_name(change), *make_diff(change).counts) for change in changes]
    name_width = max((len(name) for name, _, _ in rows), default=0)
    digits = max((len(str(added + removed)) for _, added, removed in rows), default=0)
    most_lines = max((added + removed for _, added, removed in rows), default=0)
    bar_width = max(4, min(_WIDEST_BAR, width - name_width - digits - len("  |  ")))
    for name, added, removed in rows:
        scale = min(1.0, bar_width / most_lines) if most_lines else 1.0
        plus, minus = (max(1, round(count * scale)) if count else 0 for count in (added, removed))
        yield f" {name:<{name_width}} | {added + removed:>{digits}} {'+' * plus}{'-' * minus}".rstrip()
    if rows:
        added, removed = sum(row[1] for row in rows), sum(row[2] for row in rows)
        yield f" {formatting.format_count(len(rows), 'file')} changed, {added} added, {removed} removed"


def format_left_out(changes: Sequence[FileChange], unclear: Sequence[Unclear], beginning: str = "") -> Iterator[str]:
    """What was not shown and why, and what is worth knowing of the rest. ``beginning``: of each line about the first,
    for what is shown instead of a patch."""
    beginning = beginning or ("Not in the patch" if changes else "Not shown")
    changes_with_trouble = [change for change in changes if change.trouble is not None]
    for change in changes_with_trouble[:_MOST_NAMED]:
        assert change.trouble is not None
        yield f"{beginning}: {_shorten(change.path)}: {TROUBLES[change.trouble]} ({_format_turns(change)})."
    if len(changes_with_trouble) > _MOST_NAMED:
        yield f"{beginning}: {len(changes_with_trouble) - _MOST_NAMED} more files. All of them: --json"
    patched = [change for change in changes if change.trouble is None]
    for change in [change for change in patched if change.was_changed_between][:_MOST_NAMED]:
        yield f"{_shorten(change.path)}: something else changed it between the edits, which is included."
    for change in [change for change in patched if change.uses_current_file][:_MOST_NAMED]:
        yield f"{_shorten(change.path)}: only a part was recorded; the rest is from the file as it is now."
    commands = [call for call in unclear if is_only_command(call)]
    if commands:  # most sessions ran some, and a line for each would hide the rest
        turns_by_title: dict[str, list[int]] = {}
        for call in commands:
            turns_by_title.setdefault(_shorten_title(call), []).append(call.turn)
        named_titles = list(turns_by_title.items())[:_MOST_NAMED]
        titles = [f"{title!r} ({_format_turn_range(turns)})" for title, turns in named_titles]
        left_out = len(commands) - sum(len(turns) for _, turns in named_titles)
        rest = f", and {left_out} more (all: --json)" if left_out else ""
        subject = "a command" if len(commands) == 1 else f"{len(commands)} commands"
        yield f"{beginning}: what {subject} may have changed, which is not recorded: {', '.join(titles)}{rest}."
    other_calls = [call for call in unclear if call not in commands]
    for call in other_calls[:_MOST_NAMED]:
        paths = ", ".join(map(_shorten, call.paths[:_MOST_NAMED]))
        if len(call.paths) > _MOST_NAMED:
            paths += f" and {len(call.paths) - _MOST_NAMED} more files"
        title = _shorten_title(call)
        yield f"{beginning}: turn {call.turn}, {title!r}: {paths}{' ' if paths else ''}{_CAUSES[call.cause]}."
    if len(other_calls) > _MOST_NAMED:
        yield f"{beginning}: {len(other_calls) - _MOST_NAMED} more calls. All of them: --json"


def is_only_command(call: Unclear) -> bool:
    """Whether a call is a command that names no file."""
    return call.cause == "command" and not call.paths


def _shorten_title(call: Unclear) -> str:
    """The beginning of a title; with its line ends, which are part of a command."""
    title = sanitize.clean_text(call.title).strip()
    return title if len(title) <= _TITLE_CHARACTERS else f"{title[:_TITLE_CHARACTERS]}…"


class ChangedFile(Struct, frozen=True):
    """A changed file in an exported document.

    ``change``: as ``describe_change``. ``rows``: at most ``MOST_ROWS`` of its net diff; empty with a ``trouble``, which
    says why there is none.
    """

    path: str
    change: str
    added: int
    removed: int
    rows: list[DiffRow]
    trouble: str = ""


MOST_ROWS = 500
"""Rows of a diff in a document: more than anybody reads in one."""


def list_files(changes: Iterable[FileChange]) -> Iterator[ChangedFile]:
    """The changed files as documents show them."""
    for change in changes:
        if change.trouble is not None:
            yield ChangedFile(change.path, describe_change(change), 0, 0, [], TROUBLES[change.trouble])
            continue
        diff = make_diff(change)
        name = f"{change.source} → {change.path}" if change.source else change.path
        # What is no line of the file is shown as the line with a hunk's place is.
        rows = [DiffRow("@" if row.kind == "\\" else row.kind, row.text) for row in diff.rows[:MOST_ROWS]]
        if hidden_count := len(diff.rows) - len(rows):
            rows.append(DiffRow("@", f"… {hidden_count} more rows"))
        yield ChangedFile(name, describe_change(change), *diff.counts, rows)


def encode_changes(changes: Iterable[FileChange], unclear: Iterable[Unclear]) -> dict[str, Any]:
    """The changes for ``--json``; docs/json.md describes them."""
    return {
        "files": [_encode_change(change) for change in changes],
        "unclear": [
            {
                "turn": call.turn,
                "toolCallId": call.call,
                "title": call.title,
                "at": call.stamp,
                "paths": list(call.paths),
                "cause": call.cause,
            }
            for call in unclear
        ],
    }


def _encode_change(change: FileChange) -> dict[str, Any]:
    diff = make_diff(change) if change.trouble is None else None
    added, removed = diff.counts if diff is not None else (None, None)
    return {
        "path": change.path,
        "movedFrom": change.source or None,
        "change": describe_change(change),
        "added": added,
        "removed": removed,
        "patch": diff.encode().decode() if diff is not None else None,
        "trouble": change.trouble,
        "wasChangedBetween": change.was_changed_between,
        "usesFileNow": change.uses_current_file,
        "edits": [{"turn": edit.turn, "toolCallId": edit.call, "at": edit.stamp} for edit in change.edits],
    }


def describe_change(change: FileChange) -> str:
    """``added``, ``deleted``, ``moved`` or ``modified``."""
    if change.source:
        return "moved"
    return "added" if change.old == ABSENT else "deleted" if change.new == ABSENT else "modified"


def _shorten(path: str) -> str:
    text = sanitize.make_line(path)
    return text if len(text) <= _PATH_CHARACTERS else f"{text[:_PATH_CHARACTERS]}…"


def _format_name(change: FileChange) -> str:
    name = f"{change.source} => {change.path}" if change.source else change.path
    return sanitize.make_line(name)


def _format_turns(change: FileChange) -> str:
    numbers = list(dict.fromkeys(edit.turn for edit in change.edits))
    return f"turn {numbers[0]}" if len(numbers) == 1 else f"turns {', '.join(map(str, numbers[:_MOST_NAMED]))}"


def _format_turn_range(turns: Sequence[int]) -> str:
    """How often, and in which turns, something was done: ``turn 2``, or ``60 times, turns 1-60``."""
    where = f"turn {turns[0]}" if len(set(turns)) == 1 else f"turns {min(turns)}-{max(turns)}"
    return where if len(turns) == 1 else f"{len(turns)} times, {where}"
