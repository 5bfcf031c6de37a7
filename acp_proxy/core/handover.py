"""Makes the lines of a handover, in which a session that the agent cannot restore continues in a new one.

``handovers`` decides when they are sent. docs/transparency.md has the rules.
"""

import re
from collections.abc import Sequence

from acp_proxy.titles import is_of_record
from acp_proxy.wire import acp, jsonrpc, splice
from acp_proxy.wire.jsonrpc import Notification, Request, RequestId

OWN_IDS = "acp-proxy/"
"""The beginning of the ids of acp-proxy's own requests. No client uses such ids."""

_NOTICE = "\n\nThis conversation continues in a new session of the agent, which has been given the record above."

"""Begins with an empty line, since some clients join it to the agent's last words."""
SESSION_INFO = b'"' + acp.SESSION_INFO.encode() + b'"'
"""Bytes that every update with a title contains."""
_OF_LOADS = ("sessionId", "replayFrom")
"""The parameters of a load that a new session does not take."""
_UNKNOWN = re.compile(r"not found|unknown session|\bno\b.{0,60}\bfound\b", re.IGNORECASE | re.DOTALL)
_LOGIN, _NOT_FOUND = -32000, -32002
_UNKNOWING = {jsonrpc.INVALID_REQUEST, jsonrpc.INVALID_PARAMS, jsonrpc.INTERNAL_ERROR, *range(-32099, _LOGIN)}
"""The codes with which an agent may say in words that it does not know a session: of requests that it cannot serve, and
those that JSON-RPC leaves to servers. Never that of an unknown method."""


def wants_login(error: object) -> bool:
    """Whether an error asks for a login. Then the session is not handed over, and the error passes."""
    return acp.member(error, "code") == _LOGIN


def is_unknown(error: object, session: str | None = None) -> bool:
    """Whether an error says that the agent does not know the session.

    ``session``: if given, an error for invalid parameters that names this id counts too.
    """
    code = acp.member(error, "code")
    if code == _NOT_FOUND:
        return True
    if code not in _UNKNOWING:
        return False
    said = jsonrpc.dump([acp.member(error, "message"), acp.member(error, "data")]).decode()
    names = session is not None and code == jsonrpc.INVALID_PARAMS and session in said
    return names or _UNKNOWN.search(said) is not None


def is_command(blocks: object) -> bool:
    """Whether a prompt is a slash command, which goes out unchanged. ``blocks``: its content blocks."""
    first = blocks[0] if isinstance(blocks, list) and blocks else None
    return (acp.text(first, "text") or "").lstrip().startswith("/")


def new_session(id: RequestId, load: Request) -> bytes:
    """The line of a ``session/new`` with the parameters of the client's load, except those for an old session.

    Raises ValueError, KeyError.
    """
    text = splice.decode(load.raw)
    start, _ = splice.members(text, splice.whole(text)[0])["params"]
    kept = {key: text[a:b] for key, (a, b) in splice.members(text, start).items() if key not in _OF_LOADS}
    kept.setdefault("mcpServers", "[]")
    params = ",".join(f"{jsonrpc.dump(key).decode()}:{value}" for key, value in kept.items())
    return splice.encode(f'{{"jsonrpc":"2.0","id":{id},"method":"{acp.NEW}","params":{{{params}}}}}\n')


def answer(id: RequestId, result: object) -> bytes:
    """The answer to the load: the result of ``session/new`` without its id, and with a mark of the handover."""
    body = {key: value for key, value in result.items() if key != "sessionId"} if isinstance(result, dict) else {}
    meta = body.get("_meta")
    told = {**(meta if isinstance(meta, dict) else {}), "acp-proxy": {"handover": True}}
    return jsonrpc.result(id, {**body, "_meta": told})


def refused(id: RequestId, line: bytes) -> bytes:
    """The agent's error, as the answer to request ``id``. ``line``: the agent's answer. Raises ValueError, KeyError."""
    text = splice.decode(line)
    start, end = splice.members(text, splice.whole(text)[0])["error"]
    return splice.encode(f'{{"jsonrpc":"2.0","id":{id},"error":{text[start:end]}}}\n')


def notice(session: str) -> bytes:
    """The last update of the replay, which tells the user about the handover."""
    content = {"type": "text", "text": _NOTICE}
    update = {"sessionUpdate": acp.AGENT_CHUNK, "content": content, "messageId": "acp-proxy-handover"}
    return jsonrpc.notification(acp.UPDATE, {"sessionId": session, "update": update})


