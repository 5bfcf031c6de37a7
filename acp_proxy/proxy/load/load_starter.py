"""Starts requests to open sessions: looks each session up in the store, then asks the agent for what its plan says.
Other requests about sessions that were not opened here are looked up too, since the agent may know another id.

Knows the requests that are being looked up. As soon as the agent is asked, a load belongs to ``LoadMachine``.
"""

from contextlib import suppress

from msgspec.structs import replace

from acp_proxy.protocol import acp, jsonrpc
from acp_proxy.protocol.jsonrpc import Peer, Request, RequestId, Response
from acp_proxy.proxy import own_messages
from acp_proxy.proxy.aliases import Aliases, CopyIds
from acp_proxy.proxy.capabilities import Services
from acp_proxy.proxy.effects import CloseTranscript, DecideLater, Effect, Forward, LookUpSession, SetArchived
from acp_proxy.proxy.events import SessionLookedUp
from acp_proxy.proxy.handover.continuations import Continuations
from acp_proxy.proxy.handover.handovers import Handovers
from acp_proxy.proxy.lists.jetbrains_index import INDEX_METHODS
from acp_proxy.proxy.load.load import Load
from acp_proxy.proxy.load.load_machine import LoadMachine
from acp_proxy.proxy.load.load_plan import RESEND_PLAN, LoadPlan, Refusal, plan_load, plan_passing
from acp_proxy.proxy.open_requests import OpenRequests
from acp_proxy.proxy.session_tracker import SessionTracker
from acp_proxy.proxy.uncopied_sessions import UncopiedSessions

_SESSION_METHODS = acp.RECORDED_REQUESTS | acp.RENAMES | {acp.STEERING, acp.CLOSE, acp.FORK, acp.STATUS}
_SESSION_METHODS |= acp.ARCHIVES | acp.UNARCHIVES
"""Requests, beside those to open and delete, that mean something here for the session that they name. In all others
the agent's id means the same to the agent."""


