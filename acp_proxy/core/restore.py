"""One load that is under way: what was planned, how far it is, and what it holds back meanwhile."""

import enum

from acp_proxy.core.planning import Past, Plan
from acp_proxy.wire.jsonrpc import Request


class Phase(enum.Enum):
    ASKED = "the agent has not answered yet"
    QUEUED = "the agent has restored it; another replay of the same session goes first"
    REPLAYING = "ours is being told, or weighed against the agent's"
    CANCELLED = "the client has its answer; the agent's is still to come, and to be swallowed"


class Restore:
    """One ``session/load`` (or ``session/resume``) of the client."""

    def __init__(
        self, request: Request, session: str, plan: Plan, *, held_here: bool, complete: bool, live: bool
    ) -> None:
        self.request = request
        self.session = session
        self.plan = plan
        self.held_here = held_here
        """Whether the store has a transcript of it."""
        self.complete = complete
        """Whether that transcript is known to have all."""
        self.live = live
        """Whether a turn was under way when the load came, or came since: then nothing is the past or dropped."""
        self.phase = Phase.ASKED
        self.response = b""
        self.held: list[bytes] = []
        """Lines of this session for the client, after the answer."""
        self.states: list[bytes] = []
        """State updates among them that are recorded once the agent agrees; so many bytes of them, and no more."""
        self.states_size = 0
        self.history: list[bytes] = []
        """The agent's own telling, as it came."""
        self.imported: list[bytes] = []
        """The agent's own telling, which has passed already, and is recorded once the agent agrees."""
        self.size = 0
        """Bytes that wait."""
        self.let_go = False
        """It was too much: what waited has left, and nothing waits any more."""
        self.releases = False
        """It was cancelled: its answer, and behind it what waited, are about to leave. Until then more waits behind."""
        self.handed_over = False
        """It continues in a new session of the agent."""

    @property
    def awaits_past(self) -> bool:
        """Whether what the agent tells of the conversation now is what was, told again."""
        return not self.live and self.phase in (Phase.ASKED, Phase.CANCELLED)

    @property
    def holds(self) -> bool:
        is_over = self.phase is Phase.CANCELLED and not self.releases
        return not is_over and not self.let_go and self.plan.past is not Past.IMPORTED

    def taken(self) -> list[bytes]:
        """What was held, and is no longer."""
        held, self.held, self.size = self.held, [], 0
        return held
