"""What the versions of the protocol say in different ways. Each version that is understood has a ``Dialect``.

The core speaks version 1: a dialect reads what a line of its version means there. Lines are never changed here.
"""

from msgspec.structs import replace

from acp_proxy.protocol import acp, jsonrpc, update_kinds
from acp_proxy.protocol.jsonrpc import Message, Request, Response

BUSY, IDLE, FAILED = "busy", "idle", "failed"
"""What an agent may say about a session: it is working, or nothing is under way any more, perhaps after an error."""


class Dialect:
    """One version of the protocol: version 1, unless a subclass says otherwise."""

    version = acp.VERSION
    capabilities_member = "agentCapabilities"
    """The member of the answer to ``initialize`` with the agent's capabilities."""
    sessions_member = "sessionCapabilities"
    """The member of the agent's capabilities with those for sessions."""
    info_member = "agentInfo"
    """The member of the answer to ``initialize`` with the agent's name and version."""
    always_served: frozenset[str] = frozenset()
    """The names of optional methods of version 1 that every agent with sessions has."""
    requires_session_capabilities = False
    """Whether an agent without capabilities for sessions has no sessions."""
    fills_titles = False
    """Whether acp-proxy gives titles to sessions without one in the agent's list: every agent has one, so there is
    no other."""
    state_precedes_answer = False
    """Whether a replay ends with the agent's state, before the answer. So that must reach the client first, and the
    echo of a prompt ends whatever an agent replays too late."""
    always_parsed = update_kinds.ALWAYS_PARSED_V1
    """Bytes of which every update with a meaning of its own for acp-proxy has one."""
    server_type: str | None = None
    """The ``type`` of an MCP server that the agent starts, if requests must name it."""

    def read_as_v1(self, message: Message) -> Message:
        """A client's message as version 1 would have it: only its method differs."""
        return message

    def is_acceptance(self, answer: Response) -> bool:
        """Whether this answer to a prompt only accepts it, so that the turn begins."""
        return False

    def read_work_state(self, update: object) -> str | None:
        """``BUSY``, ``IDLE`` or ``FAILED``, if the update says so."""
        return None

    def encode_work_state(self, session_id: str, *, is_busy: bool) -> bytes | None:
        """The line of an update that says whether a turn is under way; None if there is no such update."""
        return None

    def find_allowed_kinds(self, initialize_params: object) -> frozenset[str]:
        """The optional kinds of updates that the client takes. ``initialize_params``: the parameters of
        ``initialize``."""
        return update_kinds.find_allowed(acp.member(initialize_params, "clientCapabilities"))

    def agent_starts_servers(self, session_capabilities: object) -> bool:
        """Whether the agent starts MCP servers. ``session_capabilities``: its capabilities for sessions."""
        return True  # every agent of version 1 must


class V2Dialect(Dialect):
    """Version 2. A resume that asks for a replay from the start is a load. A prompt's answer only accepts it; the turn
    ends when the agent says that it is idle."""

    version = 2
    capabilities_member, sessions_member, info_member = "capabilities", "session", "info"
    always_served = frozenset({"list", "load", "resume", "close"})
    requires_session_capabilities = fills_titles = state_precedes_answer = True
    always_parsed = update_kinds.ALWAYS_PARSED_V2
    server_type = "stdio"

    def read_as_v1(self, message: Message) -> Message:
        if not isinstance(message, Request) or message.method != acp.RESUME:
            return message
        begins_at = acp.text(acp.member(message.params, "replayFrom"), "type")
        return replace(message, method=acp.LOAD) if begins_at == "start" else message

    def is_acceptance(self, answer: Response) -> bool:
        return answer.error is None

    def read_work_state(self, update: object) -> str | None:
        if acp.update_kind(update) != update_kinds.WORK_STATE:
            return None
        if acp.text(update, "state") != "idle":
            return BUSY
        return FAILED if acp.text(update, "stopReason") == "error" else IDLE

    def encode_work_state(self, session_id: str, *, is_busy: bool) -> bytes | None:
        update = {"sessionUpdate": update_kinds.WORK_STATE, "state": "running" if is_busy else "idle"}
        return jsonrpc.encode_notification(acp.UPDATE, {"sessionId": session_id, "update": update})

    def find_allowed_kinds(self, initialize_params: object) -> frozenset[str]:
        return update_kinds.OPTIONAL

    def agent_starts_servers(self, session_capabilities: object) -> bool:
        return acp.has_capability(acp.member(session_capabilities, "mcp"), "stdio")


V1, V2 = Dialect(), V2Dialect()
_ALL: dict[int, Dialect] = {dialect.version: dialect for dialect in (V1, V2)}


def find_dialect(version: object) -> Dialect | None:
    """The dialect of a ``protocolVersion``; None if it is not understood."""
    return _ALL.get(version) if type(version) is int else None
