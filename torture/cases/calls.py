"""Each system call on the store fails in turn, with each errno that it can give, once, three times or to the end.

For each call and each of its occurrences in a conversation (``cells``), in a store with sessions and in a new one.
Lost: a line that was changed, a message that is missing without a note of a gap or a note where none is, more than one
warning, bytes in another file, or a session that is not recorded, listed or loaded when the fault has passed.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

from torture import faults
from torture.cells import ALWAYS, ONCE, SHORT, THRICE, Cell, Cells, Found
from torture.outcome import Outcome, Scale

_PATH = ("EIO", "EACCES", "ELOOP", "ENOMEM", "ESTALE")
_ROOM = ("ENOSPC", "EDQUOT", "EROFS")
_DATA = ("EIO", "ENOSPC", "EDQUOT")
ERRORS: dict[str, tuple[str, ...]] = {
    "open": (*_PATH, *_ROOM, "EMFILE", "ENFILE"),
    "read": (SHORT, "EIO", "ESTALE"),
    "pread": (SHORT, "EIO", "ESTALE"),
    "write": (SHORT, *_DATA, "EFBIG", "EPERM", "ESTALE"),
    "pwrite": (SHORT, *_DATA, "EFBIG", "EPERM", "ESTALE"),
    "fsync": (*_DATA, "EROFS", "EINVAL"),
    "fdatasync": (*_DATA, "EROFS", "EINVAL"),
    "ftruncate": ("EIO", "EFBIG", "EPERM", "EROFS"),
    "truncate": ("EIO", "EFBIG", "EPERM", "EROFS"),
    "rename": ("EIO", "EACCES", *_ROOM, "EBUSY", "EPERM", "EXDEV"),
    "unlink": ("EIO", "EACCES", "EBUSY", "EPERM", "EROFS"),
    "mkdir": ("EIO", "EACCES", *_ROOM, "EMLINK"),
    "close": (*_DATA, "EINTR"),
    "stat": (*_PATH, "EOVERFLOW"),
    "fstat": ("EIO", "ENOMEM", "ESTALE", "EOVERFLOW"),
    "access": (*_PATH, "EROFS"),
    "opendir": ("EIO", "EACCES", "EMFILE", "ENFILE", "ENOMEM"),
    "readdir": ("EIO", "ENOENT", "ESTALE"),
    "link": ("EIO", "EACCES", *_ROOM, "EMLINK", "EPERM", "EXDEV"),
    "utimensat": ("EIO", "EACCES", "EPERM", "EROFS"),
    "flock": ("ENOLCK", "EIO", "ENOSYS", "EOPNOTSUPP"),
    "fcntl": ("ENOLCK", "EIO", "EAGAIN", "EDEADLK"),
    "mmap": ("ENOMEM", "EACCES", "ENODEV", "EAGAIN"),
    "copy_file_range": (SHORT, *_DATA, "EXDEV", "EOPNOTSUPP", "EFBIG", "EINVAL"),
    "statvfs": ("EIO", "ENOSYS"),
    "chmod": ("EIO", "EPERM", "EROFS"),
}
"""The errnos of each call: those of its man page that a file system can cause, and ESTALE of one on a network. Not
those that say that the store is in the wrong place (ENOTDIR, EPERM of opens), and not EINTR, which Python handles."""
TIMES = (ONCE, THRICE, ALWAYS)
_CELLS, _SHORT_CELLS = 60, 6
"""The most of each call; another seed takes others."""


def run(scale: Scale) -> Iterator[Outcome]:
    if not faults.can_be_had():
        return
    faults.built(scale.place)
    count = scale.of(max(2, os.cpu_count() or 1), 1)
    workers: SimpleQueue[Cells] = SimpleQueue()
    started = [Cells(scale.place / f"worker-{number}") for number in range(count)]
    for one in started:
        workers.put(one)

    def found(cell: Cell | None) -> Found:
        worker = workers.get()
        try:
            return worker.run(cell)
        finally:
            workers.put(worker)

    try:
        counted = {used: found(Cell("chmod", "EIO", 1 << 30, used=used)).counted for used in (True, False)}
        with ThreadPoolExecutor(count) as at_once:
            for call in faults.CALLS:
                cells = [cell for used in counted for cell in cells_of(call, counted[used][call], used=used)]
                cells = scale.chance(call).sample(cells, min(scale.of(_CELLS, _SHORT_CELLS), len(cells)))
                if cells:
                    yield outcome(call, zip(cells, at_once.map(found, cells), strict=True))
    finally:
        for one in started:
            one.close()


def cells_of(call: str, count: int, *, used: bool) -> Iterator[Cell]:
    """Cells for a call that a conversation makes ``count`` times: each of them, in each way to pass, with one errno
    after the other."""
    for times in TIMES:
        for at in range(max(count, len(ERRORS[call])) if count else 0):
            yield Cell(call, ERRORS[call][at % len(ERRORS[call])], at % count + 1, times, used=used)


def outcome(call: str, results: Iterable[tuple[Cell, Found]]) -> Outcome:
    """The row of a call."""
    errors: Counter[str] = Counter()
    gaps = missing = messages = lost = 0
    trouble: list[str] = []
    for cell, found in results:
        if not found.hit and not found.trouble:
            continue  # threads take turns: there were fewer calls this time
        errors[cell.error] += 1
        messages += found.said
        missing += found.missing
        gaps += found.gaps
        lost += bool(found.trouble)
        trouble += [f"{cell} ({found.step}): {text}" for text in found.trouble]
    told = ", ".join(f"{error} {errors[error]:,}" for error in ERRORS[call] if errors[error])
    also = f"{told}; {gaps:,} gaps ({missing:,} messages)"
    return Outcome(call, errors.total(), messages, "messages", lost, also=also, trouble=tuple(trouble))
