"""What loads keep in their buffers: which one a session's lines wait for, what is kept to be compared, and how much.

While a load holds lines, everything about its session waits for the answer that the client gets, so that nothing
overtakes the past that it is shown. ``AgentLines`` adds what waits, also that which is compared
before it leaves; what is only kept to be compared is added here.
"""

from acp_proxy.comparison.choose_past import WhosePast
from acp_proxy.protocol import jsonrpc
from acp_proxy.protocol.jsonrpc import Notification, Request, RequestId
from acp_proxy.proxy.load.load import Load
from acp_proxy.proxy.load.load_states import LoadState
from acp_proxy.proxy.load.loads import Loads

HELD_BYTES_LIMIT = 64 * 1024 * 1024
"""The most bytes that may wait for a load. Beyond that, before the agent's answer, they pass and the client sees the
agent's replay; while the transcript is sent, the agent is not read until that is done."""
ALL_HELD_LIMIT = 4 * HELD_BYTES_LIMIT
"""The most bytes that may wait for all loads together. Beyond that, a load that grows counts as over its limit."""


class HeldLines:
    """The buffers of all loads of one connection."""

    def __init__(self, loads: Loads) -> None:
        self._loads = loads

    # --- what waits for which load

    def find_holder(self, session_id: str | None) -> Load | None:
        """The load for whose answer the session's lines wait."""
        loads = self._loads.list_open_of_session(session_id) if session_id is not None else []
        return next((load for load in loads if load.holds_lines), None)

    def keep_to_compare(self, load: Load, line: bytes, *, is_after_agents_answer: bool) -> None:
        """Keep a line that the client has, or must not get, to compare it when the next prompt comes.

        ``is_after_agents_answer``: it came after the agent's answer.
        """
        if load.uncompared_lines.is_closed:
            return
        load.uncompared_lines.add(line, is_after_agents_answer)
        if self._exceeds_limit(load):  # too much to hold, so nothing of it is compared
            load.uncompared_lines.close()

    def has_waiting_updates_of_replay(self, id: RequestId) -> bool:
        """Whether conversation updates that wait for a load's answer may belong to the agent's replay."""
        load = self._loads.find_open(id)
        if load is None or not load.agent_may_replay:
            return False
        return any(update is not None for _, update in load.after_answer_to_client.items)

    def find_session_of_held_request(self, cancel: Notification) -> str | None:
        """The session whose waiting lines contain the request that the agent cancels, or None."""
        cancelled_id = jsonrpc.read_cancelled_id(cancel)
        for load in self._loads.list_open():
            for line in load.before_answer_to_client.lines + load.after_answer_to_client.lines:
                message = jsonrpc.read_message(line)
                if isinstance(message, Request) and message.id == cancelled_id:
                    return load.session_id
        return None

    # --- how much

    def must_stop_holding(self, load: Load) -> bool:
        """Whether too much waits before the agent's answer."""
        return load.state is LoadState.ASKED and self._exceeds_limit(load)

    def try_drop_replay(self, load: Load) -> bool:
        """Drop what the agent has replayed, if the transcript is shown whatever it sends. Returns whether there was
        something to drop."""
        rule = load.known_rule
        if rule is None or rule.whose_past is not WhosePast.TRANSCRIPT or not load.uncompared_lines:
            return False
        load.uncompared_lines.drop()
        return True

    @property
    def must_pause_agent(self) -> bool:
        """Whether so much waits that the agent must not be read until the past is shown."""
        loads = self._loads.list_open() if self._loads else []
        sizes = [load.held_size for load in loads if load.holds_lines and not load.awaits_agents_answer]
        return bool(sizes) and (max(sizes) > HELD_BYTES_LIMIT or self._exceeds_common_limit)

    def _exceeds_limit(self, load: Load) -> bool:
        return load.held_size > HELD_BYTES_LIMIT or self._exceeds_common_limit

    @property
    def _exceeds_common_limit(self) -> bool:
        """Whether too much waits for all loads together."""
        loads = [*self._loads.list_open(), *self._loads.list_answered()]
        return sum(load.held_size for load in loads) > ALL_HELD_LIMIT
