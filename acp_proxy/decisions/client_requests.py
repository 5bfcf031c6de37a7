"""Decides about the client's requests that acp-proxy answers itself, or for which it first looks something up."""

from acp_proxy.decisions import capabilities, proxy_messages
from acp_proxy.decisions.connection_state import ConnectionState
from acp_proxy.decisions.draft_methods import DraftMethods
from acp_proxy.decisions.effects import Effect, ListSessions
from acp_proxy.decisions.lists import amend_list
from acp_proxy.decisions.lists.agent_list import AgentList
from acp_proxy.decisions.lists.jetbrains_index import JetBrainsIndex
from acp_proxy.decisions.load.load_machine import LoadMachine
from acp_proxy.decisions.load.load_starter import LoadStarter
from acp_proxy.decisions.session_look_ups import SessionLookUps
from acp_proxy.protocol import acp, jsonrpc
from acp_proxy.protocol.jsonrpc import Request


class ClientRequests:
    """The requests of one connection's client."""

    def __init__(
        self,
        shared: ConnectionState,
        load_machine: LoadMachine,
        load_starter: LoadStarter,
        look_ups: SessionLookUps,
        draft_methods: DraftMethods,
        jetbrains_index: JetBrainsIndex,
        agent_list: AgentList,
    ) -> None:
        self._services = shared.services
        self._session_tracker = shared.session_tracker
        self._load_machine = load_machine
        self._load_starter = load_starter
        self._look_ups = look_ups
        self._draft_methods = draft_methods
        self._jetbrains_index = jetbrains_index
        self._agent_list = agent_list

    def intercept(self, line: bytes, request: Request) -> list[Effect] | None:
        """The effects of a request that acp-proxy answers itself, or for which it looks something up or keeps a load
        before the agent gets it; None for all others, which are simply forwarded."""
        try:
            if request.method in (acp.LOAD, acp.RESUME):
                return self._open(line, request)
            if (looked_up := self._look_ups.look_up_if_unopened(line, request)) is not None:
                return looked_up
            if (own_effects := self._draft_methods.serve(request)) is not None:
                return own_effects
            if (own_effects := self._jetbrains_index.serve(request)) is not None:
                return own_effects
            if (own_effects := self._agent_list.adapt_request(line, request)) is not None:
                return own_effects
            if request.method == acp.LIST and capabilities.LIST in self._services.served_here:
                return [self._list(request)]
            if request.method == acp.DELETE:
                return self._delete(line, request)
        except acp.InvalidParams as problem:
            return [proxy_messages.refuse(request.id, jsonrpc.INVALID_PARAMS, str(problem))]
        return None

    def _open(self, line: bytes, request: Request) -> list[Effect] | None:
        """A load or a resume. Raises InvalidParams."""
        if not self._session_tracker.is_recording:
            return None
        is_ours = self._services.serves_method(request.method)
        try:
            session_id = acp.required_text(request.params, "sessionId")
        except acp.InvalidParams:
            if is_ours:
                raise
            return None  # the agent refuses it
        if self._look_ups.is_request_id_in_use(request.id):
            in_use = proxy_messages.refuse(request.id, jsonrpc.INVALID_REQUEST, "This request id is in use")
            return [in_use] if is_ours else None
        if self._services.is_ready:
            return self._look_ups.look_up_to_open(line, request, session_id)
        return self._load_starter.begin_passing_load(line, request, session_id)

    def _list(self, request: Request) -> Effect:
        """A list that acp-proxy answers. Raises InvalidParams."""
        services = self._services
        cwd, cursor = (acp.optional_text(request.params, key) for key in ("cwd", "cursor"))
        if cwd is not None and not acp.is_absolute(cwd):
            raise acp.InvalidParams("cwd must be an absolute path")
        has_archive = capabilities.ARCHIVE in services.served_here
        archived = amend_list.read_archive_filter(request.params) if has_archive else None
        return ListSessions(
            request.id, cwd, cursor, services.supports_directories, archived, services.opens_other_agents_sessions
        )

    def _delete(self, line: bytes, request: Request) -> list[Effect] | None:
        """A delete. Raises InvalidParams."""
        if self._services.serves_delete(request.params):
            return self._load_machine.delete_session(acp.required_text(request.params, "sessionId"), request.id)
        if self._session_tracker.is_recording and self._services.is_ready:
            return self._look_ups.look_up_other_id(line, request)
        return None
