"""Where an editor may not find an agent's program, though a terminal does."""

import os
import shutil
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

from acp_proxy.tools.registry import PREFIX
from acp_proxy.tools.registry.agents import Registry, RegistryError

_SYSTEM_DIRECTORIES = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/sbin", "/snap/bin")
"""Where every program looks for others."""


@dataclass(frozen=True, slots=True)
class ProgramPlace:
    """A program in a directory of the user's. ``path_value``: a PATH with which an editor finds it."""

    program: str
    directory: str
    path_value: str

    def describe(self) -> str:
        return (
            f"{self.program} is in {self.directory}, where an editor that is started from a menu may not look. If the "
            "agent does not start there,"
        )


def find_odd_place(command: Sequence[str], variables: Collection[str], registry: Registry) -> ProgramPlace | None:
    """Where the program of an agent is that is only in the PATH of this terminal: an editor that was started from a
    menu has a shorter one. None: everything finds it, nothing does, or the agent has a PATH of its own, in
    ``variables``."""
    program = command[0]
    if program.startswith(PREFIX):
        with suppress(RegistryError):
            registered = registry.find(program.removeprefix(PREFIX), may_download=False)
            program = registered.words[0] if registered.archive is None else ""
    path = shutil.which(program) if not os.path.dirname(program) and "PATH" not in variables else None
    if path is None or os.name != "posix" or (directory := os.path.dirname(path)) in _SYSTEM_DIRECTORIES:
        return None
    return ProgramPlace(program, directory, ":".join([directory, *_SYSTEM_DIRECTORIES]))
