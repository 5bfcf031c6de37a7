"""The names in the Agent Client Protocol, and functions that read and change parts of its messages.

Source: the Agent Client Protocol's schema, version 1; ``versions`` has what version 2 says differently, and
``update_kinds`` the kinds of updates. An absent member and ``null`` count as the same. The functions that read accept
any value and return None for what is missing or of the wrong type; only ``optional_text`` and ``required_text`` raise
``InvalidParams``. The functions that change a line keep every other byte of it, and raise ValueError or KeyError if the
line lacks the part to change.
"""

import re
import sys
from array import array
from collections.abc import Mapping

from acp_proxy.protocol import json_splice, jsonrpc, update_kinds
from acp_proxy.protocol.jsonrpc import RequestId

SESSION_PREFIX = "session/"
"""The beginning of every method about sessions."""
INITIALIZE = "initialize"
NEW = "session/new"
LOAD = "session/load"
RESUME = "session/resume"
FORK = "session/fork"
CLOSE = "session/close"
LIST = "session/list"
DELETE = "session/delete"
SET_TITLE = "session/set_title"
ARCHIVE = "session/archive"
UNARCHIVE = "session/unarchive"
STATUS = "session/status"
PROMPT = "session/prompt"
CANCEL = "session/cancel"
SET_MODE = "session/set_mode"
SET_CONFIG_OPTION = "session/set_config_option"
UPDATE = "session/update"
REQUEST_PERMISSION = "session/request_permission"
CANCEL_REQUEST = "$/cancel_request"
STEERING = "_session/steering"
"""An extension: the user's words into a running turn. Source: claude-agent-acp 0.101, codex-acp 2.6."""
INDEX_RENAME = "_session/rename"
INDEX_ARCHIVE = "_session/archive"
INDEX_UNARCHIVE = "_session/unarchive"
INDEX_LOOK_UP = "_session/batch_get"
INDEX_CHANGES = "_session/list/changes"
"""Extensions: an agent's index of its sessions. Source: as above."""
CLIENT_TOOLS = "fs/", "terminal/"
"""How the methods begin by which an agent uses the client's files and terminals."""
TERMINAL_CREATE = "terminal/create"
TERMINAL_OUTPUT = "terminal/output"
TERMINAL_WAIT = "terminal/wait_for_exit"
TERMINAL_RELEASE = "terminal/release"

REWIND, REWIND_EXTENSION = "session/rewind", "_session/rewind"
"""Requests to take back a part of the conversation. ``rewinds`` has the sources."""

REWINDS = frozenset({REWIND, REWIND_EXTENSION})
OPENING_REQUESTS = frozenset({NEW, LOAD, RESUME, FORK})
"""Requests whose answer opens a session."""
RECORDED_REQUESTS = frozenset({PROMPT, SET_MODE, SET_CONFIG_OPTION, REQUEST_PERMISSION}) | REWINDS
"""Requests that are recorded, and so are their answers."""
RENAMES = frozenset({SET_TITLE, INDEX_RENAME})
"""Requests that give a session a title."""
ARCHIVES = frozenset({ARCHIVE, INDEX_ARCHIVE})
UNARCHIVES = frozenset({UNARCHIVE, INDEX_UNARCHIVE})
AGENT_INDEX = frozenset({INDEX_RENAME, INDEX_ARCHIVE, INDEX_UNARCHIVE, INDEX_LOOK_UP, INDEX_CHANGES})
EXTENSIONS = frozenset({STEERING, REWIND_EXTENSION}) | AGENT_INDEX
"""Extensions that mean something here."""
TERMINALS = frozenset({TERMINAL_CREATE, TERMINAL_OUTPUT, TERMINAL_WAIT, TERMINAL_RELEASE})

COMPACTION_IN_PROGRESS = "in_progress"
"""The status of a compaction that has not ended."""

VERSION = 1

UPDATE_PREFIX = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"'
"""The first bytes of an update as every official SDK writes it. They identify an update without parsing."""


