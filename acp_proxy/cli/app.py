"""The ``acp-proxy`` command and its subcommands."""

import re
import sys
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Annotated, Any, ClassVar, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from acp_proxy import __version__
from acp_proxy.cli.wrapping import fit_to_stream

# --- Groups of commands. A command's module is imported only when the user asks for it.
#
# A group's table is the order of its help: frequent commands come first.


_WRONG_USAGE: Any = typer.BadParameter.__base__
"""The parsing library's error for a wrong command line; BadParameter is its most frequent form."""
_NUMBERS = {
    r"(?P<given>'.*') is not a valid int( range)?\.": "write a whole number, such as 20",
    r"(?P<given>'.*') is not a valid float( range)?\.": "write a number, such as 2 or 0.5",
    r"(?P<given>\S+) is not in the range x>=(?P<least>\S+)\.": "write {least} or more",
}
"""What to write instead of a wrong number, by the parsing library's message."""
INSTEAD = {
    ("list", "--all"): "acp-proxy list; for the archived ones: --archived",
    ("browse", ""): "type the words there, or: acp-proxy search WORDS",
    ("export", "--html"): "--format html",
    ("export", "--md"): "--format md",
    ("export", "--markdown"): "--format md",
    ("export", "--json"): "--format json",
    ("show", "--last"): "acp-proxy show last",
    ("export", "--last"): "acp-proxy export last",
}
"""What to write instead of a frequent wrong option, by command and option; "": instead of a word too many."""
_QUOTED_CHARACTERS = 20
"""Characters of a wrong number in the message."""


def when_imported() -> None:
    """Called when a command's module was imported. The program replaces it."""


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """Where to import a command's function, or a group's app, from. ``brief``: what it does, for the list of all
    commands, which imports none. ``in_front``: an agent's command follows it."""

    module: str
    name: str
    brief: str = ""
    in_front: bool = False


class Group(TyperGroup):
    table: ClassVar[Mapping[str, LazyCommand]] = {}
    renamed: ClassVar[Mapping[str, str]] = {}
    """Old names of commands, and the new ones."""
    aliases: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Other words for a command that work: the words that they stand for."""
    elsewhere: ClassVar[Mapping[str, str]] = {}
    """Other words for a command that do not work: the whole command, which the error names."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = cast(MutableMapping[str, Any], _Commands(self.table))

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Write out an alias. ``help`` and the name of a command mean that command with ``--help``."""
        is_help = args[:1] == ["help"]
        words = args[1:] if is_help else args
        words = [*self.aliases.get(words[0], words[:1]), *words[1:]] if words else []
        if is_help:
            is_group = bool(words) and isinstance(self.commands.get(words[0]), TyperGroup)
            words.insert(1, "help" if is_group else "--help")
        return super().parse_args(ctx, words)

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """Report an invalid value in our words, and a long error between words."""
        try:
            return super().invoke(ctx)
        except _WRONG_USAGE as problem:
            problem.message = _explain_number(problem.message) or problem.message
            if type(problem).__name__ == "MissingParameter":
                problem.message = _explain_missing(problem)
            if type(problem).__name__ == "NoSuchOption":
                problem.possibilities = _find_near(problem.option_name, problem.possibilities or [])
                if instead := INSTEAD.get((problem.ctx.command.name, problem.option_name)):
                    problem.message, problem.possibilities = f"{problem.message}. Instead: {instead}", None
            if problem.message.startswith("Got unexpected extra argument"):
                takes_words = any(each.param_type_name == "argument" for each in problem.ctx.command.params)
                instead = INSTEAD.get((problem.ctx.command.name, ""))
                advice = f" Instead: {instead}" if instead else " Put a text of several words in quotes."
                problem.message += f".{advice if instead or takes_words else ''}"
            text = fit_to_stream(f"Error: {problem.format_message()}", sys.stderr).removeprefix("Error: ")
            problem.format_message = lambda: text
            raise

    def resolve_command(self, ctx: typer.Context, args: list[str]) -> Any:  # type: ignore[override]
        if ctx.resilient_parsing:  # for completion, which shows no errors
            return super().resolve_command(ctx, args)
        if new := self.renamed.get(args[0]):
            ctx.fail(f"There is no command {args[0]!r}. It is called {new!r} now: {ctx.command_path} {new}")
        if args[0] not in self.table:
            here = (*self.table, *self.aliases)
            known = {name: f"{ctx.command_path} {name}" for name in here} | dict(self.elsewhere)
            near = [args[0]] if args[0] in known else get_close_matches(args[0], known, n=1)
            for name in near:
                ctx.fail(f"No such command {args[0]!r}. Did you mean: {known[name]}?")
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        return list(self.table)


class _Commands(Mapping[str, TyperCommand | TyperGroup]):
    """The commands of a table, by name, imported on first use."""

    def __init__(self, table: Mapping[str, LazyCommand]) -> None:
        self._table = table
        self._loaded: dict[str, TyperCommand | TyperGroup] = {}

    def __getitem__(self, name: str) -> TyperCommand | TyperGroup:
        if name not in self._loaded:
            self._loaded[name] = _load(name, self._table[name])
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


def _load(name: str, place: LazyCommand) -> TyperCommand | TyperGroup:
    found = getattr(import_module(place.module), place.name)
    when_imported()
    if isinstance(found, typer.Typer):
        return get_group(found)
    alone = typer.Typer(rich_markup_mode=None, add_completion=False)
    if place.in_front:
        from acp_proxy.cli.run_help import CommandInFront

        settings = {"allow_interspersed_args": False, "ignore_unknown_options": False}
        alone.command(name, cls=CommandInFront, context_settings=settings)(found)
    else:
        alone.command(name)(found)
    return cast(TyperCommand, get_command(alone))


def _find_near(option: str, others: Sequence[str]) -> list[str]:
    """The options whose name is near. The library counts the dashes too, and finds --json near --long."""
    return [each for each in others if get_close_matches(option.strip("-"), [each.strip("-")])]


def _explain_missing(problem: Any) -> str:
    """What a missing argument is, and the example in the command's help."""
    about = getattr(problem.param, "help", None) or ""
    examples = [line.strip() for line in (problem.ctx.command.help or "").split("\n") if "Example:" in line]
    return " ".join([about, *examples[-1:]])


