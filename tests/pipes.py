"""How much a pipe holds differs: by the system, by the size of its pages, and by how many pipes a user has."""

import contextlib
import os
import sys

import pytest

with contextlib.suppress(ImportError):
    import fcntl  # not on Windows

from acp_proxy.shell.output import WIDE

MORE_THAN_A_PIPE_HOLDS = 4 * WIDE
"""With pages of 64 KiB a pipe holds a megabyte without being asked."""
SMALL = 4096
"""Bytes that any pipe holds, and what one may always be made to hold: a page."""
_LEAST = 16 * 1024
"""Where the system does not tell."""


def held_by(fd: int) -> int:
    """Bytes that this pipe takes before it is read."""
    return fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ) if sys.platform == "linux" else _LEAST


def make_hold(fd: int, size: int) -> None:
    """Where no other system lets us say so, nothing happens."""
    if sys.platform == "linux":
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, size)


def _may_be_wide() -> bool:
    reading, writing = os.pipe()
    try:
        make_hold(writing, 2 * WIDE)
        return held_by(writing) == 2 * WIDE
    except PermissionError:  # what this user's pipes hold together has a limit
        return False
    finally:
        os.close(reading)
        os.close(writing)


needs_wide_pipes = pytest.mark.skipif(not _may_be_wide(), reason="the system does not let a pipe hold more")
