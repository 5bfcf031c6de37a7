"""Checks everything in a store: what is wrong, where, and what fixes it. Changes nothing; ``repair_findings`` does.

Safe while proxies run: a line that one is writing is waited for, and an index that lacks an unfinished turn is not
damaged. Nor is what the next list or search makes anew: the whole store may have been copied, or a file added. Memory
is bounded by the longest line and by the names in one directory.
"""

import os
import sqlite3
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from acp_proxy.errors import DISK_FULL, FREE_SPACE, NewerFormat, errno_name
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.sessions.raw_lines import wait_for_last_line
from acp_proxy.sessions.unreadable import explain_unreadable
from acp_proxy.store.databases import check_database, is_emptied
from acp_proxy.store.folder_changes import find_changes
from acp_proxy.store.index_database import Index, ReadPart, check_values, encode_row, parse_json
from acp_proxy.store.layout import JOURNAL, Layout
from acp_proxy.store.store_index import is_temporary
from acp_proxy.tools.maintenance import damage
from acp_proxy.tools.maintenance.damage import DamagedStretch
from acp_proxy.tools.maintenance.repair import fit_header, rebuild_header
from acp_proxy.tools.search.table_files import list_search_tables
from acp_proxy.transcript import file_access, file_names
from acp_proxy.transcript.reader import TranscriptReader, split_file
from acp_proxy.transcript.summary import Summary


def is_sound(index: Index) -> bool:
    """Whether SQLite finds no damage, neither in the rows nor in what orders them, from which lists are read."""
    return index.select("PRAGMA integrity_check(1)", ()) == [("ok",)]


# --- Compares the index with a transcript. Raises OSError, ``sqlite3.Error``.


def matches_index(index: Index, agent_folder: str, name: str, reader: TranscriptReader) -> bool:
    """Whether a transcript's row is correct and lacks no turn.

    The inode only says from where on to read the next time: a copy of the whole store has others.
    """
    columns = "session, listed, updated, info, open, created, size, lines, state, usage"
    query = f"SELECT {columns} FROM transcripts WHERE agent = ? AND name = ?"
    stored_row = next(iter(index.select(query, (agent_folder, name))), None)
    header = reader.header or reader.rebuild_header()
    if header is None or stored_row is None:
        return header is None and stored_row is None
    with check_values():
        size = parse_json(stored_row[3])["size"]
    summary, line_count, read_size = Summary.begin(header), 0, stored_row[6]

    def matches(end_summary: Summary) -> bool:
        row = encode_row(name, header, ReadPart(read_size, line_count, summary), end_summary, size)
        return tuple(row[key] for key in columns.split(", ")) == tuple(stored_row)

    first_unread, end_summary, is_equal, lacks_turn = 0, summary, False, False
    for line in reader.read_lines():
        if line.end <= read_size:
            line_count = line.number + 1
            if line.entry is not None:
                summary.add(line.entry)
            continue
        if end_summary is summary:
            first_unread, end_summary, is_equal = line.number, deepcopy(summary), matches(summary)
        if line.entry is None:
            continue
        lacks_turn |= line.is_whole and line.entry.is_prompt
        if line.number == first_unread:  # the row may include it from before its newline was written
            end_summary.add(line.entry)
            if matches(end_summary):
                is_equal, lacks_turn = True, False
    return not lacks_turn and (is_equal or (end_summary is summary and matches(summary)))


T = TypeVar("T")

REPAIR, BY_HAND, NOTHING = "repair", "by hand", "nothing"
"""What to do about a finding: run ``acp-proxy repair``, act by hand, or nothing."""

MODE, FOREIGN, UNREADABLE, NEWER, LEFTOVER = "mode", "foreign file", "cannot be read", "newer format", "leftover"
NO_HEADER, EMPTY, JOURNAL_DAMAGE = "missing header", "empty", "damaged journal"
COMPRESSED_DAMAGE, UNFINISHED_FORK = "damaged compression", "unfinished fork"
INDEX_MISSING, INDEX_BROKEN, INDEX_BEHIND = "missing index", "broken index", "index behind"
WORDS_BROKEN, WORDS_BEHIND = "broken search table", "search table behind"
NOT_EXAMINED = "not looked at"

