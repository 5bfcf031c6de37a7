"""The paths of everything in a store's directory, and the operations that follow from them: list, mark, remove.

Agents and sessions are given by their file names here, never by id. Contents of transcripts are not read. The agents'
journals are here too (``get_journal``), since a removal takes titles from them and from their backups
(``erase_titles``).
"""

import errno
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from acp_proxy.errors import NewerFormat, StoreRefused
from acp_proxy.store import store_root
from acp_proxy.store.databases import empty_database, remove_database
from acp_proxy.store.journal import Journal
from acp_proxy.transcript import file_access, file_names
from acp_proxy.transcript.file_names import (
    ASIDE,
    COMPRESSED_SUFFIX,
    SUFFIX,
    compressed_path,
    fork_path,
    unfinished_path,
)

FORMAT = 1
JOURNAL_FILE = "state.jsonl"
"""An agent's journal, in the agent's folder; on Windows, it carries the folder's lock too."""
JOURNAL = JOURNAL_FILE.removesuffix(SUFFIX)
_NEW_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_REMOVAL_SEPARATOR = "."
"""Follows the transcript's name in a mark that is being removed; a random suffix follows."""
_NOT_UTF8 = re.compile("[\ud800-\udfff]")
"""What bytes that are not UTF-8 become in names."""
SEARCH_TABLE = re.compile(r"[0-9a-f]-[0-9a-f]{16}(\.calls|\.parts)?\.sqlite3")
"""A search table, or with the group one of tool calls. Versions that do not know the latter remove it like the former:
all that begins with a transcript's digit."""


