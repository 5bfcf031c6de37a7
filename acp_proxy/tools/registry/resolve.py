"""An agent's command as a user gives it: a program, or an id of the registry."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from acp_proxy.tools.registry import PREFIX
from acp_proxy.tools.registry.agents import Registry, RegistryError, explain_missing, is_id
from acp_proxy.tools.registry.install import install

RUNNERS = {"bunx": "Bun", "node": "Node.js", "npx": "Node.js", "uvx": "uv"}
"""Programs that start other agents and are none themselves, and what to install for each."""


@dataclass(frozen=True, slots=True)
class ResolvedAgent:
    """What to start for a command. ``words``: the command to start. ``variables``: what the registry adds to its
    environment, where the user has set nothing else. ``problem``: why the command is neither a program here nor an id
    that the registry knows."""

    words: list[str]
    variables: dict[str, str]
    problem: str | None = None


def names_an_id(command: Sequence[str], path: str | None = None) -> bool:
    """Whether a command is an id of the registry: with the prefix always, else if no program has that name.

    ``path``: as for ``shutil.which``.
    """
    word = command[0] if command else ""
    if word in RUNNERS:
        return False
    return word.startswith(PREFIX) or (is_id(word) and shutil.which(word, path=path) is None)


def may_download(command: Sequence[str]) -> bool:
    """Whether the registry may be downloaded for a command that names an id: with the prefix, or a word alone."""
    return len(command) == 1 or command[0].startswith(PREFIX)


def resolve(
    command: Sequence[str], registry: Registry, print_line: Callable[[str], None], *, may_wait: bool
) -> ResolvedAgent:
    """What to start for a command; words after an id follow the agent's own, if these do not end with them.

    A word without the prefix that the registry does not know is a program, which is not there: see ``problem``. For a
    word with arguments, which is more often a program that is missing, nothing is downloaded.
    Raises RegistryError for an id with the prefix.
    """
    if not names_an_id(command):
        return ResolvedAgent([*command], {})
    try:
        downloads = may_download(command)
        agent = registry.find(command[0].removeprefix(PREFIX), may_wait=may_wait, may_download=downloads)
        words = install(agent, registry.programs, print_line)
        return ResolvedAgent([*words, *list_words_after(words, command)], dict(agent.variables))
    except RegistryError as problem:
        if command[0].startswith(PREFIX):
            raise
        return ResolvedAgent([*command], {}, explain_missing(command[0], problem))


def list_words_after(agent_words: Sequence[str], command: Sequence[str]) -> list[str]:
    """The words of a command that follow the agent's own: none for ``opencode acp``, if the id stands for that."""
    words_after = [*command[1:]]
    return [] if words_after and [*agent_words[-len(words_after) :]] == words_after else words_after
