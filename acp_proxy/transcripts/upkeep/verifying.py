"""Everything in a store's directory looked at: what is wrong, where, and what mends it. Changes nothing.

Safe while proxies run: what a living one is just writing is waited for, and what the index has not seen of a turn under
way is no damage. Memory is bounded by the longest line and by the names in one directory.
"""

import os
import sqlite3
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from acp_proxy.errors import NewerFormat, errno_name
from acp_proxy.transcripts.files import access, names
from acp_proxy.transcripts.files.layout import JOURNAL, Layout
from acp_proxy.transcripts.files.reading import Reading, cut
from acp_proxy.transcripts.listing.comparing import agrees
from acp_proxy.transcripts.listing.index import Index
from acp_proxy.transcripts.upkeep import damage
from acp_proxy.transcripts.upkeep.damage import Stretch
from acp_proxy.transcripts.upkeep.mending import fitting, remade

T = TypeVar("T")

REPAIR, BY_HAND, NOTHING = "repair", "by hand", "nothing"
"""What there is to do about it."""

MODE, FOREIGN, UNREADABLE, NEWER, LEFTOVER = "mode", "foreign file", "cannot be read", "newer format", "leftover"
NO_HEADER, EMPTY, JOURNAL_DAMAGE = "missing header", "empty", "damaged journal"
COMPRESSED_DAMAGE, UNFINISHED_FORK = "damaged compression", "unfinished fork"
INDEX_MISSING, INDEX_BROKEN, INDEX_BEHIND = "missing index", "broken index", "index behind"
WORDS_BROKEN, WORDS_BEHIND = "broken search table", "search table behind"
UNSEEN = "not looked at"

_FOR_OTHERS = 0o077
_OURS = frozenset({"transcripts", "unindexed", "backups", "deleted", "format", "compressed", "index.sqlite3", "search"})
_SIDE_FILES = frozenset({"index.sqlite3-wal", "index.sqlite3-shm"})


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be: ``text`` says what that means. ``name`` is a transcript's."""

    path: Path
    kind: str
    text: str
    todo: str = REPAIR
    agent: str = ""
    name: str = ""
    stretch: Stretch | None = None

    @property
    def is_damage(self) -> bool:
        return self.todo != NOTHING


