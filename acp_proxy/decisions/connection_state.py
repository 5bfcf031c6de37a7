"""The parts of a connection that its other parts are built on."""

from acp_proxy.decisions.aliases import Aliases, ClientIds
from acp_proxy.decisions.capabilities import Services, Settings
from acp_proxy.decisions.handover.handovers import Handovers
from acp_proxy.decisions.open_requests import OpenRequests
from acp_proxy.decisions.session_tracker import SessionTracker
from acp_proxy.decisions.uncopied_sessions import UncopiedSessions
from acp_proxy.decisions.unnamed_agent import UnnamedAgentEntries
from acp_proxy.protocol import versions


class Negotiated:
    """What the client and the agent have agreed on. Only ``Negotiation`` changes it."""

    def __init__(self) -> None:
        self.dialect = versions.V1
        """That of the version of the protocol that they speak."""
        self.client_update_kinds: frozenset[str] = frozenset()
        """The optional kinds of updates that the client understands."""
        self.client_shows_agent_terminals = False
        """Whether the client shows the terminals that an agent runs itself."""
        self.accepted_content: frozenset[str] = frozenset()
        """The types of content blocks that the agent takes in a prompt, beside those that every agent takes."""
        self.sends_title_with_past = True
        """Whether the client gets the title made from the prompts. It does not if the agent's list shows another."""


class ConnectionState:
    """What most parts of one connection use, none of which knows a part outside of this."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.negotiated = Negotiated()
        self.open_requests = OpenRequests()
        self.session_tracker = SessionTracker(is_recording=settings.records)
        self.services = Services(settings.modes, may_serve=settings.records and settings.serves)
        self.unnamed_agent_entries = UnnamedAgentEntries()
        self.aliases = Aliases()
        self.client_ids = ClientIds()
        self.handovers = Handovers()
        self.uncopied_sessions = UncopiedSessions()
