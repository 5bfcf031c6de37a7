"""Follows each ``Load``, from the question to the agent until it is over.

``LoadMachine`` turns what the agent sends, what the client does and what ``relay/`` finds into events of a ``Load``,
and does what ``load_states.STATES`` says. Who else changes what of a load: the beginning of ``load.py``.
"""

from typing import assert_never

from acp_proxy.comparison.comparison import Comparison, SentLine
from acp_proxy.comparison.late_updates import LateUpdates
from acp_proxy.comparison.letters import read_block_letters
from acp_proxy.comparison.repeated_replays import drop_context_and_repetition
from acp_proxy.comparison.sent_messages import read_update_as_v1
from acp_proxy.comparison.whose_past import PastRule, WhosePast
from acp_proxy.decisions import proxy_messages
from acp_proxy.decisions.connection_state import ConnectionState
from acp_proxy.decisions.effects import (
    ChooseAndShowPast,
    CloseTranscript,
    DecideLater,
    DeleteSession,
    Effect,
    Forward,
    ReserveOutput,
    SaveAndIndex,
    StopShowingPast,
    Warn,
)
from acp_proxy.decisions.events import PastChosen, UnsettledCompared
from acp_proxy.decisions.handover import handover_lines
from acp_proxy.decisions.handover.continuations import Continuations
from acp_proxy.decisions.load.compared_replay import ComparedReplay
from acp_proxy.decisions.load.current_loads import CurrentLoads
from acp_proxy.decisions.load.line_buffers import HeldLine
from acp_proxy.decisions.load.load import Load
from acp_proxy.decisions.load.load_limits import LoadLimits
from acp_proxy.decisions.load.load_line_handler import LoadLineHandler, send_lines
from acp_proxy.decisions.load.load_plan import FORK_PLAN
from acp_proxy.decisions.load.load_states import (
    ABANDONED_STATES,
    HOLDING_UNTIL_AGENT_ANSWERS,
    OVERTAKABLE_STATES,
    STATES,
    Action,
    LoadEvent,
    LoadPhase,
    LoadState,
)
from acp_proxy.protocol import acp, json_splice, jsonrpc
from acp_proxy.protocol.jsonrpc import Notification, Peer, Request, RequestId, Response
from acp_proxy.transcript.file_format import NoteType


