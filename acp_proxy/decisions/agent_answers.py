"""Decides about the agent's answers: to requests of acp-proxy's own, and to the client's that mean something here."""

from acp_proxy.decisions.connection_state import ConnectionState
from acp_proxy.decisions.draft_methods import DraftMethods
from acp_proxy.decisions.effects import Effect, Forward
from acp_proxy.decisions.lists import jetbrains_index
from acp_proxy.decisions.lists.agent_list import AgentList
from acp_proxy.decisions.lists.jetbrains_index import JetBrainsIndex
from acp_proxy.decisions.load.load_machine import LoadMachine
from acp_proxy.decisions.load.load_starter import LoadStarter
from acp_proxy.decisions.message_tracker import MessageTracker
from acp_proxy.decisions.negotiation import Negotiation
from acp_proxy.decisions.open_requests import OpenRequest
from acp_proxy.decisions.turn_ends import TurnEnds
from acp_proxy.protocol import acp, versions
from acp_proxy.protocol.jsonrpc import Peer, Response
from acp_proxy.transcript.file_format import NoteType
from acp_proxy.transcript.rewinds import parse_fork_point


class AgentAnswers:
    """The answers of one connection's agent."""

    def __init__(
        self,
        shared: ConnectionState,
        negotiation: Negotiation,
        message_tracker: MessageTracker,
        load_machine: LoadMachine,
        load_starter: LoadStarter,
        draft_methods: DraftMethods,
        jetbrains_index: JetBrainsIndex,
        agent_list: AgentList,
        turn_ends: TurnEnds,
    ) -> None:
        self._negotiated = shared.negotiated
        self._negotiation = negotiation
        self._services = shared.services
        self._open_requests = shared.open_requests
        self._session_tracker = shared.session_tracker
        self._message_tracker = message_tracker
        self._load_machine = load_machine
        self._load_starter = load_starter
        self._handovers = shared.handovers
        self._draft_methods = draft_methods
        self._jetbrains_index = jetbrains_index
        self._agent_list = agent_list
        self._turn_ends = turn_ends

    def handle(self, line: bytes, message: Response) -> list[Effect]:
        """The agent's answer: to a request of acp-proxy's own, to a load, to a prompt, or to another of the client's
        that means something here. All others pass."""
        if (own_effects := self._agent_list.handle_answer_to_own_request(line, message)) is not None:
            return own_effects
        if (own_effects := self._draft_methods.handle_answer_to_own_request(message)) is not None:
            return own_effects
        open_request = self._open_requests.take(Peer.CLIENT, message.id)
        if open_request is None:
            return [Forward(Peer.CLIENT, line)]
        if (load := self._load_machine.loads.find_pending_by_request(open_request.request)) is not None:
            if resent := self._load_starter.retry_with_earlier_id(load, message):
                return resent
            return [
                *self._load_machine.handle_agents_answer(load, line, message),
                *self._message_tracker.track_early_updates(),
            ]
        if open_request.request.method == acp.PROMPT and open_request.session_id is not None:
            return self._turn_ends.handle_prompt_answer(open_request, open_request.session_id, line, message)
        return self._handle_other_answer(open_request, line, message)

    def _handle_other_answer(self, open_request: OpenRequest, line: bytes, message: Response) -> list[Effect]:
        """The answer to a request that neither opens a session by its id nor prompts."""
        request, session_id = open_request.request, open_request.session_id
        is_recording, has_succeeded = self._session_tracker.is_recording, message.error is None
        if request.method == acp.FORK and (fork := acp.session_id(message.result)) is not None:
            return [*self._handle_fork(open_request, fork, message), Forward(Peer.CLIENT, line)]
        effects: list[Effect] = [*self._message_tracker.track_answer(open_request, message)]
        match request.method:
            case acp.INITIALIZE:
                return effects + self._negotiation.handle_initialize_answer(line, message)
            case acp.LIST if is_recording and has_succeeded and self._services.amends_agents_list:
                return [*effects, self._agent_list.handle_page(line, request, message.result)]
            case acp.STEERING if session_id is not None and acp.is_steered(message.result):
                if self._negotiated.dialect is versions.V1:  # in version 2, the agent repeats what it takes
                    effects += self._session_tracker.track_steering(session_id, request.raw)
            case acp.DELETE if is_recording and has_succeeded and session_id is not None:
                effects += self._load_machine.delete_session(session_id)
            case method if is_recording and has_succeeded and method in jetbrains_index.AGENT_INDEX_METHODS:
                return [*effects, *self._jetbrains_index.handle_answer(line, open_request, message)]
        return [*effects, Forward(Peer.CLIENT, line)]

    def _handle_fork(self, open_request: OpenRequest, fork: str, message: Response) -> list[Effect]:
        """The agent has opened a fork. Until this answer nobody knew its id: what came for it may be the parent's past,
        so it is not recorded with the answer, but compared."""
        request = open_request.request
        raw_updates = self._session_tracker.take_early_conversation(fork)
        effects: list[Effect] = [*self._message_tracker.track_answer(open_request, message)]
        if not self._session_tracker.is_recording:
            return effects
        expects_record = self._handovers.expect_handover_record_of_fork(fork, open_request.session_id or "")
        if expects_record and parse_fork_point(request.params) is not None:  # the copy may end before the note
            effects += self._session_tracker.note(fork, NoteType.HANDOVER)
        return effects + self._load_machine.add_fork(request, fork, raw_updates)
