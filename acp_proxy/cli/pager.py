"""The output of a command: a pager, the terminal, or another program.

As in git, long output on a terminal goes through ``$ACP_PROXY_PAGER``, else ``$PAGER``, else ``less``. Terminals get
colours (``NO_COLOR`` or ``CLICOLOR=0``: no; ``FORCE_COLOR`` or ``CLICOLOR_FORCE``: other outputs too). If the pager or
the other program stops reading, the command ends without a message.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from acp_proxy.cli.stdio import find_ascii_forms

if TYPE_CHECKING:
    from subprocess import Popen

Say = Callable[[str], None]

_ESCAPES = 4
"""ENABLE_VIRTUAL_TERMINAL_PROCESSING, of a Windows console."""
_LESS = "FRX"
"""The options of git: quit if it fits one screen (F), show colours (R), leave the text on the screen (X)."""


class Screen(Struct, frozen=True):
    """``is_terminal``: a person reads the output. ``is_able``: the terminal can run a pager.

    ``is_dressed``: output for people may be formatted, with or without ``colours``. ``forms``: of marks that it cannot
    show (``find_ascii_forms``).
    """

    is_terminal: bool
    is_able: bool
    is_dressed: bool
    colours: bool
    width: int
    forms: Mapping[int, str]

    @property
    def room(self) -> int:
        """The width of a line that may end with an ellipsis, which is written as ``…``."""
        return self.width + 1 - len("…".translate(self.forms))


def find_screen() -> Screen:
    """The output of this command."""
    is_terminal = sys.stdout.isatty()
    is_able = is_terminal and os.environ.get("TERM", "").lower() not in ("dumb", "unknown") and _can_show_escapes()
    forced = bool(os.environ.get("FORCE_COLOR")) or os.environ.get("CLICOLOR_FORCE", "0") not in ("", "0")
    unwanted = bool(os.environ.get("NO_COLOR")) or (os.environ.get("CLICOLOR") == "0" and not forced)
    is_dressed = is_able or forced
    width, forms = shutil.get_terminal_size().columns, find_ascii_forms(sys.stdout)
    return Screen(is_terminal, is_able, is_dressed, is_dressed and not unwanted, width, forms)


def is_attended() -> bool:
    """Whether a user can type: stdin is a terminal."""
    from acp_proxy.run.start import is_terminal

    return sys.stdin.isatty() and is_terminal(sys.stdin.fileno())


def _can_show_escapes() -> bool:
    """Whether the terminal interprets escape sequences; a Windows console has to be asked for it."""
    if sys.platform == "win32":
        import ctypes
        import msvcrt

        kernel, mode = ctypes.windll.kernel32, ctypes.c_uint32()
        console = msvcrt.get_osfhandle(sys.stdout.fileno())
        if not kernel.GetConsoleMode(console, ctypes.byref(mode)):
            return False
        return bool(kernel.SetConsoleMode(console, mode.value | _ESCAPES))
    return True


@contextmanager
def open_pager(target: Screen, *, stays: bool = False) -> Iterator[Say]:
    """Write through a pager. An exception of the block is raised when the pager has ended.

    ``stays``: something else appears afterwards, so a text that fits one screen stays until the user leaves it.
    """
    command = _find_pager() if target.is_able else []
    is_less = bool(command) and os.path.basename(command[0]) == "less" and shutil.which(command[0]) is not None
    with _pipe_into([*command, "-+F", "-+X"] if stays and is_less else command, target) as say:
        yield say
    if stays and not is_less:
        _print("\nPress Enter to go back.")
        sys.stdin.readline()


@contextmanager
def _pipe_into(command: list[str], target: Screen) -> Iterator[Say]:
    pager = _start(command)
    if pager is None:
        yield _print
        return
    into = pager.stdin
    assert into is not None

    def say(text: str) -> None:
        into.write(text.translate(target.forms).encode(sys.stdout.encoding, "replace"))
        into.flush()

    try:
        with suppress(BrokenPipeError, KeyboardInterrupt):  # the user left the pager; Ctrl-C belongs to the pager
            yield say
    finally:
        with suppress(BrokenPipeError):
            into.close()
        while pager.returncode is None:
            with suppress(KeyboardInterrupt):
                pager.wait()


def _start(command: list[str]) -> "Popen[bytes] | None":
    """The pager; None if there is none."""
    if not command:
        return None
    from subprocess import PIPE, Popen  # slow to import

    try:
        usual = {"LESS": _LESS, "LV": "-c"}
        if sys.stdout.encoding.lower() == "utf-8":  # as Python decides under LC_ALL=C, where less would show bytes
            usual["LESSCHARSET"] = "utf-8"
        return Popen(command, stdin=PIPE, env={**usual, **os.environ})
    except OSError:
        return None


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _find_pager() -> list[str]:
    """The pager command; empty if the user wants none."""
    for name in ("ACP_PROXY_PAGER", "PAGER"):
        if (given := os.environ.get(name)) is not None:
            from acp_proxy import shell_quote

            with suppress(ValueError):
                words = shell_quote.split(given)
                return words if words != ["cat"] else []
    return ["less"]
