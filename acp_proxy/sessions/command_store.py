"""The store's interface for commands and the doctor: list, search, change and maintain sessions.

Covers all sessions of all agents, through the index, and single files. Any failure of the index raises ``Unreadable``.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct, convert

from acp_proxy.errors import NewerFormat, Unreadable
from acp_proxy.sessions import find_sessions, soft_deleted
from acp_proxy.sessions.soft_deleted import DeletedSession
from acp_proxy.sessions.unreadable import explain_unreadable, format_unreadable
from acp_proxy.store import delete, journal, store_root, subagents, user_state
from acp_proxy.store.index_database import Index, ListedSession, check_values, parse_json
from acp_proxy.store.layout import JOURNAL
from acp_proxy.store.queries import complete_rows, is_open, read_state
from acp_proxy.store.store_base import StoreBase
from acp_proxy.transcript.file_format import PARTIAL, Header
from acp_proxy.transcript.file_names import (
    COMPRESSED_SUFFIX,
    FORKED_SUFFIX,
    SUFFIX,
    compressed_path,
    file_name,
    parse_transcript_name,
)
from acp_proxy.transcript.reader import TranscriptReader
from acp_proxy.transcript.usage import SessionUsage, Usage

_MOST_LOOKED_UP = 1000
"""At most so many archived sessions of an agent are looked up by name; among more of them, one is found soon."""


class TokensAndCost(Struct, frozen=True):
    """What a session used, as far as its agent says. ``tokens``: None: it does not say. ``cost``: by currency."""

    tokens: int | None = None
    cost: Mapping[str, float] = MappingProxyType({})


class CommandStore(StoreBase):
    """A store as commands use it. Agents are given by folder, transcripts by name (``file_names.file_name``).

    What ``ProxyStore`` does to a session by its id, a method with ``listed`` in its name does to a row of a list: that
    may be of an older session, whose id a newer one has now.
    """

    # --- sessions

    def list_all(self) -> list[ListedSession]:
        """Every session that has a turn, of every agent, newest first. Raises Unreadable."""
        return list(self.list_newest())

    def list_newest(
        self,
        agent_words: str = "",
        cwd: str | None = None,
        since: str = "",
        until: str = "",
        *,
        includes_below: bool = False,
        branch: str = "",
        archived: bool | None = None,
    ) -> Iterator[ListedSession]:
        """Sessions that have a turn, newest first, read page by page as the iterator advances.

        ``agent_words``: an agent as the user writes it; empty: all. ``cwd``: only sessions of this directory;
        ``includes_below``: and of those below. ``since``, ``until``: only sessions last active from the one time to
        before the other, in the transcript's time format. ``branch``: only sessions begun on this Git branch.
        ``archived``: only those that are archived, or only those that are not; None: both. Raises Unreadable, also
        while iterating.
        """
        agent_folders, archived_names = self.list_agents(agent_words), dict[str, Mapping[str, str]]()
        if archived:  # to look for a few in 100,000 rows takes seconds
            archived_names = {
                agent_folder: read_state(self.layout, agent_folder).archived for agent_folder in agent_folders
            }
            agent_folders = [agent_folder for agent_folder in agent_folders if archived_names[agent_folder]]
            archived_names = {
                agent_folder: names for agent_folder, names in archived_names.items() if len(names) <= _MOST_LOOKED_UP
            }
        list_filter = find_sessions.ListFilter(
            agent_folders, cwd, since, until, includes_below=includes_below, branch=branch, names=archived_names
        )
        rows = complete_rows(
            self.layout,
            find_sessions.list_newest(self.store_index, list_filter),
        )
        return rows if archived is None else (row for row in rows if row.is_archived == archived)

    def find_named(self, selector: str, agent_words: str = "") -> list[ListedSession]:
        """The sessions that a user means by ``selector`` (``find_sessions.find_named``). Raises Unreadable, OSError."""
        list_filter = find_sessions.ListFilter(self.list_agents(agent_words))
        deleted_ids = {
            session_id for agent_folder in list_filter.agent_folders for session_id in self.read_deleted(agent_folder)
        }
        rows = self.store_index.query(
            lambda index: find_sessions.find_named(index, list_filter, selector, deleted_ids),
            *list_filter.agent_folders,
        )
        return list(complete_rows(self.layout, rows))

    def find_titled(
        self, title_part: str, agent_words: str = "", show_title: Callable[[str], str] = str
    ) -> list[ListedSession]:
        """The sessions with this title, else those whose title contains it, in any case, newest first; none for the id
        of a deleted session. ``show_title``: makes of a title what is compared. Raises Unreadable, OSError."""
        if any(title_part in self.read_deleted(agent_folder) for agent_folder in self.list_agents(agent_words)):
            return []
        return find_sessions.find_titled(
            ((row, show_title(row.title or "")) for row in self.list_newest(agent_words)), title_part
        )

    def read_tokens_and_cost(self, rows: Sequence[ListedSession]) -> dict[tuple[str, str], TokensAndCost]:
        """What these sessions used, by agent and transcript name. Raises Unreadable."""
        return self.store_index.query(
            lambda index: {(row.agent_folder, row.name): _read_tokens_and_cost(index, row) for row in rows}
        )

    def find_ids_alike(self, session_ids: Sequence[str], length: int) -> list[str]:
        """All session ids that share their first ``length`` bytes with one of these. Raises Unreadable."""
        return self.store_index.query(lambda index: find_sessions.find_ids_alike(index, session_ids, length))

    def open_listed(self, listed: ListedSession) -> TranscriptReader:
        """Open a session's transcript for reading. Raises OSError, NewerFormat."""
        return TranscriptReader(self.layout.transcript_path(listed.agent_folder, listed.name))

    @contextlib.contextmanager
    def open_child(self, listed: ListedSession, session_id: str) -> Iterator[TranscriptReader | None]:
        """Yields the transcript of a session that this one's agent began for its own work: nobody opened it; None if
        there is none. Raises OSError, NewerFormat."""
        opened = subagents.open_subagent(self.layout, self._iterate_folders(listed, session_id), session_id)
        if opened is None:
            yield None
            return
        with contextlib.closing(opened[1]) as reader:
            yield reader

    def _iterate_folders(self, listed: ListedSession, session_id: str) -> Iterator[str]:
        """The folders that may have the session of a subagent of this session, where it was not deleted."""
        if session_id not in self.read_deleted(listed.agent_folder):
            yield listed.agent_folder
        with contextlib.suppress(FileNotFoundError), contextlib.closing(self.open_listed(listed)) as reader:
            for folder in subagents.list_folders(listed.agent_folder, reader)[1:]:
                if session_id not in self.read_deleted(folder):
                    yield folder

    def is_open(self, listed: ListedSession) -> bool:
        """Whether a process has the session's transcript open to append."""
        return is_open(self.layout, listed)

    def find_path(self, listed: ListedSession) -> Path:
        """The file that holds a session's transcript now, plain or compressed."""
        path = self.layout.transcript_path(listed.agent_folder, listed.name)
        return path if os.path.lexists(path) or not os.path.lexists(compressed_path(path)) else compressed_path(path)

    def locate_file(self, path: str) -> tuple[str, str] | None:
        """The agent's folder and the transcript's name, if this is the path of a transcript of the store."""
        if (name := parse_transcript_name(os.path.basename(path))) is None:
            return None
        folder = Path(os.path.realpath(os.path.dirname(path)))
        return (folder.name, name) if folder.parent == Path(os.path.realpath(self.layout.transcripts)) else None

    def set_listed_title(self, listed: ListedSession, title: str | None) -> None:
        """Set the user's title, in running proxies too; None: remove it. Raises OSError (FileNotFoundError: the session
        was deleted)."""
        user_state.set_title(self.layout, listed.agent_folder, listed.session_id, listed.name, title)

    def set_listed_archived(self, listed: ListedSession, is_archived: bool) -> None:
        """Archive or unarchive a session, in running proxies too. Raises OSError (FileNotFoundError: the session was
        deleted)."""
        user_state.set_archived(self.layout, listed.agent_folder, listed.session_id, listed.name, is_archived)

    def set_listed_pinned(self, listed: ListedSession, is_pinned: bool) -> None:
        """Pin a session, so that it is never pruned, or unpin it. Raises OSError (FileNotFoundError: the session was
        deleted)."""
        user_state.set_pinned(self.layout, listed.agent_folder, listed.session_id, listed.name, is_pinned)

    def delete_listed(self, listed: ListedSession, *, soft: bool) -> None:
        """Delete this session, even if a newer one has its id now. ``soft``: it can be restored. Raises OSError;
        Unreadable if the session is deleted but the index learns of it only with the next list."""
        agent_folder, path = listed.agent_folder, self.layout.transcript_path(listed.agent_folder, listed.name)
        own_subagents = [] if soft else self._find_own_subagents(agent_folder, path)
        delete.delete_by_name(
            self.layout, agent_folder, listed.session_id, listed.name, soft=soft, only_on_this_machine=False
        )
        names = {agent_folder: [listed.name]}
        for folder, id in own_subagents:
            delete.delete_by_id(self.layout, folder, id, soft=False, only_on_this_machine=False)
            names.setdefault(folder, []).append(file_name(id))
        for folder, names_of_folder in names.items():
            self.layout.get_journal(folder).fsync()
            self.store_index.remove(folder, names_of_folder)

    def _find_own_subagents(self, agent_folder: str, path: Path) -> list[subagents.SessionKey]:
        """The sessions of a transcript's subagents to which no other transcript leads, such as a fork or a copy of it.
        Empty if the index cannot be read."""
        found = subagents.find_all_subagents(self.layout, agent_folder, [path])
        if not found:
            return []
        all_folders = self.layout.list_agents()
        try:
            named_ids = self.store_index.query(find_sessions.find_subagents, *all_folders)
        except Unreadable:
            return []
        own = {(agent_folder, path.stem), *((folder, file_name(id)) for folder, id in found)}
        kept_ids = {id for transcript, ids in named_ids.items() if transcript not in own for id in ids}
        for folder in all_folders:
            for name in self.layout.list_soft_deleted_names(folder):
                soft_deleted_path = self.layout.soft_deleted_path(folder, name)
                if soft_deleted_path != path:
                    kept_ids.update(id for _, id in subagents.list_subagents(self.layout, folder, soft_deleted_path))
        new_ids = kept_ids
        while new_ids:
            leading = [(folder, file_name(id)) for folder, id in found if id in new_ids]
            new_ids = {inner for transcript in leading for inner in named_ids.get(transcript, ())} - kept_ids
            kept_ids |= new_ids
        return [(folder, id) for folder, id in found if id not in kept_ids]

    def find_copies_of(self, listed: ListedSession, agent_folder: str) -> list[ListedSession]:
        """An agent's copies of another agent's session, newest first. Raises Unreadable."""
        rows = self.store_index.query(
            lambda index: find_sessions.find_copies_of(index, agent_folder, listed), agent_folder
        )
        return list(complete_rows(self.layout, rows))

    def copy_for_agent(self, listed: ListedSession, agent_folder: str, agent_info: Mapping[str, object]) -> str:
        """Copy a session for another agent to continue it. Returns the copy's id. Raises OSError."""
        from acp_proxy.sessions.copy_session import create_copy

        header = Header(listed.session_id, listed.cwd, PARTIAL, "", listed.directories)
        copy_id = create_copy(
            self.layout, (listed.agent_folder, listed.name), header, agent_folder, agent_info, journal.stamp_now()
        )
        with contextlib.suppress(Unreadable):  # then its mark stays
            self.index_transcript(agent_folder, file_name(copy_id), is_deferrable=True)
        return copy_id

    @contextlib.contextmanager
    def open_to_read(self, agent_folder: str, session_id: str) -> Iterator[TranscriptReader]:
        """Yields a session's transcript. Raises OSError, NewerFormat."""
        path = self.layout.transcript_path(agent_folder, file_name(session_id))
        with contextlib.closing(TranscriptReader(path)) as reader:
            yield reader

    # --- soft-deleted sessions

    @property
    def bin_days(self) -> int:
        """How many days what is soft-deleted now can be restored; 0: nothing can."""
        return self.layout.bin_days or 0

    def list_deleted(self) -> list[DeletedSession]:
        """The soft-deleted sessions, last deleted first. Raises OSError."""
        return soft_deleted.list_deleted(self.layout)

    def summarize_deleted(self, deleted: DeletedSession) -> ListedSession:
        """A soft-deleted session as a list would show it, even if it cannot be read. Raises OSError."""
        return soft_deleted.summarize_deleted(self.layout, deleted)

    def restore(self, deleted: DeletedSession) -> ListedSession:
        """Undo a soft delete. Raises OSError; Unreadable if the session is restored but the index learns
        of it only with the next list."""
        restored = soft_deleted.restore(self.layout, deleted)
        self.index_transcript(restored.agent_folder, restored.name)
        return restored

    def delete_soft_deleted(self, deleted: DeletedSession) -> None:
        """Delete a soft-deleted session permanently. Raises OSError."""
        path = self.layout.soft_deleted_path(deleted.agent_folder, deleted.name)
        own_subagents = self._find_own_subagents(deleted.agent_folder, path)
        delete.delete_by_name(
            self.layout, deleted.agent_folder, deleted.session_id, deleted.name, soft=False, only_on_this_machine=False
        )
        for folder, id in own_subagents:
            delete.delete_by_id(self.layout, folder, id, soft=False, only_on_this_machine=False)
        folders = {deleted.agent_folder, *(folder for folder, _ in own_subagents)}
        for folder in folders:
            self.layout.get_journal(folder).fsync()
        with contextlib.suppress(Unreadable):  # the mark stays, and the next query does it
            self.store_index.catch_up(*folders)

    # --- the whole store

    def check_writable(self) -> None:
        """Create the store if it is missing. Raises StoreRefused if it cannot be written."""
        store_root.prepare(self.root)

    def list_transcripts(self) -> list[tuple[str, str]]:
        """The agent and name of every transcript."""
        return self.layout.list_all_names()

    # --- secrets

    def find_redactable(
        self, chosen: list[ListedSession] | None, relatives: Iterable[tuple[str, str]] = ()
    ) -> list[Path]:
        """Every file with content of these sessions, or of all sessions if None; also journals and backups.

        Each path is that of the plain file, even where only its compressed form exists. ``relatives``: more
        transcripts, by agent and name, such as those from ``Relatives.find``.
        """
        layout = self.layout
        if chosen is None:
            folders = (layout.transcripts, layout.backups, layout.deleted)
            return sorted({path for folder in folders for path in _list_files(folder, "*")})
        names = _group_names(chosen, relatives)
        journals = (layout.transcript_path(agent_folder, JOURNAL) for agent_folder in names)
        paths = {path for path in journals if path.exists()}  # they hold titles
        for agent_folder, names_of_agent in names.items():
            for name in names_of_agent:
                paths.add(layout.transcript_path(agent_folder, name))
                paths.update(_list_files(layout.backups / agent_folder, f"{name}*"))
                soft_deleted_names = layout.list_soft_deleted_of(agent_folder, name)
                paths.update(
                    layout.soft_deleted_path(agent_folder, deleted_name) for deleted_name in soft_deleted_names
                )
        return sorted(paths)

    def reindex(self, chosen: list[ListedSession] | None, relatives: Iterable[tuple[str, str]] = ()) -> None:
        """Rebuild the index entries of these sessions, or of all sessions if None. ``relatives``: more transcripts, by
        agent and name. Raises OSError, Unreadable."""
        all_names = (
            {agent_folder: self.layout.list_names(agent_folder) for agent_folder in self.list_agents()}
            if chosen is None
            else {}
        )
        names = all_names if chosen is None else _group_names(chosen, relatives)
        for agent_folder, folder_names in names.items():
            self.store_index.reindex(agent_folder, folder_names)

    def find_unreadable(self) -> Iterator[tuple[Path, str, str]]:
        """The transcripts that cannot be opened, why, and what to do."""
        for agent_folder, name in self.list_transcripts():
            if explanation := self.explain_if_unreadable(agent_folder, name):
                yield explanation

    def explain_if_unreadable(self, agent_folder: str, name: str) -> tuple[Path, str, str] | None:
        """The file of a transcript that cannot be opened, why, and what to do; None if it can."""
        path = self.layout.transcript_path(agent_folder, name)
        try:
            TranscriptReader(path).close()
        except (OSError, NewerFormat) as problem:
            return explain_unreadable(path, problem)
        return None

    def list_unreadable(self, agent_words: str = "") -> list[str]:
        """A line of text for each transcript of these agents that a list or a search left out, since it could not be
        read."""
        agent_folders = self.list_agents(agent_words)
        return [
            format_unreadable(self.layout.transcript_path(agent_folder, name), problem)
            for (agent_folder, name), problem in self.layout.unreadable.items()
            if agent_folder in agent_folders
        ]

    def index_transcript(self, agent_folder: str, name: str, *, is_deferrable: bool = False) -> None:
        """Add a transcript to the index. ``is_deferrable``: its mark may stay instead. Raises Unreadable."""
        self.store_index.write(
            lambda index: self.store_index.bring_in(index, agent_folder, [name]), is_deferrable=is_deferrable
        )


def _read_tokens_and_cost(index: Index, row: ListedSession) -> TokensAndCost:
    query = "SELECT usage FROM transcripts WHERE agent = ? AND name = ?"
    total, is_per_turn = Usage(), False
    with check_values():
        for (text,) in index.select(query, (row.agent_folder, row.name)):
            usage = convert(parse_json(text), SessionUsage)
            is_per_turn = usage.is_per_turn
            for quarter in usage.quarters.values():
                total.add(quarter)
    tokens = total.turn_tokens if is_per_turn else total.session_tokens
    return TokensAndCost(tokens, {currency: round(amount, 6) for currency, amount in total.cost.items()})


def _group_names(chosen: list[ListedSession], relatives: Iterable[tuple[str, str]] = ()) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for agent_folder, name in [*((listed.agent_folder, listed.name) for listed in chosen), *relatives]:
        names.setdefault(agent_folder, []).append(name)
    return names


def _list_files(folder: Path, pattern: str) -> Iterator[Path]:
    for suffix in (SUFFIX, COMPRESSED_SUFFIX, FORKED_SUFFIX):
        for path in folder.rglob(pattern + suffix):
            yield path.with_name(path.name.removesuffix(suffix) + SUFFIX)
