"""``acp-proxy sessions rename``: a title of the user's own."""

from typing import Annotated

import typer

from acp_proxy.cli.storing import AgentOption, SessionArgument, StoreOption, chosen, explained, store_of
from acp_proxy.errors import UsageError
from acp_proxy.titles import AGENT_TITLE_LENGTH, cleaned
from acp_proxy.transcripts.archive import Archive
from acp_proxy.views import terminal


def rename(
    session: SessionArgument,
    title: Annotated[str | None, typer.Argument(metavar="TITLE", help="What you call it.", show_default=False)] = None,
    store: StoreOption = "",
    agent: AgentOption = "",
    clear: Annotated[bool, typer.Option("--clear", help="Take your title away: the agent's is shown again.")] = False,
) -> None:
    """Give a session a title of your own.

    It wins over the agent's and the prompts', here and in every list that an editor gets, also of proxies that run
    already. It is one line, of 500 characters at most, and goes when the session is deleted.

    Example: acp-proxy sessions rename last "The login that would not mend"
    """
    with explained():
        wanted = cleaned(title, AGENT_TITLE_LENGTH)
        if clear == (title is not None):
            raise UsageError("rename takes a title, or --clear")
        if wanted is None and not clear:
            raise UsageError("the title is empty. To take yours away: --clear")
        opened = store_of(store, change=True)
        row = chosen(opened, session, agent)
        opened.rename(row, wanted)
        title = _title_now(opened, row.agent, row.name)
    typer.echo(terminal.line(title or "(no title)"))


def _title_now(store: Archive, agent: str, name: str) -> str | None:
    """What a session is called now."""
    return next((row.title for row in store.sessions() if (row.agent, row.name) == (agent, name)), None)
