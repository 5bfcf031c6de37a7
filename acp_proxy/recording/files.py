"""The files of the sessions that are written down: opened when something is put away, some dozens at a time.

A file that was there once is found again by what tells it from all others, and is never made again behind a delete.
"""

import contextlib
from collections import OrderedDict
from collections.abc import Callable

from acp_proxy.errors import NewerFormat
from acp_proxy.recording.copies import Copies
from acp_proxy.transcripts.store import Store, Transcript
from acp_proxy.wire.record import Header
from acp_proxy.wire.value import Value

_OPEN_FILES = 64


class Known(Value, frozen=False):
    """A session that is written down. ``exists``: its file was there once, and is never made again behind a delete.

    ``parent``: whose transcript, up to a size, its own begins with. ``gone``: it was deleted, and not prompted since.
    """

    agent: str
    header: Header
    fresh: bool
    parent: str | None = None
    until: int | None = None
    exists: bool = False
    identity: bytes = b""
    gone: bool = False
    transcript: Transcript | None = None


class Files:
    def __init__(self, store: Store, warn: Callable[[str], None]) -> None:
        self.copies = Copies(store, warn)
        self._store = store
        self._warn = warn
        self._open: OrderedDict[str, Known] = OrderedDict()

    def transcript(self, known: Known) -> Transcript:
        """The session's open file. Raises OSError."""
        if known.transcript is None:
            session = known.header.session
            if known.exists:
                known.transcript = self._store.reopen(known.agent, session, known.identity)
            else:
                if not self._store.is_there:
                    self._warn(f"{self._store.root} was removed, and all that was kept there. It is made again.")
                known.transcript = self._begun(known)
                known.identity = known.transcript.identity
                known.exists, known.fresh, known.parent = True, False, None  # what begins again is no copy
                if known.transcript.beginning is not None:
                    self.copies.add(known.transcript.path, known.transcript.beginning)
            self._open[session] = known
            self._close_some()
        return known.transcript

    def _begun(self, known: Known) -> Transcript:
        """A fork's has of its parent's what there was when this was tried first. Raises OSError."""
        if known.parent is not None and known.until is None:
            with contextlib.suppress(FileNotFoundError, NewerFormat):
                known.until = self._store.size(known.agent, known.parent)
        return self._store.begin(known.agent, known.header, fresh=known.fresh, parent=known.parent, until=known.until)

    def has_its_name(self, known: Known) -> bool:
        """Whether readers still find its file, perhaps set aside: its id was given to a session of another window."""
        try:
            if not self.transcript(known).has_its_name():
                self.close(known)
                self.transcript(known)
        except FileNotFoundError:
            return False
        return True

    def close(self, known: Known) -> None:
        if known.transcript is not None:
            self._open.pop(known.header.session, None)
            known.transcript.close()
            known.transcript = None

    def _close_some(self) -> None:
        """Those that were opened longest ago, but for those in the middle of a long line: nobody may come between."""
        while len(self._open) > _OPEN_FILES:
            self.close(next(known for known in self._open.values() if not _is_in_line(known)))


def _is_in_line(known: Known) -> bool:
    return known.transcript is not None and known.transcript.is_in_line
