"""Handles what the agent sends about a session that has a load: holds it, sends it, or finds out whether it is past.

What comes before the agent's answer is held, or passes. What comes *late*, between that answer and the next prompt, is
compared with the transcript, and what is new in it is recorded when the load is settled. In a turn, which may begin
before any answer, an update is sent and recorded at once, unless it proves to be of a replay.
"""

from collections.abc import Callable
from typing import assert_never

from acp_proxy.comparison.comparison import SentLine
from acp_proxy.comparison.letters import read_block_letters
from acp_proxy.comparison.updates_in_turn import SortedLine
from acp_proxy.decisions.effects import CompareUnsettled, DecideLater, Effect, Forward, SaveAndIndex
from acp_proxy.decisions.load.current_loads import CurrentLoads
from acp_proxy.decisions.load.line_buffers import HeldLine
from acp_proxy.decisions.load.load import Load
from acp_proxy.decisions.load.load_limits import HELD_BYTES_LIMIT, LoadLimits
from acp_proxy.decisions.load.load_states import HOLDING_UNTIL_AGENT_ANSWERS, LoadEvent, LoadState
from acp_proxy.decisions.session_tracker import SessionTracker
from acp_proxy.protocol import acp, jsonrpc, update_kinds, v2_updates
from acp_proxy.protocol.jsonrpc import Notification, Peer
from acp_proxy.protocol.update_kinds import Role


