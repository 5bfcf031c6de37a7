"""The open files of recorded sessions, some dozens at a time.

A file that existed once is found again by its identity, and is never recreated after a delete.
"""

import contextlib
from collections import OrderedDict
from collections.abc import Callable

from msgspec import Struct

from acp_proxy.errors import NewerFormat
from acp_proxy.store.store import Store, Transcript
from acp_proxy.transcript.file_format import Header
from acp_proxy.transcript.rewinds import Point

_OPEN_FILES = 64


class RecordedSession(Struct):
    """A recorded session.

    ``agent``: its folder; empty until the store can say. ``fresh``: the agent has just created it.
    ``parent``: the session that it is a fork of. ``point``: where the fork was made, unless at the end.
    ``until``: bytes to copy of the parent's transcript.
    ``exists``: its file existed once, with this ``identity``. ``gone``: it was deleted, and not prompted since.
    ``transcript``: its file, if open. ``in_turn``: it was prompted, and no turn has ended since.
    ``mark``: the path of its last mark for the index, if it was marked between turns. ``is_told``: another process has
    imported it, so it has what comes before the next note. ``is_late``: its file could not be created at first.
    """

    agent: str
    header: Header
    fresh: bool
    parent: str | None = None
    point: Point | None = None
    until: int | None = None
    exists: bool = False
    identity: bytes = b""
    gone: bool = False
    transcript: Transcript | None = None
    in_turn: bool = False
    mark: str = ""
    is_told: bool = False
    is_late: bool = False


class OpenTranscripts:
    """The open files."""

    def __init__(
        self, store: Store, warn: Callable[[str], None], lost: Callable[[RecordedSession, OSError], None]
    ) -> None:
        """``lost``: called if a session's file cannot be closed, so that what was written may be missing."""
        self._store = store
        self._warn = warn
        self._lost = lost
        self._open: OrderedDict[str, RecordedSession] = OrderedDict()

    def transcript(self, known: RecordedSession) -> Transcript:
        """The session's open file, created if it never existed. Raises OSError."""
        if known.transcript is None:
            session = known.header.session
            if known.exists:
                known.transcript = self._store.reopen(known.agent, session, known.identity)
            else:
                if not self._store.is_there:
                    self._warn(f"{self._store.root} was removed, with all sessions in it. It is created again.")
                known.transcript = self._begun(known)
                known.identity = known.transcript.identity
                known.exists, known.fresh, known.parent = True, False, None  # a later new beginning is not a copy
            self._open[session] = known
            self._close_some()
        return known.transcript

    def _begun(self, known: RecordedSession) -> Transcript:
        """Create the file. A fork's copy ends where the parent ended when it was forked, or at the fork's point; if the
        parent does not have that, the fork begins without a copy. Raises OSError."""
        if known.parent is not None and known.until is None:
            at = known.header.created_at if known.is_late else None
            with contextlib.suppress(FileNotFoundError, NewerFormat):
                known.until = self._store.find_fork_end(known.agent, known.parent, known.point, at)
                known.parent = known.parent if known.until is not None else None
        return self._store.open_to_append(
            known.agent, known.header, fresh=known.fresh, parent=known.parent, until=known.until
        )

    def has_its_name(self, known: RecordedSession) -> bool:
        """Whether readers find a session's file.

        It may have been set aside, because another window's session got its id: then it is opened there.
        """
        try:
            if not self.transcript(known).has_its_name():
                self.close(known)
                self.transcript(known)
        except FileNotFoundError:
            return False
        return True

    def close(self, known: RecordedSession) -> None:
        """Close a session's file, if open. Never raises."""
        transcript, known.transcript, known.mark = known.transcript, None, ""
        if transcript is not None:
            self._open.pop(known.header.session, None)
            try:
                transcript.close()
            except OSError as problem:
                self._lost(known, problem)

    def _close_some(self) -> None:
        """Close the files opened longest ago; not those in a long line, which nothing may interrupt."""
        while len(self._open) > _OPEN_FILES:
            self.close(next(known for known in self._open.values() if not is_in_line(known)))


def is_in_line(known: RecordedSession) -> bool:
    """Whether a long line of the session has begun and not ended."""
    return known.transcript is not None and known.transcript.is_in_line