class Layout:
    """The directory of one store."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.transcripts = root / "transcripts"
        self.unindexed = root / "unindexed"
        self.backups = root / "backups"
        self.deleted = root / "deleted"
        self.search = root / "search"
        self.index_path = root / "index.sqlite3"
        self.waiting_turns = root / "sync" / "turns"
        self.format = root / "format"
        self.compressed = root / "compressed"
        self.is_read_only = False
        """Whether nothing can be written: the index and search tables are then built in memory."""
        self.bin_days: int | None = None
        """The option ``bin-days``: how long transcripts that are soft-deleted from now on can be restored; None: until
        somebody removes them."""
        self.unreadable: dict[tuple[str, str], OSError | NewerFormat] = {}
        """The transcripts, by agent and name, that this process wanted to read for the index or a search but could not,
        and why."""
        self._journals: dict[str, Journal] = {}

    @property
    def exists(self) -> bool:
        """Whether a store exists here; True if that cannot be determined: the first use then raises the problem."""
        try:
            return bool({self.format.name, self.transcripts.name} & set(os.listdir(self.root)))
        except FileNotFoundError:
            return self.root.is_symlink()  # to a disk that is not mounted now
        except OSError:
            return True

    @property
    def can_use_sqlite(self) -> bool:
        """Whether SQLite can use files here: not in a read-only store, and not on a file system without locks, where it
        would wait for many seconds each time."""
        return not self.is_read_only and file_access.has_record_locks(self.format)

    def prepare(self) -> None:
        """Create what is missing, unless the store is read-only, and check the whole directory. Raises StoreRefused for
        a newer format, a link, or a directory that others can write to."""
        try:
            file_access.check_inside(self.root)
            if not self.is_read_only:
                self._make_missing()
            self._check_directories()
            self._check_format()
        except FileExistsError as problem:
            raise StoreRefused(file_access.explain_no_directory(problem.filename)) from problem
        except OSError as problem:
            path, reason = problem.filename or self.root, problem.strerror or type(problem).__name__
            advice = "Fix that"
            if isinstance(problem, PermissionError):
                advice = "Check its permissions and those of the directories above it"
            text = f"{path} cannot be used: {reason}. {advice}, or choose another place with --store."
            raise StoreRefused(text, is_temporary=file_access.is_temporary(problem)) from problem

    def _make_missing(self) -> None:
        for directory in (self.transcripts, self.unindexed):
            file_access.make_inner_directory(directory)
        with (
            suppress(FileExistsError),
            os.fdopen(file_access.open_private(self.format, _NEW_FILE_FLAGS), "w") as file,
        ):
            file.write(f"{FORMAT}\n")

    def _check_directories(self) -> None:
        for directory in (self.transcripts, self.unindexed, self.deleted):
            if directory.is_dir():
                file_access.check_inside(directory)
        for agent_folder in self.list_agents():
            file_access.check_link(self.transcript_path(agent_folder, JOURNAL))

    def make_folder(self, folder: Path) -> None:
        """Create an agent's folder, and the store itself if it was removed. Raises OSError, also if something else is
        in its place."""
        try:
            store_root.prepare(self.root)
            for directory in (folder.parent, folder):
                file_access.make_inner_directory(directory)
        except StoreRefused as problem:
            raise PermissionError(errno.EPERM, str(problem), str(folder)) from problem

    def _check_format(self) -> None:
        try:
            text = self.format.read_text(encoding="utf-8", errors="replace").strip()
        except FileNotFoundError:
            return
        if text.isascii() and text.isdigit() and (len(text) > 9 or int(text) > FORMAT):
            raise StoreRefused(f"{self.root} was made by a newer acp-proxy. Upgrade acp-proxy.")

    def list_agents(self) -> list[str]:
        """The folders of all agents, sorted. Raises OSError. One whose name is not UTF-8 is none of ours, and no row of
        the index can have it."""
        try:
            return sorted(
                path.name for path in self.transcripts.iterdir() if path.is_dir() and not _NOT_UTF8.search(path.name)
            )
        except FileNotFoundError:  # the store was removed
            return []

    def has_agent(self, agent_folder: str) -> bool:
        """Whether an agent has a folder. Raises OSError: a wrong answer would divide the agent's sessions."""
        try:
            return stat.S_ISDIR(os.stat(self.transcripts / agent_folder).st_mode)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return False

    def list_names(self, agent_folder: str) -> list[str]:
        """The names of an agent's transcripts, including those set aside. Other files are left out."""
        return _list_names(self.transcripts / agent_folder)

    def list_all_names(self) -> list[tuple[str, str]]:
        """The agent and name of every transcript."""
        return [(agent_folder, name) for agent_folder in self.list_agents() for name in self.list_names(agent_folder)]

    def stat_transcripts(self, agent_folder: str) -> dict[str, os.stat_result | None]:
        """An agent's transcripts by name, each with the stat of its plain file; None where it is only compressed."""
        forms: dict[str, os.stat_result | None] = {}
        with suppress(FileNotFoundError, PermissionError), os.scandir(self.transcripts / agent_folder) as entries:
            for file in entries:
                if (name := file_names.parse_transcript_name(file.name)) is None:
                    continue
                if file.name.endswith(COMPRESSED_SUFFIX):
                    forms.setdefault(name, None)
                    continue
                with suppress(FileNotFoundError):  # deleted in the meantime
                    forms[name] = file.stat(follow_symlinks=False)
        return forms

    def transcript_path(self, agent_folder: str, name: str) -> Path:
        """The path of a transcript's plain file."""
        return self.transcripts / agent_folder / (name + SUFFIX)

    def soft_deleted_path(self, agent_folder: str, name: str) -> Path:
        """The path of a soft-deleted transcript."""
        return self.deleted / agent_folder / (name + SUFFIX)

    def waiting_turns_path(self, agent_folder: str, name: str) -> Path:
        """Where turns of another machine wait until nobody has this transcript open."""
        return self.waiting_turns / agent_folder / name

    def path_by_name(self, agent_folder: str, name: str) -> Path:
        """The path of a transcript's plain file, soft-deleted or not."""
        return (
            self.soft_deleted_path(agent_folder, name)
            if file_names.is_soft_deleted_name(name)
            else self.transcript_path(agent_folder, name)
        )

    def list_soft_deleted_names(self, agent_folder: str) -> list[str]:
        """The names of an agent's soft-deleted transcripts."""
        return _list_names(self.deleted / agent_folder)

    def list_soft_deleted_of(self, agent_folder: str, name: str) -> list[str]:
        """The soft-deleted transcripts that had this name: several, if the session was begun anew after a delete."""
        return [
            deleted_name
            for deleted_name in self.list_soft_deleted_names(agent_folder)
            if file_names.name_before_delete(deleted_name) == name
        ]

    def are_soft_deleted(self, agent_folder: str, names: Iterable[str]) -> bool:
        """Whether each of these transcripts is soft-deleted. ``names``: those of before the delete, or of after it."""
        soft_deleted = set(self.list_soft_deleted_names(agent_folder))
        return soft_deleted.union(map(file_names.name_before_delete, soft_deleted)).issuperset(names)

    def get_journal(self, agent_folder: str) -> Journal:
        """An agent's journal, the same object each time."""
        journal = self._journals.get(agent_folder)  # each turn asks, and a path takes long to make
        return journal or self._journals.setdefault(agent_folder, Journal(self.transcript_path(agent_folder, JOURNAL)))

    def mark(self, agent_folder: str, name: str) -> str:
        """Mark a transcript as one that the index has not read to its end, with an empty file, which survives this
        process. Returns its path. Raises OSError."""
        # Ten times as fast as joining Paths, and each turn does it.
        path = os.path.join(self.unindexed, agent_folder, name)
        if os.path.lexists(path):  # a process that removes it from here on looks at the transcript after that
            return path
        try:
            file_access.touch(path)
        except FileNotFoundError:
            file_access.make_directory(self.unindexed / agent_folder)
            file_access.touch(path)
        return path

    def list_marked(self, agent_folder: str) -> list[str]:
        """The names of an agent's marked transcripts, the last marked first; also those whose mark is being removed."""
        marks = sorted(self._list_mark_files(agent_folder), key=_modified_at, reverse=True)
        return list(dict.fromkeys(mark.name.partition(_REMOVAL_SEPARATOR)[0] for mark in marks))

    def is_marked(self, agent_folder: str, name: str) -> bool:
        """Whether a transcript is marked, and the mark is not being removed."""
        return (self.unindexed / agent_folder / name).exists()

    def unmark(self, agent_folder: str, name: str, is_needed: Callable[[], bool]) -> None:
        """Remove a mark, then call ``is_needed`` and set the mark again if it returns True. Raises OSError.

        A process that marks the transcript in the meantime creates a new mark, which stays. If this is interrupted, a
        mark remains.
        """
        mark = self.unindexed / agent_folder / name
        removed_mark = mark.with_name(f"{name}{_REMOVAL_SEPARATOR}{os.urandom(8).hex()}")
        with suppress(FileNotFoundError):
            mark.rename(removed_mark)
        if is_needed():
            self.mark(agent_folder, name)
        removed_mark.unlink(missing_ok=True)

    def restore_marks(self, agent_folder: str) -> None:
        """Put back the marks of an agent whose removal was interrupted. Raises OSError. One that is still under way is
        undone too, which only costs another look at that transcript."""
        for mark in self._list_mark_files(agent_folder):
            name, separator, _ = mark.name.partition(_REMOVAL_SEPARATOR)
            if separator:
                with suppress(FileNotFoundError):
                    mark.replace(mark.with_name(name))

    def _list_mark_files(self, agent_folder: str) -> list[Path]:
        folder = self.unindexed / agent_folder
        if not folder.is_dir():
            return []
        with os.scandir(folder) as entries:
            marks = [Path(mark.path) for mark in entries if mark.is_file(follow_symlinks=False)]
        return [mark for mark in marks if file_names.has_generated_form(mark.name.partition(_REMOVAL_SEPARATOR)[0])]

    def has_transcript(self, agent_folder: str, name: str) -> bool:
        """Whether a file with this transcript's name exists in any form."""
        path = self.transcript_path(agent_folder, name)
        # Its own name twice: a fork may get it between the checks.
        return any(map(os.path.lexists, (path, compressed_path(path), fork_path(path), path)))

    def has_removed_transcript(self, agent_folder: str, name: str) -> bool:
        """Whether a crash has kept the removal of this transcript from its end, under another name (Windows)."""
        if sys.platform == "win32":
            path = self.transcript_path(agent_folder, name)
            return any(os.path.lexists(_removed_path(form)) for form in (path, compressed_path(path)))
        return False

    def list_same_id(self, path: Path) -> Iterator[Path]:
        """A transcript's path, then the paths of those with the same id that were set aside. This order misses no file,
        because files are only ever renamed in this direction."""
        yield path
        try:
            file_names_there = os.listdir(path.parent)
        except FileNotFoundError:
            return
        names_aside = {
            file.partition(".")[0] for file in file_names_there if file.startswith(f"{path.stem}{file_names.ASIDE}")
        }
        yield from (path.with_stem(name) for name in sorted(names_aside))

    def backup_path(self, agent_folder: str, name: str, stamp: str) -> Path:
        """Where a file is copied to before it is repaired. ``stamp``: the time of the repair."""
        return (
            self.backups
            / agent_folder
            / f"{name}.{''.join(character for character in stamp if character.isalnum())}{SUFFIX}"
        )

    def list_journal_backups(self, agent_folder: str) -> list[Path]:
        """The copies of an agent's journal made by repairs."""
        return sorted((self.backups / agent_folder).glob(f"{JOURNAL}.*"))

    def erase_titles(self, agent_folder: str, *names: str) -> None:
        """Overwrite these transcripts' titles in an agent's journal, and remove its backups. Call it only while holding
        the journal. Raises OSError."""
        journal = self.get_journal(agent_folder)
        if journal.read_state().with_title_lines.isdisjoint(names):
            return
        journal.erase_titles(names)
        for copy in self.list_journal_backups(agent_folder):
            copy.unlink(missing_ok=True)

    def list_backed_up(self, agent_folder: str) -> set[str]:
        """The names of an agent's transcripts that have backups, which may be of the journal too. Raises OSError."""
        with suppress(FileNotFoundError):
            return {file.partition(".")[0] for file in os.listdir(self.backups / agent_folder)}
        return set()

    def move_backups(self, agent_folder: str, old_name: str, new_name: str) -> None:
        """Rename a transcript's backups to follow the transcript's new name. Raises OSError."""
        for path in list((self.backups / agent_folder).glob(f"{old_name}.*")):
            path.replace(path.with_name(new_name + path.name.removeprefix(old_name)))

    def remove_transcript(self, agent_folder: str, name: str) -> None:
        """Remove a transcript, its backups, and what was soft-deleted under its name. Raises OSError.

        The transcript goes after its other files: if this is interrupted, it shows that there is more to remove. The
        search tables go last, since a search would add the words of a file that exists. One that cannot be removed now
        is removed by ``StoreIndex.remove``, which does this again before it removes the mark.
        """
        for path in (self.backups / agent_folder).glob(f"{name}.*"):
            path.unlink(missing_ok=True)
        for soft_deleted_name in self.list_soft_deleted_of(agent_folder, name):
            self.remove_soft_deleted(agent_folder, soft_deleted_name)
        self.waiting_turns_path(agent_folder, name).unlink(missing_ok=True)
        _remove_forms(self.transcript_path(agent_folder, name))
        self.remove_search_tables(name)

    def remove_soft_deleted(self, agent_folder: str, name: str) -> None:
        """Remove a soft-deleted transcript and its backups. Raises OSError."""
        for path in (self.backups / agent_folder).glob(f"{name}.*"):
            path.unlink(missing_ok=True)
        _remove_forms(self.soft_deleted_path(agent_folder, name))
        self.remove_search_tables(name)

    # --- full text

    def remove_search_tables(self, name: str) -> bool:
        """Remove the search tables that may contain text of this transcript. Returns False if one could not be removed.

        The tables hold other transcripts too; the next search rebuilds them. If the transcript is gone as well, its
        text cannot return to a table.
        """
        digit = file_names.find_table_digit(name)
        try:
            names = sorted(file for file in os.listdir(self.search) if file.startswith(f"{digit}-"))
        except (FileNotFoundError, NotADirectoryError):
            return True
        tables = tuple(file for file in names if SEARCH_TABLE.fullmatch(file))
        try:
            for file in tables:
                self.remove_search_table(self.search / file)
            for file in names:
                if not file.startswith(tables):  # unfinished, or the side file of a table that is gone
                    (self.search / file).unlink(missing_ok=True)
        except OSError:
            return False
        return True

    def remove_search_table(self, path: Path) -> None:
        """Remove one search table; on Windows, empty it if a process has it open. Raises OSError."""
        try:
            remove_database(path)
        except PermissionError:
            if os.name != "nt":
                raise
            empty_database(path)

    @contextmanager
    def lock_index(self, *, shared: bool) -> Iterator[None]:
        """Hold the lock of those that open the index (``shared``), or of the one that removes it. Raises OSError."""
        if sys.platform == "win32":  # nobody can remove there what another process has open
            yield
            return
        fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            file_access.lock(fd, shared=shared, wait=True)
            yield
        finally:
            file_access.close(fd)

    def remove_index(self, inode: int | None = None) -> None:
        """Remove the index and SQLite's side files. ``inode``: of the one that is meant; a new one stays. Raises
        OSError."""
        # The files go one by one. Who opened a new index in between would write to a log that is removed next, and
        # nobody else would see those rows.
        with self.lock_index(shared=False):
            if inode is None or (self.index_path.exists() and os.stat(self.index_path).st_ino == inode):
                remove_database(self.index_path)