def _explain_number(message: str) -> str | None:
    """What to write instead of a wrong number, if the message is about one."""
    for pattern, advice in _NUMBERS.items():
        if found := re.fullmatch(pattern, message, re.DOTALL):
            given = found["given"].strip("'")[:_QUOTED_CHARACTERS]
            return f"{advice.format(**found.groupdict())}, not {given!r}"
    return None


# --- All commands, by what a user wants to do.


def _command(module: str, name: str, brief: str, *, in_front: bool = False) -> LazyCommand:
    return LazyCommand(f"acp_proxy.{module}", name, brief, in_front)


OF_SESSIONS: Mapping[str, Mapping[str, LazyCommand]] = {
    "Find and read": {
        "list": _command("cli.list", "list_sessions", "sessions, newest first"),
        "show": _command("tools.show.command", "show", "a conversation"),
        "search": _command("tools.search.command", "search", "words in conversations"),
        "diff": _command("tools.changes.command", "diff", "what a session changed"),
        "blame": _command("tools.blame.command", "blame", "who wrote these lines"),
        "stats": _command("tools.stats.command", "stats", "turns, tokens, cost, size"),
        "path": _command("cli.path", "path", "the file of a session"),
    },
    "Tidy up": {
        "rename": _command("cli.rename", "rename", "give a title"),
        "archive": _command("cli.archive", "archive", "hide from lists"),
        "unarchive": _command("cli.archive", "unarchive", "show in lists again"),
        "pin": _command("cli.pin", "pin", "never prune them"),
        "unpin": _command("cli.pin", "unpin", "as the others again"),
        "delete": _command("cli.delete", "delete", "delete sessions"),
        "restore": _command("cli.restore", "restore", "bring back deleted ones"),
        "prune": _command("tools.maintenance.prune_command", "prune", "delete old sessions"),
        "compress": _command("tools.maintenance.compress_command", "compress", "make files smaller"),
        "redact": _command("tools.redact.command", "redact", "mask secrets"),
        "verify": _command("tools.maintenance.verify_command", "verify", "look for damage"),
        "repair": _command("tools.maintenance.verify_command", "repair", "mend damage"),
    },
    "Share": {
        "export": _command("tools.export.command", "export", "as HTML, Markdown, JSON"),
        "import": _command("tools.export.import_command", "import_sessions", "an exported session"),
        "continue": _command("tools.continue_session.command", "continue_session", "with another agent"),
        "adopt": _command("tools.adopt.command", "adopt", "an agent's old sessions", in_front=True),
    },
}
"""The commands on recorded sessions."""

