"""The words by which an editor starts this program: absolute, since editors started from a menu have a short PATH."""

import os
import shutil
from pathlib import Path

from acp_proxy.wire.value import Value

_COMMANDS = frozenset({"acp-proxy", "acp-proxy.exe"})
_PASSING = frozenset({"archive-v0", ".cache", "_npx", "tmp"})
"""Directories in which what lies is taken away again: ``uvx`` and ``pipx run`` install into such."""


class Ourselves(Value):
    """``note``: what had better be known of it."""

    words: list[str]
    note: str | None = None


def ourselves(invoked: str, python: str) -> Ourselves:
    """``invoked``: by what this process was started (``sys.argv[0]``). ``python``: what runs it."""
    if Path(invoked).name.lower() not in _COMMANDS:
        return Ourselves(
            [python, "-m", "acp_proxy"],
            "a module of Python, as it is run here. Installed (uv tool install, pipx install), it has a command.",
        )
    found = invoked if os.path.dirname(invoked) else shutil.which(invoked) or invoked
    path = os.path.abspath(found)  # a link stays one: what it leads to moves with every upgrade
    if _PASSING & set(Path(path).parts):
        return Ourselves([path], "it lies in a temporary directory. Install it: uv tool install, or pipx install.")
    return Ourselves([path])
