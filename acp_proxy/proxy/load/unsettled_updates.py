"""Handles what the agent sends about a session while it may still be the past that a load asked for.

It comes *late*, between the client's answer to the load and the next prompt, or in a turn, which may begin before any
answer. What comes late is compared with the transcript, and what is new
in it is recorded when the load is settled. In a turn, an update is sent and recorded at once, unless it proves to be of
a replay.
"""

from collections.abc import Callable

from acp_proxy.comparison.letters import block_letters
from acp_proxy.comparison.replay_in_turn import SortedLine
from acp_proxy.protocol import acp, jsonrpc, update_kinds
from acp_proxy.protocol.jsonrpc import Notification, Peer
from acp_proxy.protocol.update_kinds import Role
from acp_proxy.proxy.effects import ComparePast, DecideLater, Effect, EndTurn, Forward
from acp_proxy.proxy.load.load import Load
from acp_proxy.proxy.load.load_buffers import LoadBuffers
from acp_proxy.proxy.load.load_states import LoadState
from acp_proxy.proxy.load.loads import Loads
from acp_proxy.proxy.session_entries import SessionEntries


class UnsettledUpdates:
    """The updates of one connection's loads that come late or in a turn.

    Changes nothing of a load but its ``compared_replay``, where updates wait, and its ``unechoed_prompts``. What was
    not compared is kept by way of ``LoadBuffers``.
    """

    def __init__(
        self,
        session_entries: SessionEntries,
        loads: Loads,
        load_buffers: LoadBuffers,
        send_or_hold_line: Callable[[str | None, bytes], list[Effect]],
    ) -> None:
        """``send_or_hold_line``: sends a session's line, or holds it until after the answer to a load that holds
        lines."""
        self._session_entries = session_entries
        self._loads = loads
        self._load_buffers = load_buffers
        self._send_or_hold_line = send_or_hold_line

    # --- between the answer and the next prompt

    def handle_late_update(self, load: Load, line: bytes, update: object) -> list[Effect]:
        """An update of the conversation after the client's answer, before the next prompt."""
        if load.compared_replay is not None:
            return [Forward(Peer.CLIENT, late_line) for late_line in load.compared_replay.sort_late(line, update)]
        if load.withholds_replay and load.may_compare and not load.opens_anew:  # shown without comparing
            return [_ask_to_compare(load), DecideLater(Peer.AGENT, [line])]
        self._load_buffers.keep_to_compare(load, line, is_after_agents_answer=True)
        return [Forward(Peer.CLIENT, line, may_precede_recording=True)]

    def release_and_compare(self, session_id: str | None) -> list[Effect]:
        """Send what waits and have ``run`` compare, before a prompt, a close or another request for this session goes
        on. Empty if it goes on at once."""
        load = self._loads.find_unsettled(session_id)
        if load is None or load.state is not LoadState.ANSWERED:
            return []
        if load.uncompared_lines:
            _, is_after_agents_answer = load.uncompared_lines.items[-1]
            is_recorded = load.compared_replay is None and load.is_import and not is_after_agents_answer
            return [] if is_recorded else [_ask_to_compare(load)]
        if load.compared_replay is None or load.compared_replay.is_checked:
            return []
        # What is new may have been recorded in the meantime: another window has loaded the session too.
        effects = self._release_late_of_load(load)
        lines = load.compared_replay.begin_check()
        updates = tuple((line, True) for line in lines)
        compared_size = load.compared_replay.size
        return effects + (
            [ComparePast(load.request.id, load.session_id, updates, since_size=compared_size)] if lines else []
        )

    def record_new(self, load: Load) -> list[Effect]:
        """Record what is new in what the agent sent until now, and send what waits unless the client has it."""
        effects = self._release_late_of_load(load)
        if load.compared_replay is None:
            return effects
        load.compared_replay.comparison.end_message()
        new_lines = load.compared_replay.find_new()
        load.compared_replay.comparison.forget_tail()
        for line in new_lines:
            effects += self._make_entries(load, line)
        if new_lines:
            effects.append(EndTurn(load.session_id))
        return effects

    # --- in a turn

    def begin_sorting_in_turn(self, load: Load) -> None:
        """The next prompt comes: everything is new from now on except a replay that still runs."""
        if load.compared_replay is not None:
            load.compared_replay.begin_sorting_in_turn(withholds_replay=load.withholds_replay)

    def handle_update_in_turn(self, load: Load, line: bytes, update: object) -> list[Effect]:
        """An update of the conversation during a turn: new, unless it belongs to a replay that still runs or begins."""
        if load.replay_in_turn is not None:
            sorted_lines = load.replay_in_turn.add(
                line, update, load.unechoed_prompts, awaits_replay=load.awaits_replay
            )
            return self._send_sorted(load, sorted_lines)
        may_begin_replay = load.may_compare and load.agent_may_replay
        role = update_kinds.find(acp.update_kind(update)).role if may_begin_replay else None
        letters = block_letters(acp.member(update, "content")) if role is Role.USER else ""
        # The agent may replay words from before the first prompt, if it was asked for a replay.
        is_first = role is Role.AGENT and load.awaits_replay
        if letters in load.unechoed_prompts:
            load.unechoed_prompts.remove(letters)
        elif letters or is_first:  # also the beginning of such a prompt: the past may have a message of these words
            return [_ask_to_compare(load), DecideLater(Peer.AGENT, [line])]
        return self._send_sorted(load, [SortedLine(line, is_sent=True, is_recorded=True)])

    def release_turn_of_load(self, load: Load) -> list[Effect]:
        """Send and record what waits of a load in a turn."""
        replay = load.replay_in_turn
        return self._send_sorted(load, replay.release()) if replay is not None else []

    # --- in both

    def release_all_of_session(self, session_id: str | None) -> list[Effect]:
        """Send the updates that wait after an answered load, and in a turn record them, before something that must not
        overtake them."""
        load = self._loads.find_unsettled(session_id)
        if load is None:
            return []
        return self.release_turn_of_load(load) if load.replay_in_turn is not None else self._release_late_of_load(load)

    def release_turn_of_session(self, session_id: str) -> list[Effect]:
        """The agent has answered a prompt: send and record the updates that wait in its turn."""
        load = self._loads.find_unsettled(session_id)
        return self.release_turn_of_load(load) if load is not None else []

    def _release_late_of_load(self, load: Load) -> list[Effect]:
        """Send what waits of a load from before the next prompt."""
        if load.compared_replay is None or (
            load.state is LoadState.AFTER_PROMPT and load.compared_replay.in_turn is not None
        ):
            return []
        return [Forward(Peer.CLIENT, line) for line in load.compared_replay.late_updates.release()]

    def _send_sorted(self, load: Load, lines: list[SortedLine]) -> list[Effect]:
        """Send and record what the agent sent in a turn."""
        effects: list[Effect] = []
        for sorted_line in lines:
            effects += self._make_entries(load, sorted_line.line) if sorted_line.is_recorded else []
            effects += self._send_or_hold_line(load.session_id, sorted_line.line) if sorted_line.is_sent else []
        return effects

    def _make_entries(self, load: Load, line: bytes) -> list[Effect]:
        message = jsonrpc.read_message(line)
        update = acp.member(message.params, "update") if isinstance(message, Notification) else None
        return [*self._session_entries.make_update_entries(load.session_id, message.raw, update, may_be_opening=False)]


def _ask_to_compare(load: Load) -> Effect:
    """Have ``run`` compare what the agent sent with the transcript."""
    return ComparePast(load.request.id, load.session_id, tuple(load.uncompared_lines.items))
