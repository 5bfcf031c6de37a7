"""Real processes, found by a mark in their environment, which their children inherit."""

import os
import select
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

import psutil

SECONDS = 90.0
"""Longer than any start or end takes, even of npx on a busy machine."""
_MARK = "ACP_PROXY_TORTURE"


def environment(mark: str, **more: str) -> Mapping[str, str]:
    return os.environ | {_MARK: mark} | more


def list_marked(mark: str) -> list[psutil.Process]:
    """The running processes with this mark."""
    return [process for process in psutil.process_iter() if _mark_of(process) == mark and runs(process)]


def _mark_of(process: psutil.Process) -> str | None:
    try:
        return process.environ().get(_MARK)
    except (psutil.Error, OSError):
        return None


def runs(process: psutil.Process) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def are_gone(processes: Iterable[psutil.Process], seconds: float = SECONDS) -> bool:
    """Whether all of them end in time."""
    deadline = time.monotonic() + seconds
    return all(is_gone(process, deadline - time.monotonic()) for process in processes)


def is_gone(process: psutil.Process, seconds: float = SECONDS) -> bool:
    try:
        if not hasattr(os, "pidfd_open"):
            process.wait(max(seconds, 0))
            return True
        ended = os.pidfd_open(process.pid)
    except (psutil.NoSuchProcess, ProcessLookupError):
        return True
    except psutil.TimeoutExpired:
        return False
    try:
        # A zombie counts as gone.
        return not process.is_running() or bool(select.select([ended], [], [], max(seconds, 0))[0])
    finally:
        os.close(ended)


def end(mark: str) -> None:
    """End all processes with this mark, including those that they are just starting."""
    while left := list_marked(mark):
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        are_gone(left)


@contextmanager
def hear_signals() -> Iterator[None]:
    """Processes started within this react to the signals that background processes often ignore."""
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        if before[number] is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
