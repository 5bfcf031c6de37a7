"""The kinds of updates (``sessionUpdate``), one row each: what acp-proxy does with an update of that kind.

A kind without a row is ``UNKNOWN``: recorded, compared by equality, replayed as it came, and shown as JSON where a
view shows all, so a new kind of the protocol works before anybody has added it. docs/extending.md says for which kinds
a row is enough. docs/protocol.md has these kinds for users, and a test compares the two; one that no schema has yet
goes to the extensions there.

Sources: the protocol's schemas, versions 1 and 2, with their drafts.
"""

import enum

from msgspec import Struct

# The names that the code needs. Those that stand only in the table are written there.
USER_CHUNK = "user_message_chunk"
AGENT_CHUNK = "agent_message_chunk"
THOUGHT_CHUNK = "agent_thought_chunk"
USER_MESSAGE = "user_message"
TOOL_CALL = "tool_call"
TOOL_CALL_UPDATE = "tool_call_update"
TOOL_CALL_CHUNK = "tool_call_content_chunk"
TERMINAL = "terminal_update"
TERMINAL_CHUNK = "terminal_output_chunk"
PLAN = "plan"
PLAN_UPDATE = "plan_update"
PLAN_REMOVED = "plan_removed"
COMPACTION = "compaction_update"
COMPACTION_CHUNK = "compaction_summary_chunk"
SUBAGENT = "subagent_update"
SESSION_MESSAGE = "session_message"
SESSION_MESSAGE_CHUNK = "session_message_chunk"
USAGE = "usage_update"
CURRENT_MODE = "current_mode_update"
CONFIG_OPTION = "config_option_update"
SESSION_INFO = "session_info_update"
SESSION_INFO_BYTES = b'"session_info_update"'
"""Bytes that every update with a title contains."""
USER_BYTES = b'"user_message'
"""How the kinds of a user's messages begin, chunks or whole, as JSON."""
WORK_STATE = "state_update"
HISTORY_TRUNCATED = "history_truncated"


class Role(enum.Enum):
    """What an update is about, as far as the code asks. Every role but ``STATE`` is part of the conversation."""

    USER = enum.auto()
    AGENT = enum.auto()
    THOUGHT = enum.auto()
    CALL = enum.auto()
    TERMINAL = enum.auto()
    COMPACTION = enum.auto()
    OTHER = enum.auto()
    """Among them plans, whose kinds have little in common but the name: each place that reads plans names its kind."""
    STATE = enum.auto()


class ComparedBy(enum.Enum):
    """What an agent's replay must have in common with the transcript, so that an update counts as known."""

    WORDS = enum.auto()
    """The letters of the agent's words, in the transcript's order."""
    NEUTRAL_WORDS = enum.auto()
    """Letters, too. Alone they prove nothing, since agents leave them out or repeat them: what follows decides."""
    CALL = enum.auto()
    """The call's id, or its title: many agents give new ids when they replay."""
    EQUAL = enum.auto()
    """The whole update."""
    WHAT_FOLLOWS = enum.auto()
    """Nothing of its own: what the agent sends next decides. For a new kind of conversation that says nothing about
    what was said or done, such as a plan."""
    NOT_COMPARED = enum.auto()
    """Not part of the past, so no comparison gets it. For a new kind of ``Role.STATE``."""


class ReplayForm(enum.Enum):
    """How a kind is replayed. For ``--replay full``, a client of version 1 gets all ``AS_IT_CAME``, except for
    ``LAST`` and ``NEVER``."""

    AS_IT_CAME = enum.auto()
    JOINED = enum.auto()
    """The texts of one message become one update."""
    MERGED = enum.auto()
    """All updates of one id become one update with the last value of each field: only calls, terminals and, in version
    1, compactions, since the code must know where the id is."""
    LAST_OF_TURN = enum.auto()
    """Only the last one of a turn, in version 2 of each id, since each replaces the one before. For plans alone: the
    code has one place for the last of them."""
    LAST = enum.auto()
    """Only the last one of all, after the answer, and only in version 1: in version 2 the agent sends its state itself.
    (Modes and options are in the answer.) For ``Role.STATE`` alone, like ``NEVER``: whatever is conversation is
    replayed."""
    NEVER = enum.auto()


class Parsed(enum.Enum):
    """When ``Connection`` decides on an update of this kind, though nothing else concerns its session. At any other
    time it passes unparsed (``FastPath``). If a load or a handover may concern the session, all its updates are
    parsed."""

    NEVER = enum.auto()
    AFTER_LOAD = enum.auto()
    """In the turn after a load, where it may begin a replay."""
    ALWAYS = enum.auto()


