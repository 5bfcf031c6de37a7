"""One direction of the relay: reads, cuts into lines, and has the relay decide and write, on a plain thread and raw
file descriptors.

Threads, not asyncio: a read, a decision and a write take some 20 microseconds, and a turn of an event loop as long
again; a thread that waits for a slow peer stops only its own direction; and nothing loads asyncio, half of a start.

Nothing is read until everything before it is written and recorded, or soon will be, so a peer that stops reading stops
the other from being read.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from acp_proxy.decisions.effects import Forward, RelayEffect
from acp_proxy.protocol.framing import LineFramer, split_lines
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.relay import pipes

READ_SIZE = 64 * 1024
"""The bytes of one read. Larger reads pass malloc's mmap threshold, and double the CPU."""
LONG_READ_SIZE = 32 * READ_SIZE
"""Bytes per read within a long line: more than any pipe holds, and so much that malloc maps it. What a line was read
into then goes back to the system when the line is put together."""
LONG_LINE_SIZE = 1024 * 1024
"""From so many bytes of a line on, more is read at once."""
LINE_LIMIT = 256 * 1024 * 1024
"""The most bytes of a line that are held in memory. A longer one passes unread and unrecorded: no agent of today sends
one, and memory must end somewhere."""


class RelayInterface(Protocol):
    """What a pump needs of the relay. See ``Relay`` for the methods."""

    pauses_agent: bool
    """Whether the agent must not be read until the past of a load is shown (``wait_while_paused``)."""

    def try_pass_to_client(self, data: bytes) -> bool: ...
    def try_pass_to_agent(self, data: bytes) -> bool: ...
    def pass_overlong_line(self, peer: Peer, beginning: bytes) -> AbstractContextManager[Callable[[bytes], None]]: ...
    def decide_on_lines(self, peer: Peer, lines: list[bytes]) -> list[RelayEffect]: ...
    def perform(self, effect: RelayEffect) -> Sequence[RelayEffect]: ...
    def wait_until_recorded(self) -> None: ...
    def record_soon(self) -> None: ...
    def note_activity(self) -> None: ...
    def wait_while_paused(self, peer: Peer) -> None: ...


class Pump:
    """Reads one peer and passes everything to the relay. ``on_end`` is called when the peer's output has ended.

    ``ended``: all of it has been processed. ``is_waiting_for_input``: the thread is waiting for input.
    """

    def __init__(self, peer: Peer, fd: int, relay: RelayInterface, on_end: Callable[[], None]) -> None:
        self.peer = peer
        self.ended = threading.Event()
        self.is_waiting_for_input = False
        self._fd = fd
        self._relay = relay
        self._try_pass = relay.try_pass_to_client if peer is Peer.AGENT else relay.try_pass_to_agent
        self._on_end = on_end
        self._framer = LineFramer()
        self._thread = threading.Thread(target=self._run, name=f"from the {peer.value}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def runs_on_thread(self, ident: int) -> bool:
        return self._thread.ident == ident

    def _run(self) -> None:
        relay, framer, try_pass = self._relay, self._framer, self._try_pass
        while True:
            if relay.pauses_agent:
                relay.wait_while_paused(self.peer)
            data = self._read(READ_SIZE if framer.unfinished_size < LONG_LINE_SIZE else LONG_READ_SIZE)
            is_whole = data.endswith(b"\n") and not framer.unfinished_size
            if is_whole and try_pass(data):  # the usual case
                continue
            if not data:
                break
            self._handle_data(data, tries_to_pass=not is_whole)  # if it was whole, it was refused above
            if framer.unfinished_size > LINE_LIMIT:
                self._pass_overlong_line()
        if last_line := framer.take_unfinished():
            self._perform_in_order(relay.decide_on_lines(self.peer, [last_line]))
        self.ended.set()
        self._on_end()

    def _read(self, size: int) -> bytes:
        self.is_waiting_for_input = True
        data = pipes.read(self._fd, size)
        self.is_waiting_for_input = False
        return data

    def _handle_data(self, data: bytes, *, tries_to_pass: bool) -> None:
        """Process the lines that the data of one read completes. ``tries_to_pass``: let them pass undecided if they
        may."""
        was_long = self._framer.unfinished_size >= LONG_LINE_SIZE
        data = self._framer.feed_joined(data)
        if data and not (tries_to_pass and self._try_pass(data)):
            self._perform_in_order(self._relay.decide_on_lines(self.peer, split_lines(data)))
        if self._framer.unfinished_size >= LONG_LINE_SIZE and not was_long:
            pipes.widen(self._fd)

    def _pass_overlong_line(self) -> None:
        """Pass a line that is too long to be held, up to its newline. Nothing else goes to the other peer meanwhile."""
        with self._relay.pass_overlong_line(self.peer, self._framer.peek_beginning()) as write:
            for part in self._framer.take_parts():
                write(part)
            end = 0
            while not end and (data := self._read(LONG_READ_SIZE)):
                end = data.find(b"\n") + 1
                write(data[:end] if end else data)
        if end:
            self._handle_data(data[end:], tries_to_pass=False)  # too rare to gain by it

    def _perform_in_order(self, effects: Sequence[RelayEffect]) -> None:
        """Perform what was decided, in order, once its entries are recorded: only a ``Forward`` with
        ``may_precede_recording`` may leave before."""
        pending = deque(effects)
        is_recorded = False
        while pending:
            effect = pending.popleft()
            if not (is_recorded or (isinstance(effect, Forward) and effect.may_precede_recording)):
                self._relay.wait_until_recorded()
                is_recorded = True
            if next_effects := self._relay.perform(effect):
                pending.extendleft(next_effects[::-1])
                is_recorded = False  # what was performed may have added entries
        self._relay.record_soon()
        self._relay.note_activity()
