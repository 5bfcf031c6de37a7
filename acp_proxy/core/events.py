"""What can happen."""

from acp_proxy.history.comparison import Comparison
from acp_proxy.history.verdict import Rule
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
    """What the store has of a session that the client wants to open. ``trouble`` is an errno's name.

    ``alias``: what the agent calls it, if that is another id. ``moved``: it was handed over before.
    """

    request: RequestId
    deleted: bool = False
    trouble: str | None = None
    held: bool = False
    complete: bool = False
    alias: str | None = None
    moved: bool = False


class ReplayEnded(Value):
    """What the agent told was compared, and the transcript is with the client where that is to be shown.

    ``rule``: what decided. ``comparison``: None where the transcript could not be read, or ``is_unread``: it was
    replayed whole, and nothing was compared with it. ``states``: the latest stored ones. ``record``: for the agent,
    where it was wanted.
    """

    request: RequestId
    rule: Rule
    comparison: Comparison | None
    states: list[bytes]
    record: str = ""
    is_unread: bool = False


class PastRead(Value):
    """What was told of a session behind a request has been compared; None: the transcript could not be read."""

    request: RequestId
    session: str
    comparison: Comparison | None


class Releasing(Value):
    """The client's output is held for what a cancelled load held back; the answer to ``ReleaseHeld``."""

    request: RequestId


class AgentEnded(Value):
    """The agent is gone and all that it wrote was handled. ``how``: ``exited with status 17``."""

    how: str


Event = Lines | Piece | Found | ReplayEnded | PastRead | Releasing | AgentEnded
