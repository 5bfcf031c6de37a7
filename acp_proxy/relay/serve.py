"""``run`` after the agent's start: opens the store, builds the parts of the proxy, and runs them until the end."""

import contextlib
import gc
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from msgspec import Struct

from acp_proxy import __version__, invocation, shell_quote
from acp_proxy.config import options
from acp_proxy.decisions.capabilities import Settings, read_modes
from acp_proxy.decisions.connection import Connection
from acp_proxy.errors import StoreRefused, UsageError
from acp_proxy.protocol import jsonrpc
from acp_proxy.recording.recorder import Recorder
from acp_proxy.relay.agent_process import AgentProcess
from acp_proxy.relay.opened_transcript import ShowOptions
from acp_proxy.relay.pipes import stderr
from acp_proxy.relay.relay import IDLE_SECONDS, Relay
from acp_proxy.relay.shutdown import supervise
from acp_proxy.store.proxy_store import ALL_AGENTS, ProxyStore, import_lazy_modules
from acp_proxy.store.store_root import resolve_root
from acp_proxy.transcript.file_access import PRIVATE_UMASK

STDIN, STDOUT = 0, 1
_OPENING_SECONDS = 10.0
"""How long a store may take to open. Nothing passes until then, but otherwise nothing would be recorded until the next
start."""
_SWITCH_SECONDS = 0.0005
"""Showing the past keeps Python busy. With the default interval, it would delay a message by up to 5 ms."""
_LONGEST_WARNING = 2000
"""The most characters of a warning: it may quote a session's id, which may be megabytes."""


class RunContext(Struct, frozen=True):
    """What the options and the store say. ``store``: None: nothing is recorded. ``mask``: the function that masks
    secrets in entries, or None."""

    settings: Settings
    store: ProxyStore | None
    mask: Callable[[bytes], bytes] | None


def serve(agent: AgentProcess, command: list[str], values: dict[str, str], given_words: list[str]) -> int:
    """Relay between the editor and the agent until both have ended. Returns the exit code. ``command``: the agent's.
    ``values``: of the options. ``given_words``: the user's words for the agent."""
    recorder, relay = build_relay(
        command,
        values,
        make_run_context(values),
        from_client=STDIN,
        to_client=STDOUT,
        from_agent=agent.stdout,
        to_agent=agent.stdin,
    )
    relay.start()
    finish_start(recorder, relay)
    return supervise(agent, relay, options.parse_seconds(values["grace"]), lambda: _make_doctor_advice(given_words))


def make_run_context(values: dict[str, str], *, is_chained: bool = False) -> RunContext:
    """Open the store, and warn if it cannot be used. ``values``: the values of the options."""
    os.umask(PRIVATE_UMASK)  # an agent that we start has started with the user's umask
    store, mask = None, None
    if not values["no-record"]:
        try:
            mask = _make_mask(values)
            store = _open_store(values)
        except UsageError as problem:  # the file with patterns was removed since the start
            warn(f"nothing is recorded: {problem}")
    modes = read_modes(values)
    id = store.id if store is not None else None
    recall = _make_recall_command(store.root) if values["recall"] and store is not None else ()
    settings = Settings(store is not None, not values["no-synthesize"], __version__, modes, id, is_chained, recall)
    return RunContext(settings, store, mask)


