"""Finds what the user did on this machine since the last round: deletes, new and moved files, titles.

A file that is missing without a delete is not a delete: it will be fetched again.
"""

from collections.abc import Mapping
from dataclasses import replace

from acp_proxy.tools.sync.context import SyncContext
from acp_proxy.tools.sync.interfaces import Move, SeenFile
from acp_proxy.tools.sync.records import ARCHIVED, SOFT_DELETED, TITLE
from acp_proxy.tools.sync.state_db import LocalSession, name_journal_fact

_BURY_DAYS = 60
"""Since a soft delete, until its words are removed from the shared place: twice as long as it can be undone, because a
machine that undid it in time may have been offline since."""
TitlesAndArchived = tuple[Mapping[str, str], frozenset[str]]
"""The user's titles by name, and the names that are archived."""


def note_local_changes(context: SyncContext) -> None:
    """Bring what is remembered up to date with the files. Raises OSError."""
    find_deletes(context)
    _delete_expired(context)
    _find_files(context)
    labels_by_agent: dict[str, TitlesAndArchived] = {}
    for local_session in context.state.list_local_sessions():
        if local_session.name and local_session.tip != local_session.tree:
            if local_session.agent_folder not in labels_by_agent:
                labels_by_agent[local_session.agent_folder] = context.sessions.read_labels(local_session.agent_folder)
            publish_labels(context, local_session, labels_by_agent[local_session.agent_folder])


def _delete_expired(context: SyncContext) -> None:
    """Delete for good, everywhere, what was soft-deleted on this machine and removed here long ago."""
    latest_stamp = (context.now() - _BURY_DAYS * 24 * 60 * 60) * 1000
    for local_session in context.state.list_local_sessions():
        if local_session.is_pruned and local_session.is_soft_deleted:
            labels = context.state.read_labels(local_session.tree).get(SOFT_DELETED, {})
            anchor = context.state.read_tree(local_session.tree).find_nearest(local_session.tip, labels)
            label = labels[anchor] if anchor is not None else None
            if (
                label is not None
                and label.value is True
                and label.by == context.machine
                and label.stamp <= latest_stamp
            ):
                context.delete_everywhere(local_session)


def publish_labels(context: SyncContext, local_session: LocalSession, labels: TitlesAndArchived | None = None) -> None:
    """Publish what the user changed of a session's title, and whether it is archived or soft-deleted.

    ``labels``: the labels of all the agent's sessions, if they are known.
    """
    titles, archived_names = labels or context.sessions.read_labels(local_session.agent_folder)
    new_values: dict[str, str | bool | None] = {
        TITLE: titles.get(local_session.name),
        ARCHIVED: local_session.name in archived_names,
        SOFT_DELETED: context.sessions.is_soft_deleted(local_session.name),
    }
    old_values = {
        TITLE: local_session.title,
        ARCHIVED: local_session.is_archived,
        SOFT_DELETED: local_session.is_soft_deleted,
    }
    if new_values == old_values and not local_session.is_soft_deleted:
        return
    tree, published_labels = context.state.read_tree(local_session.tree), context.state.read_labels(local_session.tree)
    if (
        local_session.is_soft_deleted
        and tree.find_nearest(local_session.tip, published_labels.get(SOFT_DELETED, {})) is None
    ):
        old_values[SOFT_DELETED] = False  # it was said in the shared place before this one
    if new_values == old_values:
        return
    for field, value in new_values.items():
        anchor = tree.find_nearest(local_session.tip, published_labels.get(field, {}))
        is_published = anchor is not None and published_labels[field][anchor].value == value
        if (
            value != old_values[field]
            and not is_published
            and not context.publish_label(tree, local_session, field, value)
        ):
            new_values[field] = old_values[field]  # seen again when more of the session is published
    title = new_values[TITLE]
    context.state.put_local_session(
        replace(
            local_session,
            title=title if isinstance(title, str) else None,
            is_archived=bool(new_values[ARCHIVED]),
            is_soft_deleted=bool(new_values[SOFT_DELETED]),
        )
    )
    context.state.mark_unapplied(local_session.tree)


