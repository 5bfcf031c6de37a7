"""Remembers the open requests of both sides, by (who asked, id), because both sides number theirs from 0.

A look-up takes the same time however many requests are open. Memory is bounded, although a peer may ask without end:
beyond ``OPEN_BYTES_LIMIT`` the oldest request of the kind that takes most memory is forgotten. The answer to a
forgotten request passes, like an answer to a request that never was.
"""

from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable, Iterator

from acp_proxy.protocol import acp
from acp_proxy.protocol.jsonrpc import Peer, Request, RequestId

OPEN_BYTES_LIMIT = 32 * 1024 * 1024
"""The most bytes of open requests, a character counted as one: tens of thousands of requests, while an editor has a
handful open."""

_REQUEST_OVERHEAD = 1024
"""Bytes of one request, beside its texts."""
_PARAMS_NEEDED = acp.OPENING_REQUESTS | acp.TERMINALS | acp.RENAMES | {acp.LIST, acp.INDEX_LOOK_UP}
"""Methods whose parameters are needed when the answer comes."""
_OTHER_METHODS = ""
_MEANINGFUL_METHODS = acp.OPENING_REQUESTS | acp.TERMINALS | acp.RECORDED_REQUESTS | acp.EXTENSIONS
_MEANINGFUL_METHODS |= acp.RENAMES | {acp.INITIALIZE, acp.LIST, acp.DELETE, acp.CLOSE}
"""Methods whose answers mean something here. All other methods count as one kind."""


class OpenRequest:
    """An open request. ``session_id``: the id in its parameters, if there is one. ``size``: its bytes in memory.
    ``kind``: who asked, and the method, if its answer means something here.

    ``request`` has an empty ``raw`` unless it was added with ``keeps_all``, and no ``params`` unless they are needed.
    """

    def __init__(self, request: Request, session_id: str | None, size: int, kind: tuple[Peer, str]) -> None:
        self.request = request
        self.session_id = session_id
        self.size = size
        self.kind = kind


class OpenRequests:
    """The open requests of both sides. Of two with the same id, the older one is answered first."""

    def __init__(self) -> None:
        self._open: dict[tuple[Peer, RequestId], deque[OpenRequest]] = defaultdict(deque)
        self._kinds: dict[tuple[Peer, str], OrderedDict[OpenRequest, None]] = defaultdict(OrderedDict)
        self._sizes: dict[tuple[Peer, str], int] = defaultdict(int)
        self._size = 0

    def add(self, requester: Peer, request: Request, session_id: str | None, *, keeps_all: bool = False) -> None:
        """Remember a request. ``keeps_all``: keep all of it; otherwise only what its answer will need."""
        method = request.method
        keeps_params = keeps_all or method in _PARAMS_NEEDED
        size = (
            _REQUEST_OVERHEAD
            + len(request.id)
            + len(method)
            + len(session_id or "")
            + (len(request.raw) if keeps_params else 0)
        )
        if not keeps_all:
            request = Request(b"", request.id, method, request.params if keeps_params else None)
        kind = requester, method if method in _MEANINGFUL_METHODS else _OTHER_METHODS
        added = OpenRequest(request, session_id, size, kind)
        self._open[requester, request.id].append(added)
        self._kinds[kind][added] = None
        self._sizes[kind] += size
        self._size += size
        while self._size > OPEN_BYTES_LIMIT and self._forget_one(added):
            pass

    def take(self, requester: Peer, id: RequestId | None) -> OpenRequest | None:
        """Remove and return the request that an answer belongs to; None if there is none.

        ``requester``: who asked. ``id``: the answer's id.
        """
        request = self.find(requester, id)
        if request is not None:
            self._close(request)
        return request

    def find(self, requester: Peer, id: RequestId | None) -> OpenRequest | None:
        """The request that ``take`` would return; it stays open."""
        same_id = self._open.get((requester, id)) if id is not None else None
        return same_id[0] if same_id is not None else None

    def has_id(self, requester: Peer, id: RequestId) -> bool:
        return (requester, id) in self._open

    def list_all(self, requester: Peer) -> Iterator[OpenRequest]:
        """This peer's open requests. Those with the same id come oldest first."""
        for (request_asker, _), same_id in self._open.items():
            if request_asker is requester:
                yield from same_id

    def clear(self) -> None:
        """Forget all requests, since no answers will come."""
        for requester, id in list(self._open):
            while self.take(requester, id) is not None:
                pass

    def has_request(self, requester: Peer, *methods: str) -> bool:
        """Whether this peer has an open request with one of these methods: only those whose answers mean something."""
        return any(self._kinds.get((requester, method)) for method in methods)

    @property
    def may_open_new_session(self) -> bool:
        """Whether the client has an open request for a new session or a fork, whose id only the answer says."""
        return self.has_request(Peer.CLIENT, acp.NEW, acp.FORK)

    def list_session_ids(self, requester: Peer, methods: Iterable[str]) -> frozenset[str]:
        """The sessions of this peer's open requests with one of these methods."""
        session_ids = (request.session_id for method in methods for request in self._kinds.get((requester, method), ()))
        return frozenset(session_id for session_id in session_ids if session_id is not None)

    def _forget_one(self, newest: OpenRequest) -> bool:
        """Forget the oldest request of the kind that takes most memory. False if that is the newest one, which
        stays."""
        oldest = next(iter(self._kinds[max(self._kinds, key=self._sizes.__getitem__)]))
        if oldest is newest:
            return False
        self._close(oldest)
        return True

    def _close(self, request: OpenRequest) -> None:
        kind = request.kind
        key = kind[0], request.request.id
        same_id = self._open[key]
        same_id.remove(request)
        if not same_id:
            del self._open[key]
        del self._kinds[kind][request]
        self._sizes[kind] -= request.size
        self._size -= request.size
