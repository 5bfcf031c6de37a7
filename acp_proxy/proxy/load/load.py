"""A load as data: a request to open a session, and what belongs to it until it is over.

This package runs only under the lock on deciding (``Relay`` has it), and has one rule. The constructor of a ``Load``
chooses its first ``state``. After that, only ``LoadMachine`` assigns its attributes, and the ``state`` only in
``LoadMachine._apply_event``, as the table in ``load_states`` says. Only one other changes what they hold:
``LoadLineHandler`` adds what the agent sends to the buffers and takes what leaves, feeds ``compared_replay`` and
``replays_of_other_loads``, and removes echoed prompts from ``unechoed_letters``, also by means of ``UpdatesInTurn``. If
a load can hold no more, or the agent asks something, it has ``LoadMachine`` apply the event ``CANNOT_WAIT``.

``Continuations`` changes nothing; it only names the event that the answer to a new session is. One exception to the
table: ``Loads.add`` drops the oldest open load, if there are too many, which then never reaches ``OVER``.

What happened before is the state, where the next step depends on it alone; the other attributes say what kind of load
it is and what else has happened to it, and hold what the agent sent.

``load_plan`` decides before how a load is served, and ``loads`` finds it.
"""

from typing import Generic, TypeVar

from acp_proxy.comparison.choose_past import Decision, Rule, choose_past
from acp_proxy.comparison.comparison import Comparison
from acp_proxy.comparison.late_updates import LateUpdates
from acp_proxy.comparison.repeated_replays import OtherReplays, drop_repetition
from acp_proxy.comparison.updates_in_turn import UpdatesInTurn
from acp_proxy.protocol import acp
from acp_proxy.protocol.jsonrpc import Request
from acp_proxy.proxy.load.load_plan import LoadPlan
from acp_proxy.proxy.load.load_states import STATES, LoadState

Detail = TypeVar("Detail")


class LineBuffer(Generic[Detail]):
    """Lines, each with what must be known of it, and their size in bytes. False if there are none."""

    def __init__(self) -> None:
        self.items: list[tuple[bytes, Detail]] = []
        self.size = 0
        self.is_closed = False

    def __bool__(self) -> bool:
        return bool(self.items)

    @property
    def lines(self) -> list[bytes]:
        return [line for line, _ in self.items]

    def add(self, line: bytes, detail: Detail) -> None:
        """Add a line after the others."""
        self.items.append((line, detail))
        self.size += len(line)

    def take(self) -> list[tuple[bytes, Detail]]:
        """Return everything, and forget it."""
        items = self.items
        self.drop()
        return items

    def drop(self) -> None:
        """Forget everything."""
        self.items, self.size = [], 0

    def close(self) -> None:
        """Drop everything: too much came. Nobody may add to it any more."""
        self.drop()
        self.is_closed = True

    def replace(self, items: list[tuple[bytes, Detail]]) -> None:
        """Have these instead."""
        self.items, self.size = items, sum(len(line) for line, _ in items)


