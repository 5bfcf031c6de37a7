"""What the user means with ``--agent``: entries in the settings, an agent to add, or, with ``--undo``, entries that
setup has changed."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from acp_proxy.cli.report_errors import print_on_stderr
from acp_proxy.errors import UsageError
from acp_proxy.tools.editors import command_line
from acp_proxy.tools.editors.agent_names import (
    find_beginning,
    find_name,
    identify_agent,
    make_registry_option,
    open_registry,
)
from acp_proxy.tools.editors.command import read_agent
from acp_proxy.tools.editors.known_editors import EDITORS, Editor, Name
from acp_proxy.tools.registry import PREFIX
from acp_proxy.tools.registry.agents import Registry, RegistryError
from acp_proxy.tools.setup import overview
from acp_proxy.tools.setup import setup as steps
from acp_proxy.tools.setup.record import Record
from acp_proxy.tools.setup.setup import FileChange, FoundEntry, WantedAgent


def find_agent(
    agent: str, entries: Sequence[FoundEntry], registry: str, registry_read: Registry
) -> tuple[list[FoundEntry], WantedAgent | None]:
    """The entries of the agent that the user names, and the agent, if it is not named as an entry is. Without entries,
    the agent is to be added. ``registry``: the value of ``--registry``. ``registry_read``: the registry that it names.

    An entry that starts the agent comes before one whose name only begins with the word: it may be another agent.
    Raises UsageError, RegistryError.
    """
    names = [entry.name for _, entry in entries if entry.words]  # an agent that is built into the editor has none
    if exact_names := find_name(names, agent):
        return [found for found in entries if found[1].name in exact_names], None
    wanted_agent = _read_wanted(command_line.split_line([agent]), registry, registry_read)
    if started_entries := [found for found in entries if wanted_agent.agent.is_started_by(found[1].words)]:
        return started_entries, wanted_agent
    longer_names = find_beginning(names, agent)
    if len(longer_names) > 1:
        raise UsageError(
            f"several agents begin with {agent!r}: {', '.join(longer_names)}. Give one of these, or a command."
        )
    if longer_names:
        print_on_stderr(
            f'Note: {agent} is taken as "{longer_names[0]}" in your settings. '
            "For another agent, give its whole command."
        )
        return [found for found in entries if found[1].name == longer_names[0]], None
    return [], wanted_agent


def _read_wanted(words: list[str], registry: str, registry_read: Registry) -> WantedAgent:
    """The agent of a command, with options of ``run`` and variables. The other arguments are those of ``find_agent``.
    Raises UsageError, RegistryError."""
    run_options, variables, command = read_agent(["acp-proxy", "setup", "--agent"], words)
    named_agent = identify_agent(
        command, open_registry(registry, run_options, print_on_stderr) if run_options else registry_read
    )
    options_of_run = [*make_registry_option(registry, named_agent.command), *run_options]
    return WantedAgent(named_agent, options_of_run, variables)


def find_agent_to_add(
    settings: Sequence[tuple[Editor, Path]],
    entries: Sequence[FoundEntry],
    chosen: Sequence[FoundEntry],
    named_agent: WantedAgent | None,
    editors: Sequence[Name],
    registry: str,
    registry_read: Registry,
) -> tuple[WantedAgent | None, Sequence[tuple[Editor, Path]]]:
    """The agent that is to be added, and the settings that get it: all, if ``find_agent`` has found no entries of it;
    else those of the editors that the user has named and that have none.

    ``chosen`` and ``named_agent``: what ``find_agent`` has found. ``editors``: those that the user has named. The other
    arguments are those of ``find_agent``.
    """
    if not chosen:
        return named_agent, settings
    if not editors:
        return None, []
    wanted_agent = named_agent
    if wanted_agent is None and not chosen[0][1].runs_elsewhere:
        with suppress(UsageError, RegistryError):
            wanted_agent = _read_wanted([*overview.find_command(chosen[0][1])], registry, registry_read)
    if wanted_agent is None:
        return None, []
    paths = {path for path, entry in entries if wanted_agent.agent.is_started_by(entry.words)}
    paths |= {path for path, _ in chosen}
    titles = {editor.title for editor, path in settings if path in paths}
    return wanted_agent, [(editor, path) for editor, path in settings if editor.title not in titles]


def find_changed_names(
    agent: str, plans: Sequence[FileChange], record: Record, registry: str
) -> Mapping[Path, Collection[str]]:
    """The entries of one agent that setup has changed, by file, for the words that ``find_agent`` takes.

    ``plans``: what undo would do in these files. ``registry``: the value of ``--registry``. Raises UsageError if there
    are none.
    """
    names_by_path = {
        plan.path: list(
            dict.fromkeys(
                [
                    *(entry.name for entry in record.files[str(plan.path)].entries),
                    *(entry.name for entry in plan.entries),  # also under new names
                    *(name for name, _ in plan.kept),
                ]
            )
        )
        for plan in plans
    }
    names = list(dict.fromkeys(name for path_names in names_by_path.values() for name in path_names))
    if exact_names := find_name(names, agent):
        return {path: [name for name in exact_names if name in found] for path, found in names_by_path.items()}
    started = _find_started(agent, plans, registry)
    started_by_path = {
        path: [name for name in found if (path, name) in started] for path, found in names_by_path.items()
    }
    if any(started_by_path.values()):
        return started_by_path
    agent_names = find_beginning(names, agent)
    if len(agent_names) != 1:
        reason = f"several agents begin with {agent!r}" if agent_names else f"setup has changed no agent {agent!r}"
        known_names = ", ".join(agent_names or names) or "none"
        raise UsageError(f"{reason}. Those that it has changed: {known_names}.")
    return {path: [name for name in agent_names if name in found] for path, found in names_by_path.items()}


def _find_started(agent: str, plans: Sequence[FileChange], registry: str) -> set[tuple[Path, str]]:
    """The entries in these files that start the agent of a command or an id, by file and name. Nothing is downloaded:
    an id is known by itself, too."""
    try:
        run_options, _, command = read_agent(["acp-proxy", "setup", "--agent"], command_line.split_line([agent]))
        registry_read = open_registry(registry, run_options, print_on_stderr)
    except UsageError:
        return set()  # it may be the beginning of a name
    try:
        named_agent = identify_agent(command, registry_read, downloads=False)
    except RegistryError:
        without_prefix = [command[0].removeprefix(PREFIX), *command[1:]]
        named_agent = identify_agent(without_prefix, registry_read, downloads=False)
    return {
        (plan.path, entry.name)
        for plan in plans
        for _, entry in steps.find_entries(EDITORS[plan.editor], plan.path)
        if named_agent.is_started_by(entry.words)
    }