class InvalidParams(Exception):
    """A request that acp-proxy answers has a missing or mistyped parameter (JSON-RPC -32602). The text says which."""


def member(value: object, key: str) -> object:
    """The value of ``key``, or None if ``value`` is not an object or lacks it."""
    return value.get(key) if isinstance(value, dict) else None  # checking for Mapping is slow, and every update does


def text(value: object, key: str) -> str | None:
    """The string under ``key``, or None if there is no string."""
    member_value = member(value, key)
    return member_value if isinstance(member_value, str) else None


_REASONS = ("details", "message", "reason")
"""Where the data of an error has its reason, if it is no text: the libraries of agents write ``details``."""


def read_error(error: object) -> str | None:
    """Why a request failed, for people: an error's message, and what its data says more; None: neither is there.

    For an error of the agent's own, the message is mostly "Internal error", and only the data has the reason.
    """
    message, data = text(error, "message"), member(error, "data")
    reason = data if isinstance(data, str) else next(filter(None, (text(data, name) for name in _REASONS)), "")
    return (f"{message}: {reason}" if message and reason not in message else message or reason) or None


_TWO_UNITS = re.compile("[\U00010000-\U0010ffff]")
"""Characters that are two units in UTF-16."""
_UTF_16 = f"utf-16-{sys.byteorder[0]}e"
"""As the numbers of an ``array`` lie in memory."""


def fold_letters(text: str) -> str:
    """The text without white space, and in UTF-16 units: some agents divide a text between the two of a character."""
    letters = "".join(text.split())
    return letters if letters.isascii() else divide_pairs(letters)


def divide_pairs(text: str) -> str:
    """The text in UTF-16 units: each character beyond U+FFFF becomes a pair of surrogates."""
    if _TWO_UNITS.search(text) is None:
        return text
    return "".join(map(chr, array("H", text.encode(_UTF_16, "surrogatepass"))))


def session_id(params: object) -> str | None:
    """The ``sessionId`` of a message's parameters or result, or None."""
    return text(params, "sessionId")


def items(value: object, key: str) -> list[object]:
    """The items of the array under ``key``; empty if there is no array."""
    array = member(value, key)
    return array if isinstance(array, list) else []


def strings(value: object, key: str) -> list[str]:
    """The strings in the array under ``key``, without its other items; empty if there is no array."""
    return [item for item in items(value, key) if isinstance(item, str)]


def optional_text(params: object, key: str) -> str | None:
    """A parameter that may be absent. Raises InvalidParams if it is present but not a string."""
    if params is not None and not isinstance(params, Mapping):
        raise InvalidParams("params must be an object")
    value = member(params, key)
    if value is not None and not isinstance(value, str):
        raise InvalidParams(f"{key} must be a string")
    return value


def required_text(params: object, key: str) -> str:
    """A parameter that must be a string. Raises InvalidParams if it is absent or not a string."""
    value = optional_text(params, key)
    if value is None:
        raise InvalidParams(f"{key} is required")
    return value


def has_capability(capabilities: object, name: str) -> bool:
    """Whether an object of capabilities has ``name`` with a value other than null and false."""
    value = member(capabilities, name)
    return value is not None and value is not False


_ABSOLUTE = r"/|[A-Za-z]:[\\/]|\\\\"


def is_absolute(path: str) -> bool:
    """Whether a path is absolute on any system, since a peer may run on another one (for example over ssh)."""
    return re.match(_ABSOLUTE, path) is not None


def is_steered(result: object) -> bool:
    """Whether the agent has taken the words of ``STEERING``, by its answer: into the running turn, or into a new one.
    If it has not, the client sends them as a prompt."""
    return text(result, "outcome") in ("injected", "startedNewTurn")


def update_kind(update: object) -> str | None:
    """The kind of an update: its ``sessionUpdate``, or None."""
    return text(update, "sessionUpdate")