class LoadLineHandler:
    """Handles the agent's lines about the sessions of one connection that have loads. Lines of other sessions are sent
    at once.

    Assigns nothing of a load; the beginning of ``load.py`` says what it changes. Has ``CANNOT_WAIT`` and
    ``REPLAY_TOO_LARGE`` applied.
    """

    def __init__(
        self,
        session_tracker: SessionTracker,
        loads: CurrentLoads,
        limits: LoadLimits,
        apply_event: Callable[[Load, LoadEvent], list[Effect]],
    ) -> None:
        """``apply_event``: for a load that can hold no more, or whose agent asks something."""
        self._session_tracker = session_tracker
        self._loads = loads
        self._limits = limits
        self._apply_event = apply_event

    # --- all lines of sessions that have a load

    def claims_all_updates(self, session_id: str) -> bool:
        """Whether a load takes all updates of a session, since any may be of the past. In the turn after it, it takes
        only user messages, unless a replay still runs."""
        load = self._loads.find_load_for_updates(session_id) if self._loads else None
        if load is None:
            return False
        in_turn = load.updates_in_turn
        return load.state is not LoadState.IN_FIRST_TURN or (in_turn is not None and in_turn.replay_may_still_run)

    def handle_update(self, load: Load, line: bytes, message: Notification) -> list[Effect]:
        """An update of a session whose load is not over. ``message``: the same line, parsed."""
        update = acp.member(message.params, "update")
        if not update_kinds.is_conversation(acp.update_kind(update)):
            return self._handle_state_update(load, line, message)
        update = v2_updates.normalize_to_v1(update)  # of either version; what proves nothing becomes a plan
        # A turn may be under way in any state. An agent that was not asked replays nothing, so all is new.
        if self._session_tracker.sessions.is_in_turn(load.session_id) or load.plan.agent_method is None:
            load.lines.other_replays.end()
            return self._handle_update_in_turn(load, line, update)
        if load.lines.other_replays.try_take_repeated(line):
            return []  # the client has it
        match load.state:
            case LoadState.HOLDING_REPLAY | LoadState.DROPPING_REPLAY:
                load.lines.possible_replay.add(SentLine(line, load.lines.other_replays.agent_answered_other_load))
                return self._keep_within_limits(load)
            case LoadState.PASSING | LoadState.PASSING_CANCELLING:
                self._keep_to_compare(load, line, is_after_an_answer=load.lines.other_replays.agent_answered_other_load)
                return self._send_or_hold_line(load.session_id, line) if not load.hides_replay_now else []
            case LoadState.CANCELLING | LoadState.CANCELLED:
                self._keep_to_compare(load, line, is_after_an_answer=load.lines.other_replays.agent_answered_other_load)
                return []
            case LoadState.CHOOSING_PAST | LoadState.CANCELLING_WHILE_SHOWING:
                load.lines.to_send_after_answer.add(HeldLine(line, update))
                return []
            case LoadState.BEFORE_PROMPT | LoadState.IN_FIRST_TURN:
                # The latter if the turn's prompts were cancelled, so that they are no turn any more.
                return self._handle_late_update(load, line, update)
            case LoadState.PASSING_ABANDONED | LoadState.ABANDONED | LoadState.OVER:
                # Cannot be: ``CurrentLoads.find_load_for_updates`` finds none of them.
                return [Forward(Peer.CLIENT, line)]
            case _:
                assert_never(load.state)

    def _handle_state_update(self, load: Load, line: bytes, message: Notification) -> list[Effect]:
        """An update of ``Role.STATE``, such as a title: recorded. One that comes before the agent's answer, and in no
        turn, is recorded after that, as far as ``HELD_BYTES_LIMIT`` allows."""
        effects: list[Effect] = []
        if not load.awaits_agents_answer or self._session_tracker.sessions.is_in_turn(load.session_id):
            effects += self._session_tracker.track_update(
                load.session_id, message.raw, acp.member(message.params, "update"), session_may_be_new=False
            )
        elif load.lines.state_updates.size + len(line) <= HELD_BYTES_LIMIT:
            load.lines.state_updates.add(HeldLine(line))
        if self._loads.find_load_holding_lines(load.session_id) is None:
            return [Forward(Peer.CLIENT, line, may_precede_recording=True), *effects]
        return [*effects, *self.send_in_order(load.session_id, line)]

    def send_in_order(self, session_id: str | None, line: bytes) -> list[Effect]:
        """Send a line that does not belong to a replay after the session's updates from before it, or hold it where
        they wait."""
        is_held = self._loads.find_load_holding_lines(session_id) is not None
        earlier_updates = [] if is_held else self.release_undecided_updates(session_id)
        return [*earlier_updates, *self._send_or_hold_line(session_id, line)]

    def send_agents_request(self, session_id: str | None, method: str, line: bytes) -> list[Effect]:
        """Send a request from the agent. If the agent has not answered the load, it passes at once, after what waited:
        the agent may need the client's answer to give its own. The held replay leaves before it unless the client does
        not get it, or the request shows nothing to the user, who then need not have seen the replay."""
        load = self._loads.find_load_holding_lines(session_id)
        if load is None or load.state not in HOLDING_UNTIL_AGENT_ANSWERS:
            return self.send_in_order(session_id, line)
        # What is only planned hides nothing here: the request may be about something in the replay.
        may_be_about_replay = not method.startswith(acp.CLIENT_TOOLS)
        passes = load.lines.possible_replay and may_be_about_replay and not load.hides_replay_now
        effects = self._apply_event(load, LoadEvent.CANNOT_WAIT) if passes else self.release_held_lines(load)
        return [*effects, Forward(Peer.CLIENT, line)]

    def _send_or_hold_line(self, session_id: str | None, line: bytes) -> list[Effect]:
        """Send a line, or hold it until after the answer to a load of its session that holds lines."""
        holder = self._loads.find_load_holding_lines(session_id)
        if holder is None:
            return [Forward(Peer.CLIENT, line)]
        holder.lines.to_send_after_answer.add(HeldLine(line))
        return self._keep_within_limits(holder)

    def _keep_within_limits(self, load: Load) -> list[Effect]:
        """If too much waits before the agent's answer, everything passes from now on. If the client is not to see the
        agent's replay, that is dropped instead, and what waits beside it leaves if that is not enough."""
        if load.state not in HOLDING_UNTIL_AGENT_ANSWERS or not self._limits.is_exceeded_by(load):
            return []
        if load.planned_decision is not None and load.planned_decision.hides_replay:
            effects = self._apply_event(load, LoadEvent.REPLAY_TOO_LARGE)
            return effects + (self.release_held_lines(load) if self._limits.is_exceeded_by(load) else [])
        return self._apply_event(load, LoadEvent.CANNOT_WAIT)

    def _keep_to_compare(self, load: Load, line: bytes, *, is_after_an_answer: bool) -> None:
        """Keep a line that the client has, or must not get, to compare it when the next prompt comes.

        ``is_after_an_answer``: it came after the agent's answer to this or another load of the session.
        """
        if load.lines.possible_replay.was_given_up:
            return
        load.lines.possible_replay.add(SentLine(line, is_after_an_answer))
        if self._limits.is_exceeded_by(load):  # too much to hold, so nothing of it is compared
            load.lines.possible_replay.give_up()

    def release_held_lines(self, load: Load) -> list[Effect]:
        """Send the lines that waited for this load's answer."""
        lines: list[bytes] = []
        for line, update in load.lines.to_send_before_answer.take() + load.lines.to_send_after_answer.take():
            if update is None:
                lines.append(line)
            elif load.compared_replay is not None:
                lines += load.compared_replay.add_late_update(line, update)
            else:
                self._keep_to_compare(load, line, is_after_an_answer=True)
                lines.append(line)
        return send_lines(lines)

    # --- between the answer and the next prompt

    def _handle_late_update(self, load: Load, line: bytes, update: object) -> list[Effect]:
        """A late update of the conversation, which the client may get: it has its answer."""
        if load.compared_replay is not None:
            return [Forward(Peer.CLIENT, late_line) for late_line in load.compared_replay.add_late_update(line, update)]
        # Nothing is compared yet, and the client must not see a replay.
        if load.hides_replay_now and load.can_compare and not load.opens_new_session:
            return [_ask_to_compare(load), DecideLater(Peer.AGENT, [line])]
        self._keep_to_compare(load, line, is_after_an_answer=True)
        return [Forward(Peer.CLIENT, line, may_precede_recording=True)]

    def compare_before_request(self, session_id: str | None) -> list[Effect]:
        """Send what waits and have ``relay/`` compare, before a prompt, a close or another request for this session
        goes on. Empty if it goes on at once."""
        load = self._loads.find_opened(session_id)
        if load is None or load.state is not LoadState.BEFORE_PROMPT:
            return []
        if load.lines.possible_replay:
            is_after_an_answer = load.lines.possible_replay.items[-1].is_after_an_answer
            is_recorded = load.compared_replay is None and load.imports_replay and not is_after_an_answer
            return [] if is_recorded else [_ask_to_compare(load)]
        if load.compared_replay is None or not load.compared_replay.needs_recheck:
            return []
        # What is new may have been recorded in the meantime: another window has loaded the session too.
        effects = self._release_late_updates(load)
        lines = load.compared_replay.begin_recheck()
        updates = tuple(SentLine(line, is_after_an_answer=True) for line in lines)
        compared_size = load.compared_replay.transcript_size
        return effects + (
            [CompareUnsettled(load.request.id, load.session_id, updates, since_size=compared_size)] if lines else []
        )

    def settle(self, load: Load) -> list[Effect]:
        """Record what is new in what the agent sent until now, and send what waits unless the client has it."""
        effects = self._release_late_updates(load)
        if load.compared_replay is None:
            return effects
        load.compared_replay.comparison.end_message()
        new_lines = load.compared_replay.find_unrecorded()
        load.compared_replay.comparison.drop_tail()
        for line in new_lines:
            effects += self._make_entries(load, line)
        is_in_turn = self._session_tracker.sessions.is_in_turn(load.session_id)
        return [*effects, SaveAndIndex(load.session_id)] if new_lines and not is_in_turn else effects

    # --- in a turn

    def begin_updates_in_turn(self, load: Load) -> None:
        """The next prompt comes: everything is new from now on except a replay that still runs."""
        if load.compared_replay is not None:
            load.compared_replay.begin_updates_in_turn(hides_replay=load.hides_replay_now)

    def _handle_update_in_turn(self, load: Load, line: bytes, update: object) -> list[Effect]:
        """An update of the conversation during a turn: new, unless it belongs to a replay that still runs or begins."""
        if load.updates_in_turn is not None:
            sorted_lines = load.updates_in_turn.add(
                line, update, load.unechoed_letters, replay_may_come=load.replay_may_come
            )
            return self._send_and_record(load, sorted_lines)
        may_begin_replay = load.can_compare and load.agent_may_replay
        role = update_kinds.find(acp.update_kind(update)).role if may_begin_replay else None
        letters = read_block_letters(acp.member(update, "content")) if role is Role.USER else ""
        # The agent may replay words from before the first prompt, if it was asked for a replay.
        is_first = role is Role.AGENT and load.replay_may_come
        if letters in load.unechoed_letters:
            load.unechoed_letters.remove(letters)
        elif letters or is_first:  # also the beginning of such a prompt: the past may have a message of these words
            return [_ask_to_compare(load), DecideLater(Peer.AGENT, [line])]
        return self._send_and_record(load, [SortedLine(line, should_send=True, should_record=True)])

    def release_updates_in_turn(self, load: Load) -> list[Effect]:
        """Send and record what waits of a load in a turn."""
        in_turn = load.updates_in_turn
        return self._send_and_record(load, in_turn.release()) if in_turn is not None else []

    # --- in both

    def release_undecided_updates(self, session_id: str | None) -> list[Effect]:
        """Send the updates that wait after an opened load, and in a turn record them, before something that must not
        overtake them."""
        load = self._loads.find_opened(session_id)
        if load is None:
            return []
        return (
            self.release_updates_in_turn(load) if load.updates_in_turn is not None else self._release_late_updates(load)
        )

    def _release_late_updates(self, load: Load) -> list[Effect]:
        """Send what waits of a load from before the next prompt."""
        # When the prompt settles the load, the state is ``IN_FIRST_TURN`` already, but its updates have not begun.
        has_begun_first_turn = load.state is LoadState.IN_FIRST_TURN and load.updates_in_turn is not None
        if load.compared_replay is None or has_begun_first_turn:
            return []
        return [Forward(Peer.CLIENT, line) for line in load.compared_replay.late_updates.release()]

    def _send_and_record(self, load: Load, lines: list[SortedLine]) -> list[Effect]:
        """Send and record what the agent sent in a turn."""
        effects: list[Effect] = []
        for sorted_line in lines:
            effects += self._make_entries(load, sorted_line.line) if sorted_line.should_record else []
            effects += self._send_or_hold_line(load.session_id, sorted_line.line) if sorted_line.should_send else []
        return effects

    def _make_entries(self, load: Load, line: bytes) -> list[Effect]:
        message = jsonrpc.read_message(line)
        update = acp.member(message.params, "update") if isinstance(message, Notification) else None
        return [*self._session_tracker.track_update(load.session_id, message.raw, update, session_may_be_new=False)]


def send_lines(lines: list[bytes]) -> list[Effect]:
    """Send lines to the client at once."""
    return [Forward(Peer.CLIENT, b"".join(lines))] if lines else []


def _ask_to_compare(load: Load) -> Effect:
    """Have ``relay/`` compare what the agent sent with the transcript."""
    return CompareUnsettled(load.request.id, load.session_id, tuple(load.lines.possible_replay.items))