def _modified_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _list_names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(
                {name for file in entries if (name := file_names.parse_transcript_name(file.name)) is not None}
            )
    except (FileNotFoundError, PermissionError):
        return []


def _remove_forms(path: Path) -> None:
    for form in (
        unfinished_path(path),
        unfinished_path(compressed_path(path)),
        compressed_path(path),
        fork_path(path),
        path,
    ):
        remove_file(form)


def remove_file(path: Path) -> None:
    """Remove a file if it exists, so that its name is free at once. Raises OSError.

    On Windows, an open file may keep its name until it is closed, so it is renamed before. Should a crash prevent the
    rest, the next removal of the same file finds it (``_removed_path``).
    """
    if sys.platform == "win32":
        with suppress(OSError):  # somebody may still have open what was removed before
            _removed_path(path).unlink(missing_ok=True)
        path = _rename_to_remove(path)
    path.unlink(missing_ok=True)


def _removed_path(path: Path, number: int = 0) -> Path:
    """Windows' name of a file that is being removed: that of an unfinished file, which no transcript set aside has."""
    name, _, suffix = path.name.partition(".")
    suffix = f"{suffix.removesuffix(file_names.UNFINISHED)}{file_names.UNFINISHED}"
    return path.with_name(f"{name}{file_names.ASIDE}{number}.{suffix}")


