"""What several commands share of lists: rows of sessions, or what to do if there are none."""

import os
import sys
from collections.abc import Iterator
from datetime import datetime
from itertools import chain, islice
from typing import TYPE_CHECKING

import typer

from acp_proxy.cli.choose_session import explain_unknown_agent, shorten_ids
from acp_proxy.cli.pager import Screen, find_screen, open_pager
from acp_proxy.cli.wrapping import fit_to_stream
from acp_proxy.sessions.command_store import CommandStore, TokensAndCost
from acp_proxy.store.index_database import ListedSession
from acp_proxy.views import formatting
from acp_proxy.views.session_lines import format_tab_separated, make_distinct_names

if TYPE_CHECKING:
    from acp_proxy.views.session_table import Table

ROWS_PER_BLOCK = 100  # rows that decide the widths of a table: more than a screen


def show_rows(store: CommandStore, rows: Iterator[ListedSession], *, is_long: bool) -> None:
    """Show the sessions to the user, or write them for another program."""
    target = find_screen()
    blocks = _format_table(store, rows, target, is_long) if target.is_terminal else _format_lines(store, rows, is_long)
    with open_pager(target) as write:
        for block in blocks:
            write(block)


def _format_table(store: CommandStore, rows: Iterator[ListedSession], target: Screen, is_long: bool) -> Iterator[str]:
    from acp_proxy.views import session_table  # imported late: no other command needs it

    now, home = datetime.now().astimezone(), os.path.expanduser("~")
    agents = make_distinct_names(store.list_agents())
    look = session_table.ListLook(target.width, target.has_colours, now, home, target.forms, agents)
    table: Table | None = None
    while chunk := list(islice(rows, ROWS_PER_BLOCK)):
        ids, usage = shorten_ids(store, chunk), store.read_tokens_and_cost(chunk) if is_long else None
        if table is None:
            table = session_table.make_table(chunk, ids, look, usage)
            yield f"{table.format_heading()}\n"
        yield "".join(f"{text}\n" for text in table.format_rows(chunk, ids, usage))


def _format_lines(store: CommandStore, rows: Iterator[ListedSession], is_long: bool) -> Iterator[str]:
    while chunk := list(islice(rows, ROWS_PER_BLOCK)):
        usage = store.read_tokens_and_cost(chunk) if is_long else {}
        for row in chunk:
            figures = usage.get((row.agent_folder, row.name), TokensAndCost())
            extra_cells = [str(figures.tokens or ""), formatting.format_amounts(figures.cost)] if is_long else []
            yield "\t".join([format_tab_separated(row), *extra_cells]) + "\n"


def show_sessions_or_advice(
    store: CommandStore, rows: Iterator[ListedSession], empty_message: str, advice: str, agent: str = ""
) -> None:
    """Show the sessions that a command could take that was given no SESSION, and say what to type (``advice``); or that
    there is none (``empty_message``). Both texts go to stderr.

    ``agent``: the user's ``--agent``, if the rows are only of these agents. If it leaves none, exits with 1.
    """
    first_rows = list(islice(rows, 1))
    if first_rows:
        show_rows(store, chain(first_rows, rows), is_long=False)
    agent_problem = explain_unknown_agent(store, agent)
    empty_message = f"{agent_problem[:1].upper()}{agent_problem[1:]}" if agent_problem else empty_message
    typer.echo(fit_to_stream(advice if first_rows else empty_message, sys.stderr), err=True)
    if agent and not first_rows:
        raise typer.Exit(1)