def unreadable(paths: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    """Those transcripts that cannot be opened, and why."""
    for path in paths:
        try:
            Reading(path).close()
        except OSError as problem:
            yield path, errno_name(problem)
        except NewerFormat as problem:
            yield path, str(problem)


class Advancing(Protocol):
    """Hands the items on, one after the other, and may tell somebody how far it has come."""

    def __call__(self, items: Sequence[T], what: str, /) -> Iterable[T]: ...


def untold(items: Sequence[T], what: str) -> Iterable[T]:
    return items


class Inspection:
    def __init__(self, layout: Layout, advancing: Advancing = untold) -> None:
        self._layout = layout
        self._advancing = advancing

    def all(self) -> Iterator[Finding]:
        """Raises OSError where the store's own directories cannot be read."""
        if not self._layout.is_made:
            return
        yield from self._root()
        for agent in self._layout.agents():
            folder = self._layout.transcripts / agent
            yield from _mode(folder)
            for path in self._advancing(sorted(folder.iterdir()), "Reading transcripts"):
                yield from self._file(agent, path)
            yield from self._marks(agent)
            yield from self._kept(agent)
        if self._layout.is_only_read:
            yield from self._unseen()
            return
        yield from self._index(self._layout.all_names())
        yield from self._search()

    def some(self, transcripts: Sequence[tuple[str, str]]) -> Iterator[Finding]:
        """Only these transcripts, and what the index says of them."""
        for agent, name in self._advancing(transcripts, "Reading transcripts"):
            path = self._layout.transcript(agent, name)
            yield from self._file(agent, path if os.path.lexists(path) else names.compressed(path))
        if self._layout.is_only_read:
            yield from self._unseen()
            return
        yield from self._index(transcripts)
        for digit in sorted({names.digit(name) for _, name in transcripts}):
            for path in self._layout.words(digit):
                yield from self._words(path, frozenset(transcripts))

    # --- directories

    def _root(self) -> Iterator[Finding]:
        for path in sorted(self._layout.root.iterdir()):
            if path.name in _OURS or (path.name in _SIDE_FILES and self._layout.index.exists()):
                if path != self._layout.index or path.is_file():
                    yield from _mode(path)
            elif path.name in _SIDE_FILES:
                yield Finding(path, LEFTOVER, "belongs to an index that is not there; SQLite takes it away", NOTHING)
            else:
                yield _foreign(path)
        for path in sorted(self._layout.transcripts.iterdir()):
            if not path.is_dir():
                yield _foreign(path)

    def _marks(self, agent: str) -> Iterator[Finding]:
        folder = self._layout.unindexed / agent
        if folder.exists() and not folder.is_dir():
            yield Finding(folder, FOREIGN, "stands where a directory is needed. Move it away", BY_HAND, agent)
        try:
            gone = {names.file_name(session) for session in self._layout.journal(agent).deleted()}
        except OSError:
            gone = set()
        for name in self._layout.marked(agent):  # that of a deleted session waits for the index to forget it
            if name not in gone and not self._layout.exists(agent, name):
                yield Finding(folder / name, LEFTOVER, "marks a transcript that is not there", NOTHING, agent)

    def _kept(self, agent: str) -> Iterator[Finding]:
        """What was deleted softly: it may be restored."""
        folder = self._layout.deleted / agent
        if folder.is_dir():
            yield from _mode(folder)
            for path in sorted(folder.iterdir()):
                yield from self._file(agent, path)

    # --- files

    def _file(self, agent: str, path: Path) -> Iterator[Finding]:
        name = names.transcript_in(path.name)
        if name is None and path.name != JOURNAL + names.SUFFIX:
            yield _unfinished(agent, path)
            return
        is_compressed = name is not None and path.name.endswith(names.COMPRESSED_SUFFIX)
        if is_compressed and os.path.lexists(path.with_suffix("")):
            yield Finding(path, LEFTOVER, _LEFT, NOTHING, agent)
            return
        try:
            if not stat.S_ISREG(os.lstat(path).st_mode):
                yield Finding(path, FOREIGN, "is no file, and stands in the place of one. Move it away", BY_HAND, agent)
                return
            yield from _mode(path)
            yield from self._transcript(agent, name, path) if name is not None else self._journal(agent, path)
        except FileNotFoundError:
            return  # deleted meanwhile
        except NewerFormat as problem:
            yield Finding(path, NEWER, str(problem), BY_HAND, agent, name or path.stem)
        except OSError as problem:
            text = f"{errno_name(problem)}: mend its mode or its disk, or delete it"
            yield Finding(path, UNREADABLE, text, BY_HAND, agent, name or path.stem)

    def _transcript(self, agent: str, name: str, path: Path) -> Iterator[Finding]:
        reading = Reading(names.plain(path))
        try:
            reading.settle()
            header = remade(reading) if reading.header is None else None
            is_known = reading.header is not None or header is not None
            begun = False
            if reading.size == 0 and reading.compressed is None:
                yield Finding(path, EMPTY, "nothing was ever written to it", NOTHING, agent, name)
                return
            for stretch in damage.of_transcript(reading):
                begun = begun or stretch.begins
                text, todo = _MEANING.get(stretch.kinds[0], "cannot be read, and is left out"), REPAIR
                if not is_known:
                    text, todo = "nothing in the file says whose session it is. Delete the file, or keep it", BY_HAND
                elif stretch.begins and header is not None and not fitting(header, stretch):
                    text, todo = _PARTIAL, NOTHING
                elif stretch.begins:
                    text = _PARTIAL
                yield Finding(path, stretch.kinds[0], text, todo, agent, name, stretch)
            if reading.header is None and not begun and reading.size:
                todo = NOTHING if is_known else BY_HAND
                yield Finding(path, NO_HEADER, _PARTIAL if is_known else "no session is named", todo, agent, name)
            if reading.compressed is not None and reading.compressed.is_damaged:
                yield Finding(path, COMPRESSED_DAMAGE, _CUT, REPAIR if is_known else BY_HAND, agent, name)
        finally:
            reading.close()

    def _journal(self, agent: str, path: Path) -> Iterator[Finding]:
        fd = access.open_private(path, os.O_RDONLY)
        try:
            for stretch in damage.of_journal(cut(partial(access.read_at, fd), 0, os.fstat(fd).st_size)):
                text = "a delete, or the end of one, may be forgotten"
                yield Finding(path, JOURNAL_DAMAGE, text, REPAIR, agent, "", stretch)
        finally:
            os.close(fd)

    def _unseen(self) -> Iterator[Finding]:
        """SQLite opens its files to write, if only beside them."""
        for path in (self._layout.index, self._layout.search):
            if os.path.lexists(path):
                yield Finding(path, UNSEEN, _UNUSED, NOTHING)

    # --- the index

    def _index(self, transcripts: Sequence[tuple[str, str]]) -> Iterator[Finding]:
        """What is marked it may not have seen yet."""
        path = self._layout.index
        try:
            if not os.path.lexists(path):
                if not all(self._layout.is_marked(agent, name) for agent, name in transcripts):
                    yield Finding(path, INDEX_MISSING, "is made anew from the transcripts")
                return
            access.check_database(path)
            index = Index(path)
            try:
                if index.is_new or not index.is_sound():
                    yield Finding(path, INDEX_BROKEN, "is made anew from the transcripts")
                    return
                for agent, name in self._advancing(transcripts, "Comparing the list"):
                    if not self._agrees(index, agent, name) and not self._agrees(index, agent, name):
                        text = "the list is not what the transcript says"
                        yield Finding(path, INDEX_BEHIND, text, REPAIR, agent, name)
            finally:
                index.close()
        except sqlite3.OperationalError as problem:
            yield Finding(path, UNREADABLE, f"{problem}. If it stays so, run: acp-proxy doctor", BY_HAND)
        except sqlite3.DatabaseError as problem:
            yield Finding(path, INDEX_BROKEN, f"{problem}: it is made anew from the transcripts")
        except OSError as problem:
            yield Finding(path, FOREIGN, f"{errno_name(problem)}: move it away; lists are slow without it", BY_HAND)

    def _agrees(self, index: Index, agent: str, name: str) -> bool:
        try:
            reading = Reading(self._layout.transcript(agent, name))
        except (OSError, NewerFormat):
            return True  # said where the file is looked at
        try:
            return agrees(index, agent, name, reading) or self._layout.is_marked(agent, name)
        except OSError:
            return True
        finally:
            reading.close()

    # --- full text

    def _search(self) -> Iterator[Finding]:
        try:
            found = sorted(self._layout.search.iterdir())
        except FileNotFoundError:  # nobody has searched yet
            return
        except NotADirectoryError:
            yield Finding(self._layout.search, FOREIGN, "stands where a directory is needed. Move it away", BY_HAND)
            return
        tables = {path for digit in "0123456789abcdef" for path in self._layout.words(digit)}
        for path in found:
            if path in tables:
                yield from _mode(path)
                yield from self._words(path, None)
            elif path.with_name(path.name.removesuffix("-wal").removesuffix("-shm")) in tables:
                yield from _mode(path)
            else:
                yield _foreign(path)

    def _words(self, path: Path, chosen: frozenset[tuple[str, str]] | None) -> Iterator[Finding]:
        """What a search says of these transcripts, or of all in this table."""
        from acp_proxy.transcripts.search.words import WordTable, agrees

        try:
            words = WordTable(path)
            try:
                words.check()
                for agent, name, *_ in list(words.extents()):
                    is_meant = chosen is None or (agent, name) in chosen
                    if is_meant and not agrees(words, (agent, name), self._layout.transcript(agent, name)):
                        yield Finding(path, WORDS_BEHIND, _OTHER_WORDS, REPAIR, agent, name)
            finally:
                words.close()
        except sqlite3.OperationalError as problem:
            yield Finding(path, UNREADABLE, f"{problem}. If it stays so, delete it: {_ANEW}", BY_HAND)
        except sqlite3.DatabaseError as problem:
            yield Finding(path, WORDS_BROKEN, f"{problem}: {_ANEW}")
        except FileNotFoundError:
            return  # it was removed meanwhile
        except OSError as problem:
            yield Finding(path, FOREIGN, f"{errno_name(problem)}: delete it; {_ANEW}", BY_HAND)


_MEANING = {
    damage.TORN_END: "the last line was not written to its end, and is left out",
    damage.TORN: "was not written to its end, and is left out",
    damage.SECOND_HEADER: "says nothing more, and is left out",
}
_CUT = "what stands behind the damage cannot be read. Where nothing can, delete the file, or keep it"
_ANEW = "the next search makes it anew"
_OTHER_WORDS = f"what would be found is not what the transcript says; {_ANEW}"
_UNUSED = "is not used while nothing can be written"
_LEFT = "a crash left it; the next sessions compress takes it away"
_COPYING = "its past is being copied, or a crash ended that; who next lists or opens the session finishes it"
_PARTIAL = "the session is read without it, as one that is only partly known"


def _unfinished(agent: str, path: Path) -> Finding:
    """What is no transcript: it may become one, or was to become another form of one."""
    if names.transcript_in(path.name.removesuffix(names.UNFINISHED)) is not None:
        return Finding(path, LEFTOVER, _LEFT, NOTHING, agent)
    if path.name.endswith(names.FORKED_SUFFIX) and names.is_ours(path.name.removesuffix(names.FORKED_SUFFIX)):
        return Finding(path, UNFINISHED_FORK, _COPYING, NOTHING, agent)
    return _foreign(path)


def _foreign(path: Path) -> Finding:
    return Finding(path, FOREIGN, "is nothing of acp-proxy's, and is left alone", NOTHING)


def _mode(path: Path) -> Iterator[Finding]:
    mode = os.lstat(path).st_mode
    if sys.platform != "win32" and mode & _FOR_OTHERS and not stat.S_ISLNK(mode):
        yield Finding(path, MODE, f"others may use it ({stat.S_IMODE(mode):04o})")
