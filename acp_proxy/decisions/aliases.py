"""Rewrites session ids in lines, both ways, for sessions that have more than one id.

A session has up to three: the client's, ours, which its transcript has, and the agent's. ``ClientIds`` stands between
the first two, ``Aliases`` between the last two. Where nothing differs, neither changes a line.

Only ``params.sessionId`` changes; every other byte of a line stays. docs/transparency.md says when ids differ.
"""

from collections import OrderedDict
from collections.abc import Mapping

from msgspec.structs import replace

from acp_proxy.decisions.effects import AmendTitles, Effect, Forward
from acp_proxy.protocol import acp, framing, json_splice, jsonrpc
from acp_proxy.protocol.jsonrpc import Batch, Message, Notification, Peer, Request

LIMIT = 16 * 1024 * 1024
"""The most characters of ids that are remembered: tens of thousands of sessions, each of which the client has
opened."""
_PAIR_OVERHEAD = 256


class IdPairs:
    """Sessions with two ids: one that is kept, and one that may be replaced. What is sent to the side that uses the
    second one has the latest; lines that come with an earlier one are still understood. False if there are none."""

    def __init__(self) -> None:
        self._size = 0
        self._latest_ids: dict[str, str] = {}
        """By the kept id."""
        self._kept_ids: OrderedDict[str, str] = OrderedDict()
        """By each id of the other side, the oldest first."""

    def __bool__(self) -> bool:
        return bool(self._latest_ids)

    def add(self, kept_id: str, latest_id: str) -> None:
        """From now on, the other side's id of ``kept_id`` is ``latest_id``. Lines with an earlier one are still
        rewritten, since a turn may be under way there. Beyond the limit, the oldest pair is forgotten."""
        self._forget(latest_id)
        self._latest_ids[kept_id] = latest_id
        self._kept_ids[latest_id] = kept_id
        self._size += _measure_pair(kept_id, latest_id)
        while self._size > LIMIT and len(self._kept_ids) > 1:
            self._forget(next(iter(self._kept_ids)))

    def _forget(self, other_id: str) -> None:
        kept_id = self._kept_ids.pop(other_id, None)
        if kept_id is not None:
            self._size -= _measure_pair(kept_id, other_id)
            if self._latest_ids.get(kept_id) == other_id:
                del self._latest_ids[kept_id]

    def with_latest_id(self, line: bytes, message: Message) -> bytes:
        """The line with the other side's latest id in place of the kept one. ``message``: the same line, parsed."""
        return _rewrite_session_id(line, message, self._latest_ids) if self._latest_ids else line

    def with_kept_id(self, line: bytes, message: Message) -> bytes:
        """The line with the kept id in place of any that the other side uses. ``message``: the same line, parsed."""
        return _rewrite_session_id(line, message, self._kept_ids) if self._kept_ids else line


class Aliases(IdPairs):
    """Our and the agent's ids of sessions for which they differ, or whose lines must be parsed. Ours is kept."""

    def require_parsing(self, session_id: str) -> None:
        """From now on, the session counts as one whose ids differ, although they may be the same, so its lines do not
        pass unparsed."""
        self.add(session_id, self._latest_ids.get(session_id, session_id))

    def find_our_id(self, agent_id: str) -> str | None:
        """Our id of the agent's session; None if it has no other, and was not given to ``require_parsing``."""
        return self._kept_ids.get(agent_id)

    def find_agent_id(self, our_id: str) -> str | None:
        """The agent's id of our session; None if it has no other, and was not given to ``require_parsing``."""
        return self._latest_ids.get(our_id)

    def names_alias(self, line: bytes) -> bool:
        """Whether a line from the agent names a session whose id must be rewritten."""
        return self.rewrite_from_agent(line, jsonrpc.read_message(line)) != line

    rewrite_for_agent = IdPairs.with_latest_id
    """A line with our ids as the agent must get it."""
    rewrite_from_agent = IdPairs.with_kept_id
    """A line from the agent with our ids."""


class ClientIds(IdPairs):
    """The client's ids of sessions that it opened by the agent's id, where a session of ours continues: a copy, or one
    that was handed over. Our id is kept; what is sent to the client has the id that it used last."""

    def has_client_id(self, client_id: str) -> bool:
        """Whether the client has used this id for a session of ours."""
        return client_id in self._kept_ids

    def track_and_rewrite_from_client(self, line: bytes, message: Message) -> bytes:
        """A line from the client with our ids. From now on, the client gets the id that it uses here."""
        session_id = acp.session_id(message.params) if isinstance(message, Request | Notification) else None
        if session_id is not None and (our_id := self._kept_ids.get(session_id)) is not None:
            self.add(our_id, session_id)
        elif session_id is not None and self.find_client_id(session_id) is not None:
            # The client uses our id now, and gets it in answers from here on. The pair stays for its earlier id.
            self.add(session_id, session_id)
        return self.with_kept_id(line, message)

    rewrite_for_client = IdPairs.with_latest_id
    """A line with the client's id in place of ours."""

    def find_client_id(self, our_id: str) -> str | None:
        """The id by which the client knows our session now, if that is another one."""
        client_id = self._latest_ids.get(our_id)
        return client_id if client_id != our_id else None

    def rewrite_effects(self, effects: list[Effect]) -> list[Effect]:
        """The effects, with the client's ids in what is sent to it."""
        return [self._rewrite_effect(effect) for effect in effects] if self else effects

    @property
    def our_ids_by_client_id(self) -> dict[str, str]:
        """Our ids of the sessions that the client knows by another id, by that id."""
        return {client_id: our_id for our_id, client_id in self._latest_ids.items() if client_id != our_id}

    def _rewrite_effect(self, effect: Effect) -> Effect:
        match effect:
            case AmendTitles(data):
                return replace(effect, data=self._rewrite_lines(data), our_ids_by_client_id=self.our_ids_by_client_id)
            case Forward(to, data) if to is Peer.CLIENT:
                return replace(effect, data=self._rewrite_lines(data))
        return effect

    def _rewrite_lines(self, data: bytes) -> bytes:
        return b"".join(self.rewrite_for_client(line, jsonrpc.read_message(line)) for line in framing.split_lines(data))


def _measure_pair(kept_id: str, other_id: str) -> int:
    return _PAIR_OVERHEAD + len(kept_id) + len(other_id)


def _rewrite_session_id(line: bytes, message: Message, ids: Mapping[str, str]) -> bytes:
    if isinstance(message, Batch):
        return _rewrite_batch(line, message, ids)
    session_id = acp.session_id(message.params) if isinstance(message, Request | Notification) else None
    if session_id not in ids or session_id is None or ids[session_id] == session_id:
        return line
    try:
        return acp.with_session_id(line, ids[session_id])
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
    try:
        return acp.with_text(line, session_id, "result", "sessionId")
    except (ValueError, KeyError):
        return line
