"""Reads and makes the lines of a handover, in which a session that the agent cannot restore continues in a new one.

``Handovers`` decides when they are sent. docs/transparency.md has the rules.
"""

import re
from collections.abc import Sequence

from acp_proxy.protocol import acp, json_splice, jsonrpc, update_kinds
from acp_proxy.protocol.jsonrpc import Notification, Request, RequestId
from acp_proxy.transcript.titles import is_of_handover_record

_NOTICE_TEXT = "\n\nThis conversation continues in a new session of the agent, which has been given the record above."
"""Begins with an empty line, since some clients join it to the agent's last words."""
_LOAD_ONLY_PARAMS = ("sessionId", "replayFrom")
"""The parameters of a load that a new session does not take."""
_UNKNOWN_SESSION_TEXT = re.compile(r"not found|unknown session|\bno\b.{0,60}\bfound\b", re.IGNORECASE | re.DOTALL)
_LOGIN_REQUIRED, _NOT_FOUND = -32000, -32002
_CODES_NEEDING_TEXT = {
    jsonrpc.INVALID_REQUEST,
    jsonrpc.INVALID_PARAMS,
    jsonrpc.INTERNAL_ERROR,
    *range(-32099, _LOGIN_REQUIRED),
}
"""The codes with which an agent may say in words that it does not know a session: of requests that it cannot serve, and
those that JSON-RPC leaves to servers. Never that of an unknown method."""


def wants_login(error: object) -> bool:
    """Whether an error asks for a login. Then the session is not handed over, and the error passes."""
    return acp.member(error, "code") == _LOGIN_REQUIRED


def says_session_unknown(error: object, session_id: str | None = None) -> bool:
    """Whether an error says that the agent does not know the session.

    ``session_id``: if given, an error for invalid parameters that names this id counts too.
    """
    code = acp.member(error, "code")
    if code == _NOT_FOUND:
        return True
    if code not in _CODES_NEEDING_TEXT:
        return False
    words = jsonrpc.dump([acp.member(error, "message"), acp.member(error, "data")]).decode()
    names_session = session_id is not None and code == jsonrpc.INVALID_PARAMS and session_id in words
    return names_session or _UNKNOWN_SESSION_TEXT.search(words) is not None


def is_slash_command(blocks: object) -> bool:
    """Whether a prompt is a slash command, which goes out unchanged. ``blocks``: the prompt's content blocks."""
    first = blocks[0] if isinstance(blocks, list) and blocks else None
    return (acp.text(first, "text") or "").lstrip().startswith("/")


def encode_new_session(id: RequestId, request: Request) -> bytes:
    """The line of a ``session/new`` with the parameters of the client's request, except those for an old session.

    Raises ValueError, KeyError.
    """
    text = json_splice.decode(request.raw)
    start, _ = json_splice.find_span(text, "params")
    members = {
        key: text[a:b] for key, (a, b) in json_splice.find_members(text, start).items() if key not in _LOAD_ONLY_PARAMS
    }
    members.setdefault("mcpServers", "[]")
    params = ",".join(f"{jsonrpc.dump(key).decode()}:{value}" for key, value in members.items())
    return json_splice.encode(f'{{"jsonrpc":"2.0","id":{id},"method":"{acp.NEW}","params":{{{params}}}}}\n')


def encode_answer(id: RequestId, result: object) -> bytes:
    """The answer to the load: the result of ``session/new`` without its id, and with a mark of the handover."""
    body = {key: value for key, value in result.items() if key != "sessionId"} if isinstance(result, dict) else {}
    meta = body.get("_meta")
    marked = {**(meta if isinstance(meta, dict) else {}), "acp-proxy": {"handover": True}}
    return jsonrpc.encode_result(id, {**body, "_meta": marked})


def encode_refusal(id: RequestId, line: bytes) -> bytes:
    """The agent's error, as the answer to request ``id``. ``line``: the agent's answer. Raises ValueError, KeyError."""
    text = json_splice.decode(line)
    start, end = json_splice.find_span(text, "error")
    return json_splice.encode(f'{{"jsonrpc":"2.0","id":{id},"error":{text[start:end]}}}\n')


def encode_notice(session_id: str) -> bytes:
    """The last update of the past that is shown, which tells the user about the handover."""
    content = {"type": "text", "text": _NOTICE_TEXT}
    update = {"sessionUpdate": update_kinds.AGENT_CHUNK, "content": content, "messageId": "acp-proxy-handover"}
    return jsonrpc.encode_notification(acp.UPDATE, {"sessionId": session_id, "update": update})


def with_handover_record(line: bytes, handover_record: str, attached: Sequence[bytes] = ()) -> bytes:
    """A prompt with the record (``handover_record``) and what is attached to it as blocks before the user's.

    Raises ValueError, KeyError.
    """
    text = json_splice.decode(line)
    start, _ = json_splice.find_span(text, "params", "prompt")
    blocks = json_splice.find_elements(text, start)
    handover_record_blocks = ",".join(
        block.decode() for block in (jsonrpc.dump({"type": "text", "text": handover_record}), *attached)
    )
    position = blocks[0][0] if blocks else start + 1
    return json_splice.encode(
        json_splice.replace_spans(
            text, [((position, position), f"{handover_record_blocks}," if blocks else handover_record_blocks)]
        )
    )


def without_handover_title(line: bytes) -> bytes | None:
    """A ``session_info_update`` without a title that the agent has made from a record, in whichever process it got
    that; None if it says nothing else. Other lines are returned unchanged."""
    if update_kinds.SESSION_INFO_BYTES not in line:
        return line
    message = jsonrpc.read_message(line)
    update = acp.member(message.params, "update") if isinstance(message, Notification) else None
    title = acp.text(update, "title") if acp.update_kind(update) == update_kinds.SESSION_INFO else None
    if title is None or not is_of_handover_record(title):
        return line
    try:
        return acp.without_title(line)
    except (ValueError, KeyError):  # it passes unchanged
        return line
