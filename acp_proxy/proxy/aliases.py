"""Rewrites session ids in lines, both ways, for sessions that the agent knows by another id than the client.

Only ``params.sessionId`` changes; every other byte of a line stays. docs/transparency.md says when ids differ.
"""

from collections import OrderedDict
from collections.abc import Mapping

from msgspec.structs import replace

from acp_proxy.protocol import acp, framing, json_splice, jsonrpc
from acp_proxy.protocol.jsonrpc import Batch, Message, Notification, Peer, Request
from acp_proxy.proxy.effects import AmendTitles, Effect, Forward

LIMIT = 16 * 1024 * 1024
"""The most bytes of ids that are remembered: tens of thousands of sessions, each of which the client has opened."""
_ENTRY_OVERHEAD = 256


class Aliases:
    """The client's and the agent's ids of sessions for which they differ. False if there are none."""

    def __init__(self) -> None:
        self._size = 0
        self._agent_ids: dict[str, str] = {}
        self._client_ids: OrderedDict[str, str] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._agent_ids)

    def add(self, client_id: str, agent_id: str) -> None:
        """From now on, the client's id ``client_id`` is ``agent_id`` to the agent.

        Lines from the agent with an earlier id are still rewritten, since a turn may be under way there. Beyond the
        limit, the oldest pair is forgotten.
        """
        self._forget(agent_id)
        self._agent_ids[client_id] = agent_id
        self._client_ids[agent_id] = client_id
        self._size += _measure_pair(client_id, agent_id)
        while self._size > LIMIT and len(self._client_ids) > 1:
            self._forget(next(iter(self._client_ids)))

    def watch(self, session_id: str) -> None:
        """From now on, the session counts as one whose ids differ, although they may be the same: its lines are
        parsed."""
        self.add(session_id, self._agent_ids.get(session_id, session_id))

    def get_client_id(self, agent_id: str) -> str | None:
        """The client's id of the agent's session, or None if they are the same."""
        return self._client_ids.get(agent_id)

    def get_agent_id(self, client_id: str) -> str | None:
        """The agent's id of the client's session, or None if they are the same."""
        return self._agent_ids.get(client_id)

    def is_renamed(self, line: bytes) -> bool:
        """Whether a line from the agent names a session whose id must be rewritten."""
        return self.rewrite_for_client(line, jsonrpc.read_message(line)) != line

    def rewrite_for_agent(self, line: bytes, message: Message) -> bytes:
        """A line from the client as the agent must get it. ``message``: the same line, parsed."""
        return _rewrite_session_id(line, message, self._agent_ids) if self._agent_ids else line

    def rewrite_for_client(self, line: bytes, message: Message) -> bytes:
        """A line from the agent as the client must get it. ``message``: the same line, parsed."""
        return _rewrite_session_id(line, message, self._client_ids) if self._client_ids else line

    def _forget(self, agent_id: str) -> None:
        client_id = self._client_ids.pop(agent_id, None)
        if client_id is not None:
            self._size -= _measure_pair(client_id, agent_id)
            if self._agent_ids.get(client_id) == agent_id:
                del self._agent_ids[client_id]


class CopyIds(Aliases):
    """The ids by which the client knows sessions that it opened by the agent's id, where a session of ours continues.

    Of each pair, our id is in the place of the client's in ``Aliases``, and the id that the client uses in that of the
    agent's. What is sent to the client has the id that it used last.
    """

    def rewrite_from_client(self, line: bytes, message: Message) -> bytes:
        """A line from the client with our ids."""
        session_id = acp.session_id(message.params) if isinstance(message, Request | Notification) else None
        if session_id is not None and (client_id := self.get_client_id(session_id)) is not None:
            self.add(client_id, session_id)
        elif session_id is not None and self.find_client_id(session_id) is not None:
            self.add(session_id, session_id)
        return self.rewrite_for_client(line, message)

    def find_client_id(self, session_id: str) -> str | None:
        """The id by which the client knows our session now, if that is another one."""
        client_id = self._agent_ids.get(session_id)
        return client_id if client_id != session_id else None

    def rename_effects(self, effects: list[Effect]) -> list[Effect]:
        """The effects, with the client's ids in what is sent to it."""
        return [self._rename_effect(effect) for effect in effects] if self else effects

    @property
    def our_ids(self) -> dict[str, str]:
        """Our ids of the sessions that the client knows by another id, by that id."""
        return {client_id: session_id for session_id, client_id in self._agent_ids.items() if client_id != session_id}

    def _rename_effect(self, effect: Effect) -> Effect:
        match effect:
            case AmendTitles(data):
                return replace(effect, data=self._rename_lines(data), our_ids=self.our_ids)
            case Forward(to, data) if to is Peer.CLIENT:
                return replace(effect, data=self._rename_lines(data))
        return effect

    def _rename_lines(self, data: bytes) -> bytes:
        return b"".join(self.rewrite_for_agent(line, jsonrpc.read_message(line)) for line in framing.cut(data))


def _measure_pair(client_id: str, agent_id: str) -> int:
    return _ENTRY_OVERHEAD + len(client_id) + len(agent_id)


def _rewrite_session_id(line: bytes, message: Message, ids: Mapping[str, str]) -> bytes:
    if isinstance(message, Batch):
        return _rewrite_batch(line, message, ids)
    session_id = acp.session_id(message.params) if isinstance(message, Request | Notification) else None
    if session_id not in ids or session_id is None or ids[session_id] == session_id:
        return line
    try:
        return acp.with_session(line, ids[session_id])
    except (ValueError, KeyError):  # passes unchanged; the other side will answer that it does not know the session
        return line


def _rewrite_batch(line: bytes, batch: Batch, ids: Mapping[str, str]) -> bytes:
    text = json_splice.decode(line)
    try:
        spans = json_splice.find_elements(text, json_splice.find_value(text)[0])
    except ValueError:
        return line
    rewritten = [json_splice.decode(_rewrite_session_id(message.raw, message, ids)) for message in batch.messages]
    if len(spans) != len(rewritten):
        return line
    return json_splice.encode(json_splice.replace_spans(text, list(zip(spans, rewritten, strict=True))))


def with_result_session(line: bytes, session_id: str) -> bytes:
    """A response with ``session_id`` as its ``result.sessionId``; unchanged if the result has no id."""
    text = json_splice.decode(line)
    try:
        result = json_splice.find_members(text, json_splice.find_value(text)[0])["result"]
        span = json_splice.find_members(text, result[0])["sessionId"]
    except (ValueError, KeyError):
        return line
    return json_splice.encode(json_splice.replace_spans(text, [(span, jsonrpc.dump(session_id).decode())]))