_MODE_OF_OTHERS = 0o077
_STORE_FILES = frozenset(
    {"transcripts", "unindexed", "backups", "deleted", "format", "compressed", "index.sqlite3", "search", "sync"}
)
_SIDE_FILES = frozenset({"index.sqlite3-wal", "index.sqlite3-shm"})


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be.

    ``kind``: one of the kinds above, or a stretch's. ``text``: what that means, for the user. ``remedy``: what to do.
    ``name``: of the transcript, if it is about one. ``stretch``: the damaged bytes.
    """

    path: Path
    kind: str
    text: str
    remedy: str = REPAIR
    agent_folder: str = ""
    name: str = ""
    stretch: DamagedStretch | None = None

    @property
    def is_damage(self) -> bool:
        """Whether something has to be done about it."""
        return self.remedy != NOTHING


class WrapItems(Protocol):
    """A function that passes items on one by one, and may report progress. ``title``: a label."""

    def __call__(self, items: Sequence[T], title: str, /) -> Iterable[T]: ...


def iterate_silently(items: Sequence[T], title: str) -> Iterable[T]:
    """A ``WrapItems`` that reports nothing."""
    return items


def verify_store(
    store: CommandStore, *transcripts: tuple[str, str], wrap_items: WrapItems | None = None
) -> Iterator[Finding]:
    """Problems in these transcripts (agent, name), or in the whole store if none are given. Changes nothing.

    ``wrap_items`` wraps the items to report progress. Raises OSError.
    """
    inspection = Inspection(store.layout, wrap_items or iterate_silently)
    return inspection.inspect_some(transcripts) if transcripts else inspection.inspect_all()


class Inspection:
    """Checks one store."""

    def __init__(self, layout: Layout, wrap_items: WrapItems = iterate_silently) -> None:
        self._layout = layout
        self._wrap_items = wrap_items

    def inspect_all(self) -> Iterator[Finding]:
        """Findings in the whole store. Raises OSError if the store's own directories cannot be read."""
        if not self._layout.exists:
            return
        yield from self._inspect_root()
        for agent_folder in self._layout.list_agents():
            folder = self._layout.transcripts / agent_folder
            yield from _check_mode(folder)
            for path in self._wrap_items(sorted(folder.iterdir()), "Reading transcripts"):
                yield from self._inspect_file(agent_folder, path)
            yield from self._inspect_marks(agent_folder)
            yield from self._inspect_soft_deleted(agent_folder)
        if not self._layout.can_use_sqlite:
            yield from self._report_not_examined()
            return
        yield from self._inspect_index(self._layout.list_all_names())
        yield from self._inspect_search()

    def _inspect_other_table(self, path: Path, removed_transcripts: set[tuple[str, str]]) -> Iterator[Finding]:
        """Check a table of tool calls or of parts of turns. ``removed_transcripts``: gets those that were removed since
        the last search."""
        from acp_proxy.tools.search.call_table import CallTable
        from acp_proxy.tools.search.fts_table import PartTable

        try:
            with closing(CallTable(path) if CallTable.KIND in path.name else PartTable(path)) as table:
                table.check()
                removed_transcripts.update(
                    (agent_folder, name)
                    for agent_folder, name, *_ in table.list_extents()
                    if not self._layout.has_transcript(agent_folder, name)
                )
        except FileNotFoundError:
            return  # removed in the meantime
        except (sqlite3.DatabaseError, OSError) as problem:
            advice = f"delete it: {_REBUILT_BY_SEARCH}"
            yield self._report_database(path, problem, WORDS_BROKEN, advice, _REBUILT_BY_SEARCH)

    def inspect_some(self, transcripts: Sequence[tuple[str, str]]) -> Iterator[Finding]:
        """Findings in these transcripts, and in the index and search tables about them."""
        for agent_folder, name in self._wrap_items(transcripts, "Reading transcripts"):
            path = self._layout.transcript_path(agent_folder, name)
            yield from self._inspect_file(
                agent_folder, path if os.path.lexists(path) else file_names.compressed_path(path)
            )
        if not self._layout.can_use_sqlite:
            yield from self._report_not_examined()
            return
        yield from self._inspect_index(transcripts)
        for digit in sorted({file_names.find_table_digit(name) for _, name in transcripts}):
            for path in list_search_tables(self._layout, digit):
                yield from self._inspect_search_table(path, frozenset(transcripts), set())

    # --- directories

    def _inspect_root(self) -> Iterator[Finding]:
        yield from _check_mode(self._layout.root)
        for path in sorted(self._layout.root.iterdir()):
            if path.name in _STORE_FILES or (path.name in _SIDE_FILES and self._layout.index_path.exists()):
                if path != self._layout.index_path or path.is_file():
                    yield from _check_mode(path)
            elif path.name in _SIDE_FILES:
                yield Finding(path, LEFTOVER, "belongs to an index that does not exist; SQLite removes it", NOTHING)
            else:
                yield _describe_foreign(path)
        for path in sorted(self._layout.transcripts.iterdir()):
            if not path.is_dir():
                yield _describe_foreign(path)

    def _inspect_marks(self, agent_folder: str) -> Iterator[Finding]:
        folder = self._layout.unindexed / agent_folder
        if folder.exists() and not folder.is_dir():
            yield Finding(folder, FOREIGN, "is where a directory must be. Move it away", BY_HAND, agent_folder)
        try:
            gone = {
                file_names.file_name(session_id) for session_id in self._layout.get_journal(agent_folder).read_deleted()
            }
        except OSError:
            gone = set()
        for name in self._layout.list_marked(agent_folder):  # a deleted session's mark waits for the index to forget it
            if name not in gone and not self._layout.has_transcript(agent_folder, name):
                yield Finding(folder / name, LEFTOVER, "marks a transcript that does not exist", NOTHING, agent_folder)

    def _inspect_soft_deleted(self, agent_folder: str) -> Iterator[Finding]:
        """Checks soft-deleted transcripts, which may be restored."""
        folder = self._layout.deleted / agent_folder
        if folder.is_dir():
            yield from _check_mode(folder)
            for path in sorted(folder.iterdir()):
                yield from self._inspect_file(agent_folder, path)

    # --- files

    def _inspect_file(self, agent_folder: str, path: Path) -> Iterator[Finding]:
        name = file_names.parse_transcript_name(path.name)
        if name is None and path.name != JOURNAL + file_names.SUFFIX:
            yield _describe_unfinished(agent_folder, path)
            return
        is_compressed = name is not None and path.name.endswith(file_names.COMPRESSED_SUFFIX)
        if is_compressed and os.path.lexists(path.with_suffix("")):
            yield Finding(path, LEFTOVER, _LEFT_BY_CRASH, NOTHING, agent_folder)
            return
        try:
            if not stat.S_ISREG(os.lstat(path).st_mode):
                yield Finding(
                    path, FOREIGN, "is where a file must be, but is not one. Move it away", BY_HAND, agent_folder
                )
                return
            yield from _check_mode(path)
            yield from (
                self._inspect_transcript(agent_folder, name, path)
                if name is not None
                else self._inspect_journal(agent_folder, path)
            )
        except FileNotFoundError:
            return  # deleted in the meantime
        except NewerFormat as problem:
            yield Finding(path, NEWER, str(problem), BY_HAND, agent_folder, name or path.stem)
        except OSError as problem:
            text = ". ".join(explain_unreadable(path, problem)[1:])
            yield Finding(path, UNREADABLE, text, BY_HAND, agent_folder, name or path.stem)

    def _inspect_transcript(self, agent_folder: str, name: str, path: Path) -> Iterator[Finding]:
        reader = TranscriptReader(find_plain_path(path))
        try:
            wait_for_last_line(reader)
            header = rebuild_header(reader) if reader.header is None else None
            is_known = reader.header is not None or header is not None
            has_begun = False
            if reader.size == 0 and reader.compressed is None:
                yield Finding(path, EMPTY, "nothing was ever written to it", NOTHING, agent_folder, name)
                return
            for stretch in damage.find_in_transcript(reader):
                has_begun = has_begun or stretch.begins
                text, todo = _MEANING_BY_KIND.get(stretch.kinds[0], "cannot be read, and is left out"), REPAIR
                if not is_known:
                    text, todo = "the file does not contain its session's id. Delete the file, or keep it", BY_HAND
                elif stretch.begins and header is not None and not fit_header(header, stretch):
                    text, todo = _PARTIAL, NOTHING
                elif stretch.begins:
                    text = _PARTIAL
                yield Finding(path, stretch.kinds[0], text, todo, agent_folder, name, stretch)
            if reader.header is None and not has_begun and reader.size:
                todo = NOTHING if is_known else BY_HAND
                yield Finding(
                    path,
                    NO_HEADER,
                    _PARTIAL if is_known else "it does not contain its session's id",
                    todo,
                    agent_folder,
                    name,
                )
            if reader.compressed is not None and reader.compressed.is_damaged:
                yield Finding(
                    path, COMPRESSED_DAMAGE, _UNREADABLE_REST, REPAIR if is_known else BY_HAND, agent_folder, name
                )
        finally:
            reader.close()

    def _inspect_journal(self, agent_folder: str, path: Path) -> Iterator[Finding]:
        fd = file_access.open_private(path, os.O_RDONLY)
        try:
            for stretch in damage.find_in_journal(
                split_file(partial(file_access.read_at, fd), 0, os.fstat(fd).st_size)
            ):
                text = "a delete, or the end of one, may be forgotten"
                yield Finding(path, JOURNAL_DAMAGE, text, REPAIR, agent_folder, "", stretch)
        finally:
            file_access.close(fd)

    def _report_not_examined(self) -> Iterator[Finding]:
        """Reports what cannot be checked: SQLite needs to lock files, and to write, at least side files."""
        for path in (self._layout.index_path, self._layout.search):
            if os.path.lexists(path):
                yield Finding(path, NOT_EXAMINED, _UNUSED, NOTHING)

    # --- the index

    def _inspect_index(self, transcripts: Sequence[tuple[str, str]]) -> Iterator[Finding]:
        """Checks the index. It may lack marked transcripts."""
        path = self._layout.index_path
        try:
            if not os.path.lexists(path):
                if not all(self._layout.is_marked(agent_folder, name) for agent_folder, name in transcripts):
                    yield Finding(path, INDEX_MISSING, "the next list makes it from the transcripts", NOTHING)
                return
            check_database(path)
            index = Index(path)
            try:
                if not is_sound(index):
                    yield Finding(path, INDEX_BROKEN, "is rebuilt from the transcripts")
                    return
                outdated_transcripts = (
                    self._list_outdated(index, {agent_folder for agent_folder, _ in transcripts})
                    if not index.is_new
                    else None
                )
                stale_count = 0
                for agent_folder, name in self._wrap_items(transcripts, "Comparing the list"):
                    if self._matches_index(index, agent_folder, name) or self._matches_index(index, agent_folder, name):
                        continue
                    if outdated_transcripts is None or (agent_folder, name) in outdated_transcripts:
                        stale_count += 1
                        continue
                    text = "the list differs from the transcript"
                    yield Finding(path, INDEX_BEHIND, text, REPAIR, agent_folder, name)
                if stale_count:
                    text = f"{_count_transcripts(stale_count)} changed since the last list; the next one reads that"
                    yield Finding(path, INDEX_BEHIND, text, NOTHING)
            finally:
                index.close()
        except (sqlite3.DatabaseError, OSError) as problem:
            rebuilt = "it is rebuilt from the transcripts"
            yield self._report_database(path, problem, INDEX_BROKEN, f"move it away: {rebuilt}", rebuilt)

    def _list_outdated(self, index: Index, agents: Iterable[str]) -> set[tuple[str, str]]:
        """The transcripts that the next list reads, even without a mark."""
        return {
            (agent_folder, name)
            for agent_folder in agents
            for name in find_changes(self._layout, index, agent_folder).added
        }

    def _matches_index(self, index: Index, agent_folder: str, name: str) -> bool:
        try:
            reader = TranscriptReader(self._layout.transcript_path(agent_folder, name))
        except (OSError, NewerFormat):
            return True  # checking the file reports this
        try:
            return matches_index(index, agent_folder, name, reader) or self._layout.is_marked(agent_folder, name)
        except OSError:
            return True
        finally:
            reader.close()

    # --- full text

    def _inspect_search(self) -> Iterator[Finding]:
        try:
            files = sorted(self._layout.search.iterdir())
        except FileNotFoundError:  # nobody has searched yet
            return
        except NotADirectoryError:
            yield Finding(self._layout.search, FOREIGN, "is where a directory must be. Move it away", BY_HAND)
            return
        tables = {path for digit in "0123456789abcdef" for path in list_search_tables(self._layout, digit)}
        other_tables = {
            path
            for digit in "0123456789abcdef"
            for kind in (".calls", ".parts")
            for path in list_search_tables(self._layout, digit, kind)
        }
        removed_transcripts = set[tuple[str, str]]()
        for path in files:
            if path in tables | other_tables and is_emptied(path):
                continue  # the next search removes it
            if path in tables:
                yield from _check_mode(path)
                yield from self._inspect_search_table(path, None, removed_transcripts)
            elif path in other_tables:
                yield from _check_mode(path)
                yield from self._inspect_other_table(path, removed_transcripts)
            elif path.with_name(path.name.removesuffix("-wal").removesuffix("-shm")) in tables | other_tables:
                yield from _check_mode(path)
            else:
                yield _describe_foreign(path)
        if removed_transcripts:
            count = _count_transcripts(len(removed_transcripts))
            text = f"{count} removed since the last search; the next one rebuilds its tables"
            yield Finding(self._layout.search, WORDS_BEHIND, text, NOTHING)

    def _inspect_search_table(
        self, path: Path, chosen: frozenset[tuple[str, str]] | None, removed_transcripts: set[tuple[str, str]]
    ) -> Iterator[Finding]:
        """Check a search table, for the chosen transcripts or for all in it. ``removed_transcripts``: gets those that
        were removed since the last search."""
        from acp_proxy.tools.search.fts_table import SearchTable, matches_transcript

        try:
            table = SearchTable(path)
            try:
                table.check()
                for agent_folder, name, *_ in list(table.list_extents()):
                    is_chosen = chosen is None or (agent_folder, name) in chosen
                    if not is_chosen or matches_transcript(
                        table, (agent_folder, name), self._layout.transcript_path(agent_folder, name)
                    ):
                        continue
                    if self._layout.has_transcript(agent_folder, name):
                        yield Finding(path, WORDS_BEHIND, _OTHER_WORDS, REPAIR, agent_folder, name)
                    else:
                        removed_transcripts.add((agent_folder, name))
            finally:
                table.close()
        except FileNotFoundError:
            return  # removed in the meantime
        except (sqlite3.DatabaseError, OSError) as problem:
            advice = f"delete it: {_REBUILT_BY_SEARCH}"
            yield self._report_database(path, problem, WORDS_BROKEN, advice, _REBUILT_BY_SEARCH)

    def _report_database(
        self,
        path: Path,
        problem: sqlite3.DatabaseError | OSError,
        kind_if_broken: str,
        advice: str,
        remedy_text: str,
    ) -> Finding:
        """A finding about a database that cannot be used now, or is broken: then ``kind_if_broken`` is its kind."""
        name = errno_name(problem)
        text = name if isinstance(problem, OSError) else str(problem)
        text = text.partition(" with text ")[0]  # what follows quotes the user's words
        if name in DISK_FULL:
            return Finding(path, UNREADABLE, f"{name}. {FREE_SPACE}", BY_HAND)
        if isinstance(problem, PermissionError):
            command = file_access.format_unlock(self._layout.root, os.lstat(path))
            return Finding(path, UNREADABLE, f"{text}. Run: {command}", BY_HAND)
        if isinstance(problem, OSError):
            return Finding(path, FOREIGN, f"{text}: {advice}", BY_HAND)
        if is_temporary(problem):
            return Finding(path, UNREADABLE, f"{text}. If this persists, {advice}", BY_HAND)
        return Finding(path, kind_if_broken, f"{text}: {remedy_text}")


