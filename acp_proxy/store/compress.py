"""Compresses transcripts that are no longer in use, and decompresses one that is written to again.

Locks: a process that renames, removes, compresses or decompresses a transcript holds the journal's lock; one that
overwrites bytes in a file holds its folder's. Compressing takes both, and for the final switch also the file's own
lock, which every appending process shares. If anything was appended by then, the switch is not made.

At every moment one complete form exists. If both exist, the plain one counts, and the other was left by a crash.

``os.close`` closes a file that was written here, since its error says that something may be lost: then the other form
stays. What was only read or locked is closed with ``file_access.close``, which ignores errors.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from acp_proxy.protocol import timestamps
from acp_proxy.store.layout import Layout, lock_folder, remove_file
from acp_proxy.transcript import file_access, file_format
from acp_proxy.transcript.compressed import CompressedTranscript, compress_chunks, read_pieces, write_chunks
from acp_proxy.transcript.file_format import GapReason, NoteType
from acp_proxy.transcript.file_names import (
    COMPRESSED_SUFFIX,
    SUFFIX,
    UNFINISHED,
    compressed_path,
    parse_transcript_name,
    unfinished_path,
)

MIN_BYTES = 256 * 1024
"""Compressing a smaller file saves almost nothing, as disks count in blocks, and there are many of them."""
MAX_BYTES = 128 * 1024 * 1024
"""Decompressing must take only a fraction of a second when a session continues (half of one if busy)."""
OLDER_THAN_SECONDS = 7 * 24 * 60 * 60.0
"""Since the last write: hardly any session continues after a week."""
_DAY_SECONDS = 24 * 60 * 60.0
REPAIR_RUN = "repair"
"""The run of the gap note after what is left of a damaged transcript."""


@dataclass(frozen=True, slots=True)
class CompressionOptions:
    """Which transcripts to compress, and how.

    ``min_size``: bytes. ``older_than``: seconds since the last write. ``dry_run``: only report what would be saved.
    ``may_continue``: called before each chunk; compressing stops if it returns False.
    """

    min_size: int = MIN_BYTES
    older_than: float = OLDER_THAN_SECONDS
    dry_run: bool = False
    may_continue: Callable[[], bool] = lambda: True


@dataclass(frozen=True, slots=True)
class CompressionResult:
    """A transcript that was compressed, or would be. ``size``, ``compressed_size``: its size in bytes as a plain and as
    a compressed file. ``inodes``: the inodes of the two files, in this order."""

    agent_folder: str
    name: str
    size: int
    compressed_size: int
    inodes: tuple[int, int] = (0, 0)


class _NotPossibleNow(Exception):
    """The transcript is in use, or compressing was told to stop."""


def compress(layout: Layout, agent_folder: str, name: str, options: CompressionOptions) -> CompressionResult | None:
    """Compress one transcript, and mark it for the index, because its file is a new one; None if that is not
    worthwhile, or not possible now. Raises OSError."""
    path = layout.transcript_path(agent_folder, name)
    with ExitStack() as stack:
        try:
            if not _is_worthwhile(path, options) or layout.is_marked(agent_folder, name):
                return None
            fd = file_access.open_private(path, os.O_RDONLY)
            stack.callback(file_access.close, fd)
            if options.dry_run:
                status = os.fstat(fd)
                compressed_size = sum(
                    len(data) for data in compress_chunks(_read_chunks(fd, status.st_size, options), status.st_size)
                )
                return CompressionResult(agent_folder, name, status.st_size, compressed_size)
            stack.enter_context(lock_folder(path.parent))
            if not _is_free(path):
                return None
            return _compress(layout, agent_folder, name, fd, options)
        except (_NotPossibleNow, FileNotFoundError, BlockingIOError, ValueError):
            return None


def _is_worthwhile(path: Path, options: CompressionOptions) -> bool:
    status = os.stat(path)
    return options.min_size <= status.st_size <= MAX_BYTES and time.time() - status.st_mtime >= options.older_than


def _is_free(path: Path) -> bool:
    """Whether locks show that nobody has it open to append. Raises OSError (BlockingIOError: somebody has)."""
    fd = file_access.open_private(path, os.O_RDONLY)
    try:
        return file_access.lock(fd)
    finally:
        file_access.close(fd)


def _compress(layout: Layout, agent_folder: str, name: str, fd: int, options: CompressionOptions) -> CompressionResult:
    path = layout.transcript_path(agent_folder, name)
    target, unfinished = compressed_path(path), unfinished_path(compressed_path(path))
    status = os.fstat(fd)
    try:
        out = file_access.open_private(unfinished, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            _check_unchanged(path, status)  # after the open: a delete from now on removes the new file too
            compressed_size = write_chunks(
                out, compress_chunks(_read_chunks(fd, status.st_size, options), status.st_size)
            )
            new_inode = os.fstat(out).st_ino
            if not all(_compare_chunks(fd, CompressedTranscript(out), status.st_size, options)):
                raise _NotPossibleNow
        finally:
            os.close(out)
        os.utime(unfinished, ns=(status.st_atime_ns, status.st_mtime_ns))
        with layout.get_journal(agent_folder).lock():
            file_access.lock(fd)  # not earlier: a process that continues the session must not wait
            _check_unchanged(path, status)
            if layout.is_marked(agent_folder, name):  # a turn has begun, although nothing of it is written yet
                raise _NotPossibleNow
            layout.mark(agent_folder, name)
            unfinished.replace(target)
            _fsync_folder(path.parent)
            remove_file(path)
            layout.mark(agent_folder, name)  # again: a process that read the plain file may have removed the mark
        return CompressionResult(agent_folder, name, status.st_size, compressed_size, (status.st_ino, new_inode))
    finally:
        unfinished.unlink(missing_ok=True)


def _read_chunks(fd: int, size: int, options: CompressionOptions) -> Iterator[bytes]:
    for data in read_pieces(lambda size, offset: file_access.read_at(fd, size, offset), size):
        if not options.may_continue():
            raise _NotPossibleNow
        yield data


def _compare_chunks(
    fd: int, compressed: CompressedTranscript, size: int, options: CompressionOptions
) -> Iterator[bool]:
    offset = 0
    for data in _read_chunks(fd, size, options):
        yield compressed.read(len(data), offset) == data
        offset += len(data)
    yield offset == size == compressed.size and not compressed.read(1, size) and not compressed.is_damaged


def _check_unchanged(path: Path, status: os.stat_result) -> None:
    """Raises _NotPossibleNow if the file changed, even by a process that takes no locks; OSError."""
    new_status = os.stat(path)
    is_same = (new_status.st_ino, new_status.st_size, new_status.st_mtime_ns) == (
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
    )
    if not is_same:
        raise _NotPossibleNow


def decompress(layout: Layout, agent_folder: str, path: Path) -> bool:
    """Decompress a transcript; False if it is plain already or does not exist. If it is damaged, a gap note follows
    what can be read, and the damaged file is moved to the backups. Raises OSError."""
    source, unfinished = compressed_path(path), unfinished_path(path)
    with layout.get_journal(agent_folder).lock(), ExitStack() as stack:
        if os.path.lexists(path):
            source.unlink(missing_ok=True)  # a crash left it
            return False
        try:
            fd = file_access.open_private(source, os.O_RDONLY)
        except FileNotFoundError:
            return False
        stack.callback(file_access.close, fd)
        is_listed = path == layout.transcript_path(agent_folder, path.stem)
        if is_listed:
            layout.mark(agent_folder, path.stem)
        transcript = CompressedTranscript(fd)
        stack.callback(lambda: unfinished.unlink(missing_ok=True))
        out = file_access.open_private(unfinished, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            size = write_chunks(out, transcript.read_all())
            if transcript.is_damaged and size:
                os.lseek(out, 0, os.SEEK_END)
                write_chunks(out, iter([_encode_gap(file_access.read_at(out, 1, size - 1))]))
        finally:
            os.close(out)
        unfinished.replace(path)
        if is_listed:  # again: a process that read the compressed file may have removed the mark
            layout.mark(agent_folder, path.stem)
        _fsync_folder(path.parent)
        _move_to_backups(layout, agent_folder, path.stem, source) if transcript.is_damaged else remove_file(source)
        return True


def _encode_gap(last_byte: bytes) -> bytes:
    """A gap note to follow what can be read of a damaged transcript, which ends with ``last_byte``."""
    gap = {"type": NoteType.GAP, "reason": GapReason.REPAIRED}
    note = file_format.encode_note(timestamps.format_now(time.time()), REPAIR_RUN, gap)
    return note if last_byte == b"\n" else b"\n" + note


def _move_to_backups(layout: Layout, agent_folder: str, name: str, source: Path) -> None:
    backup = compressed_path(layout.backup_path(agent_folder, name, timestamps.format_now(time.time())))
    file_access.make_directory(backup.parent)
    source.replace(backup)


def remove_leftovers(layout: Layout) -> None:
    """Remove what crashes left of compressing, in folders where nobody is compressing."""
    for agent_folder in layout.list_agents():
        with suppress(OSError):  # in use, or removed
            _remove_leftovers_of(layout, agent_folder)


def _remove_leftovers_of(layout: Layout, agent_folder: str) -> None:
    for folder in (layout.transcripts / agent_folder, layout.deleted / agent_folder):
        if any(_list_leftovers(folder)):
            with lock_folder(folder), layout.get_journal(agent_folder).lock():
                for path in _list_leftovers(folder):
                    path.unlink(missing_ok=True)


def _list_leftovers(folder: Path) -> list[Path]:
    """Unfinished files, and compressed files whose plain file exists."""
    try:
        with os.scandir(folder) as entries:
            files = {file.name: Path(file.path) for file in entries}
    except FileNotFoundError:
        return []
    return [
        path
        for file, path in files.items()
        if (name := parse_transcript_name(file.removesuffix(UNFINISHED))) is not None
        and (file.endswith(UNFINISHED) or (file.endswith(COMPRESSED_SUFFIX) and name + SUFFIX in files))
    ]


@contextmanager
def claim_day(stamp: Path) -> Iterator[bool]:
    """Yields whether today's work falls to this process: ``stamp`` is a day old, and no other process holds it. If so,
    leaving the context without an exception renews the stamp. Raises OSError."""
    with ExitStack() as stack:
        fd = file_access.open_private(stamp, os.O_RDWR | os.O_CREAT)
        stack.callback(file_access.close, fd)
        try:
            is_ours = file_access.lock(fd)
        except BlockingIOError:
            is_ours = False
        status = os.fstat(fd)
        is_due = is_ours and (not status.st_size or abs(time.time() - status.st_mtime) >= _DAY_SECONDS)
        yield is_due
        if is_due:
            os.truncate(fd, 0)
            os.write(fd, b"\n")


def _fsync_folder(folder: Path) -> None:
    """Ensure that a new name is on disk before the old one is removed, where the system supports that."""
    with suppress(PermissionError):  # Windows does not open directories
        fd = os.open(folder, os.O_RDONLY)
        try:
            file_access.fsync(fd)
        finally:
            file_access.close(fd)