def find_deletes(context: SyncContext) -> None:
    """See which sessions were deleted, for good or softly, or restored. Raises OSError."""
    for agent_folder in context.sessions.list_agents():
        moves, end_offset = context.sessions.list_moves(
            agent_folder, context.state.get_number(name_journal_fact(agent_folder))
        )
        for move in moves:
            for local_session in _find_moved(context, agent_folder, move):
                _note_move(context, local_session, move)
        context.state.set_facts({name_journal_fact(agent_folder): end_offset})


def _find_moved(context: SyncContext, agent_folder: str, move: Move) -> list[LocalSession]:
    """The session that was deleted or renamed. A delete for good takes soft-deleted ones with the same id along."""
    named_sessions = context.state.find_named_or_aside(agent_folder, move.name)
    local_session = (
        context.state.find_local_session(move.uid)
        if move.uid
        else next((session for session in named_sessions if session.name == move.name), None)
    )
    deleted_along = [
        session
        for session in named_sessions
        if session.name != move.name and context.sessions.read_header(agent_folder, session.name) is None
    ]
    return [*([local_session] if local_session is not None else ()), *(deleted_along if not move.new_name else ())]


def _note_move(context: SyncContext, local_session: LocalSession, move: Move) -> None:
    if move.only_on_this_machine:
        # Was it soft-deleted and then removed since the last round?
        if context.sessions.is_soft_deleted(move.name) and not local_session.is_soft_deleted:
            context.publish_label(context.state.read_tree(local_session.tree), local_session, SOFT_DELETED, True)
            local_session = replace(local_session, is_soft_deleted=True)
        context.state.put_local_session(replace(_make_without_file(local_session), is_pruned=True, has_news=False))
    elif move.new_name:
        context.state.put_local_session(replace(local_session, name=move.new_name, file_version="", has_news=True))
    else:
        context.delete_everywhere(local_session)


def _make_without_file(local_session: LocalSession) -> LocalSession:
    """The session without its file. A trouble was the file's: what is fetched in its place has none."""
    return replace(local_session, name="", file_version="", trouble="")


def _find_files(context: SyncContext) -> None:
    files_here = {(file.agent_folder, file.name): file for file in context.sessions.list_files()}
    known_sessions = [local_session for local_session in context.state.list_local_sessions() if local_session.name]
    known_versions = {
        (local_session.agent_folder, local_session.name): local_session.file_version for local_session in known_sessions
    }
    for key, file in files_here.items():
        if known_versions.get(key) != file.version:
            _note_file(context, file, files_here)
    for local_session in known_sessions:
        if (local_session.agent_folder, local_session.name) not in files_here:
            current = context.state.find_local_session(local_session.uid)
            # Else it was just found under another name.
            if current is not None and (current.agent_folder, current.name) not in files_here:
                context.state.put_local_session(_make_without_file(current))


def _note_file(context: SyncContext, file: SeenFile, files_here: dict[tuple[str, str], SeenFile]) -> None:
    known_header = context.sessions.read_header(file.agent_folder, file.name)
    session_of_name = context.state.find_named(file.agent_folder, file.name)
    if known_header is None:  # without its header, nobody knows where its entries begin
        if session_of_name is not None:
            context.state.put_local_session(
                replace(session_of_name, file_version=file.version, has_news=False, trouble="damaged")
            )
        return
    uid, header = known_header
    if (
        session_of_name is not None and not header.uid and session_of_name.uid != uid
    ):  # its header was masked, which changes its hash; or damaged, and repaired without its uid
        uid = session_of_name.uid
    if session_of_name is not None and session_of_name.uid != uid:  # the name is another session's now
        context.state.put_local_session(_make_without_file(session_of_name))
    local_session = context.state.find_local_session(uid)
    if local_session is not None and local_session.is_pruned and context.sessions.is_soft_deleted(file.name):
        return
    if local_session is None:
        tree = header.branch_of or uid  # a branch is known if this machine left, and takes part again
        context.state.put_local_session(LocalSession(uid, tree, tree, file.agent_folder, file.name, file.version))
    elif (local_session.agent_folder, local_session.name) == (file.agent_folder, file.name) or (
        local_session.agent_folder,
        local_session.name,
    ) not in files_here:
        # Else it is a copy that the user made of a file which is still there: that one counts.
        found_session = replace(
            local_session, agent_folder=file.agent_folder, name=file.name, file_version=file.version
        )
        context.state.put_local_session(replace(found_session, has_news=True, is_pruned=False, trouble=""))
