"""A machine that is killed after its first, second, … write of a round; then it and another machine do whole rounds.

for end in killed(folder, url, key): ...    # in a new process; each time with stores and a shared place of its own
"""

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from acp_proxy.redaction.masking import Masking
from acp_proxy.tools.redact.redact_files import redact_stored
from acp_proxy.tools.sync.encryption import HistoryKey
from acp_proxy.tools.sync.membership import SyncMembership
from acp_proxy.tools.sync.object_store import SealedLogs
from acp_proxy.tools.sync.state_db import SyncState
from acp_proxy.tools.sync.sync_store import SyncStore
from tests.store.concurrent_writers import ROOT
from tests.stored import WholeStore, store_session
from tests.tools.sync.homes import Home
from tests.waiting import SECONDS

SECRET = "ghp_" + "a1B2" * 9
DELETED = "Is deleted there"
WRITES: list[tuple[Any, str]] = [
    *((SealedLogs, name) for name in ("create", "replace")),
    *(
        (SyncStore, name)
        for name in ("create", "append_turns", "mask", "delete", "set_soft_deleted", "set_title", "set_archived")
    ),
]
COMMIT: list[tuple[Any, str]] = [(SyncState, "commit")]
STEPS = 300
_PROCESSES: Any = multiprocessing.get_context("spawn" if sys.platform == "win32" else "fork")
_KILL = signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL


@dataclass(frozen=True)
class End:
    """``after``: the write after which the machine was killed; empty if the round came to its end. ``one``, ``two``:
    what the user said, by title. ``records``: how many there are. ``words``: whether deleted or masked ones are left.
    """

    after: str
    one: dict[str, list[str]]
    two: dict[str, list[str]]
    records: int
    words: bool


class Reopened(Home):
    """A machine that has joined."""

    def __init__(self, root: Path, url: str, key: HistoryKey) -> None:
        self.store, self.joined, self.logs = WholeStore(root), SyncMembership(root), SealedLogs(url, key)


def run_killed(folder: Path, url: str, shared: Path, *, commits: bool) -> Iterator[End]:
    """``shared``: the directory in which the place with this URL lies."""
    command = [sys.executable, "-m", __name__, str(folder), url, str(shared), "commits" if commits else ""]
    result = subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=10 * SECONDS, check=True
    )
    for line in result.stdout.splitlines():
        yield End(**json.loads(line))


def _prepare(folder: Path, url: str, key: HistoryKey, said: Connection) -> None:
    """Both have four sessions; then things happen on both, and ``two`` has published its own."""
    one, two = Home(folder / "one", url, key, "laptop"), Home(folder / "two", url, key, "desktop")
    for number, text in enumerate(("Grows there", DELETED, "Grows here", f"Is masked there {SECRET}")):
        store_session(one.store, f"s{number}", (text, []))
    for home in (one, two, one):
        home.sync()
    two.say("Grows there", "There")
    [row] = two.store.find_titled(DELETED)
    two.store.delete_listed(row, soft=False)
    [row] = two.store.find_titled("Grows here")
    two.store.set_listed_title(row, "Grows here and is renamed there")
    [row] = [row for row in two.store.list_newest() if (row.title or "").startswith("Is masked")]
    assert redact_stored(two.store, two.store.find_path(row), Masking(), dry_run=False)
    store_session(two.store, "1", ("Begins there", []))
    two.sync()
    one.say("Grows here", "Here")
    store_session(one.store, "1", ("Begins here", []))


def _kill_after(number: int, writes: list[tuple[Any, str]], said: Connection) -> None:
    """Kill this process after the write with this number, from 1."""
    left = number

    def killing(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **named: Any) -> Any:
            nonlocal left
            result = call(*args, **named)
            left -= 1
            if left == 0:
                said.send(name)
                os.kill(os.getpid(), _KILL)
            return result

        return counted

    for where, name in writes:
        setattr(where, name, killing(f"{where.__name__}.{name}", getattr(where, name)))


def _end(folder: Path, url: str, key: HistoryKey, after: str) -> End:
    one, two = (Reopened(folder / name, url, key) for name in ("one", "two"))
    for home in (one, two, one, two):
        home.sync()
    found, records = b"", 0
    for machine in one.logs.list_machines():
        number = 1
        while (data := one.logs.get(machine, number)) is not None:
            found, number, records = found + data, number + 1, records + 1
    for home in (one, two):
        found += b"".join(path.read_bytes() for path in home.store.root.glob("transcripts/*/*.jsonl"))
    words = SECRET.encode() in found or DELETED.encode() in found
    return End(after, one.prompts(), two.prompts(), records, words)


def _in_a_child(act: Callable[[Connection], None]) -> tuple[str, bool]:
    """What it sends through the connection that it gets, and whether it came to its end. The engine's threads do not
    survive a fork, so all that uses it is done in children."""
    heard, said = _PROCESSES.Pipe(duplex=False)
    process = _PROCESSES.Process(target=act, args=(said,))
    process.start()
    said.close()
    try:
        text = heard.recv()
    except EOFError:
        text = ""
    process.join()
    assert process.exitcode in (0, -_KILL, _KILL), process.exitcode
    return text, process.exitcode == 0


def _round(here: Path, url: str, key: HistoryKey, number: int, writes: list[tuple[Any, str]], said: Connection) -> None:
    one = Reopened(here / "one", url, key)
    _kill_after(number, writes, said)
    one.sync()


def _rounds_after(here: Path, url: str, key: HistoryKey, after: str, said: Connection) -> None:
    said.send(json.dumps(asdict(_end(here, url, key, after))))


def main() -> None:
    folder, url, shared, commits = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4]
    key, writes = HistoryKey.create(), WRITES + (COMMIT if commits else [])
    (shared / "0").mkdir()
    _in_a_child(partial(_prepare, folder / "0", f"{url}/0", key))
    for number in range(1, STEPS):
        here, there = folder / str(number), f"{url}/{number}"
        shutil.copytree(folder / "0", here)
        shutil.copytree(shared / "0", shared / str(number))
        after, got_through = _in_a_child(partial(_round, here, there, key, number, writes))
        print(_in_a_child(partial(_rounds_after, here, there, key, after))[0], flush=True)
        if got_through:
            return
    raise AssertionError("the round has too many writes")


if __name__ == "__main__":
    main()
