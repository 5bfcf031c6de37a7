"""The states of a request to open a session (load, resume or fork), and the table of its transitions, ``TRANSITIONS``.

A load usually begins as ``ASKED``: what the agent sends waits for its answer. The client may cancel at any time; the
answer to that is sent only after the client's output is reserved, so that nothing overtakes it. An event that the table
does not have for a state changes nothing.
"""

import enum

from acp_proxy.comparison.choose_replay import Rule
from acp_proxy.comparison.compare import Comparison
from acp_proxy.comparison.late_updates import LateUpdates
from acp_proxy.protocol.jsonrpc import Request
from acp_proxy.proxy.load.plan import LoadPlan


class LoadState(enum.Enum):
    """The state of a load."""

    ASKED = "the agent was asked; what it sends waits"
    PASSING = "the agent was asked; what it sends goes to the client at once"
    GIVEN_UP = "the agent was asked; the client has cancelled, and its answer waits for the client's output"
    CANCELLED = "the agent was asked; the client has its answer, and gets nothing of what the agent sends"
    QUEUED = "the agent has agreed; another replay of this session goes first"
    TELLING = "the agent has agreed; ``run`` compares, and replays the transcript if that is shown"
    STOPPING = "the agent has agreed; the client has cancelled, and its answer waits for the client's output"
    OPEN = "the client has its answer; what the agent sends until the next prompt is compared"
    TURN = "a later turn is under way; everything is new except a replay that is still running"
    OVER = "everything is settled"


class LoadEvent(enum.Enum):
    """What can happen to a load."""

    AGREED = "the agent has answered with a result"
    REFUSED = "the agent has answered with an error"
    UNKNOWN = "the agent does not know the session, which can continue in a new one"
    FLOODED = "too much waits"
    GAVE_UP = "the client has cancelled its request"
    OUTPUT_TAKEN = "the client's output is reserved"
    NEXT = "no other replay of this session is running"
    TOLD = "``run`` has compared and replayed"
    PROMPTED = "the client has sent a prompt"
    CLOSED = "the client has closed the session or opened it again, or too many sessions are open"
    TURN_ENDED = "no prompt of this session is open any more"
    ENDED = "the agent has ended"


class Do(enum.Enum):
    """What a transition does."""

    NOTE = "record that the session was opened, and the state that came with it"
    WAIT_IN_LINE = "replay as soon as no other replay of the session is running"
    TELL = "have ``run`` compare and replay"
    CLOSE_TRANSCRIPT = "close the transcript that was looked up"
    STOP = "stop the replay"
    TAKE_OUTPUT = "reserve the client's output"
    LET_GO = "send the client what the agent sent"
    DROP = "drop what the agent sent"
    HAND_BACK = "send the client the other lines that wait, or let them wait for an earlier request"
    ANSWER = "send the client the agent's answer"
    ANSWER_TOLD = "send the client the end of the replay: the tail, the answer and the states"
    SAY_CANCELLED = "answer the client that its request was cancelled"
    SAY_ENDED = "answer the client that the agent has ended"
    OPEN_ANEW = "ask the agent for a new session instead"
    SETTLE = "record what is new, and send what waits unless the client has it"
    END_TURN = "send what waits unless the client has it"


_GIVE_BACK = (Do.LET_GO, Do.HAND_BACK)

TRANSITIONS: dict[LoadState, dict[LoadEvent, tuple[LoadState, tuple[Do, ...]]]] = {
    LoadState.ASKED: {
        LoadEvent.AGREED: (LoadState.QUEUED, (Do.NOTE, Do.WAIT_IN_LINE)),
        LoadEvent.REFUSED: (LoadState.OVER, (*_GIVE_BACK, Do.ANSWER, Do.CLOSE_TRANSCRIPT)),
        LoadEvent.UNKNOWN: (LoadState.ASKED, (Do.DROP, Do.OPEN_ANEW)),
        LoadEvent.FLOODED: (LoadState.PASSING, _GIVE_BACK),
        LoadEvent.PROMPTED: (LoadState.PASSING, _GIVE_BACK),
        LoadEvent.GAVE_UP: (LoadState.GIVEN_UP, (Do.CLOSE_TRANSCRIPT, Do.TAKE_OUTPUT)),
        LoadEvent.ENDED: (LoadState.OVER, (*_GIVE_BACK, Do.SAY_ENDED, Do.CLOSE_TRANSCRIPT)),
    },
    LoadState.PASSING: {
        LoadEvent.AGREED: (LoadState.OPEN, (Do.NOTE, Do.ANSWER, Do.CLOSE_TRANSCRIPT)),
        LoadEvent.REFUSED: (LoadState.OVER, (Do.ANSWER, Do.CLOSE_TRANSCRIPT)),
        LoadEvent.ENDED: (LoadState.OVER, (Do.SAY_ENDED, Do.CLOSE_TRANSCRIPT)),
    },
    LoadState.GIVEN_UP: {
        LoadEvent.OUTPUT_TAKEN: (LoadState.CANCELLED, (Do.SAY_CANCELLED, Do.HAND_BACK)),
        LoadEvent.AGREED: (LoadState.OPEN, (Do.NOTE, Do.SAY_CANCELLED, Do.DROP, Do.HAND_BACK)),
        LoadEvent.REFUSED: (LoadState.OVER, (Do.SAY_CANCELLED, Do.DROP, Do.HAND_BACK)),
        LoadEvent.ENDED: (LoadState.OVER, (Do.SAY_CANCELLED, Do.DROP, Do.HAND_BACK)),
    },
    LoadState.CANCELLED: {
        LoadEvent.AGREED: (LoadState.OPEN, (Do.DROP, Do.NOTE)),
        LoadEvent.REFUSED: (LoadState.OVER, ()),
        LoadEvent.ENDED: (LoadState.OVER, ()),
    },
    LoadState.QUEUED: {
        LoadEvent.NEXT: (LoadState.TELLING, (Do.TELL,)),
        LoadEvent.GAVE_UP: (LoadState.STOPPING, (Do.CLOSE_TRANSCRIPT, Do.TAKE_OUTPUT)),
    },
    LoadState.TELLING: {
        LoadEvent.TOLD: (LoadState.OPEN, (Do.ANSWER_TOLD, Do.HAND_BACK)),
        LoadEvent.GAVE_UP: (LoadState.STOPPING, (Do.STOP, Do.TAKE_OUTPUT)),
    },
    LoadState.STOPPING: {
        LoadEvent.OUTPUT_TAKEN: (LoadState.OPEN, (Do.SAY_CANCELLED, Do.DROP, Do.HAND_BACK)),
        LoadEvent.TOLD: (LoadState.OPEN, (Do.SAY_CANCELLED, Do.DROP, Do.HAND_BACK)),
    },
    LoadState.OPEN: {
        LoadEvent.PROMPTED: (LoadState.TURN, (Do.SETTLE,)),
        LoadEvent.CLOSED: (LoadState.OVER, (Do.SETTLE,)),
        LoadEvent.ENDED: (LoadState.OVER, (Do.SETTLE,)),
    },
    LoadState.TURN: {
        LoadEvent.TURN_ENDED: (LoadState.OVER, (Do.END_TURN,)),
        LoadEvent.CLOSED: (LoadState.OVER, (Do.END_TURN,)),
        LoadEvent.ENDED: (LoadState.OVER, (Do.END_TURN,)),
    },
    LoadState.OVER: {},
}

