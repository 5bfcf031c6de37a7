"""What ``decisions/`` asks ``relay/`` to do.

Of the effects that ``Connection`` returns, those for the transcript (``TranscriptEffectBase``) keep their order among
themselves, and so do all others. Those for the transcript go to the recorder at once. A pump performs any other effect
only when all effects for the transcript of the same decision are written, also those that come later in the list. The
exception is a ``Forward`` with ``may_precede_recording``.
"""

from collections.abc import Mapping

from msgspec import Struct

from acp_proxy.comparison.comparison import SentLine
from acp_proxy.comparison.whose_past import PastDecision
from acp_proxy.protocol.jsonrpc import Peer, Request, RequestId
from acp_proxy.transcript.rewinds import Point

_NOTHING: Mapping[str, str] = {}

# --- for the transcript


class TranscriptEffectBase(Struct, frozen=True):
    """The base of the effects that the recorder performs: one ``isinstance`` tells them from all others.

    The union ``TranscriptEffect`` names the same classes, so that mypy finds one that the recorder does not perform.
    """


class IdentifyAgent(TranscriptEffectBase, frozen=True):
    """The agent's own name and version, or None. They choose its folder in the store."""

    name: str | None
    version: str | None


class SetProtocolVersion(TranscriptEffectBase, frozen=True):
    """From here on, lines are of this version of the protocol; until the first such effect, of version 1."""

    version: int


class BeginTranscript(TranscriptEffectBase, frozen=True):
    """From here on, record this session: in the transcript that it has, or in a new one with this header.

    ``origin``: as in the transcript's header. ``directories``: additional ones.
    """

    session_id: str
    cwd: str | None
    directories: list[str]
    origin: str
    parent_id: str | None = None
    """For a fork: the session whose transcript up to here becomes the beginning of this one's."""
    fork_point: Point | None = None
    """For a fork at a message: where that beginning ends. If the parent does not have the message, there is none."""


class BeginTurn(TranscriptEffectBase, frozen=True):
    """A prompt follows. From now on the session is listed, even if it was deleted before."""

    session_id: str


class RecordMessage(TranscriptEffectBase, frozen=True):
    """A message, byte for byte. ``answered_method``: the method that a response answers."""

    session_id: str
    peer: Peer
    raw: bytes
    answered_method: str | None = None


class RecordUnparsedUpdates(TranscriptEffectBase, frozen=True):
    """Whole lines of updates from the agent, not parsed."""

    session_id: str
    data: bytes


class RecordGap(TranscriptEffectBase, frozen=True):
    """Entries of a session are missing here, or what was recorded before may be. ``reason``: a ``GapReason``, or an
    errno's name."""

    session_id: str
    reason: str


class RecordNote(TranscriptEffectBase, frozen=True):
    """A note by acp-proxy. ``note``: its members, as in docs/transcript-format.md."""

    session_id: str
    note: Mapping[str, object]


class EndTurn(TranscriptEffectBase, frozen=True):
    """A session's turn has ended: force the transcript to disk if so configured, and index it. In version 1, no other
    prompt is open then; in version 2, one may be."""

    session_id: str


class SaveAndIndex(TranscriptEffectBase, frozen=True):
    """Force the transcript to disk and index it as ``EndTurn`` does, in a turn, which goes on, or outside of one: the
    agent's title has changed, so that lists show it at once; or a replay, steering or one of several turns is
    recorded."""

    session_id: str


class ForgetSession(TranscriptEffectBase, frozen=True):
    """Free the memory for a session that has not been used for long. Its transcript stays; another ``BeginTranscript``
    follows before its next line."""

    session_id: str


# --- for everything else


class Forward(Struct, frozen=True):
    """Send bytes to a peer.

    ``may_precede_recording``: it need not wait until the decision's effects for the transcript are written, of which
    only its own entry concerns it. To wait is never wrong; this saves it where updates are sent and recorded one after
    another. While a load's lines are held or compared, hardly anything is recorded, so most ``Forward``s there leave it
    False.

    ``is_own``: a message from acp-proxy that comes between others: it begins on a new line, and the pump that reads
    from its receiver does not wait for it.
    """

    to: Peer
    data: bytes
    may_precede_recording: bool = False
    is_own: bool = False


