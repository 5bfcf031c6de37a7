"""Deletes sessions permanently or softly, restores them, and lifts deletes.

The journal decides: each change begins with an event, and its consequences follow at once, under the journal's lock. If
they are interrupted, the next query of the index, list of soft-deleted sessions or change of a session completes them
(``complete_interrupted``).

The journal is in the agent's folder, which may be missing, so that is made first (``Layout.make_folder``). Then a
permanent delete does this, in this order:

1. The session's mark for the index: it makes the next query look even after a crash. It may fail, since that query
   reads the journal anyway.
2. Under the journal's lock, what is left of older renames and removals (``lock_completed_journal``).
3. The ``deleted`` event. A crash after it leaves something that says what to remove; only on a full disk does the file
   go before it (``_append_deleted``).
4. The titles in the journal, which are overwritten, and the journal's backups, which are removed whole
   (``Layout.erase_titles``). They go before the file, because the file shows that there is more to do.
5. The transcript's backups; what was soft-deleted under its name; turns of other machines that wait for it; the
   transcript in every form; the search tables with its words (``Layout.remove_transcript``).
6. The mark again, because a list in between may have removed the first.
7. The caller writes the journal through to the disk (``Journal.fsync``), and removes the row, the search tables once
   more, the row's bytes from SQLite's file and log, and then the mark (``StoreIndex.remove``).

What stays are the session's events without its titles: of the delete the id, the time and the transcript's uid; and
when it was archived, pinned or given another id of the agent (``journal.ALIAS``).

A soft delete has the same steps 1 to 3; its event has the name that the transcript gets in ``deleted/``, and until when
it can be undone (``remove_expired``). Then the title is copied to that name, the old titles are erased, and the
transcript, in the form it has, and its backups are moved there (``apply_delete``). Step 7 follows: the search tables go
only there, and the row's bytes may stay in SQLite's file until the transcript is deleted permanently. Turns of other
machines that wait stay, and are added only if the transcript is the same. ``restore`` does the reverse.

A ``deleted`` event is about an id. So a transcript whose id a newer session has, or that is soft-deleted already, gets
none: its permanent delete is a removal (``Event.make_removal``), and its soft one a rename to a name in ``deleted/``
(``Event.make_rename``). ``Event.make_completion`` of the old name says that all is done. Here the transcript is moved
before its title, as in every rename: only then is its new name certain (``_rename``).

Either delete ends the session's archive, and a permanent one its pin, by its event alone (``JournalState``): nothing is
written for them. A restored session is not archived, and pinned if it was.
"""

import errno
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from pathlib import Path

from msgspec.structs import replace

from acp_proxy.errors import DISK_FULL, NewerFormat, errno_name
from acp_proxy.protocol import timestamps
from acp_proxy.store import journal
from acp_proxy.store.journal import Event, Journal
from acp_proxy.store.layout import Layout, move_transcript, number_name
from acp_proxy.transcript.appender import lock_if_unused
from acp_proxy.transcript.file_names import (
    compressed_path,
    file_name,
    is_soft_deleted_name,
    make_soft_deleted_name,
    name_before_delete,
)
from acp_proxy.transcript.reader import TranscriptReader

_DAY_SECONDS = 24 * 60 * 60.0


def delete_by_id(
    layout: Layout,
    agent_folder: str,
    session_id: str,
    *,
    soft: bool,
    is_unused: bool = False,
    only_on_this_machine: bool,
) -> None:
    """Delete the session that has this id now; the id stays known as deleted. Parameters as for ``delete_by_name``.
    Raises OSError."""
    name = file_name(session_id)
    # The journal is in the agent's folder, which may be missing: an editor deletes sessions that were never recorded.
    layout.make_folder(layout.transcript_path(agent_folder, name).parent)
    with suppress(OSError):  # the next query reads the journal anyway
        layout.mark(agent_folder, name)
    with lock_completed_journal(layout, agent_folder, ignores_full_disk=True) as agent_journal:
        stamp, uid = journal.stamp_now(), _read_uid(layout.transcript_path(agent_folder, name))
        event = Event(journal.DELETED, session_id, uid=uid, only_on_this_machine=only_on_this_machine)
        if not soft:
            _append_deleted(layout, agent_folder, event, stamp, is_unused=is_unused)
        elif session_id not in agent_journal.read_deleted():  # else its soft-deleted transcript stays as it is
            soft_deleted_name = _choose_soft_deleted_name(layout, agent_folder, name, stamp)
            until = _choose_removal_time(layout, stamp)
            agent_journal.append(replace(event, transcript=soft_deleted_name, until=until), stamp)
        apply_delete(layout, agent_folder, session_id)


