"""Creates a fork's transcript: a copy of its parent's at the time of the fork. The fork's entries are appended to it.

The parent may be another agent's session, which continues with this agent. Then a note (``continued``) follows the
copy.

A fork is complete or absent: the copy is written to a file that no reader takes for a transcript, and gets its name
when it is complete. What a crash leaves of it is removed with other unfinished files (``compress.remove_leftovers``).
"""

import errno
import os
from contextlib import ExitStack, closing, suppress

from msgspec.structs import replace

from acp_proxy.errors import NewerFormat
from acp_proxy.store import layout as store_layout
from acp_proxy.store.layout import Layout, lock_folder
from acp_proxy.store.old_forks import complete_old_fork
from acp_proxy.transcript import file_access, file_format, file_names
from acp_proxy.transcript.drop_rewound import find_fork_end
from acp_proxy.transcript.file_format import Header, NoteType
from acp_proxy.transcript.reader import TranscriptReader
from acp_proxy.transcript.rewinds import Point

CONTINUED_RUN = "copied"
"""The run of the note that ends the copy of another agent's session. Frozen, since transcripts have it."""
_FORK_RUN = "forked"
"""The run of the notes at a fork's beginning, since no connection sent them. Frozen, too."""


def create(
    layout: Layout,
    agent_folder: str,
    parent_name: str,
    header: Header,
    copied_bytes: int | None = None,
    parent_folder: str | None = None,
) -> bool:
    """Create a fork's transcript. Returns False, and creates nothing, if the parent has none.

    ``parent_name``: its transcript's name. ``header``: the fork's. ``copied_bytes``: the parent's size when it was
    forked; None: now. ``parent_folder``: the parent's folder, if it is another agent's.

    Raises OSError; then nothing was created (FileExistsError: the fork has a transcript already).
    """
    parent_folder = parent_folder or agent_folder
    source_path = layout.transcript_path(parent_folder, parent_name)
    path = layout.transcript_path(agent_folder, file_names.file_name(header.session_id))
    with ExitStack() as stack:
        complete_old_fork(layout, parent_folder, parent_name)
        try:
            # Nobody masks a secret in the parent while it is copied, or removes the unfinished copy. In order, as
            # two agents' sessions may be copied to each other at the same time.
            for folder in sorted({source_path.parent, path.parent}):
                stack.enter_context(lock_folder(folder, wait=True))
            source = stack.enter_context(closing(TranscriptReader(source_path)))
        except (FileNotFoundError, NewerFormat):
            return False
        if source.header is None:  # damaged: the fork's header is made from it
            return False
        source.size = min(source.size, copied_bytes or source.size)  # the parent may have gone on, or lost its end
        ids = [source.header.session_id, *source.header.forked_from]
        header = replace(header, origin=source.header.origin, forked_from=ids, uid=file_names.make_uid())
        with suppress(OSError):  # the next list also finds it by its folder's time
            layout.mark(agent_folder, path.stem)
        # A name of its own for each attempt: if the last unlink fails, the name still leads to the fork's file, and
        # nobody may open it to write something else.
        unfinished = file_names.unfinished_path(
            path.with_stem(f"{path.stem}{file_names.ASIDE}{int.from_bytes(os.urandom(4), 'little')}")
        )
        try:
            out = file_access.open_private(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            try:
                _write(out, agent_folder, header, source)
            finally:
                os.close(out)  # an error says that something may not have been written
            if not store_layout.link_or_rename(unfinished, path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        finally:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
    return True


def _write(out: int, agent_folder: str, header: Header, source: TranscriptReader) -> None:
    """Write the header, the copy and the notes around it. Raises OSError."""
    assert source.header is not None
    parent_folder, size = source.path.parent.name, max(source.size - source.entries_start, 0)
    parent = {"transcript": source.path.stem, "createdAt": source.header.created_at, "size": size}
    parent |= {"agent": parent_folder} if parent_folder != agent_folder else {}
    note = {"type": NoteType.COPIED, **parent}
    head = file_format.encode_header(header) + file_format.encode_note(header.created_at, _FORK_RUN, note)
    file_access.write_at(out, head, 0)
    end = len(head) + source.copy_entries(out, len(head))
    if end < len(head) + size:  # the next attempt sees its size
        raise OSError(errno.EIO, "the file became shorter while it was copied", str(source.path))
    if file_access.read_at(out, 1, end - 1) != b"\n":  # the parent's last line is torn
        file_access.write_at(out, b"\n", end)
        end += 1
    if parent_folder != agent_folder:
        note = {"type": NoteType.CONTINUED, "agent": parent_folder, "session": header.forked_from[0]}
        file_access.write_at(out, file_format.encode_note(header.created_at, CONTINUED_RUN, note), end)


def find_end(
    layout: Layout, agent_folder: str, name: str, point: Point | None, forked_at: str | None = None
) -> int | None:
    """The uncompressed size of the part of a transcript with which a fork begins, in bytes, header included.

    ``point``: where the fork is made; None: at the end, or before the first entry later than ``forked_at``. Returns
    None if the transcript does not have that message. Raises OSError, NewerFormat.
    """
    complete_old_fork(layout, agent_folder, name)
    with closing(TranscriptReader(layout.transcript_path(agent_folder, name))) as reader:
        if point is not None:
            return find_fork_end(reader, point)
        if forked_at is None:
            return reader.size
        end = reader.entries_start
        for line in reader.read_lines():
            if line.entry is not None and line.entry.at > forked_at:
                break
            end = line.end
        return end
