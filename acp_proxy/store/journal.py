"""``state.jsonl``: an agent's journal of deletes, lifted deletes, restores, the user's titles, archived and pinned
sessions, and the ids of the agent's sessions in which others continue.

It is authoritative for them. Each event is one line, appended with one ``write``; several processes may append. Damaged
lines are skipped.

A transcript is renamed or removed, and a delete lifted, only while holding ``lock``. So nobody removes a file that was
created after its delete was lifted.

Nothing is ever removed, except titles whose transcript was deleted or renamed or that the user removed: those are
overwritten in place, so that appending need not wait.
"""

import os
import re
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Set
from contextlib import contextmanager
from copy import copy
from pathlib import Path

from msgspec import Struct
from msgspec.structs import astuple

from acp_proxy.protocol import acp, jsonrpc, timestamps
from acp_proxy.transcript import file_access, salvage
from acp_proxy.transcript.file_access import append_all, lock, open_private, read_at, write_at
from acp_proxy.transcript.file_names import file_name, has_generated_form, is_soft_deleted_name
from acp_proxy.transcript.salvage import Intact
from acp_proxy.transcript.titles import shorten_masks

DELETED, LIFTED, RESTORED, TITLED = "deleted", "lifted", "restored", "titled"
ARCHIVED, UNARCHIVED = "archived", "unarchived"
PINNED, UNPINNED = "pinned", "unpinned"
ALIAS = "alias"
_EVENT_KINDS = frozenset({DELETED, LIFTED, RESTORED, TITLED, ARCHIVED, UNARCHIVED, PINNED, UNPINNED, ALIAS})
_RENAME_AND_REMOVAL_KINDS = frozenset({RESTORED, TITLED})
_EVENT_START = re.compile(rb'\{"at":"[^"]*","event":"')
_TITLED_BYTES = b'"titled"'


class Event(Struct, frozen=True):
    """One line. In the file, some members have other names: ``_encode_event``.

    A ``titled`` line is one of several things, which only its members tell apart: a title (``make_title``), a rename
    (``make_rename``), a removal (``make_removal``), or that one of the two is complete (``make_completion``).
    """

    kind: str
    session_id: str
    transcript: str | None = None
    """Of a title, or an archived or pinned session: its transcript's name, if that is not the session's own
    (``make_for_transcript``). Of a soft delete: the new name. Of a restore: the name while deleted."""
    title: str | None = None
    """None removes the user's title."""
    new_name: str | None = None
    """The transcript is being renamed to this; empty: removed. That is complete at the old name's next title, even if
    that is None."""
    only_on_this_machine: bool = False
    """A delete that other machines with the same history do not follow."""
    uid: str | None = None
    """The transcript's, for other machines; an id may be another session's by now."""
    by_agent: bool = False
    """The agent has given the title, or archived the session, itself."""
    alias: str | None = None
    """The agent's id of the session."""
    until: str | None = None
    """Of a soft delete: when the transcript is removed; None: never by itself."""

    @property
    def name(self) -> str:
        """The name of the transcript that an event belongs to, unless that is a delete."""
        return self.transcript or file_name(self.session_id)

    @classmethod
    def make_for_transcript(
        cls, kind: str, session_id: str, name: str, *, title: str | None = None, by_agent: bool = False
    ) -> "Event":
        """An event about a transcript, by its name, which is only kept where it is not the session's own."""
        transcript = None if name == file_name(session_id) else name
        return cls(kind, session_id, transcript, title, by_agent=by_agent)

    @classmethod
    def make_title(cls, session_id: str, name: str, title: str | None, *, by_agent: bool = False) -> "Event":
        """The user's title of a transcript; None: it has none any more."""
        return cls.make_for_transcript(TITLED, session_id, name, title=title, by_agent=by_agent)

    @classmethod
    def make_rename(
        cls,
        session_id: str,
        name: str,
        new_name: str,
        *,
        until: str | None = None,
        only_on_this_machine: bool = False,
    ) -> "Event":
        """A transcript gets another name. ``until``: if that is one in ``deleted/``."""
        return cls(TITLED, session_id, name, new_name=new_name, only_on_this_machine=only_on_this_machine, until=until)

    @classmethod
    def make_removal(cls, session_id: str, name: str, *, only_on_this_machine: bool) -> "Event":
        """A transcript is deleted permanently whose id stays as it is: a newer session has it, or it is deleted."""
        return cls(TITLED, session_id, name, new_name="", only_on_this_machine=only_on_this_machine)

    @classmethod
    def make_completion(cls, session_id: str, name: str) -> "Event":
        """The rename or the removal of the transcript that had this name is complete."""
        return cls.make_title(session_id, name, None)


