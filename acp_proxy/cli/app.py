"""The commands, put together."""

from typing import Annotated

import typer

from acp_proxy import __version__
from acp_proxy.cli import demo, doctor, editor, run, sessions

app = typer.Typer(
    name="acp-proxy",
    help="Put it in front of a coding agent: its sessions are kept, and can be listed, loaded and deleted.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command(context_settings={"allow_interspersed_args": False, "ignore_unknown_options": False})(run.run)
app.add_typer(sessions.app, name="sessions")
app.command(context_settings={"allow_interspersed_args": False})(editor.editor)
app.command(context_settings={"allow_interspersed_args": False})(doctor.doctor)
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