def _append_deleted(layout: Layout, agent_folder: str, event: Event, stamp: str, *, is_unused: bool) -> None:
    """Append the ``deleted`` event; on a full disk, remove the transcript first, since that makes room. If another
    process has the transcript open, removing it would make no room: then nothing is deleted. Raises OSError."""
    agent_journal, name = layout.get_journal(agent_folder), file_name(event.session_id)
    path = layout.transcript_path(agent_folder, name)
    # The event first: a crash after it leaves files, which the next process removes because of the event. Files that
    # were removed without an event would be forgotten: the agent's own list would show the session again, and opening
    # it would record it anew.
    try:
        agent_journal.append(event, stamp)
    except OSError as problem:
        # Only on a full disk the file goes first: a user who deletes to make room must not fail for lack of it. A crash
        # in between loses the event, but not the file that the user wanted to be rid of.
        with ExitStack() as stack:
            is_full = errno_name(problem) in DISK_FULL
            if not is_full or not (is_unused or stack.enter_context(lock_if_unused(path))):
                raise
            with suppress(FileNotFoundError):  # it is compressed
                os.truncate(path, 0)  # ``lock_if_unused`` has it open, so removing its name alone frees nothing
            layout.remove_transcript(agent_folder, name)
            agent_journal.append(event, stamp)


def apply_delete(layout: Layout, agent_folder: str, session_id: str) -> None:
    """Do what follows from a session's ``deleted`` event, to titles and files, as far as it is not done. Call it only
    while holding the journal. Raises OSError."""
    name, agent_journal = file_name(session_id), layout.get_journal(agent_folder)
    soft_deleted_name = agent_journal.read_state().deleted[session_id]
    if soft_deleted_name is None:
        _remove_and_mark(layout, agent_folder, name)
    else:
        agent_journal.copy_title(session_id, name, soft_deleted_name)
        layout.erase_titles(agent_folder, name)
        _move_to_deleted(layout, agent_folder, name, soft_deleted_name)


def complete_interrupted(layout: Layout, agent_folder: str) -> bool:
    """Complete deletes, restores and renames that were interrupted. Returns False if something is left to complete, for
    example because another process holds the journal. Raises OSError."""
    agent_journal = layout.get_journal(agent_folder)
    if not agent_journal.read_state().incomplete_renames_and_removals and not _list_interrupted(layout, agent_folder):
        return True
    if layout.is_read_only:
        return False
    try:
        # A list comes through here, and must not wait for a delete. Whoever holds the journal completes its own.
        with agent_journal.lock(wait=False):
            _complete_renames_and_removals(layout, agent_folder, ignores_full_disk=True)  # the deletes below make room
            for session_id in _list_interrupted(layout, agent_folder):
                apply_delete(layout, agent_folder, session_id)
        return not agent_journal.read_state().incomplete_renames_and_removals
    except OSError:
        return False


def _list_interrupted(layout: Layout, agent_folder: str) -> list[str]:
    """The ids of deleted sessions that still have files, backups or titles they should not have. Raises OSError."""
    state = layout.get_journal(agent_folder).read_state()
    if not state.deleted:
        return []
    names_before_delete = {name_before_delete(name) for name in layout.list_soft_deleted_names(agent_folder)}
    backed_up = layout.list_backed_up(agent_folder)

    def has_leftovers(name: str, soft_deleted_name: str | None) -> bool:
        if name in state.with_title_lines or name in backed_up:
            return True
        if soft_deleted_name is None and name in names_before_delete:  # what was soft-deleted under this name goes, too
            return True
        return layout.has_transcript(agent_folder, name) or layout.has_removed_transcript(agent_folder, name)

    return [
        session_id
        for session_id, soft_deleted_name in state.deleted.items()
        if has_leftovers(file_name(session_id), soft_deleted_name)
    ]


