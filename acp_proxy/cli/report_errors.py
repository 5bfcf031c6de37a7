"""Prints what went wrong, and ends the command with its exit status."""

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import typer

from acp_proxy.cli.wrapping import fit_to_stream
from acp_proxy.errors import AcpProxyError, UsageError
from acp_proxy.views import sanitize


@contextmanager
def report_errors() -> Iterator[None]:
    """Print errors that the user can fix, and exit with 1; after a wrong command line, with 2."""
    try:
        yield
    except AcpProxyError as problem:
        _print_error(problem)
        raise typer.Exit(2 if isinstance(problem, UsageError) else 1) from problem
    except BrokenPipeError:  # the reader left; typer exits silently
        raise
    except OSError as problem:
        where = sanitize.make_line(str(problem.filename or "the store"))
        print_on_stderr(f"acp-proxy: {where}: {problem.strerror}. Run: acp-proxy doctor")
        raise typer.Exit(1) from problem


@contextmanager
def report_wrong_usage() -> Iterator[None]:
    """Print the error of a wrong command line, and exit with 2."""
    try:
        yield
    except UsageError as problem:
        _print_error(problem)
        raise typer.Exit(2) from problem


def _print_error(problem: AcpProxyError) -> None:
    for number, text in enumerate(problem.args):
        line = re.sub(r"(?<!\\)\\udc([89a-f][0-9a-f])", r"\\x\1", str(text))  # a quoted byte that is not UTF-8
        print_on_stderr(f"{'' if number else 'acp-proxy: '}{sanitize.make_line(line)}")


_MOST_FAILURES = 10


def print_failures(what_failed: str, failures: Sequence[str]) -> None:
    """Print a line for each of the first failures, and how many more there are. ``what_failed``: such as "not read"."""
    for text in failures[:_MOST_FAILURES]:
        typer.echo(f"acp-proxy: {what_failed}: {sanitize.make_line(text)}", err=True)  # not wrapped: a path to copy
    if len(failures) > _MOST_FAILURES:
        typer.echo(f"acp-proxy: {what_failed}: {len(failures) - _MOST_FAILURES:,} more", err=True)


def print_on_stderr(text: str, indent_columns: int = 0) -> None:
    """Print a message, in which there may be foreign words, on a terminal with lines that end between words. Further
    lines begin at column ``indent_columns``."""
    typer.echo(fit_to_stream(sanitize.make_printable(text), sys.stderr, indent_columns), err=True)