def _rename_to_remove(path: Path) -> Path:
    """The new path of a file that is to be removed; its own, if it cannot be renamed."""
    for number in (0, int.from_bytes(os.urandom(4), "little")):
        try:
            return path.rename(_removed_path(path, number))
        except FileExistsError:
            continue
        except OSError:
            break
    return path


# --- Renames transcripts, in whichever form they exist, without ever replacing a file.


def move_transcript(source: Path, target: Path) -> str:
    """Rename a transcript, in whichever form it exists. Returns its new name, which gets a number if the target's is
    taken. Raises OSError."""
    is_compressed = not os.path.lexists(source)
    while True:
        plain_form, compressed_form = (source, target), (compressed_path(source), compressed_path(target))
        (old_path, new_path), (other_old_path, other_new_path) = (
            (compressed_form, plain_form) if is_compressed else (plain_form, compressed_form)
        )
        if not os.path.lexists(other_new_path) and _rename(old_path, new_path):
            break
        target = target.with_stem(number_name(target.stem))
    other_old_path.unlink(missing_ok=True)  # if both forms exist, the plain one counts
    return target.stem


def _rename(source: Path, target: Path) -> bool:
    """Rename without replacing a file: False if the name is taken. Raises OSError."""
    # The same file under both names: a crash came between link and unlink.
    if not link_or_rename(source, target) and not os.path.samefile(source, target):
        return False
    remove_file(source)
    return True