class UpdateKind(Struct, frozen=True):
    """One row.

    ``form_v1``, ``form_v2``: how it is replayed to a client of that version; None if the version does not have it,
    so that for readers and clients of that version it is ``Role.OTHER``. To compare and to record, no version matters.
    ``needs``: the path of the client capability without which a client of version 1 must not get it in
    a replay of the transcript.
    ``chunk``: the kind of the chunks of a message that this kind sends as a whole.
    ``takes_back``: in the transcript, it explains why the agent lacks what came before it.
    """

    name: str
    role: Role
    compared_by: ComparedBy
    form_v1: ReplayForm | None
    form_v2: ReplayForm | None
    needs: tuple[str, ...] = ()
    chunk: str | None = None
    takes_back: bool = False
    parsed: Parsed = Parsed.NEVER

    @property
    def encoded_name(self) -> bytes:
        """The name as JSON."""
        return b'"%b"' % self.name.encode()


_COMPACTION_CAPABILITY, _PLAN_CAPABILITY, _SUBAGENTS_CAPABILITY = ("session", "compaction"), ("plan",), ("subagents",)

KINDS = (
    UpdateKind(
        USER_CHUNK,
        Role.USER,
        ComparedBy.NEUTRAL_WORDS,
        ReplayForm.JOINED,
        ReplayForm.JOINED,
        parsed=Parsed.AFTER_LOAD,
    ),
    UpdateKind(AGENT_CHUNK, Role.AGENT, ComparedBy.WORDS, ReplayForm.JOINED, ReplayForm.JOINED),
    UpdateKind(THOUGHT_CHUNK, Role.THOUGHT, ComparedBy.NEUTRAL_WORDS, ReplayForm.JOINED, ReplayForm.JOINED),
    UpdateKind(
        USER_MESSAGE,
        Role.USER,
        ComparedBy.NEUTRAL_WORDS,
        None,
        ReplayForm.JOINED,
        chunk=USER_CHUNK,
        parsed=Parsed.AFTER_LOAD,
    ),
    UpdateKind("agent_message", Role.AGENT, ComparedBy.WORDS, None, ReplayForm.JOINED, chunk=AGENT_CHUNK),
    UpdateKind("agent_thought", Role.THOUGHT, ComparedBy.NEUTRAL_WORDS, None, ReplayForm.JOINED, chunk=THOUGHT_CHUNK),
    UpdateKind(TOOL_CALL, Role.CALL, ComparedBy.CALL, ReplayForm.MERGED, None),
    UpdateKind(TOOL_CALL_UPDATE, Role.CALL, ComparedBy.CALL, ReplayForm.MERGED, ReplayForm.MERGED),
    UpdateKind(TOOL_CALL_CHUNK, Role.CALL, ComparedBy.CALL, None, ReplayForm.MERGED),
    UpdateKind(TERMINAL, Role.TERMINAL, ComparedBy.WHAT_FOLLOWS, None, ReplayForm.MERGED),
    UpdateKind(TERMINAL_CHUNK, Role.TERMINAL, ComparedBy.WHAT_FOLLOWS, None, ReplayForm.MERGED),
    UpdateKind(PLAN, Role.OTHER, ComparedBy.WHAT_FOLLOWS, ReplayForm.LAST_OF_TURN, None),
    UpdateKind(
        PLAN_UPDATE,
        Role.OTHER,
        ComparedBy.WHAT_FOLLOWS,
        ReplayForm.AS_IT_CAME,
        ReplayForm.LAST_OF_TURN,
        needs=_PLAN_CAPABILITY,
    ),
    UpdateKind(
        PLAN_REMOVED,
        Role.OTHER,
        ComparedBy.WHAT_FOLLOWS,
        ReplayForm.AS_IT_CAME,
        ReplayForm.LAST_OF_TURN,
        needs=_PLAN_CAPABILITY,
    ),
    UpdateKind(
        COMPACTION,
        Role.COMPACTION,
        ComparedBy.EQUAL,
        ReplayForm.MERGED,
        ReplayForm.AS_IT_CAME,
        needs=_COMPACTION_CAPABILITY,
        takes_back=True,
    ),
    UpdateKind(
        COMPACTION_CHUNK,
        Role.COMPACTION,
        ComparedBy.EQUAL,
        ReplayForm.MERGED,
        ReplayForm.AS_IT_CAME,
        needs=_COMPACTION_CAPABILITY,
        takes_back=True,
    ),
    # Drafts: a session that the agent began for its own work, and messages between such sessions.
    UpdateKind(
        SUBAGENT,
        Role.OTHER,
        ComparedBy.EQUAL,
        ReplayForm.AS_IT_CAME,
        ReplayForm.AS_IT_CAME,
        needs=_SUBAGENTS_CAPABILITY,
    ),
    UpdateKind(
        SESSION_MESSAGE,
        Role.OTHER,
        ComparedBy.EQUAL,
        ReplayForm.AS_IT_CAME,
        ReplayForm.AS_IT_CAME,
        needs=_SUBAGENTS_CAPABILITY,
    ),
    UpdateKind(
        SESSION_MESSAGE_CHUNK,
        Role.OTHER,
        ComparedBy.EQUAL,
        ReplayForm.AS_IT_CAME,
        ReplayForm.AS_IT_CAME,
        needs=_SUBAGENTS_CAPABILITY,
    ),
    # In version 2 the agent itself sends its state before it answers, so none is replayed.
    UpdateKind("available_commands_update", Role.STATE, ComparedBy.NOT_COMPARED, ReplayForm.LAST, ReplayForm.NEVER),
    UpdateKind(USAGE, Role.STATE, ComparedBy.NOT_COMPARED, ReplayForm.LAST, ReplayForm.NEVER),
    UpdateKind(CURRENT_MODE, Role.STATE, ComparedBy.NOT_COMPARED, ReplayForm.NEVER, None),
    UpdateKind(CONFIG_OPTION, Role.STATE, ComparedBy.NOT_COMPARED, ReplayForm.NEVER, ReplayForm.NEVER),
    # The user's title is shown in place of the agent's, and a title is brought into the index at once.
    UpdateKind(
        SESSION_INFO, Role.STATE, ComparedBy.NOT_COMPARED, ReplayForm.NEVER, ReplayForm.NEVER, parsed=Parsed.ALWAYS
    ),
    UpdateKind("notice", Role.STATE, ComparedBy.NOT_COMPARED, ReplayForm.NEVER, ReplayForm.NEVER),
    # It may begin or end a turn.
    UpdateKind(WORK_STATE, Role.STATE, ComparedBy.NOT_COMPARED, None, ReplayForm.NEVER, parsed=Parsed.ALWAYS),
    # A draft that no schema has yet: the agent has taken back a part of the conversation. It says what the past is now,
    # and is no part of it: as state, it is recorded and sent at once, not replayed, nor looked for in a replay.
    UpdateKind(
        HISTORY_TRUNCATED, Role.STATE, ComparedBy.NOT_COMPARED, ReplayForm.NEVER, ReplayForm.NEVER, takes_back=True
    ),
)
UNKNOWN = UpdateKind("", Role.OTHER, ComparedBy.EQUAL, ReplayForm.AS_IT_CAME, ReplayForm.AS_IT_CAME)
"""The row of every other kind, and of an update without a kind. It counts as conversation: shown once too often is
better than lost."""

