"""``acp-proxy sessions``: what is kept, for people and for programs."""

from typing import Annotated

import typer

from acp_proxy.cli import damage
from acp_proxy.cli.compact import compact
from acp_proxy.cli.export import export
from acp_proxy.cli.importing import take_in
from acp_proxy.cli.listing import list_sessions
from acp_proxy.cli.order import Sessions
from acp_proxy.cli.redact import redact
from acp_proxy.cli.show import show
from acp_proxy.cli.storing import AgentOption, SessionArgument, StoreOption, chosen, explained, root_of
from acp_proxy.errors import Unreadable
from acp_proxy.transcripts.store import Store
from acp_proxy.views import terminal

app = typer.Typer(help="List, show and delete what is kept.", cls=Sessions, no_args_is_help=True, rich_markup_mode=None)
app.command()(redact)
app.command()(compact)
app.command()(export)
app.command("import")(take_in)


app.command("list")(list_sessions)
app.command()(show)


@app.command()
def delete(
    session: SessionArgument,
    store: StoreOption = "",
    agent: AgentOption = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete what is kept of a session, for good. The agent keeps what it has.

    Example: acp-proxy sessions delete last
    """
    with explained():
        opened = Store(root_of(store))
        row = chosen(opened, session, agent)
        typer.echo(terminal.heading(row))
        if not yes and not typer.confirm("Delete it?"):
            raise typer.Exit(1)
        try:
            opened.remove(row)
        except Unreadable:
            typer.echo("The index cannot be written to now: it forgets the session with the next list.", err=True)
    typer.echo("Deleted.")


app.command()(damage.verify)
app.command()(damage.repair)
