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
CALLS = (
    *("open", "read", "pread", "write", "pwrite", "fsync", "fdatasync", "ftruncate", "truncate", "rename", "unlink"),
    *("mkdir", "close", "stat", "fstat", "access", "opendir", "readdir", "link", "utimensat", "flock", "fcntl", "mmap"),
    *("copy_file_range", "statvfs", "chmod"),
)
"""The calls of the C library, as in faults.c."""


def mask_calls(*names: str) -> int:
    """The calls with these names, as the functions below take them."""
    return sum(1 << CALLS.index(name) for name in names)


OPEN, WRITE, READ = mask_calls("open"), mask_calls("write", "pwrite"), mask_calls("read", "pread")
SYNC, TRUNCATE = mask_calls("fsync", "fdatasync"), mask_calls("ftruncate", "truncate")
CHANGES = (
    OPEN | WRITE | SYNC | TRUNCATE | mask_calls("rename", "unlink", "mkdir", "link", "utimensat", "copy_file_range")
)
TRANSCRIPT, JOURNAL, MARK, INDEX, OTHER = (1 << bit for bit in range(5))
ALL_CALLS, ALL_FILES = CHANGES | READ, TRANSCRIPT | JOURNAL | MARK | INDEX | OTHER
FOREVER = 1 << 60
_NOTHING, _FAIL, _HANG, _KILL, _HALF, _SHORT = range(6)
_BUILD_SECONDS = 60
_PATH_BYTES = 1024


class _Control(ctypes.Structure):
    _fields_ = [
        *(
            (name, ctypes.c_long)
            for name in ("act", "error", "calls", "files", "first", "last", "seen", "hit", "stuck", "misused")
        ),
        ("count", ctypes.c_long * len(CALLS)),
        ("root", ctypes.c_char * _PATH_BYTES),
        ("unrelated", ctypes.c_char * _PATH_BYTES),
    ]


class Disk:
    """Faults on the files of one store, in processes started with ``env``."""

    def __init__(self, place: Path, store: Path) -> None:
        library, path = build_library(place), store.with_name(f"{store.name}.control")
        path.write_bytes(bytes(ctypes.sizeof(_Control)))
        self._share(path)
        self.watch(store)
        self.env = {**os.environ, "LD_PRELOAD": str(library), "TORTURE_CONTROL": str(path)}

    @classmethod
    def attach(cls, path: Path) -> "Disk":
        """The same, in another process. ``path``: of the file in ``TORTURE_CONTROL``."""
        disk = cls.__new__(cls)
        disk._share(path)
        return disk

    def _share(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), ctypes.sizeof(_Control))
        self._control = _Control.from_buffer(self._shared)

    def watch(self, store: Path, unrelated: Path | None = None) -> None:
        """Count the calls on the files of this store from now on. ``unrelated``: the file that gets the number of a
        descriptor whose close fails."""
        self._control.root = os.fsencode(store)
        self._control.unrelated = os.fsencode(unrelated) if unrelated is not None else b""
        self._control.misused = 0
        self._control.count = type(self._control.count)()

    @property
    def hit_count(self) -> int:
        """The number of calls that failed, hung or were killed since the fault was set."""
        return int(self._control.hit)

    @property
    def hanging_count(self) -> int:
        """The number of calls that hang now."""
        return int(self._control.stuck)

    @property
    def misused_count(self) -> int:
        """The number of calls on a descriptor whose close failed."""
        return int(self._control.misused)

    @property
    def call_counts(self) -> dict[str, int]:
        """How often each call was made since ``watch``."""
        return dict(zip(CALLS, self._control.count, strict=True))

    def fails(
        self, error: int, calls: int, files: int = ALL_FILES, first: int = 1, last: int = FOREVER
    ) -> AbstractContextManager[None]:
        return self._set_fault(_FAIL, calls, files, first, last, error)

    def tears(
        self, error: int, files: int = ALL_FILES, first: int = 1, last: int = FOREVER
    ) -> AbstractContextManager[None]:
        """A write does half, then fails."""
        return self._set_fault(_HALF, WRITE, files, first, last, error)

    def shortens(
        self, calls: int, files: int = ALL_FILES, first: int = 1, last: int = FOREVER
    ) -> AbstractContextManager[None]:
        """Reads and writes do half, and say so."""
        return self._set_fault(_SHORT, calls, files, first, last)

    def hangs(self, calls: int, files: int = ALL_FILES, first: int = 1) -> AbstractContextManager[None]:
        return self._set_fault(_HANG, calls, files, first, FOREVER)

    def kills(self, calls: int, files: int, first: int) -> AbstractContextManager[None]:
        """SIGKILL directly before the call."""
        return self._set_fault(_KILL, calls, files, first, first)

    def counts(self, calls: int, files: int = ALL_FILES) -> AbstractContextManager[None]:
        """No fault; ``seen_count`` counts the calls."""
        return self._set_fault(_NOTHING, calls, files, 1, FOREVER)

    @property
    def seen_count(self) -> int:
        return int(self._control.seen)

    def passes(self) -> None:
        """End the fault; ``hit_count`` stays."""
        self._control.act = _NOTHING

    @contextmanager
    def _set_fault(self, act: int, calls: int, files: int, first: int, last: int, error: int = 0) -> Iterator[None]:
        control = self._control
        control.seen = control.hit = 0
        control.error, control.calls, control.files, control.first, control.last = error, calls, files, first, last
        control.act = act
        try:
            yield
        finally:
            control.act = _NOTHING


def build_library(place: Path) -> Path:
    """The path of the library, compiled if necessary."""
    library = place / "faults.so"
    compiler = shutil.which("cc")
    if not library.exists() and compiler is not None:
        command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"]
        subprocess.run(command, check=True, timeout=_BUILD_SECONDS, stdin=subprocess.DEVNULL)
    return library


def are_available() -> bool:
    return sys.platform == "linux" and shutil.which("cc") is not None