def stamp_now() -> str:
    """The time of an event, and the one by which it is decided what is over."""
    return timestamps.format_now(time.time())


class JournalState(Struct):
    """The result of all events. One that ``Journal`` has returned does not change any more."""

    deleted: dict[str, str | None] = {}
    """The deleted sessions, with the name of each soft-deleted transcript; None if deleted permanently."""
    titles: dict[str, str] = {}
    """The user's titles by transcript name."""
    with_title_lines: set[str] = set()
    """The transcripts whose titles are in the file, replaced titles included."""
    titled_by_agent: set[str] = set()
    """The transcripts whose title the agent has itself: it can change there at any time, so in what the agent sends,
    its word counts."""
    incomplete_renames_and_removals: dict[str, Event] = {}
    """The renames and removals that are not complete, by the transcript's old name."""
    archived: dict[str, str] = {}
    """The archived sessions by transcript name. A delete ends it."""
    archived_by_agent: set[str] = set()
    """The transcripts of the sessions that the agent has archived itself: in what it sends, its word counts."""
    aliases: dict[str, str] = {}
    """By an id that the agent gave when a session continued in a new one of it: that session."""
    pinned: set[str] = set()
    """The transcripts of pinned sessions, soft-deleted ones under their new names. A permanent delete ends it."""
    soft_deletes: dict[str, Event] = {}
    """By the names of soft-deleted transcripts: what has deleted them. It says the id even if the file cannot be read,
    and when the transcript is removed. Without such a time it is kept, as after a delete of an older version."""
    deleted_uids: set[str] = set()
    """The uids of transcripts that were deleted on all machines, and of those that are soft-deleted."""
    pruned: dict[str, str] = {}
    """The session ids of transcripts that were deleted on this machine only, by their uids."""

    @property
    def deleted_ids(self) -> frozenset[str]:
        """The keys of ``deleted``."""
        return frozenset(self.deleted)

    @property
    def hidden(self) -> frozenset[str]:
        """The ids that no list shows by default: deleted and archived sessions."""
        archived_ids = {session_id for name, session_id in self.archived.items() if name == file_name(session_id)}
        return self.deleted_ids | archived_ids

    def find_title(self, session_id: str) -> str | None:
        """The user's title of a session, if there is one."""
        return self.titles.get(file_name(session_id))

    def find_title_for_agent(self, session_id: str) -> str | None:
        """The user's title of a session, if it replaces the agent's in what that sends."""
        name = file_name(session_id)
        return self.titles.get(name) if name not in self.titled_by_agent else None

    @property
    def archived_here(self) -> frozenset[str]:
        """The ids of the sessions that are archived here, whatever the agent says."""
        archived_by_agent = {session_id for name, session_id in self.archived.items() if name in self.archived_by_agent}
        return self.hidden - self.deleted_ids - archived_by_agent

    def follow(self, events: Iterable[Event]) -> "JournalState":
        """The state after these events, which follow those of this one."""
        state = JournalState(*map(copy, astuple(self)))
        for event in events:
            state._add(event)
        return state

    def _add(self, event: Event) -> None:
        soft_deleted_name = event.transcript if event.kind == DELETED else event.new_name
        if soft_deleted_name and is_soft_deleted_name(soft_deleted_name):
            self.soft_deletes[soft_deleted_name] = event
        if event.uid is not None and (event.kind == DELETED or event.new_name is not None):
            self._add_uid(event.uid, event, soft_deleted_name or "")
        if event.kind == RESTORED:
            self.deleted.pop(event.session_id, None)
        if event.new_name is not None:  # a rename or a removal, which are of kind ``TITLED``, too
            self.incomplete_renames_and_removals[event.name] = event  # the title follows when this is complete
            self.soft_deletes.pop(event.name, None)
            self._end_archive(event.name)
            self._move_pin(event.name, event.new_name)
        elif event.kind == TITLED:
            self._add_title(event)
        elif event.kind == DELETED:
            self._add_delete(event)
        elif event.kind == LIFTED:
            self.deleted.pop(event.session_id, None)
        elif event.kind == ARCHIVED:
            self.archived[event.name] = event.session_id
            (self.archived_by_agent.add if event.by_agent else self.archived_by_agent.discard)(event.name)
        elif event.kind == UNARCHIVED:
            self._end_archive(event.name)
        elif event.kind in (PINNED, UNPINNED):
            (self.pinned.add if event.kind == PINNED else self.pinned.discard)(event.name)
        elif event.kind == ALIAS and event.alias is not None:
            self.aliases[event.alias] = event.session_id

    def _add_uid(self, uid: str, event: Event, new_name: str) -> None:
        """Add what a delete, a restore or a rename says of a transcript's uid. ``new_name``: empty if it is removed."""
        if event.kind == RESTORED:
            self.deleted_uids.discard(uid)
        elif is_soft_deleted_name(new_name) or not (new_name or event.only_on_this_machine):
            self.deleted_uids.add(uid)
        elif event.only_on_this_machine:
            self.pruned[uid] = event.session_id

    def _add_title(self, event: Event) -> None:
        """Add a ``titled`` event. One without a title says that a rename or removal is complete."""
        self.incomplete_renames_and_removals.pop(event.name, None)
        self._end_title(event.name)
        if event.title is not None:
            self.titles[event.name] = shorten_masks(event.title)
            self.with_title_lines.add(event.name)
            if event.by_agent:
                self.titled_by_agent.add(event.name)

    def _add_delete(self, event: Event) -> None:
        name = file_name(event.session_id)
        self.deleted[event.session_id] = event.transcript
        self._end_archive(name)
        self._move_pin(name, event.transcript)
        if event.transcript is None:  # else the title follows, as after a rename
            self._end_title(name)

    def _end_title(self, name: str) -> None:
        self.titles.pop(name, None)
        self.titled_by_agent.discard(name)

    def _end_archive(self, name: str) -> None:
        self.archived.pop(name, None)
        self.archived_by_agent.discard(name)

    def _move_pin(self, name: str, new_name: str | None) -> None:
        """Let a pin follow its transcript; None, or empty: that is removed."""
        if name in self.pinned:
            self.pinned.discard(name)
            self.pinned.update([new_name] if new_name else [])