def with_brief(line: bytes, brief: str, attached: Sequence[bytes] = ()) -> bytes:
    """A prompt with the record (``brief``) and what is attached to it as blocks before the user's.

    Raises ValueError, KeyError.
    """
    text = splice.decode(line)
    params = splice.members(text, splice.whole(text)[0])["params"]
    start, _ = splice.members(text, params[0])["prompt"]
    blocks = splice.elements(text, start)
    new = ",".join(each.decode() for each in (jsonrpc.dump({"type": "text", "text": brief}), *attached))
    at = blocks[0][0] if blocks else start + 1
    return splice.encode(splice.replaced(text, [((at, at), f"{new}," if blocks else new)]))


def without_title(line: bytes) -> bytes | None:
    """A ``session_info_update`` without a title that the agent has made from a record, in whichever process it got
    that; None if it says nothing else. Other lines are returned unchanged."""
    if SESSION_INFO not in line:
        return line
    message = jsonrpc.read_message(line)
    update = acp.member(message.params, "update") if isinstance(message, Notification) else None
    title = acp.text(update, "title") if acp.update_kind(update) == acp.SESSION_INFO else None
    if title is None or not is_of_record(title):
        return line
    try:
        return acp.without_title(line)
    except (ValueError, KeyError):  # it passes unchanged
        return line


def without_record(line: bytes, briefed: "Briefed") -> bytes | None:
    """A whole user message without the record; None if it has nothing else. Raises ValueError, KeyError."""
    text = splice.decode(line)
    start = splice.whole(text)[0]
    for key in ("params", "update"):
        start = splice.members(text, start)[key][0]
    content = splice.members(text, start)["content"]
    blocks = [text[start:end] for start, end in splice.elements(text, content[0])]
    left = [kept for block in blocks if (kept := _block_without_record(block, briefed)) is not None]
    if left == blocks:
        return line
    return splice.encode(splice.replaced(text, [(content, f"[{','.join(left)}]")])) if left else None


def _block_without_record(block: str, briefed: "Briefed") -> str | None:
    if briefed.is_attached(jsonrpc.look(splice.encode(block))):
        return None
    said = acp.text(jsonrpc.look(splice.encode(block)), "text") or ""
    left = briefed.message(said)
    if left == said:
        return block
    span = splice.members(block)["text"]
    return splice.replaced(block, [(span, jsonrpc.dump(left).decode())]) if left else None


class Briefed:
    """Finds what an agent repeats of the record that it was given, since clients must not see it."""

    def __init__(self, brief: str, attached: Sequence[bytes] = ()) -> None:
        self._brief = self._left = brief
        self._attached = [_content(jsonrpc.parse(block)) for block in attached]
        self._expected: list[tuple[object, ...]] = []
        """What is attached and may follow, since the record was repeated."""

    def goes_on(self, text: str) -> bool:
        """Whether the text of a user chunk goes on with the record, after the chunks that were given to ``words``."""
        return self._left.startswith(text) or text.startswith(self._left)

    def words(self, text: str) -> str | None:
        """The text of a user chunk without the record; None: all of it is the record's if the rest of that follows.

        Agents echo prompts whole or in chunks; call it in order.
        """
        if len(text) < len(self._left) and self._left.startswith(text):
            self._left = self._left[len(text) :]
            return None
        if not text.startswith(self._left):
            self.begin_again()
            return text
        rest = text[len(self._left) :].lstrip()
        self.begin_again()
        self._expected = self._attached.copy()
        return rest

    def begin_again(self) -> None:
        """What was heard only began like the record. It may still come."""
        self._left = self._brief

    def message(self, text: str) -> str:
        """The text of a whole user message, or of its first text block, without the record."""
        if not text.startswith(self._brief):
            return text
        self._expected = self._attached.copy()
        return text[len(self._brief) :].lstrip()

    def is_attached(self, block: object) -> bool:
        """Whether the content of a user chunk repeats what was attached to the record, behind that. Each is repeated
        once."""
        if (content := _content(block)) not in self._expected:
            return False
        self._expected.remove(content)
        return True


def _content(block: object) -> tuple[object, ...]:
    """What identifies a content block: agents drop its other members."""
    resource = acp.member(block, "resource")
    inner = tuple(acp.member(resource, key) for key in ("uri", "text", "blob"))
    return (acp.member(block, "type"), acp.member(block, "data"), *inner)
