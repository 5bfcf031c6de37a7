"""How the editors on this machine start their agents: the commands, with the environment that the editors add.

Unlike ``configured``, this keeps what may be secret: it is only for starting the agents, and never shown.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from acp_proxy.errors import UsageError
from acp_proxy.tools.editors.agent_names import find_beginning, find_name
from acp_proxy.tools.editors.config_dirs import Machine, find_machine
from acp_proxy.tools.editors.configured import find_agents, find_configurations, read_text
from acp_proxy.tools.editors.entries import Kind, read_entry
from acp_proxy.tools.editors.known_editors import SettingsFiles


@dataclass(frozen=True, slots=True)
class StartedAgent:
    """An agent as an editor starts it. ``editor``: the editor's title. ``words``: the command, without ``environment``;
    None if the editor alone knows it."""

    editor: str
    name: str
    words: tuple[str, ...] | None
    environment: tuple[tuple[str, str], ...] = ()
    is_damaged: bool = False
    """The editor's settings are not JSON."""
    fault: str | None = None
    """Why nothing can be started so."""
    registered: str | None = None
    """Of an agent of the editor's own registry: its id, as for the registry of agents."""


def find_started_agents(machine: Machine) -> list[StartedAgent]:
    """The agents in the editors' settings. A configuration that is a program has one agent without words."""
    return [
        agent
        for configuration in find_configurations(machine)
        for agent in _find_in(configuration.editor.title, configuration.path, configuration.editor.configured)
    ]


class NamedAgent(NamedTuple):
    """An agent of an editor's settings. ``words``: its command."""

    name: str
    words: list[str]
    environment: dict[str, str]


def find_in_settings(name: str) -> NamedAgent | None:
    """The agent that an editor's settings call so, or whose name begins so. Raises UsageError if several do."""
    agents = {agent.name: agent for agent in reversed(find_started_agents(find_machine())) if agent.words is not None}
    names = find_name(agents, name) or find_beginning(agents, name)
    if len(names) > 1:
        raise UsageError(f"several agents begin with {name!r}: {', '.join(names)}. Give one of these, or a command.")
    for found_name in names:
        if (fault := agents[found_name].fault) is not None:
            raise UsageError(f'"{found_name}" in {agents[found_name].editor} cannot be started: {fault}. Correct it.')
        found_agent = agents[found_name]
        return NamedAgent(found_name, list(found_agent.words or ()), dict(found_agent.environment))
    return None


def find_started(editor: str, kind: SettingsFiles, text: str) -> list[StartedAgent]:
    """The agents that an editor with these settings starts. ``editor``: its title. Raises ValueError."""
    return [_make_started(editor, name, value) for name, value in find_agents(kind, text).items()]


def _make_started(editor: str, name: str, value: object) -> StartedAgent:
    entry = read_entry(name, value)
    words = None if entry.kind in (Kind.NO_COMMAND, Kind.REGISTERED) else entry.words
    registered = entry.words[0] if entry.kind is Kind.REGISTERED else None
    environment = tuple(sorted(entry.environment.items()))
    return StartedAgent(editor, name, words, environment, fault=entry.fault, registered=registered)


def _find_in(editor: str, path: Path, kind: object) -> list[StartedAgent]:
    if not isinstance(kind, SettingsFiles):
        return [StartedAgent(editor, f"the agents in {path}", None)]
    text = read_text(path)
    try:
        return find_started(editor, kind, text) if isinstance(text, str) else []
    except ValueError:
        return [StartedAgent(editor, f"the agents in {path}", None, is_damaged=True)]
