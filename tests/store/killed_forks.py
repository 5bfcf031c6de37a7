"""Processes that are killed before the first, the second, … call that changes a store, until one finishes.

for killed in forking(folder): ...    # each with a store of its own
"""

import importlib
import json
import multiprocessing
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

_CHANGING = ("write", "pwrite", "truncate", "link", "unlink", "rename", "replace", "fsync", "mkdir")
_PROCESSES: Any = multiprocessing.get_context("spawn" if sys.platform == "win32" else "fork")
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
    left, end = number, signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL  # Windows' SIGTERM is one

    def killing(call: Callable[..., Any], changes: Callable[..., bool]) -> Callable[..., Any]:
        def counted(*args: Any, **named: Any) -> Any:
            nonlocal left
            left -= changes(*args)
            if left == 0:
                os.kill(os.getpid(), end)
            return call(*args, **named)

        return counted

    where: Any = os
    if sys.platform == "win32":
        where = importlib.import_module("acp_proxy.transcript.windows_files")
    opening = "open_shared" if sys.platform == "win32" else "open"
    setattr(where, opening, killing(getattr(where, opening), lambda path, flags, *_: bool(flags & os.O_CREAT)))
    for name in _CHANGING:
        if hasattr(os, name):
            setattr(os, name, killing(getattr(os, name), lambda *_: True))


def run_to_end(act: Callable[..., None], *given: Any) -> bool:
    """Do something in a process of its own, which is perhaps killed; whether it came to its end."""
    process = _PROCESSES.Process(target=_act_and_exit, args=(act, *given))
    process.start()
    process.join()
    return bool(process.exitcode == 0)


def _act_and_exit(act: Callable[..., None], *given: Any) -> None:
    act(*given)
    os._exit(0)  # what Python does at its end is not to be killed


def _fork_and_tell(root: Path, told: Path, number: int) -> None:
    """``told``: gets what was written."""
    store, tell, said = ProxyStore(root), os.write, os.open(told, os.O_WRONLY | os.O_CREAT)
    kill_before(number)

    def tell_written(words: str) -> None:
        tell(said, words.encode() + b"\n")

    fork(store, tell_written)


def main() -> None:
    folder = Path(sys.argv[1])
    number, got_through = 0, False
    while not got_through:
        number += 1
        root = folder / str(number)
        transcript_lines.store_lines(
            ProxyStore(root), AGENT, "p", *(prompt_line(words, session="p") for words in PARENTS)
        )
        told = folder / f"told {number}"
        got_through = run_to_end(_fork_and_tell, root, told, number)
        written = told.read_text().splitlines()
        print(json.dumps([str(root), written, got_through]))


if __name__ == "__main__":
    main()
