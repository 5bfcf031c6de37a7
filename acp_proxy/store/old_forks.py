"""Completes forks that versions before 0.1.0 began; ``store/fork.py`` begins no such one.

Each list of an agent completes its forks (``StoreIndex.bring_in``), so this can go with the version after 0.1.0.

Those versions created the fork's file at once, under a name of its own (``file_names.fork_path``): a header, a note
about the copy, space for it, then the fork's entries, which were appended while a thread filled the space. Such a
process may still run, so the file must stay the same one; or a crash has ended it.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

from msgspec import Struct

from acp_proxy.errors import NewerFormat
from acp_proxy.store import layout as store_layout
from acp_proxy.store.layout import Layout, lock_folder
from acp_proxy.transcript import file_access, file_format, file_names
from acp_proxy.transcript.file_format import GapReason, NoteType
from acp_proxy.transcript.file_names import fork_path
from acp_proxy.transcript.reader import TranscriptReader, split_file

_FORK_RUN = "forked"
"""The run of the note about what could not be copied."""
_BLANK = b" " * (64 * 1024 - 1) + b"\n"
"""Blank lines, which every reader ignores."""


class _MissingCopy(Struct, frozen=True):
    """What is to be copied into an unfinished fork.

    ``agent_folder``: the parent's. ``parent_name``, ``created_at``: its transcript's name, and the time in its header.
    ``size``: bytes to copy. ``offset``: where to, in the fork. ``note``: where the note about this begins and ends.
    """

    agent_folder: str
    parent_name: str
    created_at: str
    size: int
    offset: int
    note: tuple[int, int]


def complete_old_fork(layout: Layout, agent_folder: str, name: str, *, wait: bool = True) -> None:
    """Complete a fork that an old version began. Does nothing if there is none of this name, or in a read-only store.
    Raises OSError (BlockingIOError: another process works in the folder and ``wait`` is False)."""
    path = layout.transcript_path(agent_folder, name)
    if not os.path.lexists(fork_path(path)) or layout.is_read_only:
        return
    with suppress(FileNotFoundError):  # another process finished or deleted it
        with _open_to_overwrite(fork_path(path)) as fd:
            missing = _read_missing_copy(fd, agent_folder)
        if missing is not None and (missing.agent_folder, missing.parent_name) != (agent_folder, name):
            # The parent may be an unfinished fork, too.
            complete_old_fork(layout, missing.agent_folder, missing.parent_name, wait=wait)
        with lock_folder(path.parent, wait=wait):
            # The same file under both names: a crash came between the link and the unlink.
            is_done = os.path.lexists(path) and os.path.samefile(path, fork_path(path))
            if is_done or not _complete_copy(layout, agent_folder, path):
                fork_path(path).unlink()
                return
            new_name = store_layout.move_transcript(fork_path(path), path)
            with suppress(OSError):  # it was marked when it was created, if that was possible
                layout.mark(agent_folder, new_name)


@contextmanager
def _open_to_overwrite(path: Path) -> Iterator[int]:
    fd = file_access.open_private(path, os.O_RDWR)
    try:
        yield fd
    finally:
        os.close(fd)  # before it is renamed: Windows renames no open file


def _complete_copy(layout: Layout, agent_folder: str, path: Path) -> bool:
    """Copy what is missing. Returns False if the head is incomplete: then nothing was ever written after it. Raises
    OSError (BlockingIOError: the head is being written)."""
    with _open_to_overwrite(fork_path(path)) as fd:
        if _read_head(fd) is None:
            file_access.lock(fd)  # held by who writes it
            if _read_head(fd) is None:
                return False
        if (missing := _read_missing_copy(fd, agent_folder)) is not None:
            _copy_missing(layout, fd, missing)
        return True


def _copy_missing(layout: Layout, fd: int, missing: _MissingCopy) -> None:
    """Copy the parent's entries; without the parent, note a gap instead. Raises OSError."""
    copied = 0
    if (source := _find_parent(layout, missing)) is not None:
        with closing(source):
            source.size = min(source.size, source.entries_start + missing.size)
            copied = source.copy_entries(fd, missing.offset)
    if copied < missing.size:
        # What was copied goes too: the user may have deleted the parent to be rid of it.
        for offset in range(0, missing.size, len(_BLANK)):
            file_access.write_at(fd, _BLANK[-min(len(_BLANK), missing.size - offset) :], missing.offset + offset)
        begin, end = missing.note
        gap = file_format.encode_note(
            missing.created_at, _FORK_RUN, {"type": NoteType.GAP, "reason": GapReason.DELETED}
        )
        file_access.write_at(fd, gap[:-1].ljust(end - begin - 1), begin)


def _find_parent(layout: Layout, missing: _MissingCopy) -> TranscriptReader | None:
    """The parent's transcript, even if it was set aside; None if it is gone. Raises OSError."""
    deleted = layout.get_journal(missing.agent_folder).read_deleted()
    for path in layout.list_same_id(layout.transcript_path(missing.agent_folder, missing.parent_name)):
        with suppress(FileNotFoundError, NewerFormat):
            reader = TranscriptReader(path)
            header = reader.header
            is_deleted = header is not None and header.session_id in deleted and path.stem == missing.parent_name
            if header is not None and header.created_at == missing.created_at and not is_deleted:
                return reader
            reader.close()
    return None


def _read_missing_copy(fd: int, agent_folder: str) -> _MissingCopy | None:
    """What is to be copied; None if that is unknown, or the parent was gone before. Raises OSError."""
    begin, end, note = _read_head(fd) or (0, 0, {})
    parent, created, size, parent_folder = (note.get(key) for key in ("transcript", "createdAt", "size", "agent"))
    parent_folder = agent_folder if parent_folder is None else parent_folder
    if note.get("type") != NoteType.COPIED or not (isinstance(parent, str) and file_names.has_generated_form(parent)):
        return None
    if not (isinstance(parent_folder, str) and os.path.basename(parent_folder) == parent_folder not in ("", ".", "..")):
        return None
    if not isinstance(created, str) or type(size) is not int:
        return None
    return _MissingCopy(parent_folder, parent, created, size, end, (begin, end))


def _read_head(fd: int) -> tuple[int, int, Mapping[str, object]] | None:
    """The note after the header: where it begins and ends, and its content. None if one of the two is incomplete."""
    lines = split_file(partial(file_access.read_at, fd), 0, os.fstat(fd).st_size)
    (begin, first), (end, second) = next(lines, (0, b"")), next(lines, (0, b""))
    if not second.endswith(b"\n") or file_format.find_header(first)[0] is None:
        return None
    entry = file_format.decode_entry(second)
    return (begin, end, entry.note) if entry is not None and entry.note else None