def lift_delete(layout: Layout, agent_folder: str, session_id: str) -> None:
    """Make a deleted session live again, before its new file exists: otherwise another process could complete the
    delete by removing that. Raises OSError."""
    agent_journal = layout.get_journal(agent_folder)
    if session_id not in agent_journal.read_deleted():
        return
    with agent_journal.lock():
        if session_id in agent_journal.read_deleted():
            apply_delete(layout, agent_folder, session_id)  # a crash may have interrupted the delete
            agent_journal.append(Event(journal.LIFTED, session_id))


def delete_by_name(
    layout: Layout,
    agent_folder: str,
    session_id: str,
    name: str,
    *,
    soft: bool,
    is_unused: bool = False,
    only_on_this_machine: bool,
) -> None:
    """Delete the transcript with this name. If its id belongs to a newer session now, that one is left alone. Raises
    OSError.

    ``soft``: it can be restored, for the layout's ``bin_days``. ``is_unused``: the caller holds ``lock_if_unused``, so
    no other process has it open. ``only_on_this_machine``: other machines with the same history keep it.
    """
    if name == file_name(session_id):
        delete_by_id(
            layout, agent_folder, session_id, soft=soft, is_unused=is_unused, only_on_this_machine=only_on_this_machine
        )
        return
    if not is_soft_deleted_name(name):  # else the index has no row of it
        with suppress(OSError):  # the next query reads the journal anyway
            layout.mark(agent_folder, name)
    with lock_completed_journal(layout, agent_folder, ignores_full_disk=True):
        if soft:
            stamp = journal.stamp_now()
            event = Event.make_rename(
                session_id,
                name,
                _choose_soft_deleted_name(layout, agent_folder, name, stamp),
                until=_choose_removal_time(layout, stamp),
                only_on_this_machine=only_on_this_machine,
            )
        else:
            event = Event.make_removal(session_id, name, only_on_this_machine=only_on_this_machine)
        _append_and_apply(layout, agent_folder, event)


def _choose_removal_time(layout: Layout, stamp: str) -> str | None:
    """When a transcript is removed that is soft-deleted at the time ``stamp``; None: never by itself."""
    # Each delete says it for itself: then another setting, in another terminal or later, removes nothing early, and
    # what an older version has soft-deleted is kept, as that version promised.
    if layout.bin_days is None:
        return None
    return timestamps.format_now((timestamps.parse_seconds(stamp) or time.time()) + layout.bin_days * _DAY_SECONDS)


def list_expired(layout: Layout, agent_folder: str, now: str) -> list[str]:
    """The soft-deleted transcripts of an agent whose time is over. Raises OSError."""
    names = layout.list_soft_deleted_names(agent_folder)
    soft_deletes = layout.get_journal(agent_folder).read_state().soft_deletes if names else {}
    return [name for name in names if name in soft_deletes and (until := soft_deletes[name].until) and until <= now]


def remove_expired(layout: Layout) -> int:
    """Remove the soft-deleted transcripts whose time is over, unless somebody has them open. Returns how many. Raises
    OSError."""
    count = 0
    for agent_folder in layout.list_agents():
        for soft_deleted_name in list_expired(layout, agent_folder, journal.stamp_now()):
            with layout.get_journal(agent_folder).lock():
                # Asked again under the lock: it may have been restored, and deleted anew under this name.
                path = layout.soft_deleted_path(agent_folder, soft_deleted_name)
                if (
                    soft_deleted_name not in list_expired(layout, agent_folder, journal.stamp_now())
                    or (session_id := find_session_id(layout, agent_folder, soft_deleted_name)) is None
                ):
                    continue
                with lock_if_unused(path) as is_unused:
                    if is_unused:
                        # Other machines do so at their own time: one that restores it first has it.
                        delete_by_name(
                            layout, agent_folder, session_id, soft_deleted_name, soft=False, only_on_this_machine=True
                        )
                        count += 1
    return count