_BY_NAME = {kind.name: kind for kind in KINDS}

_STATE_KINDS = frozenset(kind.name for kind in KINDS if kind.role is Role.STATE)
V1_CALLS = frozenset(kind.name for kind in KINDS if kind.role is Role.CALL and kind.form_v1 is not None)
"""The kinds about a tool call in version 1."""
CHUNK_OF = {kind.name: kind.chunk for kind in KINDS if kind.chunk is not None}
"""Maps the kinds of whole messages, in version 2, to the kinds of their chunks."""
V1_MESSAGE_CHUNKS = frozenset(kind.name for kind in KINDS if kind.form_v1 is ReplayForm.JOINED)
"""The kinds, in version 1, that add to a message of the user or the agent, or to a thought."""
NEUTRAL = frozenset(
    kind.name for kind in KINDS if kind.compared_by in (ComparedBy.NEUTRAL_WORDS, ComparedBy.WHAT_FOLLOWS)
)
"""The kinds that prove nothing alone: whether they are past depends on what the agent sends next."""
ALWAYS_PARSED_V1 = tuple(
    kind.encoded_name for kind in KINDS if kind.parsed is Parsed.ALWAYS and kind.form_v1 is not None
)
"""Bytes of the updates of version 1 that are always parsed: each contains one of these."""
ALWAYS_PARSED_V2 = tuple(
    kind.encoded_name for kind in KINDS if kind.parsed is Parsed.ALWAYS and kind.form_v2 is not None
)
PARSED_AFTER_LOAD = tuple(kind.encoded_name for kind in KINDS if kind.parsed is Parsed.AFTER_LOAD)
"""Bytes of the updates that are parsed in the turn after a load, in any version."""
OPTIONAL = frozenset(kind.name for kind in KINDS if kind.needs)
"""The kinds that only some clients of version 1 may get."""


def find(name: str | None) -> UpdateKind:
    """The row of a kind."""
    return _BY_NAME.get(name, UNKNOWN) if name is not None else UNKNOWN


def find_v1_role(name: str | None) -> Role:
    """What an update is about, for readers of version 1: ``OTHER`` for a kind that only version 2 has."""
    row = find(name)
    return row.role if row.form_v1 is not None else Role.OTHER


def find_v2_role(name: str | None) -> Role:
    """What an update of version 2 is about: ``OTHER`` for a kind that only version 1 has."""
    row = find(name)
    return row.role if row.form_v2 is not None else Role.OTHER


def is_conversation(name: str | None) -> bool:
    """Whether updates of this kind are part of the conversation rather than state."""
    return name not in _STATE_KINDS


def find_allowed(client_capabilities: object) -> frozenset[str]:
    """The kinds in ``OPTIONAL`` that the ``clientCapabilities`` of ``initialize`` allow. Accepts any value."""
    return frozenset(kind.name for kind in KINDS if kind.needs and _has_capability(client_capabilities, kind.needs))


def _has_capability(capability: object, path: tuple[str, ...]) -> bool:
    for name in path:
        capability = capability.get(name) if isinstance(capability, dict) else None
    return capability is not None and capability is not False
