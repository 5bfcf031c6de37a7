"""The files that this process has open. A test looks only inside its own folder: other tests may leave files open."""

import os
from contextlib import suppress
from pathlib import Path

import pytest


def list_open_files() -> list[str]:
    """The paths of all open files, deleted ones included."""
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("this system does not tell which files are open")
    found = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{number}"))
    return [path for path in found if path.startswith("/") and not path.startswith("/proc/")]


def list_open_below(folder: Path) -> list[str]:
    """The paths of all open files in a folder."""
    return sorted(path for path in list_open_files() if Path(path).is_relative_to(folder))
