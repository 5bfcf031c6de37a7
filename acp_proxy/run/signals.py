"""The signals to handle; they stay blocked, and ``supervise`` waits for them.

On Windows, these are Ctrl-C and Ctrl-Break.
"""

import signal
import sys

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
