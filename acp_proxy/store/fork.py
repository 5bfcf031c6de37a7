"""Creates a fork's transcript: a copy of its parent's at the time of the fork. The fork's entries are appended to it.

The parent may be another agent's session, which continues with this agent. Then a note (``continued``) follows the
copy.

A fork is complete or absent: the copy is written to a file that no reader takes for a transcript, and gets its name
when it is complete. What a crash leaves of it is removed with other unfinished files (``compress.remove_leftovers``).
"""

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from acp_proxy.errors import NewerFormat
from acp_proxy.store import layout as store_layout
from acp_proxy.store.layout import Layout
from acp_proxy.transcript import file_format, file_names, private_files
from acp_proxy.transcript.drop_rewound import find_fork_end
from acp_proxy.transcript.file_format import GapReason, Header, NoteType
from acp_proxy.transcript.file_names import fork_path
from acp_proxy.transcript.reader import Reading, cut
from acp_proxy.transcript.rewinds import Point

CONTINUED_RUN = "copied"
"""The run of the note that ends the copy of another agent's session."""
_RUN = "forked"
"""The run of the notes at a fork's beginning, since no connection sent them."""
_ALIGNED_FROM = 1024 * 1024
"""Bytes from which on a copy is aligned, so that it can share the parent's blocks on disk."""


