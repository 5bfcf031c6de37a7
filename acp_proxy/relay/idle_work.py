"""While nothing is relayed: removes deleted sessions whose time in the bin is over, and once a day compresses large
transcripts that nobody uses.

Runs on a thread that sleeps, and checks between chunks of work whether it may continue. Failures are ignored: whatever
needs the store will report them, and it is tried again.
"""

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from acp_proxy.errors import AcpProxyError
from acp_proxy.store.proxy_store import ProxyStore

if TYPE_CHECKING:  # a start does not load what compresses
    from acp_proxy.store.compress import CompressionOptions

_NICENESS = 10
"""Lower priority, but not the lowest: a thread that never ran could never release the interpreter's lock."""


class IdleWork:
    """The thread. ``is_idle``: nothing was relayed since it last looked; whoever relays something clears it."""

    def __init__(
        self,
        root: Path,
        idle_seconds: float,
        has_loads: Callable[[], bool],
        warn: Callable[[str], None],
        *,
        compresses: bool = True,
    ) -> None:
        """``idle_seconds``: how long nothing must be relayed, with no past being shown at the end of that time."""
        self.is_idle = False
        self._root = root
        self._idle_seconds = idle_seconds
        self._has_loads = has_loads
        self._warn = warn
        self._compresses = compresses
        self._ended = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, name="idle", daemon=True).start()

    def end(self) -> None:
        self._ended.set()

    def _run(self) -> None:
        # To set a flag is all that a line costs. So the idle time is found to have passed after one to two of it.
        while not self._ended.wait(self._idle_seconds):
            if not self.is_idle:
                self.is_idle = True
            elif not self._has_loads():
                try:
                    remove_expired(self._root)
                    if self._compresses:
                        compress_daily(self._root, lambda: self.is_idle and not self._ended.is_set())
                except Exception as bug:  # noqa: BLE001 - the conversation must not suffer from a bug here
                    self._warn(f"internal error while idle: {type(bug).__name__}: {bug}")


def remove_expired(root: Path) -> None:
    """Remove the soft-deleted sessions of the store at ``root`` whose time is over."""
    with suppress(OSError, AcpProxyError):
        ProxyStore(root, create=False).remove_expired()


def compress_daily(root: Path, may_continue: Callable[[], bool]) -> None:
    """Compress the store at ``root`` if no process has today; stops when ``may_continue`` returns False."""
    if sys.platform == "linux":  # only Linux has priorities of single threads
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, max(_NICENESS, os.getpriority(os.PRIO_PROCESS, thread)))
    try:
        from acp_proxy.store.compress import CompressionOptions

        store = ProxyStore(root)  # a store of its own: the index is for one thread at a time
        with store.claim_daily_compression() as is_due:
            if is_due:
                _compress_all(store, CompressionOptions(may_continue=may_continue))
    except (OSError, AcpProxyError, ImportError, _Interrupted):  # ImportError: an upgrade has replaced it
        return


class _Interrupted(Exception):
    """Something is relayed again: the rest waits for the next idle time."""


def _compress_all(store: ProxyStore, options: "CompressionOptions") -> None:
    for agent_folder, name in store.list_transcripts_to_compress():
        if not options.may_continue():
            raise _Interrupted
        try:
            store.compress(agent_folder, name, options)
        except OSError:  # continue with the other files
            continue
