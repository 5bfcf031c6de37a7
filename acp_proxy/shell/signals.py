"""The signals that concern us, and how they wait until somebody listens (``supervise``, which is slow to import)."""

import signal
import sys

ENDING_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name))
HELD_SIGNALS = (*ENDING_SIGNALS, *(getattr(signal, name) for name in ("SIGCHLD",) if hasattr(signal, name)))


def hold() -> None:
    """What arrives from now on waits. Before any thread is started, since threads inherit it."""
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_BLOCK, HELD_SIGNALS)
