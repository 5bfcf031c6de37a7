"""``run`` after the agent's start: builds the parts of the proxy and runs them until the end."""

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from signal import SIGTERM
from typing import Literal

from acp_proxy import __version__, options
from acp_proxy.core.capabilities import Modes
from acp_proxy.core.interceptor import Interceptor
from acp_proxy.core.negotiation import Settings
from acp_proxy.errors import NO_MCP, REPLACED, StoreRefused, UsageError
from acp_proxy.recording.gate import STALL_SECONDS
from acp_proxy.recording.recorder import ALL, Recorder
from acp_proxy.shell import lasting, signals
from acp_proxy.shell.agent_process import AgentProcess
from acp_proxy.shell.output import stderr
from acp_proxy.shell.relay import IDLE_SECONDS, Relay, ReplayOptions
from acp_proxy.shell.supervise import supervise
from acp_proxy.transcripts.store import PRIVATE_UMASK, Store, default_root
from acp_proxy.wire import jsonrpc

STDIN, STDOUT = 0, 1
_FIRST_ANSWER_SECONDS = 1.0
"""Imports that can wait would slow the first exchange down: they wait for it, at most so long."""
_FIRST_LOAD_SECONDS = 0.05
"""An editor that opens a session does so at once. What is needed only at the end is imported after this pause, so as
not to slow that down; a longer pause would delay the first turn."""
_LOST = 1  # exit status: an upgrade replaced the files during the start
_WARNING = 2000  # characters: a warning may quote a session's id, which may be megabytes
_SWITCH_SECONDS = 0.0005
"""A replay keeps Python busy. With the default interval, it would delay a message by up to 5 ms."""


def build(
    command: list[str], given: dict[str, str], *, from_client: int, to_client: int, from_agent: int, to_agent: int
) -> tuple[Recorder | None, Relay]:
    """Build the parts of the proxy. ``command``: the agent's; empty in a chain. ``from_client`` to ``to_agent``:
    descriptors."""
    os.umask(PRIVATE_UMASK)  # an agent that we start has started with the user's umask
    sys.setswitchinterval(_SWITCH_SECONDS)
    recorder = _recorder(command, given)
    answerers = {name: given[name] for name in ("list", "load", "delete", "resume", "handover")}
    modes = Modes(**answerers, unstable=bool(given["unstable"]))
    store = recorder.store.id if recorder is not None else None
    recall = _recall(recorder.store.root) if given["recall"] and recorder is not None else ()
    settings = Settings(
        recorder is not None, not given["no-synthesize"], __version__, modes, store, not command, recall
    )
    mode: Literal["full", "compact"] = "full" if given["replay"] == "full" else "compact"
    relay = Relay(
        Interceptor(settings),
        recorder,
        from_client=from_client,
        to_client=to_client,
        from_agent=from_agent,
        to_agent=to_agent,
        warn=warn,
        replay=ReplayOptions(mode, options.size(given["replay-tool-limit"]), options.record_size(given["record-size"])),
        idle_seconds=IDLE_SECONDS if given["compress"] == "daily" else None,
    )
    return recorder, relay


def serve(agent: AgentProcess, command: list[str], given: dict[str, str]) -> int:
    """Relay between the editor and the agent until both have ended. Returns the exit code.

    ``command``: the agent's. ``given``: the values of the options.
    """
    signals.hold()
    recorder, relay = build(
        command, given, from_client=STDIN, to_client=STDOUT, from_agent=agent.stdout, to_agent=agent.stdin
    )
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


def warn(text: str) -> None:
    """Write one line to stderr, where editors keep the logs of agents."""
    stderr.write(f"acp-proxy: {jsonrpc.printable(text[:_WARNING])}\n".encode("utf-8", "replace"))


def _recorder(command: list[str], given: dict[str, str]) -> Recorder | None:
    if given["no-record"]:
        return None
    try:
        mask = _mask(given)
    except UsageError as wrong:  # the file with patterns was removed since the start
        warn(f"nothing is recorded: {wrong}")
        return None
    root = Path(given["store"]).expanduser() if given["store"] else default_root()
    found: list[Store | StoreRefused] = []
    also = [name.strip() for name in given["also-list"].split(",") if name.strip()]
    opening = threading.Thread(target=_open, args=(root, also, found), name="opening the store", daemon=True)
    opening.start()
    opening.join(STALL_SECONDS)
    match found:
        case [Store() as store]:
            softly = given["delete-mode"] == "soft"
            return Recorder(
                store,
                command,
                given["agent-id"] or None,
                given["fsync"],
                warn,
                mask,
                deletes_softly=softly,
                also=also,
            )
        case [StoreRefused() as problem]:
            warn(f"nothing is recorded: {problem}")
        case _:
            warn(f"nothing is recorded: {root} does not answer. Choose another place with --store.")
    return None


def _recall(root: Path) -> tuple[str, ...]:
    """The command of the MCP server that looks up sessions in this store; empty if its package is missing.

    ``-P``: the agent may start it in a repository, from which Python must not import anything.
    """
    from importlib.util import find_spec

    if find_spec("mcp") is None:
        warn(NO_MCP)
        return ()
    return sys.executable, "-P", "-m", "acp_proxy", "mcp", "--store", os.path.abspath(root)


def _mask(given: dict[str, str]) -> Callable[[bytes], bytes] | None:
    """The function that masks secrets in entries, or None. Raises UsageError."""
    if (patterns := options.patterns(given["redact"])) is None:
        return None
    from acp_proxy.redaction.masking import Masking  # compiling its patterns takes a while

    return Masking(patterns).lines


def _open(root: Path, also: list[str], found: "list[Store | StoreRefused]") -> None:
    try:
        store = Store(root)
    except StoreRefused as problem:
        found.append(problem)
        return
    for name in also:
        if name != ALL and not store.agents(name):
            warn(f"--also-list: no agent called {name!r} has a recorded session yet.")
    found.append(store)
