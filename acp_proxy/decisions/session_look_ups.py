"""Looks up sessions in the store before requests about them go on: which transcript a load shows, and by which id the
agent knows a session that was not opened here.
"""

from contextlib import suppress

from acp_proxy.decisions import proxy_messages
from acp_proxy.decisions.connection_state import ConnectionState
from acp_proxy.decisions.effects import CloseTranscript, DecideLater, Effect, Forward, LookUpSession, SetArchived
from acp_proxy.decisions.events import SessionLookedUp
from acp_proxy.decisions.lists.jetbrains_index import AGENT_INDEX_METHODS
from acp_proxy.decisions.load.load import Load
from acp_proxy.decisions.load.load_machine import LoadMachine
from acp_proxy.decisions.load.load_starter import LoadStarter
from acp_proxy.protocol import acp, jsonrpc
from acp_proxy.protocol.jsonrpc import Peer, Request, RequestId

_SESSION_METHODS = acp.RECORDED_REQUESTS | acp.RENAMES | {acp.STEERING, acp.CLOSE, acp.FORK, acp.STATUS}
_SESSION_METHODS |= acp.ARCHIVES | acp.UNARCHIVES
"""Requests, beside loads, resumes and deletes, that mean something here for the session that they name. In all others
the agent's id means the same to the agent."""


