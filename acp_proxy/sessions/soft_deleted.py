"""Soft-deleted sessions: listing and restoring them.

The index does not contain soft-deleted sessions: their transcripts are read each time. Raises OSError.
"""

import contextlib
import time

from msgspec import Struct
from msgspec.structs import replace

from acp_proxy.errors import NewerFormat
from acp_proxy.protocol import acp, timestamps
from acp_proxy.sessions.disk_use import measure_sizes
from acp_proxy.store import delete, journal, open_session
from acp_proxy.store.index_database import ListedSession
from acp_proxy.store.layout import Layout
from acp_proxy.transcript import file_format
from acp_proxy.transcript.appender import TranscriptAppender
from acp_proxy.transcript.file_format import GapReason, GitHead, Header, NoteType
from acp_proxy.transcript.file_names import (
    ASIDE,
    file_name,
    make_selector,
    name_before_delete,
    read_deletion_time,
)
from acp_proxy.transcript.reader import Line, TranscriptReader
from acp_proxy.transcript.summary import Summary

DELETED_GAP_RUN = "deleted"
"""The run of the gap note for a turn that was unanswered at the delete: the rest was not recorded."""


class DeletedSession(Struct, frozen=True):
    """A soft-deleted session.

    ``name``: its transcript's name while deleted. ``title``: the user's, if there is one. ``selector``: what selects it
    on a command line, as a list had it (``file_names.make_selector``); the time of the delete follows for all but the
    last deleted one of those with the same. ``removed_at``: when it will be removed; empty: never by itself.
    """

    agent_folder: str
    name: str
    session_id: str
    deleted_at: str
    title: str | None
    selector: str
    removed_at: str = ""


def list_deleted(layout: Layout) -> list[DeletedSession]:
    """All soft-deleted sessions, last deleted first, also those that cannot be read. Those whose id is unknown are left
    out, and those whose time is over, even if nobody has removed them yet."""
    deleted_sessions, now = [], journal.stamp_now()
    for agent_folder in layout.list_agents():
        with contextlib.suppress(OSError):  # an unreadable journal matters only if there are names
            delete.complete_interrupted(layout, agent_folder)
        names = layout.list_soft_deleted_names(agent_folder)
        if not names:
            continue
        state = layout.get_journal(agent_folder).read_state()
        expired_names = delete.list_expired(layout, agent_folder, now)
        for name in names:
            session_id = delete.find_session_id(layout, agent_folder, name) if name not in expired_names else None
            if session_id is not None:
                selector = make_selector(agent_folder, name_before_delete(name), session_id)
                title, soft_delete = state.titles.get(name), state.soft_deletes.get(name)
                until = soft_delete.until or "" if soft_delete is not None else ""
                deleted_sessions.append(
                    DeletedSession(agent_folder, name, session_id, read_deletion_time(name), title, selector, until)
                )
    deleted_sessions.sort(key=lambda session: (session.deleted_at, session.name), reverse=True)
    last_names = {(session.agent_folder, session.selector): session.name for session in reversed(deleted_sessions)}
    return [
        session
        if last_names[session.agent_folder, session.selector] == session.name
        else replace(session, selector=session.selector + ASIDE + session.name.rpartition(ASIDE)[2])
        for session in deleted_sessions
    ]


def summarize_deleted(layout: Layout, deleted: DeletedSession) -> ListedSession:
    """A soft-deleted session as a list would show it; with what is known without its transcript if that cannot be
    read."""
    return _summarize(layout, deleted)[0]


def _summarize(layout: Layout, deleted: DeletedSession) -> tuple[ListedSession, bool]:
    """As ``summarize_deleted`` returns it; and whether a turn is known to be unanswered."""
    path = layout.soft_deleted_path(deleted.agent_folder, deleted.name)
    with contextlib.suppress(OSError, NewerFormat), contextlib.closing(TranscriptReader(path)) as reader:
        summary = summarize(reader)
        row = _make_row(reader, summary, deleted.agent_folder, deleted.name, deleted.session_id, deleted.title)
        return row, bool(summary.open)
    row = ListedSession(
        agent_folder=deleted.agent_folder,
        name=deleted.name,
        session_id=deleted.session_id,
        cwd=None,
        title=deleted.title,
        updated="",
        prompt_count=0,
        reply_count=0,
        has_failed=False,
        is_running=False,
        directories=[],
        meta={},
        size=measure_sizes(layout, deleted.agent_folder).get(deleted.name, 0),
        created="",
    )
    return row, False


def restore(layout: Layout, deleted: DeletedSession) -> ListedSession:
    """Undo a soft delete; a gap note follows a last turn that was unanswered. Returns the session under its new
    transcript name."""
    listed, is_unanswered = _summarize(layout, deleted)
    name = delete.restore(layout, deleted.agent_folder, deleted.session_id, deleted.name)
    if is_unanswered:
        path = layout.transcript_path(deleted.agent_folder, name)
        open_session.ensure_plain(layout, deleted.agent_folder, path)
        transcript = TranscriptAppender(path)
        try:
            note = {"type": NoteType.GAP, "since": deleted.deleted_at, "reason": GapReason.DELETED}
            transcript.append(file_format.encode_note(timestamps.format_now(time.time()), DELETED_GAP_RUN, note))
        finally:
            transcript.close()
    return replace(listed, name=name)


def summarize(reader: TranscriptReader) -> Summary:
    """The summary of a whole transcript."""
    header = reader.header or reader.rebuild_header()
    summary = Summary.begin(header) if header is not None else Summary()
    for line in reader.read_alike():
        if not isinstance(line, Line):
            summary.add_chunks(line.chunks)
        elif line.entry is not None:
            summary.add(line.entry)
    return summary


def summarize_file(reader: TranscriptReader, header: Header) -> ListedSession:
    """A transcript outside of the store as a list would show it."""
    agent_folder = acp.text(header.agent, "id") or file_name(acp.text(header.agent, "name") or "agent")
    return _make_row(reader, summarize(reader), agent_folder, file_name(header.session_id), header.session_id)


def _make_row(
    reader: TranscriptReader, summary: Summary, agent_folder: str, name: str, session_id: str, title: str | None = None
) -> ListedSession:
    """``title``: the user's, if there is one."""
    header = reader.header or reader.rebuild_header()
    return ListedSession(
        agent_folder=agent_folder,
        name=name,
        session_id=session_id,
        cwd=summary.cwd,
        title=title or summary.title,
        updated=summary.updated or "",
        prompt_count=summary.prompts,
        reply_count=summary.replies,
        has_failed=summary.failed or bool(summary.open),
        is_running=False,
        directories=summary.directories,
        meta=summary.meta,
        size=reader.size,
        created=header.created_at if header is not None else "",
        machine=summary.machine,
        git=GitHead.from_members(summary.git),
    )
