"""How the editors on this machine start their agents: the commands, with the environment that the editors add.

Unlike ``configured``, this keeps what may be secret: it is only for starting the agents, and never shown.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from acp_proxy.protocol import acp
from acp_proxy.tools.editors.config_dirs import Machine
from acp_proxy.tools.editors.configured import configurations, find_agents, text_of, texts, words_of
from acp_proxy.tools.editors.known_editors import SettingsFiles


@dataclass(frozen=True, slots=True)
class StartedAgent:
    """``editor``: its title. ``words``: the command, without ``environment``; None if the editor alone knows it."""

    editor: str
    name: str
    words: tuple[str, ...] | None
    environment: tuple[tuple[str, str], ...] = ()
    is_damaged: bool = False
    """The editor's settings are not JSON."""


def started_agents(machine: Machine) -> list[StartedAgent]:
    """The agents in the editors' settings. A configuration that is a program has one agent without words."""
    return [
        agent
        for found in configurations(machine)
        for agent in _of(found.editor.title, found.path, found.editor.configured)
    ]


def _of(editor: str, path: Path, kind: object) -> Iterator[StartedAgent]:
    if not isinstance(kind, SettingsFiles):
        yield StartedAgent(editor, f"the agents in {path}", None)
        return
    text = text_of(path)
    try:
        agents = find_agents(kind, text) if isinstance(text, str) else {}
    except ValueError:
        agents = {}
        yield StartedAgent(editor, f"the agents in {path}", None, is_damaged=True)
    for name, entry in agents.items():
        words = tuple(words_of(entry)) or None
        yield StartedAgent(editor, name, words, tuple(sorted(texts(acp.member(entry, "env")).items())))
