"""Writes docs/cli.md from the commands' help: `make docs`.

The text depends only on the commands: help of a fixed width, without colours or boxes, whatever the terminal. Options
that many commands share are explained once, at the beginning. A group without options of its own has no section.
"""

import re
from collections.abc import Iterator
from copy import copy
from pathlib import Path
from typing import Any, TypeVar

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.main import get_command

from acp_proxy.cli.app import app
from acp_proxy.cli.run_help import format_full_help

PAGE = Path(__file__).parent.parent / "docs" / "cli.md"
WIDTH = 100
Parameter = Any
"""Of a command, as typer has it: TyperArgument or TyperOption."""
P = TypeVar("P")
SHARED = {
    "SESSION": ("An id, the beginning", "Ids, beginnings"),
    "SESSION|FILE": ("A transcript file",),
    "FILE": ("A transcript file",),
    "--store": ("The store's directory",),
    "--agent": ("Only agents whose name",),
    "--cwd": ("Only sessions in exactly",),
    "--here": ("Only sessions in this directory",),
    "--since": ("Only sessions active since", "Only turns since"),
    "--until": ("Only sessions last active", "Only turns that began"),
    "--branch": ("Only sessions begun",),
    "--turn": ("Only these turns",),
    "--yes": ("Do not ask",),
    "--dry-run": ("",),
    "--registry": ("Another registry",),
    "--json": ("Print JSON",),
}
"""Arguments and options that the introduction explains, by how their help begins: another --cwd may differ."""
FAMILIES = {"chain": "run", "join": "init"}
"""Commands that have the options of another one, with the same help."""
USAGE = re.compile(r"^Usage: .*\n+")
MORE = {
    "search": "search.md",
    "diff": "diff-and-blame.md",
    "blame": "diff-and-blame.md#who-wrote-this-line",
    "stats": "stats.md",
    "browse": "cheat-sheet.md#keys-of-acp-proxy-browse",
    "web": "web.md",
    "delete": "store.md#undo-a-delete",
    "restore": "store.md#undo-a-delete",
    "export": "export.md",
    "import": "export.md#import",
    "continue": "continue.md",
    "adopt": "adopt.md",
    "verify": "store.md#check-and-repair",
    "repair": "store.md#check-and-repair",
    "redact": "redaction.md",
    "compress": "store.md#compression",
    "init": "sync.md",
    "join": "sync.md",
    "rekey": "sync.md#who-can-read-it",
    "forget-machine": "sync.md#who-can-read-it",
    "setup": "editors.md#what-setup-changes",
    "config": "configuration.md",
    "chain": "chain.md",
    "mcp": "recall.md",
    "mock-agent": "mock-agent.md",
}
"""Pages with everything in a command's help except its options."""
INTRODUCTION = r"""# Which commands and options are there?

Made from the commands' help by `make docs`; `acp-proxy COMMAND --help` shows the same. [The cheat
sheet](cheat-sheet.md) says which command is for what. These mean the same everywhere:

|argument or option|meaning|
|-|-|
|`SESSION`, `FILE`|an id, its beginning, a title, a part of it, or `last`; for `FILE`, also a transcript|
|`--store DIR`|the store to use. Default: your user data directory|
|`--agent NAME`, `-a`|only sessions of agents in whose name a word begins with NAME|
|`--cwd DIR`; `--here`, `-H`|only sessions in exactly this directory; in the current one or below|
|`--since WHEN`, `-S`; `--until WHEN`, `-U`|only what happened in this time: `7d`, `yesterday`, `2026-11-01`|
|`--branch NAME`|only sessions begun on this Git branch|
|`--turn N`, `-t`|only this turn or these turns: `3`, `2-5`, `7-`, or `-1` for the last|
|`--dry-run`|only show what would be done|
|`--yes`, `-y`|do not ask for confirmation|
|`--registry URL\|FILE`|another registry of agents|
|`--json`|print [JSON](json.md)|

Times that people read are local; in what you share (`export` as HTML or Markdown), the zone stands beside them. Times
that programs read are UTC and end in `Z`: with `--json`, in lines with tabs, and in what `show` prints into a pipe.

An option with an empty value is refused, since a script's variable that is not set must not widen what a command
deletes or sends. An empty environment variable counts as unset.

`acp-proxy` alone takes `--version` (`-V`, `-v`), `--install-completion` and `--show-completion`. Each option of `run`
has a variable: `ACP_PROXY_DELETE_MODE` sets `--delete-mode`, `ACP_PROXY_STORE` the store of every command.
"""


