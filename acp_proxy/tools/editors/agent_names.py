"""Which agent a user means: by its name in an editor's settings, by its command, or by its id in the registry."""

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from acp_proxy import invocation, shell_quote
from acp_proxy.config import config_file, options
from acp_proxy.errors import UsageError
from acp_proxy.store.command_names import name_command
from acp_proxy.tools.editors import command_line
from acp_proxy.tools.editors.entries import Entry, Kind
from acp_proxy.tools.editors.snippets import KNOWN_AGENTS
from acp_proxy.tools.registry import PREFIX
from acp_proxy.tools.registry.agents import (
    NotInRegistry,
    RegisteredAgent,
    Registry,
    RegistryError,
    explain_missing,
    is_id,
)
from acp_proxy.tools.registry.resolve import list_words_after, may_download, names_an_id

_ADAPTER_COMMANDS = {
    "claude": "npx -y @agentclientprotocol/claude-agent-acp",
    "codex": "npx -y @agentclientprotocol/codex-acp",
}
"""What to give instead of a program that does not speak the protocol itself, by the program's name."""


def find_name(names: Iterable[str], word: str) -> list[str]:
    """The names that are this word, as it is written, else in other cases."""
    all_names = list(dict.fromkeys(names))
    return [name for name in all_names if name == word] or [
        name for name in all_names if name.casefold() == word.casefold()
    ]


def find_beginning(names: Iterable[str], word: str) -> list[str]:
    """The names that begin with this word, whatever its case."""
    return [name for name in dict.fromkeys(names) if word and name.casefold().startswith(word.casefold())]


@dataclass(frozen=True, slots=True)
class NamedAgent:
    """An agent that a user names. ``title``: the name of its entry. ``command``: what acp-proxy is to start.

    ``given_command``: the command as the user gives it. ``names``: how commands may name it, in lowercase.
    ``problem``: what to say of a program that is not here, where the registry could not say whether it is an id.
    """

    title: str
    command: list[str]
    given_command: list[str]
    names: frozenset[str]
    problem: str | None = None

    def is_started_by(self, words: Sequence[str]) -> bool:
        """Whether a command starts this agent, with acp-proxy in front or without.

        Arguments count if the user gives some. A program given by its path is no other one of the same name.
        """
        if (words_after_run := command_line.find_words_after_run([*words])) is not None:
            try:
                _, words = options.parse(words_after_run, {})
            except UsageError:
                words = words_after_run
        if list(words) in (self.command, self.given_command):
            return True
        given_arguments = _find_arguments(self.given_command)
        is_path = any(os.path.isabs(word) for word in self.given_command)
        return (
            not is_path
            and not self.names.isdisjoint(_list_names(words))
            and given_arguments in ([], _find_arguments(words))
        )


def identify_agent(command: list[str], registry: Registry, *, downloads: bool = True) -> NamedAgent:
    """The agent of a command; of an id in the registry, with the prefix that says so.

    A word without the prefix that the registry does not know is a program, which may be installed later. A program
    that is here gets the arguments that the registry has for it, if the user gives none: many need one to speak the
    protocol. ``downloads``: whether the registry may be downloaded for that. Raises RegistryError.
    """
    word = command[0]
    registered: RegisteredAgent | None = None
    problem_of_word: str | None = None
    if names_an_id(command) or (len(command) == 1 and is_id(word)):
        try:
            registered = registry.find(word.removeprefix(PREFIX), may_download=downloads and may_download(command))
        except RegistryError as problem:
            if word.startswith(PREFIX):
                raise
            problem_of_word = None if isinstance(problem, NotInRegistry) else explain_missing(word, problem)
    if registered is None:
        return NamedAgent(name_command(command), command, command, _list_names(command), problem_of_word)
    started_words = (
        [registered.archive.program, *registered.words] if registered.archive is not None else [*registered.words]
    )
    names = _list_names(started_words) | {registered.id}
    if not names_an_id(command):
        if registered.archive is not None and name_command(started_words) != word:  # another program of that name
            return NamedAgent(name_command(command), command, command, _list_names(command))
        return NamedAgent(
            name_command(command), [word, *_find_arguments(started_words)], command, names | _list_names(command)
        )
    name_by_command = registered.id if registered.archive is not None else name_command(started_words)
    title = name_by_command if name_by_command in KNOWN_AGENTS else registered.name
    return NamedAgent(title, [f"{PREFIX}{registered.id}", *list_words_after(started_words, command)], command, names)