class LoadStarter:
    """The requests that are being looked up."""

    def __init__(
        self,
        services: Services,
        open_requests: OpenRequests,
        session_tracker: SessionTracker,
        load_machine: LoadMachine,
        continuations: Continuations,
        handovers: Handovers,
        aliases: Aliases,
        copy_ids: CopyIds,
    ) -> None:
        self._services = services
        self._open_requests = open_requests
        self._session_tracker = session_tracker
        self._load_machine = load_machine
        self._continuations = continuations
        self._handovers = handovers
        self._aliases = aliases
        self._copy_ids = copy_ids
        self.uncopied_sessions = UncopiedSessions()
        self._pending: dict[RequestId, tuple[Request, bytes]] = {}
        """By request id: those that are being looked up, with their lines."""
        self._refused_prompts: dict[RequestId, tuple[Load, Request, bytes]] = {}
        self._looked_up_ids: set[RequestId] = set()
        """The requests of ``look_up_if_unopened`` that were looked up, and are decided on once more."""

    def is_request_id_in_use(self, id: RequestId) -> bool:
        """Whether an open load, or a request that is being looked up, has this id."""
        return id in self._load_machine.loads or id in self._pending

    def is_being_looked_up(self, session_id: str) -> bool:
        """Whether a request about this session is being looked up."""
        return any(acp.session_id(request.params) == session_id for request, _ in self._pending.values()) or any(
            load.session_id == session_id for load, _, _ in self._refused_prompts.values()
        )

    def look_up_to_open(self, line: bytes, request: Request, session_id: str) -> list[Effect] | None:
        """A load or a resume from the client. None: it passes unchanged."""
        is_ours = self._services.serves_method(request.method)
        if self.is_request_id_in_use(request.id):
            in_use = own_messages.refuse(request.id, jsonrpc.INVALID_REQUEST, "This request id is in use")
            return [in_use] if is_ours else None
        self._pending[request.id] = request, line
        client_id = self._copy_ids.find_client_id(session_id)
        return [
            *self._load_machine.settle_before_next_load(session_id),
            LookUpSession(request.id, session_id, asks_index=is_ours, client_id=client_id),
        ]

    def look_up_other_id(self, line: bytes, request: Request) -> list[Effect] | None:
        """A request that reaches the agent, such as a delete: it may know the session by another id. None: it passes
        unchanged."""
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
        exists_here = self._session_tracker.sessions.is_tracked(session_id)
        return not exists_here and self._aliases.find_agent_id(session_id) is None

    def _unarchives(self, request: Request) -> bool:
        """Whether this asks the agent to unarchive a session that its list may show as archived here."""
        if request.method not in acp.UNARCHIVES or not self._services.may_amend_lists:
            return False
        return self._services.agent_serves(INDEX_METHODS[request.method].part)

    def begin_passing_load(self, line: bytes, request: Request, session_id: str) -> list[Effect] | None:
        """A load or a resume for which acp-proxy serves nothing. What the agent sends passes, and is compared anyway.

        None: it passes unchanged and unnoticed.
        """
        if self.is_request_id_in_use(request.id) or self._load_machine.loads.is_full:
            return None
        plan = plan_passing(request.method, keeps_client_id=False)
        return self._begin_load(line, Load(request, session_id, plan, has_transcript=True))

    def handle_looked_up(self, session: SessionLookedUp) -> list[Effect]:
        """The session was looked up: refuse the request, or ask the agent."""
        if session.request_id in self._refused_prompts:
            return self._open_new_session_for_prompt(session)
        if session.request_id not in self._pending:  # the store hung, and the request was answered in the meantime
            return []
        request, line = self._pending.pop(session.request_id)
        session_id = acp.session_id(request.params) or ""
        if session.our_id is not None and not self._copy_ids.has_client_id(session_id):
            self._copy_ids.add(session.our_id, session_id)
            return [DecideLater(Peer.CLIENT, [line])]
        if request.method == acp.DELETE:
            return self._ask_to_delete(line, request, session_id, session)
        if request.method in _SESSION_METHODS:
            return self._decide_again(line, request, session_id, session)
        if session.is_deleted:  # a prompt would revive it, in the directory that the client names
            return [
                *self._session_tracker.remember_deleted(session_id, request.params),
                _refuse_unknown(request, session_id),
            ]
        plan = self._plan(request, session_id, session)
        if session.errno_name is not None and self._services.serves_method(request.method):
            return [own_messages.refuse_unreadable(request.id, session.errno_name)]
        if plan is Refusal.NOT_FOUND:
            return [_refuse_unknown(request, session_id)]
        if isinstance(plan, Refusal):
            return [CloseTranscript(request.id), own_messages.refuse(request.id, jsonrpc.INTERNAL_ERROR, plan.value)]
        return self._serve_as_planned(line, request, session_id, session, plan)

    def _plan(self, request: Request, session_id: str, session: SessionLookedUp) -> LoadPlan | Refusal:
        """How a load or a resume is served, as ``plan_load`` says, and as far as nothing is too much."""
        self._session_tracker.drop_cancelled_prompts(session_id)
        is_in_turn = self._session_tracker.sessions.is_in_turn(session_id)
        if session.agent_has_only_part and not session.agent_lacks_it:
            is_ours_no_more = session.alias is not None and self._aliases.find_our_id(session.alias) is None
            self._handovers.expect_handover_record(session_id, handed_over_again=is_ours_no_more)
        if self._handovers.awaits_handover_record(session_id):
            session = replace(session, agent_has_only_part=True)
        served, modes = self._services.served_by_agent, self._services.modes
        plan = plan_load(request.method, session, served, modes, is_in_turn=is_in_turn)
        if plan is None or (not isinstance(plan, Refusal) and self._load_machine.loads.is_full):
            return Refusal.TOO_MANY if self._services.serves_method(request.method) else plan_passing(request.method)
        return plan

    def _serve_as_planned(
        self, line: bytes, request: Request, session_id: str, session: SessionLookedUp, plan: LoadPlan
    ) -> list[Effect]:
        """Ask the agent for what the plan says, or show the transcript."""
        session_loads = self._load_machine.loads.list_open_of_session(session_id)
        earlier_id = next((other.earlier_id for other in session_loads if other.earlier_id is not None), None)
        if earlier_id is None and self._session_tracker.sessions.is_tracked(session_id):
            earlier_id = self._aliases.find_agent_id(session_id) or session_id
        # An agent that is not asked goes on with its turn in the session that it has open.
        alias_effects = self._use_alias(session_id, session) if plan.agent_method is not None else []
        if session.is_uncopied:
            self.uncopied_sessions.add(session_id)
        close_effects: list[Effect] = [CloseTranscript(request.id)] if plan.passes_at_once else []
        others_may_append = (
            None if self._session_tracker.sessions.is_recorded(session_id) else session.is_open_elsewhere
        )
        load = Load(
            request,
            session_id,
            plan,
            has_transcript=session.has_transcript,
            others_may_append=others_may_append,
            earlier_id=earlier_id if earlier_id != (self._aliases.find_agent_id(session_id) or session_id) else None,
        )
        return [*alias_effects, *close_effects, *self._begin_load(line, load)]

    def _use_alias(self, session_id: str, session: SessionLookedUp) -> list[Effect]:
        """From now on, the agent gets the id that it knows."""
        if session.alias is None:
            return []
        if self._aliases.find_our_id(session.alias) is None:
            self._aliases.add(session_id, session.alias)
        return self._continuations.make_alias_effects(session_id, session.alias)

    def _decide_again(self, line: bytes, request: Request, session_id: str, session: SessionLookedUp) -> list[Effect]:
        """Answer an unarchive of a session that only acp-proxy has archived; decide on all other requests."""
        if session.is_archived_here and self._unarchives(request):
            return [CloseTranscript(request.id), SetArchived(request.id, session_id, True, False)]
        self._looked_up_ids.add(request.id)
        # As the client sent it, so that its id stays the client's.
        line = self._copy_ids.rewrite_for_client(line, request)
        return [CloseTranscript(request.id), *self._use_alias(session_id, session), DecideLater(Peer.CLIENT, [line])]

    def _ask_to_delete(self, line: bytes, request: Request, session_id: str, session: SessionLookedUp) -> list[Effect]:
        """Ask the agent to delete the session, by the id that it knows."""
        self._open_requests.add(Peer.CLIENT, request, session_id)
        line = self._aliases.rewrite_for_agent(line, request)
        if session.alias is not None:
            with suppress(ValueError, KeyError):
                line = acp.with_session_id(line, session.alias)
        return [CloseTranscript(request.id), Forward(Peer.AGENT, line)]

    def look_up_to_resend(self, load: Load, prompt: Request, refusal: bytes) -> list[Effect]:
        """The agent refused a prompt because it does not know the session: look that up, to send the prompt again in a
        new one.

        ``load``: the last one of the session. ``refusal``: the line of the agent's error, for the client if this fails.
        """
        self._refused_prompts[prompt.id] = load, prompt, refusal
        self._handovers.begin_resending(load.session_id, prompt.id)
        return [LookUpSession(prompt.id, load.session_id)]

    def retry_with_earlier_id(self, load: Load, answer: Response) -> list[Effect]:
        """The agent has answered a load. If it refuses an id that another window's agent gave the session, ask for the
        one that this window's agent had last. Otherwise returns nothing: that is the answer.

        An agent may know a session only in the process that opened it. Without us it would have been asked for the one
        that it has, or had until the client closed it, and what was said there elsewhere is in no other session.
        """
        earlier_id = self._load_machine.take_retry_id(load, answer)
        if earlier_id is None:
            return []
        self._aliases.add(load.session_id, earlier_id)
        return self._send_request(load.request.raw + b"\n", load)

    def handle_agent_end(self, reason: str) -> list[Effect]:
        """The agent has ended: answer the requests that are being looked up with an error, except prompts, which are
        open requests as well. ``reason``: its text."""
        self._refused_prompts.clear()
        effects: list[Effect] = [own_messages.refuse(id, jsonrpc.INTERNAL_ERROR, reason) for id in self._pending]
        self._pending.clear()
        return effects

    def _open_new_session_for_prompt(self, session: SessionLookedUp) -> list[Effect]:
        load, prompt, refusal = self._refused_prompts.pop(session.request_id)
        if not session.has_transcript:
            self._handovers.end_resending(load.session_id)
            return [DecideLater(Peer.AGENT, [refusal])]
        new_request = Request(load.request.raw, prompt.id, load.request.method, load.request.params)
        plan, refused_prompt = RESEND_PLAN, (prompt, refusal)
        return self._load_machine.begin_with_agent(
            Load(new_request, load.session_id, plan, has_transcript=True, refused_prompt=refused_prompt)
        )

    def _begin_load(self, line: bytes, load: Load) -> list[Effect]:
        """Ask the agent to open a session, or for a new one in its place."""
        settle_effects = self._load_machine.end_or_keep_previous(load)
        if load.plan.agent_method is None:
            return [*settle_effects, *self._load_machine.begin_without_agent(load)]
        if load.plan.agent_method == acp.NEW:
            return [*settle_effects, *self._load_machine.begin_with_agent(load)]
        try:
            request_effects = self._send_request(line, load)
        except ValueError as problem:
            id = load.request.id
            return [
                *settle_effects,
                CloseTranscript(id),
                own_messages.refuse(id, jsonrpc.INVALID_PARAMS, f"params: {problem}"),
            ]
        return [*settle_effects, *self._load_machine.begin_with_agent(load), *request_effects]

    def _send_request(self, line: bytes, load: Load) -> list[Effect]:
        """Send the agent a load's request, with the method of its plan. ``line``: the client's. Raises ValueError."""
        request, sends = load.request, load.plan.agent_method
        if sends is not None and sends != request.method:
            line = acp.with_method(request.raw, sends) + b"\n"
        self._open_requests.add(Peer.CLIENT, request, load.session_id, keeps_all=True)
        return [Forward(Peer.AGENT, self._aliases.rewrite_for_agent(line, request))]


def _refuse_unknown(request: Request, session_id: str) -> Effect:
    return own_messages.refuse(request.id, jsonrpc.RESOURCE_NOT_FOUND, f"Session not found: {session_id}")
