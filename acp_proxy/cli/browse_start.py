"""The start of ``acp-proxy browse``. Does not import typer, because that takes a third of the time until the list."""

import os
from contextlib import closing
from functools import partial
from itertools import islice

from acp_proxy.cli.screen import is_attended, screen
from acp_proxy.cli.which_store import STORE_VARIABLE, store_of
from acp_proxy.errors import AcpProxyError
from acp_proxy.transcripts.archive import Archive, Listed

_FIRST = 64  # sessions: more than a screen


def quickly() -> bool:
    """Browse the user's store, as the command without options does.

    Returns False, and has done nothing, if there is something to say instead; the command then says it.
    """
    if not (is_attended() and screen().is_able):
        return False
    try:
        opened = store_of(os.environ.get(STORE_VARIABLE, ""))
        first = first_rows(opened)
    except (AcpProxyError, OSError):
        return False
    if first:
        show(opened, "", None, first)
    return bool(first)


def first_rows(
    store: Archive, agent: str = "", cwd: str | None = None, *, archived: bool = False
) -> tuple[Listed, ...]:
    """The newest sessions. Raises Unreadable."""
    return tuple(islice(store.newest(agent, cwd, archived=archived), _FIRST))


def show(store: Archive, agent: str, cwd: str | None, first: tuple[Listed, ...], *, archived: bool = False) -> None:
    """Browse until the user quits. ``first``: what the list shows at once."""
    from acp_proxy.cli.browse_terminal import BrowseTerminal
    from acp_proxy.cli.library import Library
    from acp_proxy.views.browsing import Browsing

    with BrowseTerminal(Library(store.root, agent, cwd), Browsing(first, archived=archived)) as shown:
        while (row := shown.run()) is not None:
            shown.read(partial(_read, store, row))


def _read(store: Archive, row: Listed) -> None:
    from acp_proxy.cli import show_forms  # imported late: slow, and the list is already shown

    with closing(store.open_listed(row)) as reading:
        parts = show_forms.of_turns(reading, row.session, (1, None), partial(store.open_child, row))
        show_forms.conversation(row, parts, screen(), full=False, stays=True)
