"""Decides with the answer to ``initialize`` what a connection speaks, what is recorded, and what acp-proxy serves."""

from acp_proxy.decisions import capabilities
from acp_proxy.decisions.connection_state import ConnectionState
from acp_proxy.decisions.effects import Effect, Forward, IdentifyAgent, SetProtocolVersion, Warn
from acp_proxy.decisions.handover.continuations import Continuations
from acp_proxy.decisions.lists import jetbrains_index
from acp_proxy.protocol import acp, agent_terminals, jsonrpc
from acp_proxy.protocol.jsonrpc import Message, Peer, Response
from acp_proxy.protocol.versions import Dialect


class Negotiation:
    """Brings about the ``Negotiated`` of a connection."""

    def __init__(self, shared: ConnectionState, continuations: Continuations) -> None:
        self._negotiated = shared.negotiated
        self._settings = shared.settings
        self._services = shared.services
        self._session_tracker = shared.session_tracker
        self._unnamed_agent_entries = shared.unnamed_agent_entries
        self._continuations = continuations
        self._initialize_params: object = None
        """The parameters of the client's ``initialize``."""
        self._recall: tuple[str, ...] = ()
        """The command of recall's server, as soon as the agent has said that it starts servers."""

    def read_and_amend_client_line(self, line: bytes) -> tuple[bytes, Message]:
        """Read a client's line. Returns it, with recall's MCP server added if it opens a session, and its message as
        version 1 of the protocol would have it."""
        dialect = self._negotiated.dialect
        message = dialect.read_as_v1(jsonrpc.read_message(line))
        if (
            not self._recall
            or (with_server := capabilities.with_recall_server(line, message, self._recall, dialect)) is line
        ):
            return line, message
        return with_server, dialect.read_as_v1(jsonrpc.read_message(with_server))

    def handle_initialize(self, params: object) -> None:
        self._initialize_params = params

    def handle_initialize_answer(self, line: bytes, message: Response) -> list[Effect]:
        """The agent has answered ``initialize``: ``message`` is the answer, ``line`` the same as bytes."""
        if message.error is not None:
            return [Forward(Peer.CLIENT, line)]
        offer = capabilities.read_offer(message.result)
        services = self._services
        services.served_by_agent, services.supports_directories = offer.served_by_agent, offer.supports_directories
        self._negotiated.accepted_content = offer.accepted_content
        services.is_ready = services.fills_titles = False
        services.jetbrains_index_capabilities = frozenset()
        self._recall = ()
        if offer.dialect is None:
            # Lines of another version may mean something else, so nothing is recorded and nothing is served.
            return self._stand_aside(line, capabilities.explain_unknown_version(offer))
        if offer.records_into(self._settings.store_id):
            return self._stand_aside(line, "another acp-proxy, nearer to the agent, has the same store. Remove one.")
        self._recall = self._settings.recall_command if offer.starts_servers else ()
        if self._settings.records:
            self._session_tracker.start_recording()
        effects: list[Effect] = self._set_dialect(offer.dialect)
        if not self._unnamed_agent_entries.is_folder_known:
            effects += self._unnamed_agent_entries.handle_identification(IdentifyAgent(offer.name, offer.agent_version))
        line, services.served_here = capabilities.add_capabilities(line, offer, self._settings)
        services.is_ready = services.may_serve and offer.supports_sessions
        services.jetbrains_index_capabilities = jetbrains_index.find_index_capabilities(
            self._initialize_params, message.result
        )
        self._negotiated.sends_title_with_past = capabilities.LIST in services.served_here
        self._continuations.are_listed = capabilities.LIST in offer.served_by_agent
        fills_agents_list = (
            services.may_serve and offer.dialect.fills_titles and services.modes.list != capabilities.AGENT
        )
        services.fills_titles = fills_agents_list or capabilities.LIST in services.served_here
        return [*effects, Forward(Peer.CLIENT, line)]

    def _set_dialect(self, dialect: Dialect) -> list[Effect]:
        """From here on, lines are of this version."""
        previous, self._negotiated.dialect = self._negotiated.dialect, dialect
        self._negotiated.client_update_kinds = dialect.find_allowed_kinds(self._initialize_params)
        self._negotiated.client_shows_agent_terminals = agent_terminals.are_shown(
            acp.member(self._initialize_params, "clientCapabilities")
        )
        return [SetProtocolVersion(dialect.version)] if dialect is not previous else []

    def _stand_aside(self, line: bytes, reason: str) -> list[Effect]:
        """Record nothing and serve nothing. ``line``: the answer to ``initialize``."""
        self._session_tracker.stop_recording()
        self._unnamed_agent_entries.drop()
        self._services.served_here = ()
        warning = [Warn(f"nothing is recorded: {reason}")] if self._settings.records else []
        return [*warning, Forward(Peer.CLIENT, line)]
