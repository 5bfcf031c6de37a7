"""Adopts sessions that an agent has from before acp-proxy: its replay becomes an imported transcript.

The last line of such a transcript is an ``adopted`` note until something is recorded after it. Only as long as it is,
a later replay may replace the transcript. A session that was deleted here is never adopted.
"""

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

from acp_proxy.errors import NewerFormat, NotImported, Unreadable
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.sessions.import_folder import choose_folder_for_import
from acp_proxy.store.layout import Layout, lock_folder, remove_file
from acp_proxy.tools.export import import_file
from acp_proxy.tools.export.import_file import ImportedFile, Source
from acp_proxy.transcript import file_access, file_format, file_names
from acp_proxy.transcript.appender import lock_if_unused
from acp_proxy.transcript.file_format import NoteType
from acp_proxy.transcript.reader import TranscriptReader

_LONGEST_NOTE = 16 * 1024
"""Bytes: a note has a title of at most 500 characters."""


@dataclass(frozen=True, slots=True)
class KnownSession:
    """What the store knows of a session. ``is_here``: also if a session of ours continues in it, such as a copy.
    ``note``: the ``adopted`` note that its transcript ends with, if any."""

    is_deleted: bool = False
    is_here: bool = False
    note: Mapping[str, object] | None = None


def find_known(store: CommandStore, agent_folder: str, session_id: str) -> KnownSession:
    """What is known of a session that an agent lists. Raises OSError."""
    layout = store.layout
    deleted = store.read_deleted(agent_folder)
    if session_id in deleted:
        return KnownSession(is_deleted=True)
    # A session that was handed to the agent continues in this one, which has its record and what followed.
    if (own_id := store.find_by_alias(agent_folder, session_id)) is not None:
        return KnownSession(is_deleted=own_id in deleted, is_here=own_id not in deleted)
    path = layout.transcript_path(agent_folder, file_names.file_name(session_id))
    try:
        return KnownSession(is_here=True, note=_read_adopted_note(path))
    except FileNotFoundError:
        return KnownSession()
    except (OSError, NewerFormat):  # it cannot be read now, so it is left alone
        return KnownSession(is_here=True)


def write_adopted(store: CommandStore, transcript: bytes) -> ImportedFile:
    """Keep an agent's replay as an imported transcript, which ends with an ``adopted`` note. It replaces one that
    ends so too. Raises NotImported, NewerFormat, OSError."""
    imported = _write_in_place(store.layout, transcript, store.layout.make_folder)
    with suppress(Unreadable):  # then its mark stays
        store.index_transcript(imported.agent_folder, imported.name, is_deferrable=True)
    return imported


def _write_in_place(layout: Layout, data: bytes, make_folder: Callable[[Path], None]) -> ImportedFile:
    """Write a transcript that ends with an ``adopted`` note, in place of an earlier one that does, if there is one.

    ``data``: the transcript. ``make_folder``: creates an agent's folder. Raises NotImported, NewerFormat, OSError.
    """
    with TemporaryFile(dir=layout.root, buffering=0) as file:  # removed even if we are killed
        file_access.write_at(file.fileno(), data, 0)
        source = Source(file)
        header, prompts = import_file.examine(source)
        agent_folder, name = choose_folder_for_import(header), file_names.file_name(header.session_id)
        target = layout.transcript_path(agent_folder, name)
        make_folder(target.parent)
        agent_journal = layout.get_journal(agent_folder)
        with (
            lock_folder(target.parent, wait=True),
            import_file.store_on_disk(target, source) as unfinished,
            agent_journal.lock(),
        ):
            if header.session_id in agent_journal.read_deleted():
                raise NotImported("it was deleted here")
            is_new = not layout.has_transcript(agent_folder, name)
            layout.mark(agent_folder, name)
            if is_new:
                import_file.move_into_place(unfinished, target)
            else:
                _replace(target, unfinished)
                layout.mark(agent_folder, name)  # again: a process that read the old file may have removed the mark
    return ImportedFile(agent_folder, header.session_id, name, prompts, is_new)


def _replace(target: Path, unfinished: Path) -> None:
    """Replace an adopted transcript by a new file. Raises NotImported, OSError."""
    with lock_if_unused(target) as is_unused:
        if not is_unused:
            raise NotImported("an editor has it open now")
        if _read_adopted_note(target) is None:
            raise NotImported("something was recorded in it in the meantime")
        if sys.platform == "win32":  # it replaces no open file; the agent still has the session
            remove_file(target)
        unfinished.replace(target)
    if os.path.lexists(file_names.compressed_path(target)):
        remove_file(file_names.compressed_path(target))


def _read_adopted_note(path: Path) -> Mapping[str, object] | None:
    """The ``adopted`` note that a transcript ends with. Raises OSError, NewerFormat."""
    with closing(TranscriptReader(path)) as reader:
        entry = file_format.decode_entry(_read_last_line(reader))
    is_note = entry is not None and entry.note is not None and entry.note.get("type") == NoteType.ADOPTED
    return entry.note if entry is not None and is_note else None


def _read_last_line(reader: TranscriptReader) -> bytes:
    """The last line without its newline, if it is short enough for the note; else b"". Raises OSError."""
    offset = max(0, reader.size - _LONGEST_NOTE - 2)
    before, _, line = reader.read_at(reader.size - offset, offset).removesuffix(b"\n").rpartition(b"\n")
    return line if before or not offset else b""
