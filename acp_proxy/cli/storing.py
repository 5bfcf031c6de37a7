"""Options and functions shared by the commands on recorded sessions: which store, and which session."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Annotated

import typer

from acp_proxy import config_file, options, typed
from acp_proxy.cli import completing
from acp_proxy.cli.screen import is_attended
from acp_proxy.cli.which_store import STORE_VARIABLE
from acp_proxy.cli.which_store import directory as directory
from acp_proxy.cli.which_store import root_of as root_of
from acp_proxy.cli.which_store import short_ids as short_ids
from acp_proxy.cli.which_store import store_of as store_of
from acp_proxy.cli.wrapping import fitted
from acp_proxy.errors import AcpProxyError, NoSuchSession, UsageError
from acp_proxy.titles import mask_title
from acp_proxy.transcripts.archive import Archive, Listed
from acp_proxy.views import rows, terminal

LAST = "last"
"""As SESSION: the newest session."""
INTERRUPTED = 128 + 2
"""The exit status after Ctrl-C: 128 and SIGINT, as in shells."""
_CANDIDATES = 8

StoreOption = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="DIR",
        envvar=STORE_VARIABLE,
        help="Directory of the transcripts. Default: your user data directory.",
    ),
]
AgentOption = Annotated[
    str,
    typer.Option(
        "--agent",
        metavar="NAME",
        help="Only agents whose name has a word that begins with NAME.",
        autocompletion=completing.agents,
    ),
]
SessionsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SESSION...",
        help="Ids, beginnings of ids, titles, or: last. Default: all.",
        autocompletion=completing.sessions,
    ),
]
SessionArgument = Annotated[
    str,
    typer.Argument(
        metavar="SESSION",
        help="An id, the beginning of an id, a title or a part of it, or: last.",
        autocompletion=completing.sessions,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


@contextmanager
def explained() -> Iterator[None]:
    """Print errors that the user can fix, and exit with 1; after a wrong command line, with 2."""
    try:
        yield
    except AcpProxyError as problem:
        _say_all(problem)
        raise typer.Exit(2 if isinstance(problem, UsageError) else 1) from problem
    except BrokenPipeError:  # the reader left; typer exits silently
        raise
    except OSError as problem:
        where = terminal.line(str(problem.filename or "the store"))
        say_on_stderr(f"acp-proxy: {where}: {problem.strerror}. Run: acp-proxy doctor")
        raise typer.Exit(1) from problem


@contextmanager
def wrong_usage() -> Iterator[None]:
    """Print the error of a wrong command line, and exit with 2."""
    try:
        yield
    except UsageError as problem:
        _say_all(problem)
        raise typer.Exit(2) from problem


def _say_all(problem: AcpProxyError) -> None:
    for number, text in enumerate(problem.args):
        say_on_stderr(f"{'' if number else 'acp-proxy: '}{terminal.line(str(text))}")


def say_on_stderr(text: str) -> None:
    """Print a message, on a terminal with lines that end between words."""
    typer.echo(fitted(text, sys.stderr), err=True)


def agreed(question: str) -> None:
    """Ask on stderr until the answer is yes or no. No, or Enter alone, exits with 1, Ctrl-C with 130."""
    try:
        while True:
            answer = typer.prompt(f"{question} [y/N]", default="", show_default=False, err=True).strip().lower()
            if answer in ("y", "yes"):
                return
            if answer in ("", "n", "no"):
                break
            typer.echo("Type y for yes, or n for no. Enter alone means no.", err=True)
    except typer.Abort as stopped:
        typer.echo(err=True)
        if isinstance(stopped.__context__, KeyboardInterrupt):
            raise typer.Exit(INTERRUPTED) from None
        if not is_attended():
            typer.echo("stdin is not a terminal, so there is no answer. To skip the question: --yes", err=True)
    raise typer.Exit(1)


def command(words: str, names: Sequence[str], *options: str) -> str:
    """A command that the user can copy, for these sessions."""
    named = [*options, "--", *names] if any(name.startswith("-") for name in names) else [*names, *options]
    return typed.joined(["acp-proxy", *words.split(), *named])


def same_store(context: typer.Context, store: str) -> list[str]:
    """The options that make another command use the same store."""
    given = getattr(context.get_parameter_source("store"), "name", "") == "COMMANDLINE"
    return ["--store", store] if given else []


def kept(store: Archive, agent: str) -> list[Listed]:
    """All sessions of the matching agents, newest first."""
    return list(store.newest(agent))


def chosen(store: Archive, wanted: str, agent: str, *, whole: bool = False) -> Listed:
    """The one session that the user means, by its id, else by its title. Raises NoSuchSession.

    ``whole``: a part of a title is not enough.
    """
    if wanted == LAST:
        found = list(islice(store.newest(agent, archived=False), 1))
    else:
        found = list({(row.agent, row.session): row for row in reversed(store.meant(wanted, agent))}.values())[::-1]
    if len(found) > 1:
        raise NoSuchSession(
            f"{wanted!r} matches several sessions:", *_candidates(store, found), "Give more of the id, or use --agent."
        )
    if found:
        return found[0]
    titled = store.titled(wanted, agent) if wanted != LAST else []
    if not titled and os.path.isfile(wanted):
        to = f"To watch it: {typed.joined(['acp-proxy', 'replay', wanted])}. "
        raise NoSuchSession(f"{wanted} is a file. {to}To add it to the store: acp-proxy sessions import")
    if not titled and not store.agents():
        raise NoSuchSession("no session is recorded yet. To set up your editor: acp-proxy editor EDITOR AGENT")
    if not titled:
        raise NoSuchSession(f"no session matches {wanted!r}. To see all sessions: acp-proxy sessions list")
    if len(titled) > 1:
        raise NoSuchSession(
            f"the titles of several sessions match {wanted!r}:", *_candidates(store, titled), "Give the id instead."
        )
    if whole and titled[0].title != wanted:
        raise NoSuchSession(
            f"{wanted!r} is only a part of a title:", *_candidates(store, titled), "With --yes, give the id instead."
        )
    return titled[0]


def without_secrets(title: str | None) -> str | None:
    """A title as ``run`` would store it, as far as the settings for all agents say. Raises UsageError."""
    given = os.environ.get("ACP_PROXY_REDACT") or config_file.checked().get("redact", "")
    if title is None or (patterns := options.patterns(given)) is None:
        return title
    from acp_proxy.redaction.masking import Masking  # compiling its patterns takes a while

    return mask_title(title, Masking(patterns).lines)


def _candidates(store: Archive, found: list[Listed]) -> list[str]:
    shown, more = found[:_CANDIDATES], len(found) - _CANDIDATES
    lines = [f"  {one}" for one in rows.candidates(shown, short_ids(store, shown))]
    return [*lines, *([f"  and {more} more"] if more > 0 else [])]
