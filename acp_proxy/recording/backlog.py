"""What is to be written down and is not yet: in its order, in bounded memory while the store does not answer.

``pending`` is what comes; ``put_off`` moves it aside where it would have to wait for the store; who writes takes both.
Of too much that was put off, only what later entries stand on is kept, and where something is missing.
"""

import threading
from collections import deque

from acp_proxy.core.effects import (
    BeginTranscript,
    BeginTurn,
    ForgetSession,
    IdentifyAgent,
    Recording,
    RecordLine,
    RecordNote,
    RecordPiece,
    RecordUpdates,
)
from acp_proxy.wire import jsonrpc
from acp_proxy.wire.value import Value

PATIENCE_BYTES = 4 * 1024 * 1024  # a slow disk leaves no gap: seconds of the fastest agent
_LITTLE = 200  # bytes of memory around a line


class Dropped(Value):
    """From here on something of a session is missing: there was too much of it to wait."""

    session: str


Timed = tuple[float, Recording | Dropped]
"""With the time since 1970, in seconds, at which it was decided."""


class Backlog:
    def __init__(self) -> None:
        self.pending: deque[Timed] = deque()
        self.late: list[Timed] = []
        """What was put off."""
        self._late_bytes = 0
        self._moving = threading.Lock()

    @property
    def holds_any(self) -> bool:
        return bool(self.pending or self.late)

    def put_off(self) -> None:
        """Nothing can be written now."""
        with self._moving:
            while self.pending:
                one = self.pending.popleft()
                self.late.append(one)
                self._late_bytes += size_of(one[1])
            if self._late_bytes > PATIENCE_BYTES:
                self.late = _without_words(self.late)

    def taken(self) -> deque[Timed]:
        """All that there is; it is the caller's to write."""
        with self._moving:
            batch: deque[Timed] = deque()
            if self.late:
                batch.extend(self.late)
                self.late, self._late_bytes = [], 0
            while self.pending:
                batch.append(self.pending.popleft())
        return batch


def size_of(effect: Recording | Dropped) -> int:
    """About what it takes in memory."""
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
    """Where each session began, where its turns did, and from where something of it is missing."""
    left: list[Timed] = []
    missing: set[str] = set()
    for at, effect in effects:
        if isinstance(effect, IdentifyAgent | BeginTranscript | BeginTurn | ForgetSession):
            left.append((at, effect))
            if isinstance(effect, BeginTranscript):
                missing.discard(effect.session)
        elif effect.session not in missing:
            missing.add(effect.session)
            left.append((at, Dropped(effect.session)))
    return left
