"""One direction: read, cut, decide, write, on a plain thread and raw file descriptors.

Nothing is read before everything that came before is written and recorded: a peer that stops reading stops the other
from being read. A thread that hangs in the store can be replaced: ``take_over`` starts another one that goes on with
what was left to do, and the old one ends when it comes back.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from acp_proxy.core.effects import Acting, Forward
from acp_proxy.shell import output
from acp_proxy.wire.framing import LineFramer, cut
from acp_proxy.wire.jsonrpc import Peer

READ_SIZE = 64 * 1024  # larger reads pass malloc's mmap threshold, and double the CPU


class Performer(Protocol):
    """What a pump needs of the relay."""

    def pass_updates(self, lines: bytes) -> bool: ...
    def decide_lines(self, peer: Peer, lines: list[bytes]) -> list[Acting]: ...
    def perform(self, effect: Acting) -> Sequence[Acting]: ...
    def instead(self, effect: Acting) -> Sequence[Acting]: ...
    def flush(self) -> None: ...
    def wait_for_room(self, peer: Peer) -> None: ...


class Pump:
    def __init__(self, peer: Peer, fd: int, relay: Performer, on_end: Callable[[], None]) -> None:
        self.peer = peer
        self.ended = threading.Event()
        self.is_reading = False
        self._fd = fd
        self._relay = relay
        self._on_end = on_end
        self._framer = LineFramer()
        self._todo: deque[Acting] = deque()
        self._flushed = True
        self._doing: Acting | None = None
        self._turn = 0
        self._thread = threading.Thread()

    def start(self) -> None:
        self._thread = threading.Thread(
            target=self._run, args=(self._turn,), name=f"from the {self.peer.value}", daemon=True
        )
        self._thread.start()

    def is_thread(self, ident: int) -> bool:
        return self._thread.ident == ident

    def take_over(self) -> None:
        """Go on without the thread that hangs in the store."""
        self._turn += 1
        if self._doing is not None:
            self._put_first(self._relay.instead(self._doing))
        self.start()

    def _run(self, turn: int) -> None:
        while self._do_all(turn):
            self._relay.wait_for_room(self.peer)
            self.is_reading = True
            data = output.read(self._fd, READ_SIZE)
            self.is_reading = False
            if not data:
                self._put_rest(turn)
                return
            lines = self._framer.take(data)
            if not lines or (self.peer is Peer.AGENT and self._relay.pass_updates(lines)):
                continue
            self._put(cut(lines))

    def _put_rest(self, turn: int) -> None:
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
        """Do what was decided, in order; False where another thread has taken over meanwhile."""
        while self._turn == turn and (self._todo or not self._flushed):
            effect = self._todo[0] if self._todo else None
            if effect is None or not (self._flushed or (isinstance(effect, Forward) and effect.first)):
                self._flushed = True  # at once, so that a thread that takes over goes on behind it
                self._relay.flush()
            else:
                self._doing = self._todo.popleft()
                more = self._relay.perform(effect)
                if self._turn == turn:
                    self._doing = None
                    self._put_first(more)
        return self._turn == turn
