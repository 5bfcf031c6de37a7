"""``acp-proxy sessions``: what is kept, for people and for programs."""

import shutil
import sys
from typing import Annotated, Any

import typer

from acp_proxy.cli import damage
from acp_proxy.cli.compact import compact
from acp_proxy.cli.order import Sessions
from acp_proxy.cli.redact import redact
from acp_proxy.cli.storing import AgentOption, SessionArgument, StoreOption, chosen, explained, kept, root_of
from acp_proxy.errors import Unreadable
from acp_proxy.transcripts.index import Listed
from acp_proxy.transcripts.store import Store
from acp_proxy.views import terminal

app = typer.Typer(help="List, show and delete what is kept.", cls=Sessions, no_args_is_help=True, rich_markup_mode=None)
app.command()(redact)
app.command()(compact)

JsonOption = Annotated[bool, typer.Option("--json", help="For programs: JSON instead of text.")]


@app.command("list")
def list_sessions(store: StoreOption = "", agent: AgentOption = "", as_json: JsonOption = False) -> None:
    """List the sessions of all agents, newest first.

    Example: acp-proxy sessions list --agent claude
    """
    with explained():
        rows = kept(Store(root_of(store)), agent)
    if as_json:
        typer.echo(terminal.json_text([_for_programs(row) for row in rows], indent=2))
    elif not rows:
        typer.echo("No sessions are kept yet. Put acp-proxy in front of an agent: acp-proxy run AGENT", err=True)
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        for line in terminal.table(rows, width):
            typer.echo(line)


@app.command()
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


def _for_programs(row: Listed) -> dict[str, Any]:
    return {
        "sessionId": row.session,
        "agent": row.agent,
        "cwd": row.cwd,
        "title": row.title,
        "updatedAt": row.updated,
        "messageCount": row.prompts + row.replies,
        "hasErrors": row.failed,
        "bytes": row.size,
        "transcript": row.name,
    }