def restore(layout: Layout, agent_folder: str, session_id: str, soft_deleted_name: str) -> str:
    """Undo a soft delete. Returns the transcript's name: if its id belongs to a newer session, that of one that was set
    aside. Raises OSError (FileNotFoundError: it no longer exists)."""
    with lock_completed_journal(layout, agent_folder) as agent_journal:
        if session_id in agent_journal.read_deleted():
            apply_delete(layout, agent_folder, session_id)  # a crash may have interrupted the delete
        if not _has_file(layout.soft_deleted_path(agent_folder, soft_deleted_name)):
            raise FileNotFoundError(errno.ENOENT, "it no longer exists", session_id)
        new_name = name_before_delete(soft_deleted_name)
        while layout.has_transcript(agent_folder, new_name):
            new_name = number_name(new_name)
        return _append_and_apply(
            layout, agent_folder, Event(journal.RESTORED, session_id, soft_deleted_name, new_name=new_name)
        )


@contextmanager
def lock_completed_journal(layout: Layout, agent_folder: str, *, ignores_full_disk: bool = False) -> Iterator[Journal]:
    """Hold the journal, after completing interrupted renames and removals. Raises OSError.

    ``ignores_full_disk``: on a full disk, leave them for later, since what follows makes room. Before a transcript gets
    a new name, they must be complete, as an old removal may be of that name.
    """
    agent_journal = layout.get_journal(agent_folder)
    with agent_journal.lock():
        _complete_renames_and_removals(layout, agent_folder, ignores_full_disk=ignores_full_disk)
        yield agent_journal


def _append_and_apply(layout: Layout, agent_folder: str, event: Event) -> str:
    """Append the event to the journal, with the transcript's uid, then rename or remove the transcript as it says; on a
    full disk, it is removed without an event. Returns its new name. Raises OSError."""
    event = replace(event, uid=_read_uid(layout.path_by_name(agent_folder, event.name)))
    with nullcontext() if event.new_name else _ignore_full_disk():
        layout.get_journal(agent_folder).append(event)
    new_name = _apply_to_files(layout, agent_folder, event)
    if new_name is not None:
        with _ignore_full_disk():  # then it is completed once more
            _append_done(layout, agent_folder, event)
    return new_name or ""


def _complete_renames_and_removals(layout: Layout, agent_folder: str, *, ignores_full_disk: bool) -> None:
    """Complete interrupted renames and removals. Raises OSError, also if there is no room to append that one is
    complete: it would be done again, to another transcript if that got the name in the meantime."""
    for event in layout.get_journal(agent_folder).read_state().incomplete_renames_and_removals.values():
        with _ignore_full_disk() if ignores_full_disk else nullcontext():
            if _apply_to_files(layout, agent_folder, event) is not None:
                _append_done(layout, agent_folder, event)


def _append_done(layout: Layout, agent_folder: str, event: Event) -> None:
    """Append that a rename or removal is complete. It comes last, so whoever finds a crash in between does all of it
    again, and each step leaves alone what is done. Raises OSError."""
    layout.get_journal(agent_folder).append(Event.make_completion(event.session_id, event.name))


def _apply_to_files(layout: Layout, agent_folder: str, event: Event) -> str | None:
    """Rename or remove the transcript as the event says, with its titles and backups. Returns its new name, empty for a
    removal; None if something is left to do. Raises OSError."""
    name, new_name = event.name, event.new_name or ""
    if new_name:
        if _has_file(layout.path_by_name(agent_folder, name)):  # else it was moved before
            new_name = _rename(layout, agent_folder, name, new_name)
        layout.move_backups(agent_folder, name, new_name)
        layout.get_journal(agent_folder).copy_title(event.session_id, name, new_name)
        layout.erase_titles(agent_folder, name)
    elif not _remove_and_mark(layout, agent_folder, name) and is_soft_deleted_name(name):
        # It is done again, for the mark. That removes nothing else: a name in ``deleted/`` is used only once.
        return None
    return new_name


