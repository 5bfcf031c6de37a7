"""``acp-proxy browse``: find, read and tidy up sessions in a full screen."""

import sys
from contextlib import closing
from functools import partial
from itertools import islice
from typing import Annotated

import typer

from acp_proxy.cli.library import Library
from acp_proxy.cli.list_sessions import nothing
from acp_proxy.cli.screen import screen
from acp_proxy.cli.storing import AgentOption, StoreOption, directory, explained, store_of
from acp_proxy.errors import UsageError
from acp_proxy.transcripts.archive import Archive, Listed
from acp_proxy.views.browsing import Browsing

_FIRST = 64  # sessions: more than a screen


def browse(
    store: StoreOption = "",
    agent: AgentOption = "",
    cwd: Annotated[str, typer.Option("--cwd", metavar="DIR", help="Only sessions in this directory.")] = "",
    here: Annotated[bool, typer.Option("--here", help="Only sessions in the current directory.")] = False,
    archived: Annotated[bool, typer.Option("--archived", help="Begin with the archived sessions.")] = False,
) -> None:
    """Find, read and tidy up sessions in a full screen.

    Type to filter: first by titles and directories, then by the words said. Keys: the arrows and Page Up and Page Down
    select, Enter reads the conversation. Ctrl-R renames, Ctrl-A archives, Ctrl-D deletes permanently (it asks first),
    Ctrl-E exports to a file, and Ctrl-Y copies the id. Ctrl-T switches to the archived sessions and back. Ctrl-U
    empties the filter. Esc empties it too, or quits. F1 explains the keys.

    Example: acp-proxy browse --here
    """
    with explained():
        if not (sys.stdin.isatty() and screen().is_able):
            raise UsageError("browse needs a terminal. For other programs: acp-proxy sessions list")
        where = directory(cwd, here=here)
        opened = store_of(store)
        first = tuple(islice(opened.newest(agent, where, archived=archived), _FIRST))
        if not first and not archived:
            typer.echo(nothing(opened, narrowed=bool(agent or where)), err=True)
            return
        from acp_proxy.cli.browse_terminal import BrowseTerminal  # imported late: it shows the list before it is used

        with BrowseTerminal(Library(opened.root, agent, where), Browsing(first, archived=archived)) as shown:
            while (row := shown.run()) is not None:
                shown.read(partial(_read, opened, row))


def _read(store: Archive, row: Listed) -> None:
    from acp_proxy.cli import show_forms  # imported late: slow, and the list is already shown

    with closing(store.open_listed(row)) as reading:
        parts = show_forms.of_turns(reading, row.session, (1, None), partial(store.open_child, row))
        show_forms.conversation(row, parts, screen(), full=False, stays=True)
