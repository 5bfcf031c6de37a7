"""Chooses the sessions to prune, and deletes each as a whole; never one that somebody has open.

Each limit is a promise about what remains, so a session goes if any limit requires it. Choosing is pure.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from acp_proxy.errors import errno_name
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.sessions.disk_use import measure_sizes
from acp_proxy.sessions.find_sessions import list_including_unprompted
from acp_proxy.sessions.soft_deleted import list_deleted, summarize_deleted
from acp_proxy.store import delete
from acp_proxy.store.index_database import Index, ListedSession, decode_id
from acp_proxy.store.layout import Layout
from acp_proxy.store.queries import complete_rows
from acp_proxy.store.store_index import StoreIndex
from acp_proxy.transcript.appender import lock_if_unused
from acp_proxy.transcript.file_names import compressed_path, make_selector, name_before_delete

IN_USE = "in use"
"""The reason for not pruning a session that is open, or was changed since it was chosen."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What may remain.

    ``older_than``: nothing that was last used before this time. ``most_sessions``, ``most_bytes``: not more than that.
    """

    older_than: str | None = None
    most_sessions: int | None = None
    most_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A session that may be pruned.

    ``last_used``: when it was last used, or soft-deleted. ``size``: bytes on disk.
    """

    agent_folder: str
    name: str
    session_id: str
    last_used: str
    size: int
    title: str | None
    row: ListedSession
    """As a list shows it."""
    has_turn: bool = True
    is_soft_deleted: bool = False
    parent_id: str | None = None
    """The id of the session whose subagent this is."""
    is_pinned: bool = False
    file_version: tuple[int, int] | None = None
    """Modification time and size of its file, if known. If they differ later, it is not pruned."""

    @property
    def selector(self) -> str:
        """What selects it on a command line."""
        name = name_before_delete(self.name) if self.is_soft_deleted else self.name
        return make_selector(self.agent_folder, name, self.session_id)


