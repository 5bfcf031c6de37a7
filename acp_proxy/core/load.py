"""The life of a request to open a session (load, resume, fork), as one table: state, event, what is done, next state.

``ASKED`` is the usual beginning: what the agent tells waits for its answer. The client may give up at any time; its
answer then waits for the client's output (``TAKE_OUTPUT``), so that nothing overtakes it. What is not in the table does
not change anything.
"""

import enum

from acp_proxy.core.planning import OpeningPlan
from acp_proxy.history.comparison import Comparison
from acp_proxy.history.late import InTurn, Sieve
from acp_proxy.history.verdict import Rule
from acp_proxy.wire.jsonrpc import Request


class LoadState(enum.Enum):
    ASKED = "the agent was asked; what it tells waits"
    PASSING = "the agent was asked; what it tells goes to the client as it comes"
    GIVEN_UP = "the client gave up; its answer waits for its output. The agent was asked"
    CANCELLED = "the client has its answer; nobody hears what the agent tells until its own"
    QUEUED = "the agent has agreed; another replay of this session goes first"
    TELLING = "the agent has agreed; the shell compares, and replays the transcript if that is to be shown"
    STOPPING = "the client gave up while the shell replays; its answer waits for its output"
    OPEN = "the client has its answer; what the agent tells until the next prompt is compared"
    TURN = "a turn behind that is under way: all is new but a replay that is still running"
    OVER = "nothing is in question any more"


class Happens(enum.Enum):
    AGREED = "the agent has answered with a result"
    REFUSED = "the agent has answered with an error"
    UNKNOWN = "the agent does not know the session, which can go on in a new one"
    FLOODED = "too much waits"
    GAVE_UP = "the client has cancelled its request"
    OUTPUT_TAKEN = "the client's output is locked for us"
    NEXT = "no other replay of this session is running"
    TOLD = "the shell has compared and replayed"
    PROMPTED = "the client prompts"
    CLOSED = "the client closes or opens the session again, or all ends"
    TURN_ENDED = "no prompt is open any more"
    ENDED = "the agent is gone"


class Do(enum.Enum):
    NOTE = "note that it was opened, and what came with that"
    WAIT_IN_LINE = "replay once no other replay of the session is running"
    TELL = "have the shell compare and replay"
    CLOSE_TRANSCRIPT = "close the transcript that was looked up"
    STOP = "stop the replay"
    TAKE_OUTPUT = "ask for the client's output"
    LET_GO = "what waits goes to the client"
    DROP = "what waits is dropped"
    HAND_BACK = "other lines that wait go to the client, or wait for an earlier request"
    ANSWER = "the agent's answer goes to the client"
    ANSWER_TOLD = "the replay's end goes to the client: the tail, the answer, states"
    SAY_CANCELLED = "the client's request is answered: it was cancelled"
    SAY_ENDED = "the client's request is answered: the agent is gone"
    OPEN_ANEW = "ask the agent for a new session in its place"
    SETTLE = "record what is new, and let go what waits"
    END_TURN = "let go what waits"


_GIVE_BACK = (Do.LET_GO, Do.HAND_BACK)