def read_update(line: bytes) -> object:
    """The ``params.update`` of a line, or None if the line has none or is not JSON."""
    try:
        return member(member(jsonrpc.parse(line), "params"), "update")
    except (ValueError, RecursionError):
        return None


_PLAIN_ID = re.compile(rb'[^"\\]*"')


def find_plain_session_id(line: bytes) -> bytes | None:
    """The raw bytes of the session id in a line that begins with ``UPDATE_PREFIX``; None if the id contains escapes."""
    if not line.startswith(UPDATE_PREFIX):
        return None
    match = _PLAIN_ID.match(line, len(UPDATE_PREFIX))
    return match.group()[:-1] if match else None


_SESSION_ID = re.compile(rb'"sessionId"\s*:\s*"([^"\\]*)"')


def guess_session_id(beginning: bytes) -> str | None:
    """The session id in the first bytes of a line that is too long to be parsed, or None."""
    match = _SESSION_ID.search(beginning, 0, 4096)
    return match[1].decode("utf-8", "replace") if match else None


def with_text(raw: bytes, text: str, *path: str) -> bytes:
    """The line with another string at the end of a path, such as ``params``, ``update``, ``title``. Raises ValueError,
    KeyError."""
    return json_splice.with_value(raw, jsonrpc.dump(text).decode(), *path)


def with_method(raw: bytes, method: str) -> bytes:
    """The request with another method. Raises ValueError, KeyError."""
    return with_text(raw, method, "method")


def with_id(raw: bytes, id: RequestId) -> bytes:
    """The request or response with another id. Raises ValueError, KeyError."""
    return json_splice.with_value(raw, id, "id")


def with_session_id(raw: bytes, session_id: str) -> bytes:
    """The message with another ``params.sessionId``. Raises ValueError, KeyError."""
    return with_text(raw, session_id, "params", "sessionId")


def with_mcp_server_added(raw: bytes, server: Mapping[str, object]) -> bytes:
    """The request with one more MCP server, after its own. Raises ValueError, KeyError."""
    text = json_splice.decode(raw)
    params = json_splice.find_span(text, "params")
    members, entry = json_splice.find_members(text, params[0]), jsonrpc.dump(server).decode()
    if "mcpServers" not in members:
        insert_offset = params[1] - 1
        change = (insert_offset, insert_offset), f'{"," if members else ""}"mcpServers":[{entry}]'
    elif text[slice(*(span := members["mcpServers"]))] == "null":
        change = span, f"[{entry}]"
    else:
        own_servers = json_splice.find_elements(text, span[0])
        insert_offset = own_servers[-1][1] if own_servers else span[0] + 1
        change = (insert_offset, insert_offset), f",{entry}" if own_servers else entry
    return json_splice.encode(json_splice.replace_spans(text, [change]))


def without_title(raw: bytes) -> bytes | None:
    """The ``session_info_update`` without its title; None if it says nothing else. Raises ValueError, KeyError."""
    text = json_splice.decode(raw)
    span = json_splice.find_span(text, "params", "update")
    members = json_splice.find_members(text, span[0])
    if members.keys() <= {"sessionUpdate", "title"}:
        return None
    return json_splice.encode(
        json_splice.replace_spans(text, [(span, json_splice.without_member(text, span[0], "title"))])
    )


def with_chunk_text(raw: bytes, new_text: str) -> bytes:
    """The chunk with another ``params.update.content.text``. Raises ValueError, KeyError."""
    return with_text(raw, new_text, "params", "update", "content", "text")


def encode_user_chunk(session_id: str, block: bytes, message_id: str) -> bytes:
    """A user chunk that repeats a block of a prompt to the client, as a text. ``block``: the block's JSON text."""
    return b"".join(
        (
            UPDATE_PREFIX[:-1],
            jsonrpc.dump(session_id),
            b',"update":{"sessionUpdate":%b,"content":' % jsonrpc.dump(update_kinds.USER_CHUNK),
            block,
            b',"messageId":',
            jsonrpc.dump(message_id),
            b"}}}\n",
        )
    )
