"""``acp-proxy sessions rename``: give a session your own title."""

from typing import Annotated

import typer

from acp_proxy.cli.storing import (
    LAST,
    AgentOption,
    SessionArgument,
    StoreOption,
    chosen,
    explained,
    store_of,
    without_secrets,
)
from acp_proxy.errors import UsageError
from acp_proxy.titles import AGENT_TITLE_LENGTH, cleaned
from acp_proxy.transcripts.archive import Archive
from acp_proxy.views import terminal


def rename(
    session: SessionArgument,
    title: Annotated[str | None, typer.Argument(metavar="TITLE", help="Your title.", show_default=False)] = None,
    store: StoreOption = "",
    agent: AgentOption = "",
    clear: Annotated[bool, typer.Option("--clear", help="Remove your title and show the agent's again.")] = False,
) -> None:
    """Give a session your own title.

    Your title replaces the agent's title, here and in every list of an editor, also for proxies that are already
    running. It is one line of at most 500 characters. Deleting the session deletes it.

    Example: acp-proxy sessions rename last "The login"
    """
    with explained():
        wanted = cleaned(title, AGENT_TITLE_LENGTH)
        if clear == (title is not None):
            raise UsageError("rename needs either a title or --clear. Give one of them.")
        if wanted is None and not clear:
            raise UsageError("the title is empty. To remove your title, use --clear.")
        if wanted == LAST:
            raise UsageError(f"commands take {LAST!r} for the newest session. Choose another title.")
        opened = store_of(store, change=True)
        row = chosen(opened, session, agent)
        opened.rename(row, without_secrets(wanted))
        title = _title_now(opened, row.agent, row.name)
    typer.echo(terminal.line(title or "(no title)"))


def _title_now(store: Archive, agent: str, name: str) -> str | None:
    """The current title of a session."""
    return next((row.title for row in store.sessions() if (row.agent, row.name) == (agent, name)), None)
