"""Follows each ``Load`` (a request to load, resume or fork a session), from the question to the agent until all is
settled.

``LoadMachine`` turns what the agent sends, what the client does and what ``run`` finds into events of a ``Load``, and
does what ``load_states.TRANSITIONS`` says. Where there is no load yet, or the state stays, some methods do an action's
work without a transition. Who else changes what of a load: ``load``.
"""

from typing import assert_never

from acp_proxy.comparison.choose_past import Rule, WhosePast, decide_by_rule
from acp_proxy.comparison.comparison import Comparison
from acp_proxy.comparison.letters import block_letters
from acp_proxy.comparison.repeated_replays import find_conversation
from acp_proxy.protocol import acp, json_splice, jsonrpc, update_kinds, v2_updates, versions
from acp_proxy.protocol.jsonrpc import Notification, Peer, Request, RequestId, Response
from acp_proxy.proxy import own_messages
from acp_proxy.proxy.effects import (
    CloseTranscript,
    DecideLater,
    Effect,
    EndTurn,
    Forward,
    ReserveOutput,
    ShowPast,
    StopShowingPast,
    Warn,
)
from acp_proxy.proxy.events import PastCompared, PastShown
from acp_proxy.proxy.handover import handover_lines
from acp_proxy.proxy.handover.continuations import Continuations
from acp_proxy.proxy.handover.handovers import Handovers
from acp_proxy.proxy.load.load import ComparedReplay, Load
from acp_proxy.proxy.load.load_buffers import HELD_LIMIT, LoadBuffers
from acp_proxy.proxy.load.load_plan import FORKED
from acp_proxy.proxy.load.load_states import (
    ABANDONED_STATES,
    SHOWING_STATES,
    SKIPPABLE_STATES,
    TRANSITIONS,
    Action,
    LoadEvent,
    LoadState,
)
from acp_proxy.proxy.load.loads import Loads
from acp_proxy.proxy.load.unsettled_updates import UnsettledUpdates
from acp_proxy.proxy.session_entries import SessionEntries
from acp_proxy.transcript.file_format import NoteType


