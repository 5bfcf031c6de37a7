"""The commands, put together."""

from typing import Annotated

import typer

from acp_proxy import __version__
from acp_proxy.cli import demo, doctor, editor, mock_agent, replay, run, sessions
from acp_proxy.cli.completing import InFront
from acp_proxy.cli.order import Main

app = typer.Typer(
    name="acp-proxy",
    help="Put it in front of a coding agent: its sessions are kept, and can be listed, loaded and deleted.",
    cls=Main,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
in_front = {"allow_interspersed_args": False, "ignore_unknown_options": False}
app.command(cls=InFront, context_settings=in_front)(run.run)
app.add_typer(sessions.app, name="sessions")
app.command(cls=InFront, context_settings=in_front)(editor.editor)
app.command(cls=InFront, context_settings=in_front)(doctor.doctor)
app.command()(replay.replay)
app.command("mock-agent")(mock_agent.mock_agent)
app.command()(demo.demo)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"acp-proxy {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    pass