EMPTY_STATE = JournalState()


class Journal:
    """The journal of one agent, shared by all processes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._cached: tuple[tuple[int, int, int], JournalState] | None = None
        self._holder = 0

    @contextmanager
    def lock(self, *, wait: bool = True) -> Iterator[None]:
        """Hold the journal's exclusive lock. The thread that holds it may enter again. Raises OSError (BlockingIOError:
        another process holds it and ``wait`` is False)."""
        if self._holder == threading.get_ident():  # as ``delete.remove_expired`` does: it deletes while it holds it
            yield
            return
        fd = open_private(self._path, os.O_RDWR | os.O_CREAT)
        try:
            lock(fd, wait=wait)
            self._holder = threading.get_ident()
            try:
                yield
            finally:
                self._holder = 0
        finally:
            file_access.close(fd)

    def append(self, event: Event, stamp: str | None = None) -> None:
        """Append an event. ``stamp``: its time; None: now. Raises OSError."""
        fd = open_private(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            status = os.fstat(fd)
            size = status.st_size
            # A crash may have left half a line: after it, this event would be in a damaged line, and may be skipped.
            is_torn = size > 0 and read_at(fd, 1, size - 1) != b"\n"
            line = _encode_event(event, stamp or stamp_now()) + b"\n"
            data = b"\n" + line if is_torn else line
            append_all(fd, data)
            new_status = os.fstat(fd)
        finally:
            os.close(fd)
        cached = self._cached
        is_alone = self._holder == threading.get_ident() and new_status.st_size == size + len(data)
        if cached is not None and cached[0] == _identify(status) and is_alone:  # many deletes read the file only once
            self._cached = _identify(new_status), cached[1].follow(piece.value for piece in find_events(line))

    def copy_title(self, session_id: str, old_name: str, new_name: str) -> None:
        """Give the title of the transcript ``old_name``, if there is one, to ``new_name``, as the user's or the
        agent's. Raises OSError."""
        state = self.read_state()
        if (title := state.titles.get(old_name)) is not None:
            by_agent = old_name in state.titled_by_agent
            self.append(Event.make_title(session_id, new_name, title, by_agent=by_agent))

    def fsync(self) -> None:
        """Return once everything appended is on disk. Raises OSError."""
        fd = open_private(self._path, os.O_RDWR)
        try:
            file_access.fsync(fd)
        finally:
            file_access.close(fd)

    def read_deleted(self) -> Set[str]:
        """The ids of the sessions that are deleted now, soft-deleted ones included. Raises OSError."""
        return self.read_state().deleted.keys()

    def read_state(self) -> JournalState:
        """The current state; the file is read again only if it changed. Raises OSError."""
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            return EMPTY_STATE
        identity = _identify(status)
        if self._cached is None or self._cached[0] != identity:
            self._cached = identity, EMPTY_STATE.follow(self._read_events())
        return self._cached[1]

    def erase_titles(self, names: Collection[str]) -> None:
        """Overwrite every title of these transcripts. Call it only while holding ``lock``. Raises OSError.

        Also append an event, before or after: processes that have read the file do not notice an overwritten line.
        A damaged part of a line with a title is overwritten too, as it may contain half of one.
        """
        fd = open_private(self._path, os.O_RDWR)
        try:
            offset = 0
            for line in read_at(fd, os.fstat(fd).st_size, 0).split(b"\n"):
                if _TITLED_BYTES in line:
                    write_at(fd, _blank_titles(line, names), offset)
                offset += len(line) + 1
        finally:
            os.close(fd)
        self._cached = None

    def _read_events(self) -> Iterator[Event]:
        fd = open_private(self._path, os.O_RDONLY)
        with os.fdopen(fd, "rb") as file:
            for line in file.read().split(b"\n"):
                yield from (piece.value for piece in find_events(line))