def build_relay(
    command: list[str],
    values: dict[str, str],
    context: RunContext,
    *,
    from_client: int,
    to_client: int,
    from_agent: int,
    to_agent: int,
) -> tuple[Recorder | None, Relay]:
    """Build the parts of the proxy. ``command``: the agent's; empty in a chain. ``from_client`` to ``to_agent``:
    descriptors."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    masking_warn = _make_masking_warn(context.mask)
    recorder = _make_recorder(command, values, context, masking_warn)
    mode: Literal["full", "compact"] = "full" if values["replay"] == "full" else "compact"
    relay = Relay(
        Connection(context.settings),
        recorder,
        from_client=from_client,
        to_client=to_client,
        from_agent=from_agent,
        to_agent=to_agent,
        warn=masking_warn,
        show_options=ShowOptions(
            mode,
            options.parse_size(values["replay-tool-limit"]),
            options.parse_handover_record_size(values["record-size"]),
        ),
        idle_seconds=IDLE_SECONDS,
        compresses=values["compress"] == "daily",
    )
    return recorder, relay


def finish_start(recorder: Recorder | None, relay: Relay) -> None:
    """While the relay runs already: import what is needed later, and let sync look for turns of other machines.

    An upgrade of acp-proxy may replace its files under a process that runs for days, so everything is imported now.
    A failed import is ignored: what needs the module reports it.
    """
    with contextlib.suppress(Exception):
        from acp_proxy.relay import load_thread  # noqa: F401 - first: an editor loads a session at once
    if recorder is not None:
        import_lazy_modules()
        with contextlib.suppress(Exception):
            from acp_proxy.relay import start_sync_round  # noqa: F401
        relay.request_sync_round()
    # ``launch`` stopped the garbage collector. What was loaded until now stays, so it need not be visited.
    gc.freeze()
    gc.enable()


def _make_doctor_advice(given_words: list[str]) -> str:
    """The command that says why an agent does not start."""
    typed_words = ["acp-proxy"]
    with contextlib.suppress(OSError):  # the directory is gone
        typed_words = invocation.make_typed_command()
    return f"To see why: {shell_quote.join([*typed_words, 'doctor', *given_words])}"


def warn(text: str) -> None:
    """Write one line to stderr, where editors keep the logs of agents."""
    stderr.write(f"acp-proxy: {jsonrpc.make_printable(text[:_LONGEST_WARNING])}\n".encode("utf-8", "replace"))


def _make_masking_warn(mask: Callable[[bytes], bytes] | None) -> Callable[[str], None]:
    """``warn``, which editors log, with secrets masked: the text of an internal error may quote a message."""
    if mask is None:
        return warn
    return lambda text: warn(mask(text.encode("utf-8", "replace")).decode("utf-8", "replace"))


def _make_recorder(
    command: list[str], values: dict[str, str], context: RunContext, warn: Callable[[str], None]
) -> Recorder | None:
    if context.store is None:
        return None
    return Recorder(
        context.store,
        command,
        values["agent-id"] or None,
        values["fsync"],
        warn,
        context.mask,
        deletes_softly=values["delete-mode"] == "soft" and options.parse_bin_days(values["bin-days"]) > 0,
        other_agents=_read_other_agents(values),
    )


def _read_other_agents(values: dict[str, str]) -> list[str]:
    return [name.strip() for name in values["also-list"].split(",") if name.strip()]


def _open_store(values: dict[str, str]) -> ProxyStore | None:
    """The store. None: it cannot be used, and the user was warned.

    It is opened on a thread of its own, because one that hangs must not keep the editor and the agent apart for ever.
    """
    try:
        root = resolve_root(values["store"])
    except StoreRefused as refused:
        warn(f"nothing is recorded: {refused}")
        return None
    results: list[ProxyStore | StoreRefused] = []
    days = options.parse_bin_days(values["bin-days"])

    def open_and_check() -> None:
        try:
            results.append(store := ProxyStore(root, bin_days=days))
        except StoreRefused as problem:
            results.append(problem)
            return
        with contextlib.suppress(OSError):
            for name in _read_other_agents(values):
                if name != ALL_AGENTS and not store.list_agents(name):
                    warn(f"--also-list: no agent called {name!r} has a recorded session yet.")

    opening = threading.Thread(target=open_and_check, name="opening the store", daemon=True)
    opening.start()
    opening.join(_OPENING_SECONDS)
    match results:
        case [ProxyStore() as store]:
            return store
        case [StoreRefused(is_temporary=True) as problem]:
            warn(f"nothing is recorded until this passes: {problem}")
            return ProxyStore.make_unopened(root, problem, days)
        case [StoreRefused() as problem]:
            warn(f"nothing is recorded: {problem}")
        case _:
            warn(f"nothing is recorded: {root} does not answer. Choose another place with --store.")
    return None


def _make_recall_command(root: Path) -> tuple[str, ...]:
    """The command of the MCP server that looks up sessions in this store; empty if its package is missing."""
    from importlib.util import find_spec

    if find_spec("mcp") is None:
        from acp_proxy.installation import explain_no_mcp

        warn(explain_no_mcp())
        return ()
    return tuple(invocation.make_child_command("acp_proxy", "mcp", "--store", os.path.abspath(root)))


def _make_mask(values: dict[str, str]) -> Callable[[bytes], bytes] | None:
    """The function that masks secrets in entries, or None. Raises UsageError."""
    if (patterns := options.read_patterns(values["redact"])) is None:
        return None
    from acp_proxy.redaction.masking import Masking  # compiling its patterns takes a while

    return Masking(patterns).mask_lines
