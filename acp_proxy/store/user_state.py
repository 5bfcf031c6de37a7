"""What a user decides about a session: its title, whether it is archived, whether it is pinned.

Each change is one event of the journal, written under its lock. An event belongs to a transcript, by its name: when
that is renamed, new events say so (``move_user_state``). A delete ends the archive, a permanent one the pin, too
(``JournalState``), and erases the titles.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from acp_proxy.store import journal
from acp_proxy.store.delete import lock_completed_journal
from acp_proxy.store.journal import Event, Journal
from acp_proxy.store.layout import Layout
from acp_proxy.transcript.file_names import file_name


def set_title(
    layout: Layout, agent_folder: str, session_id: str, name: str, title: str | None, *, by_agent: bool = False
) -> None:
    """Set the user's title; None: remove it. ``by_agent``: the agent has it too. Raises OSError (FileNotFoundError: the
    session was deleted)."""
    with _lock_existing(layout, agent_folder, session_id, name) as agent_journal:
        if title is None:
            _remove_title(layout, agent_folder, session_id, name)
        else:
            agent_journal.append(Event.make_title(session_id, name, title, by_agent=by_agent))
        layout.remove_search_tables(name)  # search tables contain the title


def set_archived(
    layout: Layout, agent_folder: str, session_id: str, name: str, is_archived: bool, *, by_agent: bool = False
) -> None:
    """Archive a session, so that no list shows it by default, or unarchive it. ``by_agent``: the agent has done so too.
    Raises OSError (FileNotFoundError: the session was deleted)."""
    with _lock_existing(layout, agent_folder, session_id, name) as agent_journal:
        state = agent_journal.read_state()
        is_new_by_agent = is_archived and by_agent and name not in state.archived_by_agent
        if is_new_by_agent or is_archived != (name in state.archived):
            kind = journal.ARCHIVED if is_archived else journal.UNARCHIVED
            agent_journal.append(Event.make_for_transcript(kind, session_id, name, by_agent=by_agent))


def set_pinned(layout: Layout, agent_folder: str, session_id: str, name: str, is_pinned: bool) -> None:
    """Pin a session, so that it is never pruned, or unpin it. Raises OSError (FileNotFoundError: the session was
    deleted)."""
    with _lock_existing(layout, agent_folder, session_id, name) as agent_journal:
        if is_pinned != (name in agent_journal.read_state().pinned):
            kind = journal.PINNED if is_pinned else journal.UNPINNED
            agent_journal.append(Event.make_for_transcript(kind, session_id, name))


@contextmanager
def _lock_existing(layout: Layout, agent_folder: str, session_id: str, name: str) -> Iterator[Journal]:
    """Hold the journal. Raises OSError (FileNotFoundError: the session was deleted)."""
    with lock_completed_journal(layout, agent_folder) as agent_journal:
        if name == file_name(session_id) and session_id in agent_journal.read_deleted():
            raise FileNotFoundError(errno.ENOENT, "it was deleted", session_id)
        yield agent_journal


def move_user_state(layout: Layout, agent_folder: str, session_id: str, old_name: str, new_name: str) -> None:
    """Move the title, and whether it is archived and pinned, from one transcript name to another. Call it only while
    holding the journal. Raises OSError."""
    agent_journal = layout.get_journal(agent_folder)
    state = agent_journal.read_state()
    for names, kind, end_kind in (
        (state.archived, journal.ARCHIVED, journal.UNARCHIVED),
        (state.pinned, journal.PINNED, journal.UNPINNED),
    ):
        if old_name in names:
            agent_journal.append(Event.make_for_transcript(end_kind, session_id, old_name))
            agent_journal.append(Event.make_for_transcript(kind, session_id, new_name))
    agent_journal.copy_title(session_id, old_name, new_name)
    _remove_title(layout, agent_folder, session_id, old_name)


def _remove_title(layout: Layout, agent_folder: str, session_id: str, name: str) -> None:
    agent_journal = layout.get_journal(agent_folder)
    if name in agent_journal.read_state().titles:
        # For processes that have read the file already.
        agent_journal.append(Event.make_title(session_id, name, None))
    layout.erase_titles(agent_folder, name)
