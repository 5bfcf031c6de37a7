"""A load as data: a request to open a session, and what belongs to it until it is over. ``load_plan`` decides before
how it is served, and ``current_loads`` finds it; from an answer to acp-proxy's own request for a new session,
``Handovers.take_load_asked_for`` does.

Two classes change a load, both under the lock on deciding (``Relay`` has it):

- ``LoadMachine`` assigns all attributes, and may change what they hold. It assigns the state only in
  ``LoadMachine._apply_event``, as the table in ``load_states`` says.
- ``LoadLineHandler`` assigns none, and changes what three of them hold: it fills and empties ``lines``; it feeds,
  rechecks and settles ``compared_replay``; and it removes echoed prompts from ``unechoed_letters``, also by means of
  ``UpdatesInTurn``. If a load can hold no more, or the agent asks something, it has ``LoadMachine`` apply
  ``CANNOT_WAIT`` or ``REPLAY_TOO_LARGE``.

``Continuations`` changes nothing of a load. It says which event follows from the agent's answer to a new session.

The table has all changes of state. Only ``CurrentLoads.add`` forgets a load without an event, if its request id is
used again, or if too many loads are pending and it holds no lines. Such a load never reaches ``OVER``.

Among what is done without an event, since the state stays:

- A load begins.
- The agent refuses it, and is asked again with an earlier id (``LoadMachine.take_retry_id``).
- What came late has been compared (``LoadMachine.handle_unsettled_compared``).
- The next load of the session is looked up, so this one is settled (``LoadMachine.settle_previous_at_look_up``).
- The session is deleted, so its past is not shown any more (``LoadMachine.delete_session``).

Where the next step depends on what happened before, and on nothing else, that is the state. The other attributes say
what kind of load it is, and what else has happened to it.
"""

from acp_proxy.comparison.updates_in_turn import UpdatesInTurn
from acp_proxy.comparison.whose_past import PastRule
from acp_proxy.decisions.load.compared_replay import ComparedReplay
from acp_proxy.decisions.load.line_buffers import LoadLines
from acp_proxy.decisions.load.load_plan import LoadPlan
from acp_proxy.decisions.load.load_states import STATES, LoadPhase, LoadState
from acp_proxy.protocol import acp
from acp_proxy.protocol.jsonrpc import Request


def _choose_first_state(plan: LoadPlan, *, client_has_answer: bool) -> LoadState:
    if client_has_answer:
        return LoadState.BEFORE_PROMPT
    if plan.agent_method is None:
        return LoadState.CHOOSING_PAST
    return LoadState.PASSING if plan.passes_at_once else LoadState.HOLDING_REPLAY


