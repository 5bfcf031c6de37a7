"""The words that start acp-proxy: an absolute path, because editors started from a menu have a short PATH."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

_COMMANDS = frozenset({"acp-proxy", "acp-proxy.exe"})
_PASSING = frozenset({"archive-v0", ".cache", "_npx", "tmp"})
"""Temporary directories, into which ``uvx`` and ``pipx run`` install."""
_RUNNERS = {"uv": ("uvx", "acp-proxy"), "pipx": ("pipx", "run", "acp-proxy")}
"""What starts acp-proxy without installing it: by a part of the path, its own words."""


@dataclass(frozen=True, slots=True)
class Ourselves:
    """``note``: advice about these words."""

    words: list[str]
    note: str | None = None


def ourselves(invoked: str, python: str) -> Ourselves:
    """``invoked``: the name that started this process (``sys.argv[0]``). ``python``: its interpreter."""
    if Path(invoked).name.lower() not in _COMMANDS:
        return Ourselves(
            [python, "-P", "-m", "acp_proxy"],  # -P: import nothing from the project in which the editor starts it
            "this starts acp-proxy as a Python module. To get a command: uv tool install, or pipx install.",
        )
    found = invoked if os.path.dirname(invoked) else shutil.which(invoked) or invoked
    path = os.path.abspath(found)  # keep a link: its target moves with every upgrade
    for part, (runner, *rest) in _RUNNERS.items():
        if part in (parts := Path(path).parts) and _PASSING & set(parts) and (found_runner := shutil.which(runner)):
            return Ourselves([found_runner, *rest])  # it keeps what it has downloaded
    if _PASSING & set(Path(path).parts):
        return Ourselves(
            [path], "this path is in a temporary directory. To install acp-proxy: uv tool install, or pipx install."
        )
    return Ourselves([path])
