"""Waits for the agent, signals and the end of streams, and ends the proxy.

An end takes these steps, whoever begins it: the agent gets the end of its input (and our signal), ``grace`` seconds,
SIGTERM to its process tree, ``TERM_SECONDS``, SIGKILL. An agent that is still reading what the client sent may finish,
unless it reads nothing for ``grace`` seconds. All its output is delivered before we exit; a descendant that keeps its
stdout open delays us by ``OPEN_OUTPUT_SECONDS`` at most. Every wait is bounded, except for a client that stays open
and does not read.
"""

import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from acp_proxy.relay import agent_process as processes
from acp_proxy.relay import process_tree, signals
from acp_proxy.relay.agent_process import AgentProcess
from acp_proxy.relay.relay import Relay
from acp_proxy.relay.signals import ENDING_SIGNALS

if TYPE_CHECKING:
    import psutil

OPEN_OUTPUT_SECONDS = 1.0
_TICK_SECONDS = 0.05
"""Seconds between checks during an end, and on Windows."""
_SHORT_TICK_SECONDS = 0.01
"""Seconds between checks while the last lines are delivered."""
_WORK_SECONDS = 1.0
"""For the store's remaining work at the end; marks tell the next process what was left."""
_NO_SIGNAL = 0
"""A report that is not of a signal: a side has ended, or all is delivered."""


def supervise(agent: AgentProcess, relay: Relay, grace: float, make_advice: Callable[[], str]) -> int:
    """Run until the agent is gone and all is delivered. Returns the exit code.

    ``make_advice``: makes the sentence for an agent that ends by itself before it has answered ``initialize``.

    Call it on the main thread, with the relay started and ``signals.block`` called before any thread was started.
    """
    supervisor = _Supervisor(agent, relay, grace, make_advice)
    relay.on_side_ended = (
        supervisor.wake
    )  # called from the pumps' threads; earlier calls are visible in the relay's state
    signals.watch(supervisor.wake)
    supervisor.run_until_end()
    return processes.exit_code(agent.status or 0)


