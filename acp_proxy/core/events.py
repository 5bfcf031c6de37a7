"""Events: what the shell tells the core. ``Interceptor.handle`` takes one and returns effects."""

from acp_proxy.history.comparison import Comparison
from acp_proxy.history.verdict import Rule
from acp_proxy.wire.jsonrpc import Peer, RequestId
from acp_proxy.wire.value import Value


class LinesRead(Value):
    """Lines were read from a peer, each with its newline; the last line of a stream may lack it."""

    peer: Peer
    lines: list[bytes]


class PieceRead(Value):
    """A piece of a long line was read. ``last``: it ends with the newline, or with the peer's output."""

    peer: Peer
    data: bytes
    last: bool


class SessionFound(Value):
    """The store was asked about a session that the client wants to open; the answer to ``FindSession``.

    ``deleted``: it was deleted here. ``trouble``: an errno's name, if the store cannot be read or has lost the
    transcript. ``complete``: the transcript has everything from the beginning. ``alias``: the agent's id for the
    session, if that is another one. ``moved``: the session was handed over before.
    """

    request: RequestId
    deleted: bool = False
    trouble: str | None = None
    has_transcript: bool = False
    complete: bool = False
    alias: str | None = None
    moved: bool = False


class ReplayEnded(Value):
    """A replay is over: the comparison is done, and the client has what it should see of the transcript.

    The answer to ``StartReplay``. ``rule``: what decided whose replay the client sees. ``comparison``: None if the
    transcript could not be read, or (``is_unread``) was replayed whole and compared with nothing. ``states``: the
    latest recorded state updates. ``record``: the record for the agent, if ``StartReplay`` asked for one.
    """

    request: RequestId
    rule: Rule
    comparison: Comparison | None
    states: list[bytes]
    record: str = ""
    is_unread: bool = False


class PastRead(Value):
    """A session's transcript was read and compared; the answer to ``ReadPast``. None: it could not be read."""

    request: RequestId
    session: str
    comparison: Comparison | None


class OutputTaken(Value):
    """The client's output is locked, so that only the core's next effects write to it; the answer to ``TakeOutput``."""

    request: RequestId


class AgentEnded(Value):
    """The agent has ended, and everything it wrote was handled. ``how``: such as ``exited with status 17``."""

    how: str


Event = LinesRead | PieceRead | SessionFound | ReplayEnded | PastRead | OutputTaken | AgentEnded
