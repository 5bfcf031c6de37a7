"""Opens a session's transcript to append to: the existing one, a new one, a fork's, or a copy's.

Another process may delete, restore, compress or create the same file at the same moment; the later one tries again.
"""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from acp_proxy.protocol import proxy_ids
from acp_proxy.store import delete, fork, old_forks, user_state
from acp_proxy.store import layout as store_layout
from acp_proxy.store.layout import Layout
from acp_proxy.transcript.appender import TranscriptAppender
from acp_proxy.transcript.file_format import Header
from acp_proxy.transcript.file_names import ASIDE, compressed_path, file_name

_OPEN_TRIES = 100
"""Attempts while other processes delete, create or compress the same file."""


class Deleted(FileNotFoundError):
    """The session, or the file that it was recorded to, was deleted; nothing is written until the delete is lifted."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.ENOENT, "it was deleted", str(path))


def open_to_append(
    layout: Layout,
    agent_folder: str,
    header: Header,
    *,
    is_new: bool,
    parent_id: str | None,
    copied_bytes: int | None = None,
) -> TranscriptAppender:
    """Open the transcript of a session to append to: the existing one, or a new one.

    ``is_new``: the agent has just created this session; an older session with the same id is set aside.
    ``parent_id``: id of the session that this one is a fork of; the new transcript begins with a copy of the
    parent's. ``copied_bytes``: how many bytes of the parent's transcript to copy; None: all. Raises OSError; Deleted if
    the session was deleted and is not ``is_new``.
    """
    path = layout.transcript_path(agent_folder, file_name(header.session_id))
    if parent_id == header.session_id and (source := proxy_ids.parse_other_agents_id(parent_id)) is not None:
        with contextlib.suppress(FileNotFoundError):  # the other agent's session is gone
            return open_copy(layout, agent_folder, header, source[0], file_name(source[1]))
        return _resume(layout, agent_folder, path, header)
    if parent_id is None and not is_new:
        return _resume(layout, agent_folder, path, header)
    delete.lift_delete(layout, agent_folder, header.session_id)
    layout.make_folder(path.parent)
    while True:
        _set_aside(layout, agent_folder, header.session_id, path)
        try:
            is_copied = parent_id is not None and fork.create(
                layout, agent_folder, file_name(parent_id), header, copied_bytes
            )
            transcript = TranscriptAppender(path, None if is_copied else header)
        except FileExistsError:  # another process was faster, as below
            continue
        except FileNotFoundError:  # another process has set it aside
            if path.parent.is_dir():
                continue
            raise
        if transcript.wrote_header or is_copied:
            return transcript
        transcript.close()  # another process's: its agent gave the same id at the same moment


def open_copy(
    layout: Layout, agent_folder: str, header: Header, parent_folder: str, parent_name: str
) -> TranscriptAppender:
    """Open the copy of another agent's session to append to: the existing one, or a new one. Raises OSError
    (FileNotFoundError: there is no such session).

    ``header``: the copy's. ``parent_folder``, ``parent_name``: the other agent's folder, and the transcript's name. A
    new copy has the user's title of the session.
    """
    name = file_name(header.session_id)
    path = layout.transcript_path(agent_folder, name)
    delete.lift_delete(layout, agent_folder, header.session_id)
    layout.make_folder(path.parent)
    for _ in range(_OPEN_TRIES):
        old_forks.complete_old_fork(layout, agent_folder, name)
        if layout.has_transcript(agent_folder, name):
            return _resume(layout, agent_folder, path, header)
        with contextlib.suppress(FileExistsError):  # another process was faster
            fork.create(layout, agent_folder, parent_name, header, parent_folder=parent_folder)
            transcript = TranscriptAppender(path)
            title = layout.get_journal(parent_folder).read_state().titles.get(parent_name)
            if title is not None:
                with contextlib.suppress(OSError):  # the copy is there without it
                    user_state.set_title(layout, agent_folder, header.session_id, name, title)
            return transcript
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))


def reopen(layout: Layout, agent_folder: str, session_id: str, identity: bytes) -> TranscriptAppender:
    """Open the file with this ``TranscriptAppender.identity`` again, even if it was set aside. Raises OSError; Deleted
    if it is gone."""
    path = layout.transcript_path(agent_folder, file_name(session_id))
    for candidate in layout.list_same_id(path):
        with contextlib.suppress(FileNotFoundError):
            decompressed = ensure_plain(layout, agent_folder, candidate)
            transcript = TranscriptAppender(candidate)
            if transcript.has_identity(identity, decompressed=decompressed):
                return transcript
            transcript.close()
    raise Deleted(path)


def was_renamed_or_deleted(layout: Layout, agent_folder: str, session_id: str, transcript: TranscriptAppender) -> bool:
    """Whether another process has set a session's open file aside, or deleted it. Not if a person has moved it
    elsewhere: then it goes on there. Raises OSError."""
    if transcript.is_at_its_path():
        return False
    # An open file's session was not deleted when it was opened. A removed file may have other names: in a snapshot of
    # hard links, or on NFS.
    if transcript.is_removed() or session_id in layout.get_journal(agent_folder).read_deleted():
        return True
    # Where another file has the name, this one was deleted, and the session begun anew, before anybody looked here.
    if not transcript.is_moved_by_hand and not layout.has_transcript(agent_folder, transcript.path.stem):
        transcript.is_moved_by_hand = not any(
            map(transcript.is_at, _list_possible_paths(layout, agent_folder, session_id))
        )
    return not transcript.is_moved_by_hand


def _list_possible_paths(layout: Layout, agent_folder: str, session_id: str) -> Iterator[Path]:
    """Where transcripts with this id can be, in the order in which files are renamed: in their place, set aside,
    soft-deleted."""
    name = file_name(session_id)
    yield from layout.list_same_id(layout.transcript_path(agent_folder, name))
    for soft_deleted_name in layout.list_soft_deleted_names(agent_folder):
        if soft_deleted_name.partition(ASIDE)[0] == name:
            yield layout.soft_deleted_path(agent_folder, soft_deleted_name)


def ensure_plain(layout: Layout, agent_folder: str, path: Path) -> bool:
    """Decompress a transcript if it is compressed; returns whether it was. Raises OSError."""
    if not os.path.lexists(compressed_path(path)):
        return False
    from acp_proxy.store.compress import decompress

    return decompress(layout, agent_folder, path)


def _resume(layout: Layout, agent_folder: str, path: Path, header: Header) -> TranscriptAppender:
    """Open the transcript of a session that is not new, or create it. Raises OSError, Deleted."""
    for _ in range(_OPEN_TRIES):
        if header.session_id in layout.get_journal(agent_folder).read_deleted():
            break
        old_forks.complete_old_fork(layout, agent_folder, path.stem)
        layout.make_folder(path.parent)
        ensure_plain(layout, agent_folder, path)
        with contextlib.suppress(FileNotFoundError):
            return TranscriptAppender(path, header, creates=False)
        # Others could decompress and compress it again while we look for either form. A new file would replace it.
        with contextlib.suppress(FileNotFoundError), layout.get_journal(agent_folder).lock():
            return TranscriptAppender(path, header)
    raise Deleted(path)


def _set_aside(layout: Layout, agent_folder: str, session_id: str, path: Path) -> None:
    """Rename an older session's transcript with this id, to a name that no other process takes. Raises OSError."""
    old_forks.complete_old_fork(layout, agent_folder, path.stem)
    if not _has_content(path) and not os.path.lexists(compressed_path(path)):
        return
    with delete.lock_completed_journal(layout, agent_folder):  # keeps others from compressing it
        try:
            new_name = store_layout.move_transcript(path, path.with_stem(f"{path.stem}{ASIDE}1"))
        except FileNotFoundError:  # another process was faster
            return
        layout.mark(agent_folder, new_name)
        layout.mark(agent_folder, path.stem)
        layout.move_backups(agent_folder, path.stem, new_name)
        with contextlib.suppress(OSError):  # disk full: the newer session keeps the title for now, and stays archived
            user_state.move_user_state(layout, agent_folder, session_id, path.stem, new_name)


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False