def open_registry(option: str, options_of_run: Sequence[str], print_line: Callable[[str], None]) -> Registry:
    """The registry in which ``run`` will look. ``option``: the value of a command's own ``--registry``, which goes
    before ``options_of_run``. ``print_line``: as for ``Registry``. Raises UsageError."""
    file, _ = config_file.read_user_file()
    values, _ = options.parse([*options_of_run, "--", "agent"], dict(os.environ), file)
    return Registry(option or values["registry"], print_line=print_line)


def make_registry_option(option: str, command: Sequence[str]) -> list[str]:
    """The options that make ``run`` look in the same registry, whatever its directory, if the command is an id."""
    if not option or not command[0].startswith(PREFIX):
        return []
    return ["--registry", option if "://" in option else os.path.abspath(option)]


def make_typed_line(*arguments: str) -> str:
    """A command line with which a user starts this acp-proxy, which may not be installed (``uvx acp-proxy``)."""
    return shell_quote.join([*invocation.make_typed_command(), *arguments])


def refuse_without_adapter(
    command: Sequence[str], make_line: Callable[[str], Sequence[str]], advice_for_own_script: str, registry: Registry
) -> None:
    """Refuse a program that does not speak the protocol itself. ``make_line``: the command line with an adapter in its
    place. ``advice_for_own_script``: what to do if it is a script that does. ``registry``: if it has the adapter, its
    id will do. Raises UsageError."""
    if (adapter := find_adapter(command, registry)) is None:
        return
    line = make_typed_line(*make_line(adapter))
    raise UsageError(
        f"{command[0]} does not speak the Agent Client Protocol itself. Give its adapter instead: {line}",
        advice_for_own_script,
    )


def advise_arguments(command: Sequence[str]) -> str | None:
    """What to give instead of a command whose program starts, and does not answer; None if that is not known. Of the
    registry, this uses what is here."""
    if (adapter := find_adapter(command)) is not None:
        return f'{command[0]} does not speak the Agent Client Protocol itself. Give its adapter instead: "{adapter}".'
    with suppress(RegistryError):
        known_command = identify_agent([*command], Registry(), downloads=False).command
        if known_command != [*command]:
            return f'The registry of agents has arguments for it: "{shell_quote.join(known_command)}".'
    return None


def find_adapter(command: Sequence[str], registry: Registry | None = None) -> str | None:
    """The command of the adapter for a program that does not speak the protocol itself, or its id if the registry is
    here and has it; None for any other program."""
    program = Path(command[0]).stem
    if program in _ADAPTER_COMMANDS and registry is not None:
        with suppress(RegistryError):
            return registry.find(f"{program}-acp", may_download=False).id
    return _ADAPTER_COMMANDS.get(program)


def explain_built_in(name: str, proxied_names: Iterable[str]) -> str:
    """What an entry without a command is: options of an agent that the editor has of itself. How it gets recorded, too,
    unless one with acp-proxy is beside it. ``proxied_names``: the names of those."""
    text = "has no command: the editor itself starts it, and it is not recorded"
    if any(name.casefold() in proxied_name.casefold() for proxied_name in proxied_names):
        return text
    try:
        registry = open_registry("", [], lambda _: None)
    except UsageError:  # a wrong variable or file, which other messages name
        registry = None
    agent = find_adapter([name.lower()], registry) or (name if is_id(name) else "COMMAND")
    return f"{text}. To add one that is recorded: {make_typed_line('setup', '--agent', agent)}"


def find_built_in(entries: Iterable[Entry], agent: NamedAgent) -> Entry | None:
    """Of these entries, the one without a command that sets options of the same agent, which the editor itself has."""
    known_agent = KNOWN_AGENTS.get(agent.title)
    for entry in entries:
        name = entry.name.casefold()
        is_same = name in agent.names or (known_agent is not None and name.startswith(known_agent.title.casefold()))
        if entry.kind is Kind.NO_COMMAND and is_same:
            return entry
    return None


def _list_names(command: Sequence[str]) -> frozenset[str]:
    """How the agent of a command is called: by its program or package, and by others of the same agent."""
    if not command:
        return frozenset()
    name = command[0].removeprefix(PREFIX) if command[0].startswith(PREFIX) else name_command([*command])
    known_agent = KNOWN_AGENTS.get(name.lower())
    return frozenset(
        {name.lower(), *(known_name for known_name, agent in KNOWN_AGENTS.items() if agent is known_agent)}
    )


def _find_arguments(command: Sequence[str]) -> list[str]:
    """The words after the one that names the agent."""
    name = name_command([*command])
    count = next(
        count_to_try for count_to_try in range(1, len(command) + 1) if name_command([*command[:count_to_try]]) == name
    )
    return [*command[count:]]
