"""Starts requests to open sessions, once the session was looked up: plans how each is served, and asks the agent for
what the plan says. From then on, a load belongs to ``LoadMachine``. ``LoadStarter`` then only asks again with an
earlier id, and opens a new session for a prompt that was refused.
"""

from msgspec.structs import replace

from acp_proxy.decisions import proxy_messages
from acp_proxy.decisions.connection_state import ConnectionState
from acp_proxy.decisions.effects import CloseTranscript, Effect, Forward
from acp_proxy.decisions.events import SessionLookedUp
from acp_proxy.decisions.handover.continuations import Continuations
from acp_proxy.decisions.load.load import Load
from acp_proxy.decisions.load.load_machine import LoadMachine
from acp_proxy.decisions.load.load_plan import RESEND_PLAN, LoadPlan, Refusal, plan_load, plan_passing
from acp_proxy.protocol import acp, jsonrpc
from acp_proxy.protocol.jsonrpc import Peer, Request, Response


class LoadStarter:
    """Starts the loads of one connection."""

    def __init__(self, shared: ConnectionState, load_machine: LoadMachine, continuations: Continuations) -> None:
        self._services = shared.services
        self._open_requests = shared.open_requests
        self._session_tracker = shared.session_tracker
        self._load_machine = load_machine
        self._continuations = continuations
        self._handovers = shared.handovers
        self._aliases = shared.aliases
        self._uncopied_sessions = shared.uncopied_sessions

    def begin_passing_load(self, line: bytes, request: Request, session_id: str) -> list[Effect] | None:
        """A load or a resume for which acp-proxy serves nothing. What the agent sends passes, and is compared anyway.

        None: it passes unchanged and unnoticed.
        """
        if self._load_machine.loads.has_too_many_holding:
            return None
        plan = plan_passing(request.method, keeps_our_id=False)
        return self._begin_load(line, Load(request, session_id, plan, has_transcript=True))

    def start(self, line: bytes, request: Request, session_id: str, session: SessionLookedUp) -> list[Effect]:
        """Serve a load or a resume of a session that was looked up, or refuse it."""
        if session.is_deleted:  # a prompt would revive it, in the directory that the client names
            return [
                *self._session_tracker.remember_deleted(session_id, request.params),
                _refuse_unknown(request, session_id),
            ]
        session = self._expect_handover_record(session_id, session)
        self._session_tracker.drop_cancelled_prompts(session_id)
        plan = self._plan(request, session_id, session)
        if session.errno_name is not None and self._services.serves_method(request.method):
            return [proxy_messages.refuse_unreadable(request.id, session.errno_name)]
        if plan is Refusal.NOT_FOUND:
            return [_refuse_unknown(request, session_id)]
        if isinstance(plan, Refusal):
            return [CloseTranscript(request.id), proxy_messages.refuse(request.id, jsonrpc.INTERNAL_ERROR, plan.value)]
        return self._serve_as_planned(line, request, session_id, session, plan)

    def _expect_handover_record(self, session_id: str, session: SessionLookedUp) -> SessionLookedUp:
        """Expect the handover record in the replay, if the session was handed over. Returns it with that known."""
        if session.agent_lacks_past and not session.agent_has_no_session:
            is_ours_no_more = session.alias is not None and self._aliases.find_our_id(session.alias) is None
            self._handovers.expect_handover_record(session_id, handed_over_again=is_ours_no_more)
        awaits_record = self._handovers.awaits_handover_record(session_id)
        return replace(session, agent_lacks_past=True) if awaits_record else session

    def _plan(self, request: Request, session_id: str, session: SessionLookedUp) -> LoadPlan | Refusal:
        """How a load or a resume is served, as ``plan_load`` says, and as far as nothing is too much."""
        is_in_turn = self._session_tracker.sessions.is_in_turn(session_id)
        served, modes = self._services.served_by_agent, self._services.modes
        plan = plan_load(request.method, session, served, modes, is_in_turn=is_in_turn)
        # There is always a plan for a method that is served (``choose_served_here``).
        if plan is None or (not isinstance(plan, Refusal) and self._load_machine.loads.has_too_many_holding):
            return Refusal.TOO_MANY if self._services.serves_method(request.method) else plan_passing(request.method)
        return plan

    def _serve_as_planned(
        self, line: bytes, request: Request, session_id: str, session: SessionLookedUp, plan: LoadPlan
    ) -> list[Effect]:
        """Ask the agent for what the plan says, or show the transcript."""
        session_loads = self._load_machine.loads.list_pending_of_session(session_id)
        earlier_id = next((other.earlier_id for other in session_loads if other.earlier_id is not None), None)
        if earlier_id is None and self._session_tracker.sessions.exists_in_run(session_id):
            earlier_id = self._aliases.find_agent_id(session_id) or session_id
        # An agent that is not asked goes on with its turn in the session that it has open.
        alias_effects = self.use_alias(session_id, session) if plan.agent_method is not None else []
        if session.is_uncopied:
            self._uncopied_sessions.add(session_id)
        close_effects: list[Effect] = [CloseTranscript(request.id)] if plan.passes_at_once else []
        # If this process has recorded the session, the last turn may be its own, whoever else has the transcript open.
        turn_may_run_elsewhere = (
            None if self._session_tracker.sessions.is_recorded(session_id) else session.is_in_use_elsewhere
        )
        load = Load(
            request,
            session_id,
            plan,
            has_transcript=session.has_transcript,
            turn_may_run_elsewhere=turn_may_run_elsewhere,
            agent_lacks_past=session.agent_lacks_past,
            earlier_id=earlier_id if earlier_id != (self._aliases.find_agent_id(session_id) or session_id) else None,
        )
        return [*alias_effects, *close_effects, *self._begin_load(line, load)]

    def use_alias(self, session_id: str, session: SessionLookedUp) -> list[Effect]:
        """From now on, the agent gets the id that it knows."""
        if session.alias is None:
            return []
        if self._aliases.find_our_id(session.alias) is None:
            self._aliases.add(session_id, session.alias)
        return self._continuations.make_alias_effects(session_id, session.alias)

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

    def open_new_session_for_prompt(self, load: Load, prompt: Request, refusal: bytes) -> list[Effect]:
        """Send a prompt that the agent refused again, in a new session. ``load``: the latest of its session.
        ``refusal``: the line of the agent's error."""
        new_request = Request(load.request.raw, prompt.id, load.request.method, load.request.params)
        return self._load_machine.begin_with_agent(
            Load(new_request, load.session_id, RESEND_PLAN, has_transcript=True, refused_prompt=(prompt, refusal))
        )

    def _begin_load(self, line: bytes, load: Load) -> list[Effect]:
        """Settle the previous load of the session, then ask the agent to open the session, or for a new one in its
        place, or have the transcript shown without asking."""
        settle_effects = self._load_machine.end_or_carry_over_previous(load)
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
                proxy_messages.refuse(id, jsonrpc.INVALID_PARAMS, f"params: {problem}"),
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
    return proxy_messages.refuse(request.id, jsonrpc.RESOURCE_NOT_FOUND, f"Session not found: {session_id}")