def _identify(file: os.stat_result) -> tuple[int, int, int]:
    """What differs if the journal was changed."""
    return file.st_ino, file.st_size, file.st_mtime_ns


def _blank_titles(line: bytes, names: Collection[str]) -> bytes:
    """The line with spaces in place of these titles' events and of anything damaged."""
    blanked = bytearray(b" " * len(line))
    for piece in find_events(line):
        event = piece.value
        if event.kind != TITLED or event.title is None or event.name not in names:
            blanked[piece.start : piece.end] = line[piece.start : piece.end]
    return bytes(blanked)


def find_events(line: bytes) -> list[Intact[Event]]:
    """The intact events of a line, with their positions; several only if the line is damaged."""
    event = _decode_event(line)
    if event is not None:
        return [Intact(0, len(line.rstrip(b"\r\n")), event)]
    return salvage.find_pieces(line, _EVENT_START, lambda piece, _: _decode_event(piece))


def _encode_event(event: Event, stamp: str) -> bytes:
    """The event as a line of the file, without its newline."""
    members: dict[str, str | bool | None] = {"at": stamp, "event": event.kind, "sessionId": event.session_id}
    if event.transcript is not None:
        members["transcript"] = event.transcript
    if event.kind == TITLED:
        members["title"] = event.title
    if event.uid:
        members["uid"] = event.uid
    if event.only_on_this_machine:
        members["here"] = True
    if event.new_name is not None:
        members["to"] = event.new_name
    if event.until is not None:
        members["until"] = event.until
    if event.by_agent:
        members["by"] = "agent"
    if event.alias is not None:
        members["alias"] = event.alias
    return jsonrpc.dump(members)


def _decode_event(line: bytes) -> Event | None:
    try:
        members = jsonrpc.parse(line)
    except (ValueError, RecursionError):
        return None
    kind, session_id = acp.text(members, "event"), acp.session_id(members)
    transcript, new_name = acp.text(members, "transcript"), acp.text(members, "to")
    if kind is None or kind not in _EVENT_KINDS or session_id is None:
        return None
    if transcript is not None and not has_generated_form(transcript):  # it would be used as a file name
        return None
    if kind not in _RENAME_AND_REMOVAL_KINDS or transcript is None or (new_name and not has_generated_form(new_name)):
        new_name = None
    return Event(
        kind,
        session_id,
        transcript=transcript,
        title=acp.text(members, "title"),
        new_name=new_name,
        only_on_this_machine=acp.member(members, "here") is True,
        uid=acp.text(members, "uid"),
        by_agent=acp.text(members, "by") == "agent",
        alias=acp.text(members, "alias"),
        until=acp.text(members, "until"),
    )
