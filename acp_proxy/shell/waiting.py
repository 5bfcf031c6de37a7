"""The end without ``supervise``, where an upgrade in the first second has replaced what that needs.

As bounded, but simpler: it looks again and again, and ends the agent's own process, not what that has started.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable

from acp_proxy.shell import agent as processes
from acp_proxy.shell.agent import Agent
from acp_proxy.shell.relay import Relay
from acp_proxy.shell.signals import ENDING_SIGNALS, HELD_SIGNALS

_TICK = 0.05
_HELD_SECONDS = 1.0
_WORK_SECONDS = 1.0


def wait(agent: Agent, relay: Relay, grace: float) -> int:
    """As ``supervise``."""
    heard = _listen()

    def is_over() -> bool:
        return agent.poll() or bool(heard) or relay.client_is_gone or relay.agent.ended.is_set()

    _until(is_over, float("inf"))
    if relay.agent.ended.is_set() and not heard:
        _until(agent.poll, _HELD_SECONDS)
    if not agent.poll():
        _end(agent, relay, grace, heard)
    _deliver(relay, heard)
    finishing = threading.Thread(target=relay.finish, args=[agent.how_it_ended], daemon=True)
    finishing.start()
    _until(lambda: bool(heard) or not finishing.is_alive(), float("inf"))
    finishing.join(_HELD_SECONDS)
    relay.finish_work(_WORK_SECONDS)
    return agent.exit_code


def _listen() -> list[int]:
    """The signals that want us gone, as they come."""
    heard: list[int] = []
    if sys.platform != "win32":
        for number in ENDING_SIGNALS:
            signal.signal(number, lambda number, frame: heard.append(number))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_SIGNALS)
    return heard


def _end(agent: Agent, relay: Relay, grace: float, heard: list[int]) -> None:
    relay.end_input()
    for number, seconds in processes.steps(sys.platform, grace):
        number = heard[0] if number is None and heard else number
        if number is not None and not agent.poll():
            os.kill(agent.pid, number)
        if _until(agent.poll, seconds):
            return


def _deliver(relay: Relay, heard: list[int]) -> None:
    """What the agent wrote is with the editor, however slowly that reads."""
    listened = 0.0
    while not relay.agent.ended.is_set() and listened < _HELD_SECONDS and not heard:
        time.sleep(_TICK)
        listened += _TICK if relay.agent.is_reading else 0.0


def _until(is_so: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not (so := is_so()) and time.monotonic() < deadline:
        time.sleep(_TICK)
    return so
