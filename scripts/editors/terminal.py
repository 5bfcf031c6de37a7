"""A terminal that a program draws on: typed into and read through tmux. Every wait has a limit."""

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

COLUMNS, LINES = 120, 48
PATIENCE = 600.0
"""Seconds: the first start of an agent of 350 MB on a busy machine."""
_PAUSE = 0.2  # seconds between two looks
_STILL = 1.0  # seconds without a change, after which a screen is complete


class NotShown(Exception):
    """The screen did not show what it should."""


class Terminal:
    """One window of a tmux server of its own; use it in a `with`, which ends the server."""

    def __init__(self, base: Path) -> None:
        self._socket = str(base / "tmux")

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self, command: Sequence[str], cwd: Path) -> None:
        size = ["-x", str(COLUMNS), "-y", str(LINES)]
        begin = ["set-option", "-g", "remain-on-exit", "on", ";", "new-session", "-d", *size, "-c", str(cwd)]
        self._tmux("start-server", ";", *begin, "--", *command)

    def close(self) -> None:
        self._tmux("kill-server", check=False)

    def press(self, *keys: str) -> None:
        """Keys by tmux's names: Enter, C-r, …"""
        self._tmux("send-keys", *keys)

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)

    def screen(self) -> str:
        """What is shown, or was shown last."""
        return "\n".join(line.rstrip() for line in self._tmux("capture-pane", "-p", check=False).splitlines())

    def process(self) -> psutil.Process:
        return psutil.Process(int(self._tmux("display-message", "-p", "#{pane_pid}")))

    def wait_for(self, *texts: str) -> str:
        """Wait until the screen shows all of them, and has come to rest."""
        self.wait_until(lambda screen: all(text in screen for text in texts), f"the screen does not show {texts}")
        return self._at_rest()

    def wait_until(self, holds: Callable[[str], bool], otherwise: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not holds(self.screen()):
            if self._tmux("display-message", "-p", "#{pane_dead}", check=False) != "0":
                raise NotShown(f"{otherwise}, and the editor has ended")
            if time.monotonic() > deadline:
                raise NotShown(otherwise)
            time.sleep(_PAUSE)

    def _at_rest(self) -> str:
        """The screen, when it has not changed for a while; at the limit, as it is: some have a clock."""
        deadline = time.monotonic() + _STILL * 5
        before, since = self.screen(), time.monotonic()
        while time.monotonic() < min(since + _STILL, deadline):
            time.sleep(_PAUSE)
            if (now := self.screen()) != before:
                before, since = now, time.monotonic()
        return before

    def _tmux(self, *words: str, check: bool = True) -> str:
        environment = {**os.environ, "LC_ALL": "C.UTF-8"}
        environment.pop("TMUX", None)
        done = subprocess.run(
            ["tmux", "-S", self._socket, "-f", os.devnull, *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if check and done.returncode:
            raise NotShown(f"there is no terminal: {done.stderr.strip()}")
        return done.stdout.rstrip("\n")
