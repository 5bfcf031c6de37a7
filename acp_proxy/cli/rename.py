"""``acp-proxy rename``: give a session your own title."""

from typing import Annotated

import typer

from acp_proxy.cli import config_values
from acp_proxy.cli.choose_session import LAST, choose_session, format_short_heading
from acp_proxy.cli.open_store import open_store
from acp_proxy.cli.report_errors import print_on_stderr, report_errors
from acp_proxy.cli.shared_options import AgentOption, SessionArgument, StoreOption
from acp_proxy.errors import UsageError
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.store.index_database import ListedSession
from acp_proxy.transcript.titles import AGENT_TITLE_LENGTH, clean, mask_title


def rename(
    session: SessionArgument,
    words: Annotated[list[str] | None, typer.Argument(metavar="TITLE", help="Your title.", show_default=False)] = None,
    store: StoreOption = "",
    agent: AgentOption = "",
    clear: Annotated[bool, typer.Option("--clear", help="Remove your title and show the agent's again.")] = False,
) -> None:
    """Give a session your own title.

    It replaces the agent's title, here and in every list of an editor, also for proxies that are already running: one
    line of at most 500 characters. Deleting the session deletes it.

    Example: acp-proxy rename last The login
    """
    with report_errors():
        typed_title = " ".join(words) if words is not None else None
        new_title = clean(typed_title, AGENT_TITLE_LENGTH)
        if clear == (typed_title is not None):
            raise UsageError("rename needs either a title or --clear. Give one of them.")
        if new_title is None and not clear:
            raise UsageError("the title is empty. To remove your title, use --clear.")
        if new_title == LAST:
            raise UsageError(f"commands take {LAST!r} for the newest session. Choose another title.")
        opened_store = open_store(store, for_writing=True)
        row = choose_session(opened_store, session, agent)
        opened_store.set_listed_title(row, mask_title_as_recorded(new_title))
        typer.echo(format_short_heading(opened_store, _find_now(opened_store, row)))
        if typed_title is not None and clean(typed_title, len(typed_title)) != new_title:
            print_on_stderr(f"The title was cut: the longest has {AGENT_TITLE_LENGTH} characters.")


def _find_now(store: CommandStore, row: ListedSession) -> ListedSession:
    """The session as the list shows it now."""
    key = (row.agent_folder, row.name)
    return next((each for each in store.list_all() if (each.agent_folder, each.name) == key), row)


def mask_title_as_recorded(title: str | None) -> str | None:
    """A title as ``run`` would store it, as far as the settings for all agents say. Raises UsageError."""
    if title is None or (patterns := config_values.read_patterns()) is None:
        return title
    from acp_proxy.redaction.masking import Masking  # compiling its patterns takes a while

    return mask_title(title, Masking(patterns).mask_lines)
