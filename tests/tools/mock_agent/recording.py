"""A recorded conversation with a permission, as lines of a transcript and as a session."""

from collections.abc import Iterable

from acp_proxy.protocol import acp
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.tools.mock_agent import sessions
from acp_proxy.tools.mock_agent.sessions import PlayedSession
from acp_proxy.transcript.file_format import Entry
from tests.store import transcript_lines

OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "always", "name": "Always", "kind": "allow_always"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]
SELECTED = {"outcome": {"outcome": "selected", "optionId": "yes"}}
REFUSED = {"outcome": {"outcome": "selected", "optionId": "no"}}
CANCELLED = {"outcome": {"outcome": "cancelled"}}
MODES = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}]}


def permission_request(call: str = "t", *, id: object = 0, at: int = 0) -> bytes:
    params = {"sessionId": transcript_lines.SESSION, "toolCall": {"toolCallId": call}, "options": OPTIONS}
    return transcript_lines.message({"id": id, "method": acp.REQUEST_PERMISSION, "params": params}, Peer.AGENT, at=at)


def permission_answer(result: object = SELECTED, *, id: object = 0, at: int = 0) -> bytes:
    return transcript_lines.message({"id": id, "result": result}, Peer.CLIENT, acp.REQUEST_PERMISSION, at=at)


def call_line(status: str, id: str = "t", *, at: int = 0) -> bytes:
    kind = "tool_call" if status == "pending" else "tool_call_update"
    return transcript_lines.update(kind, toolCallId=id, title="Edit", status=status, at=at)


def entries(lines: Iterable[bytes]) -> list[Entry]:
    return [transcript_lines.entry(line) for line in lines]


def session(*lines: bytes, id: str = transcript_lines.SESSION) -> PlayedSession:
    return sessions.read_session(transcript_lines.header(id), entries(lines))
