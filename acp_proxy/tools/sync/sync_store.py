"""The store's interface for sync: what changed in it, and changes that other machines made.

Sessions are given by their agent's folder and transcript name. Offsets and sizes are of a transcript's entries,
without its header.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from acp_proxy.errors import NewerFormat, Unreadable
from acp_proxy.redaction.masks import MASK_START
from acp_proxy.sessions import soft_deleted
from acp_proxy.sessions.import_folder import choose_folder_for_import
from acp_proxy.store import delete, journal, remote_turns, user_state
from acp_proxy.store.same_directory import is_windows_path
from acp_proxy.store.store_base import StoreBase
from acp_proxy.tools.sync import remote_transcripts
from acp_proxy.transcript import file_access, file_names
from acp_proxy.transcript.appender import lock_if_unused
from acp_proxy.transcript.file_access import lock, open_private, read_at
from acp_proxy.transcript.file_format import Header, RemotePart
from acp_proxy.transcript.file_names import make_uid
from acp_proxy.transcript.reader import TranscriptReader
from acp_proxy.transcript.summary import Summary

if TYPE_CHECKING:
    from acp_proxy.tools.sync.copy_masker import CopyMasker

__all__ = [
    "KnownHeader",
    "Move",
    "RemotePart",
    "SeenFile",
    "Summary",
    "SyncStore",
    "is_windows_path",
    "lock",
    "make_uid",
    "open_private",
]

_UNTITLED = "Untitled"


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A session's file. ``name``: the transcript's. ``version``: changes whenever the file does."""

    agent_folder: str
    name: str
    version: str


@dataclass(frozen=True, slots=True)
class Move:
    """A session was soft-deleted or restored, so it has another name; or deleted for good (``new_name`` is empty).

    ``only_on_this_machine``: only this machine deletes it. ``uid``: of its transcript; empty if that is not known.
    """

    name: str
    new_name: str = ""
    only_on_this_machine: bool = False
    uid: str = ""


class KnownHeader(NamedTuple):
    """The header of a session here, and its uid (``TranscriptReader.uid``: an old header has none)."""

    uid: str
    header: Header


