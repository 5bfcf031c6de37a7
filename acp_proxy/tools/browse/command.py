"""``acp-proxy browse``: find, read and tidy up sessions in a full screen."""

import os
from contextlib import closing
from functools import partial
from itertools import islice
from typing import Annotated

import typer

from acp_proxy.cli.choose_session import explain_empty_list, shorten_ids
from acp_proxy.cli.open_store import open_store
from acp_proxy.cli.pager import find_screen, is_attended
from acp_proxy.cli.report_errors import print_on_stderr, report_errors
from acp_proxy.cli.session_filter import (
    BranchOption,
    CwdOption,
    HereOption,
    SessionFilter,
    SinceOption,
    UntilOption,
    make_filter,
)
from acp_proxy.cli.shared_options import AgentOption, StoreOption
from acp_proxy.errors import UsageError
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.store.index_database import ListedSession

_FIRST_ROWS = 64  # sessions: more than a screen


def _browse_until_quit(
    store: CommandStore,
    session_filter: SessionFilter,
    first_rows: tuple[ListedSession, ...],
    *,
    archived: bool = False,
    typed: str = "",
) -> None:
    """Browse until the user quits. ``first_rows``: what the list shows at once. ``typed``: the filter at first."""
    from acp_proxy.tools.browse.state import BrowseState
    from acp_proxy.tools.browse.store_worker import BrowseStore
    from acp_proxy.tools.browse.terminal import BrowseTerminal

    browse_store = BrowseStore(store.root, session_filter)
    state = BrowseState(first_rows, archived=archived, typed=typed, bin_days=browse_store.bin_days)
    with BrowseTerminal(browse_store, state) as terminal:
        while (action := terminal.run()) is not None and action.row is not None:
            if action.kind == "read":
                terminal.read(partial(_read, store, action.row, action.turn))
            else:
                terminal.read(partial(_read_changes, store, action.row))


def _read(store: CommandStore, row: ListedSession, turn: int) -> None:
    from acp_proxy.tools.show import command  # imported late: slow, and the list is already shown

    with closing(store.open_listed(row)) as reader:
        parts = command.find_parts(reader, row.session_id, (1, None), partial(store.open_child, row))
        id = shorten_ids(store, [row])[row.selector]
        command.print_conversation(row, parts, find_screen(), full=False, keeps_short_text=True, id=id, turn=turn)


def _read_changes(store: CommandStore, row: ListedSession) -> None:
    from acp_proxy.tools.changes.command import print_patch
    from acp_proxy.tools.changes.session_changes import read_changes

    with closing(store.open_listed(row)) as reader:
        print_patch(read_changes(reader, row.cwd, partial(store.open_child, row)), find_screen())


def browse(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="WORD...", help="The filter to begin with.", show_default=False)
    ] = None,
    store: StoreOption = "",
    agent: AgentOption = "",
    cwd: CwdOption = "",
    here: HereOption = False,
    since: SinceOption = "",
    until: UntilOption = "",
    branch: BranchOption = "",
    archived: Annotated[bool, typer.Option("--archived", help="Begin with the archived sessions.")] = False,
) -> None:
    """Find, read and tidy up sessions in a full screen.

    Type to filter: each word may be in the title, the directory or the agent, or was said. What is recorded meanwhile
    appears. Keys: the arrows and Page Up and Page Down select, Enter reads the conversation, Ctrl-F shows what it
    changed in files. Ctrl-R renames, Ctrl-A archives, Ctrl-B pins, Ctrl-D deletes (it asks), Ctrl-X undoes that, Ctrl-E
    exports to a file, Ctrl-K copies a code block, Ctrl-Y copies the id, and Ctrl-O says how to continue. Ctrl-T
    switches to the archived sessions and back. Ctrl-U empties the filter. Esc empties it too, or quits. ? in an empty
    filter, or F1, explains the keys.

    Example: acp-proxy browse --here
    """
    with report_errors():
        if is_attended() and find_screen().is_terminal and not find_screen().can_page:
            raise UsageError(
                f"browse needs a terminal that can move the cursor; TERM says {os.environ.get('TERM')!r}. Set TERM to "
                "what your terminal is, such as xterm-256color, or use: acp-proxy list"
            )
        if not (is_attended() and find_screen().can_page):
            raise UsageError("browse needs a terminal. For other programs: acp-proxy list")
        session_filter = make_filter(agent, cwd, here, since, until, branch)
        opened_store = open_store(store)
        first_rows = tuple(islice(session_filter.list_newest(opened_store, archived), _FIRST_ROWS))
        if not first_rows and not archived:
            print_on_stderr(explain_empty_list(opened_store, is_narrow=session_filter.is_narrow, agent=agent))
            return
        _browse_until_quit(opened_store, session_filter, first_rows, archived=archived, typed=" ".join(words or ()))
