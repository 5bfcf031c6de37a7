"""The server's connections: few, and none that waits for long, so that other programs cannot keep the user out.

Every program of this machine can open connections here. One that never finishes its request would stay for ever, and
with as many as a process may have open files, nobody could connect any more.
"""

import asyncio
from typing import ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

_SECONDS = 10.0
"""How long a request may take to arrive."""
BACKLOG = 50
"""So many may be accepted at once, before any that are too many end."""
_MAX_CONNECTIONS = 100
"""A browser opens six. Some systems let a process open 256 files."""


class Connection(H11Protocol):
    """A connection that ends if its request does not arrive in time, or if there are too many newer ones."""

    _open: ClassVar[dict["Connection", None]] = {}
    """All that are open, the one that was quiet for the longest time first."""
    _end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._open[self] = None
        if len(self._open) > _MAX_CONNECTIONS:
            # A client that does not read is answered for ever, so the oldest goes also if it is being answered.
            other_connections = [connection for connection in self._open if connection is not self]
            oldest = next(
                (connection for connection in other_connections if not connection._is_answering), other_connections[0]
            )
            oldest.transport.abort()
            del self._open[oldest]
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_answering and self in self._open:
            del self._open[self]
            self._open[self] = None
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._open.pop(self, None)
        self._stop_waiting()

    @property
    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # None until the first request
        return cycle is not None and not cycle.response_complete

    def _watch(self) -> None:
        """Wait for a request that has not arrived yet, counted from the connection or the end of the last answer."""
        if self._is_answering:
            self._stop_waiting()
        elif self._end is None:
            self._end = self.loop.call_later(_SECONDS, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._end is not None:
            self._end.cancel()
            self._end = None