def link_or_rename(source: Path, target: Path) -> bool:
    """Give a file another name, unless that is taken: then this returns False. The old name may remain. Raises OSError.

    A rename would replace a file that another process creates at the same moment; a link never does. Windows' rename
    does not either, and leaves no second name after a crash.
    """
    if sys.platform == "win32":
        try:
            source.rename(target)
            return True
        except FileExistsError:
            return False
        except PermissionError:  # somebody has it open who lets nobody rename it
            pass
    try:
        os.link(source, target)
    except FileExistsError:
        return False
    except FileNotFoundError:
        raise
    except OSError:  # a file system without hard links
        if os.path.lexists(target):
            return False
        source.rename(target)
    return True


def number_name(name: str) -> str:
    """The name to try if this one is taken: with a number after it, or the next one."""
    beginning, aside, number = name.rpartition(ASIDE)
    return f"{beginning}{ASIDE}{int(number) + 1}" if aside else f"{name}{ASIDE}1"


@contextmanager
def lock_folder(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold the exclusive lock on an agent's folder. Raises OSError (BlockingIOError: it is held, and not ``wait``)."""
    if sys.platform == "win32":  # folders have no locks there
        from acp_proxy.transcript import windows_files

        fd = file_access.open_private(folder / JOURNAL_FILE, os.O_RDWR | os.O_CREAT)
        take_lock = partial(windows_files.lock, fd, shared=False, lock_byte=windows_files.FOLDER)
    else:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        take_lock = partial(file_access.lock, fd)
    try:
        take_lock(wait=wait)
        yield
    finally:
        file_access.close(fd)
