"""``acp-proxy browse``: find, read and tidy up sessions in a full screen."""

from typing import Annotated

import typer

from acp_proxy.cli.browse_start import first_rows, show
from acp_proxy.cli.list_sessions import nothing
from acp_proxy.cli.screen import is_attended, screen
from acp_proxy.cli.storing import AgentOption, StoreOption, directory, explained, say_on_stderr, store_of
from acp_proxy.errors import UsageError


def browse(
    store: StoreOption = "",
    agent: AgentOption = "",
    cwd: Annotated[str, typer.Option("--cwd", metavar="DIR", help="Only sessions in this directory.")] = "",
    here: Annotated[bool, typer.Option("--here", help="Only sessions in the current directory.")] = False,
    archived: Annotated[bool, typer.Option("--archived", help="Begin with the archived sessions.")] = False,
) -> None:
    """Find, read and tidy up sessions in a full screen.

    Type to filter: first by titles and directories, then by the words said. Keys: the arrows and Page Up and Page Down
    select, Enter reads the conversation. Ctrl-R renames, Ctrl-A archives, Ctrl-D deletes (it asks how), Ctrl-E exports
    to a file, and Ctrl-Y copies the id. Ctrl-T switches to the archived sessions and back. Ctrl-U empties the filter.
    Esc empties it too, or quits. F1 explains the keys.

    Example: acp-proxy browse --here
    """
    with explained():
        if not (is_attended() and screen().is_able):
            raise UsageError("browse needs a terminal. For other programs: acp-proxy sessions list")
        where = directory(cwd, here=here)
        opened = store_of(store)
        first = first_rows(opened, agent, where, archived=archived)
        if not first and not archived:
            say_on_stderr(nothing(opened, narrowed=bool(agent or where)))
            return
        show(opened, agent, where, first, archived=archived)
