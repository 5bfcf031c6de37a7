"""How much loads may keep in their buffers, and what follows if it is too much: a replay is dropped or not compared, or
the agent is not read. ``LoadLineHandler`` asks this after it has added a line."""

from acp_proxy.comparison.choose_past import WhosePast
from acp_proxy.proxy.load.load import Load
from acp_proxy.proxy.load.load_states import LoadState
from acp_proxy.proxy.load.loads import Loads

HELD_BYTES_LIMIT = 64 * 1024 * 1024
"""The most bytes that may wait for a load. Beyond that, before the agent's answer, they pass and the client sees the
agent's replay; while the transcript is sent, the agent is not read until that is done."""
ALL_HELD_LIMIT = 4 * HELD_BYTES_LIMIT
"""The most bytes that may wait for all loads together. Beyond that, a load that grows counts as over its limit."""


class LoadLimits:
    """The limits of all loads of one connection."""

    def __init__(self, loads: Loads) -> None:
        self._loads = loads

    def keep_to_compare(self, load: Load, line: bytes, *, is_after_an_answer: bool) -> None:
        """Keep a line that the client has, or must not get, to compare it when the next prompt comes.

        ``is_after_an_answer``: it came after the agent's answer to this or another load of the session.
        """
        if load.replay_lines.is_closed:
            return
        load.replay_lines.add(line, is_after_an_answer)
        if self._exceeds_limit(load):  # too much to hold, so nothing of it is compared
            load.replay_lines.close()

    def must_stop_holding(self, load: Load) -> bool:
        """Whether too much waits before the agent's answer."""
        return load.state is LoadState.HOLDING_REPLAY and self._exceeds_limit(load)

    def try_drop_replay(self, load: Load) -> bool:
        """Drop what the agent has replayed, if the transcript is shown whatever it sends. Returns whether there was
        something to drop."""
        rule = load.known_rule
        if rule is None or rule.whose_past is not WhosePast.TRANSCRIPT or not load.replay_lines:
            return False
        load.replay_lines.drop()
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
