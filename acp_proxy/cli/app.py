"""The ``acp-proxy`` command and its subcommands."""

from typing import Annotated, Any, ClassVar

import typer

from acp_proxy import __version__
from acp_proxy.cli.group import Group, LazyCommand
from acp_proxy.cli.sessions import DELETE, SessionsGroup


class Main(Group):
    table: ClassVar = {
        "run": LazyCommand("acp_proxy.cli.run", "run", in_front=True),
        "editor": LazyCommand("acp_proxy.cli.editor", "editor", in_front=True),
        "doctor": LazyCommand("acp_proxy.cli.doctor", "doctor", in_front=True),
        "sessions": LazyCommand("acp_proxy.cli.sessions", "app"),
        "browse": LazyCommand("acp_proxy.cli.browse", "browse"),
        "sync": LazyCommand("acp_proxy.cli.sync_group", "app"),
        "config": LazyCommand("acp_proxy.cli.config", "config"),
        "replay": LazyCommand("acp_proxy.cli.replay", "replay"),
        "chain": LazyCommand("acp_proxy.cli.chain", "chain", in_front=True),
        "mcp": LazyCommand("acp_proxy.cli.mcp", "mcp"),
        "mock-agent": LazyCommand("acp_proxy.cli.mock_agent", "mock_agent"),
        "demo": LazyCommand("acp_proxy.cli.demo", "demo"),
    }
    short: ClassVar = {
        **dict.fromkeys(("list", "ls"), ("sessions", "list")),
        "help": ("--help",),
        "version": ("--version",),
    }
    elsewhere: ClassVar = {**{name: f"acp-proxy sessions {name}" for name in SessionsGroup.table}, **DELETE}

    def get_params(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        params = super().get_params(ctx)
        for each in params:
            if each.name in _COMPLETION:
                each.callback = _COMPLETION[each.name]  # type: ignore[assignment]
        return params


app = typer.Typer(
    name="acp-proxy",
    help="Record the sessions of a coding agent, so that you can list, load and delete them.",
    cls=Main,
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
    rich_markup_mode=None,
    epilog="Short forms: list or ls for sessions list; help COMMAND; version.",
    pretty_exceptions_enable=False,
)


def _install_completion(context: typer.Context, parameter: Any, value: Any) -> Any:
    if not value:
        return value
    from acp_proxy.cli import shell_completion  # imported late: used once

    return shell_completion.install(context, parameter, value)


def _show_completion(context: typer.Context, parameter: Any, value: Any) -> Any:
    if not value:
        return value
    from acp_proxy.cli import shell_completion  # imported late: used once

    return shell_completion.show(context, parameter, value)


_COMPLETION = {"install_completion": _install_completion, "show_completion": _show_completion}


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"acp-proxy {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass
