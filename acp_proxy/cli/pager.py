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
from typing import IO, TYPE_CHECKING

from msgspec import Struct

from acp_proxy.cli.stdio import find_ascii_forms

if TYPE_CHECKING:
    from subprocess import Popen

WriteText = Callable[[str], None]
"""Writes a part of a command's output."""

_ESCAPE_MODE = 4
"""ENABLE_VIRTUAL_TERMINAL_PROCESSING, of a Windows console."""
_LESS_OPTIONS = "FRX"
"""The options of git: quit if it fits one screen (F), show colours (R), leave the text on the screen (X)."""


class Screen(Struct, frozen=True):
    """What a command writes to.

    ``is_terminal``: a person reads the output. ``can_page``: the terminal can run a pager. ``is_formatted``: output for
    people may be formatted, with colours if ``has_colours``. ``forms``: what to write in place of marks that it cannot
    show (``find_ascii_forms``).
    """

    is_terminal: bool
    can_page: bool
    is_formatted: bool
    has_colours: bool
    width: int
    forms: Mapping[int, str]

    @property
    def line_width(self) -> int:
        """The width of a line that may end with an ellipsis, which is written as ``…``."""
        return self.width + 1 - len("…".translate(self.forms))


def find_screen() -> Screen:
    """The output of this command."""
    is_terminal = sys.stdout.isatty()
    can_page = is_terminal and os.environ.get("TERM", "").lower() not in ("dumb", "unknown") and _can_show_escapes()
    is_forced = bool(os.environ.get("FORCE_COLOR")) or os.environ.get("CLICOLOR_FORCE", "0") not in ("", "0")
    is_unwanted = bool(os.environ.get("NO_COLOR")) or (os.environ.get("CLICOLOR") == "0" and not is_forced)
    is_formatted = can_page or is_forced
    width, forms = shutil.get_terminal_size().columns, find_ascii_forms(sys.stdout)
    return Screen(is_terminal, can_page, is_formatted, is_formatted and not is_unwanted, width, forms)


def is_attended() -> bool:
    """Whether a user can type: stdin is a terminal."""
    from acp_proxy.relay.run_command import is_terminal

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
        return bool(kernel.SetConsoleMode(console, mode.value | _ESCAPE_MODE))
    return True


@contextmanager
def open_pager(
    target: Screen, *, keeps_short_text: bool = False, line_pattern: str = "", first_line: int = 1
) -> Iterator[WriteText]:
    """Write through a pager. An exception of the block is raised when the pager has ended.

    ``keeps_short_text``: a text that fits one screen, too, stays until the user leaves it, because something else
    appears afterwards. ``line_pattern``: a regular expression: in less, n and N jump between the lines that match.
    ``first_line``: the line that less shows first of a text that is longer than the screen.
    """
    command = _find_pager() if target.can_page else []
    is_less = bool(command) and os.path.basename(command[0]) == "less" and shutil.which(command[0]) is not None
    if is_less and keeps_short_text:
        command += ["-+F", "-+X"]
    # Searches, and goes to the first line. A search keeps less from ending by itself with a short text; and without R,
    # it would look at the colours too.
    can_search = is_less and line_pattern and "R" in os.environ.get("LESS", _LESS_OPTIONS)
    jump_words = [f"+{first_line}g"] if is_less and (first_line > 1 or can_search) else []
    pager = _Pager(command, target, [f"-p{line_pattern}", *jump_words] if can_search else jump_words)
    try:
        yield pager.write
    except (BrokenPipeError, KeyboardInterrupt):  # the user left the pager; Ctrl-C belongs to the pager
        if not pager.is_started:
            raise
    finally:
        pager.close()
    if keeps_short_text and not is_less:
        _print("\nPress Enter to go back.")
        sys.stdin.readline()


class _Pager:
    """Passes text to a pager; without one, to stdout.

    ``for_long_texts``: further words of its command, if the text has more lines than the screen. Until that is known,
    the text waits.
    """

    def __init__(self, command: list[str], target: Screen, for_long_texts: list[str]) -> None:
        self._command = command
        self._target = target
        self._for_long_texts = for_long_texts
        self._held_text = ""
        self._process = None if for_long_texts else _start(command)

    @property
    def is_started(self) -> bool:
        return self._process is not None

    def write(self, text: str) -> None:
        if not self._for_long_texts:
            self._write_now(text)
            return
        self._held_text += text
        if self._held_text.count("\n") >= shutil.get_terminal_size().lines:
            self._start_late(self._for_long_texts)

    def close(self) -> None:
        """Write what waits, and return when the user has left the pager."""
        if self._for_long_texts:
            with suppress(BrokenPipeError):
                self._start_late([])
        if self._process is None:
            return
        with suppress(BrokenPipeError):
            self._stdin.close()
        while self._process.returncode is None:
            with suppress(KeyboardInterrupt):
                self._process.wait()

    def _start_late(self, extra_words: list[str]) -> None:
        self._process = _start([*self._command, *extra_words])
        self._for_long_texts = []
        self._write_now(self._held_text)

    def _write_now(self, text: str) -> None:
        if self._process is None:
            _print(text)
        else:
            self._stdin.write(text.translate(self._target.forms).encode(sys.stdout.encoding, "replace"))
            self._stdin.flush()

    @property
    def _stdin(self) -> "IO[bytes]":
        assert self._process is not None
        assert self._process.stdin is not None
        return self._process.stdin


def _start(command: list[str]) -> "Popen[bytes] | None":
    """The pager; None if there is none."""
    if not command:
        return None
    from subprocess import PIPE, Popen  # slow to import

    try:
        defaults = {"LESS": _LESS_OPTIONS, "LV": "-c"}
        if sys.stdout.encoding.lower() == "utf-8":  # as Python decides under LC_ALL=C, where less would show bytes
            defaults["LESSCHARSET"] = "utf-8"
        return Popen(command, stdin=PIPE, env={**defaults, **os.environ})
    except OSError:
        return None


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _find_pager() -> list[str]:
    """The pager command; empty if the user wants none."""
    for name in ("ACP_PROXY_PAGER", "PAGER"):
        if (command := os.environ.get(name)) is not None:
            from acp_proxy import shell_quote

            with suppress(ValueError):
                words = shell_quote.split(command)
                return words if words != ["cat"] else []
    return ["less"]
