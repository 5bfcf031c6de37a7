"""Sync, with a folder as the shared place: what it asks and stores, how soon a turn is there, and what it costs `run`.

`sync`: a process waits for the next exchange meanwhile.
"""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from acp_proxy.store.proxy_store import ProxyStore
from acp_proxy.tools.sync.encryption import HistoryKey
from acp_proxy.tools.sync.membership import SyncMembership, SyncSettings
from acp_proxy.tools.sync.object_store import SealedLogs
from benchmarks import stores
from benchmarks.figures import BYTES, COUNT, SECONDS, Reading, Row, measured
from benchmarks.rounds import Numbers, Task, interleaved
from benchmarks.subjects import PROXY, Effort

SYNC = "acp-proxy, sync"
SIZES = (100, 1_000)
TOKENS = 4_000
PINGS, TURNS = 5_000, 200
_PATIENCE = 60.0


@dataclass(frozen=True)
class Machine:
    """A store that is synchronized."""

    root: Path
    place: Path
    key: Path

    @classmethod
    def joined(cls, root: Path, place: Path) -> "Machine":
        """The folder with the key lies beside the shared place."""
        key = place.with_suffix(".key")
        if not key.exists():
            HistoryKey.create().write(key)
        place.mkdir(exist_ok=True)
        machine = cls(root, place, key)
        ProxyStore(root)
        SyncMembership(root).join(SyncSettings(place.as_uri(), str(key)), root.name)
        return machine

    def exchange(self) -> Numbers:
        """One round, in this process."""
        logs = SealedLogs(self.place.as_uri(), HistoryKey.read(self.key))
        began = time.perf_counter()
        SyncMembership(self.root).do_round(logs)
        return {"seconds": time.perf_counter() - began, "requests": logs.requests}

    def rested(self, minutes: float) -> None:
        """The last round began so long ago."""
        lock, at = self.root / "sync" / "lock", time.time() - 60 * minutes
        lock.touch()
        os.utime(lock, (at, at))

    def records(self) -> int:
        return sum(path.is_file() for path in self.place.rglob("*"))

    def sessions(self) -> int:
        return sum(1 for _ in self.root.glob("transcripts/*/*.jsonl"))


def run(effort: Effort) -> Iterator[Row]:
    rounds = effort.rounds(11)
    with effort.folder() as folder:
        yield soon(effort, folder, rounds)
    with effort.folder() as folder:
        yield from cost(effort, folder, rounds)
    with effort.folder() as folder:
        yield space(effort, folder)
    with effort.folder() as folder:
        yield from nothing_new(folder, rounds, effort)


def soon(effort: Effort, folder: Path, rounds: int) -> Row:
    """A turn on its way, when a minute has passed since the last exchange on both machines."""
    one, two = (Machine.joined(folder / name, folder / "shared") for name in ("one", "two"))
    seen: dict[str, list[float]] = {"to the shared place": [], "from there to the other machine": []}
    there, here = seen.values()
    for number in range(rounds):
        stores.small(ProxyStore(one.root), stores.AGENT_FOLDER, number)
        there.append(in_background(effort, one, one.records))
        here.append(in_background(effort, two, two.sessions))
    return measured("a turn: from the start of the process", SECONDS, seen)


def in_background(effort: Effort, machine: Machine, count: Callable[[], int]) -> float:
    """Start the process as ``run`` does. Returns the seconds until the count has grown."""
    machine.rested(minutes=1)
    before, began = count(), time.perf_counter()
    command = [effort.built.python, "-P", "-m", "acp_proxy.tools.sync.background", str(machine.root)]
    subprocess.run(command, env=effort.environment(), check=True)
    while count() == before:
        if time.perf_counter() - began > _PATIENCE:
            raise RuntimeError("a turn was not exchanged in a minute")
        time.sleep(0.001)
    return time.perf_counter() - began


def cost(effort: Effort, folder: Path, rounds: int) -> Iterator[Row]:
    """What ``run`` itself takes."""
    machine = Machine.joined(folder / "store", folder / "shared")

    def talked(said: tuple[object, ...], store: Path) -> Numbers:
        machine.rested(minutes=0)
        return effort.talk(PROXY, said, [1, 200], store)

    talks: tuple[tuple[tuple[object, ...], Reading], ...] = (
        (("start",), Reading("first answer", SECONDS, "answered", PROXY)),
        (("ping", PINGS), Reading("round trip, p50", SECONDS, "p50", PROXY)),
        (("turn", TURNS), Reading("a whole turn: prompt, update, answer", SECONDS, "p50", PROXY)),
        (("rest",), Reading("memory at rest", BYTES, "rest", PROXY)),
    )
    for said, reading in talks:
        tasks: dict[str, Task] = {
            PROXY: partial(talked, said, folder / "alone"),
            SYNC: partial(talked, said, machine.root),
        }
        yield reading.row(interleaved(tasks, rounds, effort.chance))


def space(effort: Effort, folder: Path) -> Row:
    """What a streamed answer takes: real prose, about a token every twenty milliseconds."""
    answer = stores.prose(TOKENS)
    machine = Machine.joined(folder / "store", folder / "shared")
    transcript = stores.long(machine.root, stores.make_answer(answer, effort.chance))
    machine.exchange()
    samples = {
        "text": [float(sum(len(token.encode()) for token in answer))],
        "transcript": [float(transcript.stat().st_size)],
        "shared place": [float(sum(path.stat().st_size for path in machine.place.rglob("*") if path.is_file()))],
    }
    return measured(f"an answer of {TOKENS:,} tokens, a chunk each", BYTES, samples, "text")


def nothing_new(folder: Path, rounds: int, effort: Effort) -> Iterator[Row]:
    """A round with nothing new on two machines, by the number of sessions."""
    machines: dict[str, Machine] = {}
    for size in SIZES:
        one, two = (Machine.joined(folder / f"{name}{size}", folder / f"shared{size}") for name in ("one", "two"))
        for number in range(size):
            stores.small(ProxyStore(one.root), stores.AGENT_FOLDER, number)
        for machine in (one, two, one):
            machine.exchange()
        machines[f"{size:,}"] = two
    tasks: dict[str, Task] = {size: machine.exchange for size, machine in machines.items()}
    seen = interleaved(tasks, rounds, effort.chance)
    yield Reading("nothing new, two machines: requests", COUNT, "requests").row(seen, sized=True)
    yield Reading("nothing new, two machines", SECONDS, "seconds", f"{SIZES[0]:,}").row(seen, sized=True)
