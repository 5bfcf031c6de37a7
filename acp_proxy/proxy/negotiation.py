"""Decides with the answer to ``initialize`` what a connection speaks, what is recorded, and what acp-proxy serves."""

from acp_proxy.protocol import jsonrpc, versions
from acp_proxy.protocol.jsonrpc import Message, Peer, Response
from acp_proxy.protocol.versions import Dialect
from acp_proxy.proxy import capabilities
from acp_proxy.proxy.capabilities import Answerers, Settings
from acp_proxy.proxy.effects import Effect, Forward, IdentifyAgent, ProtocolVersion, Warn
from acp_proxy.proxy.handover.continuations import Continuations
from acp_proxy.proxy.lists import jetbrains_index
from acp_proxy.proxy.load.load_machine import LoadMachine
from acp_proxy.proxy.session_entries import SessionEntries
from acp_proxy.proxy.unnamed_agent import UnnamedAgentEntries


class Negotiation:
    """What the client and the agent have agreed on. ``dialect``: that of the version that they speak."""

    def __init__(
        self,
        settings: Settings,
        answerers: Answerers,
        session_entries: SessionEntries,
        unnamed_agent_entries: UnnamedAgentEntries,
        machine: LoadMachine,
        continuations: Continuations,
    ) -> None:
        self.dialect = versions.V1
        self._settings = settings
        self._answerers = answerers
        self._session_entries = session_entries
        self._unnamed_agent_entries = unnamed_agent_entries
        self._machine = machine
        self._continuations = continuations
        self._initialize: object = None
        """The parameters of the client's ``initialize``."""
        self._recall: tuple[str, ...] = ()
        """The command of recall's server, as soon as the agent has said that it starts servers."""

    def read_client_line(self, line: bytes) -> tuple[bytes, Message]:
        """Read a client's line. Returns it, with recall's MCP server added if it opens a session, and its message as
        version 1 of the protocol would have it."""
        message = self.dialect.read_as_v1(jsonrpc.read_message(line))
        if (
            not self._recall
            or (with_server := capabilities.add_recall(line, message, self._recall, self.dialect)) is line
        ):
            return line, message
        return with_server, self.dialect.read_as_v1(jsonrpc.read_message(with_server))

    def handle_initialize(self, params: object) -> None:
        self._initialize = params

    def handle_initialize_answer(self, line: bytes, message: Response) -> list[Effect]:
        """The agent has answered ``initialize``: ``message`` is the answer, ``line`` the same as bytes."""
        if message.error is not None:
            return [Forward(Peer.CLIENT, line)]
        offer = capabilities.read_offer(message.result)
        answerers = self._answerers
        answerers.served_by_agent, answerers.supports_directories = offer.served_by_agent, offer.supports_directories
        self._machine.accepted_content = offer.accepted_content
        answerers.is_ready = answerers.gives_titles = False
        answerers.index_parts = frozenset()
        self._recall = ()
        if offer.dialect is None:
            # Lines of another version may mean something else, so nothing is recorded and nothing is served.
            version = (
                jsonrpc.make_printable(jsonrpc.dump(offer.version).decode()) if offer.version is not None else "none"
            )
            return self._stand_aside(
                line, f"the agent's protocolVersion is {version}, and acp-proxy records versions 1 and 2"
            )
        if offer.has_store(self._settings.store):
            return self._stand_aside(line, "another acp-proxy, nearer to the agent, has the same store. Remove one.")
        self._recall = self._settings.recall if offer.starts_servers else ()
        if self._settings.records:
            self._session_entries.start()
        effects: list[Effect] = self._set_dialect(offer.dialect)
        if not self._unnamed_agent_entries.is_named:
            effects += self._unnamed_agent_entries.take(IdentifyAgent(offer.name, offer.release))
        line, answerers.served_here = capabilities.add_capabilities(line, offer, self._settings)
        answerers.is_ready = answerers.is_wanted and offer.has_sessions
        answerers.index_parts = jetbrains_index.find_offered_parts(self._initialize, message.result)
        self._machine.sends_titles = capabilities.LIST in answerers.served_here
        self._continuations.are_listed = capabilities.LIST in offer.served_by_agent
        fills_agents_list = (
            answerers.is_wanted and offer.dialect.fills_titles and answerers.modes.list != capabilities.AGENT
        )
        answerers.gives_titles = fills_agents_list or capabilities.LIST in answerers.served_here
        return [*effects, Forward(Peer.CLIENT, line)]

    def _set_dialect(self, dialect: Dialect) -> list[Effect]:
        """From here on, lines are of this version."""
        previous, self.dialect = self.dialect, dialect
        self._machine.client_update_kinds, self._machine.dialect = dialect.find_allowed_kinds(self._initialize), dialect
        return [ProtocolVersion(dialect.version)] if dialect is not previous else []

    def _stand_aside(self, line: bytes, reason: str) -> list[Effect]:
        """Record nothing and serve nothing. ``line``: the answer to ``initialize``."""
        self._session_entries.stop()
        self._unnamed_agent_entries.drop()
        self._answerers.served_here = ()
        warning = [Warn(f"nothing is recorded: {reason}")] if self._settings.records else []
        return [*warning, Forward(Peer.CLIENT, line)]
