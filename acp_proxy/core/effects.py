"""What can be asked of the shell, in the order in which it is to be done.

``Keep`` effects go to the transcript in exactly this order. Of the others, ``Forward`` with ``first`` leaves before
what was kept is on disk; everything else waits for it.
"""

from collections.abc import Mapping

from acp_proxy.wire.jsonrpc import Peer, RequestId
from acp_proxy.wire.value import Value

# --- for the transcript


class Kept(Value):
    """What they have in common: one question tells them from the rest."""


class Identify(Kept):
    """What the agent calls itself (None: nothing); the store's folder is chosen by it."""

    name: str | None
    version: str | None


class Begin(Kept):
    """From here on this session is recorded: in the transcript it has, or in a new one with this header."""

    session: str
    cwd: str | None
    directories: list[str]
    origin: str
    parent: str | None = None
    """The session whose transcript up to here is the beginning of this one's (a fork)."""


class BeginTurn(Kept):
    """A prompt follows: the session counts from now on, even if it was deleted before."""

    session: str


class Keep(Kept):
    """One line, exactly. ``of`` is the method that a response answers."""

    session: str
    peer: Peer
    raw: bytes
    of: str | None = None


class KeepUpdates(Kept):
    """Updates of the agent that were not looked into: whole lines."""

    session: str
    data: bytes


class KeepPiece(Kept):
    """A piece of one line that is too long to be held: nothing else of its session comes between them."""

    session: str
    peer: Peer
    data: bytes
    first: bool
    last: bool


class KeepNote(Kept):
    session: str
    note: Mapping[str, object]


class EndTurn(Kept):
    """A turn is over, or the title changed: what was kept is worth an fsync and a place in the index."""

    session: str


class Forget(Kept):
    """It has not been used for long, of very many. Heard of again, it begins again; its transcript stays."""

    session: str


# --- for everything else


class Forward(Value):
    """Bytes for a peer. ``first``: they do not wait for the transcript. ``own``: a message of ours.

    ``begins`` and ``ends``: whole lines. Of a line that passes in pieces the first begins it and the last ends it;
    nothing else goes to that peer meanwhile.
    """

    to: Peer
    data: bytes
    first: bool = False
    own: bool = False
    begins: bool = True
    ends: bool = True


class ToStderr(Value):
    """Not for the editor: a stray line of the agent (``data``), as it came."""

    data: bytes


class Warn(Value):
    text: str


class ListSessions(Value):
    """Answer ``session/list`` from the store."""

    request: RequestId
    cwd: str | None
    cursor: str | None
    directories: bool


class AmendList(Value):
    """The agent's own list, for the client: less what was deleted here, and under the user's titles."""

    raw: bytes


class DeleteSession(Value):
    """Remove what the store has; then, where ``request`` is given, answer it."""

    session: str
    request: RequestId | None = None


class FindSession(Value):
    """Look a session up before the agent is asked to open it; the answer is the event ``Found``.

    ``reads`` False: all that matters is whether it was deleted here. ``only_here``: the agent cannot know it instead,
    so a transcript that is gone is worth asking the index for. ``searches``: it matters whether ours is complete.
    """

    request: RequestId
    session: str
    reads: bool = True
    only_here: bool = True
    searches: bool = False


class DecideNext(Value):
    """Lines of the client behind one that asks the store: decided once that is done, as if they were read later."""

    lines: list[bytes]


class StartReplay(Value):
    """Tell the client what was recorded, up to what there was when it was found.

    ``weigh``: only if it is fuller than this, the agent's telling. ``brief``: make a record of it for the agent too.
    ``if_complete``: only if it is.
    """

    request: RequestId
    weigh: tuple[bytes, ...] | None = None
    brief: bool = False
    if_complete: bool = False


class StopReplay(Value):
    """Send no more of it."""

    request: RequestId


class ForgetReplay(Value):
    """It will never be told."""

    request: RequestId


class ReleaseHeld(Value):
    """Take the client's output, and then say so (``Releasing``): the answer to a cancelled load leaves under it, and
    what the load held back.

    So nothing that the agent says meanwhile can overtake that.
    """

    request: RequestId


Recording = Identify | Begin | BeginTurn | Keep | KeepUpdates | KeepPiece | KeepNote | EndTurn | Forget
Acting = (
    Forward
    | ToStderr
    | Warn
    | ListSessions
    | AmendList
    | DeleteSession
    | FindSession
    | DecideNext
    | StartReplay
    | StopReplay
    | ForgetReplay
    | ReleaseHeld
)
Effect = Recording | Acting