_MEANING_BY_KIND = {
    damage.TORN_END: "the last line was not completely written, and is left out",
    damage.TORN: "was not completely written, and is left out",
    damage.SECOND_HEADER: "has no content of its own, and is left out",
}
_UNREADABLE_REST = "what comes after the damage cannot be read. If nothing can be read, delete the file, or keep it"
_REBUILT_BY_SEARCH = "the next search rebuilds it"
_OTHER_WORDS = f"its text differs from the transcript's; {_REBUILT_BY_SEARCH}"
_UNUSED = "is not used while the store cannot be written, or its file system has no locks"
_LEFT_BY_CRASH = "a crash left it; the next acp-proxy compress removes it"
_FORK_UNFINISHED = "its past is being copied, or a crash interrupted that; listing or opening the session completes it"
_PARTIAL = "the session is read without it, as an incomplete one"


def _count_transcripts(count: int) -> str:
    return "1 transcript was" if count == 1 else f"{count} transcripts were"


def _describe_unfinished(agent_folder: str, path: Path) -> Finding:
    """A finding about a file that is not a transcript, but may become one or a form of one."""
    if file_names.parse_transcript_name(path.name.removesuffix(file_names.UNFINISHED)) is not None:
        return Finding(path, LEFTOVER, _LEFT_BY_CRASH, NOTHING, agent_folder)
    if path.name.endswith(file_names.FORKED_SUFFIX) and file_names.has_generated_form(
        path.name.removesuffix(file_names.FORKED_SUFFIX)
    ):
        return Finding(path, UNFINISHED_FORK, _FORK_UNFINISHED, NOTHING, agent_folder)
    return _describe_foreign(path)


def _describe_foreign(path: Path) -> Finding:
    return Finding(path, FOREIGN, "does not belong to acp-proxy, and is left alone", NOTHING)


def _check_mode(path: Path) -> Iterator[Finding]:
    mode = os.lstat(path).st_mode
    if sys.platform != "win32" and mode & _MODE_OF_OTHERS and not stat.S_ISLNK(mode):
        yield Finding(path, MODE, f"others may use it ({stat.S_IMODE(mode):04o})")


def find_plain_path(path: Path) -> Path:
    """The path of a transcript's plain (uncompressed) file."""
    name = path.name.removesuffix(file_names.COMPRESSED_SUFFIX).removesuffix(file_names.SUFFIX)
    return path.with_name(name + file_names.SUFFIX)