class Load:
    """A request to open a session, and what the agent sends about the session until it is over."""

    def __init__(
        self,
        request: Request,
        session_id: str,
        plan: LoadPlan,
        *,
        has_transcript: bool,
        turn_may_run_elsewhere: bool | None = None,
        agent_lacks_past: bool = False,
        client_has_answer: bool = False,
        earlier_id: str | None = None,
        refused_prompt: tuple[Request, bytes] | None = None,
    ) -> None:
        """``has_transcript``: the store has a transcript of the session, or, if it was not looked up, may have one.
        ``turn_may_run_elsewhere``: as for ``Comparison.find_unrecorded``, when the session was looked up.
        ``agent_lacks_past``: as for ``SessionLookedUp``, when the load begins.
        ``client_has_answer``: the client has its answer already. ``earlier_id``: the id by which this process's agent
        had the session last, if it is asked for another one. ``refused_prompt``: the prompt for which this opens a new
        session, and the line of the agent's refusal."""
        self.request = request
        self.session_id = session_id
        self.plan = plan
        self.turn_may_run_elsewhere = turn_may_run_elsewhere
        self.agent_lacks_past = agent_lacks_past
        self.state = _choose_first_state(plan, client_has_answer=client_has_answer)
        self.has_transcript = has_transcript
        self.can_compare = has_transcript
        """Whether what the agent sends late can be compared with the transcript. False once that could not be read. If
        there is none, True only for a resume that acp-proxy serves, once the agent has agreed: what it still replays is
        compared with the transcript that begins now, and hidden."""
        self.imports_replay = plan.may_import
        """Whether a transcript begins, or has begun, with what the agent sends before its answer. Not any more once a
        prompt comes before that answer, or there is another transcript."""
        self.earlier_id = earlier_id
        self.refused_prompt = refused_prompt
        self.retried_id: str | None = None
        """``earlier_id``, once the agent was asked for it. That session lacks what was said under the id that was asked
        for first."""
        self.opens_new_session = False
        """Whether the agent was asked for a new session in which this one continues."""
        self.answer_line = b""
        """The line of the answer for the client."""
        self.result: object = None
        """The result in the agent's answer."""
        self.latest_state_lines: list[bytes] = []
        """Lines with the latest recorded state of the session, which follow the answer if the transcript is shown."""

        self.lines = LoadLines()
        """What of the agent's lines is kept."""
        self.planned_decision = plan.decide_by(plan.rule) if plan.rule is not None else None
        """What ``choose_past`` is to return, whatever was compared; None: it finds a rule. From the plan, or from
        ``LoadMachine._open_new_session``."""
        self.decision = self.planned_decision if plan.passes_at_once else None
        """Whose past the client sees, and why; None: not decided yet. In the order of time, so a later one
        overrides an earlier one:

        1. ``PASSES``, from the beginning or by ``START_PASSING``. Nothing is chosen then.
        2. What is planned, by ``DECIDE_AS_PLANNED`` (``DROPPING_REPLAY``).
        3. ``NOT_RECORDED``, by ``CHOOSE_AND_SHOW_PAST``, if there is no transcript. Nothing is chosen then.
        4. What ``choose_past`` has returned, by ``LoadMachine.handle_past_chosen``: what is planned, or else what it
           finds. If no thread can start to read a transcript that is planned, that is ``UNREADABLE``
           (``LoadPerformer.give_up_past``).

        At any time before the client has its answer, a cancel makes it ``CANCELLED``, unless the load passes or
        sends a refused prompt again."""
        self.compared_replay: ComparedReplay | None = None
        """What the agent sent for it, once that is compared with the transcript; None also if the comparison was given
        up, or the transcript could not be read."""
        self.unechoed_letters: list[str] = []
        """The letters of prompts since this request that the agent has not echoed."""

    @property
    def phase(self) -> LoadPhase:
        return STATES[self.state].phase

    @property
    def awaits_agents_answer(self) -> bool:
        """Whether the agent has not answered."""
        return self.phase is LoadPhase.ASKED

    @property
    def holds_lines(self) -> bool:
        """Whether the session's lines wait for the answer to the client."""
        return STATES[self.state].holds_lines

    @property
    def updates_in_turn(self) -> UpdatesInTurn | None:
        """What the agent sends in a turn after this load, or during it, if one has begun."""
        return self.compared_replay.updates_in_turn if self.compared_replay is not None else None

    @property
    def tail_size(self) -> int:
        """The bytes of what may be new in what was compared."""
        return self.compared_replay.comparison.tail.size if self.compared_replay is not None else 0

    @property
    def hides_replay_now(self) -> bool:
        """Whether, as far as is decided, the client does not see the agent's replay, nor what comes late of it: it has
        the transcript's, or none, since one that resumes has the past on the screen, and one that cancels wants none.

        Before a decision, only a load that shows no past hides the replay. What is planned hides nothing yet:
        if the replay passes after all, it must not lack a part."""
        if self.decision is None:
            return not self.plan.shows_past
        return self.decision.hides_replay

    @property
    def needs_comparison(self) -> bool:
        """Whether what the agent sent before its answer is compared with the transcript.

        If it sent something, that may be new. If it sent nothing, there is something to compare only where it was asked
        for a replay that may be shown: that lacks everything then.
        """
        return bool(self.lines.possible_replay) or (
            self.plan.agent_method == acp.LOAD and self.planned_decision is None
        )

    @property
    def agent_may_replay(self) -> bool:
        """Whether the agent may replay something for it: not if it is asked for a new session, or not at all."""
        return self.plan.agent_method is not None and not self.opens_new_session

    @property
    def replay_may_come(self) -> bool:
        """Whether a replay may come before the agent's answer. Not after a cancel, unless the load passes."""
        is_cancelled = self.decision is not None and self.decision.rule is PastRule.CANCELLED
        return self.agent_may_replay and self.awaits_agents_answer and not is_cancelled

    @property
    def agent_must_catch_up(self) -> bool:
        """Whether the next prompt carries a record of what the agent's session lacks."""
        return self.plan.agent_must_catch_up and not self.opens_new_session
