"""What can happen."""

from acp_proxy.wire.jsonrpc import Peer, RequestId
from acp_proxy.wire.value import Value


class Lines(Value):
    """One read of a peer brought these lines, each with its newline (the last of a stream may lack it)."""

    peer: Peer
    lines: list[bytes]


class Piece(Value):
    """More of a line that passes in pieces; ``last``: up to its newline, or to the end of what the peer said."""

    peer: Peer
    data: bytes
    last: bool


class Found(Value):
    """What the store has of a session that the client wants to open. ``trouble`` is an errno's name."""

    request: RequestId
    deleted: bool = False
    trouble: str | None = None
    held: bool = False
    complete: bool = False


class ReplayEnded(Value):
    """Everything recorded is with the client, or the replay was stopped; ``states`` are the latest stored ones.

    ``ours`` False: the agent's telling is to be told, and nothing was. ``brief``: the record, where it was wanted.
    """

    request: RequestId
    states: list[bytes]
    ours: bool = True
    brief: str = ""


class Releasing(Value):
    """The client's output is held for what a cancelled load held back; the answer to ``ReleaseHeld``."""

    request: RequestId


class AgentEnded(Value):
    """The agent is gone and all that it wrote was handled. ``how``: ``exited with status 17``."""

    how: str


Event = Lines | Piece | Found | ReplayEnded | Releasing | AgentEnded
