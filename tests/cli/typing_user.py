"""A user at a terminal: starts a command there, presses keys, and waits for what it shows. Every wait is bounded."""

import os
import re
import select
import signal
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyte

from tests import forked
from tests.client import TIMEOUT
from tests.posix import fcntl, pty, termios

_STYLES = re.compile(r"\x1b\[[0-9;]*m")


class TypingUser:
    """``raw``: everything shown so far, as bytes. ``screen``: the terminal, which pyte emulates."""

    def __init__(
        self, *words: str | Path, columns: int = 80, lines: int = 24, folder: Path | None = None, **environment: str
    ) -> None:
        self.ours, self.theirs = pty.openpty()
        self.raw = b""
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self._set_size(columns, lines)
        self.before = termios.tcgetattr(self.theirs)
        inherited = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
        settings = {"TERM": "xterm-256color", "ACP_PROXY_PAGER": "", "LC_ALL": "C.UTF-8", **environment}
        self.process = forked.start(
            [sys.executable, "-m", "acp_proxy", *map(str, words)],
            stdin=self.theirs,
            stdout=self.theirs,
            stderr=self.theirs,
            env=inherited | settings,
            cwd=folder,
            start_new_session=True,
        )

    def until(self, *texts: str, gone: str = "") -> str:
        """Wait until the screen shows these texts, and not ``gone``. The whole screen."""
        self._read_until(lambda: all(text in self._display for text in texts) and not (gone and gone in self._display))
        return self._display

    def wait_for(self, text: str, times: int = 1) -> str:
        """Wait until the text was shown so many times. Everything shown so far, without styles."""
        self._read_until(lambda: self.text.count(text) >= times)
        return self.text

    @property
    def styled(self) -> str:
        return self.raw.decode(errors="replace")

    @property
    def text(self) -> str:
        """Everything shown so far, without styles."""
        return _STYLES.sub("", self.styled)

    def press(self, keys: str) -> None:
        os.write(self.ours, keys.encode())

    def resize(self, columns: int, lines: int) -> None:
        self.screen.resize(lines, columns)
        self._set_size(columns, lines)
        os.killpg(self.process.pid, signal.SIGWINCH)  # this terminal controls no process

    def ended(self) -> tuple[int, bool]:
        """The exit status, and whether the terminal has its original modes."""
        self._read_until(lambda: self.process.poll() is not None)
        while select.select([self.ours], [], [], 0)[0]:
            self._read()
        return self.process.wait(0), termios.tcgetattr(self.theirs) == self.before

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.ours)
        os.close(self.theirs)

    @property
    def _display(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def _read_until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + TIMEOUT
        while not is_so():
            if time.monotonic() > deadline:
                raise TimeoutError(f"not shown in time:\n{self._display}\n{self.raw!r}")
            if select.select([self.ours], [], [], 0.1)[0]:
                self._read()

    def _read(self) -> None:
        data = os.read(self.ours, 65536)
        self.raw += data
        self._stream.feed(data)

    def _set_size(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
