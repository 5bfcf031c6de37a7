"""Writes docs/cli.md from the commands' help: `make docs`.

The text depends only on the commands: help of a fixed width, without colours or boxes, whatever the terminal. Options
that many commands share are explained once, at the beginning.
"""

import re
from collections.abc import Iterator
from copy import copy
from pathlib import Path
from typing import TypeVar

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.main import get_command

from acp_proxy.cli.app import app
from acp_proxy.cli.run_help import write_full_help

PAGE = Path(__file__).parent.parent / "docs" / "cli.md"
WIDTH = 100
P = TypeVar("P")
BODY = re.compile(r"(?<=\n\n)(?:  (?!Example: ).+\n)+\n", re.MULTILINE)
"""A paragraph after the first one, except the example."""
SHARED = ("--store", "--agent", "--json")
"""Options with the same meaning in every command that has them."""
USAGE = re.compile(r"^Usage: .*\n+")
MORE = {
    "search": "search.md",
    "diff": "changes.md",
    "blame": "changes.md#who-wrote-this-line",
    "stats": "usage.md",
    "restore": "store.md#deletes-titles-and-archived-sessions",
    "export": "export.md",
    "import": "export.md#import",
    "adopt": "adopt.md",
    "verify": "store.md#check-and-repair",
    "repair": "store.md#check-and-repair",
    "redact": "redaction.md",
    "compress": "store.md#compression",
    "chain": "chain.md",
    "mock-agent": "mock-agent.md",
}
"""Pages with everything in a command's help except its options."""
INTRODUCTION = """\
# Which commands and options are there?

Made from the commands' help by `make docs`. "Also" names options that mean the same everywhere:

- `--store DIR`: the store to use. Default: your user data directory. Variable: `ACP_PROXY_STORE`.
- `--agent NAME`: only sessions of agents in whose name a word begins with NAME.
- `--json`: print [JSON](json.md).

Every command takes `-h` and `--help`; `acp-proxy help COMMAND` shows the same. `acp-proxy list` and `ls` are short for
`acp-proxy list`, `help` and `version` for `--help` and `--version`. A variable can set an option of `run`:
`ACP_PROXY_DELETE_MODE` sets `--delete-mode`.
"""


def page() -> str:
    shown = [context for context in contexts() if context.command.params]  # a group without options adds nothing
    return "\n".join([INTRODUCTION, *map(section, shown)])


def section(context: typer.Context) -> str:
    text, more = told(context), MORE.get(str(context.info_name))
    if more:
        text = BODY.sub("", text)
    link = f"\n[More]({more})\n" if more else ""
    return f"## {context.command_path}\n\n```text\n{text}\n```\n{link}"


def told(context: typer.Context) -> str:
    """The command's help, without what the introduction explains."""
    command = context.command
    params = command.params
    shared = {param.opts[0]: param for param in params if param.opts[0] in SHARED}
    command.params = [without_variable(param) for param in params if param not in shared.values()]
    command.add_help_option = False
    try:
        text = write_full_help(context)
    finally:
        command.params, command.add_help_option = params, True
    text = USAGE.sub("", text.partition("\n\nCommands:\n")[0])
    return f"{text}\n\nAlso: {', '.join(shared)}" if shared else text


def without_variable(param: P) -> P:
    without = copy(param)
    if isinstance(without, TyperOption):
        without.show_envvar = False
    return without


def contexts() -> Iterator[typer.Context]:
    """Every visible command in the order of the help; `command_path` is its full name."""
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
            if (
                isinstance(found, TyperCommand | TyperGroup) and not found.hidden and sub != "sessions"
            ):  # the longer form
                yield from _contexts(found, sub, context)


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
