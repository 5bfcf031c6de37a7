"""If a peer stops reading, the proxy stops reading the other one: memory stays bounded, and nothing is lost."""

import hashlib
import json
import os
import re
import select
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.client import prompt_params
from tests.end_to_end.proxied import PROXY
from tests.pipes import MORE_THAN_A_PIPE_HOLDS
from tests.waiting import SECONDS

AGENT = Path(__file__).parents[2] / "fixtures" / "programs" / "flooding.py"
MEGABYTE = 1_000_000
GROWTH = 2 * MEGABYTE
"""Memory that a peer that does not read may cost, however much waits for it."""
IN_THE_PIPES = 2 * MORE_THAN_A_PIPE_HOLDS
"""More than the two pipes on the way and the reads in progress hold."""
STEADY = MEGABYTE // 8
MOST_TURNS = 500
READ_SIZE = 1024 * 1024
TICK = json.dumps({"jsonrpc": "2.0", "method": "_tick", "params": {"text": "x" * 1000}}).encode() + b"\n"
THREADS = ("main", "from the editor", "from the agent", "store", "watch", "signals")
"""The threads of a proxy; the last one starts last."""
TICKS = 200
"""So many make the input of the agent exceed the pipes."""


class Flooded:
    """The proxy in front of an agent that floods. Its output is read only on request."""

    def __init__(self, store: Path) -> None:
        # With a list of ours, a title would come between the updates of the first turn and its answer.
        command = [*PROXY, "run", "--store", str(store), "--list", "agent", sys.executable, str(AGENT)]
        self._index = store / "index.sqlite3"
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self._stdout = self.process.stdin.fileno(), self.process.stdout.fileno()
        self._rest = b""
        self._turn = 1
        self.ticks = 0
        """The ticks sent so far."""
        self._changed = threading.Condition()
        self._heard = self._written = 0
        self._listener = threading.Thread(target=self._listen_to_stderr, daemon=True)
        self._listener.start()

    def send(self, id: int, method: str, params: Any) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\n")

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            assert select.select([], [self.stdin], [], SECONDS)[1], "nobody reads"
            view = view[os.write(self.stdin, view[: select.PIPE_BUF]) :]

    def begin(self) -> None:
        """Open a session, and prompt it until every module is loaded."""
        self.send(0, "initialize", {"protocolVersion": 1})
        self.send(1, "session/new", {"cwd": "/", "mcpServers": []})
        self._read_line()
        self._read_line()
        memory: list[int] = []
        while not self._is_complete() or len(memory) < 3 or memory[-1] - min(memory[-3:]) > STEADY:
            assert len(memory) < MOST_TURNS, memory
            self.start_turn(2 * MEGABYTE)
            self.exchange_ticks()
            self.read_turn()
            memory.append(self.memory())

    def start_turn(self, size: int, *, deaf: bool = False) -> None:
        self._turn += 1
        self.send(self._turn, "session/prompt", prompt_params("flood", f"deaf {size}" if deaf else str(size)))

    def exchange_ticks(self) -> int:
        """Send more ticks than the pipes hold until the agent has read them. The bytes it had written by then."""
        self.write(TICK * TICKS)
        self.ticks += TICKS
        return self.wait_until_heard()

    def write_until_nobody_reads(self, data: bytes) -> int:
        """Write the data repeatedly until nothing more is taken. The number of bytes taken."""
        written = 0
        while written < 2 * IN_THE_PIPES and select.select([], [self.stdin], [], 0.5)[1]:
            piece = data[written % len(data) :][: select.PIPE_BUF]
            written += os.write(self.stdin, piece)
        return written

    def _read_line(self) -> bytes:
        while b"\n" not in self._rest:
            self._rest += self._read()
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def read_turn(self) -> int:
        """Read up to the answer of the last prompt, checking that everything is what the agent wrote. Its size."""
        digest, size = hashlib.sha256(), 0
        start = b'{"jsonrpc": "2.0", "id": %d,' % self._turn
        while True:
            complete, newline, self._rest = self._rest.rpartition(b"\n")
            data = complete + newline
            last = data[data.rfind(b"\n", 0, -1) + 1 :]
            is_end = last.startswith(start)
            told = data[: -len(last)] if is_end else data
            digest.update(told)
            size += len(told)
            if is_end:
                break
            self._rest += self._read()
        meta = json.loads(last)["result"]["_meta"]
        assert (size, digest.hexdigest()) == (meta["bytes"], meta["sha256"])
        return size

    def wait_until_heard(self) -> int:
        """Wait until the agent has read every tick. The bytes it had written by then."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._heard == self.ticks, SECONDS), "the agent does not hear"
            return self._written

    def memory(self) -> int:
        return psutil.Process(self.process.pid).memory_info().rss

    def end(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(SECONDS)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(SECONDS)
        self._listener.join(SECONDS)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()

    def _is_complete(self) -> bool:
        """The thread for signals starts after the last import. The index is opened once the first turn is on the disk,
        which may take time.
        """
        return psutil.Process(self.process.pid).num_threads() >= len(THREADS) and self._index.exists()

    def _read(self) -> bytes:
        assert select.select([self._stdout], [], [], SECONDS)[0], "nothing comes"
        data = os.read(self._stdout, READ_SIZE)
        assert data, "the output has ended"
        return data

    def _listen_to_stderr(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            told = re.fullmatch(rb"heard (\d+), written (\d+)\n", line)
            if told is not None:
                with self._changed:
                    self._heard, self._written = int(told[1]), int(told[2])
                    self._changed.notify_all()


@pytest.fixture
def flooded(tmp_path: Path) -> Iterator[Flooded]:
    made = Flooded(tmp_path / "store")
    try:
        made.begin()
        yield made
    finally:
        made.close()


def test_a_slow_editor_costs_no_memory_loses_nothing_and_can_still_send(flooded: Flooded) -> None:
    before = flooded.memory()
    flooded.start_turn(200 * MEGABYTE)

    written = [0]
    while written[-1] == 0 or written[-1] != written[-2]:
        assert len(written) < MOST_TURNS, written
        written.append(flooded.exchange_ticks())

    assert written[-1] < IN_THE_PIPES
    assert flooded.memory() - before < GROWTH
    assert flooded.read_turn() >= 200 * MEGABYTE
    assert flooded.end() == 0


def test_a_slow_agent_costs_no_memory_loses_nothing_and_can_still_send(flooded: Flooded) -> None:
    before = flooded.memory()
    flooded.start_turn(20 * MEGABYTE, deaf=True)
    waiting = flooded.write_until_nobody_reads(TICK)
    assert waiting < IN_THE_PIPES
    assert flooded.memory() - before < GROWTH

    assert flooded.read_turn() >= 20 * MEGABYTE
    flooded.write(TICK[waiting % len(TICK) :] if waiting % len(TICK) else b"")
    flooded.ticks += -(-waiting // len(TICK))
    flooded.wait_until_heard()
    assert flooded.end() == 0
