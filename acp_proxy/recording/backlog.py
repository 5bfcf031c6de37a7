"""The entries that are not written yet, in order, and in bounded memory while the store does not answer.

New entries go to ``pending``. If they would have to wait for the store, ``put_off`` moves them aside. The thread that
writes takes both. If too much was put off, only the starts of sessions and turns are kept, and where entries are
missing.
"""

import threading
from collections import deque

from msgspec import Struct

from acp_proxy.protocol import jsonrpc
from acp_proxy.proxy.effects import (
    BeginTranscript,
    BeginTurn,
    ForgetSession,
    IdentifyAgent,
    ProtocolVersion,
    Recording,
    RecordLine,
    RecordNote,
    RecordPiece,
    RecordUpdates,
)

PATIENCE_BYTES = 4 * 1024 * 1024  # bytes: seconds of output from the fastest agent, so a slow disk leaves no gap
_LITTLE = 200  # bytes of memory per line, besides its content


class Dropped(Struct, frozen=True):
    """From here on, entries of a session are missing, because too many were waiting. With another ``reason``, the name
    of an errno, the disk may have lost some before."""

    session: str
    reason: str = "ETIMEDOUT"


Timed = tuple[float, Recording | Dropped]
"""An effect and when it was decided, in seconds since 1970."""


class Backlog:
    """The waiting entries. May be used from any thread."""

    def __init__(self) -> None:
        self.pending: deque[Timed] = deque()
        self.late: list[Timed] = []
        """The entries that were put off."""
        self._late_bytes = 0
        self._moving = threading.Lock()

    @property
    def holds_any(self) -> bool:
        """Whether anything is waiting."""
        return bool(self.pending or self.late)

    def put_off(self) -> None:
        """Move the pending entries aside, because nothing can be written now."""
        with self._moving:
            while self.pending:
                one = self.pending.popleft()
                self.late.append(one)
                self._late_bytes += size_of(one[1])
            if self._late_bytes > PATIENCE_BYTES:
                self.late = _without_words(self.late)

    def taken(self) -> deque[Timed]:
        """Remove and return all waiting entries, for the caller to write."""
        with self._moving:
            batch: deque[Timed] = deque()
            if self.late:
                batch.extend(self.late)
                self.late, self._late_bytes = [], 0
            while self.pending:
                batch.append(self.pending.popleft())
        return batch


def size_of(effect: Recording | Dropped) -> int:
    """Approximate memory of an effect, in bytes."""
    match effect:
        case RecordLine(raw=raw):
            return len(raw) + _LITTLE
        case RecordUpdates(data=data) | RecordPiece(data=data):
            return len(data) + _LITTLE
        case RecordNote(note=note):
            return len(jsonrpc.dump(note)) + _LITTLE
        case _:
            return _LITTLE


def _without_words(effects: list[Timed]) -> list[Timed]:
    """Only the starts of sessions and turns, and where each session's entries begin to be missing."""
    left: list[Timed] = []
    missing: set[str] = set()
    for at, effect in effects:
        if isinstance(effect, IdentifyAgent | ProtocolVersion | BeginTranscript | BeginTurn | ForgetSession):
            left.append((at, effect))
            if isinstance(effect, BeginTranscript):
                missing.discard(effect.session)
        elif effect.session not in missing:
            missing.add(effect.session)
            left.append((at, Dropped(effect.session)))
    return left