class LoadMachine:
    """Moves the loads of one connection through their states."""

    def __init__(self, session_entries: SessionEntries, handovers: Handovers, continuations: Continuations) -> None:
        self.sends_titles = True
        """Whether the client gets the title made from the prompts. It does not if the agent's list shows another."""
        self.client_update_kinds: frozenset[str] = frozenset()
        """The optional kinds of updates that the client understands."""
        self.accepted_content: frozenset[str] = frozenset()
        """The types of content blocks that the agent takes in a prompt, beside those that every agent takes."""
        self.dialect = versions.V1
        """The connection's version of the protocol."""
        self.loads = Loads()
        self.load_buffers = LoadBuffers(self.loads)
        self.unsettled_updates = UnsettledUpdates(
            session_entries, self.loads, self.load_buffers, self._send_or_hold_line
        )
        self._session_entries = session_entries
        self._handovers = handovers
        self._continuations = continuations
        self._has_agent_ended = False

    # --- the table

    def _move(self, load: Load, event: LoadEvent) -> list[Effect]:
        """Move a load to its next state, and perform the actions of that."""
        load.state, actions = TRANSITIONS[load.state].moves.get(event, (load.state, ()))
        return [effect for action in actions for effect in self._perform_action(load, action)]

    def _perform_action(self, load: Load, action: Action) -> list[Effect]:
        match action:
            case Action.RECORD_OPENED:
                return self._record_opened(load)
            case Action.SHOW_PAST:
                return self._show_past_if_recorded(load)
            case Action.CLOSE_TRANSCRIPT:
                return [CloseTranscript(load.request.id)]
            case Action.STOP_SHOWING:
                return [StopShowingPast(load.request.id)]
            case Action.RESERVE_OUTPUT:
                return [ReserveOutput(load.request.id)]
            case Action.BEGIN_PASSING:
                load.decision = decide_by_rule(Rule.PASSES, wants_past=load.plan.wants_past)
                return _send(load.uncompared_lines.lines if not load.withholds_replay else [])
            case Action.SEND_UNCOMPARED:
                return _send([line for line, _ in load.uncompared_lines.take()])
            case Action.DROP_UNCOMPARED:
                load.uncompared_lines.drop()
                return []
            case Action.DROP_IMPORT:
                load.uncompared_lines.drop()
                load.is_import = False
                return []
            case Action.SEND_HELD:
                return self._send_held_lines(load)
            case Action.ANSWER:
                if load.refused_prompt is not None:  # the refusal is the prompt's answer, and ends its turn
                    self._handovers.end_sending_again(load.session_id)
                    return [DecideLater(Peer.AGENT, [load.refused_prompt[1]])]
                return [Forward(Peer.CLIENT, load.answer_line)] if load.answer_line else []
            case Action.ANSWER_AFTER_PAST:
                return self._answer_after_past(load)
            case Action.ANSWER_CANCELLED:
                load.decision = decide_by_rule(Rule.CANCELLED)
                return [own_messages.refuse(load.request.id, jsonrpc.REQUEST_CANCELLED, "Request cancelled")]
            case Action.OPEN_ANEW:
                load.state_updates.drop()
                # Updates are of the session that the agent does not have. Whatever else waits is not: an answer, say.
                load.after_client_answer.replace(
                    [item for item in load.after_client_answer.items if not _is_update(item[0])]
                )
                return self._open_anew(load)
            case Action.BECOME_ANSWERED:
                return self._become_answered(load)
            case Action.RECORD_NEW:
                return self.unsettled_updates.record_new(load)
            case Action.BEGIN_TURN:
                self.unsettled_updates.begin_sorting_in_turn(load)
                return []
            case Action.RELEASE_TURN:
                return self.unsettled_updates.release_turn_of_load(load)
            case Action.FORGET:
                self.loads.forget(load)
                return []
            case _:
                assert_never(action)

    # --- requests to open a session

    def begin_asked(self, load: Load) -> list[Effect]:
        """Follow a load that the agent is asked now. Returns the request, if it is for a new session."""
        self.loads.add(load)
        if load.refused_prompt is not None:
            _add_unechoed(load, load.refused_prompt[0])
        for other in self.loads.list_earlier(load):
            if other.state in SKIPPABLE_STATES:
                load.other_replays.expect_of_cancelled(other.request.id, len(other.uncompared_lines.items))
        return self._open_anew(load) if load.plan.agent_method == acp.NEW else []

    def begin_unasked(self, load: Load) -> list[Effect]:
        """Answer a load for which the agent is not asked with the transcript. What the session's agent sends meanwhile
        is new, and follows it."""
        self.loads.add(load)
        load.answer_line = jsonrpc.encode_result(
            load.request.id, self._session_entries.sessions.find_answer(load.session_id)
        )
        if (busy := self.dialect.encode_work_state(load.session_id, is_busy=True)) is not None:
            load.before_client_answer.add(busy, None)
        return self._show_past_if_recorded(load)

    def add_fork(self, request: Request, session_id: str, raw_updates: list[bytes]) -> list[Effect]:
        """The agent has opened a fork. ``raw_updates``: those that came before its answer, which are the parent's past
        or new."""
        load = Load(request, session_id, FORKED, has_transcript=True, is_answered_to_client=True)
        load.uncompared_lines.replace([(raw + b"\n", False) for raw in raw_updates])
        return self._add_unsettled(load)

    def cancel(self, message: Notification) -> list[Effect]:
        """The client cancels a load with ``$/cancel_request``: it gets an answer, and the agent's is dropped."""
        id = jsonrpc.read_cancelled_id(message)
        load = self.loads.find_open(id) if id is not None else None
        if id is None or load is None or load.refused_prompt is not None:
            return []
        return self._move(load, LoadEvent.CANCEL_REQUESTED)

    def handle_reserved_output(self, request_id: RequestId) -> list[Effect]:
        """The client's output is reserved: answer a cancelled load, unless it has its answer."""
        load = self.loads.find_open(request_id)
        return self._move(load, LoadEvent.OUTPUT_RESERVED) if load is not None else []

    # --- the agent's answer

    def take_earlier_id(self, load: Load, answer: Response) -> str | None:
        """The id by which the agent had the session before, if it refuses another window's. Only once."""
        earlier_id, load.earlier_id = load.earlier_id, None
        if earlier_id is None or answer.error is None or load.state not in (LoadState.ASKED, LoadState.PASSING):
            return None
        load.returns_to = earlier_id
        return earlier_id

    def handle_agents_answer(self, load: Load, line: bytes, message: Response) -> list[Effect]:
        """The agent's answer to a load, or to the request sent in its place. ``message``: the same line, parsed."""
        load.answer_line = line.removesuffix(b"\n") + b"\n"
        effects: list[Effect] = []
        cancelled_lines: dict[object, list[tuple[bytes, bool]]] = {}
        for other in self.loads.list_earlier(load):
            if other.state in SKIPPABLE_STATES:  # the agent will not answer it, and what came for it was for this one
                cancelled_lines[other.request.id] = other.uncompared_lines.take()
                effects += self._move(other, LoadEvent.OVERTAKEN)
        if message.error is not None:
            event = LoadEvent.UNKNOWN if self._continuations.can_open_anew(load, message) else LoadEvent.REFUSED
            return effects + self._move(load, event)
        load.uncompared_lines.replace(load.other_replays.separate(load.uncompared_lines.items, cancelled_lines))
        load.first_line = load.other_replays.find_first_line(load.uncompared_lines.items)
        for other in self.loads.list_open_of_session(load.session_id):
            if other is not load:
                other.other_replays.expect_rest(load.first_line)
                other.other_replays.follows_answer = True
        if not load.plan.passes_at_once:
            load.answer_line = _replace_null_result(load.answer_line, message)
        if self.dialect.state_precedes_answer:
            load.before_client_answer.replace(load.before_client_answer.take() + load.after_client_answer.take())
        load.result = message.result
        return effects + self._move(load, LoadEvent.AGREED)

    def _record_opened(self, load: Load) -> list[Effect]:
        """Record that the agent has opened the session, and what came before its answer."""
        request, session_id, result = load.request, load.session_id, load.result
        alias = None
        if not load.opens_anew:
            load.answer_line, alias = self._continuations.rename(load, acp.session_id(result))
        sessions = self._session_entries.sessions
        if load.uncompared_lines.is_closed or sessions.has_begun(session_id) or sessions.is_deleted(session_id):
            load.is_import = False
        raw_states = [line.removesuffix(b"\n") for line in load.state_updates.lines]
        if load.is_import:
            replay = [line.removesuffix(b"\n") for line in find_conversation(load.uncompared_lines.lines)]
            imported = [*replay, *raw_states]
            return [
                *self._session_entries.open(session_id, acp.LOAD, request.params, result, imported=imported),
                EndTurn(session_id),
            ]
        anew = load.opens_anew
        effects: list[Effect] = [
            *self._session_entries.open(session_id, request.method, request.params, result, anew=anew)
        ]
        if alias is not None:
            effects += [
                *self._session_entries.note(session_id, NoteType.ALIAS, to=alias),
                *self._continuations.add_alias(session_id, alias),
            ]
        for raw in raw_states:
            effects += self._session_entries.make_message_entries(session_id, Peer.AGENT, raw)
        return effects

    # --- a new session

    def _open_anew(self, load: Load) -> list[Effect]:
        """Ask the agent for a new session for this load. If that cannot be done, the load is refused."""
        load.opens_anew = True
        effect_or_refusal = self._continuations.ask_for_new(load)
        if not isinstance(effect_or_refusal, bytes):
            return [effect_or_refusal]
        load.answer_line = effect_or_refusal
        return self._move(load, LoadEvent.REFUSED)

    def handle_new_session(self, load: Load, line: bytes, message: Response) -> list[Effect]:
        """The agent's answer to acp-proxy's own ``session/new``. ``message``: the same line, parsed."""
        new_session = self._continuations.continue_in_new(load, line, message)
        load.answer_line = new_session.answer_line if new_session.answer_line is not None else load.answer_line
        idle = self.dialect.encode_work_state(load.session_id, is_busy=False)
        if new_session.event is LoadEvent.AGREED and idle is not None:
            load.before_client_answer.add(idle, None)
        load.result = message.result
        return [*new_session.effects, *self._move(load, new_session.event)]

    # --- comparison, and showing the past

    def _show_past_if_recorded(self, load: Load) -> list[Effect]:
        """Have ``run`` compare and show the past; without a transcript, that is what the agent sent."""
        if not load.has_transcript:
            load.decision = decide_by_rule(Rule.NOT_RECORDED, wants_past=load.plan.wants_past)
            # A client that does not want the past must not get the rest of a replay either: what comes late is compared
            # with the transcript that begins now.
            load.may_compare = not load.plan.wants_past
            name = jsonrpc.make_printable(load.session_id)
            warning = Warn(f"session {name} was not recorded here, so it opens without its history")
            return [*([] if load.uncompared_lines else [warning]), *self._move(load, LoadEvent.PAST_SHOWN)]
        refused_prompt = load.refused_prompt[0] if load.refused_prompt is not None else None
        gives_handover_record = load.opens_anew or load.catches_up or load.returns_to is not None
        return [
            ShowPast(
                load.request.id,
                tuple(load.uncompared_lines.items),
                load.needs_comparison,
                load.fixed_rule,
                wants_past=load.plan.wants_past and refused_prompt is None,
                makes_handover_record=gives_handover_record,
                only_lacking=load.catches_up,
                before_prompt=refused_prompt.id if refused_prompt is not None else None,
                sends_title=self.sends_titles,
                kinds=self.client_update_kinds,
                protocol=self.dialect.version,
                accepted_content=self.accepted_content if gives_handover_record else frozenset(),
            )
        ]

    def handle_past_shown(self, past_shown: PastShown) -> list[Effect]:
        """``run`` has compared and shown the past."""
        load = self.loads.find_open(past_shown.request_id)
        if load is None or load.state not in SHOWING_STATES:  # cancelled, or the id came again
            for cancelled in self.loads.list_unsettled():
                if cancelled.request.id == past_shown.request_id:
                    self._continuations.keep_handover_record(cancelled, past_shown)
            return []
        load.decision = past_shown.decision
        if past_shown.comparison is not None and not load.opens_anew:
            # One that was compared before is in a turn, whose updates were recorded as they came.
            is_checked = load.compared_replay is not None and load.compared_replay.is_checked
            self._keep_comparison(load, past_shown.comparison, past_shown.size, is_checked=is_checked)
        self._continuations.keep_handover_record(load, past_shown)
        load.latest_state_lines = past_shown.states
        return self._move(load, LoadEvent.PAST_SHOWN)

    def _answer_after_past(self, load: Load) -> list[Effect]:
        """Send the agent's replay, or the tail that follows the transcript, then the answer and the states."""
        lines: list[bytes] = []
        assert load.decision is not None  # whoever brings ``PAST_SHOWN`` has set it
        if load.decision.shows is WhosePast.AGENT:
            lines = load.uncompared_lines.lines
        elif load.decision.shows is WhosePast.TRANSCRIPT and load.compared_replay is not None:
            # ``run`` has sent the transcript; the tail follows.
            load.compared_replay.comparison.end_message()
            lines, _ = load.compared_replay.comparison.split_tail()
        if load.has_transcript:
            load.uncompared_lines.drop()
        if self._handovers.keeps_handover_record(load.session_id) and load.opens_anew:
            lines.append(handover_lines.encode_notice(load.session_id))
        lines += [line for line, _ in load.before_client_answer.take()]
        ids = load.compared_replay.new_message_ids if load.compared_replay is not None else {}
        effects: list[Effect] = [*self._session_entries.note_shown_past(load.session_id, load.decision, ids)]
        prompt = self._continuations.send_prompt_again(load)
        answer = [load.answer_line, *load.latest_state_lines] if not prompt else []
        return [*effects, Forward(Peer.CLIENT, b"".join([*lines, *answer])), *prompt]

    def handle_past_compared(self, past_compared: PastCompared) -> list[Effect]:
        """``run`` has compared what the agent sent about a session."""
        for load in [*self.loads.list_unsettled(), *self.loads.list_open()]:
            if (load.request.id, load.session_id) == (past_compared.request_id, past_compared.session_id):
                load.uncompared_lines.drop()
                if load.compared_replay is not None:
                    load.compared_replay.end_check(past_compared.comparison)
                elif past_compared.comparison is None:
                    load.may_compare = False
                else:
                    compared = self._keep_comparison(
                        load, past_compared.comparison, past_compared.size, is_checked=True
                    )
                    if self._session_entries.sessions.is_in_turn(load.session_id):
                        compared.begin_sorting_in_turn(
                            withholds_replay=load.withholds_replay, awaits_replay=load.awaits_replay
                        )
                        queued = [user.forms[0] for user in past_compared.comparison.text.queued]
                        load.unechoed_prompts = queued or load.unechoed_prompts
                return self._apply_earlier_events(load)
        return []

    @staticmethod
    def _keep_comparison(load: Load, comparison: Comparison, size: int, *, is_checked: bool) -> ComparedReplay:
        load.compared_replay = ComparedReplay(
            comparison,
            size,
            withholds_replay=load.withholds_replay,
            wants_past=load.plan.wants_past,
            agent_has_only_part=load.fixed_rule is Rule.HANDED_OVER,
            is_open_elsewhere=load.others_may_append,
            is_checked=is_checked,
        )
        return load.compared_replay

    # --- an open session

    def _become_answered(self, load: Load) -> list[Effect]:
        """The client has its answer. What the agent sends until the next prompt may be of the past, so the load is
        unsettled now; but it is over if the agent was not asked, or if it was cancelled and another one is open, to
        which that belongs."""
        self.loads.remove_open(load)
        others = self.loads.list_open_of_session(load.session_id)
        if load.plan.agent_method is None or any(other.state not in ABANDONED_STATES for other in others):
            return self._move(load, LoadEvent.MUST_END)
        effects = self._end_earlier(load)
        if not self._session_entries.sessions.is_deleted(load.session_id):
            effects += self._add_unsettled(load)
        return effects + self._apply_earlier_events(load)

    def _add_unsettled(self, load: Load) -> list[Effect]:
        """Keep an answered load, and end another one if there are too many."""
        other = self.loads.add_unsettled(load)
        if other is None:
            return []
        other.uncompared_lines.drop()
        return self.end_load(other.session_id)

    def _apply_earlier_events(self, load: Load) -> list[Effect]:
        """Act on what happened before the client got its answer: a prompt, or the agent's end."""
        is_in_turn = self._session_entries.sessions.is_in_turn(load.session_id)
        is_unsettled = load.state is LoadState.ANSWERED and self.loads.find_unsettled(load.session_id) is load
        if not is_unsettled or not (is_in_turn or self._has_agent_ended):
            return []
        if first := self.unsettled_updates.release_and_compare(load.session_id):
            return first
        effects = self._move(load, LoadEvent.PROMPTED) if is_in_turn else []
        return effects + (self._move(load, LoadEvent.ENDED) if self._has_agent_ended else [])

    def record_new_before_next_load(self, session_id: str) -> list[Effect]:
        """The session is opened again: record what is new until now, unless its last replay is cut in the middle. Then
        nobody knows what is new, and the next replay has it too."""
        load = self.loads.find_unsettled(session_id)
        if load is None or load.state is not LoadState.ANSWERED or load.compared_replay is None:
            return []
        if load.compared_replay.comparison.is_in_middle:
            return []
        return self.unsettled_updates.record_new(load)

    def leave_to_next_load(self, next_load: Load) -> list[Effect]:
        """The agent is asked to open a session again: what comes now is the next load's, and the last one is over.

        If the last replay is cut in the middle, nobody knows what is new in it, and the next replay has it too. But
        there may be none, so the last load is kept until the client has the answer to the next one."""
        load = self.loads.find_unsettled(next_load.session_id)
        if load is None or load.state is not LoadState.ANSWERED:
            return self.end_load(next_load.session_id)
        next_load.other_replays.expect_rest(load.first_line)
        if (
            next_load.plan.agent_method != acp.LOAD
            or load.compared_replay is None
            or not load.compared_replay.comparison.is_in_middle
        ):
            return self._move(load, LoadEvent.MUST_END)
        load.compared_replay.require_check()  # until it is settled, another window may record what is new
        return self.unsettled_updates.release_all_of_session(load.session_id)

    def _end_earlier(self, load: Load) -> list[Effect]:
        """The client has its answer to a load: end the session's earlier one, if that was kept."""
        earlier = self.loads.find_unsettled(load.session_id)
        if earlier is None or earlier is load:
            return []
        compared = load.compared_replay
        has_replay = load.uncompared_lines or (compared is not None and compared.comparison.last_update.line)
        return self._move(earlier, LoadEvent.DROPPED if has_replay else LoadEvent.MUST_END)

    def end_load(self, session_id: str | None) -> list[Effect]:
        """Settle now what the agent sent about a session: something other than a prompt begins, or it is closed."""
        load = self.loads.find_unsettled(session_id)
        return self._move(load, LoadEvent.MUST_END) if load is not None else []

    def handle_prompt(self, session_id: str, prompt: Request) -> list[Effect]:
        """The client prompts: settle what the agent sent until now."""
        effects: list[Effect] = []
        for load in self.loads.list_open_of_session(session_id):
            _add_unechoed(load, prompt)
            if load.uncompared_lines or load.state is not LoadState.ASKED:
                effects += self._move(load, LoadEvent.PROMPTED)
        unsettled_load = self.loads.find_unsettled(session_id)
        if unsettled_load is not None:
            effects += self.unsettled_updates.release_turn_of_load(unsettled_load)
            _add_unechoed(unsettled_load, prompt)
            if unsettled_load.state is LoadState.ANSWERED:
                self._handovers.keep_first_prompt(unsettled_load, prompt)
            effects += self._move(unsettled_load, LoadEvent.PROMPTED)
        return effects

    def handle_turn_end(self, session_id: str) -> list[Effect]:
        """A prompt is answered. Settles the session's load if no other prompt is open."""
        if self._session_entries.sessions.is_in_turn(session_id):
            return []
        load = self.loads.find_unsettled(session_id)
        loads = [*self.loads.list_open_of_session(session_id), *([load] if load is not None else [])]
        self._handovers.stop_expecting_handover_record(session_id)
        return [effect for each in loads for effect in self._move(each, LoadEvent.TURN_ENDED)]

    def forget_session(self, session_id: str) -> list[Effect]:
        """The session was deleted: stop showing its past, and forget its load."""
        self._handovers.forget_session(session_id)
        load = self.loads.find_unsettled(session_id)
        effects = self._move(load, LoadEvent.DROPPED) if load is not None else []
        return [*effects, *(StopShowingPast(load.request.id) for load in self.loads.list_open_of_session(session_id))]

    def end(self, reason: str) -> list[Effect]:
        """The agent has ended: answer every load with an error, after what it sent. ``reason``: the error's text."""
        had_ended, self._has_agent_ended = self._has_agent_ended, True
        effects: list[Effect] = []
        for load in self.loads.list_open():
            if load.awaits_agents_answer:
                load.answer_line = jsonrpc.encode_error(load.request.id, jsonrpc.INTERNAL_ERROR, reason)
                effects += self._move(load, LoadEvent.ENDED)
        for load in self.loads.list_unsettled() if not had_ended else ():  # later ones: ``_apply_earlier_events``
            effects += self._apply_earlier_events(load) or self._move(load, LoadEvent.ENDED)
        self._handovers.forget_asked()
        return effects

    # --- what the agent sends

    def claims_all_updates(self, session_id: str) -> bool:
        """Whether a load takes all updates of a session, since any may be of the past. In the turn after it, it takes
        only user messages, unless a replay still runs."""
        load = self.loads.find_current(session_id) if self.loads else None
        if load is None:
            return False
        in_turn = load.replay_in_turn
        return load.state is not LoadState.AFTER_PROMPT or (in_turn is not None and in_turn.may_still_run)

    def handle_update(self, load: Load, line: bytes, message: Notification) -> list[Effect]:
        """An update of a session whose load is not settled. ``message``: the same line, parsed."""
        update = v2_updates.as_v1(acp.member(message.params, "update"))
        if not update_kinds.is_conversation(acp.update_kind(update)):
            return self._handle_non_conversation(load, line, message)
        # A turn may be under way in any state.
        if self._session_entries.sessions.is_in_turn(load.session_id) or load.plan.agent_method is None:
            load.other_replays.end()
            return self.unsettled_updates.handle_update_in_turn(load, line, update)
        if load.other_replays.is_repeated(line):
            return []  # the client has it
        match load.state:
            case LoadState.ASKED:
                load.uncompared_lines.add(line, load.other_replays.follows_answer)
                return self._pass_if_flooded(load)
            case LoadState.PASSING | LoadState.PASSING_CANCELLED | LoadState.PASSING_ABANDONED:
                self.load_buffers.keep_to_compare(load, line, is_after_agents_answer=load.other_replays.follows_answer)
                return self._send_or_hold_line(load.session_id, line) if not load.withholds_replay else []
            case LoadState.CANCELLING | LoadState.CANCELLED | LoadState.ABANDONED:
                self.load_buffers.keep_to_compare(load, line, is_after_agents_answer=load.other_replays.follows_answer)
                return []
            case LoadState.SHOWING_PAST | LoadState.STOPPING:
                load.after_client_answer.add(line, update)
                return []
            case LoadState.ANSWERED | LoadState.AFTER_PROMPT:
                # The latter if its prompts were cancelled, so that they are no turn any more.
                return self.unsettled_updates.handle_late_update(load, line, update)
            case LoadState.OVER:
                return [Forward(Peer.CLIENT, line)]
            case _:
                assert_never(load.state)

    def _handle_non_conversation(self, load: Load, line: bytes, message: Notification) -> list[Effect]:
        """An update of ``Role.STATE``, such as a title: recorded, but one that comes before the agent's answer only
        after that."""
        effects: list[Effect] = []
        if not load.awaits_agents_answer or self._session_entries.sessions.is_in_turn(load.session_id):
            effects += self._session_entries.make_update_entries(
                load.session_id, message.raw, acp.member(message.params, "update"), may_be_opening=False
            )
        elif load.state_updates.size + len(line) <= HELD_LIMIT:
            load.state_updates.add(line, None)
        if self.load_buffers.find_holder(load.session_id) is None:
            return [Forward(Peer.CLIENT, line, may_precede_recording=True), *effects]
        return [*effects, *self.send_in_order(load.session_id, line)]

    def send_in_order(self, session_id: str | None, line: bytes) -> list[Effect]:
        """Send a line that does not belong to a replay after the session's updates from before it, or hold it where
        they wait."""
        is_held = self.load_buffers.find_holder(session_id) is not None
        earlier_updates = [] if is_held else self.unsettled_updates.release_all_of_session(session_id)
        return [*earlier_updates, *self._send_or_hold_line(session_id, line)]

    def send_agents_request(self, session_id: str | None, line: bytes) -> list[Effect]:
        """Send a request from the agent. If the agent has not answered the load, it passes at once, after what waited:
        the agent may need the client's answer to give its own. Nothing else comes before it if the client does not want
        the past."""
        load = self.load_buffers.find_holder(session_id)
        if load is None or load.state is not LoadState.ASKED:
            return self.send_in_order(session_id, line)
        passes = load.uncompared_lines and load.plan.wants_past
        effects = self._move(load, LoadEvent.CANNOT_WAIT) if passes else self._send_held_lines(load)
        return [*effects, Forward(Peer.CLIENT, line)]

    def _send_or_hold_line(self, session_id: str | None, line: bytes) -> list[Effect]:
        """Send a line, or hold it until after the answer to a load of its session that holds lines."""
        holder = self.load_buffers.find_holder(session_id)
        if holder is None:
            return [Forward(Peer.CLIENT, line)]
        holder.after_client_answer.add(line, None)
        return self._pass_if_flooded(holder)

    def _pass_if_flooded(self, load: Load) -> list[Effect]:
        """If too much waits before the agent's answer, everything passes, unless dropping its replay is enough."""
        if not self.load_buffers.is_too_much_to_hold(load) or self.load_buffers.drop_unneeded_replay(load):
            return []
        return self._move(load, LoadEvent.CANNOT_WAIT)

    def _send_held_lines(self, load: Load) -> list[Effect]:
        """Send the lines that waited for this load's answer."""
        lines: list[bytes] = []
        for line, update in load.before_client_answer.take() + load.after_client_answer.take():
            if update is None:
                lines.append(line)
            elif load.compared_replay is not None:
                lines += load.compared_replay.sort_late(line, update)
            else:
                self.load_buffers.keep_to_compare(load, line, is_after_agents_answer=True)
                lines.append(line)
        return _send(lines)


def _send(lines: list[bytes]) -> list[Effect]:
    return [Forward(Peer.CLIENT, b"".join(lines))] if lines else []


def _is_update(line: bytes) -> bool:
    message = jsonrpc.read_message(line)
    return isinstance(message, Notification) and message.method == acp.UPDATE


def _add_unechoed(load: Load, prompt: Request) -> None:
    blocks = acp.member(prompt.params, "prompt")
    letters = "".join(map(block_letters, blocks)) if isinstance(blocks, list) else ""
    if letters:
        load.unechoed_prompts.append(letters)


def _replace_null_result(line: bytes, message: Response) -> bytes:
    """The response with ``{}`` instead of null as its result, since some clients fail on null."""
    if message.result is not None:
        return line
    try:
        return json_splice.with_value(line, "{}", "result")
    except (ValueError, KeyError):
        return line