def create(
    layout: Layout, agent: str, parent: str, header: Header, until: int | None = None, parent_agent: str | None = None
) -> bool:
    """Create a fork's transcript. Returns False, and creates nothing, if the parent has none.

    ``parent``: its transcript's name. ``header``: the fork's. ``until``: the parent's size when it was forked; None:
    now. ``parent_agent``: the parent's folder, if it is another agent's.

    Raises OSError; then nothing was created (FileExistsError: the fork has a transcript already).
    """
    parent_agent = parent_agent or agent
    source_path = layout.transcript_path(parent_agent, parent)
    path = layout.transcript_path(agent, file_names.file_name(header.session))
    with ExitStack() as stack:
        finish(layout, parent_agent, parent)
        try:
            # Nobody masks a secret in the parent while it is copied, or removes the unfinished copy. In order, as
            # two agents' sessions may be copied to each other at the same time.
            for folder in sorted({source_path.parent, path.parent}):
                stack.enter_context(private_files.lock_folder(folder, wait=True))
            source = stack.enter_context(closing(Reading(source_path)))
        except (FileNotFoundError, NewerFormat):
            return False
        if source.header is None:  # damaged: the fork's header is made from it
            return False
        source.size = min(source.size, until or source.size)  # the parent may have gone on, or lost its end
        ids = [source.header.session, *source.header.forked_from]
        header = replace(header, origin=source.header.origin, forked_from=ids, uid=file_names.make_uid())
        with suppress(OSError):  # the next list also finds it by its folder's time
            layout.mark(agent, path.stem)
        # A name of its own for each attempt: if the last unlink fails, the name still leads to the fork's file, and
        # nobody may open it to write something else.
        new = file_names.unfinished_path(
            path.with_stem(f"{path.stem}{file_names.ASIDE}{int.from_bytes(os.urandom(4), 'little')}")
        )
        try:
            out = private_files.open_private(new, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            try:
                _write(out, agent, header, source)
            finally:
                os.close(out)  # an error says that something may not have been written
            if not store_layout.link_or_rename(new, path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        finally:
            with suppress(OSError):
                new.unlink(missing_ok=True)
    return True


def _write(out: int, agent: str, header: Header, source: Reading) -> None:
    """Write the header, the copy and the notes around it. Raises OSError."""
    assert source.header is not None
    of, size = source.path.parent.name, max(source.size - source.entries_at, 0)
    parent = {"transcript": source.path.stem, "createdAt": source.header.created_at, "size": size}
    parent |= {"agent": of} if of != agent else {}
    note = {"type": NoteType.COPIED, **parent}
    head = file_format.encode_header(header) + file_format.encode_note(header.created_at, _RUN, note)
    if size >= _ALIGNED_FROM:  # btrfs and XFS then share the parent's blocks: the copy takes no space
        head = head[:-1] + b" " * ((source.entries_at - len(head)) % private_files.BLOCK) + b"\n"
    private_files.write_at(out, head, 0)
    if (copied := source.copy_entries(size, out, len(head))) < size:  # it was truncated; the next attempt sees its size
        raise OSError(errno.EIO, "the file became shorter while it was copied", str(source.path))
    end = len(head) + copied
    if private_files.read_at(out, 1, end - 1) != b"\n":  # the parent's last line is torn
        private_files.write_at(out, b"\n", end)
        end += 1
    if of != agent:
        note = {"type": NoteType.CONTINUED, "agent": of, "session": header.forked_from[0]}
        private_files.write_at(out, file_format.encode_note(header.created_at, CONTINUED_RUN, note), end)


def find_end(layout: Layout, agent: str, name: str, point: Point | None, forked_at: str | None = None) -> int | None:
    """The uncompressed size of the part of a transcript with which a fork begins, in bytes, header included.

    ``point``: where the fork is made; None: at the end, or before the first entry later than ``forked_at``. Returns
    None if the transcript does not have that message. Raises OSError, NewerFormat.
    """
    finish(layout, agent, name)
    with closing(Reading(layout.transcript_path(agent, name))) as reading:
        if point is not None:
            return find_fork_end(reading, point)
        if forked_at is None:
            return reading.size
        end = reading.entries_at
        for line in reading.read_lines():
            if line.entry is not None and line.entry.at > forked_at:
                break
            end = line.end
        return end


# --- Completes forks that older versions began.
#
# They created the fork's file at once, under a name of its own (``file_names.fork_path``): a header, a note about the
# copy, space for it, then the fork's entries, which were appended while a thread filled the space. Such a process may
# still run, so the file must stay the same one; or a crash has ended it.

_BLANK = b" " * (64 * 1024 - 1) + b"\n"
"""Blank lines, which every reader ignores."""


class _MissingCopy(Struct, frozen=True):
    """What is to be copied into an unfinished fork.

    ``agent``: the parent's folder. ``parent``, ``created_at``: its transcript's name, and the time in its header.
    ``size``: bytes to copy. ``at``: the offset to copy them to. ``note``: where the note about this begins and ends.
    """

    agent: str
    parent: str
    created_at: str
    size: int
    at: int
    note: tuple[int, int]


def finish(layout: Layout, agent: str, name: str, *, wait: bool = True) -> None:
    """Complete a fork that an older version began. Does nothing if there is none of this name, or in a read-only store.

    Raises OSError (BlockingIOError: another process works in the folder and ``wait`` is False).
    """
    path = layout.transcript_path(agent, name)
    if not os.path.lexists(fork_path(path)) or layout.is_only_read:
        return
    with suppress(FileNotFoundError):  # another process finished or deleted it
        with _open_to_overwrite(fork_path(path)) as fd:
            missing = _read_missing_copy(fd, agent)
        if missing is not None and (missing.agent, missing.parent) != (agent, name):
            finish(layout, missing.agent, missing.parent, wait=wait)  # the parent may be an unfinished fork, too
        with private_files.lock_folder(path.parent, wait=wait):
            # The same file under both names: a crash came between the link and the unlink.
            is_done = os.path.lexists(path) and os.path.samefile(path, fork_path(path))
            if is_done or not _complete_copy(layout, agent, path):
                fork_path(path).unlink()
                return
            into = store_layout.move_transcript(fork_path(path), path)
            with suppress(OSError):  # it was marked when it was created, if that was possible
                layout.mark(agent, into)


@contextmanager
def _open_to_overwrite(path: Path) -> Iterator[int]:
    fd = private_files.open_private(path, os.O_RDWR)
    try:
        yield fd
    finally:
        os.close(fd)  # before it is renamed: Windows renames no open file


def _complete_copy(layout: Layout, agent: str, path: Path) -> bool:
    """Copy what is missing. Returns False if the head is incomplete: then nothing was ever written behind it.

    Raises OSError (BlockingIOError: the head is being written).
    """
    with _open_to_overwrite(fork_path(path)) as fd:
        if _read_head(fd) is None:
            private_files.lock(fd)  # held by who writes it
            if _read_head(fd) is None:
                return False
        if (missing := _read_missing_copy(fd, agent)) is not None:
            _copy_missing(layout, fd, missing)
        return True


def _copy_missing(layout: Layout, fd: int, missing: _MissingCopy) -> None:
    """Copy the parent's entries; without the parent, note a gap instead. Raises OSError."""
    copied = 0
    if (source := _find_parent(layout, missing)) is not None:
        with closing(source):
            copied = source.copy_entries(missing.size, fd, missing.at)
    if copied < missing.size:
        # What was copied goes too: the user may have deleted the parent to be rid of it.
        for at in range(0, missing.size, len(_BLANK)):
            private_files.write_at(fd, _BLANK[-min(len(_BLANK), missing.size - at) :], missing.at + at)
        begin, end = missing.note
        gap = file_format.encode_note(missing.created_at, _RUN, {"type": NoteType.GAP, "reason": GapReason.DELETED})
        private_files.write_at(fd, gap[:-1].ljust(end - begin - 1), begin)


def _find_parent(layout: Layout, missing: _MissingCopy) -> Reading | None:
    """The parent's transcript, even if it was set aside; None if it is gone. Raises OSError."""
    deleted = layout.get_journal(missing.agent).read_deleted()
    for path in layout.list_same_id(layout.transcript_path(missing.agent, missing.parent)):
        with suppress(FileNotFoundError, NewerFormat):
            reading = Reading(path)
            header = reading.header
            is_deleted = header is not None and header.session in deleted and path.stem == missing.parent
            if header is not None and header.created_at == missing.created_at and not is_deleted:
                return reading
            reading.close()
    return None


def _read_missing_copy(fd: int, agent: str) -> _MissingCopy | None:
    """What is to be copied; None if that is unknown, or the parent was gone before. Raises OSError."""
    begin, end, note = _read_head(fd) or (0, 0, {})
    parent, created, size, of = (note.get(key) for key in ("transcript", "createdAt", "size", "agent"))
    of = agent if of is None else of
    if note.get("type") != NoteType.COPIED or not (isinstance(parent, str) and file_names.is_ours(parent)):
        return None
    if not (isinstance(of, str) and os.path.basename(of) == of not in ("", ".", "..")):
        return None
    if not isinstance(created, str) or type(size) is not int:
        return None
    return _MissingCopy(of, parent, created, size, end, (begin, end))


def _read_head(fd: int) -> tuple[int, int, Mapping[str, object]] | None:
    """The note after the header: where it begins and ends, and its content. None if one of the two is incomplete."""
    lines = cut(partial(private_files.read_at, fd), 0, os.fstat(fd).st_size)
    (begin, first), (end, second) = next(lines, (0, b"")), next(lines, (0, b""))
    if not second.endswith(b"\n") or file_format.decode_header_of(first)[0] is None:
        return None
    entry = file_format.decode_entry(second)
    return (begin, end, entry.note) if entry is not None and entry.note else None
