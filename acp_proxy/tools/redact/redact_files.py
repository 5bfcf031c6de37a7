"""Masks secrets in stored files, in place, while other processes may append to them.

A file is never moved, replaced or shortened, and only the bytes of secrets change, so appending never has to wait; a
second run changes nothing. The original is kept only if the user names a directory for it. What is appended meanwhile
is masked too, as far as it is there when the end is reached. A compressed file is decompressed first.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import structs

from acp_proxy.protocol.framing import LineFramer
from acp_proxy.redaction.masking import MaskedSpan, Masking, apply_changes
from acp_proxy.redaction.split_secrets import SplitSecretFinder
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.store import old_forks, open_session
from acp_proxy.store.index_database import ListedSession
from acp_proxy.store.journal import Event, find_events
from acp_proxy.store.layout import JOURNAL_FILE, lock_folder
from acp_proxy.transcript import file_access, file_format, file_names
from acp_proxy.transcript.file_access import (
    make_directory,
    open_private,
    read_at,
    write_at,
)
from acp_proxy.transcript.reader import Line, TranscriptReader, open_to_read
from acp_proxy.transcript.summary import Summary
from acp_proxy.transcript.titles import mask_title

_READ_SIZE = 64 * 1024


def redact_stored(
    store: CommandStore, path: Path, masking: Masking, *, dry_run: bool, backup: Path | None = None
) -> Counter[str]:
    """Mask secrets in one file; ``dry_run``: only count them. Returns the number of matches by rule.

    A compressed file is decompressed if it contains secrets. ``backup``: a directory for the original of a file that
    changes, under the same path as in the store. Raises OSError, NewerFormat.
    """
    layout = store.layout
    if path.is_relative_to(layout.transcripts):
        old_forks.complete_old_fork(layout, path.parent.name, path.stem)
    if dry_run:
        return redact_file(path, masking, dry_run=True)
    original = backup / path.relative_to(layout.root) if backup is not None else None
    with lock_folder(path.parent, wait=True):  # keeps others from compressing it
        if not os.path.lexists(path):
            counts = redact_file(path, masking, dry_run=True)
            if not counts:
                return counts
            if path.is_relative_to(layout.backups):  # backups are compressed only if damaged, and cannot be masked
                if original is not None:
                    _back_up(file_names.compressed_path(path), file_names.compressed_path(original))
                file_names.compressed_path(path).unlink()
                return counts
            open_session.ensure_plain(layout, path.parent.name, path)
        counts = redact_file(path, masking, dry_run=False, original=original)
        if path.name == JOURNAL_FILE:  # even if nothing was found: an earlier run may have been interrupted here
            for name in layout.get_journal(path.parent.name).read_state().titles:  # the search tables have them too
                layout.remove_search_tables(name)
        return counts


def redact_file(path: Path, masking: Masking, *, dry_run: bool, original: Path | None = None) -> Counter[str]:
    """Mask secrets in a plain file; ``dry_run``: only count them, in a file of any form. Returns the matches by rule.

    ``original``: a new file for the content before the first change. Raises OSError, NewerFormat.
    """
    counts: Counter[str] = Counter()
    backed_up_size = 0
    fd, compressed = open_to_read(path) if dry_run else (open_private(path, os.O_RDWR), None)
    try:
        for change in _find_changes(compressed.read if compressed is not None else partial(read_at, fd), masking):
            counts[change.rule] += change.match_count
            if not dry_run:
                if original is not None and backed_up_size < change.offset + len(change.mask):
                    backed_up_size = _back_up_from(fd, original, backed_up_size)
                write_at(fd, change.mask, change.offset)
        if counts and not dry_run:
            file_access.fsync(fd)
    finally:
        os.close(fd)
    return counts


def _back_up(path: Path, original: Path) -> None:
    fd = open_private(path, os.O_RDONLY)
    try:
        _back_up_from(fd, original, 0)
    finally:
        file_access.close(fd)


def _back_up_from(fd: int, original: Path, offset: int) -> int:
    """Copy what a file has after the offset ``offset``, up to its end; on disk when this returns the end's offset.

    So a line that is appended while the file is being masked is kept, too, before it changes. Raises OSError.
    """
    make_directory(original.parent)
    out = open_private(original, os.O_WRONLY | (0 if offset else os.O_CREAT | os.O_EXCL))
    try:
        while data := read_at(fd, _READ_SIZE, offset):
            write_at(out, data, offset)
            offset += len(data)
        file_access.fsync(out)
    finally:
        os.close(out)
    return offset


@contextmanager
def mask_copy(
    store: CommandStore, listed: ListedSession, reader: TranscriptReader, masking: Masking
) -> Iterator[tuple[TranscriptReader, str | None]]:
    """Yields a masked copy of a session's transcript, and its masked title; the copy is removed afterwards.

    Raises OSError, NewerFormat.
    """
    title = store.read_state(listed.agent_folder).titles.get(listed.name)
    with TemporaryDirectory(prefix="acp-proxy-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / reader.path.name
        fd = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        with os.fdopen(fd, "wb") as file:
            file.writelines(reader.read_bytes(0))
        redact_file(path, masking, dry_run=False)
        copy = TranscriptReader(path)
        try:
            yield copy, _read_title(copy) if title is None else mask_title(title, masking.mask_lines)
        finally:
            copy.close()


def mask_bytes(data: bytes, masking: Masking) -> bytes:
    """A whole transcript with secrets masked."""
    return apply_changes(data, _find_changes(lambda size, offset: data[offset : offset + size], masking))


def _read_title(reader: TranscriptReader) -> str | None:
    """The title that a list would show, made from the masked text.

    A title that was cut may contain so little of a secret that no rule finds it.
    """
    summary = Summary()
    for line in reader.read_alike():
        if isinstance(line, Line) and line.entry is not None:
            summary.add(line.entry)
    return summary.title


def _find_changes(read: Callable[[int, int], bytes], masking: Masking) -> Iterator[MaskedSpan]:
    split_finder, offset = SplitSecretFinder(masking), 0
    for line in _read_lines(read):
        if not offset:
            file_format.decode_header(line)  # raises NewerFormat: it is unknown which values a later version needs
        changes = _keep_events(line, masking.find_changes(line))
        yield from (replace(change, offset=offset + change.offset) for change in changes)
        yield from split_finder.add(apply_changes(line, changes), offset)
        offset += len(line)
    yield from split_finder.end()


def _keep_events(line: bytes, changes: list[MaskedSpan]) -> list[MaskedSpan]:
    """The changes of a journal's line that leave its events what they are, but for their titles.

    A pattern of the user's may match the name of a transcript.
    """

    def read_events(data: bytes) -> list[Event]:
        return [structs.replace(piece.value, title=None) for piece in find_events(data)]

    if not changes or not (events := read_events(line)):
        return changes
    return [change for change in changes if read_events(apply_changes(line, [change])) == events]


def _read_lines(read: Callable[[int, int], bytes]) -> Iterator[bytes]:
    framer, offset = LineFramer(), 0
    while data := read(_READ_SIZE, offset):
        offset += len(data)
        yield from framer.feed(data)
    if last_line := framer.take_unfinished():
        yield last_line
