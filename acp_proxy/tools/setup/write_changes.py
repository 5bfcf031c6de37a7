"""Shows what would change in the settings, asks, and writes it, file by file."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer

from acp_proxy.cli.confirm import INTERRUPTED, ask_to_confirm, discard_typed_input, is_unanswered
from acp_proxy.cli.report_errors import print_on_stderr
from acp_proxy.tools.editors.own_files import NotOurs, explain_no_write
from acp_proxy.tools.setup.record import RecordStays
from acp_proxy.tools.setup.setup import FileChange, explain_problem
from acp_proxy.views import sanitize


def write_changes(
    changes: Sequence[FileChange],
    write: Callable[[FileChange], None],
    question_and_command: tuple[str, str],
    *,
    dry_run: bool,
    yes: bool,
    choose: Callable[[Sequence[FileChange]], tuple[Sequence[FileChange], bool]] = lambda changes: (changes, True),
) -> tuple[list[FileChange], bool]:
    """Show the changes, ask, and make them. Returns those that were made, and whether no file had to stay as it is.

    ``question_and_command``: the question, and the command that shows and asks once more. ``choose``: called before the
    question, for those of the changes to make, and whether Enter means yes.
    """
    question, command_line_again = question_and_command
    right_changes = [change for change in changes if change.entries and change.problem is None]
    failures = [explain_problem(change) for change in changes if change.problem is not None]  # the user knows them
    written = list[FileChange]()
    if dry_run:
        _show(right_changes)
    if right_changes and dry_run:
        print_on_stderr("Nothing was written. To be asked: leave out --dry-run")
    if right_changes and not dry_run:
        try:
            chosen_changes, is_well = choose(right_changes) if yes or not is_unanswered() else (right_changes, True)
        except KeyboardInterrupt:
            print_on_stderr("Nothing was changed.")
            raise typer.Exit(INTERRUPTED) from None
        right_changes = list(chosen_changes)
        _show(right_changes)
        if not right_changes:
            print_on_stderr("Nothing was written.")
        elif not yes:
            declined = f"Nothing was changed. To see it again: {command_line_again}"
            discard_typed_input()  # Enter, while an agent started, is no answer to what nobody had seen
            ask_to_confirm(
                question if is_well else f"{question[:-1]} all the same?",
                enter_means_yes=is_well,
                declined=declined,
                options_to_skip="--yes" if is_well else "--yes --force",
            )
        for change in right_changes:
            with report_failure(change.path, failures):
                is_removed = change.old_content is not None and change.new_content is None
                result = f"{change.path} is {'removed' if is_removed else 'written'}"
                try:
                    write(change)
                except RecordStays as problem:
                    failures.append(f"{result}; the record and the copy stay, because {problem}.")
                    print_on_stderr(failures[-1])
                else:
                    print_on_stderr(f"{result}.")
                written.append(change)
    return written, not failures


@contextmanager
def report_failure(path: Path, failures: list[str]) -> Iterator[None]:
    """Say why a file stays as it is, and go on. ``failures``: gets the text."""
    try:
        yield
    except (NotOurs, OSError) as problem:
        reason = str(problem)
        if isinstance(problem, OSError):
            reason = explain_no_write(problem, path)
        failures.append(f"{path} stays as it is: {reason}.")
        print_on_stderr(failures[-1])


def _show(changes: Sequence[FileChange]) -> None:
    for change in changes:
        for line in change.diff:
            typer.echo(sanitize.make_line(line))
        typer.echo("")