class ComparedReplay:
    """What the agent has sent for a load, once it is compared with the transcript: its replay, and what comes after
    that.

    The transcript may grow after the comparison, since another window may have loaded the session too. So what is new
    is compared once more with what was appended, before it is recorded (``begin_recheck``).
    """

    def __init__(
        self,
        comparison: Comparison,
        size: int,
        *,
        withholds_replay: bool,
        may_show_past: bool,
        agent_has_only_part: bool,
        is_open_elsewhere: bool | None,
        is_checked: bool,
    ) -> None:
        """``size``: that of the transcript when it was compared. ``withholds_replay``, ``may_show_past``: of the load.
        ``agent_has_only_part``: as for ``LateUpdates``. ``is_open_elsewhere``: as for ``Comparison.find_new``.
        ``is_checked``: nothing was appended since."""
        self.comparison = comparison
        self.transcript_size = size
        self.late_updates = LateUpdates(
            comparison,
            withholds_replay=withholds_replay,
            may_show_past=may_show_past,
            agent_has_only_part=agent_has_only_part,
            is_open_elsewhere=is_open_elsewhere,
        )
        """What the agent sends between its answer and the next prompt."""
        self.updates_in_turn: UpdatesInTurn | None = None
        """What the agent sends in a turn after the load, or during it, if one has begun."""
        self._is_open_elsewhere = is_open_elsewhere
        self._is_rechecked = is_checked
        """Whether what is new was compared with what was appended since then."""
        self._rechecked_lines: frozenset[bytes] = frozenset()
        """The new lines that were, or are, compared with what was appended since."""
        self._recorded_elsewhere: frozenset[bytes] = frozenset()
        """The new lines in ``_rechecked_lines`` that were recorded since then."""

    @property
    def is_rechecked(self) -> bool:
        """Whether what is new was compared with all that was appended to the transcript."""
        return self._is_rechecked

    @property
    def new_message_ids(self) -> dict[tuple[str, bytes], str]:
        """The ids of the user's messages in the agent's replay, by ``Entry.request_key``, that the transcript
        does not note."""
        noted_ids = self.comparison.text.message_ids
        return {key: id for key, id in self.comparison.message_ids.items() if noted_ids.get(key) != id}

    def add_late_update(self, line: bytes, update: object) -> list[bytes]:
        """Take an update from between the answer and the next prompt; returns the lines to send now."""
        self._is_rechecked = False
        return self.late_updates.add(line, update)

    def begin_updates_in_turn(self, *, withholds_replay: bool, awaits_replay: bool = False) -> None:
        """The client has prompted. ``withholds_replay``, ``awaits_replay``: of the load."""
        if self.updates_in_turn is None:
            self.updates_in_turn = UpdatesInTurn(
                self.comparison, withholds_replay=withholds_replay, awaits_replay=awaits_replay
            )

    def find_new(self) -> list[bytes]:
        """The lines that the transcript lacks, without a message that is still coming."""
        lines = self.comparison.find_new(is_open_elsewhere=self._is_open_elsewhere)
        lines = drop_repetition(lines) if self.comparison.text.is_empty else lines
        return [line for line in lines if line not in self._recorded_elsewhere]

    def begin_recheck(self) -> list[bytes]:
        """End the message that is coming. Returns the new lines, which must be compared with what was appended to the
        transcript since ``transcript_size``."""
        self.comparison.end_message()
        lines = self.find_new()
        self._is_rechecked, self._rechecked_lines = not lines, frozenset(lines)
        return lines

    def require_recheck(self) -> None:
        """Time passes before what is new is recorded: it must be compared again."""
        self._is_rechecked = False

    def end_recheck(self, appended: Comparison | None) -> None:
        """What ``begin_recheck`` returned was compared with what was appended; None: that could not be read."""
        self._is_rechecked = True
        if appended is not None and not appended.is_too_costly and not appended.text.is_empty:
            appended.end_message()
            self._recorded_elsewhere |= self._rechecked_lines.difference(*appended.split_tail())


def _choose_first_state(plan: LoadPlan, *, client_has_answer: bool) -> LoadState:
    if client_has_answer:
        return LoadState.BEFORE_PROMPT
    if plan.agent_method is None:
        return LoadState.AWAITING_PAST
    return LoadState.NOT_HOLDING if plan.passes_at_once else LoadState.HOLDING_REPLAY