class SyncStore(StoreBase):
    """A store whose sessions other machines have, too; opened for one round. Raises OSError."""

    @cached_property
    def _copy_masker(self) -> "CopyMasker":
        from acp_proxy.tools.sync.copy_masker import CopyMasker  # loads much

        return CopyMasker(self.layout)

    def list_files(self) -> Iterator[SeenFile]:
        """All sessions, soft-deleted ones included."""
        for agent_folder in self.list_agents():
            for name in (*self.layout.list_names(agent_folder), *self.layout.list_soft_deleted_names(agent_folder)):
                if (version := self._read_version(self.layout.path_by_name(agent_folder, name))) is not None:
                    yield SeenFile(agent_folder, name, version)

    def read_header(self, agent_folder: str, name: str) -> KnownHeader | None:
        """The uid and the header of a session; None if there is none, or no readable header."""
        try:
            with closing(TranscriptReader(self.layout.path_by_name(agent_folder, name))) as reader:
                return KnownHeader(reader.uid, reader.header) if reader.header is not None else None
        except (OSError, NewerFormat):
            return None

    def list_moves(self, agent_folder: str, offset: int) -> tuple[list[Move], int]:
        """What was deleted and renamed, in order, after this offset in the agent's journal; and the next offset."""
        try:
            fd = open_private(self.layout.transcript_path(agent_folder, "state"), os.O_RDONLY)
        except FileNotFoundError:
            return [], 0
        try:
            size = os.fstat(fd).st_size
            data = read_at(fd, size - offset, offset) if size >= offset else b""
        finally:
            file_access.close(fd)
        if size < offset:  # it was repaired: what was deleted in the meantime is not known
            return [], size
        complete_length = data.rfind(b"\n") + 1
        moves = []
        for line in data[:complete_length].split(b"\n"):
            moves += [move for piece in journal.find_events(line) if (move := _decode_move(piece.value)) is not None]
        return moves, offset + complete_length

    def read_labels(self, agent_folder: str) -> tuple[Mapping[str, str], frozenset[str]]:
        """The user's titles by name, and the names that are archived."""
        state = self.read_state(agent_folder)
        return state.titles, frozenset(state.archived)

    def is_soft_deleted(self, name: str) -> bool:
        """Whether this is the name of a soft-deleted session."""
        return file_names.is_soft_deleted_name(name)

    def is_open(self, agent_folder: str, name: str) -> bool:
        """Whether somebody has a session open to append."""
        with lock_if_unused(self.layout.path_by_name(agent_folder, name)) as is_unused:
            return not is_unused

    def measure(self, agent_folder: str, name: str) -> int:
        """The bytes of a session's entries; 0 if it is gone."""
        try:
            with closing(TranscriptReader(self.layout.path_by_name(agent_folder, name))) as reader:
                return max(reader.size - reader.entries_start, 0)
        except FileNotFoundError:
            return 0

    def read(self, agent_folder: str, name: str, offset: int, size: int) -> bytes:
        """``size`` bytes of its entries from ``offset`` on; fewer at its end."""
        with closing(TranscriptReader(self.layout.path_by_name(agent_folder, name))) as reader:
            reader.size = min(reader.size, reader.entries_start + offset + size)
            return b"".join(reader.read_bytes(reader.entries_start + offset))

    def create(self, agent_folder: str, header: Header, data: bytes, *, has_local_id: bool) -> str:
        """Create a session in a folder of ``find_folder``. Returns its name. ``has_local_id``: an agent gave its id on
        this machine. If not, or if it is taken, it gets another, and the old one as its parent's. The header
        says what was recorded elsewhere."""
        return remote_transcripts.create(self.layout, agent_folder, header, data, has_local_id=has_local_id)

    def find_folder(self, agent_folder: str) -> str:
        """The agent's folder here. A name that acp-proxy cannot have made is never used as one."""
        return choose_folder_for_import(Header("", None, "", "", agent={"id": agent_folder}))

    def append_turns(
        self, agent_folder: str, name: str, uid: str, expected_size: int, data: bytes, remote_parts: list[RemotePart]
    ) -> bool:
        """Append entries to a session of ``expected_size``. Returns False if it is open or has changed, so that the
        next load tries again, or if it is gone: then only the next round does. ``uid``: given to it if its header has
        none. ``remote_parts``: which of the entries other machines recorded."""
        known_header = self.read_header(agent_folder, name)
        if known_header is None:
            return False
        if remote_turns.append_turns(self.layout, agent_folder, name, expected_size, data, uid, remote_parts):
            return True
        remote_turns.store_remote_turns(self.layout, agent_folder, name, expected_size, data, uid, remote_parts)
        return False

    def remove_end(self, agent_folder: str, name: str, uid: str, expected_size: int, kept_size: int) -> bool:
        """Keep only the first ``kept_size`` bytes of a session of ``expected_size``. Returns False if it is open or has
        changed. ``uid``: given to it if its header has none."""
        return remote_turns.append_turns(
            self.layout, agent_folder, name, expected_size, b"", uid, [], kept_size=kept_size
        )

    def remove_waiting_turns(self) -> None:
        """Forget what ``append_turns`` left to the next load of each session."""
        shutil.rmtree(self.layout.waiting_turns, ignore_errors=True)

    def mask(self, agent_folder: str, name: str, spans: list[tuple[int, bytes]]) -> None:
        """Mask the words that are in these places of a session's entries in its copies and backups, and then overwrite
        the places. A mask without words is that of a secret so short that it may mean something else there."""
        starts = MASK_START[:-1].encode()
        hidden = {self.read(agent_folder, name, offset, len(new)) for offset, new in spans if new.startswith(starts)}
        # What is masked already tells nothing, and spaces are what repair has left.
        secrets = {words for words in hidden if words.strip() and not words.startswith(starts)}
        try:
            if secrets:
                self._copy_masker.mask(agent_folder, name, secrets)
        finally:  # also if a copy cannot be masked, which is reported
            self.overwrite(agent_folder, name, spans)

    def overwrite(self, agent_folder: str, name: str, spans: list[tuple[int, bytes]]) -> None:
        """Overwrite parts of a session's entries. ``spans``: offsets, and what is there from then on."""
        remote_transcripts.overwrite(self.layout, agent_folder, name, spans)
        if not file_names.is_soft_deleted_name(name):
            with suppress(Unreadable):
                self.store_index.reindex(agent_folder, [name])

    def delete(self, agent_folder: str, name: str, uid: str) -> None:
        """Delete a session for good, unless the name is another session's now. One whose header has no uid is known by
        its name."""
        with self.layout.get_journal(agent_folder).lock():
            known_header = self.read_header(agent_folder, name)
            if known_header is None or (known_header.header.uid or uid) != uid:
                return
            session_id = known_header.header.session_id
            delete.delete_by_name(self.layout, agent_folder, session_id, name, soft=False, only_on_this_machine=False)
            self.layout.get_journal(agent_folder).fsync()
        with suppress(Unreadable):
            self.store_index.remove(agent_folder, [name])

    def note_delete(self, agent_folder: str, uid: str) -> None:
        """Note that a session is deleted on all machines that was deleted on this one only."""
        agent_journal = self.layout.get_journal(agent_folder)
        if uid not in agent_journal.read_state().pruned:
            return
        with agent_journal.lock():
            state = agent_journal.read_state()
            session_id = state.pruned[uid]
            if state.deleted.get(session_id, "") is None:  # else a newer session has the id
                agent_journal.append(journal.Event(journal.DELETED, session_id, uid=uid))

    def set_soft_deleted(self, agent_folder: str, name: str, is_soft_deleted: bool) -> str:
        """Soft-delete or restore a session. Returns its new name."""
        known_header = self.read_header(agent_folder, name)
        if known_header is None:
            return name
        uid, session_id = known_header.uid, known_header.header.session_id
        if not is_soft_deleted:
            return delete.restore(self.layout, agent_folder, session_id, name)
        delete.delete_by_name(self.layout, agent_folder, session_id, name, soft=True, only_on_this_machine=False)
        with suppress(Unreadable):
            self.store_index.remove(agent_folder, [name])
        names = (
            deleted_name
            for deleted_name in self.layout.list_soft_deleted_of(agent_folder, name)
            if (deleted := self.read_header(agent_folder, deleted_name)) is not None and deleted.uid == uid
        )
        return next(names, name)

    def set_title(self, agent_folder: str, name: str, title: str | None) -> None:
        """Set the user's title."""
        if (known_header := self.read_header(agent_folder, name)) is not None:
            user_state.set_title(self.layout, agent_folder, known_header.header.session_id, name, title)

    def set_archived(self, agent_folder: str, name: str, is_archived: bool) -> None:
        """Archive or unarchive a session."""
        if (known_header := self.read_header(agent_folder, name)) is not None:
            user_state.set_archived(self.layout, agent_folder, known_header.header.session_id, name, is_archived)

    def find_title(self, agent_folder: str, name: str) -> str:
        """The title of a session, as a list shows it."""
        with closing(TranscriptReader(self.layout.path_by_name(agent_folder, name))) as reader:
            return self.read_state(agent_folder).titles.get(name) or soft_deleted.summarize(reader).title or _UNTITLED

    def _read_version(self, path: Path) -> str | None:
        for form_path in (path, file_names.compressed_path(path)):
            with suppress(FileNotFoundError):
                status = os.stat(form_path)
                return f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"
        return None


def _decode_move(event: journal.Event) -> Move | None:
    if event.kind == journal.DELETED:
        name = file_names.file_name(event.session_id)
        return Move(name, event.transcript or "", event.only_on_this_machine, event.uid or "")
    if event.new_name is not None:
        return Move(event.name, event.new_name, event.only_on_this_machine, event.uid or "")
    return None