def page() -> str:
    shown = [context for context in contexts() if context.parent is not None and context.command.params]
    return "\n".join([INTRODUCTION, *map(section, shown)])


def section(context: typer.Context) -> str:
    text, more = format_help(context), MORE.get(str(context.info_name))
    if more:
        text = without_details(text)
    link = f"\n[More]({more})\n" if more else ""
    return f"## {context.command_path}\n\n```text\n{text}\n```\n{link}"


def format_help(context: typer.Context) -> str:
    """The command's help, without what the introduction or another command's section explains."""
    command = context.command
    params = command.params
    relative = FAMILIES.get(str(context.info_name))
    known = relative_help(relative) if relative else set()
    shared = [param for param in params if is_shared(param)]
    own = [param for param in params if param not in shared and (name_of(param), help_of(param)) not in known]
    command.params = [without_variable(param) for param in own]
    command.add_help_option = False
    try:
        text = format_full_help(context)
    finally:
        command.params, command.add_help_option = params, True
    text = USAGE.sub("", text.partition("\n\nCommands:\n")[0])
    also = [relative_options(context, relative)] if relative else []
    also += [name_of(param) + default_of(param) for param in shared if (name_of(param), help_of(param)) not in known]
    return f"{text}\n\nAlso: {', '.join(also)}" if also else text


def without_details(text: str) -> str:
    """The help without the paragraphs that say more than the first one."""
    first, *others = text.split("\n\n")
    return "\n\n".join([first, *(each for each in others if not each.startswith("  ") or each.startswith("  Example"))])


def relative_help(name: str) -> set[tuple[str, str]]:
    """The names and the help of the other command's arguments and options."""
    return {(name_of(param), help_of(param)) for param in find_command(name).command.params}


def relative_options(context: typer.Context, name: str) -> str:
    """The other command, and which of its options this one lacks."""
    other, own = find_command(name), {name_of(param) for param in context.command.params}
    lacks = [name_of(param) for param in other.command.params if isinstance(param, TyperOption)]
    lacks = [each for each in lacks if each not in own]
    path = other.command_path.removeprefix("acp-proxy ")
    return f"the options of {path}{' except ' if lacks else ''}{' and '.join(lacks)}"


def find_command(name: str) -> typer.Context:
    return next(context for context in contexts() if context.info_name == name)


def is_shared(param: Parameter) -> bool:
    return any(help_of(param).startswith(text) for text in SHARED.get(name_of(param).removesuffix("..."), ()))


def name_of(param: Parameter) -> str:
    """As the help writes it: ``--dry-run``, ``SESSION...``."""
    return param.opts[0] if isinstance(param, TyperOption) else param.make_metavar(typer.Context(TyperCommand("")))


def help_of(param: Parameter) -> str:
    return param.help or ""


def default_of(param: Parameter) -> str:
    """What the help says of an argument's default, in brackets."""
    found = re.search(r"Default: (.*)\.$", help_of(param))
    return f" (default: {found[1]})" if found and isinstance(param, TyperArgument) else ""


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
            # ``sessions`` is the longer form of what is there without it.
            if isinstance(found, TyperCommand | TyperGroup) and not found.hidden and sub != "sessions":
                yield from _contexts(found, sub, context)


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