class _Supervisor:
    """Waits until one side ends, then ends the other."""

    def __init__(self, agent: AgentProcess, relay: Relay, grace: float, make_advice: Callable[[], str]) -> None:
        self._agent = agent
        self._relay = relay
        self._grace = grace
        self._make_advice = make_advice
        self._reports: queue.SimpleQueue[int] = queue.SimpleQueue()
        """A queue whose ``put`` is safe in a signal handler."""
        self._signal: int | None = None
        self._first_end: str | None = None
        """What ended before the agent did, for people."""
        self._was_killed = False
        """Whether the agent was killed by a signal from here."""
        self._is_delivered = False

    def wake(self, number: int = _NO_SIGNAL) -> None:
        """Report a signal, or that a side has ended."""
        self._reports.put(number)

    def run_until_end(self) -> None:
        while not self._agent.poll() and not self._must_end():
            self._wait()
        if self._signal is not None:
            self._first_end = f"acp-proxy got {signal.Signals(self._signal).name}"
        elif self._relay.client_is_gone and not self._agent.poll():
            self._first_end = "the editor ended"
        if self._has_agent_closed_stream() and self._signal is None:
            # An exiting agent closes its streams first.
            has_ended = self._wait_until(self._agent.poll, OPEN_OUTPUT_SECONDS, _SHORT_TICK_SECONDS)
            if self._relay.agent_reads_no_more and not has_ended:
                self._first_end = self._first_end or "the agent closed its input"
        if not self._agent.poll():
            grace = 0 if self._wait_while_agent_reads() else self._grace
            # Alone, the agent would have had all of this before the end of its input.
            began_at = time.monotonic()
            self._wait_until(lambda: not self._relay.has_waiting_requests or self._agent_gets_no_more(), grace)
            self._end(max(0.0, grace - (time.monotonic() - began_at)))  # it gets no more time than without us
        delivery = threading.Thread(target=self._deliver, name="final answers", daemon=True)
        delivery.start()
        while not self._is_delivered and self._signal is None:
            self._wait()
        delivery.join(OPEN_OUTPUT_SECONDS)  # after a signal, no longer wait for a client that does not read
        self._relay.finish_work(_WORK_SECONDS)

    def _wait(self, seconds: float | None = _TICK_SECONDS if sys.platform == "win32" else None) -> None:
        """Wait for a report, for at most ``seconds``. On Windows, a signal does not end this."""
        with suppress(queue.Empty):
            number = self._reports.get(timeout=seconds)
            if number in ENDING_SIGNALS:
                self._signal = number

    def _wait_until(self, condition: Callable[[], bool], seconds: float, tick: float = _TICK_SECONDS) -> bool:
        """Wait until something is so, for at most ``seconds``; returns whether it is."""
        deadline = time.monotonic() + seconds
        while not condition():
            seconds_left = deadline - time.monotonic()
            if seconds_left <= 0:
                return False
            self._wait(min(tick, seconds_left))
        return True

    def _describe_end(self) -> str:
        """Who ended, and how: the text of errors."""
        agents_end = f"agent {processes.describe_end(self._agent.status or 0)}"
        if self._first_end is None:
            return agents_end
        grace_note = (
            f", as it went on for {self._grace:g} s (--grace)" if self._was_killed and self._signal is None else ""
        )
        return f"{self._first_end}, then the {agents_end}{grace_note}"

    def _must_end(self) -> bool:
        return self._signal is not None or self._relay.client_is_gone or self._has_agent_closed_stream()

    def _has_agent_closed_stream(self) -> bool:
        return self._relay.agent_pump.ended.is_set() or self._relay.agent_reads_no_more

    def _agent_gets_no_more(self) -> bool:
        """Whether the agent has ended or closes, or acp-proxy must."""
        return self._agent.poll() or self._has_agent_closed_stream() or self._signal is not None

    def _wait_while_agent_reads(self) -> bool:
        """The client has gone: wait while the agent reads the waiting input. Returns whether it has stopped: it has
        read nothing for ``grace`` seconds."""
        accepted, last_read_at = self._relay.slow_write_count, time.monotonic()
        while self._relay.agent_has_unread_input and self._signal is None and not self._agent.poll():
            if time.monotonic() - last_read_at >= self._grace:
                return True
            self._wait(_TICK_SECONDS)
            if self._relay.slow_write_count != accepted:
                accepted, last_read_at = self._relay.slow_write_count, time.monotonic()
        return False

    def _end(self, grace: float) -> None:
        """End the agent and its process tree. Bounded in time."""
        try:
            tree = process_tree.find_tree(self._agent.pid)
        except Exception:  # noqa: BLE001 - an upgrade has replaced psutil
            tree = []
        self._relay.end_input()
        sent_signal = None

        def is_over() -> bool:
            nonlocal sent_signal
            if self._agent.poll() and not process_tree.find_running(tree):
                return True
            if self._signal is not None and self._signal != sent_signal:  # or a later signal
                sent_signal = self._signal
                self._send_signal(tree[:1], sent_signal)
            return False

        for number, seconds in processes.find_end_steps(sys.platform, grace):
            if number is not None:
                self._was_killed = self._was_killed or not self._agent.poll()
                self._send_signal(process_tree.find_running(tree), number)
            if self._wait_until(is_over, seconds):
                return

    def _send_signal(self, processes: "list[psutil.Process]", number: int) -> None:
        """Send a signal to these processes, or to the agent alone if there are none while it still runs."""
        process_tree.send_signal(processes, number)
        if not processes and not self._agent.poll():
            with suppress(OSError):
                os.kill(self._agent.pid, number)

    def _deliver(self) -> None:
        """Wait until the client has the agent's output, and answer what is open.

        Waits ``OPEN_OUTPUT_SECONDS`` at most for an output that another process has open.
        """
        try:
            pump = self._relay.agent_pump
            listened_seconds = 0.0
            while not pump.ended.is_set() and listened_seconds < OPEN_OUTPUT_SECONDS:
                pump.ended.wait(_SHORT_TICK_SECONDS)
                listened_seconds += _SHORT_TICK_SECONDS if pump.is_waiting_for_input else 0.0
            self._relay.handle_agent_end(self._describe_end(), self._make_advice() if self._first_end is None else "")
        finally:
            self._is_delivered = True
            self.wake()
