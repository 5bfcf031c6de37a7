"""The signals to handle. They stay blocked, and a thread of their own waits for them: a handler would run only when the
main thread does, and a signal that comes just before that begins to wait would be seen at its next report, or never.

On Windows, these are Ctrl-C and Ctrl-Break.
"""

import signal
import sys
import threading
from collections.abc import Callable

ENDING_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGBREAK") if hasattr(signal, name)
)
BLOCKED_SIGNALS = (*ENDING_SIGNALS, *(getattr(signal, name) for name in ("SIGCHLD",) if hasattr(signal, name)))


def block() -> None:
    """Block the signals. Call this before starting threads, because threads inherit it.

    On Windows, Ctrl-C ends this process until ``supervise`` handles it, and the agent with it.
    """
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED_SIGNALS)
    else:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # else Python would print a traceback


def watch(on_signal: Callable[[int], None]) -> None:
    """Call ``on_signal`` with the number of each signal from now on, and of those that came since ``block``.

    Call this on the main thread. ``on_signal`` is called on another one; on Windows, in a handler on the main thread.
    """
    if sys.platform == "win32":
        for number in ENDING_SIGNALS:
            signal.signal(number, lambda number, _: on_signal(number))
        return
    signal.signal(signal.SIGCHLD, lambda *_: None)  # macOS drops a signal that is ignored, though it is waited for

    def wait_for_signals() -> None:
        while True:
            on_signal(signal.sigwait(BLOCKED_SIGNALS))

    threading.Thread(target=wait_for_signals, name="signals", daemon=True).start()
