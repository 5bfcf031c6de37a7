"""Each system call on the store fails in turn, with each errno that it can give, once, three times or to the end.

For each call and each of its occurrences in a conversation, in a store that has sessions and in a new one.
Lost: a line that was changed, a message that is missing without a note of a gap or a note where none is, more than one
warning, bytes in another file, or a session that is not recorded, listed or loaded when the fault has passed.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

from torture import faults
from torture.faulty_conversations import ALWAYS, ONCE, SHORT, THRICE, Fault, FaultyConversations, Findings
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
FAILURE_COUNTS = (ONCE, THRICE, ALWAYS)
_FAULTS, _SHORT_FAULTS = 60, 6
"""The most of each call; another seed takes others."""


def run(scale: Scale) -> Iterator[Outcome]:
    if not faults.are_available():
        return
    faults.build_library(scale.place)
    count = scale.of(max(2, os.cpu_count() or 1), 1)
    idle_processes: SimpleQueue[FaultyConversations] = SimpleQueue()
    processes = [FaultyConversations(scale.place / f"worker-{number}") for number in range(count)]
    for process in processes:
        idle_processes.put(process)

    def run_idle(fault: Fault | None) -> Findings:
        idle = idle_processes.get()
        try:
            return idle.run(fault)
        finally:
            idle_processes.put(idle)

    try:
        call_counts = {
            has_sessions: run_idle(Fault("chmod", "EIO", first=1 << 30, has_sessions=has_sessions)).call_counts
            for has_sessions in (True, False)
        }
        with ThreadPoolExecutor(count) as executor:
            for call in faults.CALLS:
                faults_to_try = [
                    fault
                    for has_sessions in call_counts
                    for fault in list_faults(call, call_counts[has_sessions][call], has_sessions=has_sessions)
                ]
                faults_to_try = scale.chance(call).sample(
                    faults_to_try, min(scale.of(_FAULTS, _SHORT_FAULTS), len(faults_to_try))
                )
                if faults_to_try:
                    yield make_outcome(call, zip(faults_to_try, executor.map(run_idle, faults_to_try), strict=True))
    finally:
        for process in processes:
            process.close()


def list_faults(call: str, count: int, *, has_sessions: bool) -> Iterator[Fault]:
    """Faults of a call that a conversation makes ``count`` times: each of them, in each way to pass, with one errno
    after the other."""
    for failure_count in FAILURE_COUNTS:
        for number in range(max(count, len(ERRORS[call])) if count else 0):
            yield Fault(
                call,
                ERRORS[call][number % len(ERRORS[call])],
                first=number % count + 1,
                failure_count=failure_count,
                has_sessions=has_sessions,
            )


def make_outcome(call: str, results: Iterable[tuple[Fault, Findings]]) -> Outcome:
    """The row of a call."""
    errors: Counter[str] = Counter()
    gap_count = missing_count = message_count = lost_count = 0
    trouble: list[str] = []
    for fault, findings in results:
        if not findings.hit_count and not findings.trouble:
            continue  # threads take turns: there were fewer calls this time
        errors[fault.error] += 1
        message_count += findings.message_count
        missing_count += findings.missing_count
        gap_count += findings.gap_count
        lost_count += bool(findings.trouble)
        trouble += [f"{fault} ({findings.step}): {text}" for text in findings.trouble]
    error_counts = ", ".join(f"{error} {errors[error]:,}" for error in ERRORS[call] if errors[error])
    notes = f"{error_counts}; {gap_count:,} gaps ({missing_count:,} messages)"
    return Outcome(call, errors.total(), message_count, "messages", lost_count, also=notes, trouble=tuple(trouble))
