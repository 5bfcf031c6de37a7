"""Makes the messages that acp-proxy sends to the client of its own accord: errors, and updates. Its own requests to the
agent are made where their answers are handled."""

from collections.abc import Mapping

from acp_proxy.decisions.effects import Forward
from acp_proxy.errors import REPLACED
from acp_proxy.protocol import acp, jsonrpc
from acp_proxy.protocol.jsonrpc import Peer, RequestId

OWN_IDS = "acp-proxy/"
"""The beginning of the ids of acp-proxy's own requests to the agent. No editor uses such ids, but an acp-proxy that is
the agent of another one gets them."""


def refuse(id: RequestId, code: int, message: str) -> Forward:
    """An error response to the client's request."""
    return Forward(Peer.CLIENT, jsonrpc.encode_error(id, code, message), is_own=True)


def encode_not_found(id: RequestId, session_id: str) -> bytes:
    """The error for a session that does not exist, as the drafts of the protocol want it."""
    return jsonrpc.encode_error(
        id, jsonrpc.RESOURCE_NOT_FOUND, f"Session not found: {session_id}", {"sessionId": session_id}
    )


def refuse_unreadable(id: RequestId, errno_name: str) -> Forward:
    """The error for history that cannot be read."""
    return _refuse_for_store(id, "Session history cannot be read", errno_name)


def refuse_unwritable(id: RequestId, errno_name: str) -> Forward:
    """The error for a delete, a title or archiving that cannot be written."""
    return _refuse_for_store(id, "The change cannot be written to the session history", errno_name)


def _refuse_for_store(id: RequestId, what: str, errno_name: str) -> Forward:
    """It has no text of the system's, since some clients react to that."""
    what_to_do = "Restart the agent." if errno_name == REPLACED else "Run: acp-proxy doctor"
    return refuse(id, jsonrpc.INTERNAL_ERROR, f"{what} ({errno_name}). {what_to_do}")


def encode_update(session_id: str, body: Mapping[str, object]) -> bytes:
    """The line of a ``session/update``. ``body``: the update, with its kind."""
    return jsonrpc.encode_notification(acp.UPDATE, {"sessionId": session_id, "update": body})
