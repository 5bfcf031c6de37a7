"""The help of ``acp-proxy run``. The command itself starts before any of this is imported (see ``__main__``)."""

import inspect
from itertools import dropwhile, takewhile
from typing import Annotated, Any

import typer

from acp_proxy.cli import completion
from acp_proxy.cli.command_help import Command, make_help_row
from acp_proxy.config import options
from acp_proxy.errors import UsageError

# --- Commands that stand in front of an agent's command: their completion, and their help.
#
# ``--help`` leaves out the options that have a ``rich_help_panel``; ``--help-all`` shows them too, grouped by panel.


_SHOW_ALL_KEY = "acp_proxy.help_all"


class CommandInFront(Command):
    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Refuse an option of the command after the agent, which would get it silently; not after ``--``."""
        words = [*args]
        rest = super().parse_args(ctx, args)
        agent = ctx.params.get("agent") or []
        if "--" not in words[: len(words) - len(agent)] and not ctx.resilient_parsing:
            names = {name for param in self.get_params(ctx) for name in param.opts if name.startswith("--")}
            for word in _list_arguments([*agent]):
                if (name := word.partition("=")[0]) in names:
                    before = f"{name} is an option of {ctx.command_path}: write it before the agent."
                    ctx.fail(f"{before} After -- it goes to the agent.")
        return rest

    def shell_complete(self, ctx: typer.Context, incomplete: str) -> list[Any]:  # type: ignore[override]
        """Nothing after the agent's first word, so that the shell offers files there."""
        return [] if ctx.params.get("agent") else super().shell_complete(ctx, incomplete)

    def format_options(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            if row := make_help_row(param, ctx):
                panel = getattr(param, "rich_help_panel", None)
                default = "Arguments" if param.param_type_name == "argument" else "Options"
                if panel is None or _SHOW_ALL_KEY in ctx.meta:
                    sections.setdefault(panel or default, []).append(row)
        first_names = [name for name in ("Arguments", "Options") if name in sections]
        for name in [*first_names, *(name for name in sections if name not in first_names)]:
            with formatter.section(name):
                formatter.write_dl(sections[name])


def _list_arguments(agent: list[str]) -> list[str]:
    """What follows the agent's program, up to ``--``. In front of it, there may be options of ``run`` and variables."""
    words_after_run = agent[agent.index("run") + 1 :] if "run" in agent else agent
    try:
        _, command = options.parse([*takewhile(lambda word: word != "--", words_after_run)], {})
        _, command = options.parse([*dropwhile(lambda word: "=" in word, command)], {})
    except UsageError:  # the command says it, or they are another program's
        return []
    return command[1:]


def show_all(context: typer.Context, is_given: bool) -> None:
    """The callback of ``--help-all``."""
    if is_given:
        typer.echo(format_full_help(context))
        raise typer.Exit


def format_full_help(context: typer.Context) -> str:
    context.meta[_SHOW_ALL_KEY] = True
    return context.get_help()


_HELP = """Stand between an editor and an agent.

acp-proxy passes every message through, records the conversation, and answers session/list, session/delete and
session/load where the agent cannot.

Options end at the first word that is not an option. That word and all words after it are the agent's command, and go
to the agent unchanged.

If stdin is a terminal, acp-proxy runs the agent directly, as for a login, and records nothing.

Example: acp-proxy run npx -y @agentclientprotocol/claude-agent-acp
"""

METAVARS = {
    "store": "DIR",
    "agent-id": "NAME",
    "replay-tool-limit": "BYTES",
    "record-size": "BYTES",
    "also-list": "NAMES|all",
    "redact": "off|keys|FILE",
    "registry": "URL|FILE",
    "grace": "SECONDS",
    "bin-days": "DAYS",
}

COMMON = ("store", "agent-id", "no-record", "redact", "load", "handover", "recall")
PANELS = {
    "Requests": ("no-synthesize", "list", "also-list", "resume", "delete", "delete-mode", "bin-days", "unstable"),
    "Replay": ("replay", "replay-tool-limit", "record-size"),
    "Files and processes": ("fsync", "compress", "registry", "grace"),
}
"""The options that only --help-all shows, by their heading there."""


def run(agent: list[str], **given: Any) -> None:
    from acp_proxy.relay.run_command import launch

    launch([*list_words(given), "--", *agent])


def list_words(values: dict[str, Any]) -> list[str]:
    """The options as words of a command line."""
    return [word for name, value in values.items() for word in _list_option_words(name, value)]


def _list_option_words(name: str, value: object) -> list[str]:
    option = f"--{name.replace('_', '-')}"
    if isinstance(value, bool):
        return [option] if value else []
    return [option, str(value)] if value else []


def make_signature(*arguments: inspect.Parameter, without: tuple[str, ...] = ()) -> inspect.Signature:
    """A signature with ``options.OPTIONS``, since typer reads a command's options from its signature.

    ``without``: the options that the command lacks.
    """
    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = list(arguments)
    for panel, names in ((None, COMMON), *PANELS.items()):
        for name in (name for name in names if name not in without):
            option = options.OPTIONS[name]
            option_info = typer.Option(
                f"--{name}",
                envvar=option.variable,
                help=option.help_text,
                metavar="|".join(option.choices) or METAVARS.get(name),
                show_default=bool(option.default),
                autocompletion=completion.make_word_completion(option.choices) if option.choices else None,
                rich_help_panel=panel,
            )
            annotation = Annotated[bool if option.is_flag else str, option_info]  # type: ignore[valid-type]
            default = False if option.is_flag else option.default
            parameters.append(inspect.Parameter(name.replace("-", "_"), kind, annotation=annotation, default=default))
    all_options = typer.Option("--help-all", is_eager=True, callback=show_all, help="Show all options and exit.")
    parameters.append(inspect.Parameter("help_all", kind, annotation=Annotated[bool, all_options], default=False))
    return inspect.Signature(parameters)


_AGENT = Annotated[list[str], typer.Argument(metavar="AGENT", help="The agent's command.")]
run.__doc__ = _HELP
run.__signature__ = make_signature(  # type: ignore[attr-defined]
    inspect.Parameter("agent", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=_AGENT)
)