class LoadMachine:
    """Moves the loads of one connection through their states."""

    def __init__(self, shared: ConnectionState, continuations: Continuations) -> None:
        self._negotiated = shared.negotiated
        self.loads = CurrentLoads()
        self.limits = LoadLimits(self.loads)
        self.line_handler = LoadLineHandler(shared.session_tracker, self.loads, self.limits, self._apply_event)
        self._session_tracker = shared.session_tracker
        self._handovers = shared.handovers
        self._continuations = continuations
        self._has_agent_ended = False

    # --- the table

    def _apply_event(self, load: Load, event: LoadEvent) -> list[Effect]:
        """Move a load to its next state, and perform the actions, which see that state."""
        next_state, actions = STATES[load.state].transitions.get(event, (load.state, ()))
        load.state = next_state
        return [effect for action in actions for effect in self._perform_action(load, action)]

    def _perform_action(self, load: Load, action: Action) -> list[Effect]:
        match action:
            case Action.RECORD_OPENED:
                return self._record_opened(load)
            case Action.CHOOSE_AND_SHOW_PAST:
                return self._choose_and_show_past(load)
            case Action.CLOSE_TRANSCRIPT:
                return [CloseTranscript(load.request.id)]
            case Action.STOP_SHOWING_PAST:
                return [StopShowingPast(load.request.id)]
            case Action.RESERVE_OUTPUT:
                return [ReserveOutput(load.request.id)]
            case Action.START_PASSING:
                # If the load shows no past, that is ``WhosePast.NOTHING``: what comes is hidden.
                load.decision = load.plan.decide_by(PastRule.PASSES)
                # What is sent is kept all the same, to compare it later.
                return send_lines(load.lines.possible_replay.lines if not load.hides_replay_now else [])
            case Action.DECIDE_AS_PLANNED:
                load.decision = load.planned_decision
                return []
            case Action.SEND_HELD_REPLAY:
                return send_lines([item.line for item in load.lines.possible_replay.take()])
            case Action.DROP_REPLAY:
                load.lines.possible_replay.drop()
                return []
            case Action.DROP_IMPORT:
                load.lines.possible_replay.drop()
                load.imports_replay = False
                return []
            case Action.RELEASE_HELD_LINES:
                return self.line_handler.release_held_lines(load)
            case Action.ANSWER:
                if load.refused_prompt is not None:  # the refusal is the prompt's answer, and ends its turn
                    self._handovers.end_resending(load.session_id)
                    return [DecideLater(Peer.AGENT, [load.refused_prompt[1]])]
                # An agent that has ended may have left a line without a newline; this answer is not the agent's then.
                return (
                    [Forward(Peer.CLIENT, load.answer_line, is_own=self._has_agent_ended)] if load.answer_line else []
                )
            case Action.FINISH_PAST_AND_ANSWER:
                return self._finish_past_and_answer(load)
            case Action.ANSWER_CANCELLED:
                load.decision = load.plan.decide_by(PastRule.CANCELLED)
                return [proxy_messages.refuse(load.request.id, jsonrpc.REQUEST_CANCELLED, "Request cancelled")]
            case Action.OPEN_NEW_SESSION:
                load.lines.state_updates.drop()
                # Updates are of the session that the agent does not have. Whatever else waits is not: an answer, say.
                load.lines.to_send_after_answer.replace(
                    [item for item in load.lines.to_send_after_answer.items if not _is_update(item.line)]
                )
                return self._open_new_session(load)
            case Action.AWAIT_PROMPT_OR_END:
                return self._await_prompt_or_end(load)
            case Action.SETTLE:
                return self.line_handler.settle(load)
            case Action.BEGIN_UPDATES_IN_TURN:
                self.line_handler.begin_updates_in_turn(load)
                return []
            case Action.RELEASE_UPDATES_IN_TURN:
                return self.line_handler.release_updates_in_turn(load)
            case Action.FORGET:
                self.loads.forget(load)
                return []
            case _:
                assert_never(action)

    # --- requests to open a session

    def begin_with_agent(self, load: Load) -> list[Effect]:
        """Follow a load for which the agent is asked now. Returns the request if it is for a new session; any other one
        is sent by ``LoadStarter``."""
        self.loads.add(load)
        if load.refused_prompt is not None:
            _add_unechoed(load, load.refused_prompt[0])
        for other in self.loads.list_earlier(load):
            if other.state in OVERTAKABLE_STATES:
                load.lines.other_replays.expect_cancelled_lines(
                    other.request.id, len(other.lines.possible_replay.items)
                )
        return self._open_new_session(load) if load.plan.agent_method == acp.NEW else []

    def begin_without_agent(self, load: Load) -> list[Effect]:
        """Answer a load for which the agent is not asked with the transcript. What the session's agent sends meanwhile
        is new, and follows it."""
        self.loads.add(load)
        load.answer_line = jsonrpc.encode_result(
            load.request.id, self._session_tracker.sessions.find_opening_answer(load.session_id)
        )
        if (busy := self._negotiated.dialect.encode_work_state(load.session_id, is_busy=True)) is not None:
            load.lines.to_send_before_answer.add(HeldLine(busy))
        return self._choose_and_show_past(load)

    def add_fork(self, request: Request, session_id: str, raw_updates: list[bytes]) -> list[Effect]:
        """The agent has opened a fork. ``raw_updates``: those that came before its answer, which are the parent's past
        or new."""
        load = Load(request, session_id, FORK_PLAN, has_transcript=True, client_has_answer=True)
        load.lines.possible_replay.replace([SentLine(raw + b"\n", is_after_an_answer=False) for raw in raw_updates])
        return [*self.end_opened_load(session_id), *self._add_opened_within_limits(load)]

    def cancel(self, message: Notification) -> list[Effect]:
        """The client cancels a load with ``$/cancel_request``: unless the load passes, it gets an answer, and the
        agent's is dropped."""
        id = jsonrpc.read_cancelled_id(message)
        load = self.loads.find_pending(id) if id is not None else None
        if id is None or load is None or load.refused_prompt is not None:
            return []
        return self._apply_event(load, LoadEvent.CANCEL_REQUESTED)

    def handle_output_reserved(self, request_id: RequestId) -> list[Effect]:
        """The client's output is reserved: answer a cancelled load, unless it has its answer."""
        load = self.loads.find_pending(request_id)
        return self._apply_event(load, LoadEvent.OUTPUT_RESERVED) if load is not None else []

    # --- the agent's answer

    def take_retry_id(self, load: Load, answer: Response) -> str | None:
        """The id by which the agent had the session before, if it refuses another window's. Only once."""
        earlier_id, load.earlier_id = load.earlier_id, None
        if (
            earlier_id is None
            or answer.error is None
            or load.state not in HOLDING_UNTIL_AGENT_ANSWERS | {LoadState.PASSING}
        ):
            return None
        load.retried_id = earlier_id
        return earlier_id

    def handle_agents_answer(self, load: Load, line: bytes, message: Response) -> list[Effect]:
        """The agent's answer to a load, or to the request sent in its place. ``message``: the same line, parsed."""
        load.answer_line = line.removesuffix(b"\n") + b"\n"
        effects: list[Effect] = []
        cancelled_lines: dict[object, list[SentLine]] = {}
        for other in self.loads.list_earlier(load):
            if other.state in OVERTAKABLE_STATES:  # the agent will not answer it, and what came for it was for this one
                cancelled_lines[other.request.id] = other.lines.possible_replay.take()
                effects += self._apply_event(other, LoadEvent.OVERTAKEN)
        if message.error is not None:
            event = (
                LoadEvent.NEEDS_NEW_SESSION
                if self._continuations.needs_new_session(load, message)
                else LoadEvent.REFUSED
            )
            return effects + self._apply_event(load, event)
        load.lines.possible_replay.replace(
            load.lines.other_replays.separate(load.lines.possible_replay.items, cancelled_lines)
        )
        for other in self.loads.list_pending_of_session(load.session_id):
            if other is not load:
                other.lines.other_replays.expect_rest(load.lines.other_replays.first_line)
                other.lines.other_replays.agent_answered_other_load = True
        if not load.plan.passes_at_once:
            load.answer_line = _replace_null_result(load.answer_line, message)
        if self._negotiated.dialect.state_precedes_answer:
            lines = load.lines.to_send_before_answer.take() + load.lines.to_send_after_answer.take()
            load.lines.to_send_before_answer.replace(lines)
        load.result = message.result
        return effects + self._apply_event(load, LoadEvent.AGREED)

    def _record_opened(self, load: Load) -> list[Effect]:
        """Record that the agent has opened the session, and what came before its answer, which gets our id. If
        the agent answers with another one, that becomes the session's alias."""
        request, session_id, result = load.request, load.session_id, load.result
        alias = None
        if not load.opens_new_session:
            load.answer_line, alias = self._continuations.keep_our_id(load, acp.session_id(result))
        sessions = self._session_tracker.sessions
        forbids_import = sessions.is_recorded(session_id) or sessions.is_deleted(session_id)
        if load.lines.possible_replay.was_given_up or forbids_import:
            load.imports_replay = False
        raw_states = [line.removesuffix(b"\n") for line in load.lines.state_updates.lines]
        if load.imports_replay:
            replay = [
                line.removesuffix(b"\n") for line in drop_context_and_repetition(load.lines.possible_replay.lines)
            ]
            imported = [*replay, *raw_states]
            return [
                *self._session_tracker.track_opened(session_id, acp.LOAD, request.params, result, imported=imported),
                SaveAndIndex(session_id),
            ]
        anew = load.opens_new_session
        effects: list[Effect] = [
            *self._session_tracker.track_opened(session_id, request.method, request.params, result, is_new_session=anew)
        ]
        if alias is not None:
            effects += [
                *self._session_tracker.note(session_id, NoteType.ALIAS, to=alias),
                *self._continuations.make_alias_effects(session_id, alias),
            ]
        for raw in raw_states:
            effects += self._session_tracker.track_message(session_id, Peer.AGENT, raw)
        return effects

    # --- a new session

    def _open_new_session(self, load: Load) -> list[Effect]:
        """Ask the agent for a new session for this load. If that cannot be done, the load is refused."""
        load.opens_new_session = load.agent_lacks_past = True
        load.planned_decision = load.plan.decide_by(PastRule.HANDED_OVER)
        effect_or_refusal = self._continuations.ask_for_new_session(load)
        if not isinstance(effect_or_refusal, bytes):
            return [effect_or_refusal]
        load.answer_line = effect_or_refusal
        return self._apply_event(load, LoadEvent.REFUSED)

    def handle_new_session_answer(self, load: Load, line: bytes, message: Response) -> list[Effect]:
        """The agent's answer to acp-proxy's own ``session/new``. ``message``: the same line, parsed."""
        new_session = self._continuations.apply_new_session_answer(load, line, message)
        load.answer_line = new_session.answer_line if new_session.answer_line is not None else load.answer_line
        idle = self._negotiated.dialect.encode_work_state(load.session_id, is_busy=False)
        if new_session.event is LoadEvent.AGREED and idle is not None:
            load.lines.to_send_before_answer.add(HeldLine(idle))
        load.result = message.result
        return [*new_session.effects, *self._apply_event(load, new_session.event)]

    # --- comparison, and the choice of the past

    def _choose_and_show_past(self, load: Load) -> list[Effect]:
        """Have ``relay/`` compare and show the past; without a transcript, that is what the agent sent."""
        if not load.has_transcript:
            load.decision = load.plan.decide_by(PastRule.NOT_RECORDED)
            # If it shows no past, the client must not get the rest of a replay either: what comes late is compared with
            # the transcript that begins now.
            load.can_compare = not load.plan.shows_past
            name = jsonrpc.make_printable(load.session_id)
            warning = Warn(f"session {name} was not recorded here, so it opens without its history")
            return [
                *([] if load.lines.possible_replay else [warning]),
                *self._apply_event(load, LoadEvent.PAST_CHOSEN),
            ]
        refused_prompt = load.refused_prompt[0] if load.refused_prompt is not None else None
        gives_handover_record = load.opens_new_session or load.agent_must_catch_up or load.retried_id is not None
        return [
            ChooseAndShowPast(
                load.request.id,
                tuple(load.lines.possible_replay.items),
                load.needs_comparison,
                planned_decision=load.planned_decision,
                agent_lacks_past=load.agent_lacks_past,
                makes_handover_record=gives_handover_record,
                only_what_agent_lacks=load.agent_must_catch_up,
                before_prompt=refused_prompt.id if refused_prompt is not None else None,
                sends_title=self._negotiated.sends_title_with_past,
                client_update_kinds=self._negotiated.client_update_kinds,
                client_shows_agent_terminals=self._negotiated.client_shows_agent_terminals,
                protocol_version=self._negotiated.dialect.version,
                accepted_content=self._negotiated.accepted_content if gives_handover_record else frozenset(),
            )
        ]

    def handle_past_chosen(self, past_chosen: PastChosen) -> list[Effect]:
        """``relay/`` has compared, and sent the transcript if that is shown."""
        load = self.loads.find_pending(past_chosen.request_id)
        if load is None or load.phase is not LoadPhase.SHOWING_PAST:  # cancelled, or the id came again
            for cancelled in self.loads.list_opened():
                if cancelled.request.id == past_chosen.request_id:
                    self._continuations.apply_past_chosen(cancelled, past_chosen)
            return []
        # A cancel that is not answered yet counts too: what the agent sends from now on is hidden, as the comparison
        # must know. ``ANSWER_CANCELLED`` decides the same again.
        is_cancelled = load.state is LoadState.CANCELLING_WHILE_SHOWING
        load.decision = past_chosen.decision if not is_cancelled else load.plan.decide_by(PastRule.CANCELLED)
        if past_chosen.comparison is not None and not load.opens_new_session:
            # If something was compared before, a turn has begun, whose updates were recorded as they came.
            needs_recheck = load.compared_replay is None or load.compared_replay.needs_recheck
            self._keep_comparison(
                load, past_chosen.comparison, past_chosen.transcript_size, needs_recheck=needs_recheck
            )
        self._continuations.apply_past_chosen(load, past_chosen)
        load.latest_state_lines = past_chosen.latest_state_lines
        return self._apply_event(load, LoadEvent.PAST_CHOSEN)

    def _finish_past_and_answer(self, load: Load) -> list[Effect]:
        """Send the agent's replay, or the tail that follows the transcript, then the answer and the states."""
        lines: list[bytes] = []
        assert load.decision is not None  # whoever brings ``PAST_CHOSEN`` has set it
        if load.decision.whose_past is WhosePast.AGENT:
            lines = load.lines.possible_replay.lines
        elif load.decision.whose_past is WhosePast.TRANSCRIPT and load.compared_replay is not None:
            # ``relay/`` has sent the transcript; the tail follows.
            load.compared_replay.comparison.end_message()
            lines, _ = load.compared_replay.comparison.split_tail()
        if load.has_transcript:  # else they are compared later, with the transcript that begins now
            load.lines.possible_replay.drop()
        if self._handovers.has_pending_handover_record(load.session_id) and load.opens_new_session:
            lines.append(handover_lines.encode_notice(load.session_id))
        lines += [item.line for item in load.lines.to_send_before_answer.take()]
        ids = load.compared_replay.new_message_ids if load.compared_replay is not None else {}
        effects: list[Effect] = [*self._session_tracker.note_shown_past(load.session_id, load.decision, ids)]
        prompt = self._continuations.resend_prompt(load)
        answer = [load.answer_line, *load.latest_state_lines] if not prompt else []
        return [*effects, Forward(Peer.CLIENT, b"".join([*lines, *answer])), *prompt]

    def handle_unsettled_compared(self, unsettled_compared: UnsettledCompared) -> list[Effect]:
        """``relay/`` has compared what the agent sent about a session."""
        for load in [*self.loads.list_opened(), *self.loads.list_pending()]:
            if (load.request.id, load.session_id) == (unsettled_compared.request_id, unsettled_compared.session_id):
                uncompared = load.lines.possible_replay.take()
                if load.compared_replay is not None:
                    load.compared_replay.end_recheck(unsettled_compared.comparison)
                elif unsettled_compared.comparison is None:
                    load.can_compare = False
                else:
                    # The transcript was read without the lock: the agent may have sent more meanwhile, which passed.
                    for line, is_after_an_answer in uncompared[unsettled_compared.update_count :]:
                        unsettled_compared.comparison.add(
                            line, read_update_as_v1(line), is_after_an_answer=is_after_an_answer
                        )
                    compared = self._keep_comparison(
                        load, unsettled_compared.comparison, unsettled_compared.transcript_size, needs_recheck=False
                    )
                    if self._session_tracker.sessions.is_in_turn(load.session_id):
                        compared.begin_updates_in_turn(
                            hides_replay=load.hides_replay_now, replay_may_come=load.replay_may_come
                        )
                        queued = [user.variants[0] for user in unsettled_compared.comparison.text.unechoed_prompts]
                        load.unechoed_letters = queued or load.unechoed_letters
                return self._apply_postponed_events(load)
        return []

    @staticmethod
    def _keep_comparison(load: Load, comparison: Comparison, size: int, *, needs_recheck: bool) -> ComparedReplay:
        late_updates = LateUpdates(
            comparison,
            hides_replay=load.hides_replay_now,
            shows_past=load.plan.shows_past,
            agent_lacks_past=load.agent_lacks_past,
            turn_may_run_elsewhere=load.turn_may_run_elsewhere,
        )
        load.compared_replay = ComparedReplay(
            comparison,
            size,
            late_updates,
            turn_may_run_elsewhere=load.turn_may_run_elsewhere,
            needs_recheck=needs_recheck,
        )
        return load.compared_replay

    # --- an open session

    def _await_prompt_or_end(self, load: Load) -> list[Effect]:
        """The client has its answer. What the agent sends until the next prompt may be of the past, so the load waits
        for that; but it is over if the agent was not asked, or if another load of the session is pending, to which that
        belongs, or if the session was deleted."""
        self.loads.remove_pending(load)
        others = self.loads.list_pending_of_session(load.session_id)
        if load.plan.agent_method is None or any(other.state not in ABANDONED_STATES for other in others):
            return self._apply_event(load, LoadEvent.MUST_END)
        effects = self._end_carried_over(load)
        if self._session_tracker.sessions.is_deleted(load.session_id):
            return effects + self._apply_event(load, LoadEvent.DROPPED)
        effects += self._add_opened_within_limits(load)
        return effects + self._apply_postponed_events(load)

    def _add_opened_within_limits(self, load: Load) -> list[Effect]:
        """Keep an opened load, and end another one if there are too many."""
        other = self.loads.add_opened(load)
        if other is None:
            return []
        other.lines.possible_replay.drop()
        return self.end_opened_load(other.session_id)

    def _apply_postponed_events(self, load: Load) -> list[Effect]:
        """Act on what happened before the client got its answer: a prompt, or the agent's end."""
        is_in_turn = self._session_tracker.sessions.is_in_turn(load.session_id)
        waits_for_prompt = load.state is LoadState.BEFORE_PROMPT and self.loads.find_opened(load.session_id) is load
        if not waits_for_prompt or not (is_in_turn or self._has_agent_ended):
            return []
        if comparison_effects := self.line_handler.compare_before_request(load.session_id):
            return comparison_effects
        effects = self._apply_event(load, LoadEvent.PROMPTED) if is_in_turn else []
        return effects + (self._apply_event(load, LoadEvent.AGENT_ENDED) if self._has_agent_ended else [])

    def settle_previous_at_look_up(self, session_id: str) -> list[Effect]:
        """A load of the session is looked up: record what is new until now, unless the last replay is cut in the
        middle. Then nobody knows what is new, and the next replay has it too."""
        load = self.loads.find_opened(session_id)
        if load is None or load.state is not LoadState.BEFORE_PROMPT or load.compared_replay is None:
            return []
        if load.compared_replay.comparison.may_tail_be_context:
            return []
        return self.line_handler.settle(load)

    def end_or_carry_over_previous(self, next_load: Load) -> list[Effect]:
        """The next load begins: what the agent sends now is its, and the previous one is over.

        If the previous replay is cut in the middle, nobody knows what is new in it, and the next replay has it too. But
        there may be none, so the previous load is carried over until the client has the answer to the next one."""
        previous = self.loads.find_opened(next_load.session_id)
        if previous is None or previous.state is not LoadState.BEFORE_PROMPT:
            return self.end_opened_load(next_load.session_id)
        next_load.lines.other_replays.expect_rest(previous.lines.other_replays.first_line)
        if (
            next_load.plan.agent_method != acp.LOAD
            or previous.compared_replay is None
            or not previous.compared_replay.comparison.may_tail_be_context
        ):
            return self._apply_event(previous, LoadEvent.MUST_END)
        previous.compared_replay.needs_recheck = True  # until it is settled, another window may record what is new
        return self.line_handler.release_undecided_updates(previous.session_id)

    def _end_carried_over(self, next_load: Load) -> list[Effect]:
        """The client has its answer to the next load: end the previous one if it was carried over."""
        previous = self.loads.find_opened(next_load.session_id)
        if previous is None or previous is next_load:
            return []
        compared = next_load.compared_replay
        has_replay = next_load.lines.possible_replay or (compared is not None and compared.comparison.last_update.line)
        return self._apply_event(previous, LoadEvent.DROPPED if has_replay else LoadEvent.MUST_END)

    def end_opened_load(self, session_id: str | None) -> list[Effect]:
        """Settle now what the agent sent about a session, and end its load, since a request of the client ends that,
        such as a close, or another load takes its place or needs the room."""
        load = self.loads.find_opened(session_id)
        return self._apply_event(load, LoadEvent.MUST_END) if load is not None else []

    def handle_prompt(self, session_id: str, prompt: Request) -> list[Effect]:
        """The client prompts: bring ``PROMPTED`` to the session's loads. An opened one is settled; a replay that is
        held passes."""
        effects: list[Effect] = []
        for load in self.loads.list_pending_of_session(session_id):
            _add_unechoed(load, prompt)
            if load.state is not LoadState.HOLDING_REPLAY or load.lines.possible_replay:  # else it goes on holding
                effects += self._apply_event(load, LoadEvent.PROMPTED)
        opened_load = self.loads.find_opened(session_id)
        if opened_load is not None:
            effects += self.line_handler.release_updates_in_turn(opened_load)
            _add_unechoed(opened_load, prompt)
            if opened_load.state is LoadState.BEFORE_PROMPT:
                self._handovers.keep_first_prompt(opened_load, prompt)
            effects += self._apply_event(opened_load, LoadEvent.PROMPTED)
        return effects

    def handle_turn_end(self, session_id: str) -> list[Effect]:
        """A turn has ended: bring ``TURN_ENDED`` to the session's loads if no prompt is open."""
        if self._session_tracker.sessions.is_in_turn(session_id):
            return []
        load = self.loads.find_opened(session_id)
        loads = [*self.loads.list_pending_of_session(session_id), *([load] if load is not None else [])]
        self._handovers.stop_expecting_earlier_handover_record(session_id)
        return [effect for each in loads for effect in self._apply_event(each, LoadEvent.TURN_ENDED)]

    def delete_session(self, session_id: str, request_id: RequestId | None = None) -> list[Effect]:
        """Delete a session here: stop sending its transcript, and forget its load. ``request_id``: the request to
        answer then, if the agent has not."""
        effects: list[Effect] = [*self._session_tracker.track_deleted(session_id)]
        self._handovers.forget_session(session_id)
        load = self.loads.find_opened(session_id)
        effects += self._apply_event(load, LoadEvent.DROPPED) if load is not None else []
        effects += [StopShowingPast(load.request.id) for load in self.loads.list_pending_of_session(session_id)]
        return [*effects, DeleteSession(session_id, request_id)]

    def handle_agent_end(self, reason: str) -> list[Effect]:
        """The agent has ended: bring ``AGENT_ENDED`` to all loads, to those whose past is being shown once the client
        has its answer. Those that the agent has not answered get an error, whose text is ``reason``."""
        had_ended, self._has_agent_ended = self._has_agent_ended, True
        effects: list[Effect] = []
        for load in self.loads.list_pending():
            if load.awaits_agents_answer:
                load.answer_line = jsonrpc.encode_error(load.request.id, jsonrpc.INTERNAL_ERROR, reason)
                effects += self._apply_event(load, LoadEvent.AGENT_ENDED)
        for load in self.loads.list_opened() if not had_ended else ():  # later ones: ``_apply_postponed_events``
            # Without effects, nothing must be compared first, so ``AGENT_ENDED`` has come, or comes now. Twice does
            # nothing: the load is over.
            effects += self._apply_postponed_events(load) or self._apply_event(load, LoadEvent.AGENT_ENDED)
        self._handovers.forget_asked_loads()
        return effects


def _is_update(line: bytes) -> bool:
    message = jsonrpc.read_message(line)
    return isinstance(message, Notification) and message.method == acp.UPDATE


def _add_unechoed(load: Load, prompt: Request) -> None:
    blocks = acp.member(prompt.params, "prompt")
    letters = "".join(map(read_block_letters, blocks)) if isinstance(blocks, list) else ""
    if letters:
        load.unechoed_letters.append(letters)


def _replace_null_result(line: bytes, message: Response) -> bytes:
    """The response with ``{}`` instead of null as its result, or instead of none: some clients fail on these."""
    if message.result is not None:
        return line
    try:
        members = json_splice.find_members(json_splice.decode(line))
        if message.id is not None and not members.keys() & {"result", "error"}:
            return jsonrpc.encode_result(message.id, {})
        return json_splice.with_value(line, "{}", "result")
    except (ValueError, KeyError):
        return line
