"""What the commands on stored sessions have in common: the store they mean, and the session they mean."""

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from acp_proxy.cli import completing
from acp_proxy.cli.progress import MOMENT, advanced
from acp_proxy.errors import AcpProxyError, NoStore, NoSuchSession, UsageError
from acp_proxy.transcripts.archive import PRIVATE_UMASK, Archive, Listed, default_root, is_windows
from acp_proxy.views import figures, rows, terminal

if TYPE_CHECKING:  # no other command needs it
    from acp_proxy.transcripts.archive import Candidate

INTERRUPTED = 128 + 2
"""How a command ends at Ctrl-C, as shells tell it of SIGINT."""
_CANDIDATES = 8

StoreOption = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="DIR",
        envvar="ACP_PROXY_STORE",
        help="Where transcripts are kept. Default: your user data directory.",
    ),
]
AgentOption = Annotated[
    str,
    typer.Option(
        "--agent",
        metavar="NAME",
        help="Only sessions of agents in whose name a word begins with this.",
        autocompletion=completing.agents,
    ),
]
SessionsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SESSION", help="Ids, beginnings of them, or: last. Default: all.", autocompletion=completing.sessions
    ),
]
SessionArgument = Annotated[
    str,
    typer.Argument(
        metavar="SESSION", help="An id, the beginning of one, or: last.", autocompletion=completing.sessions
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="For programs: JSON instead of text.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def root_of(given: str) -> Path:
    os.umask(PRIVATE_UMASK)
    return Path(given).expanduser() if given else default_root()


def store_of(given: str, *, make: bool = False, change: bool = False) -> Archive:
    """The store that is meant. Where its index has to be made anew, which may take long, that is shown.

    Only ``make`` makes one: without it, one that is missing is empty in the default place, and else an error. One that
    cannot be written to is refused to who makes it, or means to ``change`` it. Raises StoreRefused, NoStore.
    """
    store = Archive(root_of(given), make=make)
    if given and not store.is_made:
        raise NoStore(store.root)
    if change and store.only_read is not None:
        raise store.only_read
    store.filling = partial(advanced, "Making the index anew", MOMENT)
    return store


@contextmanager
def explained() -> Iterator[None]:
    """Errors that a person can mend are shown as they are, and end with 1; a wrong command line with 2."""
    try:
        yield
    except AcpProxyError as problem:
        for number, text in enumerate(problem.args):
            typer.echo(f"{'' if number else 'acp-proxy: '}{terminal.line(str(text))}", err=True)
        raise typer.Exit(2 if isinstance(problem, UsageError) else 1) from problem
    except BrokenPipeError:  # who reads the output has left; typer ends us without a word
        raise
    except OSError as problem:
        where = terminal.line(str(problem.filename or "the store"))
        typer.echo(f"acp-proxy: {where}: {problem.strerror}. Run: acp-proxy doctor", err=True)
        raise typer.Exit(1) from problem


@contextmanager
def wrong_usage() -> Iterator[None]:
    """A command line that makes no sense is shown as it is, and ends with 2."""
    try:
        yield
    except UsageError as problem:
        typer.echo(f"acp-proxy: {terminal.line(str(problem))}", err=True)
        raise typer.Exit(2) from problem


def agreed(question: str) -> None:
    """Asks, on stderr. Whatever is no yes ends the command with 1, Ctrl-C as everywhere."""
    try:
        if typer.confirm(question, err=True):
            return
    except typer.Abort as stopped:
        typer.echo(err=True)
        if isinstance(stopped.__context__, KeyboardInterrupt):
            raise typer.Exit(INTERRUPTED) from None
        if not sys.stdin.isatty():
            typer.echo("Nobody is there to answer. To do it unasked: --yes", err=True)
    raise typer.Exit(1)


def directory(cwd: str, *, here: bool) -> str | None:
    """The one that --cwd or --here mean, in full. Raises AcpProxyError."""
    if cwd and here:
        raise UsageError("--here is the current directory, and --cwd another: not both")
    if not cwd and not here:
        return None
    try:
        return cwd if os.path.isabs(cwd) or is_windows(cwd) else os.path.join(os.getcwd(), cwd or ".")
    except FileNotFoundError as problem:
        raise AcpProxyError("the current directory was removed. Name one in full: --cwd DIR") from problem


def command(words: str, names: Sequence[str], *options: str) -> str:
    """What a person may copy to do this with these sessions."""
    named = [*options, "--", *names] if any(name.startswith("-") for name in names) else [*names, *options]
    return shlex.join(["acp-proxy", *words.split(), *named])


def same_store(context: typer.Context, store: str) -> list[str]:
    """The options with which another command means the store that this one was given."""
    given = getattr(context.get_parameter_source("store"), "name", "") == "COMMANDLINE"
    return ["--store", store] if given else []


def kept(store: Archive, agent: str) -> list[Listed]:
    """All sessions, newest first, of the agents that are meant by this."""
    return list(store.newest(agent))


def chosen(store: Archive, wanted: str, agent: str) -> Listed:
    """The one session that is meant. Raises NoSuchSession."""
    found = list(islice(store.newest(agent), 1)) if wanted == "last" else store.meant(wanted, agent)
    if not found:
        raise NoSuchSession(f"no session {wanted!r}. See: acp-proxy sessions list")
    if len({(row.agent, row.session) for row in found}) > 1:
        raise NoSuchSession(f"{wanted!r} could be any of:", *_candidates(store, found))
    return found[0]


def _candidates(store: Archive, found: list[Listed]) -> list[str]:
    one_each = list({(row.agent, row.session): row for row in reversed(found)}.values())[::-1]
    shown, more = one_each[:_CANDIDATES], len(one_each) - _CANDIDATES
    lines = [f"  {one}" for one in rows.candidates(shown, short_ids(store, shown))]
    return [*lines, *([f"  and {more} more"] if more > 0 else []), "Give more of the id, or --agent."]


def short_ids(store: Archive, sessions: "Sequence[Listed | Candidate]") -> dict[str, str]:
    """What names them, as it is shown: no more of an id than is needed."""
    ids = [each.session for each in sessions]
    short = figures.short(ids, store.alike(ids, figures.SHORTEST))
    return {each.named: short[each.session] + each.named.removeprefix(each.session) for each in sessions}
