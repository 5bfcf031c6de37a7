"""One direction of the relay: reads, cuts into lines, decides and writes, on a plain thread and raw file descriptors.

Nothing is read until everything before it is written and recorded, so a peer that stops reading stops the other from
being read. A thread that hangs in the store can be replaced: ``take_over`` starts another one with the remaining work,
and the old one ends when it returns.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from acp_proxy.protocol.framing import LineFramer, cut
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.proxy.effects import Acting, Forward
from acp_proxy.run import output

READ_SIZE = 64 * 1024  # larger reads pass malloc's mmap threshold, and double the CPU
LONG_READ = 6 * READ_SIZE
"""Bytes per read within a long line; each read is one piece to decide on. 512 KiB is no faster, and uses the memory of
several pieces if lines of 2 MB follow each other."""
LONG_LINE = 1024 * 1024
"""A line of more bytes than this may pass in pieces, before its end is read."""


class Performer(Protocol):
    """What a pump needs of the relay. See ``Relay`` for the methods."""

    is_full: bool
    """Whether the agent must not be read until there is room (``wait_for_room``)."""

    def pass_to_client(self, lines: bytes) -> bool: ...
    def pass_to_agent(self, lines: bytes) -> bool: ...
    def open_long_line(self, peer: Peer, data: bytes) -> list[Acting] | None: ...
    def decide_piece(self, peer: Peer, data: bytes, *, last: bool) -> list[Acting]: ...
    def decide_lines(self, peer: Peer, lines: list[bytes]) -> list[Acting]: ...
    def perform(self, effect: Acting) -> Sequence[Acting]: ...
    def instead(self, effect: Acting) -> Sequence[Acting]: ...
    def flush(self) -> None: ...
    def wait_for_room(self, peer: Peer) -> None: ...


class Pump:
    """Reads one peer and passes everything to the relay. ``on_end`` is called when the peer's output has ended.

    ``ended``: all of it has been processed. ``is_reading``: the thread is waiting for input.
    """

    def __init__(self, peer: Peer, fd: int, relay: Performer, on_end: Callable[[], None]) -> None:
        self.peer = peer
        self.ended = threading.Event()
        self.is_reading = False
        self._fd = fd
        self._relay = relay
        self._passes = relay.pass_to_client if peer is Peer.AGENT else relay.pass_to_agent
        self._on_end = on_end
        self._framer = LineFramer()
        self._todo: deque[Acting] = deque()
        self._flushed = True
        self._in_line = False
        self._doing: Acting | None = None
        self._turn = 0
        self._thread = threading.Thread()

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(
            target=self._run, args=(self._turn,), name=f"from the {self.peer.value}", daemon=True
        )
        self._thread.start()

    def is_thread(self, ident: int) -> bool:
        """Whether this pump's current thread has this id."""
        return self._thread.ident == ident

    def take_over(self) -> None:
        """Replace the thread, which hangs in the store, by a new one."""
        self._turn += 1
        if self._doing is not None:
            self._put_first(self._relay.instead(self._doing))
        self.start()

    def _run(self, turn: int) -> None:
        relay, framer, passes = self._relay, self._framer, self._passes
        while self._do_all(turn):
            if relay.is_full and not self._in_line:  # within a long line, waiting would never end
                relay.wait_for_room(self.peer)
            self.is_reading = True
            data = output.read(self._fd, LONG_READ if self._in_line else READ_SIZE)
            self.is_reading = False
            is_whole = data.endswith(b"\n") and not (framer.waiting or self._in_line)
            if is_whole and passes(data):  # the usual case
                continue
            if not data:
                self._put_rest(turn)
                return
            self._take(turn, data, may_pass=not is_whole)

    def _take(self, turn: int, data: bytes, *, may_pass: bool) -> None:
        """Process the data of one read."""
        if self._in_line:
            data = self._put_piece(data)
        was_long = self._framer.waiting > LONG_LINE
        lines = self._framer.take(data)
        if lines and not (may_pass and not self._todo and self._passes(lines)):  # earlier effects must come first
            self._put(cut(lines))
        if self._turn == turn and self._framer.waiting > LONG_LINE and not was_long:
            self._open_line()

    def _open_line(self) -> None:
        """Let an incomplete long line pass in pieces, if nothing depends on the rest of it."""
        effects = self._relay.open_long_line(self.peer, self._framer.beginning())
        if effects is not None:
            self._in_line = True
            output.widen(self._fd)
            self._todo.extend(effects)
            for part in self._framer.parts()[1:]:
                self._todo.extend(self._relay.decide_piece(self.peer, part, last=False))
            self._flushed = False

    def _put_piece(self, data: bytes, *, at_end: bool = False) -> bytes:
        """Decide on the next piece of a long line; returns the data after the line's end."""
        end = data.find(b"\n") + 1
        piece = data[:end] if end else data
        self._in_line = not (end or at_end)
        self._todo.extend(self._relay.decide_piece(self.peer, piece, last=not self._in_line))
        self._flushed = False
        return data[end:] if end else b""

    def _put_rest(self, turn: int) -> None:
        if self._in_line:
            self._put_piece(b"", at_end=True)
        if rest := self._framer.rest():
            self._put([rest])
        if self._do_all(turn):
            self.ended.set()
            self._on_end()

    def _put(self, lines: list[bytes]) -> None:
        self._todo.extend(self._relay.decide_lines(self.peer, lines))
        self._flushed = False

    def _put_first(self, effects: Sequence[Acting]) -> None:
        if effects:
            self._todo.extendleft(effects[::-1])
            self._flushed = False

    def _do_all(self, turn: int) -> bool:
        """Perform what was decided, in order. Returns False if another thread has taken over."""
        while self._turn == turn and (self._todo or not self._flushed):
            effect = self._todo[0] if self._todo else None
            if effect is None or not (self._flushed or (isinstance(effect, Forward) and effect.first)):
                self._flushed = True  # before the call, so that a thread that takes over continues after it
                self._relay.flush()
            else:
                self._doing = self._todo.popleft()
                more = self._relay.perform(effect)
                if self._turn == turn:
                    self._doing = None
                    self._put_first(more)
        return self._turn == turn
