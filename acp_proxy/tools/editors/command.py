"""``acp-proxy editor``: print the configuration for an editor."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated

import typer

from acp_proxy import invocation, shell_quote
from acp_proxy.cli.completion import make_word_completion
from acp_proxy.cli.report_errors import print_on_stderr, report_errors, report_wrong_usage
from acp_proxy.cli.shared_options import RegistryOption
from acp_proxy.config import options
from acp_proxy.errors import AcpProxyError, UsageError
from acp_proxy.installation import explain_no_mcp
from acp_proxy.tools.editors.known_editors import NEOVIM_PLUGINS, Name, find_editors, find_near_editors
from acp_proxy.tools.registry import PREFIX

_WHOLE = "--whole"
_OPTIONS_WITH_PATH = ("--store", "--registry", "--redact")
"""Options of ``run`` whose value may be a path."""
_PROGRAMS = {Name.AGENTIC: "neovim", Name.AGENT_SHELL: "emacs"}
"""The program that a plugin is for, after its last plugin: users may not know the plugin by name."""
NAMES = [word for name in Name for word in (str(name), _PROGRAMS.get(name)) if word is not None]
"""What to give for an editor."""
_LINES_OF_RUNNERS = {"npx": "npx -y PACKAGE", **{runner: f"{runner} PACKAGE" for runner in ("bunx", "pnpx", "uvx")}}
VARIABLE = re.compile(r"([A-Za-z_]\w*)=(.*)", re.ASCII | re.DOTALL)
"""A variable for the agent, which stands before its command."""


def read_name(word: str) -> Name:
    """The editor that a user means."""
    editors = find_editors(word)
    if len(editors) == 1:
        return editors[0]
    if editors:
        raise typer.BadParameter(f"{word!r} may be {' or '.join(editors)}.")
    near_names = find_near_editors(word)
    our_words = shell_quote.join([*invocation.make_settings_command()[0], "run"])
    advice_for_others = f"In any other editor, use the agent's command with this in front of it: {our_words}"
    advice = f"Did you mean {' or '.join(near_names)}?" if near_names else advice_for_others
    raise typer.BadParameter(f"{word!r} is not one of {', '.join(map(repr, NAMES))}. {advice}")


@dataclass(frozen=True, slots=True)
class _GivenEditor:
    """The editors that a word means: one, or all plugins of Neovim."""

    names: tuple[Name, ...]

    def __str__(self) -> str:
        return self.names[0] if len(self.names) == 1 else _PROGRAMS[self.names[-1]]


def _read_given_editor(word: str) -> _GivenEditor:
    words = list(invocation.words)
    words_after = words[words.index(word) + 1 :] if word in words else []
    if not find_editors(word) and words_after and words_after[-1].lower() in NAMES:
        line = shell_quote.join(["acp-proxy", "editor", words_after[-1], word, *words_after[:-1]])
        with report_wrong_usage():
            raise UsageError(f"{word!r} is no editor. The editor comes first: {line}")
    is_neovim = find_editors(word) == list(NEOVIM_PLUGINS)
    return _GivenEditor(NEOVIM_PLUGINS if is_neovim else (read_name(word),))


def editor(
    context: typer.Context,
    given_editor: Annotated[
        _GivenEditor,
        typer.Argument(
            metavar="EDITOR",
            help=f"One of: {', '.join(NAMES)}.",
            show_default=False,
            parser=_read_given_editor,
            autocompletion=make_word_completion(NAMES),
        ),
    ],
    agent: Annotated[
        list[str],
        typer.Argument(
            metavar="AGENT",
            help="The agent's command, its name in an editor's settings, or its id in the registry of agents. "
            "Options of run and variables (NAME=VALUE) may precede it.",
        ),
    ],
    whole: Annotated[bool, typer.Option(_WHOLE, help="Print the complete content, as for a new file.")] = False,
    registry: RegistryOption = "",
) -> None:
    """Print the configuration for your editor.

    With this configuration, the editor starts the agent through acp-proxy. The command prints only the snippet on
    stdout, for you to paste into the existing file. If there is no file, or with --whole (for scripts), it prints the
    complete content. On stderr it says which file, where in the file, and what to do next. It edits no file.

    Example: acp-proxy editor zed npx -y @agentclientprotocol/claude-agent-acp
    """
    from acp_proxy.tools.editors.advice import place_snippet
    from acp_proxy.tools.editors.agent_names import (
        find_built_in,
        identify_agent,
        make_registry_option,
        open_registry,
        refuse_without_adapter,
    )
    from acp_proxy.tools.editors.command_line import find_option_after_agent
    from acp_proxy.tools.editors.config_dirs import find_machine
    from acp_proxy.tools.editors.configured import (  # imported late: no other command needs these
        find_configurations,
        find_file,
        read_entries,
        read_text,
    )
    from acp_proxy.tools.editors.known_editors import EDITORS, SettingsFiles
    from acp_proxy.tools.editors.launch_commands import find_in_settings
    from acp_proxy.tools.editors.program_places import find_odd_place
    from acp_proxy.tools.editors.snippets import EditorEntry, make_snippet

    if agent[0] in ("-h", "--help"):
        typer.echo(context.get_help())
        raise typer.Exit
    if agent[0] == _WHOLE:
        whole, agent = True, agent[1:]
    machine, name = find_machine(), given_editor.names[0]
    if len(given_editor.names) > 1:
        configured_names = [configuration.editor.name for configuration in find_configurations(machine)]
        name = next((plugin for plugin in given_editor.names if plugin in configured_names), name)
    with report_wrong_usage(), report_errors():
        begin = ["acp-proxy", "editor", name, *([_WHOLE] if whole else [])]
        if not agent:
            raise UsageError(f"the agent is missing. Write: {shell_quote.join(begin)} AGENT")
        if agent[0].partition("=")[0] == "--agent":
            raise UsageError(f"there is no option --agent. Write: {_write_without_agent_option(begin, agent)}")
        run_options, variables, command = read_agent(begin, agent)
        is_word = shutil.which(command[0]) is None and not command[0].startswith(PREFIX)
        in_settings = find_in_settings(" ".join(command)) if is_word else None  # as for doctor and continue
        if in_settings is not None:
            settings_options, _, command = read_agent(begin, in_settings.words)
            run_options = [*settings_options, *run_options]  # the later ones win
        registry_read = open_registry(registry, run_options, print_on_stderr)
        named_agent = identify_agent(command, registry_read)
        command, title = named_agent.command, in_settings.name if in_settings is not None else named_agent.title
        words_before = ["editor", name, *run_options, *(f"{key}={value}" for key, value in variables.items())]
        refuse_without_adapter(
            command,
            lambda adapter: [*words_before, *adapter.split()],
            "If it is a script of yours that does, give it another name.",
            registry_read,
        )
        is_missing = shutil.which(command[0]) is None and not command[0].startswith(PREFIX)
        if is_missing and named_agent.problem is not None and len(command) == 1:  # only the registry knows the rest
            raise AcpProxyError(named_agent.problem)
        run_options = [*make_registry_option(registry, command), *run_options]
    own_words, advice = invocation.make_settings_command()
    snippet = make_snippet(name, EditorEntry([*own_words, "run", *run_options, *command], variables, title))
    path, is_there = find_file(EDITORS[name], machine)
    existing = read_text(path) if is_there and path is not None else None
    if other_plugins := [plugin for plugin in given_editor.names if plugin != name]:
        line = shell_quote.join(["acp-proxy", "editor", other_plugins[0], *agent])
        other_title, more_names = EDITORS[other_plugins[0]].title, ", ".join(other_plugins[1:])
        print_on_stderr(f"This is for {EDITORS[name].title}. For {other_title}: {line} (or {more_names})")
    placed = place_snippet(EDITORS[name], snippet, path, existing, is_whole=whole)
    print_on_stderr(f"{placed.instruction}:")
    print_on_stderr("")
    typer.echo(placed.text)
    print_on_stderr("")
    for text in (*placed.more_advice, f"Then: {snippet.next_step}", "To check the setup: acp-proxy doctor"):
        print_on_stderr(text)
    if "--recall" not in run_options:
        server = shell_quote.join([*own_words, "mcp"])
        print_on_stderr(
            f"To let an agent look up earlier sessions: put --recall before its command, or give it this MCP server:"
            f" {server}"
        )
    elif find_spec("mcp") is None:
        print_on_stderr(f"Note: {explain_no_mcp()}")
    if advice is not None:
        print_on_stderr(f"Note: {' '.join(own_words)}: {advice}")
    if in_settings is not None:
        print_on_stderr(f'Note: {" ".join(agent)} is taken as "{in_settings.name}" in the settings of an editor here.')
        if missing := [
            variable for variable in in_settings.environment if variable not in variables
        ]:  # their values may be secrets
            print_on_stderr(f"Copy its variables from there, too: {', '.join(missing)}.")
    kind, built_in = EDITORS[name].configured, None
    if isinstance(kind, SettingsFiles) and isinstance(existing, str):
        with suppress(ValueError):
            built_in = find_built_in(read_entries(kind, existing), named_agent)
    if built_in is not None and (
        missing := [variable for variable in built_in.environment if variable not in variables]
    ):
        print_on_stderr(f'Copy the variables of "{built_in.name}" there, too: {", ".join(missing)}.')
    known_variables = [*variables, *(in_settings.environment if in_settings is not None else ())]
    if (place := find_odd_place(command, known_variables, registry_read)) is not None:
        assignment = shell_quote.quote(f"PATH={place.path_value}")
        print_on_stderr(f"Note: {place.describe()} put this in front of the agent here, too: {assignment}")
    if (option := find_option_after_agent(command)) is not None:
        print_on_stderr(
            f"Note: the agent gets {option}, which stands after it. If it is for acp-proxy: write it before."
        )
    if is_missing:
        unknown = f"{command[0]} was not found on this machine, nor in the registry. Check the agent's command."
        print_on_stderr(f"Note: {named_agent.problem or unknown}")


def _write_without_agent_option(begin: list[str], words: list[str]) -> str:
    """The line that works. ``begin``: its words before the agent. ``words``: ``--agent`` and what follows it."""
    from acp_proxy.tools.editors import command_line

    value = words[0].partition("=")[2]
    agent = [value, *words[1:]] if value else words[1:]
    return shell_quote.join([*begin, *command_line.split_line(agent or ["AGENT"])])


def read_agent(words_before: list[str], words: list[str]) -> tuple[list[str], dict[str, str], list[str]]:
    """Options of ``run``, the agent's variables, its command. ``words_before``: the words of the command line in front
    of ``words``, for error messages. Raises UsageError.
    """
    if any(not word.isprintable() for word in words):
        raise UsageError("a word of the command has a control character, or is not UTF-8. Correct it.")
    from acp_proxy.tools.editors import command_line

    run_options, variables, command = _split_command(words_before, words)
    run_options = [*_make_absolute(run_options)]
    command = command_line.expand_home(command)
    program = re.split(r"[/\\]", command[0])[-1]
    if program in _LINES_OF_RUNNERS and all(word.startswith("-") for word in command[1:]):
        raise UsageError(
            f"{program} alone starts no agent. Give the agent's package, too: {_LINES_OF_RUNNERS[program]}"
        )
    if os.path.dirname(command[0]):
        command = [os.path.abspath(command[0]), *command[1:]]  # the editor starts it in another directory
    return run_options, variables, command


def _make_absolute(words: list[str]) -> Iterator[str]:
    """Options of ``run`` with absolute paths: the editor starts acp-proxy in another directory."""
    option = ""
    for word in words:
        name, equals, value = word.partition("=")
        if option in _OPTIONS_WITH_PATH:
            yield _make_path_absolute(option, word)
        elif equals and name in _OPTIONS_WITH_PATH:
            yield f"{name}={_make_path_absolute(name, value)}"
        else:
            yield word
        option = "" if option in _OPTIONS_WITH_PATH else word


def _make_path_absolute(option: str, value: str) -> str:
    """A value of one of ``_OPTIONS_WITH_PATH``, absolute. What is no path (a URL, or ``keys``) stays, and so does what
    begins with ``~``."""
    is_path = not value.startswith("~") if option == "--store" else os.path.lexists(value)
    return os.path.abspath(value) if is_path and value else value


def _split_command(words_before: list[str], words: list[str]) -> tuple[list[str], dict[str, str], list[str]]:
    """The parts of a command. If acp-proxy already precedes it, the result has acp-proxy once. Raises UsageError."""
    from acp_proxy.tools.editors import command_line

    run_options, command, has_whole = _split_options(words)
    variables, late_options = {}, list[str]()
    while command and (match := VARIABLE.fullmatch(command[0])):
        variables[match[1]] = match[2]
        command = command[1:]
    if not command or not command[0].strip():
        line = f"{shell_quote.join(words_before)} NAME=VALUE AGENT"
        raise UsageError(f"the agent's command is missing. Put it after the variables: {line}")
    if variables and command[0].startswith("-"):
        late_options, command, has_late_whole = _split_options(command)
        has_whole |= has_late_whole
    if late_options or has_whole:
        whole_option = [_WHOLE] if has_whole and _WHOLE not in words_before else []
        pairs = [f"{key}={value}" for key, value in variables.items()]
        line = shell_quote.join(
            [*words_before, *whole_option, *_drop_dashes(run_options), *_drop_dashes(late_options), *pairs, *command]
        )
        first = f"{_WHOLE} comes first, then options of run" if has_whole else "options of run come first"
        raise UsageError(f"{first}, then variables, then the agent. Write: {line}")
    command = command_line.split_line(command)
    if command_line.lacks_run(command):
        raise UsageError(command_line.MISSING_RUN)
    if (words_after_run := command_line.find_words_after_run(command)) is None:
        return run_options, variables, command
    for word in command[: len(command) - len(words_after_run)]:
        if match := VARIABLE.fullmatch(word):  # variables after env
            variables[match[1]] = match[2]
    inner_options, inner_variables, command = _split_command(words_before, words_after_run)
    return [*_drop_dashes(run_options), *inner_options], variables | inner_variables, command


def _split_options(words: list[str]) -> tuple[list[str], list[str], bool]:
    """The options of ``run``, the words after them, and whether ``--whole``, now removed, was among them. Raises
    UsageError.
    """
    has_whole = False
    try:
        _, command = options.parse(words, {})
    except UsageError:
        words_without_whole = [word for word in words if word != _WHOLE]
        if words_without_whole == words:
            raise
        words, has_whole = words_without_whole, True
        _, command = options.parse(words, {})
    return words[: len(words) - len(command)], command, has_whole


def _drop_dashes(words: list[str]) -> list[str]:
    """Options to which more can be added: without ``--`` at their end."""
    return words[:-1] if words[-1:] == ["--"] else words
