"""The ``acp-proxy`` command and its subcommands."""

from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any, ClassVar, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from acp_proxy import __version__, invocation

# --- Groups of commands. A command's module is imported only when the user asks for it.
#
# The order of a group's commands is that of its help: frequent ones come first.


_WRONG_USAGE: Any = typer.BadParameter.__base__
"""The parsing library's error for a wrong command line; BadParameter is its most frequent form."""


def on_command_imported() -> None:
    """Called when a command's module was imported. The program replaces it."""


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """Where to import a command's function, or a group's app, from: an ``attribute`` of a ``module``.

    ``brief``: what it does, for the list of all commands, which imports none. ``takes_agent_command``: an agent's
    command follows it. ``takes_unknown_options``: what begins with a hyphen and is no option of it counts as a
    word, such as -1.
    """

    module: str
    attribute: str
    brief: str = ""
    takes_agent_command: bool = False
    takes_unknown_options: bool = False


@contextmanager
def _shorten_errors() -> Iterator[None]:
    """Report a wrong command line in our words."""
    try:
        yield
    except _WRONG_USAGE as problem:
        from acp_proxy.cli import wrong_usage  # imported late: few command lines are wrong

        wrong_usage.shorten_error(problem)
        raise


class Group(TyperGroup):
    """A group of commands, imported when they are used; knows what people type instead of them."""

    commands_by_name: ClassVar[Mapping[str, LazyCommand]] = {}
    aliases: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Other words for a command that work: the words that they stand for."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = cast(MutableMapping[str, Any], _Commands(self.commands_by_name))

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Write out an alias. ``help`` and the name of a command mean that command with ``--help``."""
        is_help = args[:1] == ["help"]
        words = args[1:] if is_help else args or ([] if ctx.resilient_parsing else ["--help"])
        words = [*self.aliases.get(words[0], words[:1]), *words[1:]] if words else []
        if is_help:
            is_group = bool(words) and isinstance(self.commands.get(words[0]), TyperGroup)
            words.insert(1, "help" if is_group else "--help")
        if ctx.parent is None:
            invocation.words = tuple(words)
        with _shorten_errors():
            return super().parse_args(ctx, words)

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        with _shorten_errors():
            return super().invoke(ctx)

    def resolve_command(self, ctx: typer.Context, args: list[str]) -> Any:  # type: ignore[override]
        """Name the command that a wrong word probably means."""
        if ctx.resilient_parsing:  # for completion, which shows no errors
            return super().resolve_command(ctx, args)
        if args[0] not in self.commands_by_name and not args[0].startswith("-"):
            from acp_proxy.cli import wrong_usage  # imported late: few command lines are wrong

            own_words = (*self.commands_by_name, *self.aliases)
            ctx.fail(wrong_usage.explain_unknown_command(args, ctx.command_path, own_words))
        return super().resolve_command(ctx, args)

    def get_help(self, ctx: typer.Context) -> str:  # type: ignore[override]
        return invocation.write_as_typed(super().get_help(ctx))

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """In the order of the help."""
        return list(self.commands_by_name)


class _Commands(Mapping[str, TyperCommand | TyperGroup]):
    """The commands of a group, by name, imported on first use."""

    def __init__(self, commands_by_name: Mapping[str, LazyCommand]) -> None:
        self._commands_by_name = commands_by_name
        self._loaded: dict[str, TyperCommand | TyperGroup] = {}

    def __getitem__(self, name: str) -> TyperCommand | TyperGroup:
        if name not in self._loaded:
            self._loaded[name] = _import_command(name, self._commands_by_name[name])
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._commands_by_name)

    def __len__(self) -> int:
        return len(self._commands_by_name)


def _import_command(name: str, lazy_command: LazyCommand) -> TyperCommand | TyperGroup:
    command = getattr(import_module(lazy_command.module), lazy_command.attribute)
    on_command_imported()
    if isinstance(command, typer.Typer):
        return get_group(command)
    single_app = typer.Typer(rich_markup_mode=None, add_completion=False)
    if lazy_command.takes_agent_command:
        from acp_proxy.cli.run_help import CommandInFront

        settings = {"allow_interspersed_args": False, "ignore_unknown_options": False}
        single_app.command(name, cls=CommandInFront, context_settings=settings)(command)
    else:
        from acp_proxy.cli.command_help import Command

        settings = {"ignore_unknown_options": lazy_command.takes_unknown_options}
        single_app.command(name, cls=Command, context_settings=settings)(command)
    return cast(TyperCommand, get_command(single_app))


# --- All commands, by what a user wants to do.


def _make_lazy_command(module: str, attribute: str, brief: str, **takes: bool) -> LazyCommand:
    return LazyCommand(f"acp_proxy.{module}", attribute, brief, **takes)


SESSION_COMMANDS: Mapping[str, Mapping[str, LazyCommand]] = {
    "Find and read": {
        "list": _make_lazy_command("cli.list", "list_sessions", "sessions, newest first"),
        "show": _make_lazy_command("tools.show.command", "show", "a conversation"),
        "search": _make_lazy_command("tools.search.command", "search", "words in conversations"),
        "diff": _make_lazy_command("tools.changes.command", "diff", "what a session changed"),
        "blame": _make_lazy_command("tools.blame.command", "blame", "who wrote these lines"),
        "stats": _make_lazy_command("tools.stats.command", "stats", "turns, tokens, cost, size"),
        "path": _make_lazy_command("cli.path", "path", "the file of a session"),
        "browse": _make_lazy_command("tools.browse.command", "browse", "in a full screen"),
        "replay": _make_lazy_command("tools.show.replay_command", "replay", "watch as it streamed"),
        "web": _make_lazy_command("tools.web.command", "web", "in the browser"),
    },
    "Tidy up": {
        "rename": _make_lazy_command("cli.rename", "rename", "give a title"),
        "archive": _make_lazy_command("cli.archive", "archive", "hide from lists"),
        "unarchive": _make_lazy_command("cli.archive", "unarchive", "show in lists again"),
        "pin": _make_lazy_command("cli.pin", "pin", "never prune them"),
        "unpin": _make_lazy_command("cli.pin", "unpin", "as the others again"),
        "delete": _make_lazy_command("cli.delete", "delete", "delete sessions"),
        "restore": _make_lazy_command("cli.restore", "restore", "bring back deleted ones"),
        "prune": _make_lazy_command("tools.maintenance.prune_command", "prune", "delete old sessions"),
        "compress": _make_lazy_command("tools.maintenance.compress_command", "compress", "make files smaller"),
        "redact": _make_lazy_command("tools.redact.command", "redact", "mask secrets"),
        "verify": _make_lazy_command("tools.maintenance.verify_command", "verify", "look for damage"),
        "repair": _make_lazy_command("tools.maintenance.verify_command", "repair", "mend damage"),
    },
    "Share": {
        "export": _make_lazy_command("tools.export.command", "export", "as HTML, Markdown, JSON"),
        "import": _make_lazy_command("tools.export.import_command", "import_sessions", "an exported session"),
        "continue": _make_lazy_command("tools.continue_session.command", "continue_session", "with another agent"),
        "adopt": _make_lazy_command(
            "tools.adopt.command", "adopt", "an agent's old sessions", takes_agent_command=True
        ),
    },
}
"""The commands on recorded sessions, which ``acp-proxy sessions`` has too. ``sync`` is on machines."""

COMMAND_GROUPS: Mapping[str, Mapping[str, LazyCommand]] = {
    "Find and read": SESSION_COMMANDS["Find and read"],
    "Tidy up": SESSION_COMMANDS["Tidy up"],
    "Share": {
        **SESSION_COMMANDS["Share"],
        "sync": _make_lazy_command("tools.sync.command", "app", "between your machines"),
    },
    "Set up": {
        "setup": _make_lazy_command("tools.setup.command", "setup", "your editors"),
        "run": _make_lazy_command("cli.run_help", "run", "in front of an agent", takes_agent_command=True),
        "editor": _make_lazy_command(
            "tools.editors.command", "editor", "print what to paste", takes_agent_command=True
        ),
        "doctor": _make_lazy_command("tools.doctor.command", "doctor", "check the setup", takes_agent_command=True),
        "config": _make_lazy_command("cli.config", "config", "options in force", takes_unknown_options=True),
        "demo": _make_lazy_command("tools.demo.command", "demo", "see it in a minute"),
    },
    "For developers": {
        "chain": _make_lazy_command("tools.chain.command", "chain", "in a chain of proxies", takes_agent_command=True),
        "mcp": _make_lazy_command("tools.recall.command", "mcp", "recall as an MCP server"),
        "mock-agent": _make_lazy_command("tools.mock_agent.command", "mock_agent", "plays recordings"),
    },
}
"""The commands by group, in the order of the help."""
_COLUMN_GAP = 2


def _flatten(groups: Mapping[str, Mapping[str, LazyCommand]]) -> dict[str, LazyCommand]:
    return {name: command for group in groups.values() for name, command in group.items()}


class SessionsGroup(Group):
    """``acp-proxy sessions COMMAND``: the longer form of ``acp-proxy COMMAND``."""

    commands_by_name: ClassVar = _flatten(SESSION_COMMANDS)
    aliases: ClassVar = {"ls": ("list",)}


sessions_app = typer.Typer(
    name="sessions",
    help="The same commands as without this word: acp-proxy sessions list is acp-proxy list.",
    cls=SessionsGroup,
    rich_markup_mode=None,
)


class RootGroup(Group):
    """``acp-proxy``: all commands."""

    commands_by_name: ClassVar = {
        **_flatten(COMMAND_GROUPS),
        "sessions": _make_lazy_command("cli.app", "sessions_app", ""),
    }
    aliases: ClassVar = {"ls": ("list",), "help": ("--help",), "version": ("--version",)}

    def format_options(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """The commands first, and the few options in one line: so all of it fits a screen."""
        self.format_commands(ctx, formatter)
        options = ", ".join(max(param.opts, key=len) for param in self.get_params(ctx))
        formatter.write_paragraph()
        formatter.write_text(f"Options: {options}")

    def format_commands(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """All commands by group, two beside each other where there is room."""
        lines_by_group = {
            title: [f"{name:<11} {command.brief}" for name, command in group.items()]
            for title, group in COMMAND_GROUPS.items()
        }
        width = max(len(line) for group in lines_by_group.values() for line in group) + _COLUMN_GAP
        columns = 2 if formatter.width >= 2 * width else 1
        for title, group in lines_by_group.items():
            with formatter.section(title):
                for start in range(0, len(group), columns):
                    row = "".join(f"{line:<{width}}" for line in group[start : start + columns])
                    formatter.write(f"{'':{formatter.current_indent}}{row.rstrip()}\n")

    def get_params(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """Those of the group, with our own installation of completion."""
        params = super().get_params(ctx)
        for param in params:
            if param.name in _COMPLETION_CALLBACKS:
                param.callback = _COMPLETION_CALLBACKS[param.name]  # type: ignore[assignment]
        return params


invocation.commands = (*RootGroup.commands_by_name, *RootGroup.aliases)

app = typer.Typer(
    name="acp-proxy",
    help="Keep your conversations with coding agents such as Claude Code and Codex: search, reopen and continue them.",
    cls=RootGroup,
    context_settings={"help_option_names": ["--help", "-h"]},
    rich_markup_mode=None,
    epilog="To begin: acp-proxy setup. To try it: acp-proxy demo. For more: acp-proxy help COMMAND.",
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


_COMPLETION_CALLBACKS = {"install_completion": _install_completion, "show_completion": _show_completion}


def _print_version(is_given: bool) -> None:
    if is_given:
        typer.echo(f"acp-proxy {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", "-v", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    pass
