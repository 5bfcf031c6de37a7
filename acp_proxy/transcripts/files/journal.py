"""``state.jsonl``: one line per delete, lifted delete, restore and title of the user's, for one agent: their truth.

Appending is one ``write``; several processes append. Reading skips what is damaged. A transcript's name is taken away,
and a deleted session lives again, only by who holds ``alone``: so no file is removed that was made behind a lifted
delete. Nothing is ever taken out but the words of titles whose sessions were deleted for good: those are overwritten
where they lie, so that who appends need not wait.
"""

import os
import re
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from acp_proxy.transcripts.files.access import lock, open_private, read_at, write_at
from acp_proxy.transcripts.files.names import file_name, is_ours
from acp_proxy.wire import acp, jsonrpc, remains
from acp_proxy.wire.remains import Intact
from acp_proxy.wire.value import Value

DELETED, LIFTED, RESTORED, TITLED = "deleted", "lifted", "restored", "titled"
_EVENTS = frozenset({DELETED, LIFTED, RESTORED, TITLED})
_START = re.compile(rb'\{"at":"[^"]*","event":"')
_TITLE = b'"titled"'


class Event(Value):
    """One line. ``transcript``: whose title it is, where that is not the one of the session's own name; or under which
    name a softly deleted one is kept. ``title``: None takes the user's away."""

    kind: str
    session: str
    transcript: str | None = None
    title: str | None = None

    @property
    def name(self) -> str:
        """Of the transcript that a title is of."""
        return self.transcript or file_name(self.session)


class JournalState(Value):
    """What all events come to.

    ``deleted``: the sessions that are deleted now, and where those lie that were deleted softly. ``titles``: the
    user's, by the transcript's name. ``titled``: of which transcripts there are words in the file, also old ones.
    """

    deleted: Mapping[str, str | None]
    gone: frozenset[str]
    """The keys of ``deleted``."""
    titles: Mapping[str, str]
    titled: frozenset[str]

    def title(self, session: str) -> str | None:
        """What the user calls it."""
        return self.titles.get(file_name(session))


_NOTHING = JournalState({}, frozenset(), {}, frozenset())


class Journal:
    """What became of the sessions of one agent, as all processes know it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: tuple[tuple[int, int, int], JournalState] | None = None
        self._holder = 0

    @contextmanager
    def alone(self, *, wait: bool = True) -> Iterator[None]:
        """For the moment, no other process does what this is held for. Raises OSError (BlockingIOError: one does).

        Who holds it may ask again.
        """
        if self._holder == threading.get_ident():
            yield
            return
        fd = open_private(self._path, os.O_RDWR | os.O_CREAT)
        try:
            lock(fd, wait=wait)
            self._holder = threading.get_ident()
            try:
                yield
            finally:
                self._holder = 0
        finally:
            os.close(fd)

    def append(self, event: str, session: str, at: str, **more: str | None) -> None:
        """``more``: ``transcript`` and ``title``, as an ``Event`` has them. Raises OSError."""
        fd = open_private(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            size = os.fstat(fd).st_size
            torn = size > 0 and read_at(fd, 1, size - 1) != b"\n"
            line = jsonrpc.dump({"at": at, "event": event, "sessionId": session} | more) + b"\n"
            data = b"\n" + line if torn else line
            if os.write(fd, data) != len(data):
                raise OSError(28, "No space left on device")
        finally:
            os.close(fd)

    def sync(self) -> None:
        """What was appended is on the disk when this returns. Raises OSError."""
        fd = open_private(self._path, os.O_RDWR)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def deleted(self) -> frozenset[str]:
        """Ids of the sessions that are deleted now. Raises OSError."""
        return self.state().gone

    def state(self) -> JournalState:
        """Raises OSError."""
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return _NOTHING
        now = found.st_ino, found.st_size, found.st_mtime_ns
        if self._known is None or self._known[0] != now:
            self._known = now, _folded(self._events())
        return self._known[1]

    def erase_titles(self, names: Collection[str]) -> None:
        """No word of these transcripts' titles is left. Only for who holds ``alone``. Raises OSError.

        Readers must know already that they have none: who has read the file before does not look again. What is torn
        beside a title goes too: it may be half of one.
        """
        fd = open_private(self._path, os.O_RDWR)
        try:
            at = 0
            for line in read_at(fd, os.fstat(fd).st_size, 0).split(b"\n"):
                if _TITLE in line:
                    write_at(fd, _without_titles(line, names), at)
                at += len(line) + 1
        finally:
            os.close(fd)
        self._known = None

    def _events(self) -> Iterator[Event]:
        fd = open_private(self._path, os.O_RDONLY)
        with os.fdopen(fd, "rb") as file:
            for line in file.read().split(b"\n"):
                yield from (piece.value for piece in events_in(line))


def _folded(events: Iterator[Event]) -> JournalState:
    deleted: dict[str, str | None] = {}
    titles: dict[str, str] = {}
    titled: set[str] = set()
    for event in events:
        if event.kind == TITLED:
            titles.pop(event.name, None)
            if event.title is not None:
                titles[event.name] = event.title
                titled.add(event.name)
        elif event.kind == DELETED:
            deleted[event.session] = event.transcript
            titles.pop(file_name(event.session), None)
        else:
            deleted.pop(event.session, None)
    return JournalState(deleted, frozenset(deleted), titles, frozenset(titled))


def _without_titles(line: bytes, names: Collection[str]) -> bytes:
    """The line with spaces in the place of what is no whole event, or a title of these."""
    kept = bytearray(b" " * len(line))
    for piece in events_in(line):
        event = piece.value
        if event.kind != TITLED or event.title is None or event.name not in names:
            kept[piece.start : piece.end] = line[piece.start : piece.end]
    return bytes(kept)


def events_in(line: bytes) -> list[Intact[Event]]:
    """The intact events of a line: one, or what stands beside damage."""
    event = _event(line)
    if event is not None:
        return [Intact(0, len(line.rstrip(b"\r\n")), event)]
    return remains.pieces(line, _START, _event)


def _event(line: bytes) -> Event | None:
    try:
        value = jsonrpc.parse(line)
    except (ValueError, RecursionError):
        return None
    kind, session = acp.text(value, "event"), acp.session_id(value)
    transcript = acp.text(value, "transcript")
    if kind is None or kind not in _EVENTS or session is None:
        return None
    if transcript is not None and not is_ours(transcript):  # it would be taken for a file's name
        return None
    return Event(kind, session, transcript, acp.text(value, "title"))
