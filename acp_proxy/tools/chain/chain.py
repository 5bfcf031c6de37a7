"""``acp-proxy chain``: the proxy as a component of a conductor, which starts the agent.

It ends when its input does, when the conductor reads no more, or on a signal. Open requests are then answered, and the
rest is recorded and delivered. Every wait is bounded, except for a conductor that stays open and does not read.
"""

import enum
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from acp_proxy.protocol.framing import LineFramer
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.relay import pipes, serve, signals
from acp_proxy.relay.pipes import Output
from acp_proxy.relay.pump import READ_SIZE
from acp_proxy.tools.chain.messages import Envelopes

# --- The one pair of streams to a conductor, as four pipes: the client's side and the agent's side, each both ways.
#
# The relay uses these pipes like those of a client and an agent. One thread takes stdin apart, two put stdout together
# from whole lines. While the conductor does not read, it is not read either, so memory stays bounded; but each line is
# held until it ends. Both sides end when stdin does.


T = TypeVar("T")


class Junction:
    """The pipes between the conductor's streams and the relay. ``from_client``, ``to_client``, ``from_agent``,
    ``to_agent``: the relay's ends (descriptors)."""

    def __init__(
        self, from_conductor: int, to_conductor: int, warn: Callable[[str], None], on_gone: Callable[[], None]
    ) -> None:
        """``from_conductor``, ``to_conductor``: descriptors. ``on_gone``: called if the conductor reads no more."""
        self.from_client, client = os.pipe()
        self.from_agent, agent = os.pipe()
        self._from_conductor, self._to_conductor = from_conductor, Output(to_conductor, on_gone)
        self._sides = {Peer.CLIENT: Output(client, lambda: None), Peer.AGENT: Output(agent, lambda: None)}
        self._warn = warn
        self._envelopes = Envelopes()
        self._decision_lock = threading.Lock()
        for_client, self.to_client = os.pipe()
        for_agent, self.to_agent = os.pipe()
        self._writers = [
            threading.Thread(target=self._wrap_output, args=(side, fd), name=f"to the {side.value}", daemon=True)
            for side, fd in ((Peer.CLIENT, for_client), (Peer.AGENT, for_agent))
        ]

    def start(self) -> None:
        """Start the threads."""
        threading.Thread(target=self._read_conductor, name="from the conductor", daemon=True).start()
        for writer in self._writers:
            writer.start()

    def stop(self) -> None:
        """Pass nothing more to the relay, which reads what came before and then the end."""
        for side in self._sides.values():
            side.close()

    def wait_for_delivery(self) -> None:
        """Wait until the conductor has everything. Call it when the relay has closed its outputs."""
        for writer in self._writers:
            writer.join()

    def _read_conductor(self) -> None:
        framer = LineFramer()
        while data := pipes.read(self._from_conductor, READ_SIZE):
            self._pass_to_relay(framer.feed(data))
        if rest := framer.take_unfinished():
            self._pass_to_relay([rest + b"\n"])
        self.stop()

    def _pass_to_relay(self, lines: list[bytes]) -> None:
        sided_lines = [sided_line for line in lines for sided_line in self._decide(self._envelopes.open, line) or ()]
        for peer, side in self._sides.items():
            side.write(b"".join(line for owner, line in sided_lines if owner is peer))
        self._to_conductor.post(b"".join(line for owner, line in sided_lines if owner is None))

    def _wrap_output(self, side: Peer, fd: int) -> None:
        framer = LineFramer()
        wrap = partial(self._envelopes.wrap, side)
        while data := pipes.read(fd, READ_SIZE):
            self._to_conductor.write(b"".join(self._decide(wrap, line) or b"" for line in framer.feed(data)))

    def _decide(self, decide: Callable[[bytes], T], line: bytes) -> T | None:
        with self._decision_lock:
            try:
                return decide(line)
            except Exception as bug:  # noqa: BLE001 - the conversation must not suffer from a bug of ours
                self._warn(f"internal error, a line is lost: {type(bug).__name__}: {bug}")
                return None


_HELD_SECONDS = 1.0
"""How long a conductor that does not read may hold up the end after a signal."""
_WORK_SECONDS = 1.0
"""How long the store's remaining work may take at the end; marks tell the next process what was left."""
_WAIT_SECONDS = 0.05 if sys.platform == "win32" else None
"""Seconds of a wait. On Windows, a signal does not end one."""


class _Event(enum.Enum):
    """What ends a wait, apart from a signal."""

    SIDE_ENDED = enum.auto()
    DELIVERED = enum.auto()
    """The conductor has everything."""


def serve_chain(values: dict[str, str]) -> int:
    """Relay between the conductor's two sides until the end. Returns the exit code. ``values``: the options' values."""
    signals.block()
    events: queue.SimpleQueue[_Event | signal.Signals] = queue.SimpleQueue()  # its put is safe in a signal handler
    signals.watch(lambda number: events.put(signal.Signals(number)) if number in signals.ENDING_SIGNALS else None)
    junction = Junction(serve.STDIN, serve.STDOUT, serve.warn, lambda: events.put(_Event.SIDE_ENDED))
    recorder, relay = serve.build_relay(
        [],
        values,
        serve.make_run_context(values, is_chained=True),
        from_client=junction.from_client,
        to_client=junction.to_client,
        from_agent=junction.from_agent,
        to_agent=junction.to_agent,
    )
    relay.on_side_ended = lambda: events.put(_Event.SIDE_ENDED)
    relay.start()
    junction.start()
    serve.finish_start(recorder, relay)
    last_event = _wait_for_event(events)
    is_signal = isinstance(last_event, signal.Signals)
    reason = f"acp-proxy was ended by {last_event.name}" if is_signal else "the conductor has ended the chain"

    def end() -> None:
        junction.stop()
        relay.client_pump.ended.wait()
        relay.agent_pump.ended.wait()
        relay.handle_agent_end(f"agent is out of reach: {reason}")
        relay.finish_work(_WORK_SECONDS)
        relay.close()
        junction.wait_for_delivery()
        events.put(_Event.DELIVERED)

    ending = threading.Thread(target=end, name="the end", daemon=True)
    ending.start()
    while last_event is _Event.SIDE_ENDED:
        last_event = _wait_for_event(events)
    if last_event is _Event.DELIVERED:
        return 0
    ending.join(_HELD_SECONDS)
    return 128 + last_event


def _wait_for_event(events: "queue.SimpleQueue[_Event | signal.Signals]") -> _Event | signal.Signals:
    while True:
        with suppress(queue.Empty):
            return events.get(timeout=_WAIT_SECONDS)
