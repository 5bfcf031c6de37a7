"""Adds turns that were recorded on another machine to a transcript that nobody has open.

A transcript is replaced by a longer one, under the locks that compression uses, so that at every moment there is one
complete file. A process that opens it in this moment finds that the name leads elsewhere, and opens the new one.

Turns for a transcript that somebody has open wait in a file of their own (``store_remote_turns``). The next load adds
them (``append_remote_turns``), unless sync does so before.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import orjson
from msgspec.structs import replace

from acp_proxy.protocol import acp
from acp_proxy.store import open_session
from acp_proxy.store.layout import Layout, lock_folder
from acp_proxy.transcript import file_access, file_format
from acp_proxy.transcript.appender import lock_if_unused
from acp_proxy.transcript.compressed import write_chunks
from acp_proxy.transcript.file_format import Header, NoteType, RemotePart
from acp_proxy.transcript.file_names import unfinished_path
from acp_proxy.transcript.reader import TranscriptReader
from acp_proxy.transcript.rebuild_header import find_session_id

_APPEND_LIMIT_BYTES = 64 * 1024 * 1024
"""A load waits while a transcript is written anew: not for one with more bytes."""


def append_turns(
    layout: Layout,
    agent_folder: str,
    name: str,
    expected_size: int,
    data: bytes,
    uid: str,
    remote_parts: list[RemotePart],
    *,
    wait: bool = True,
    kept_size: int | None = None,
) -> bool:
    """Add ``data``, which are entries, to a transcript. Returns False, and adds nothing, if somebody has it open, or if
    the size of its entries is not ``expected_size`` bytes. Raises OSError, NewerFormat.

    ``uid``: given to the transcript if its header has none. ``remote_parts``: which of the new entries another machine
    recorded, as in ``Header.remote_parts``. ``wait``: if another process replaces a transcript of this agent now, wait
    for it; otherwise BlockingIOError is raised. ``kept_size``: how many bytes of the old entries stay; None: all.
    """
    path = layout.transcript_path(agent_folder, name)
    # Nobody compresses it meanwhile, or overwrites bytes in it.
    with lock_folder(path.parent, wait=wait):
        open_session.ensure_plain(layout, agent_folder, path)
        with layout.get_journal(agent_folder).lock():  # nobody deletes it, and gives its name to another
            with lock_if_unused(path) as is_unused:
                if not is_unused:  # a writer's entries would end up in the file that is replaced
                    return False
                with closing(TranscriptReader(path)) as reader:
                    header = reader.header
                    # The turns may follow another end than the file has.
                    if header is None or reader.size - reader.entries_start != expected_size:
                        return False
                    old_parts = header.remote_parts
                    if kept_size is not None:
                        reader.size = reader.entries_start + kept_size
                        old_parts = [
                            (start, min(end, kept_size), machine)
                            for start, end, machine in old_parts
                            if start < kept_size
                        ]
                    all_parts = join_parts([*old_parts, *remote_parts])
                    header = complete_header(replace(header, uid=header.uid or uid, remote_parts=all_parts), data)
                    write_unfinished(path, _chain_file(header, reader, data))
                # First: after a crash the index must not believe that it knows the file.
                layout.mark(agent_folder, name)
                is_there = _move_into_place(path)
            if not (is_there or _move_into_place(path)):  # Windows replaces no open file, and this process had it open
                unfinished_path(path).unlink(missing_ok=True)
                return False
            layout.mark(agent_folder, name)  # again: a process that read the old file may have removed the mark
    return True


def store_remote_turns(
    layout: Layout,
    agent_folder: str,
    name: str,
    expected_size: int,
    data: bytes,
    uid: str,
    remote_parts: list[RemotePart],
) -> None:
    """Store entries that ``append_turns`` could not add, for the next load. Parameters as there. Raises OSError."""
    path = layout.waiting_turns_path(agent_folder, name)
    file_access.make_directory(path.parent)
    head = orjson.dumps({"uid": uid, "size": expected_size, "elsewhere": remote_parts})
    write_unfinished(path, iter([head, b"\n", data]))
    unfinished_path(path).replace(path)


def append_remote_turns(layout: Layout, agent_folder: str, name: str) -> bool:
    """Add the turns that wait for a transcript. Returns False if it cannot be done now. Raises OSError, NewerFormat."""
    waiting_file = layout.waiting_turns_path(agent_folder, name)
    head_line, _, data = waiting_file.read_bytes().partition(b"\n")
    head = orjson.loads(head_line)
    uid, expected_size, remote_parts = head["uid"], head["size"], head["elsewhere"]
    with closing(TranscriptReader(layout.transcript_path(agent_folder, name))) as reader:
        # The name may belong to another session by now. A header may have lost its uid, which it gets again.
        if reader.header is None or (reader.header.uid or uid) != uid or reader.size + len(data) > _APPEND_LIMIT_BYTES:
            return False
    if not append_turns(layout, agent_folder, name, expected_size, data, uid, remote_parts, wait=False):
        return False
    # Last: if a crash comes before, the size does not fit, and nothing is added twice.
    waiting_file.unlink(missing_ok=True)
    return True


def _chain_file(header: Header, reader: TranscriptReader, data: bytes) -> Iterator[bytes]:
    """The parts of a new file: this header, the entries of the old file, and ``data``."""
    yield file_format.encode_header(header)
    yield from reader.read_bytes(reader.entries_start)
    yield data


def complete_header(header: Header, data: bytes) -> Header:
    """The header, with all ids and directories that the new entries name."""
    ids = dict.fromkeys(header.forked_from)
    directories = dict.fromkeys(header.remote_directories)
    for line in data.split(b"\n"):
        entry = file_format.decode_entry(line)
        if entry is not None and (id := find_session_id(entry)) not in (None, header.session_id):
            ids[str(id)] = None
        note = entry.note if entry is not None and entry.note is not None else {}
        if note.get("type") == NoteType.OPENED and (cwd := acp.text(note, "cwd")) not in (None, header.cwd):
            directories[str(cwd)] = None
    return replace(header, forked_from=list(ids), remote_directories=list(directories))


def join_parts(parts: list[RemotePart]) -> list[RemotePart]:
    """The parts, with those of one machine joined that follow each other."""
    joined_parts: list[RemotePart] = []
    for start, end, machine in parts:
        if joined_parts and joined_parts[-1][1:] == (start, machine):
            start = joined_parts.pop()[0]
        joined_parts.append((start, end, machine))
    return joined_parts


def _move_into_place(path: Path) -> bool:
    """Move the unfinished file into its place. False: on Windows, somebody has the old one open. Raises OSError."""
    try:
        unfinished_path(path).replace(path)
    except PermissionError:
        if sys.platform == "win32":
            return False
        raise
    return True


def write_unfinished(path: Path, chunks: Iterator[bytes]) -> None:
    """Write the unfinished file, which the caller moves to ``path``. Raises OSError."""
    unfinished = unfinished_path(path)
    fd = file_access.open_private(unfinished, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        write_chunks(fd, chunks)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    finally:
        os.close(fd)
