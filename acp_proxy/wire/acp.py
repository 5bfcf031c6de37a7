"""The protocol's names, and careful ways to read them out of somebody else's parameters.

Source: the Agent Client Protocol's schema, version 1. Absent and ``null`` are the same thing; nothing here raises,
except ``InvalidParams`` where a request that we answer has a value of the wrong type.
"""

import re
from collections.abc import Mapping

from acp_proxy.wire import jsonrpc, splice
from acp_proxy.wire.jsonrpc import Request, RequestId

INITIALIZE = "initialize"
NEW = "session/new"
LOAD = "session/load"
RESUME = "session/resume"
FORK = "session/fork"
CLOSE = "session/close"
LIST = "session/list"
DELETE = "session/delete"
PROMPT = "session/prompt"
CANCEL = "session/cancel"
SET_MODE = "session/set_mode"
SET_CONFIG_OPTION = "session/set_config_option"
UPDATE = "session/update"
REQUEST_PERMISSION = "session/request_permission"
CANCEL_REQUEST = "$/cancel_request"
TERMINAL_CREATE = "terminal/create"
TERMINAL_OUTPUT = "terminal/output"
TERMINAL_WAIT = "terminal/wait_for_exit"
TERMINAL_RELEASE = "terminal/release"

OPENING = frozenset({NEW, LOAD, RESUME, FORK})
"""Requests whose answer opens a session."""
RECORDED_REQUESTS = frozenset({PROMPT, SET_MODE, SET_CONFIG_OPTION, REQUEST_PERMISSION})
"""Requests that are recorded, and so are their answers."""
TERMINALS = frozenset({TERMINAL_CREATE, TERMINAL_OUTPUT, TERMINAL_WAIT, TERMINAL_RELEASE})

USER_CHUNK = "user_message_chunk"
AGENT_CHUNK = "agent_message_chunk"
THOUGHT_CHUNK = "agent_thought_chunk"
TOOL_CALL = "tool_call"
SESSION_INFO = "session_info_update"
AVAILABLE_COMMANDS = "available_commands_update"
USAGE = "usage_update"
CURRENT_MODE = "current_mode_update"
CONFIG_OPTION = "config_option_update"
NOTICE = "notice"
STATE_KINDS = frozenset({AVAILABLE_COMMANDS, CURRENT_MODE, CONFIG_OPTION, SESSION_INFO, USAGE, NOTICE})
"""Kinds of updates that tell how things stand; every other kind, known or not, is conversation."""

COMPACTION, COMPACTION_CHUNK = "compaction_update", "compaction_summary_chunk"
IN_PROGRESS = "in_progress"
"""Of a compaction: it has not ended."""

_OPTIONAL: dict[tuple[str, ...], frozenset[str]] = {
    ("session", "compaction"): frozenset({COMPACTION, COMPACTION_CHUNK}),
    ("plan",): frozenset({"plan_update", "plan_removed"}),
    ("subagents",): frozenset({"subagent_update", "session_message", "session_message_chunk"}),
}
"""By client capability: the kinds of conversation that only a client with it may be sent. Plans by id and subagents are
drafts."""
OPTIONAL_KINDS = frozenset().union(*_OPTIONAL.values())

VERSION = 1

UPDATE_PREFIX = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"'
"""How every official SDK begins an update: enough to know one without parsing it."""


class InvalidParams(Exception):
    """A request that we answer has parameters of the wrong type; the text says which (JSON-RPC -32602)."""


def member(value: object, key: str) -> object:
    """A member of what may or may not be an object."""
    return value.get(key) if isinstance(value, dict) else None  # not Mapping: asked for each update


def text(value: object, key: str) -> str | None:
    found = member(value, key)
    return found if isinstance(found, str) else None


def session_id(params: object) -> str | None:
    return text(params, "sessionId")


def strings(value: object, key: str) -> list[str]:
    found = member(value, key)
    return [item for item in found if isinstance(item, str)] if isinstance(found, list) else []


def optional_text(params: object, key: str) -> str | None:
    """A parameter that may be left out. Raises InvalidParams when it is there and no string."""
    if params is not None and not isinstance(params, Mapping):
        raise InvalidParams("params must be an object")
    found = member(params, key)
    if found is not None and not isinstance(found, str):
        raise InvalidParams(f"{key} must be a string")
    return found


def required_text(params: object, key: str) -> str:
    found = optional_text(params, key)
    if found is None:
        raise InvalidParams(f"{key} is required")
    return found


def offers(capabilities: object, name: str) -> bool:
    """Whether a capability's marker is present and neither null nor false."""
    found = member(capabilities, name)
    return found is not None and found is not False


