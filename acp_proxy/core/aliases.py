"""Sessions that the agent knows by another id than the client: every line that names one is rewritten, both ways.

Only ``params.sessionId`` is touched; every other byte of the line stays. docs/transparency.md says when.
"""

from collections import OrderedDict
from collections.abc import Mapping

from acp_proxy.wire import acp, jsonrpc, splice
from acp_proxy.wire.jsonrpc import Batch, Message, Notification, Request

LIMIT = 16 * 1024 * 1024
"""Bytes of ids that are remembered: tens of thousands of them, and each is a session that the client has opened."""
_ENTRY = 256


class Aliases:
    def __init__(self) -> None:
        self._size = 0
        self._agents: dict[str, str] = {}
        self._clients: OrderedDict[str, str] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._agents)

    def add(self, client: str, agent: str) -> None:
        """What the client calls ``client`` is ``agent`` to the agent from now on.

        What it was before may still speak: a turn may be under way there. Past the limit the oldest is forgotten.
        """
        self._forget(agent)
        self._agents[client] = agent
        self._clients[agent] = client
        self._size += _cost(client, agent)
        while self._size > LIMIT and len(self._clients) > 1:
            self._forget(next(iter(self._clients)))

    def client_of(self, agent: str) -> str | None:
        """What the client calls a session of the agent's, where that is another id."""
        return self._clients.get(agent)

    def knows(self, line: bytes) -> bool:
        """Whether a line of the agent's is about a session that the client calls by another id."""
        return self.to_client(line, jsonrpc.read_message(line)) != line

    def to_agent(self, line: bytes, message: Message) -> bytes:
        return _rewritten(line, message, self._agents) if self._agents else line

    def to_client(self, line: bytes, message: Message) -> bytes:
        return _rewritten(line, message, self._clients) if self._clients else line

    def _forget(self, agent: str) -> None:
        client = self._clients.pop(agent, None)
        if client is not None:
            self._size -= _cost(client, agent)
            if self._agents.get(client) == agent:
                del self._agents[client]


def _cost(client: str, agent: str) -> int:
    return _ENTRY + len(client) + len(agent)


def _rewritten(line: bytes, message: Message, ids: Mapping[str, str]) -> bytes:
    if isinstance(message, Batch):
        return _batch(line, message, ids)
    session = acp.session_id(message.params) if isinstance(message, Request | Notification) else None
    if session not in ids or session is None:
        return line
    try:
        return acp.with_session(line, ids[session])
    except (ValueError, KeyError):  # it cannot be taken apart: the other side will say that it does not know it
        return line


def _batch(line: bytes, batch: Batch, ids: Mapping[str, str]) -> bytes:
    text = splice.decode(line)
    try:
        spans = splice.elements(text, splice.whole(text)[0])
    except ValueError:
        return line
    new = [splice.decode(_rewritten(message.raw, message, ids)) for message in batch.messages]
    if len(spans) != len(new):
        return line
    return splice.encode(splice.replaced(text, list(zip(spans, new, strict=True))))


def renamed_result(line: bytes, session: str) -> bytes:
    """A response whose result names a session, with another id."""
    text = splice.decode(line)
    try:
        result = splice.members(text, splice.whole(text)[0])["result"]
        span = splice.members(text, result[0])["sessionId"]
    except (ValueError, KeyError):
        return line
    return splice.encode(splice.replaced(text, [(span, jsonrpc.dump(session).decode())]))