class WriteToStderr(Struct, frozen=True):
    """Write a line from the agent that is not a message to stderr, unchanged."""

    data: bytes


class Warn(Struct, frozen=True):
    """Write a warning for the user to stderr."""

    text: str


class ListSessions(Struct, frozen=True):
    """Answer ``session/list`` from the store."""

    request_id: RequestId
    cwd: str | None
    """List only sessions of this directory."""
    cursor: str | None
    supports_directories: bool
    archive_filter: str | None = None
    """Which sessions to list by archive state, if each must say its own (``amend_list.EXCLUDE``, …)."""
    lists_other_agents: bool = True
    """Sessions of other agents may be listed too."""


class AmendList(Struct, frozen=True):
    """Send a line of the agent with listed sessions to the client, without the sessions deleted here and with the
    user's titles."""

    line: bytes
    """Usually the answer to ``session/list``."""
    archive_filter: str | None = None
    """As for ``ListSessions``."""
    client_request: Request | None = None
    """The client's request, if a page of which nothing is left must not be sent; the event ``PageEmptied`` follows
    instead."""
    pages_read: int = 1
    """How many pages were read for this request."""
    fills_titles: bool = False
    """Sessions without a title get the one that acp-proxy would list."""
    adds_our_rows: bool = False
    """This is the first page, which sessions join that only acp-proxy can list."""
    lists_other_agents: bool = True
    """Copies and other agents' sessions may be listed too."""
    cwd: str | None = None
    """Only sessions of this directory join."""
    supports_directories: bool = False
    is_of_jetbrains_index: bool = False
    """The line is of the agent's index: the agent has archived sessions itself, and its rows say which."""
    rows_member: str = "result"
    """The line's member that has the sessions."""
    retitled_ids: frozenset[str] = frozenset()
    """As for ``AmendTitles``."""
    our_ids_by_client_id: Mapping[str, str] = _NOTHING
    """As for ``AmendTitles``."""
    requested_ids: tuple[str, ...] = ()
    """The ids that the client asked for, which join if only acp-proxy knows them."""


class AmendTitles(Struct, frozen=True):
    """Send the agent's updates to the client, with the user's titles in place of the agent's. ``data``: lines.

    ``retitled_ids``: sessions that the agent is giving a new title of the user's, and perhaps tells before it answers.
    ``our_ids_by_client_id``: our ids of the sessions that have another id in the lines, by that id.
    """

    data: bytes
    retitled_ids: frozenset[str] = frozenset()
    our_ids_by_client_id: Mapping[str, str] = _NOTHING


class SetTitle(Struct, frozen=True):
    """Store the user's title of a session, answer ``request_id``, and send the client an update with the title.

    ``agent_has_it``: the agent has the session, so it exists even if it has no transcript.
    """

    request_id: RequestId
    session_id: str
    agent_has_it: bool
    title: str


class SetArchived(Struct, frozen=True):
    """Archive or unarchive a session, and answer ``request_id``. ``agent_has_it``: as for ``SetTitle``."""

    request_id: RequestId
    session_id: str
    agent_has_it: bool
    is_archived: bool


class StoreAgentsChange(Struct, frozen=True):
    """The agent has given a session the user's title, or has archived or unarchived it: that goes into the store too.

    ``title``, ``is_archived``: None if that has not changed.
    """

    session_id: str
    title: str | None = None
    is_archived: bool | None = None


class AnswerStatus(Struct, frozen=True):
    """Answer ``session/status``. ``agent_has_it``: as for ``SetTitle``. ``is_open``: the session is open here."""

    request_id: RequestId
    session_id: str
    agent_has_it: bool
    is_open: bool


class DeleteSession(Struct, frozen=True):
    """Delete a session from the store, then answer ``request_id``, if there is one."""

    session_id: str
    request_id: RequestId | None = None


class AddAlias(Struct, frozen=True):
    """The agent's session ``alias`` stands for ours in look-ups, and no list shows it any more: ours continues there,
    or it was opened for ours in vain."""

    session_id: str
    alias: str