def optional_kinds(client_capabilities: object) -> frozenset[str]:
    """The optional kinds of updates that a client announced in ``initialize``."""

    def announced(path: tuple[str, ...]) -> bool:
        found = client_capabilities
        for name in path:
            found = member(found, name)
        return found is not None and found is not False

    return frozenset().union(*(kinds for path, kinds in _OPTIONAL.items() if announced(path)))


_ABSOLUTE = r"/|[A-Za-z]:[\\/]|\\\\"


def is_absolute(path: str) -> bool:
    """Whether a path is absolute, on any system: peers need not run on ours."""
    return re.match(_ABSOLUTE, path) is not None


def update_kind(update: object) -> str | None:
    return text(update, "sessionUpdate")


def update_of(line: bytes) -> object:
    """What a line tells, where it is an update."""
    try:
        return member(member(jsonrpc.parse(line), "params"), "update")
    except (ValueError, RecursionError):
        return None


def is_conversation(kind: str | None) -> bool:
    return kind not in STATE_KINDS


_PLAIN_ID = re.compile(rb'[^"\\]*"')


def plain_update_session(line: bytes) -> bytes | None:
    """The session id of a line that begins as all official SDKs begin an update, when it is written without escapes."""
    if not line.startswith(UPDATE_PREFIX):
        return None
    found = _PLAIN_ID.match(line, len(UPDATE_PREFIX))
    return found.group()[:-1] if found else None


_PROMPT_BEGINNING = (
    rb'\{"jsonrpc":"2\.0",(?:"id":(\d{1,18}|"[^"\\]*"),"method":"session/prompt"|"method":"session/prompt","id":(\d{1,18}|"[^"\\]*"))'
    rb',"params":\{"sessionId":"([^"\\]*)"'
)
_BLOCKS = b',"prompt":['


def prompt_beginning(line: bytes) -> Request | None:
    """A prompt by its beginning, as official SDKs write it: its id, its session, and the blocks that stand whole there,
    which may be none of them or all."""
    found = re.match(_PROMPT_BEGINNING, line)
    if found is None:
        return None
    try:
        id, session = jsonrpc.parse(found[1] or found[2]), found[3].decode()
    except ValueError:
        return None
    return Request(
        b"", jsonrpc.request_id(id, b""), PROMPT, {"sessionId": session, "prompt": _blocks(line, found.end())}
    )


def _blocks(line: bytes, at: int) -> list[object]:
    if not line.startswith(_BLOCKS, at):
        return []
    text = splice.decode(line[at + len(_BLOCKS) - 1 :])
    try:
        return [jsonrpc.parse(splice.encode(text[start:end])) for start, end in splice.elements_before_break(text)]
    except (ValueError, RecursionError):
        return []


def renamed(raw: bytes, method: str) -> bytes:
    """A request under another method; every other byte stays."""
    line = splice.decode(raw)
    span = splice.members(line, splice.whole(line)[0])["method"]
    return splice.encode(splice.replaced(line, [(span, f'"{method}"')]))


def with_result(raw: bytes, value: str) -> bytes:
    """A response with another result; every other byte stays."""
    line = splice.decode(raw)
    span = splice.members(line, splice.whole(line)[0])["result"]
    return splice.encode(splice.replaced(line, [(span, value)]))


def with_id(raw: bytes, id: RequestId) -> bytes:
    """A request or response under another id; every other byte stays. Raises ValueError, KeyError."""
    line = splice.decode(raw)
    span = splice.members(line, splice.whole(line)[0])["id"]
    return splice.encode(splice.replaced(line, [(span, id)]))


def with_session(raw: bytes, session: str) -> bytes:
    """A message about another session; every other byte stays. Raises ValueError, KeyError."""
    line = splice.decode(raw)
    params = splice.members(line, splice.whole(line)[0])["params"]
    span = splice.members(line, params[0])["sessionId"]
    return splice.encode(splice.replaced(line, [(span, jsonrpc.dump(session).decode())]))


def with_chunk_text(raw: bytes, new: str) -> bytes:
    """A chunk with another text; every other byte stays. Raises ValueError, KeyError."""
    line = splice.decode(raw)
    start = splice.whole(line)[0]
    for key in ("params", "update", "content"):
        start = splice.members(line, start)[key][0]
    span = splice.members(line, start)["text"]
    return splice.encode(splice.replaced(line, [(span, jsonrpc.dump(new).decode())]))


def user_chunk(session: str, block: bytes, message_id: str) -> bytes:
    """A block of a prompt, told as a client hears it."""
    return b"".join(
        (
            UPDATE_PREFIX[:-1],
            jsonrpc.dump(session),
            b',"update":{"sessionUpdate":"user_message_chunk","content":',
            block,
            b',"messageId":',
            jsonrpc.dump(message_id),
            b"}}}\n",
        )
    )
