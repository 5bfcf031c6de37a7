"""Writes docs/cli.md from the commands' own help: `make docs`.

The text depends on nothing but the commands: plain help of one width, without colour or boxes, whatever the terminal.
"""

from collections.abc import Iterator
from pathlib import Path

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from acp_proxy.cli.app import app
from acp_proxy.cli.in_front import full_help

PAGE = Path(__file__).parent.parent / "docs" / "cli.md"
WIDTH = 100
INTRODUCTION = """\
# The command line

Made from the commands' own help by `make docs`.
"""


def page() -> str:
    sections = (f"## {context.command_path}\n\n```text\n{full_help(context)}\n```\n" for context in contexts())
    return "\n".join([INTRODUCTION, *sections])


def contexts() -> Iterator[typer.Context]:
    """Every command that is shown to users, in the order of their help; `command_path` is how it is called."""
    root = get_command(app)
    assert isinstance(root, TyperGroup)
    return _contexts(root, "acp-proxy", None)


def _contexts(command: TyperCommand | TyperGroup, name: str, parent: typer.Context | None) -> Iterator[typer.Context]:
    command.rich_markup_mode = None
    context = typer.Context(
        command, info_name=name, parent=parent, **{**command.context_settings, "terminal_width": WIDTH}
    )
    yield context
    if isinstance(command, TyperGroup):
        for sub in command.list_commands(context):
            found = command.get_command(context, sub)
            if isinstance(found, TyperCommand | TyperGroup) and not found.hidden:
                yield from _contexts(found, sub, context)


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
