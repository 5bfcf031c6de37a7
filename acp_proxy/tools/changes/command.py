"""``acp-proxy diff``: what a session changed, as a patch, a list or a check."""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from acp_proxy import shell_quote
from acp_proxy.cli import output_files, values
from acp_proxy.cli.choose_session import choose_session
from acp_proxy.cli.open_store import open_store
from acp_proxy.cli.pager import Screen, find_screen, open_pager
from acp_proxy.cli.report_errors import print_on_stderr, report_errors
from acp_proxy.cli.shared_options import AgentOption, JsonOption, SessionArgument, StoreOption
from acp_proxy.cli.wrapping import fit_to_stream
from acp_proxy.tools.changes import describe
from acp_proxy.tools.changes.net import FileChange
from acp_proxy.tools.changes.patch import make_diff, reverse
from acp_proxy.tools.changes.session_changes import SessionChanges, check_file, read_changes
from acp_proxy.views import sanitize

_NOTHING_CHANGED = "No changed files: no tool call of these turns reported a change, or each change was taken back."
_THESE_NOT_CHANGED = (
    "No tool call reported a change of these files. To see which were changed: acp-proxy diff {} --name-only"
)


def diff(
    session: SessionArgument,
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE...", help="Only these files, or what is below these directories."),
    ] = None,
    store: StoreOption = "",
    agent: AgentOption = "",
    turn: Annotated[
        str,
        typer.Option("--turn", "-t", metavar="N", help="Only these turns: 3, 2-5, 7-, or -1 for the last."),
    ] = "",
    stat: Annotated[bool, typer.Option("--stat", help="Print how many lines of each file changed.")] = False,
    name_only: Annotated[bool, typer.Option("--name-only", help="Print only the names of the changed files.")] = False,
    is_reverse: Annotated[bool, typer.Option("--reverse", help="Print the patch that takes the changes back.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Compare with the files as they are now; exit with 1 if any differs.")
    ] = False,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Write the patch into a file. Default: stdout.")
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what a session changed, as a patch that git apply takes.

    Each file appears once, with its net change. Paths are relative to the session's directory; in the patch, to the
    top of its git work tree, as those of git diff. The changes are those that the agent reported in its tool calls.
    What it reported without a diff, such as a command, is named on stderr, and so is a file outside of the directory:
    no patch writes there. If nothing changed, the patch is empty, and the exit status is 0, as that of git diff.

    Where an agent sent only the changed part of a file, the file as it is now must say where that was.

    Example: acp-proxy diff last --stat
    """
    if stat + name_only + check + as_json > 1:
        raise typer.BadParameter("--stat, --name-only, --check and --json exclude each other. Give one of them.")
    if output and stat + name_only + check + as_json:
        raise typer.BadParameter("--output is for the patch. Leave out --stat, --name-only, --check or --json.")
    with report_errors():
        turns = values.parse_turns(turn)
        opened_store = open_store(store)
        row = choose_session(opened_store, session, agent)
        with contextlib.closing(opened_store.open_listed(row)) as reader:
            session_changes = read_changes(reader, row.cwd, partial(opened_store.open_child, row), turns, files or ())
        changes = [
            reverse(change) if is_reverse and change.trouble is None else change for change in session_changes.changes
        ]
        if as_json:
            session_members = {"sessionId": row.session_id, "agent": row.agent_folder, "cwd": row.cwd}
            typer.echo(
                sanitize.format_json(
                    session_members | describe.encode_changes(changes, session_changes.unclear), indent=2
                )
            )
            return
        if check:
            _check(session_changes)
        elif name_only:
            for change in changes:
                if change.trouble not in describe.NOT_PATCHABLE:
                    typer.echo(sanitize.make_line(change.path))
        elif output and output != "-":
            _write(changes, Path(output), force=force)
        else:
            _print(changes, find_screen(), stat=stat)
        empty_message = _THESE_NOT_CHANGED.format(shell_quote.quote(session)) if files else _NOTHING_CHANGED
        if name_only:
            _print_left_out(session_changes, empty_message, "Not listed", lists_names=True)
        else:
            beginning = "Not compared" if check else "Not counted" if stat else ""
            _print_left_out(session_changes, empty_message, beginning)


def print_summary(session_changes: SessionChanges) -> None:
    """Print how many lines of each file changed, and what is not known."""
    _print(session_changes.changes, find_screen(), stat=True)
    _print_left_out(session_changes, _NOTHING_CHANGED, "Not counted")


def print_patch(session_changes: SessionChanges, target: Screen) -> None:
    """Print the patch, and after it what is not in it, for a user who then goes back to something else."""
    with open_pager(target, keeps_short_text=True) as write:
        for text in _format_diffs([change for change in session_changes.changes if change.trouble is None], target):
            write(text)
        if _has_no_files(session_changes):
            write(f"{_NOTHING_CHANGED}\n")
        for text in describe.format_left_out(session_changes.changes, session_changes.unclear):
            write(f"{fit_to_stream(text, sys.stdout)}\n")


def _print_left_out(
    session_changes: SessionChanges, empty_message: str, beginning: str, *, lists_names: bool = False
) -> None:
    """Print what was not shown, and first ``empty_message`` if nothing was changed. ``lists_names``: the names of the
    files were, also of those of which no patch is known."""
    changes = [
        change for change in session_changes.changes if not lists_names or change.trouble in describe.NOT_PATCHABLE
    ]
    if _has_no_files(session_changes):
        print_on_stderr(empty_message)
    for text in describe.format_left_out(changes, session_changes.unclear, beginning):
        print_on_stderr(text)


def _has_no_files(session_changes: SessionChanges) -> bool:
    """Whether no tool call reported a change."""
    return not session_changes.changes and all(map(describe.is_only_command, session_changes.unclear))


def _check(session_changes: SessionChanges) -> None:
    states = [(check_file(change, session_changes.cwd), change) for change in session_changes.changes]
    for state, change in states:
        typer.echo(f"{state:<14} {sanitize.make_line(change.path)}")
    if any(state != "applied" for state, _ in states):
        for text in describe.format_left_out(session_changes.changes, session_changes.unclear, "Not compared"):
            print_on_stderr(text)
        raise typer.Exit(1)


def _print(changes: Sequence[FileChange], target: Screen, *, stat: bool) -> None:
    patched = [change for change in changes if change.trouble is None]
    if stat:
        for line in describe.format_stat(patched, target.width if target.is_terminal else 80):
            typer.echo(line.translate(target.forms))
    elif not target.is_terminal and not target.has_colours:
        output_files.write_to_stdout(make_diff(change).encode() for change in patched)
    elif patched:
        with open_pager(target) as write:
            for text in _format_diffs(patched, target):
                write(text)


def _write(changes: Sequence[FileChange], path: Path, *, force: bool) -> None:
    """Write the patch, if there is one: git apply takes no empty file. Raises AlreadyThere, NotWritable."""
    if patched := [change for change in changes if change.trouble is None]:
        output_files.write_file(path, (make_diff(change).encode() for change in patched), force=force)
        typer.echo(sanitize.make_line(str(path)))  # as export does


def _format_diffs(changes: Sequence[FileChange], target: Screen) -> Iterator[str]:
    for change in changes:
        yield from describe.format_diff(make_diff(change), has_colours=target.has_colours)
