"""How much loads may keep in their buffers. What follows if it is too much: ``LoadLineHandler`` drops a replay, lets it
pass or does not compare it, or the agent is not read."""

from acp_proxy.decisions.load.current_loads import CurrentLoads
from acp_proxy.decisions.load.load import Load

HELD_BYTES_LIMIT = 64 * 1024 * 1024
"""The most bytes that may wait for a load. Beyond that, before the agent's answer, they pass and the client sees the
agent's replay, unless it is decided already that it does not; while the transcript is sent, the agent is not read until
that is done. Also the most that waits of handover records, and of updates whose session is not known yet."""
ALL_HELD_LIMIT = 4 * HELD_BYTES_LIMIT
"""The most bytes that may wait for all loads together. Beyond that, a load that grows counts as over its limit."""


class LoadLimits:
    """The limits of all loads of one connection."""

    def __init__(self, loads: CurrentLoads) -> None:
        self._loads = loads

    def is_exceeded_by(self, load: Load) -> bool:
        """Whether too much is kept for a load, or for all together."""
        return load.lines.size > HELD_BYTES_LIMIT or self._is_common_exceeded

    @property
    def must_pause_agent(self) -> bool:
        """Whether so much waits that the agent must not be read until the past is shown."""
        loads = self._loads.list_pending() if self._loads else []
        sizes = [load.lines.size for load in loads if load.holds_lines and not load.awaits_agents_answer]
        return bool(sizes) and (max(sizes) > HELD_BYTES_LIMIT or self._is_common_exceeded)

    @property
    def _is_common_exceeded(self) -> bool:
        """Whether too much waits for all loads together."""
        loads = [*self._loads.list_pending(), *self._loads.list_opened()]
        return sum(load.lines.size for load in loads) > ALL_HELD_LIMIT
