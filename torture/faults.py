"""A bad disk for one process: calls on the files of a store fail, hang, or kill it. Needs Linux and a C compiler.

disk = faults.Disk(place, store)                     # None if unavailable
with proxied.editor(env=disk.env): ...
with disk.fails(errno.EIO, faults.WRITE, first=3):   # the third write from now on, and every later one
    ...
"""

import ctypes
import mmap
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

SOURCE = Path(__file__).with_name("faults.c")
OPEN, WRITE, SYNC, TRUNCATE, RENAME, UNLINK, MKDIR, READ = (1 << bit for bit in range(8))
TRANSCRIPT, JOURNAL, MARK, INDEX, OTHER = (1 << bit for bit in range(5))
CHANGES = OPEN | WRITE | SYNC | TRUNCATE | RENAME | UNLINK | MKDIR
ALL_CALLS, ALL_FILES = CHANGES | READ, TRANSCRIPT | JOURNAL | MARK | INDEX | OTHER
FOREVER = 1 << 60
_NOTHING, _FAIL, _HANG, _KILL, _HALF = range(5)
_BUILD_SECONDS = 60


class _Control(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_long) for name in ("act", "error", "calls", "files", "first", "last", "seen", "hit", "stuck")
    ]


class Disk:
    """Faults on the files of one store, in processes started with ``env``."""

    def __init__(self, place: Path, store: Path) -> None:
        library, path = built(place), store.with_name(f"{store.name}.control")
        path.write_bytes(bytes(ctypes.sizeof(_Control)))
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), ctypes.sizeof(_Control))
        self._control = _Control.from_buffer(self._shared)
        self.env = {
            **os.environ,
            "LD_PRELOAD": str(library),
            "TORTURE_STORE": str(store),
            "TORTURE_CONTROL": str(path),
        }

    @property
    def hit(self) -> int:
        """The number of calls that failed, hung or were killed since the fault was set."""
        return int(self._control.hit)

    @property
    def stuck(self) -> int:
        """The number of calls that hang now."""
        return int(self._control.stuck)

    def fails(
        self, error: int, calls: int, files: int = ALL_FILES, first: int = 1, last: int = FOREVER
    ) -> AbstractContextManager[None]:
        return self._armed(_FAIL, calls, files, first, last, error)

    def tears(
        self, error: int, files: int = ALL_FILES, first: int = 1, last: int = FOREVER
    ) -> AbstractContextManager[None]:
        """A write does half, then fails."""
        return self._armed(_HALF, WRITE, files, first, last, error)

    def hangs(self, calls: int, files: int = ALL_FILES, first: int = 1) -> AbstractContextManager[None]:
        return self._armed(_HANG, calls, files, first, FOREVER)

    def kills(self, calls: int, files: int, first: int) -> AbstractContextManager[None]:
        """SIGKILL directly before the call."""
        return self._armed(_KILL, calls, files, first, first)

    def counts(self, calls: int, files: int = ALL_FILES) -> AbstractContextManager[None]:
        """No fault; ``seen`` counts the calls."""
        return self._armed(_NOTHING, calls, files, 1, FOREVER)

    @property
    def seen(self) -> int:
        return int(self._control.seen)

    @contextmanager
    def _armed(self, act: int, calls: int, files: int, first: int, last: int, error: int = 0) -> Iterator[None]:
        control = self._control
        control.seen = control.hit = 0
        control.error, control.calls, control.files, control.first, control.last = error, calls, files, first, last
        control.act = act
        try:
            yield
        finally:
            control.act = _NOTHING


def built(place: Path) -> Path:
    """The path of the library, compiled if necessary."""
    library = place / "faults.so"
    compiler = shutil.which("cc")
    if not library.exists() and compiler is not None:
        made = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"]
        subprocess.run(made, check=True, timeout=_BUILD_SECONDS, stdin=subprocess.DEVNULL)
    return library


def can_be_had() -> bool:
    return sys.platform == "linux" and shutil.which("cc") is not None
