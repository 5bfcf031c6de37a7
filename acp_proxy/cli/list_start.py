"""``acp-proxy sessions list`` without options. Does not import typer, because that takes a third of the time."""

import os
from collections.abc import Iterator
from datetime import datetime
from itertools import chain, islice
from typing import TYPE_CHECKING

from acp_proxy.cli.screen import Screen, paged, screen
from acp_proxy.cli.which_store import STORE_VARIABLE, short_ids, store_of
from acp_proxy.errors import AcpProxyError
from acp_proxy.transcripts.archive import Archive, Listed
from acp_proxy.views.rows import values

if TYPE_CHECKING:
    from acp_proxy.views.session_list import Table

TOGETHER = 100  # rows that decide the widths of a table: more than a screen


def quickly() -> bool:
    """List the sessions of the user's store, as the command without options does.

    Returns False, and has done nothing, if there is something to say instead; the command then says it. Raises
    AcpProxyError, OSError.
    """
    try:
        opened = store_of(os.environ.get(STORE_VARIABLE, ""))
        rows = opened.newest(archived=False)
        first = list(islice(rows, TOGETHER))
    except (AcpProxyError, OSError):
        return False
    if first:
        show(opened, chain(first, rows))
    return bool(first)


def show(store: Archive, rows: Iterator[Listed]) -> None:
    """Show the sessions to the user, or write them for another program."""
    target = screen()
    blocks = _table(store, rows, target) if target.is_terminal else _lines(rows)
    with paged(target) as say:
        for block in blocks:
            say(block)


def _table(store: Archive, rows: Iterator[Listed], target: Screen) -> Iterator[str]:
    from acp_proxy.views import session_list  # imported late: no other command needs it

    now, home = datetime.now().astimezone(), os.path.expanduser("~")
    look = session_list.ListLook(target.width, target.colours, now, home, target.forms)
    table: Table | None = None
    while some := list(islice(rows, TOGETHER)):
        ids = short_ids(store, some)
        if table is None:
            table = session_list.table(some, ids, look)
            yield f"{table.heading()}\n"
        yield "".join(f"{text}\n" for text in table.lines(some, ids))


def _lines(rows: Iterator[Listed]) -> Iterator[str]:
    while some := list(islice(rows, TOGETHER)):
        yield "".join(f"{values(row)}\n" for row in some)
