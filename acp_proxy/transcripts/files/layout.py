"""Where everything lies in a store's directory. Names of agents and sessions are file names here, never ids."""

import errno
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from acp_proxy.errors import StoreRefused
from acp_proxy.transcripts.files import access, names
from acp_proxy.transcripts.files.journal import Journal
from acp_proxy.transcripts.files.names import FORKED_SUFFIX, PACKED_SUFFIX, SUFFIX, forked, packed, unfinished

FORMAT = 1
JOURNAL = "state"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_SIDES = ("", "-wal", "-shm")
"""SQLite's own files beside one of its own."""
_TAKEN = "."
"""Stands in a mark's name while it is being taken away, before a number of its own."""
_WORDS = re.compile(r"[0-9a-f]-[0-9a-f]{16}\.sqlite3")


class Layout:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.transcripts = root / "transcripts"
        self.unindexed = root / "unindexed"
        self.backups = root / "backups"
        self.deleted = root / "deleted"
        self.search = root / "search"
        self.index = root / "index.sqlite3"
        self.format = root / "format"
        self.compacted = root / "compacted"
        self.is_only_read = False
        """Nothing in it can be written: what is made of transcripts is made in memory."""
        self._journals: dict[str, Journal] = {}

    @property
    def is_made(self) -> bool:
        """Whether a store is there. Where that cannot be seen it is taken to be: who uses it finds out why."""
        try:
            return bool({self.format.name, self.transcripts.name} & set(os.listdir(self.root)))
        except FileNotFoundError:
            return self.root.is_symlink()  # to a disk that is away now
        except OSError:
            return True

    def prepare(self) -> None:
        """Make what is missing, unless it is only read; refuse a newer format, a link, or what others can write to.

        Raises StoreRefused.
        """
        try:
            access.check_inside(self.root)
            if not self.is_only_read:
                self._make()
            self._check_inside()
            self._check_format()
        except FileExistsError as problem:
            raise StoreRefused(
                f"{problem.filename} is not a directory. Move it away, or choose another place with --store."
            ) from problem
        except OSError as problem:
            what, reason = problem.filename or self.root, problem.strerror or type(problem).__name__
            raise StoreRefused(
                f"{what} cannot be used: {reason}. Mend that, or choose another place with --store."
            ) from problem

    def _make(self) -> None:
        for directory in (self.transcripts, self.unindexed):
            access.make_inner_directory(directory)
        with suppress(FileExistsError), os.fdopen(access.open_private(self.format, _NEW), "w") as file:
            file.write(f"{FORMAT}\n")

    def _check_inside(self) -> None:
        for directory in (self.transcripts, self.unindexed, self.deleted):
            if directory.is_dir():
                access.check_inside(directory)
        for agent in self.agents():
            access.check_link(self.transcript(agent, JOURNAL))

    def make_folder(self, folder: Path) -> None:
        """An agent's. The store may be gone since, or something else be in its place. Raises OSError."""
        try:
            access.prepare(self.root)
            for directory in (folder.parent, folder):
                access.make_inner_directory(directory)
        except StoreRefused as problem:
            raise PermissionError(errno.EPERM, str(problem), str(folder)) from problem

    def _check_format(self) -> None:
        try:
            text = self.format.read_text(encoding="utf-8", errors="replace").strip()
        except FileNotFoundError:
            return
        if text.isascii() and text.isdigit() and (len(text) > 9 or int(text) > FORMAT):
            raise StoreRefused(f"{self.root} was made by a newer acp-proxy. Upgrade acp-proxy.")

    def agents(self) -> list[str]:
        try:
            return sorted(path.name for path in self.transcripts.iterdir() if path.is_dir())
        except FileNotFoundError:  # the store was removed: nothing is kept
            return []

    def has_agent(self, agent: str) -> bool:
        return os.path.isdir(self.transcripts / agent)  # a directory that cannot be looked into raises nothing

    def names(self, agent: str) -> list[str]:
        """Every transcript of an agent, superseded ones too; what others put there is not ours."""
        return _names_in(self.transcripts / agent)

    def all_names(self) -> list[tuple[str, str]]:
        """The agents and names of all transcripts."""
        return [(agent, name) for agent in self.agents() for name in self.names(agent)]

    def redactable(self, names: dict[str, list[str]] | None) -> list[Path]:
        """Every file that holds what was said: of these transcripts (by agent), or all, with what was set aside of them
        when they were repaired. Each as it is called when it is not packed."""
        if names is None:
            folders = (self.transcripts, self.backups, self.deleted)
            return sorted({path for folder in folders for path in _files(folder, "*")})
        chosen = [(agent, name) for agent, each in names.items() for name in each]
        found = {self.transcript(agent, name) for agent, name in chosen}
        found |= {path for agent in names if (path := self.transcript(agent, JOURNAL)).exists()}  # titles of the user's
        for agent, name in chosen:
            found.update(_files(self.backups / agent, f"{name}*"))
            found.update(self.kept(agent, each) for each in self.kept_of(agent, name))
        return sorted(found)

    def forms(self, agent: str) -> dict[str, os.stat_result | None]:
        """Every transcript of an agent, with what is said of its file; None where it is packed."""
        forms: dict[str, os.stat_result | None] = {}
        with suppress(FileNotFoundError, PermissionError), os.scandir(self.transcripts / agent) as found:
            for file in found:
                if (name := names.transcript_in(file.name)) is None:
                    continue
                if file.name.endswith(PACKED_SUFFIX):
                    forms.setdefault(name, None)
                    continue
                with suppress(FileNotFoundError):  # it was deleted in this moment
                    forms[name] = file.stat(follow_symlinks=False)
        return forms

    def transcript(self, agent: str, name: str) -> Path:
        return self.transcripts / agent / (name + SUFFIX)

    def kept(self, agent: str, name: str) -> Path:
        """Where a softly deleted transcript lies."""
        return self.deleted / agent / (name + SUFFIX)

    def kept_names(self, agent: str) -> list[str]:
        """Every softly deleted transcript of an agent."""
        return _names_in(self.deleted / agent)

    def kept_of(self, agent: str, name: str) -> list[str]:
        """What was softly deleted of one transcript: more than once, where it lived again in between."""
        return [each for each in self.kept_names(agent) if names.kept_name(each) == name]

    def journal(self, agent: str) -> Journal:
        return self._journals.setdefault(agent, Journal(self.transcript(agent, JOURNAL)))

    def mark(self, agent: str, name: str) -> None:
        """The index has not seen all of this transcript: leave a mark that outlives us. Raises OSError."""
        path = self.unindexed / agent / name
        try:
            access.touch(path)
        except FileNotFoundError:
            access.make_directory(path.parent)
            access.touch(path)

    def marked(self, agent: str) -> list[str]:
        return list(dict.fromkeys(mark.name.partition(_TAKEN)[0] for mark in self._marks(agent)))

    def is_marked(self, agent: str, name: str) -> bool:
        return (self.unindexed / agent / name).exists()

    def unmark(self, agent: str, name: str, is_needed: Callable[[], bool]) -> None:
        """Take a mark away, unless it is needed once it is out of the way: then whoever marks it makes another one.

        Whatever ends this half-way leaves a mark. Raises OSError.
        """
        mark = self.unindexed / agent / name
        taken = mark.with_name(f"{name}{_TAKEN}{os.urandom(8).hex()}")
        with suppress(FileNotFoundError):
            mark.rename(taken)
        if is_needed():
            self.mark(agent, name)
        taken.unlink(missing_ok=True)

    def give_marks_back(self, agent: str) -> None:
        """Those that somebody was taking away when it ended, or still is: that is one look more. Raises OSError."""
        for mark in self._marks(agent):
            name, taken, _ = mark.name.partition(_TAKEN)
            if taken:
                with suppress(FileNotFoundError):
                    mark.replace(mark.with_name(name))

    def _marks(self, agent: str) -> list[Path]:
        folder = self.unindexed / agent
        if not folder.is_dir():
            return []
        with os.scandir(folder) as found:
            marks = [Path(mark.path) for mark in found if mark.is_file(follow_symlinks=False)]
        return [mark for mark in marks if names.is_ours(mark.name.partition(_TAKEN)[0])]

    def exists(self, agent: str, name: str) -> bool:
        """Whether there is anything by the name of this transcript, in whatever form."""
        path = self.transcript(agent, name)
        return any(map(os.path.lexists, (path, packed(path), forked(path), path)))  # it may just be finished

    def named_after(self, path: Path) -> Iterator[Path]:
        """A session's file, then those that were set aside: a file only ever goes that way."""
        yield path
        try:
            found_there = os.listdir(path.parent)
        except FileNotFoundError:
            return
        aside = {found.partition(".")[0] for found in found_there if found.startswith(f"{path.stem}{names.ASIDE}")}
        yield from (path.with_stem(name) for name in sorted(aside))

    def backup(self, agent: str, name: str, stamp: str) -> Path:
        """Where a file is copied to before it is mended."""
        return self.backups / agent / f"{name}.{''.join(one for one in stamp if one.isalnum())}{SUFFIX}"

    def journal_backups(self, agent: str) -> list[Path]:
        return sorted((self.backups / agent).glob(f"{JOURNAL}.*"))

    def move_backups(self, agent: str, name: str, after: str) -> None:
        """They go with their transcript, which has another name now. Raises OSError."""
        for path in list((self.backups / agent).glob(f"{name}.*")):
            path.replace(path.with_name(after + path.name.removeprefix(name)))

    def remove(self, agent: str, name: str) -> None:
        """A transcript, its backups, and what was softly deleted of it. Raises OSError.

        Itself last, since what is left of it has the rest removed.
        """
        for path in (self.backups / agent).glob(f"{name}.*"):
            path.unlink(missing_ok=True)
        for kept in self.kept_of(agent, name):
            self.remove_kept(agent, kept)
        _remove(self.transcript(agent, name))
        self.forget_words(name)

    def remove_kept(self, agent: str, name: str) -> None:
        """A softly deleted transcript and its backups. Raises OSError."""
        for path in (self.backups / agent).glob(f"{name}.*"):
            path.unlink(missing_ok=True)
        _remove(self.kept(agent, name))
        self.forget_words(name)

    def sizes(self, agent: str) -> dict[str, int]:
        """What transcripts take on the disk, with their backups, softly deleted ones too; by name. Raises OSError."""
        sizes: dict[str, int] = {}
        for folder in (self.transcripts, self.deleted, self.backups):
            try:
                with os.scandir(folder / agent) as found:
                    for file in found:
                        name = file.name.partition(".")[0]
                        sizes[name] = sizes.get(name, 0) + file.stat(follow_symlinks=False).st_size
            except FileNotFoundError:  # or deleted in this moment
                continue
        return sizes

    # --- full text

    def words(self, digit: str) -> list[Path]:
        """The files with the words of all transcripts whose names end in this digit."""
        with suppress(FileNotFoundError):
            return sorted(
                self.search / file for file in os.listdir(self.search) if _WORDS.fullmatch(file) and file[0] == digit
            )
        return []

    def new_words(self, digit: str) -> Path:
        """A name that no file ever had: others may have one open that was removed. Raises OSError, StoreRefused."""
        access.make_inner_directory(self.search)
        return self.search / f"{digit}-{os.urandom(8).hex()}.sqlite3"

    def forget_words(self, name: str) -> bool:
        """What was said in this transcript is in no search table, and will be in none where it is gone itself.

        Everything goes that lies with it; the next search makes that again. False where something could not be removed.
        """
        digit = names.digit(name)
        try:
            found = sorted(file for file in os.listdir(self.search) if file.startswith(f"{digit}-"))
        except (FileNotFoundError, NotADirectoryError):
            return True
        try:
            for file in found:  # a table before what lies beside it: who misses that sees that the table is gone
                (self.search / file).unlink(missing_ok=True)
        except OSError:
            return False
        return True

    def remove_words(self, path: Path) -> None:
        """One file with words, and what SQLite keeps beside it. Raises OSError."""
        for suffix in _SIDES:
            path.with_name(path.name + suffix).unlink(missing_ok=True)

    def discard_index(self) -> None:
        for suffix in _SIDES:
            self.index.with_name(self.index.name + suffix).unlink(missing_ok=True)


def _names_in(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as found:
            return sorted({name for file in found if (name := names.transcript_in(file.name)) is not None})
    except (FileNotFoundError, PermissionError):
        return []


def _remove(path: Path) -> None:
    """Every form of a transcript, the plain one last."""
    for form in (unfinished(path), unfinished(packed(path)), packed(path), forked(path), path):
        form.unlink(missing_ok=True)


def _files(folder: Path, pattern: str) -> Iterator[Path]:
    for suffix in (SUFFIX, PACKED_SUFFIX, FORKED_SUFFIX):
        for path in folder.rglob(pattern + suffix):
            yield path.with_name(path.name.removesuffix(suffix) + SUFFIX)
