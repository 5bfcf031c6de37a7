"""Single key presses, without echo, while a conversation is on the terminal.

The terminal's modes are set back on every exit: at the end, at Ctrl-C, or at a signal that ends the process. Where
stdin is not a terminal, or cannot be read this way (Windows), there are no keys, only waiting.
"""

import os
import re
import select
import signal
import sys
import time
from collections import deque
from types import FrameType, TracebackType
from typing import Any, Self

PAUSE, NEXT, PREVIOUS, QUIT = "pause", "next", "previous", "quit"

_KEYS = {
    b" ": PAUSE,
    b"n": NEXT,
    b"\x1b[C": NEXT,
    b"\x1bOC": NEXT,
    b"p": PREVIOUS,
    b"\x1b[D": PREVIOUS,
    b"\x1bOD": PREVIOUS,
}
_KEYS |= {b"q": QUIT, b"\x04": QUIT}
_KEY = re.compile(rb"\x1b[\[O][0-9;]*[A-Za-z~]|.", re.DOTALL)
_ENDING = ("SIGTERM", "SIGHUP")
_READ_SIZE = 1024


class Keyboard:
    def __init__(self, *, wanted: bool) -> None:
        self._wanted = wanted
        self._fd: int | None = None
        self._modes: list[Any] = []
        self._waiting: deque[str] = deque()
        self._handlers: dict[int, Any] = {}

    @property
    def is_there(self) -> bool:
        return self._fd is not None

    def __enter__(self) -> Self:
        if self._wanted and os.name == "posix" and sys.stdin.isatty():
            import termios

            self._fd = sys.stdin.fileno()
            self._modes = termios.tcgetattr(self._fd)
            for name in _ENDING:
                self._handle(name, _end)
            self._handle("SIGCONT", lambda *_: self._listen())  # the shell used the terminal in the meantime
            self._listen()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._fd is not None:
            import termios

            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._modes)
            for number, handler in self._handlers.items():
                signal.signal(number, handler)

    def wait(self, seconds: float | None) -> str | None:
        """The next key with a meaning; None at the timeout. Without a timeout, wait for a key."""
        if self._fd is None:
            time.sleep(seconds or 0)
            return None
        until = time.monotonic() + seconds if seconds is not None else None
        while not self._waiting:
            left = max(until - time.monotonic(), 0.0) if until is not None else None
            if not select.select([self._fd], [], [], left)[0]:
                return None
            data = os.read(self._fd, _READ_SIZE)
            found = (_KEYS.get(key) for key in _KEY.findall(data))
            self._waiting.extend([key for key in found if key is not None] if data else [QUIT])
        return self._waiting.popleft()

    def _listen(self) -> None:
        import termios
        import tty

        if self._fd is not None:
            tty.setcbreak(self._fd, termios.TCSADRAIN)

    def _handle(self, name: str, handler: Any) -> None:
        number = getattr(signal, name)
        self._handlers[number] = signal.signal(number, handler)


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