class LookUpSession(Struct, frozen=True):
    """Look a session up before a request about it goes on, or before a refused prompt is sent again. The event
    ``SessionLookedUp`` follows.

    ``asks_index``: only acp-proxy can show the session, so the index is asked even if the transcript is missing.
    ``client_id``: the id by which the client knows it, if that is another one.
    """

    request_id: RequestId
    session_id: str
    asks_index: bool = True
    client_id: str | None = None


class DecideLater(Struct, frozen=True):
    """Decide on these lines again, as ``LinesRead``, once the effects that stand before this are performed. The lines
    that follow in the same read wait, too: ``Connection`` adds them to this."""

    peer: Peer
    lines: list[bytes]


class DecideWaiting(Struct, frozen=True):
    """Decide on the next line that waits for a load of this session (``WaitingMessages.take_next``), on a thread of its
    own: it may have to be looked up and sent to the agent, while the client's output is held here."""

    session_id: str


class CompareUnsettled(Struct, frozen=True):
    """Compare what the agent sent about a session with its transcript. The event ``UnsettledCompared`` follows.

    ``updates``: of the conversation. ``since_size``: if set, they are what was new when the transcript had this size,
    and only what was appended to it since is compared.
    """

    request_id: RequestId
    session_id: str
    updates: tuple[SentLine, ...]
    since_size: int | None = None


class ChooseAndShowPast(Struct, frozen=True):
    """Compare what the agent sent with the transcript that was looked up, decide whose past is shown, and send the
    transcript if it is that. Also makes the handover record.

    The event ``PastChosen`` follows. The agent's replay, if it is that, is held by ``decisions/load``, and leaves then.
    """

    request_id: RequestId
    updates: tuple[SentLine, ...] = ()
    """What the agent sent of the conversation."""
    needs_comparison: bool = False
    """Compare them with the transcript, even if there are none."""
    planned_decision: PastDecision | None = None
    """What ``choose_past`` returns (``Load.planned_decision``); None: it finds a rule."""
    agent_lacks_past: bool = False
    """As for ``SessionLookedUp``, or the agent was asked for a new session for this load."""
    makes_handover_record: bool = False
    """Make the handover record, of everything up to ``before_prompt``."""
    only_what_agent_lacks: bool = False
    """The record is only of what the agent's session lacks, since other machines recorded it."""
    before_prompt: RequestId | None = None
    """The prompt up to which the record goes."""
    sends_title: bool = True
    """Also send the title made from the prompts."""
    client_update_kinds: frozenset[str] = frozenset()
    """The optional kinds of updates that the client understands."""
    client_shows_agent_terminals: bool = False
    """Whether the client shows the terminals that an agent runs itself."""
    protocol_version: int = 1
    """The protocol's version."""
    accepted_content: frozenset[str] = frozenset()
    """The types of content blocks that may be attached to the record."""


class StopShowingPast(Struct, frozen=True):
    """Send nothing more of the transcript. Compare nothing more either, unless a handover record is made: that still
    is, and what it needs is still compared."""

    request_id: RequestId


class CloseTranscript(Struct, frozen=True):
    """Close the transcript that was looked up for a request, since it will not be shown."""

    request_id: RequestId


class ReserveOutput(Struct, frozen=True):
    """Reserve the client's output; the event ``OutputReserved`` follows.

    The answer to a cancelled load and the lines that waited for it are then sent before anything else, so that nothing
    from the agent overtakes them.
    """

    request_id: RequestId


TranscriptEffect = (
    IdentifyAgent
    | SetProtocolVersion
    | BeginTranscript
    | BeginTurn
    | RecordMessage
    | RecordUnparsedUpdates
    | RecordGap
    | RecordNote
    | EndTurn
    | SaveAndIndex
    | ForgetSession
)
RelayEffect = (
    Forward
    | WriteToStderr
    | Warn
    | ListSessions
    | AmendList
    | AmendTitles
    | SetTitle
    | SetArchived
    | StoreAgentsChange
    | AnswerStatus
    | DeleteSession
    | AddAlias
    | LookUpSession
    | DecideLater
    | DecideWaiting
    | CompareUnsettled
    | ChooseAndShowPast
    | StopShowingPast
    | CloseTranscript
    | ReserveOutput
)
Effect = TranscriptEffect | RelayEffect
