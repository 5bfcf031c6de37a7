"""How much a pipe holds: this differs by system, page size and the number of the user's pipes."""

import os
import sys

import pytest

from acp_proxy.relay.pipes import WIDE_PIPE_BYTES
from tests.posix import fcntl

MORE_THAN_A_PIPE_HOLDS = 4 * WIDE_PIPE_BYTES
"""With pages of 64 KiB, a pipe holds a megabyte by default."""
SMALL = 4096
"""Bytes that every pipe holds, and a capacity that can always be set: one page."""
_LEAST = 16 * 1024
"""Assumed where the system does not tell."""


def count_held_bytes(fd: int) -> int:
    """Bytes that this pipe holds before it is read."""
    return fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ) if sys.platform == "linux" else _LEAST


def set_capacity(fd: int, size: int) -> None:
    """Set the capacity of a pipe. Only Linux can: elsewhere, nothing happens."""
    if sys.platform == "linux":
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, size)


def _may_be_wide() -> bool:
    reading, writing = os.pipe()
    try:
        set_capacity(writing, 2 * WIDE_PIPE_BYTES)
        return count_held_bytes(writing) == 2 * WIDE_PIPE_BYTES
    except PermissionError:  # the system limits what a user's pipes hold together
        return False
    finally:
        os.close(reading)
        os.close(writing)


needs_wide_pipes = pytest.mark.skipif(not _may_be_wide(), reason="the system does not let a pipe hold more")
