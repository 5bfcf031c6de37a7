"""How tests wait for other threads and processes. Every wait is bounded, and says what it waited for."""

import sys
import time
from collections.abc import Callable

SECONDS = 60.0 if sys.platform != "win32" else 600.0  # for Wine
"""The most that a test waits. Only a test that fails waits so long."""


def wait_until(is_so: Callable[[], object], what: str = "what another thread or process does") -> None:
    """Wait until another thread or process has brought something about."""
    deadline = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < deadline, f"no sign of {what} in {SECONDS:g} s"
        time.sleep(0.01)
