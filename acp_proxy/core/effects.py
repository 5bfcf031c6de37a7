"""What can be asked of the shell, in the order in which it is to be done.

``Keep`` effects go to the transcript in exactly this order. Of the others, ``Forward`` with ``first`` leaves before
what was kept is on disk; everything else waits for it.
"""

from collections.abc import Mapping

from acp_proxy.history.verdict import Rule
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

    ``only_here``: the agent cannot know it instead, so a transcript that is gone is worth asking the index for.
    """

    request: RequestId
    session: str
    only_here: bool = True


class DecideNext(Value):
    """Lines behind one that asks the store: decided once that is done, as if they were read later."""

    peer: Peer
    lines: list[bytes]


class ReadPast(Value):
    """Compare what the agent told of a session with its transcript; the answer is the event ``PastRead``.

    ``told``: updates, and whether each came behind the agent's answer.
    """

    request: RequestId
    session: str
    told: tuple[tuple[bytes, bool], ...]


class StartReplay(Value):
    """Compare what the agent told with the transcript that was looked up, and replay that where it is to be shown.

    ``told``: the agent's updates of the conversation, and whether each came behind an answer; ``compares``: they are
    compared, also where there are none. ``rule``: what decided already, else, where nothing is compared, ours is shown.
    ``shows``: anything is replayed at all. ``record``: make a record of it for the agent; ``before``: up to this
    prompt. ``titles``: tell the title that prompts make. ``kinds``: optional kinds of updates that the client
    understands.
    """

    request: RequestId
    told: tuple[tuple[bytes, bool], ...] = ()
    compares: bool = False
    rule: Rule | None = None
    shows: bool = True
    record: bool = False
    before: RequestId | None = None
    titles: bool = True
    kinds: frozenset[str] = frozenset()


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
    | ReadPast
    | StartReplay
    | StopReplay
    | ForgetReplay
    | ReleaseHeld
)
Effect = Recording | Acting