GROUPS: Mapping[str, Mapping[str, LazyCommand]] = {
    "Find and read": {
        **OF_SESSIONS["Find and read"],
        "browse": _command("tools.browse.command", "browse", "in a full screen"),
        "replay": _command("tools.show.replay_command", "replay", "watch as it streamed"),
        "web": _command("tools.web.command", "web", "in the browser"),
    },
    "Tidy up": OF_SESSIONS["Tidy up"],
    "Share": {
        **OF_SESSIONS["Share"],
        "sync": _command("tools.sync.command", "app", "between your machines"),
    },
    "Set up": {
        "setup": _command("tools.setup.command", "setup", "your editors"),
        "run": _command("cli.run_help", "run", "in front of an agent", in_front=True),
        "editor": _command("tools.editors.command", "editor", "print what to paste", in_front=True),
        "doctor": _command("tools.doctor.command", "doctor", "check the setup", in_front=True),
        "config": _command("cli.config", "config", "options in force"),
        "demo": _command("tools.demo.command", "demo", "see it in a minute"),
    },
    "For developers": {
        "chain": _command("tools.chain.command", "chain", "in a chain of proxies", in_front=True),
        "mcp": _command("tools.recall.command", "mcp", "recall as an MCP server"),
        "mock-agent": _command("tools.mock_agent.command", "mock_agent", "plays recordings"),
    },
}
"""The commands by group, in the order of the help."""
_GAP = 2


def _merge(groups: Mapping[str, Mapping[str, LazyCommand]]) -> dict[str, LazyCommand]:
    return {name: command for group in groups.values() for name, command in group.items()}


_SYNONYMS = {
    "delete": ("remove", "rm"),
    "list": ("history", "log"),
    "search": ("find", "grep"),
    "show": ("cat", "open", "read", "view"),
    "restore": ("undelete",),
    "restore, or: acp-proxy setup --undo": ("undo",),
    "continue": ("resume",),
    "setup": ("init", "install"),
    "browse": ("tui", "ui"),
    "run": ("record",),
}
"""Words that people try for a command. An error names the command (``Group.elsewhere``)."""
ELSEWHERE = {word: f"acp-proxy {command}" for command, words in _SYNONYMS.items() for word in words}


class SessionsGroup(Group):
    """``acp-proxy sessions COMMAND``: the longer form of ``acp-proxy COMMAND``."""

    table: ClassVar = _merge(OF_SESSIONS)
    renamed: ClassVar = {"compact": "compress"}
    aliases: ClassVar = {"ls": ("list",)}
    elsewhere: ClassVar = {**ELSEWHERE, "browse": "acp-proxy browse", "replay": "acp-proxy replay"}


sessions_app = typer.Typer(
    name="sessions",
    help="The same commands as without this word: acp-proxy sessions list is acp-proxy list.",
    cls=SessionsGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
)


class Main(Group):
    table: ClassVar = {**_merge(GROUPS), "sessions": _command("cli.app", "sessions_app", "")}
    renamed: ClassVar = {"compact": "compress"}
    aliases: ClassVar = {"ls": ("list",), "help": ("--help",), "version": ("--version",)}
    elsewhere: ClassVar = ELSEWHERE

    def format_commands(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """All commands by group, two beside each other where there is room."""
        lines = {title: [f"{name:<11} {each.brief}" for name, each in group.items()] for title, group in GROUPS.items()}
        width = max(len(line) for group in lines.values() for line in group) + _GAP
        columns = 2 if formatter.width >= 2 * width else 1
        for title, group in lines.items():
            with formatter.section(title):
                for at in range(0, len(group), columns):
                    row = "".join(f"{line:<{width}}" for line in group[at : at + columns])
                    formatter.write(f"{'':{formatter.current_indent}}{row.rstrip()}\n")

    def get_params(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        params = super().get_params(ctx)
        for each in params:
            if each.name in _COMPLETION:
                each.callback = _COMPLETION[each.name]  # type: ignore[assignment]
        return params


app = typer.Typer(
    name="acp-proxy",
    help="Keep your conversations with coding agents such as Claude Code and Codex: search, reopen and continue them.",
    cls=Main,
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
    rich_markup_mode=None,
    epilog="Help on one of them: acp-proxy COMMAND --help, or acp-proxy help COMMAND.",
    pretty_exceptions_enable=False,
)


def _install_completion(context: typer.Context, parameter: Any, value: Any) -> Any:
    if not value:
        return value
    from acp_proxy.cli import completion  # imported late: used once

    return completion.install(context, parameter, value)


def _show_completion(context: typer.Context, parameter: Any, value: Any) -> Any:
    if not value:
        return value
    from acp_proxy.cli import completion  # imported late: used once

    return completion.show(context, parameter, value)


_COMPLETION = {"install_completion": _install_completion, "show_completion": _show_completion}


def _print_version(wanted: bool) -> None:
    if wanted:
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