class Load:
    """A request to open a session, and what the agent sends about the session until it is over."""

    def __init__(
        self,
        request: Request,
        session_id: str,
        plan: LoadPlan,
        *,
        has_transcript: bool,
        is_open_elsewhere: bool | None = None,
        agent_has_only_part: bool = False,
        client_has_answer: bool = False,
        earlier_id: str | None = None,
        refused_prompt: tuple[Request, bytes] | None = None,
    ) -> None:
        """``has_transcript``: the store has a transcript of the session, or, if it was not looked up, may have one.
        ``is_open_elsewhere``: another process had it open to append when it was looked up; None: not known, or this
        one records it.
        ``agent_has_only_part``: the agent's session has only a part of this one already before this load.
        ``client_has_answer``: the client has its answer already. ``earlier_id``: the id by which this process's agent
        had the session last, if it is asked for another one. ``refused_prompt``: the prompt for which this opens a new
        session, and the line of the agent's refusal."""
        self.request = request
        self.session_id = session_id
        self.plan = plan
        self.is_open_elsewhere = is_open_elsewhere
        self.agent_has_only_part = agent_has_only_part
        self.state = _choose_first_state(plan, client_has_answer=client_has_answer)
        self.has_transcript = has_transcript
        self.can_compare = has_transcript
        """Whether what the agent sends can be compared with a transcript now: not once that could not be read. One that
        begins with this load counts only if the client does not want the past, and must not get the rest of a replay
        either."""
        self.imports_replay = plan.may_import
        """Whether a transcript begins, or has begun, with what the agent sends before its answer."""
        self.earlier_id = earlier_id
        self.refused_prompt = refused_prompt
        self.retried_id: str | None = None
        """``earlier_id``, once the agent was asked for it. That session lacks what was said in the other one since
        then."""
        self.opens_new_session = False
        """Whether the agent was asked for a new session in which this one continues."""
        self.answer_line = b""
        """The line of the answer for the client."""
        self.result: object = None
        """The result in the agent's answer."""
        self.latest_state_lines: list[bytes] = []
        """Lines with the latest recorded state of the session, which follow the answer if the transcript is shown."""

        self.replay_lines = LineBuffer[bool]()
        """Lines of the conversation that the agent sent, each with whether it came after an answer of the agent: to
        this or another load of the session. Kept until they are compared, and, if the client does not have them, until
        they are sent after that, or dropped."""
        self.session_state_updates = LineBuffer[None]()
        """State updates from before the agent's answer, which are recorded if the agent agrees."""
        self.before_answer_to_client, self.after_answer_to_client = LineBuffer[object](), LineBuffer[object]()
        """Lines that wait for the answer to the client, each with its update if that must be compared before it is
        sent, else None. They leave before or after that answer if the agent agrees; else all of them leave before."""
        self.first_replay_line: bytes | None = None
        """How the replay began that came before the agent's answer; empty if none came, None before that answer."""
        self.replays_of_other_loads = OtherReplays()
        """What of the agent's lines belongs to earlier loads of the session, as far as that is known."""

        self.decision = self.decide_by_rule(plan.rule) if plan.rule is not None else None
        """Whose past the client sees, and why; None: not decided yet. What happens later may decide anew."""
        self.compared_replay: ComparedReplay | None = None
        """What the agent sent for it, once that is compared with the transcript; None also if the comparison was given
        up, or the transcript could not be read."""
        self.unechoed_letters: list[str] = []
        """The letters of prompts since this request that the agent has not echoed."""

    def decide_by_rule(self, rule: Rule) -> Decision:
        """Whose past the client sees if this rule holds."""
        return choose_past(None, given_rule=rule, may_show_past=self.plan.may_show_past)

    @property
    def awaits_agents_answer(self) -> bool:
        """Whether the agent has not answered."""
        return STATES[self.state].awaits_agents_answer

    @property
    def holds_lines(self) -> bool:
        """Whether the session's lines wait for the answer to the client."""
        return STATES[self.state].holds_lines

    @property
    def updates_in_turn(self) -> UpdatesInTurn | None:
        """What the agent sends in a turn after this load, or during it, if one has begun."""
        return self.compared_replay.updates_in_turn if self.compared_replay is not None else None

    @property
    def held_size(self) -> int:
        """The bytes that are kept, without ``session_state_updates``, which have a limit of their own."""
        return self.replay_lines.size + self.before_answer_to_client.size + self.after_answer_to_client.size

    @property
    def tail_size(self) -> int:
        """The bytes of what may be new in what was compared."""
        return self.compared_replay.comparison.tail.size if self.compared_replay is not None else 0

    @property
    def withholds_replay(self) -> bool:
        """Whether, as far as is decided, the client does not see the agent's replay, nor what comes late of it."""
        return not self.plan.may_show_past or (self.decision is not None and self.decision.withholds_replay)

    @property
    def needs_comparison(self) -> bool:
        """Whether what the agent sent before its answer is compared with the transcript.

        If it sent something, that may be new. If it sent nothing, there is something to compare only where it was asked
        for a replay that may be shown: that lacks everything then.
        """
        return bool(self.replay_lines) or (self.plan.agent_method == acp.LOAD and self.decision is None)

    @property
    def agent_may_replay(self) -> bool:
        """Whether the agent may replay something for it: not if it is asked for a new session, or not at all."""
        return self.plan.agent_method is not None and not self.opens_new_session

    @property
    def client_has_cancel_error(self) -> bool:
        """Whether acp-proxy has answered that it was cancelled."""
        return self.decision is not None and self.decision.rule is Rule.CANCELLED

    @property
    def awaits_replay(self) -> bool:
        """Whether the agent was asked for a replay, which the client has not cancelled, and has not answered."""
        return self.agent_may_replay and self.awaits_agents_answer and not self.client_has_cancel_error

    @property
    def agent_must_catch_up(self) -> bool:
        """Whether the next prompt carries a record of what the agent's session lacks."""
        return self.plan.agent_must_catch_up and not self.opens_new_session
