"""The small state of a load under way: what is held back, and whose telling of the past will be sent."""

import enum
from dataclasses import dataclass, field

from acp_proxy.wire.jsonrpc import Request

HELD_LIMIT = 64 * 1024 * 1024
"""Bytes of updates that may wait for a replay; beyond that the agent is not read until the replay ends."""


class Phase(enum.Enum):
    ASKED = "the agent has not answered yet"
    QUEUED = "the agent has restored it; another replay of the same session goes first"
    REPLAYING = "ours is being told"
    CANCELLED = "the client has its answer; the agent's is still to come, and to be swallowed"


@dataclass(slots=True)
class Restore:
    """One ``session/load`` that we serve on top of the agent's ``session/resume``."""

    request: Request
    session: str
    held_here: bool
    """Whether the store has a transcript of it."""
    complete: bool
    """Whether that transcript has all; then what the agent tells of the past is dropped."""
    live: bool
    """Whether a turn was under way when the load came: then nothing is the past, and nothing is dropped."""
    phase: Phase = Phase.ASKED
    response: bytes = b""
    held: list[bytes] = field(default_factory=list)
    """Lines of this session for the client, after the answer."""
    held_size: int = 0
    states: list[bytes] = field(default_factory=list)
    """State updates among them that are recorded once the agent agrees."""
    history: list[bytes] = field(default_factory=list)
    """The agent's own telling, where ours has gaps."""

    def hold(self, line: bytes) -> None:
        self.held.append(line)
        self.held_size += len(line)

    def release(self) -> bytes:
        data = b"".join(self.held)
        self.held.clear()
        self.held_size = 0
        return data
