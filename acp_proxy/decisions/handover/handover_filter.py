"""Leaves out of what the agent sends what handovers bring and the client must not see: the sessions that the agent
opens for acp-proxy, and what it repeats of a handover record. What may turn out to be either is held until that is
known.
"""

from acp_proxy.decisions.aliases import Aliases
from acp_proxy.decisions.connection_state import ConnectionState
from acp_proxy.decisions.load.current_loads import CurrentLoads
from acp_proxy.decisions.load.load_limits import HELD_BYTES_LIMIT
from acp_proxy.protocol import acp, jsonrpc
from acp_proxy.protocol.jsonrpc import Message, Notification, Peer, Request, Response

VisibleLines = list[tuple[bytes, Message]]
"""Lines that the client may see, each with the same line parsed."""


class HandoverFilter:
    """Filters all that the agent of one connection sends."""

    def __init__(self, shared: ConnectionState, loads: CurrentLoads) -> None:
        self._handovers = shared.handovers
        self._aliases = shared.aliases
        self._open_requests = shared.open_requests
        self._sessions = shared.session_tracker.sessions
        self._loads = loads
        self._unidentified_updates = UnidentifiedSessionUpdates()

    def filter(self, line: bytes, message: Message) -> VisibleLines:
        """The lines that the client may see now: this one or a part of it, after what was held and is none of these.

        ``message``: the same line, parsed.
        """
        if isinstance(message, Notification) and message.method == acp.UPDATE:
            lines = self._filter_update(line, message, acp.session_id(message.params))
            return [(each, message if each is line else jsonrpc.read_message(each)) for each in lines]
        # Another message about the session ends what only began like a record.
        held_lines = self._take_partial_lines(message) if self._handovers.holds_partial_lines else []
        return [*((each, jsonrpc.read_message(each)) for each in held_lines), (line, message)]

    def take_unidentified(self) -> list[bytes]:
        """The updates that waited until the session that the agent has opened for acp-proxy had a name, and still must
        be filtered."""
        return self._unidentified_updates.take(self._aliases)

    def take_all_partial_lines(self) -> VisibleLines:
        """What began like a record, since the agent has ended."""
        lines = self._handovers.take_all_partial_lines()
        return [(line, jsonrpc.read_message(line)) for line in lines]

    def _take_partial_lines(self, message: Message) -> list[bytes]:
        session_id = acp.session_id(message.params) if isinstance(message, Request | Notification) else None
        open_request = self._open_requests.find(Peer.CLIENT, message.id) if isinstance(message, Response) else None
        if open_request is not None:
            session_id = open_request.session_id
        return self._handovers.take_partial_lines(session_id) if session_id is not None else []

    def _filter_update(self, line: bytes, message: Notification, session_id: str | None) -> list[bytes]:
        if session_id is not None and self._may_be_opened_for_us(session_id):
            # If the client has asked for a session too, this may be that one, and the update passes.
            is_clients = self._open_requests.may_open_new_session
            lines = self._unidentified_updates.hold(line, is_with_client=is_clients)
            if not is_clients:
                return lines
        if session_id is None:
            return [line]
        if session_id in self._handovers.unwanted_ids:
            return []
        if session_id not in self._sessions:  # it may be a fork, before the agent names that
            for parent in self._open_requests.list_session_ids(Peer.CLIENT, (acp.FORK,)):
                self._handovers.expect_handover_record_of_fork(session_id, parent)
        if not self._handovers.may_repeat_handover_record(session_id):
            return [line]
        return self._handovers.remove_handover_record(session_id, line, message)

    def _may_be_opened_for_us(self, session_id: str) -> bool:
        """Whether this may be the session that the agent opens for a handover, and whose id only its answer will say.
        The client does not know that id, so it must not see the updates before that."""
        if not self._handovers.awaits_new_session:
            return False
        return session_id not in self._sessions and not self._loads.has_load_for_updates(session_id)


class UnidentifiedSessionUpdates:
    """Holds updates of unknown sessions while the agent opens one for acp-proxy, until its answer names it."""

    def __init__(self) -> None:
        self._lines: list[tuple[bytes, bool]] = []
        self._size = 0

    def hold(self, line: bytes, *, is_with_client: bool) -> list[bytes]:
        """Hold one more update. Returns what the client must get now: nothing, or everything if too much waits.

        ``is_with_client``: the client gets this update anyway, since it may have opened the session itself.
        """
        if self._size + len(line) <= HELD_BYTES_LIMIT:
            self._size += len(line)
            self._lines.append((line, is_with_client))
            return []
        if is_with_client:
            return []
        lines, self._lines, self._size = self._lines, [], 0
        return [*(held_line for held_line, was_with_client in lines if not was_with_client), line]

    def take(self, aliases: Aliases) -> list[bytes]:
        """The updates still to decide on, after the agent's answer: all but those that the client has, unless they
        belong to the session opened for acp-proxy. None is held from now on."""
        lines, self._lines, self._size = self._lines, [], 0
        return [line for line, is_with_client in lines if not is_with_client or aliases.names_alias(line)]
