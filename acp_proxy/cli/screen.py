"""Where a result goes: to a pager, to the terminal as it is, or to another program.

As git does it: what is long goes through ``$ACP_PROXY_PAGER``, else ``$PAGER``, else ``less``, and only on a terminal.
Colour is for terminals (``NO_COLOR``, ``CLICOLOR=0``: none; ``FORCE_COLOR``, ``CLICOLOR_FORCE``: also elsewhere).
Who stops reading, a pager or another program, ends the command without a word.
"""

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from subprocess import Popen

Say = Callable[[str], None]

_LESS = "FRX"
"""As git: what fits on a screen is only printed (F), colours are shown (R), and what was read stays there (X)."""


@dataclass(frozen=True, slots=True)
class Screen:
    """``is_terminal``: somebody looks at it. ``is_able``: it can do more than print lines, so there may be a pager.

    ``is_dressed``: what is made for people to read may be dressed up, in ``colours`` or without.
    """

    is_terminal: bool
    is_able: bool
    is_dressed: bool
    colours: bool
    width: int


def screen() -> Screen:
    """What the command's output is connected to."""
    is_terminal = sys.stdout.isatty()
    is_able = is_terminal and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")
    forced = bool(os.environ.get("FORCE_COLOR")) or os.environ.get("CLICOLOR_FORCE", "0") not in ("", "0")
    unwanted = bool(os.environ.get("NO_COLOR")) or (os.environ.get("CLICOLOR") == "0" and not forced)
    is_dressed = is_able or forced
    return Screen(is_terminal, is_able, is_dressed, is_dressed and not unwanted, shutil.get_terminal_size().columns)


@contextmanager
def paged(target: Screen) -> Iterator[Say]:
    """Say something, a pager between; what is raised meanwhile is raised when that has been closed."""
    pager = _started(_pager() if target.is_able else [])
    if pager is None:
        yield _say
        return
    into = pager.stdin
    assert into is not None

    def say(text: str) -> None:
        into.write(text.encode("utf-8", "replace"))
        into.flush()

    try:
        with suppress(BrokenPipeError, KeyboardInterrupt):  # it has been left; Ctrl-C is the pager's
            yield say
    finally:
        with suppress(BrokenPipeError):
            into.close()
        while pager.returncode is None:
            with suppress(KeyboardInterrupt):
                pager.wait()


def _started(command: list[str]) -> "Popen[bytes] | None":
    """None where there is none."""
    if not command:
        return None
    from subprocess import PIPE, Popen  # slow to import

    try:
        return Popen(command, stdin=PIPE, env={"LESS": _LESS, "LV": "-c", **os.environ})
    except OSError:
        return None


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _pager() -> list[str]:
    """Nothing where none is wanted."""
    for name in ("ACP_PROXY_PAGER", "PAGER"):
        if (given := os.environ.get(name)) is not None:
            with suppress(ValueError):
                words = shlex.split(given)
                return words if words != ["cat"] else []
    return ["less"]
