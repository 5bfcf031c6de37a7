"""Watches the store: ends the waiting for one that hangs, and uses idle time to compress transcripts.

A thread that sleeps while nothing is relayed; relaying wakes it (``stir``).
"""

import threading
import time
from collections.abc import Callable

from acp_proxy.recording.gate import STALL_SECONDS
from acp_proxy.recording.recorder import Recorder

_WATCH_SECONDS = 0.2
"""Between checks of a busy store; there are none while nothing is recorded."""


class Watch:
    """The watching thread."""

    def __init__(
        self,
        recorder: Recorder,
        go_on_without: Callable[[int], None],
        is_replaying: Callable[[], bool],
        warn: Callable[[str], None],
        idle_seconds: float | None,
    ) -> None:
        """``go_on_without`` is called with the id of a thread that hangs in the store.

        ``idle_seconds``: after this time without a line in either direction, and without a replay, compress the store.
        """
        self._recorder = recorder
        self._go_on_without = go_on_without
        self._is_replaying = is_replaying
        self._warn = warn
        self._idle_seconds = idle_seconds
        self._wanted = threading.Event()
        self._is_awake = self._is_idle = self._is_over = False
        self._idling: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, name="watch", daemon=True).start()

    def stir(self) -> None:
        """Call this for everything relayed: the store may be busy, and compressing has to stop."""
        if not self._is_awake:
            self._is_awake = True
            self._wanted.set()

    def end(self) -> None:
        """End the thread."""
        self._is_over = True
        self._wanted.set()

    def _run(self) -> None:
        gate = self._recorder.gate
        while True:
            self._is_idle = not self._wanted.wait(self._idle_seconds)
            if self._is_over:
                return
            if self._is_idle:
                self._use_idle_time()
                continue
            self._wanted.clear()
            self._is_awake = False
            time.sleep(_WATCH_SECONDS)
            while (since := gate.busy_since) is not None:
                if time.monotonic() - since > STALL_SECONDS:
                    self._recorder.stall(since, self._go_on_without)
                time.sleep(_WATCH_SECONDS)

    def _use_idle_time(self) -> None:
        """Compress on a separate thread, until the next line."""

        def use() -> None:
            try:
                from acp_proxy.run.idle_compression import compress  # imported only when there is time for it

                compress(self._recorder.store.root, lambda: self._is_idle and not self._is_awake)
            except ImportError:  # an upgrade has replaced it: the next proxy will do this
                return
            except Exception as bug:  # noqa: BLE001 - the conversation must not suffer from a bug here
                self._warn(f"internal error while idle: {type(bug).__name__}: {bug}")

        if not self._is_replaying() and (self._idling is None or not self._idling.is_alive()):
            self._idling = threading.Thread(target=use, name="idle", daemon=True)
            self._idling.start()
