"""The command on a real terminal of any width."""

import os
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from acp_proxy.relay import pipes
from tests import forked
from tests.posix import fcntl, pty, termios

_LINES = 24
_SETTINGS = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "PAGER", "LESS", "COLORTERM", "LC_ALL")


def run_on_terminal(
    *words: str, columns: int = 80, status: int = 0, settings: Mapping[str, str] | None = None, answer: str = ""
) -> str:
    """What `acp-proxy` prints on a terminal; without a pager, unless a setting names one. `answer`: what is typed."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _LINES, columns, 0, 0))
    inherited = {name: value for name, value in os.environ.items() if name not in _SETTINGS}
    environment = inherited | {"TERM": "xterm-256color", "ACP_PROXY_PAGER": "", "TZ": "UTC", **(settings or {})}
    command = [sys.executable, "-m", "acp_proxy", *words]
    os.write(ours, answer.encode())
    with forked.start(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        text = b"".join(iter(lambda: pipes.read(ours, 65536), b"")).decode()
    os.close(ours)
    assert process.returncode == status, text
    return text.replace("\r\n", "\n")


def run_with_stderr_on_terminal(*words: str, status: int = 0) -> tuple[str, str]:
    """What `acp-proxy` prints into a pipe, and what it shows meanwhile on a terminal as stderr."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "acp_proxy", *words]
    with forked.start(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        told = b"".join(iter(lambda: pipes.read(ours, 65536), b"")).decode()
        assert process.stdout is not None
        results = process.stdout.read().decode()
    os.close(ours)
    assert process.returncode == status, told
    return results, told


def write_pager(folder: Path, program: str) -> str:
    """A pager written in Python, as the value of a setting."""
    path = folder / "a pager.py"
    path.write_text(program)
    return f'"{sys.executable}" "{path}"'
