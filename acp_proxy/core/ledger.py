"""Requests without an answer, known by (who asked, id): both peers number theirs from 0.

However many are open, what is asked about them costs the same: peers may leave any number without an answer.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from acp_proxy.wire.jsonrpc import Peer, Request, RequestId


@dataclass(frozen=True, slots=True)
class Open:
    """A request under way. ``session`` is the one that it names, if it names one."""

    request: Request
    session: str | None


class Ledger:
    """An id that is used twice at once is answered oldest first."""

    def __init__(self) -> None:
        self._open: dict[tuple[Peer, RequestId], deque[Open]] = {}
        self._counts: dict[tuple[Peer, str, str | None], int] = {}
        """How many are open by method, of one session and (None) of all."""

    def add(self, asked: Peer, request: Request, session: str | None) -> None:
        self._open.setdefault((asked, request.id), deque()).append(Open(request, session))
        for key in _counted(asked, request, session):
            self._counts[key] = self._counts.get(key, 0) + 1

    def take(self, asked: Peer, id: RequestId | None) -> Open | None:
        """The request that this answer is for, which is then closed; None where nobody asked."""
        if id is None or (waiting := self._open.get((asked, id))) is None:
            return None
        found = waiting.popleft()
        if not waiting:
            del self._open[asked, id]
        for key in _counted(asked, found.request, found.session):
            self._counts[key] -= 1
            if not self._counts[key]:
                del self._counts[key]
        return found

    def of(self, asked: Peer) -> Iterator[Open]:
        """What this peer still waits for, oldest first of each id."""
        for (who, _), waiting in self._open.items():
            if who is asked:
                yield from waiting

    def is_open(self, asked: Peer, *methods: str, session: str | None = None) -> bool:
        """Whether this peer waits for an answer of one of these methods (for one session, if given)."""
        return any((asked, method, session) in self._counts for method in methods)


def _counted(asked: Peer, request: Request, session: str | None) -> set[tuple[Peer, str, str | None]]:
    return {(asked, request.method, None), (asked, request.method, session)}
