"""How soon `acp-proxy browse` shows its list, imports included: `python -m benchmarks.first_screen`.

The index is complete before; each round starts the command on a new terminal of 80 columns and 24 lines.
"""

import argparse
import fcntl
import os
import pty
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

from acp_proxy.cli.open_store import STORE_VARIABLE
from acp_proxy.relay import pipes
from acp_proxy.sessions.command_store import CommandStore
from benchmarks import stores

_WHOLE_SCREEN = b"\x1b[?1049h"
"""Written with the first list, and again by prompt_toolkit, which then reads keys."""


def main() -> None:
    asked = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    asked.add_argument("--sessions", type=int, default=5_000, metavar="N")
    asked.add_argument("--rounds", type=int, default=20, metavar="N")
    given = asked.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = stores.filled(Path(folder) / "store", given.sessions)
        newest = (CommandStore(root).list_all()[0].title or "").encode()
        rounds = [_round(root, newest) for _ in range(given.rounds)]
    for what, times in zip(("the list is shown", "keys are read"), zip(*rounds, strict=True), strict=True):
        median, least, most = (1000 * each for each in (statistics.median(times), min(times), max(times)))
        print(f"{given.sessions} sessions: {what} after {median:.0f} ms ({least:.0f} to {most:.0f} ms)")


def _round(root: Path, newest: bytes) -> tuple[float, float]:
    """The seconds until the list is shown, and until keys are read."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command, environment = [sys.executable, "-m", "acp_proxy", "browse"], os.environ | {STORE_VARIABLE: str(root)}
    start = time.perf_counter()
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        shown, text = 0.0, b""
        while text.count(_WHOLE_SCREEN) < 2 and (piece := pipes.read(ours, 65536)):
            text += piece
            if not shown and newest in text:
                shown = time.perf_counter() - start
        keys = time.perf_counter() - start
        os.write(ours, b"\x03")
        while pipes.read(ours, 65536):
            pass
    os.close(ours)
    if process.returncode or not shown:
        raise SystemExit(text.decode(errors="replace"))
    return shown, keys


if __name__ == "__main__":
    main()
