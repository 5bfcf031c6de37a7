"""What ``relay/`` reports to ``Connection``."""

from msgspec import Struct

from acp_proxy.comparison.comparison import Comparison
from acp_proxy.comparison.whose_past import PastDecision
from acp_proxy.decisions.effects import AmendList
from acp_proxy.protocol.jsonrpc import Peer, RequestId


class LinesRead(Struct, frozen=True):
    """Lines that one read brought, each with its newline. Only the last line of a stream may lack it."""

    peer: Peer
    lines: list[bytes]


class LineTooLong(Struct, frozen=True):
    """A line that is not held in memory: after this event, its bytes go to the other peer as they come.

    ``beginning``: its first bytes.
    """

    peer: Peer
    beginning: bytes


class SessionLookedUp(Struct, frozen=True):
    """What the store has of a session that a request names: the answer to ``LookUpSession``.

    That is one of five: it stands for another session, it was deleted, the store cannot be read, there is nothing of
    it, or there is a transcript. All fields below ``has_transcript`` are about that, and only a transcript sets them;
    ``agent_lacks_past`` also what this process knows of a handover.
    """

    request_id: RequestId
    our_id: str | None = None
    """Our session for which this one of the agent stands: ours continues here, or this was opened for it in vain."""
    is_deleted: bool = False
    """The session was deleted here."""
    errno_name: str | None = None
    """An errno's name, or ``REPLACED``, if the store cannot be read."""
    has_transcript: bool = False
    is_complete: bool = False
    """The transcript has everything from the beginning on, without gaps."""
    is_archived_here: bool = False
    """The session is archived in the store, but not in the agent, as far as is known."""
    is_in_use_elsewhere: bool | None = None
    """Another process has the transcript open to append; None: not known."""
    agent_lacks_past: bool = False
    """The agent's own session has at most a part of this one: it was handed over before, or has turns of another
    machine, or is another agent's."""
    alias: str | None = None
    """The agent's id, if it differs."""
    agent_is_behind: bool = False
    """The agent's session lacks turns of other machines, so ``agent_lacks_past`` holds, too. Not of a copy, which has
    no session of this agent."""
    agent_has_no_session: bool = False
    """It was copied from another agent, or comes from another machine, and this agent has no session for it yet."""
    is_uncopied: bool = False
    """It is another agent's, and the first prompt makes its copy. ``alias`` and ``is_in_use_elsewhere`` are None."""


class PastChosen(Struct, frozen=True):
    """What ``ChooseAndShowPast`` asked for is done: it is chosen whose past is shown. If it is the transcript, the
    client has it; if it is the agent's replay, that leaves now.

    ``decision``: whose past is shown, and why. ``comparison``: None if the transcript could not be read, the comparison
    was given up, or nothing was compared, since the agent had sent nothing before its answer
    (``comparison_was_skipped``); from now on, only its load changes it. ``latest_state_lines``: lines with the latest
    recorded state of the session. ``handover_record``: the one for the agent, if it was asked for. ``attached_blocks``:
    content blocks that follow it, as JSON. ``transcript_size``: the size of the transcript, in bytes.
    """

    request_id: RequestId
    decision: PastDecision
    comparison: Comparison | None
    latest_state_lines: list[bytes]
    handover_record: str = ""
    attached_blocks: tuple[bytes, ...] = ()
    comparison_was_skipped: bool = False
    transcript_size: int = 0


class UnsettledCompared(Struct, frozen=True):
    """The comparison that ``CompareUnsettled`` asked for; None if the transcript could not be read.

    ``update_count``: the updates that were compared. ``transcript_size``: the size of the transcript, in bytes."""

    request_id: RequestId
    session_id: str
    comparison: Comparison | None
    update_count: int = 0
    transcript_size: int = 0


class OutputReserved(Struct, frozen=True):
    """The client's output is reserved: the answer to ``ReserveOutput``."""

    request_id: RequestId


class PageEmptied(Struct, frozen=True):
    """Nothing is left of a page of the agent's list, as ``line`` has it, and ``cursor`` is that of another page."""

    amendment: AmendList
    line: bytes
    cursor: str


class AgentEnded(Struct, frozen=True):
    """The agent has ended, and all its output was handled. ``reason``: for example ``agent exited with status 17``.
    ``advice``: a sentence for people about an agent that has not even answered ``initialize``."""

    reason: str
    advice: str = ""


Event = (
    LinesRead
    | LineTooLong
    | SessionLookedUp
    | PastChosen
    | UnsettledCompared
    | OutputReserved
    | PageEmptied
    | AgentEnded
)
