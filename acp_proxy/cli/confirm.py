"""Asks the user on the terminal whether to go on."""

import io
import select
import sys

import typer

from acp_proxy.cli.pager import is_attended
from acp_proxy.cli.report_errors import print_on_stderr

INTERRUPTED = 128 + 2
"""The exit status after Ctrl-C: 128 and SIGINT, as in shells."""


def ask_to_confirm(
    question: str,
    *,
    enter_means_yes: bool = False,
    declined: str = "Nothing was changed.",
    options_to_skip: str = "--yes",
) -> None:
    """Ask on stderr as ``ask`` does. No exits with 1, too. ``declined``: what to say after no, or at the end of the
    input."""
    if not ask(question, enter_means_yes=enter_means_yes, declined=declined, options_to_skip=options_to_skip):
        print_on_stderr(declined)
        raise typer.Exit(1)


def ask(question: str, *, enter_means_yes: bool = False, declined: str, options_to_skip: str = "--yes") -> bool:
    """Ask on stderr until the answer is yes or no. Returns whether it is yes. Without an answer it exits with 1, after
    Ctrl-C with 130. ``enter_means_yes``: what Enter means.

    ``declined``: what to say at the end of the input. ``options_to_skip``: those that mean yes.
    """
    choice, meaning = ("[Y/n]", "yes") if enter_means_yes else ("[y/N]", "no")
    try:
        while True:
            answer = typer.prompt(f"{question} {choice}", default="", show_default=False, err=True).strip().lower()
            if not sys.stdin.isatty():  # only a terminal shows the answer, with the end of its line
                typer.echo(err=True)
            if answer in ("y", "yes") or (enter_means_yes and not answer):
                return True
            if answer in ("", "n", "no"):
                return False
            typer.echo(f"Type y for yes, or n for no. Enter alone means {meaning}.", err=True)
    except typer.Abort as problem:
        typer.echo(err=True)
        print_on_stderr(declined)
        if isinstance(problem.__context__, KeyboardInterrupt):
            raise typer.Exit(INTERRUPTED) from None
        why = "There is no answer" if is_attended() else "stdin is not a terminal, so there is no answer"
        print_on_stderr(f"{why}. To skip the question: {options_to_skip}")
    raise typer.Exit(1)


def is_unanswered() -> bool:
    """Whether stdin is at its end already, so that no question has an answer. Where that cannot be told, it may have
    one."""
    try:
        if sys.stdin.isatty() or not select.select([sys.stdin], [], [], 0)[0]:
            return False
        return isinstance(sys.stdin.buffer, io.BufferedReader) and not sys.stdin.buffer.peek(1)
    except (AttributeError, OSError, ValueError):
        return False


def discard_typed_input() -> None:
    """Forget what was typed in the terminal before a question was there."""
    if not sys.stdin.isatty():
        return
    if sys.platform == "win32":
        import msvcrt

        while msvcrt.kbhit():
            msvcrt.getwch()
    else:
        import termios

        termios.tcflush(sys.stdin, termios.TCIFLUSH)