LIFE: dict[LoadState, dict[Happens, tuple[LoadState, tuple[Do, ...]]]] = {
    LoadState.ASKED: {
        Happens.AGREED: (LoadState.QUEUED, (Do.NOTE, Do.WAIT_IN_LINE)),
        Happens.REFUSED: (LoadState.OVER, (*_GIVE_BACK, Do.ANSWER, Do.CLOSE_TRANSCRIPT)),
        Happens.UNKNOWN: (LoadState.ASKED, (Do.DROP, Do.OPEN_ANEW)),
        Happens.FLOODED: (LoadState.PASSING, _GIVE_BACK),
        Happens.PROMPTED: (LoadState.PASSING, _GIVE_BACK),
        Happens.GAVE_UP: (LoadState.GIVEN_UP, (Do.CLOSE_TRANSCRIPT, Do.TAKE_OUTPUT)),
        Happens.ENDED: (LoadState.OVER, (*_GIVE_BACK, Do.SAY_ENDED, Do.CLOSE_TRANSCRIPT)),
    },
    LoadState.PASSING: {
        Happens.AGREED: (LoadState.OPEN, (Do.NOTE, Do.ANSWER, Do.CLOSE_TRANSCRIPT)),
        Happens.REFUSED: (LoadState.OVER, (Do.ANSWER, Do.CLOSE_TRANSCRIPT)),
        Happens.ENDED: (LoadState.OVER, (Do.SAY_ENDED, Do.CLOSE_TRANSCRIPT)),
    },
    LoadState.GIVEN_UP: {
        Happens.OUTPUT_TAKEN: (LoadState.CANCELLED, (Do.SAY_CANCELLED, Do.DROP, Do.HAND_BACK)),
        Happens.AGREED: (LoadState.OPEN, (Do.NOTE, Do.SAY_CANCELLED, Do.DROP, Do.HAND_BACK)),
        Happens.REFUSED: (LoadState.OVER, (Do.SAY_CANCELLED, Do.DROP, Do.HAND_BACK)),
        Happens.ENDED: (LoadState.OVER, (Do.SAY_CANCELLED, Do.DROP, Do.HAND_BACK)),
    },
    LoadState.CANCELLED: {
        Happens.AGREED: (LoadState.OPEN, (Do.DROP, Do.NOTE)),
        Happens.REFUSED: (LoadState.OVER, ()),
        Happens.ENDED: (LoadState.OVER, ()),
    },
    LoadState.QUEUED: {
        Happens.NEXT: (LoadState.TELLING, (Do.TELL,)),
        Happens.GAVE_UP: (LoadState.STOPPING, (Do.CLOSE_TRANSCRIPT, Do.TAKE_OUTPUT)),
    },
    LoadState.TELLING: {
        Happens.TOLD: (LoadState.OPEN, (Do.ANSWER_TOLD, Do.HAND_BACK)),
        Happens.GAVE_UP: (LoadState.STOPPING, (Do.STOP, Do.TAKE_OUTPUT)),
    },
    LoadState.STOPPING: {
        Happens.OUTPUT_TAKEN: (LoadState.OPEN, (Do.SAY_CANCELLED, Do.DROP, Do.HAND_BACK)),
        Happens.TOLD: (LoadState.OPEN, (Do.SAY_CANCELLED, Do.DROP, Do.HAND_BACK)),
    },
    LoadState.OPEN: {
        Happens.PROMPTED: (LoadState.TURN, (Do.SETTLE,)),
        Happens.CLOSED: (LoadState.OVER, (Do.SETTLE,)),
        Happens.ENDED: (LoadState.OVER, (Do.SETTLE,)),
    },
    LoadState.TURN: {
        Happens.TURN_ENDED: (LoadState.OVER, (Do.END_TURN,)),
        Happens.CLOSED: (LoadState.OVER, (Do.END_TURN,)),
        Happens.ENDED: (LoadState.OVER, (Do.END_TURN,)),
    },
    LoadState.OVER: {},
}

AWAITING = frozenset({LoadState.ASKED, LoadState.PASSING, LoadState.GIVEN_UP, LoadState.CANCELLED})
"""The agent has not answered."""
HOLDING = frozenset({LoadState.ASKED, LoadState.GIVEN_UP, LoadState.QUEUED, LoadState.TELLING, LoadState.STOPPING})
"""What comes of the session waits for the answer to the client."""
TELLS = frozenset({LoadState.QUEUED, LoadState.TELLING, LoadState.STOPPING})
"""The shell has the transcript open, or will."""


class Load:
    def __init__(self, request: Request, session: str, plan: OpeningPlan, *, has_transcript: bool) -> None:
        self.request = request
        self.session = session
        self.plan = plan
        self.state = LoadState.PASSING if plan.passes else LoadState.ASKED
        self.has_transcript = has_transcript
        """The store has a transcript of the session."""
        self.number = 0
        """Which of all requests it is."""
        self.follows = False
        """The client has got the answer to an earlier request for the session since this was asked."""
        self.recorded_since: list[bytes] = []
        """What was recorded of the agent's replay for an earlier request, since this one was asked."""
        self.response = b""
        self.told: list[tuple[bytes, bool]] = []
        """What the agent told of the conversation and nobody has compared yet; and whether behind its answer."""
        self.held: list[tuple[bytes, object]] = []
        """Lines for the client behind the answer; with the update, where it is to be compared first."""
        self.states: list[bytes] = []
        """State updates before the answer, recorded once the agent agrees; and so many bytes of them."""
        self.states_size = 0
        self.size = 0
        """Bytes that wait."""
        self.was_cancelled = False
        """The client gave up on one that passes: the agent may answer it all the same."""
        self.is_past = False
        """The client gave up, and a later request was answered or a whole turn has passed: the agent tells nothing for
        this any more."""
        self.is_imported = False
        """What the agent told before its answer began the transcript."""
        self.is_handed_over = False
        """It goes on in a new session of the agent."""
        self.is_ours = False
        """The client has seen the transcript."""
        self.alias: str | None = None
        """What the agent calls it from now on."""
        self.prompts: list[str] = []
        """The letters of prompts since then that the agent has not echoed."""
        self.rule: Rule | None = None
        self.comparison: Comparison | None = None
        self.sieve: Sieve | None = None
        self.turn: InTurn | None = None

    def steps(self, event: Happens) -> tuple[Do, ...]:
        """What is to be done; the state changes."""
        self.state, does = LIFE[self.state].get(event, (self.state, ()))
        return does

    @property
    def holds(self) -> bool:
        return self.state in HOLDING

    def compared(self, comparison: Comparison, *, ours: bool) -> None:
        self.comparison, self.is_ours = comparison, ours
        self.sieve = Sieve(comparison, ours=ours)
