"""``run`` after the agent's start: builds the parts of the proxy and runs them until the end."""

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from signal import SIGTERM
from typing import Literal

from acp_proxy.config import options
from acp_proxy.errors import REPLACED
from acp_proxy.proxy.connection import Connection
from acp_proxy.recording.recorder import Recorder
from acp_proxy.run import lasting
from acp_proxy.run.agent_process import AgentProcess
from acp_proxy.run.greeting import STDIN, STDOUT, Basis, Greeting, also, warn
from acp_proxy.run.relay import IDLE_SECONDS, Relay, ReplayOptions
from acp_proxy.run.shutdown import supervise
from acp_proxy.store.store import Store

_FIRST_ANSWER_SECONDS = 1.0
"""Imports that can wait would slow the first exchange down: they wait for it, at most so long."""
_FIRST_LOAD_SECONDS = 0.05
"""An editor that opens a session does so at once. What is needed only at the end is imported after this pause, so as
not to slow that down; a longer pause would delay the first turn."""
_LOST = 1  # exit status: an upgrade replaced the files during the start
_SWITCH_SECONDS = 0.0005
"""A replay keeps Python busy. With the default interval, it would delay a message by up to 5 ms."""


def build(
    command: list[str],
    given: dict[str, str],
    basis: Basis,
    *,
    from_client: int,
    to_client: int,
    from_agent: int,
    to_agent: int,
) -> tuple[Recorder | None, Relay]:
    """Build the parts of the proxy. ``command``: the agent's; empty in a chain. ``from_client`` to ``to_agent``:
    descriptors."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    say = _warning(basis.mask)
    recorder = _recorder(command, given, basis, say)
    mode: Literal["full", "compact"] = "full" if given["replay"] == "full" else "compact"
    relay = Relay(
        Connection(basis.settings),
        recorder,
        from_client=from_client,
        to_client=to_client,
        from_agent=from_agent,
        to_agent=to_agent,
        warn=say,
        replay=ReplayOptions(mode, options.size(given["replay-tool-limit"]), options.record_size(given["record-size"])),
        idle_seconds=IDLE_SECONDS if given["compress"] == "daily" else None,
    )
    return recorder, relay


def serve(agent: AgentProcess, command: list[str], given: dict[str, str], basis: Basis, greeting: Greeting) -> int:
    """Relay between the editor and the agent until both have ended. Returns the exit code.

    ``command``: the agent's. ``given``: the values of the options. ``greeting``: what has passed already.
    """
    recorder, relay = build(
        command,
        given,
        basis,
        from_client=STDIN,
        to_client=STDOUT,
        from_agent=agent.stdout,
        to_agent=agent.stdin,
    )
    relay.client.resume(greeting.asked, greeting.from_client)
    relay.agent.resume(greeting.answered, greeting.from_agent)
    is_ending = threading.Event()
    relay.notify = is_ending.set
    relay.start()
    lasting.load_telling()
    relay.stirred.wait(_FIRST_ANSWER_SECONDS)
    is_ending.wait(_FIRST_LOAD_SECONDS)
    try:
        lasting.load_ending()
    except Exception:  # noqa: BLE001 - an upgrade is replacing the files
        with contextlib.suppress(OSError):
            os.kill(agent.pid, SIGTERM)
        warn(f"{REPLACED} while it was starting. Restart the agent.")
        return _LOST
    if recorder is not None and not is_ending.is_set():
        lasting.load_stores()
        relay.synchronize()
    lasting.collect_garbage()
    return supervise(agent, relay, options.seconds(given["grace"]))


def _warning(mask: Callable[[bytes], bytes] | None) -> Callable[[str], None]:
    """``warn``, which editors log, with secrets masked: the text of an internal error may quote a message."""
    if mask is None:
        return warn
    return lambda text: warn(mask(text.encode("utf-8", "replace")).decode("utf-8", "replace"))


def _recorder(command: list[str], given: dict[str, str], basis: Basis, warn: Callable[[str], None]) -> Recorder | None:
    if basis.store is None:
        return None
    return Recorder(
        Store.of(basis.store),
        command,
        given["agent-id"] or None,
        given["fsync"],
        warn,
        basis.mask,
        deletes_softly=given["delete-mode"] == "soft",
        also=also(given),
    )
