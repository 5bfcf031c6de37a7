"""Waits for the agent, signals and the end of streams, and ends the proxy.

An end takes these steps, whoever begins it: the agent gets the end of its input (and our signal), ``grace`` seconds,
SIGTERM to its process tree, ``TERM_SECONDS``, SIGKILL. An agent that is still reading what the editor sent may finish,
unless it reads nothing for ``grace`` seconds. All its output is delivered before we exit; a descendant that keeps its
stdout open delays us by ``HELD_SECONDS`` at most. Every wait is bounded, except for an editor that stays open and does
not read.
"""

import contextlib
import signal
import sys

from anyio import (  # by name, because anyio imports them lazily
    CancelScope,
    Event,
    create_task_group,
    current_time,
    move_on_after,
    open_signal_receiver,
    run,
    sleep,
    to_thread,
)
from anyio.from_thread import BlockingPortal

from acp_proxy.shell import agent_process as processes
from acp_proxy.shell.agent_process import AgentProcess
from acp_proxy.shell.relay import Relay
from acp_proxy.shell.signals import ENDING_SIGNALS, HELD_SIGNALS

HELD_SECONDS = 1.0
_TICK = 0.05
"""Seconds between checks during an end, and without SIGCHLD."""
_SHORT_TICK = 0.01
"""Seconds between checks while the last lines are delivered."""
_WORK_SECONDS = 1.0
"""For the store's remaining work at the end; marks tell the next process what was left."""


def supervise(agent: AgentProcess, relay: Relay, grace: float) -> int:
    """Run until the agent is gone and all is delivered. Returns the exit code.

    Call it on the main thread, with the relay started and ``HELD_SIGNALS`` blocked in every thread.
    """
    return run(_supervise, agent, relay, grace)


async def _supervise(agent: AgentProcess, relay: Relay, grace: float) -> int:
    watch = _Watch(agent, relay, grace)
    async with BlockingPortal() as portal, create_task_group() as tasks:
        # The pumps call this from their threads; earlier calls are visible in the relay's state.
        relay.notify = lambda: _wake(portal, watch)
        if sys.platform != "win32":
            tasks.start_soon(watch.listen)
        else:
            for number in ENDING_SIGNALS:
                signal.signal(number, lambda number, _: watch.end_for(number))
        await watch.until_the_end()
        relay.notify = lambda: None
        tasks.cancel_scope.cancel()
    return agent.exit_code


def _wake(portal: BlockingPortal, watch: "_Watch") -> None:
    with contextlib.suppress(RuntimeError):  # the portal is closed: this is the end already
        portal.start_task_soon(watch.wake)


class _Watch:
    """Waits until one side ends, then ends the other."""

    def __init__(self, agent: AgentProcess, relay: Relay, grace: float) -> None:
        self._agent = agent
        self._relay = relay
        self._grace = grace
        self._changed = Event()
        self._signal: int | None = None
        self._was_ended = False  # by a signal from here
        self._last_wait: CancelScope | None = None

    def wake(self) -> None:
        self._changed.set()

    async def listen(self) -> None:
        with open_signal_receiver(*HELD_SIGNALS) as signals:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_SIGNALS)
            async for number in signals:
                if number in ENDING_SIGNALS:
                    self.end_for(number)
                self.wake()

    def end_for(self, number: int) -> None:
        """End because of this signal."""
        self._signal = number
        self._hurry()
        self.wake()

    async def until_the_end(self) -> None:
        while not self._agent.poll() and not self._must_end():
            with move_on_after(_TICK if sys.platform == "win32" else float("inf")):
                await self._changed.wait()
            self._changed = Event()
        if self._relay.agent.ended.is_set() and self._signal is None:
            await self._exited(HELD_SECONDS)  # an exiting agent closes its stdout first
        if not self._agent.poll():
            await self._end(0 if await self._is_deaf() else self._grace)
        with CancelScope() as self._last_wait:
            if self._signal is not None:
                self._hurry()
            await self._delivered()
            await to_thread.run_sync(self._relay.finish, self._how(), abandon_on_cancel=True)
        await to_thread.run_sync(self._relay.finish_work, _WORK_SECONDS, abandon_on_cancel=True)

    def _how(self) -> str:
        """How the agent ended, and why if it was sent a signal for it."""
        how = self._agent.how_it_ended
        if not self._was_ended or self._signal is not None or not self._relay.client_is_gone:
            return how
        return f"{how}: acp-proxy's input had ended, and the agent went on for {self._grace:g} s (--grace)"

    def _hurry(self) -> None:
        """After a signal, no longer wait for an editor that does not read."""
        if self._last_wait is not None:
            self._last_wait.deadline = current_time() + HELD_SECONDS

    def _must_end(self) -> bool:
        return self._signal is not None or self._relay.client_is_gone or self._relay.agent.ended.is_set()

    async def _is_deaf(self) -> bool:
        """Whether the editor has gone and the agent has read nothing of the waiting input for ``grace`` seconds."""
        taken, waited = self._relay.taken, 0.0
        while self._relay.is_behind and self._signal is None and not self._agent.poll():
            if waited >= self._grace:
                return True
            await sleep(_TICK)
            taken, waited = self._relay.taken, waited + _TICK if self._relay.taken == taken else 0.0
        return False

    async def _end(self, grace: float) -> None:
        """End the agent and its process tree. Bounded in time."""
        family = processes.tree(self._agent.pid)
        self._relay.end_input()
        passed_on = None
        for number, seconds in processes.steps(sys.platform, grace):
            if number is not None:
                self._was_ended = self._was_ended or not self._agent.poll()
                processes.send(processes.alive(family), number)
            with move_on_after(seconds):
                while not self._agent.poll() or processes.alive(family):
                    if self._signal is not None and self._signal != passed_on:  # or a later signal
                        passed_on = self._signal
                        processes.send(family[:1], passed_on)
                    await sleep(_TICK)
                return

    async def _exited(self, seconds: float) -> None:
        with move_on_after(seconds):
            while not self._agent.poll():
                await sleep(_SHORT_TICK)

    async def _delivered(self) -> None:
        """Wait until the editor has the agent's output; ``HELD_SECONDS`` at most if another process has it open."""
        pump = self._relay.agent
        listened = 0.0
        while not pump.ended.is_set() and listened < HELD_SECONDS:
            await sleep(_SHORT_TICK)
            listened += _SHORT_TICK if pump.is_reading else 0.0
