"""``acp-proxy list``: list the recorded sessions, newest first."""

import os
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain, islice
from textwrap import indent
from typing import TYPE_CHECKING, Annotated

import typer

from acp_proxy.cli import values
from acp_proxy.cli.common import AgentOption, StoreOption, directory, explained, short_ids, store_of
from acp_proxy.cli.pager import Screen, paged, screen
from acp_proxy.cli.wrapping import fitted
from acp_proxy.store.sessions import ListedSession, Sessions
from acp_proxy.views import sanitize
from acp_proxy.views.session_lines import for_programs, tab_separated

if TYPE_CHECKING:
    from acp_proxy.views.session_table import Table


TOGETHER = 100  # rows that decide the widths of a table: more than a screen


def _show(store: Sessions, rows: Iterator[ListedSession]) -> None:
    """Show the sessions to the user, or write them for another program."""
    target = screen()
    blocks = _table(store, rows, target) if target.is_terminal else _lines(rows)
    with paged(target) as say:
        for block in blocks:
            say(block)


def _table(store: Sessions, rows: Iterator[ListedSession], target: Screen) -> Iterator[str]:
    from acp_proxy.views import session_table  # imported late: no other command needs it

    now, home = datetime.now().astimezone(), os.path.expanduser("~")
    look = session_table.ListLook(target.width, target.colours, now, home, target.forms)
    table: Table | None = None
    while some := list(islice(rows, TOGETHER)):
        ids = short_ids(store, some)
        if table is None:
            table = session_table.table(some, ids, look)
            yield f"{table.heading()}\n"
        yield "".join(f"{text}\n" for text in table.lines(some, ids))


def _lines(rows: Iterator[ListedSession]) -> Iterator[str]:
    while some := list(islice(rows, TOGETHER)):
        yield "".join(f"{tab_separated(row)}\n" for row in some)


def list_sessions(
    store: StoreOption = "",
    agent: AgentOption = "",
    cwd: Annotated[str, typer.Option("--cwd", metavar="DIR", help="Only sessions in exactly this directory.")] = "",
    here: Annotated[bool, typer.Option("--here", help="Only sessions in the current directory or below.")] = False,
    since: Annotated[
        str,
        typer.Option(
            "--since",
            metavar="WHEN",
            help="Only sessions active since then: 30m, 12h, 7d, 2w, yesterday, 2026-11-01.",
        ),
    ] = "",
    until: Annotated[
        str, typer.Option("--until", metavar="WHEN", help="Only sessions last active by then; a day counts whole.")
    ] = "",
    archived: Annotated[
        bool, typer.Option("--archived", help="Only archived sessions. Without it: only others.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="Show at most N sessions, newest first.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """List the sessions of all agents, newest first.

    The list shows as much of an id as other commands need. If an agent has used one id for several sessions, the id
    means the newest one; the others have a number after it, such as s0~1. A session whose turn is running is marked as
    running. If the output is not a terminal, each line has id, title, agent, directory, time, turns, bytes and state
    (running or empty) in full, separated by tabs.

    Example: acp-proxy list --here --since 7d
    """
    with explained():
        where = directory(cwd, here=here)
        opened = store_of(store)
        earliest, latest = values.between(since, until)
        rows = islice(opened.list_newest(agent, where, earliest, latest, below=here, archived=archived), limit)
        first = list(islice(rows, TOGETHER))
        if not first and not as_json:
            narrowed = bool(agent or where or since or until)
            typer.echo(fitted(nothing(opened, narrowed=narrowed, archived=archived), sys.stderr), err=True)
            return
        everything = chain(first, rows)
        if not as_json:
            _show(opened, everything)
            return
        with paged(screen()) as say:
            for block in _json(everything):
                say(block)


def nothing(store: Sessions, *, narrowed: bool, archived: bool = False) -> str:
    """The message for an empty list: the reason, and what to do."""
    if archived and not narrowed:
        return "No session is archived. To archive one: acp-proxy archive SESSION"
    if narrowed and next(store.list_newest(archived=archived), None) is not None:
        return f"No session matches. To see all sessions: acp-proxy list{' --archived' if archived else ''}"
    if next(store.list_newest(archived=True), None) is not None:
        return "All sessions are archived. To see them: acp-proxy list --archived"
    if store.list_deleted():
        return "All sessions are deleted. To bring one back: acp-proxy restore"
    if store.list_agents():
        return "No recorded session has a prompt yet. If you expect one, run: acp-proxy verify"
    return (
        "No sessions are recorded yet. To set up your editor: acp-proxy setup. To take over older ones: acp-proxy adopt"
    )


def _json(rows: Iterable[ListedSession]) -> Iterator[str]:
    """A JSON array, written while the rows are read."""
    before = "["
    for row in rows:
        yield before + "\n" + indent(sanitize.json_text(for_programs(row), indent=2), "  ")
        before = ","
    yield "[]\n" if before == "[" else "\n]\n"
