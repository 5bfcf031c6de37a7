"""Serves drafts of the protocol that the agent lacks: titles by the user, archived sessions, and status.

Does nothing unless ``Services.served_here`` names one of them, except that it has titles amended for JetBrains' index,
too. With an agent's own list, ``agent_list`` brings titles and archived sessions into its pages.
"""

from collections.abc import Callable

from acp_proxy.decisions import proxy_messages
from acp_proxy.decisions.capabilities import ARCHIVE, CLOSE, STATUS, TITLE
from acp_proxy.decisions.connection_state import ConnectionState
from acp_proxy.decisions.effects import AmendTitles, AnswerStatus, Effect, Forward, SetArchived, SetTitle
from acp_proxy.protocol import acp, jsonrpc, update_kinds
from acp_proxy.protocol.jsonrpc import Peer, Request, RequestId, Response
from acp_proxy.transcript.titles import AGENT_TITLE_LENGTH, clean

CLOSE_LIMIT = 64
"""The most sessions that acp-proxy asks the agent to close at once. An editor archives one."""


class DraftMethods:
    """The drafts that acp-proxy serves on one connection."""

    def __init__(
        self,
        shared: ConnectionState,
        end_opened_load: Callable[[str], list[Effect]],
        agent_has: Callable[[str], bool],
    ) -> None:
        """``end_opened_load``: settles what the agent sent about a session. ``agent_has``: whether the agent has a
        session."""
        self._services = shared.services
        self._open_requests = shared.open_requests
        self._session_tracker = shared.session_tracker
        self._end_opened_load = end_opened_load
        self._agent_has = agent_has
        self._aliases = shared.aliases
        self._close_count = 0
        self._closing: dict[RequestId, SetArchived] = {}
        """By the id of acp-proxy's own ``session/close``: what follows the answer."""

    def settles_updates(self, method: str) -> bool:
        """Whether a request with this method settles what the agent sent about its session before."""
        return method == acp.ARCHIVE and ARCHIVE in self._services.served_here

    def serve(self, request: Request) -> list[Effect] | None:
        """The effects of a request for a served draft; None for all other requests. Raises InvalidParams."""
        served_here, agent_has = self._services.served_here, self._agent_has
        match request.method:
            case acp.SET_TITLE if TITLE in served_here:
                session_id, raw_title = (acp.required_text(request.params, key) for key in ("sessionId", "title"))
                title = clean(raw_title, AGENT_TITLE_LENGTH)
                if title is None:
                    raise acp.InvalidParams("title is empty")
                return [SetTitle(request.id, session_id, agent_has(session_id), title)]
            case acp.ARCHIVE if ARCHIVE in served_here:
                return self._archive(request.id, acp.required_text(request.params, "sessionId"))
            case acp.UNARCHIVE if ARCHIVE in served_here:
                session_id = acp.required_text(request.params, "sessionId")
                return [SetArchived(request.id, session_id, agent_has(session_id), False)]
            case acp.STATUS if STATUS in served_here:
                session_id = acp.required_text(request.params, "sessionId")
                is_open = self._session_tracker.sessions.is_open(session_id)
                return [AnswerStatus(request.id, session_id, agent_has(session_id), is_open)]
        return None

    def handle_answer_to_own_request(self, message: Response) -> list[Effect] | None:
        """The effects of the agent's answer to a close of acp-proxy's own; None for all other answers."""
        archiving = self._closing.pop(message.id, None) if message.id is not None else None
        if archiving is None:
            return None
        return [*(self._session_tracker.track_closed(archiving.session_id) if message.error is None else []), archiving]

    def handle_agent_end(self) -> list[Effect]:
        """The agent has ended, and answers nothing more: archive what it was asked to close."""
        effects: list[Effect] = [*self._closing.values()]
        self._closing.clear()
        return effects

    def have_titles_amended(self, effects: list[Effect]) -> list[Effect]:
        """The effects, with the user's titles in updates for the client."""
        if TITLE not in self._services.served_here and not self._services.amends_jetbrains_index:
            return effects
        return [
            AmendTitles(effect.data, self._open_requests.list_session_ids(Peer.CLIENT, acp.RENAMES))
            if isinstance(effect, Forward)
            and effect.to is Peer.CLIENT
            and update_kinds.SESSION_INFO_BYTES in effect.data
            else effect
            for effect in effects
        ]

    def _archive(self, request: RequestId, session_id: str) -> list[Effect]:
        """Archive a session; cancel and close it first if it is open here."""
        archiving = SetArchived(request, session_id, self._agent_has(session_id), True)
        if not self._session_tracker.sessions.is_open(session_id):
            return [archiving]
        effects: list[Effect] = [*self._end_opened_load(session_id)]
        if self._session_tracker.sessions.is_in_turn(session_id):
            self._session_tracker.track_turn_cancel(session_id)
            effects.append(self._send_to_agent(jsonrpc.encode_notification(acp.CANCEL, {"sessionId": session_id})))
        if CLOSE not in self._services.served_by_agent or len(self._closing) >= CLOSE_LIMIT:
            return [*effects, archiving]
        self._close_count += 1
        id = RequestId(f'"{proxy_messages.OWN_IDS}close-{self._close_count}"')
        self._closing[id] = archiving
        return [*effects, self._send_to_agent(jsonrpc.encode_request(id, acp.CLOSE, {"sessionId": session_id}))]

    def _send_to_agent(self, line: bytes) -> Forward:
        return Forward(Peer.AGENT, self._aliases.rewrite_for_agent(line, jsonrpc.read_message(line)), is_own=True)