AWAITING = frozenset({LoadState.ASKED, LoadState.PASSING, LoadState.GIVEN_UP, LoadState.CANCELLED})
"""States in which the agent has not answered."""
HOLDING = frozenset({LoadState.ASKED, LoadState.GIVEN_UP, LoadState.QUEUED, LoadState.TELLING, LoadState.STOPPING})
"""States in which the session's lines wait for the answer to the client."""
TELLS = frozenset({LoadState.QUEUED, LoadState.TELLING, LoadState.STOPPING})
"""States in which ``run`` has the transcript open, or will."""


class Load:
    """A request to open a session, and what the agent sends about the session until everything is settled."""

    def __init__(self, request: Request, session: str, plan: LoadPlan, *, has_transcript: bool) -> None:
        self.request = request
        self.session = session
        self.plan = plan
        self.state = LoadState.PASSING if plan.passes else LoadState.ASKED
        self.has_transcript = has_transcript
        """Whether the store has a transcript of the session."""
        self.is_open_elsewhere: bool | None = None
        """Whether another process had the transcript open to append when it was looked up; None: not known."""
        self.number = 0
        """Its place among all requests, in the order in which they were sent."""
        self.answer_number = 0
        """Its place among all requests, in the order in which the agent answered them."""
        self.follows = False
        """Whether the client has got the answer to another request for the session since this one was sent."""
        self.recorded_since: list[bytes] = []
        """What was recorded of the replay for an earlier request, since this one was sent."""
        self.response = b""
        """The line of the answer for the client."""
        self.told: list[tuple[bytes, bool]] = []
        """Lines of the conversation that the agent sent and that were not compared yet, each with whether it came after
        the agent's answer."""
        self.before = b""
        """How the replay before this one began, whose rest the agent may send before its answer to this."""
        self.held: list[tuple[bytes, object]] = []
        """Lines that wait for the answer to the client, each with its update if it must be compared first."""
        self.first = 0
        """How many of the first lines in ``held`` must reach the client before the answer."""
        self.states: list[bytes] = []
        """State updates from before the agent's answer, without newlines, which are recorded if the agent agrees."""
        self.states_size = 0
        self.size = 0
        """The bytes that wait."""
        self.was_cancelled = False
        """Whether the client cancelled a request in ``PASSING``, which the agent may still answer."""
        self.is_past = False
        """Whether the agent sends nothing for this request any more: the client has cancelled it, and then a later
        request was answered or a whole turn has passed."""
        self.is_imported = False
        """Whether a new transcript began with what the agent sent before its answer."""
        self.is_handed_over = False
        """Whether the session continues in a new one."""
        self.is_ours = False
        """Whether the client has seen the transcript's replay rather than the agent's."""
        self.alias: str | None = None
        """The agent's new id of the session, if it has changed."""
        self.prompts: list[str] = []
        """The letters of prompts since this request that the agent has not echoed."""
        self.rule: Rule | None = None
        self.comparison: Comparison | None = None
        self.late: LateUpdates | None = None
        """What the agent sends after its answer, once the comparison is there."""

    def steps(self, event: LoadEvent) -> tuple[Do, ...]:
        """Change the state, and return what to do."""
        self.state, does = TRANSITIONS[self.state].get(event, (self.state, ()))
        return does

    @property
    def late_in_turn(self) -> LateUpdates | None:
        """What the agent sends in the turn after this load, if that has begun."""
        return self.late if self.late is not None and self.late.is_in_turn else None

    @property
    def holds(self) -> bool:
        """Whether the session's lines wait for the answer to the client."""
        return self.state in HOLDING

    def compared(self, comparison: Comparison, *, ours: bool) -> None:
        """Keep the comparison. ``ours``: the client has seen the transcript's replay."""
        self.comparison, self.is_ours = comparison, ours
        self.late = LateUpdates(comparison, shows_transcript=ours, shows_replay=self.plan.shows)
