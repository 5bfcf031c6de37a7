"""The parts of a connection that its other parts are built on."""

from acp_proxy.proxy.aliases import Aliases, CopyIds
from acp_proxy.proxy.capabilities import Services, Settings
from acp_proxy.proxy.handover.handovers import Handovers
from acp_proxy.proxy.open_requests import OpenRequests
from acp_proxy.proxy.session_tracker import SessionTracker
from acp_proxy.proxy.unnamed_agent import UnnamedAgentEntries


class SharedParts:
    """What most parts of one connection use, none of which knows a part outside of this."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.open_requests = OpenRequests()
        self.session_tracker = SessionTracker(is_recording=settings.records)
        self.services = Services(settings.modes, may_serve=settings.records and settings.serves)
        self.unnamed_agent_entries = UnnamedAgentEntries()
        self.aliases = Aliases()
        self.copy_ids = CopyIds()
        self.handovers = Handovers()
