"""``acp-proxy sessions search``: in which conversation something was said."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from acp_proxy.cli import periods
from acp_proxy.cli.progress import advanced
from acp_proxy.cli.screen import paged, screen
from acp_proxy.cli.storing import (
    INTERRUPTED,
    AgentOption,
    StoreOption,
    command,
    directory,
    explained,
    same_store,
    short_ids,
    store_of,
    wrong_usage,
)
from acp_proxy.errors import AcpProxyError, Unreadable
from acp_proxy.transcripts.archive import Archive
from acp_proxy.views import terminal

if TYPE_CHECKING:  # no other command needs them
    from acp_proxy.transcripts.archive import Hit

_NO_ROOM = ("ENOSPC", "EDQUOT")


def search(
    context: typer.Context,
    words: Annotated[list[str], typer.Argument(metavar="WORDS...", help='Words, "a phrase", or the beginni* of one.')],
    store: StoreOption = "",
    agent: AgentOption = "",
    cwd: Annotated[str, typer.Option("--cwd", metavar="DIR", help="Only sessions in this directory.")] = "",
    here: Annotated[bool, typer.Option("--here", help="Only sessions in the current directory.")] = False,
    since: Annotated[
        str,
        typer.Option("--since", metavar="WHEN", help="Only what was said since then: 30m, 12h, 7d, 2w, 2026-11-01."),
    ] = "",
    limit: Annotated[int, typer.Option("--limit", min=1, help="So many sessions at most, the newest.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: JSON instead of text.")] = False,
) -> None:
    """Find the turns in which all of these words were said.

    In any order, in prompts, the agent's messages, titles of tool calls and of sessions; not in thoughts, nor in what
    tools gave back. Case and accents do not matter. An argument with spaces in it is a phrase. The newest are shown
    first. To another program it is lines of id, turn, title, agent, directory, time and text, separated by tabs. Ends
    with 1 where nothing is found.

    The first search reads all transcripts, later ones only what is new. It may be interrupted.

    Example: acp-proxy sessions search login "session cookie" --since 30d
    """
    from acp_proxy.transcripts.archive import Sought
    from acp_proxy.transcripts.archive import question as asked
    from acp_proxy.views import found

    with wrong_usage():
        question = asked(words)
    with explained():
        where = directory(cwd, here=here)
        opened = store_of(store)
        agents = opened.agents(agent)
        sought = Sought(question, agents, where, periods.since(since) or None, limit, each=0 if as_json else 3)
        with _interruptible(opened), _with_room(opened), advanced("Reading what is new") as progress:
            result = opened.search(sought, progress)
        if as_json:
            typer.echo(terminal.json_text([found.for_programs(hit) for hit in result.hits], indent=2))
        elif result.hits:
            _say(opened, result.hits, same_store(context, store))
        if not result.hits:
            typer.echo("Nothing was found.", err=True)
            raise typer.Exit(1)
        if not result.is_all and not as_json:
            typer.echo(f"There are more than {limit}. To see them: --limit {2 * limit}, or more words", err=True)


def _say(store: Archive, hits: "list[Hit]", options: list[str]) -> None:
    from acp_proxy.views import found

    target = screen()
    with paged(target) as say:
        if not target.is_terminal:
            for hit in hits:
                say("".join(f"{text}\n" for text in found.values(hit)))
            return
        now, home = datetime.now().astimezone(), os.path.expanduser("~")
        look = found.Look(target.width, target.is_dressed, target.colours, now, home)
        ids = short_ids(store, [hit.session for hit in hits])
        for hit in hits:
            say(found.shown(hit, _command(store, hit, ids[hit.session.named], options), look))


def _command(store: Archive, hit: "Hit", id: str, options: list[str]) -> str:
    """What shows it, to be copied."""
    row = hit.session
    turn = ["--turn", str(hit.turns[0])] if hit.turns else []
    has_others = any(store.knows(agent, row.session) for agent in store.agents() if agent != row.agent)
    return command("sessions show", [id], *turn, *(["--agent", row.agent] if has_others else []), *options)


@contextmanager
def _with_room(store: Archive) -> Iterator[None]:
    """A full disk keeps nobody from reading sessions. Raises AcpProxyError."""
    try:
        yield
    except Unreadable as problem:
        if problem.name not in _NO_ROOM:
            raise
        raise AcpProxyError(
            f"there is no room in {store.root} for the tables that are searched. Make room there, and search again; "
            "list and show do without."
        ) from problem


@contextmanager
def _interruptible(store: Archive) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        kept = (
            " What was read until now is kept: the next search goes on from there." if store.only_read is None else ""
        )
        typer.echo(f"Interrupted.{kept}", err=True)
        raise typer.Exit(INTERRUPTED) from None