def _remove_and_mark(layout: Layout, agent_folder: str, name: str) -> bool:
    """Remove a transcript, soft-deleted or not, with all that is of it, and mark it for the index. Returns False if it
    is removed, but cannot be marked. Raises OSError."""
    # Titles first: the file shows that there is more to do, as long as it exists (``_list_interrupted``).
    if is_soft_deleted_name(name):
        layout.erase_titles(agent_folder, name)
        layout.remove_soft_deleted(agent_folder, name)
    else:
        layout.erase_titles(agent_folder, name, *layout.list_soft_deleted_of(agent_folder, name))
        layout.remove_transcript(agent_folder, name)
    # Marked after that, as the index still has the bytes of the row: another process's list removes an earlier mark
    # where it finds the transcript in its place or in ``deleted/``.
    try:
        layout.mark(agent_folder, name)
    except OSError:
        return False
    return True


def _rename(layout: Layout, agent_folder: str, name: str, new_name: str) -> str:
    """Rename a transcript. Returns its new name, under which it is marked for the index, unless it is soft-deleted now:
    then the index has no row for it. Raises OSError."""
    new_path = layout.path_by_name(agent_folder, new_name)
    layout.make_folder(new_path.parent)
    if is_soft_deleted_name(new_name):
        return move_transcript(layout.path_by_name(agent_folder, name), new_path)
    layout.mark(agent_folder, new_name)
    new_name = move_transcript(layout.path_by_name(agent_folder, name), new_path)
    layout.mark(agent_folder, new_name)  # its name may have been taken in the meantime
    return new_name


@contextmanager
def _ignore_full_disk() -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        if errno_name(problem) not in DISK_FULL:
            raise


def _choose_soft_deleted_name(layout: Layout, agent_folder: str, name: str, stamp: str) -> str:
    """An unused name for a transcript that is soft-deleted at the time ``stamp``."""
    soft_deleted_name = make_soft_deleted_name(name, stamp)
    while _has_file(layout.soft_deleted_path(agent_folder, soft_deleted_name)):
        soft_deleted_name = number_name(soft_deleted_name)
    return soft_deleted_name


def _read_uid(path: Path) -> str | None:
    """The uid in the header of a transcript that is about to be deleted or renamed; None if it cannot be read, or has
    none. Then its name says which one it is: a repair may have lost the uid, so one made from the header is useless."""
    with suppress(OSError, NewerFormat), closing(TranscriptReader(path)) as reader:
        return (reader.header.uid or None) if reader.header is not None else None
    return None


def find_session_id(layout: Layout, agent_folder: str, soft_deleted_name: str) -> str | None:
    """The id of a soft-deleted transcript's session, from the journal if the transcript cannot be read; None if that
    does not know it either. Raises OSError."""
    path = layout.soft_deleted_path(agent_folder, soft_deleted_name)
    with suppress(OSError, NewerFormat), closing(TranscriptReader(path)) as reader:
        if (header := reader.header or reader.rebuild_header()) is not None:
            return header.session_id
    soft_delete = layout.get_journal(agent_folder).read_state().soft_deletes.get(soft_deleted_name)
    return soft_delete.session_id if soft_delete is not None else None


def _has_file(path: Path) -> bool:
    return os.path.lexists(path) or os.path.lexists(compressed_path(path))


def _move_to_deleted(layout: Layout, agent_folder: str, name: str, soft_deleted_name: str) -> None:
    """Move a transcript and its backups to ``deleted/``, if they are not there yet. Raises OSError."""
    if layout.has_transcript(agent_folder, name):  # else it was moved before
        soft_deleted_name = _rename(layout, agent_folder, name, soft_deleted_name)
    layout.move_backups(agent_folder, name, soft_deleted_name)