class SessionLookUps:
    """The requests of one connection that are being looked up."""

    def __init__(self, shared: ConnectionState, load_machine: LoadMachine, load_starter: LoadStarter) -> None:
        self._services = shared.services
        self._open_requests = shared.open_requests
        self._session_tracker = shared.session_tracker
        self._load_machine = load_machine
        self._load_starter = load_starter
        self._handovers = shared.handovers
        self._aliases = shared.aliases
        self._client_ids = shared.client_ids
        self._pending: dict[RequestId, tuple[Request, bytes]] = {}
        """By request id: those that are being looked up, with their lines."""
        self._refused_prompts: dict[RequestId, tuple[Load, Request, bytes]] = {}
        self._looked_up_ids: set[RequestId] = set()
        """The requests of ``look_up_if_unopened`` that were looked up, and are decided on once more."""

    def is_request_id_in_use(self, id: RequestId) -> bool:
        """Whether a pending load, or a request that is being looked up, has this id."""
        return id in self._load_machine.loads or id in self._pending

    def is_being_looked_up(self, session_id: str) -> bool:
        """Whether a request about this session is being looked up."""
        return any(acp.session_id(request.params) == session_id for request, _ in self._pending.values()) or any(
            load.session_id == session_id for load, _, _ in self._refused_prompts.values()
        )

    def look_up_to_open(self, line: bytes, request: Request, session_id: str) -> list[Effect]:
        """A load or a resume from the client."""
        self._pending[request.id] = request, line
        client_id = self._client_ids.find_client_id(session_id)
        return [
            *self._load_machine.settle_previous_at_look_up(session_id),
            LookUpSession(
                request.id, session_id, asks_index=self._services.serves_method(request.method), client_id=client_id
            ),
        ]

    def look_up_other_id(self, line: bytes, request: Request) -> list[Effect] | None:
        """A request about a session that the agent may know by another id, such as a delete, or that may be archived
        only here. None: it passes unchanged."""
        session_id = acp.session_id(request.params)
        if session_id is None or self.is_request_id_in_use(request.id):
            return None
        self._pending[request.id] = request, line
        return [LookUpSession(request.id, session_id, asks_index=False)]

    def look_up_if_unopened(self, line: bytes, request: Request) -> list[Effect] | None:
        """A request about a session that was not opened here, or an unarchive: that session may be archived only here.
        None: it is decided on as it is."""
        session_id = acp.session_id(request.params)
        if session_id is None or request.method not in _SESSION_METHODS:
            return None
        if request.id in self._looked_up_ids:
            self._looked_up_ids.discard(request.id)
            return None
        if not (self._may_have_other_id(session_id) or self._unarchives(request)):
            return None
        return self.look_up_other_id(line, request)

    def _may_have_other_id(self, session_id: str) -> bool:
        """Whether the store may know another id for a session that was not opened here."""
        if not (self._services.is_ready and self._session_tracker.is_recording):
            return False
        exists_in_run = self._session_tracker.sessions.exists_in_run(session_id)
        return not exists_in_run and self._aliases.find_agent_id(session_id) is None

    def _unarchives(self, request: Request) -> bool:
        """Whether this asks the agent to unarchive a session that its list may show as archived here."""
        if request.method not in acp.UNARCHIVES or not self._services.may_amend_lists:
            return False
        return self._services.agent_serves(AGENT_INDEX_METHODS[request.method].part)

    def look_up_to_resend(self, load: Load, prompt: Request, refusal: bytes) -> list[Effect]:
        """The agent refused a prompt because it does not know the session: look that up, to send the prompt again in a
        new one.

        ``load``: the latest of the session. ``refusal``: the line of the agent's error, for the client if this fails.
        """
        self._refused_prompts[prompt.id] = load, prompt, refusal
        self._handovers.begin_resending(load.session_id, prompt.id)
        return [LookUpSession(prompt.id, load.session_id)]

    def handle_looked_up(self, session: SessionLookedUp) -> list[Effect]:
        """The session was looked up: go on with its request."""
        if session.request_id in self._refused_prompts:
            return self._open_new_session_for_prompt(session)
        if session.request_id not in self._pending:  # the store hung, and the request was answered in the meantime
            return []
        request, line = self._pending.pop(session.request_id)
        session_id = acp.session_id(request.params) or ""
        if session.our_id is not None and not self._client_ids.has_client_id(session_id):
            self._client_ids.add(session.our_id, session_id)
            return [DecideLater(Peer.CLIENT, [line])]
        if request.method == acp.DELETE:
            return self._ask_to_delete(line, request, session_id, session)
        if request.method in _SESSION_METHODS:
            return self._decide_again(line, request, session_id, session)
        if comparison_effects := self._load_machine.line_handler.compare_before_request(session_id):
            # The agent has sent more since the request came. It belongs to the previous load.
            line = self._client_ids.rewrite_for_client(line, request)
            return [CloseTranscript(request.id), *comparison_effects, DecideLater(Peer.CLIENT, [line])]
        return self._load_starter.start(line, request, session_id, session)

    def _open_new_session_for_prompt(self, session: SessionLookedUp) -> list[Effect]:
        load, prompt, refusal = self._refused_prompts.pop(session.request_id)
        if session.has_transcript:
            return self._load_starter.open_new_session_for_prompt(load, prompt, refusal)
        self._handovers.end_resending(load.session_id)
        return [DecideLater(Peer.AGENT, [refusal])]

    def _decide_again(self, line: bytes, request: Request, session_id: str, session: SessionLookedUp) -> list[Effect]:
        """Answer an unarchive of a session that only acp-proxy has archived; decide on all other requests."""
        if session.is_archived_here and self._unarchives(request):
            return [CloseTranscript(request.id), SetArchived(request.id, session_id, True, False)]
        self._looked_up_ids.add(request.id)
        # As the client sent it, so that its id stays the client's.
        line = self._client_ids.rewrite_for_client(line, request)
        return [
            CloseTranscript(request.id),
            *self._load_starter.use_alias(session_id, session),
            DecideLater(Peer.CLIENT, [line]),
        ]

    def _ask_to_delete(self, line: bytes, request: Request, session_id: str, session: SessionLookedUp) -> list[Effect]:
        """Ask the agent to delete the session, by the id that it knows."""
        self._open_requests.add(Peer.CLIENT, request, session_id)
        line = self._aliases.rewrite_for_agent(line, request)
        if session.alias is not None:
            with suppress(ValueError, KeyError):
                line = acp.with_session_id(line, session.alias)
        return [CloseTranscript(request.id), Forward(Peer.AGENT, line)]

    def handle_agent_end(self, reason: str) -> list[Effect]:
        """The agent has ended: answer the requests that are being looked up with an error, except prompts that the
        agent refused, which are open requests as well. ``reason``: its text."""
        self._refused_prompts.clear()
        effects: list[Effect] = [proxy_messages.refuse(id, jsonrpc.INTERNAL_ERROR, reason) for id in self._pending]
        self._pending.clear()
        return effects
