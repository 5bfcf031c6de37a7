"""Effects: what the core asks the shell to do, in this order.

Effects for the transcript are recorded in exactly this order. Of the others, ``Forward`` with ``first`` is performed
before those are on disk; everything else waits until they are.
"""

from collections.abc import Mapping

from acp_proxy.history.verdict import Rule
from acp_proxy.wire.jsonrpc import Peer, RequestId
from acp_proxy.wire.value import Value

# --- for the transcript


class ForTranscript(Value):
    """The base of the effects that the recorder performs: one ``isinstance`` for each effect tells them apart.

    ``Recording`` names the same classes, because mypy checks that a ``match`` is complete only for a union.
    """


class IdentifyAgent(ForTranscript):
    """Choose the store's folder by the agent's name. None: the agent gave no name."""

    name: str | None
    version: str | None


class BeginTranscript(ForTranscript):
    """Record this session from here on: in the transcript it has, or in a new one with this header."""

    session: str
    cwd: str | None
    directories: list[str]
    origin: str
    parent: str | None = None
    """A fork: the session whose transcript, up to here, is the beginning of this one's."""


class BeginTurn(ForTranscript):
    """Note that a prompt follows: from now on the session counts, even if it was deleted before."""

    session: str


class RecordLine(ForTranscript):
    """Record one line, byte for byte. ``of``: the method of the request that it answers."""

    session: str
    peer: Peer
    raw: bytes
    of: str | None = None


class RecordUpdates(ForTranscript):
    """Record whole lines of the agent: updates that were not parsed."""

    session: str
    data: bytes


class RecordPiece(ForTranscript):
    """Record a piece of a long line. No other entry of its session comes between the pieces."""

    session: str
    peer: Peer
    data: bytes
    first: bool
    last: bool


class RecordNote(ForTranscript):
    """Record a note by acp-proxy."""

    session: str
    note: Mapping[str, object]


class EndTurn(ForTranscript):
    """Sync the transcript to disk and index it: a turn is over, or the title changed."""

    session: str


class ForgetSession(ForTranscript):
    """Forget a session that was not used for long, as there are very many. Its transcript stays.

    If it is used again, ``BeginTranscript`` comes again.
    """

    session: str


# --- for everything else


class Forward(Value):
    """Send bytes to a peer. ``first``: without waiting for the transcript. ``own``: the message is acp-proxy's.

    With ``begins`` and ``ends`` these are whole lines. Of a long line that passes in pieces, the first piece begins it
    and the last ends it; nothing else goes to that peer in between.
    """

    to: Peer
    data: bytes
    first: bool = False
    own: bool = False
    begins: bool = True
    ends: bool = True


class WriteToStderr(Value):
    """Write a stray line of the agent, which is no message, to stderr."""

    data: bytes


class Warn(Value):
    """Show the user a warning."""

    text: str


class ListSessions(Value):
    """Answer ``session/list`` from the store."""

    request: RequestId
    cwd: str | None
    cursor: str | None
    directories: bool


class AmendList(Value):
    """Forward the agent's own list without the sessions that were deleted here, and with the user's titles."""

    raw: bytes


class DeleteSession(Value):
    """Delete a session from the store; then, if a ``request`` is given, answer it."""

    session: str
    request: RequestId | None = None


class FindSession(Value):
    """Look a session up before the agent is asked to open it; the answer is the event ``SessionFound``.

    ``only_here``: the agent cannot know the session, so if its transcript is missing, the index is asked too.
    """

    request: RequestId
    session: str
    only_here: bool = True


class DecideLater(Value):
    """Decide on these lines after the effects before it, as if they had been read later."""

    peer: Peer
    lines: list[bytes]


class ReadPast(Value):
    """Compare what the agent told of a session with its transcript; the answer is the event ``PastRead``.

    ``told``: the updates, and whether each came after the agent's answer.
    """

    request: RequestId
    session: str
    told: tuple[tuple[bytes, bool], ...]


class StartReplay(Value):
    """Compare what the agent told with the transcript that ``FindSession`` opened, and replay it if the client should
    see it; the answer is the event ``ReplayEnded``.

    ``told``: the agent's updates of the conversation, and whether each came after an answer. ``compares``: compare
    them, even if there are none. ``rule``: whose replay is shown, if that is decided already; without it, and without
    a comparison, it is the transcript's. ``shows``: False: replay nothing. ``record``: make a record for the agent;
    ``before``: up to this prompt. ``titles``: tell the title that prompts make. ``kinds``: the optional kinds of
    updates that the client understands.
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
    """Stop a replay."""

    request: RequestId


class CloseTranscript(Value):
    """Close the transcript that ``FindSession`` opened: it will not be replayed."""

    request: RequestId


class TakeOutput(Value):
    """Lock the client's output, then report it (``OutputTaken``) and write what the core answers, before unlocking.

    A cancelled load needs this: nothing that the agent says meanwhile overtakes its answer and the lines it held.
    """

    request: RequestId


Recording = (
    IdentifyAgent
    | BeginTranscript
    | BeginTurn
    | RecordLine
    | RecordUpdates
    | RecordPiece
    | RecordNote
    | EndTurn
    | ForgetSession
)
Acting = (
    Forward
    | WriteToStderr
    | Warn
    | ListSessions
    | AmendList
    | DeleteSession
    | FindSession
    | DecideLater
    | ReadPast
    | StartReplay
    | StopReplay
    | CloseTranscript
    | TakeOutput
)
Effect = Recording | Acting
