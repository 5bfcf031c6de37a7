"""The agent's process and its descendants: who they are, whether they still run, and signals to them.

On Linux this reads ``/proc``; on other systems it uses psutil, whose import costs a sixth of the CPU of a short run.
Either way start times are compared, so a later process with the same id is not taken for one of them.
"""

import os
import sys
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import psutil

HAS_PROC = sys.platform == "linux"
_STAT_BYTES = 4096
_ENDED_STATES = (b"Z", b"X")
"""States in which a process only waits for its parent to notice."""


class TreeProcess(Protocol):
    """A process of the tree."""

    pid: int

    def is_running(self) -> bool: ...

    def send(self, number: int) -> None:
        """Send a signal, if the process still exists and allows it."""


def import_psutil() -> None:
    """Import psutil, where an end needs it. Raises ImportError."""
    if not HAS_PROC:
        import psutil  # noqa: F401


def find_tree(pid: int) -> list[TreeProcess]:
    """The process and its descendants now; empty if there is no such process."""
    if HAS_PROC:
        return [*_find_descendants(pid)]
    import psutil

    try:
        root = psutil.Process(pid)
        return [PsutilProcess(root), *(PsutilProcess(child) for child in root.children(recursive=True))]
    except psutil.Error:
        return []


def send_signal(members: list[TreeProcess], number: int) -> None:
    """Send a signal to each process of the tree that still exists."""
    for member in members:
        member.send(number)


def find_running(members: list[TreeProcess]) -> list[TreeProcess]:
    """The processes of the tree that still run."""
    return [member for member in members if member.is_running()]


class LinuxProcess:
    """A process that ``/proc`` shows. ``start_time``: in the kernel's ticks."""

    def __init__(self, pid: int, start_time: bytes) -> None:
        self.pid = pid
        self._start_time = start_time

    def is_running(self) -> bool:
        stat = _read_stat(self.pid)
        return stat is not None and stat[2] == self._start_time and stat[0] not in _ENDED_STATES

    def send(self, number: int) -> None:
        if self.is_running():
            try:
                os.kill(self.pid, number)
            except OSError:  # it has just ended, or is another user's
                return


class PsutilProcess:
    """A process that psutil shows."""

    def __init__(self, process: "psutil.Process") -> None:
        self.pid = process.pid
        self._process = process

    def is_running(self) -> bool:
        import psutil

        try:
            return bool(self._process.is_running()) and self._process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False

    def send(self, number: int) -> None:
        import psutil

        try:
            self._process.send_signal(number)
        except (psutil.Error, OSError, ValueError):  # ValueError: Windows has no such signal
            return


def _find_descendants(pid: int) -> list[LinuxProcess]:
    processes = {
        process_id: stat
        for name in os.listdir("/proc")
        if name.isdecimal() and (stat := _read_stat(process_id := int(name)))
    }
    members = [LinuxProcess(pid, processes[pid][2])] if pid in processes else []
    for member in members:  # grows meanwhile
        members += [
            LinuxProcess(process_id, start_time)
            for process_id, (_, parent, start_time) in processes.items()
            if parent == member.pid
        ]
    return members


def _read_stat(pid: int) -> tuple[bytes, int, bytes] | None:
    """A process's state, its parent's id, and its start; None if it has gone."""
    try:
        file = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
        try:
            data = os.read(file, _STAT_BYTES)
        finally:
            os.close(file)
    except OSError:
        return None
    fields = data.rpartition(b")")[2].split()  # its name comes before, and may contain anything
    return fields[0], int(fields[1]), fields[19]