def select_exceeding(limits: Limits, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Those of the candidates, given newest first, that exceed the limits; in the same order.

    The session of a subagent is a part of the one that it worked for: it stays and goes with that, whatever its own
    age. Its place is after that one. What is pinned stays, and does not count.
    """
    count = size = 0
    exceeding = []
    for group in _group_with_subagents(candidates):
        if any(member.is_pinned for member in group):
            continue
        candidate = group[0]
        count += candidate.has_turn
        size += sum(member.size for member in group)
        is_old = limits.older_than is not None and candidate.last_used < limits.older_than
        is_many = limits.most_sessions is not None and (
            count > limits.most_sessions or (count == limits.most_sessions and not candidate.has_turn)
        )
        is_much = limits.most_bytes is not None and size > limits.most_bytes
        if is_old or is_many or is_much:
            exceeding += group
    return exceeding


def _group_with_subagents(candidates: Sequence[Candidate]) -> list[list[Candidate]]:
    """Each candidate, followed by those of its subagents and of their subagents."""
    places = {
        (candidate.agent_folder, candidate.session_id): place
        for place, candidate in reversed(list(enumerate(candidates)))
    }
    groups = {place: [candidate] for place, candidate in enumerate(candidates)}
    for place, candidate in enumerate(candidates):
        root_place, root, ids_seen = place, candidate, {candidate.session_id}
        while (
            root.parent_id is not None
            and (root.agent_folder, root.parent_id) in places
            and root.parent_id not in ids_seen
        ):
            ids_seen.add(root.parent_id)
            root_place = places[root.agent_folder, root.parent_id]
            root = candidates[root_place]
        if root_place != place and root.parent_id not in ids_seen:  # sessions that name each other belong to nobody
            groups[root_place].append(candidate)
            del groups[place]
    return list(groups.values())


def find_candidates(store: CommandStore, *, deleted: bool = False) -> list[Candidate]:
    """The sessions that may be pruned, newest first; ``deleted``: the soft-deleted ones instead.

    Raises OSError, Unreadable.
    """
    return (_find_soft_deleted if deleted else _find_listed)(store.layout, store.store_index)


def _find_listed(layout: Layout, store_index: StoreIndex) -> list[Candidate]:
    """Every session, newest first. Raises OSError, Unreadable."""
    rows = store_index.query(list_including_unprompted, *layout.list_agents())
    parents = store_index.query(_find_parents)
    sizes = {agent_folder: measure_sizes(layout, agent_folder) for agent_folder in layout.list_agents()}
    return [
        Candidate(
            row.agent_folder,
            row.name,
            row.session_id,
            row.updated,
            size,
            row.title,
            row,
            has_turn=row.prompt_count > 0,
            parent_id=parents.get((row.agent_folder, row.session_id)),
            is_pinned=row.is_pinned,
            file_version=_read_version(layout.transcript_path(row.agent_folder, row.name)),
        )
        for row in complete_rows(layout, rows)
        if (size := sizes.get(row.agent_folder, {}).get(row.name)) is not None
    ]


def _find_parents(index: Index) -> dict[tuple[str, str], str]:
    """By the agent and the id of each subagent's session: the id of the session that it worked for."""
    query = (
        "SELECT agent, session, subagent.value FROM transcripts, json_each(state, '$.subagents') AS subagent"
        " ORDER BY updated"
    )
    return {
        (agent_folder, subagent): decode_id(session_id)
        for agent_folder, session_id, subagent in index.select(query, [])
    }


def _find_soft_deleted(layout: Layout, store_index: StoreIndex) -> list[Candidate]:
    """The soft-deleted sessions, last deleted first. Raises OSError, Unreadable."""
    # This brings the index up to date, so it has nothing of them.
    store_index.catch_up(*layout.list_agents())
    sizes = {agent_folder: measure_sizes(layout, agent_folder) for agent_folder in layout.list_agents()}
    return [
        Candidate(
            session.agent_folder,
            session.name,
            session.session_id,
            session.deleted_at,
            size,
            row.title,
            row,
            is_soft_deleted=True,
        )
        for session, row in ((session, summarize_deleted(layout, session)) for session in list_deleted(layout))
        if (size := sizes.get(session.agent_folder, {}).get(session.name)) is not None
    ]


def prune_sessions(
    store: CommandStore, candidates: Iterable[Candidate], *, soft: bool, only_on_this_machine: bool
) -> Iterator[tuple[Candidate, str | None]]:
    """Delete sessions one by one. Yields each with the reason it was not deleted, or None.

    Those of subagents come after their sessions, and stay if those do.

    ``soft``: they can be restored, for the layout's ``bin_days``; those that are soft-deleted already are deleted
    permanently all the same. ``only_on_this_machine``: other machines with the same history keep them. The index is
    updated at the end. Raises Unreadable if that fails; the next list then does it.
    """
    layout = store.layout
    deleted_names: dict[str, list[str]] = {}
    kept_reasons: dict[tuple[str, str], str] = {}
    try:
        for candidate in candidates:
            reason = kept_reasons.get((candidate.agent_folder, candidate.parent_id or "")) or _delete(
                layout, candidate, soft=soft, only_on_this_machine=only_on_this_machine
            )
            if reason is None:
                deleted_names.setdefault(candidate.agent_folder, []).append(candidate.name)
            else:
                kept_reasons[candidate.agent_folder, candidate.session_id] = reason
            yield candidate, reason
    finally:
        for agent_folder, names in deleted_names.items():
            layout.get_journal(agent_folder).fsync()
            store.store_index.remove(agent_folder, names)


def _delete(layout: Layout, candidate: Candidate, *, soft: bool, only_on_this_machine: bool) -> str | None:
    """The reason for not deleting it: ``IN_USE`` or an errno's name; None if it was deleted."""
    agent_folder, session_id, name = candidate.agent_folder, candidate.session_id, candidate.name
    path = layout.path_by_name(agent_folder, name)
    try:
        # The journal's lock keeps others from decompressing it.
        with layout.get_journal(agent_folder).lock(), lock_if_unused(path) as is_unused:
            if not is_unused or (candidate.file_version is not None and _read_version(path) != candidate.file_version):
                return IN_USE
            delete.delete_by_name(
                layout,
                agent_folder,
                session_id,
                name,
                soft=soft and not candidate.is_soft_deleted,
                is_unused=True,
                only_on_this_machine=only_on_this_machine,
            )
    except OSError as problem:
        return errno_name(problem)
    return None


def _read_version(path: Path) -> tuple[int, int] | None:
    """Modification time and size of a transcript's file; None if it does not exist."""
    for form in (path, compressed_path(path)):
        with suppress(FileNotFoundError):
            status = os.stat(form)
            return status.st_mtime_ns, status.st_size
    return None
