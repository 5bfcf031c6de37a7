"""The agent's process and its descendants: who they are, whether they still run, and signals to them.

Only an end imports psutil, which would cost each run a sixth of its CPU at the start, and memory. It compares start
times, so a later process with the same id is not taken for one of them.
"""

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil


def find_tree(pid: int) -> "list[psutil.Process]":
    """The process and its descendants now; empty if there is no such process. Raises ImportError."""
    import psutil

    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.Error:
        return []


def send_signal(processes: "list[psutil.Process]", number: int) -> None:
    """Send a signal to each of these processes that still exists and allows it."""
    for process in processes:
        import psutil

        with suppress(psutil.Error, OSError, ValueError):  # ValueError: Windows has no such signal
            process.send_signal(number)


def find_running(processes: "list[psutil.Process]") -> "list[psutil.Process]":
    """Those of these processes that still run."""
    return [process for process in processes if _is_running(process)]


def _is_running(process: "psutil.Process") -> bool:
    import psutil

    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
