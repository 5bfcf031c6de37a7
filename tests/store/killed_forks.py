"""Processes that are killed before the first, the second, … call that changes a store, until one finishes.

for killed in forking(folder): ...    # each with a store of its own
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acp_proxy.store.proxy_store import ProxyStore
from acp_proxy.transcript import file_format
from tests.store import transcript_lines
from tests.store.concurrent_writers import AGENT, ROOT
from tests.store.transcript_lines import answer, prompt_line
from tests.waiting import SECONDS

_CHANGING = ("write", "pwrite", "copy_file_range", "truncate", "link", "unlink", "rename", "replace", "fsync", "mkdir")
PARENTS = [f"parent {number} " + "x" * 300 for number in range(60)]
OWN = ["own 1", "own 2"]


@dataclass(frozen=True)
class Killed:
    """``written``: the fork's own messages that were written before."""

    root: Path
    written: list[str]
    got_through: bool


def kill_while_forking(folder: Path) -> Iterator[Killed]:
    """Fork a session and continue the fork, once for each moment of a kill."""
    command = [sys.executable, "-m", __name__, str(folder)]
    result = subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=SECONDS, check=True
    )
    for line in result.stdout.splitlines():
        root, written, got_through = json.loads(line)
        yield Killed(Path(root), written, got_through)


def fork(store: ProxyStore, tell: Callable[[str], None]) -> None:
    """Fork the session and continue the fork, telling each of its messages once it is written."""
    transcript = store.open_to_append(
        AGENT, transcript_lines.header("f", at=1, origin=file_format.PARTIAL), is_new=False, parent_id="p"
    )
    for words in OWN:
        transcript.append(prompt_line(words, session="f") + answer())
        tell(words)
    transcript.close()


def kill_before(number: int) -> None:
    """Kill this process before the call with this number, counted from 1, that changes a file."""
    left = number

    def killing(call: Callable[..., Any], changes: Callable[..., bool]) -> Callable[..., Any]:
        def counted(*args: Any, **named: Any) -> Any:
            nonlocal left
            left -= changes(*args)
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **named)

        return counted

    os.open = killing(os.open, lambda path, flags, *_: bool(flags & os.O_CREAT))
    for name in _CHANGING:
        setattr(os, name, killing(getattr(os, name), lambda *_: True))


def _run(root: Path, said: int, number: int) -> None:
    """Run in a new process; the file descriptor ``said`` gets what was written."""
    store, tell = ProxyStore(root), os.write
    kill_before(number)

    def written(words: str) -> None:
        tell(said, words.encode() + b"\n")

    fork(store, written)
    os._exit(0)


def main() -> None:
    folder = Path(sys.argv[1])
    number, got_through = 0, False
    while not got_through:
        number += 1
        root = folder / str(number)
        transcript_lines.store_lines(
            ProxyStore(root), AGENT, "p", *(prompt_line(words, session="p") for words in PARENTS)
        )
        heard, said = os.pipe()
        process = os.fork()
        if not process:
            _run(root, said, number)
        os.close(said)
        with os.fdopen(heard) as file:
            written = file.read().splitlines()
        got_through = os.waitpid(process, 0)[1] == 0
        print(json.dumps([str(root), written, got_through]))


if __name__ == "__main__":
    main()
