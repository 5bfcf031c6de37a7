"""Writes the line of another command for the user to copy, with what was given to this one."""

from collections.abc import Iterable, Sequence

import typer

from acp_proxy import invocation, shell_quote
from acp_proxy.cli.command_help import is_given
from acp_proxy.invocation import write_as_typed
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.views import session_lines


def format_command(command: str, arguments: Sequence[str], *options: str) -> str:
    """A command line that the user can copy, such as of a command on these sessions."""
    has_dash = any(argument.startswith("-") for argument in arguments)
    words = [*options, "--", *arguments] if has_dash else [*arguments, *options]
    return write_as_typed(shell_quote.join(["acp-proxy", *command.split(), *words]))


def repeat_store_option(context: typer.Context, store: str) -> list[str]:
    """The options that make another command use the same store."""
    return ["--store", store] if is_given(context, "store") else []


def repeat_options(context: typer.Context, *names: str) -> list[str]:
    """Those of these options that were given, as they were, for a command that takes them too."""
    words: list[str] = []
    for option in context.command.params:
        name = option.name or ""
        if name in names and is_given(context, name):
            value = context.params[name]
            words += [max(option.opts, key=len), *([] if value is True else [str(value)])]
    return words


def repeat_agent_option(store: CommandStore, agent_folder: str, session_id: str) -> list[str]:
    """The option that tells a session from those of other agents; empty if no other one has a session of this id."""
    other_folders = (folder for folder in store.list_agents() if folder != agent_folder)
    is_ambiguous = any(store.is_indexed(folder, session_id) for folder in other_folders)
    return ["--agent", name_known_agent(store, agent_folder)] if is_ambiguous else []


def name_known_agent(store: CommandStore, agent_folder: str) -> str:
    """The word for --agent that means this agent and no other one of the store."""
    return session_lines.make_distinct_names({*store.list_agents(), agent_folder})[agent_folder]


def format_for_agents(store: CommandStore, agent_folders: Iterable[str]) -> list[str]:
    """The command line that was given, once for each of these agents: lines to copy."""
    words = list(invocation.words)
    end = words.index("--") if "--" in words else len(words)
    names = (name_known_agent(store, agent_folder) for agent_folder in agent_folders)
    commands = (["acp-proxy", *words[:end], "--agent", name, *words[end:]] for name in names)
    return [f"  {write_as_typed(shell_quote.join(command))}" for command in commands]
