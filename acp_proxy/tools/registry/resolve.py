"""An agent's command as a user gives it: a program, or an id of the registry."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from acp_proxy.tools.registry.agents import PREFIX, Registry, is_id
from acp_proxy.tools.registry.install import install


@dataclass(frozen=True, slots=True)
class ResolvedAgent:
    """``words``: the command to start. ``variables``: what the registry adds to its environment."""

    words: list[str]
    variables: dict[str, str]


def names_an_id(command: Sequence[str], path: str | None = None) -> bool:
    """Whether a command is an id of the registry: with the prefix always, else if no program has that name.

    ``path``: as for ``shutil.which``.
    """
    word = command[0] if command else ""
    return is_id(word) and (word.startswith(PREFIX) or shutil.which(word, path=path) is None)


def resolve(command: Sequence[str], registry: Registry, say: Callable[[str], None], *, may_wait: bool) -> ResolvedAgent:
    """What to start for a command that ``names_an_id``; more words follow the agent's own.

    Raises RegistryError.
    """
    agent = registry.find(command[0].removeprefix(PREFIX), may_wait=may_wait)
    return ResolvedAgent([*install(agent, registry.programs, say), *command[1:]], dict(agent.variables))
