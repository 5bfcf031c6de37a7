"""``acp-proxy sessions show``: a conversation."""

from typing import Annotated

import typer

from acp_proxy.cli.storing import AgentOption, SessionArgument, StoreOption, chosen, explained, root_of
from acp_proxy.transcripts.store import Store
from acp_proxy.views import terminal

JsonOption = Annotated[bool, typer.Option("--json", help="For programs: JSON instead of text.")]


def show(
    session: SessionArgument, store: StoreOption = "", agent: AgentOption = "", as_json: JsonOption = False
) -> None:
    """Show a conversation.

    Example: acp-proxy sessions show last
    """
    with explained():
        opened = Store(root_of(store))
        row = chosen(opened, session, agent)
        reading = opened.open_listed(row)
        try:
            if as_json:
                for line in reading.lines():
                    if line.entry is not None and line.entry.value is not None:
                        typer.echo(terminal.json_text(line.entry.value))
                return
            typer.echo(terminal.heading(row))
            for text in terminal.conversation(line.entry for line in reading.lines() if line.entry is not None):
                typer.echo(text)
        finally:
            reading.close()
