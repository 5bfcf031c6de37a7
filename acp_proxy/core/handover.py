"""The lines that continue a session in a new one, if the agent can neither load nor resume it.

Pure: how they are made, not when (``handovers``). docs/transparency.md has the rules.
"""

import re

from acp_proxy.wire import acp, jsonrpc, splice
from acp_proxy.wire.jsonrpc import Request, RequestId

OWN_IDS = "acp-proxy/"
"""How ids of our own requests begin: no client would make one."""

_NOTICE = "\n\nThis conversation continues in a new session of the agent, which has been given the record above."

"""It begins with an empty line: some clients join it to the agent's last words."""
_UNKNOWN = re.compile(r"not found|unknown session|\bno\b.{0,60}\bfound\b", re.IGNORECASE | re.DOTALL)
_LOGIN, _NOT_FOUND = -32000, -32002


def wants_login(error: object) -> bool:
    """No reason to open another session: it passes."""
    return acp.member(error, "code") == _LOGIN


def is_unknown(error: object, session: str | None = None) -> bool:
    """Whether an error says that the agent does not know the session. ``session``: to name it says so too."""
    code = acp.member(error, "code")
    if code == _NOT_FOUND:
        return True
    if code not in (jsonrpc.INVALID_PARAMS, jsonrpc.INTERNAL_ERROR):
        return False
    said = jsonrpc.dump([acp.member(error, "message"), acp.member(error, "data")]).decode()
    names = session is not None and code == jsonrpc.INVALID_PARAMS and session in said
    return names or _UNKNOWN.search(said) is not None


def is_command(blocks: object) -> bool:
    """Whether a prompt is a slash command: it goes out as it is."""
    first = blocks[0] if isinstance(blocks, list) and blocks else None
    return (acp.text(first, "text") or "").lstrip().startswith("/")


def new_session(id: RequestId, load: Request) -> bytes:
    """Our own ``session/new``: what the client wants of the session that it loads, but for the id.

    Raises ValueError, KeyError.
    """
    text = splice.decode(load.raw)
    start, _ = splice.members(text, splice.whole(text)[0])["params"]
    kept = {key: text[a:b] for key, (a, b) in splice.members(text, start).items() if key != "sessionId"}
    kept.setdefault("mcpServers", "[]")
    params = ",".join(f"{jsonrpc.dump(key).decode()}:{value}" for key, value in kept.items())
    return splice.encode(f'{{"jsonrpc":"2.0","id":{id},"method":"{acp.NEW}","params":{{{params}}}}}\n')


def answer(id: RequestId, result: object) -> bytes:
    """The load's answer: all that the new session's had but its id, and a word on what happened."""
    body = {key: value for key, value in result.items() if key != "sessionId"} if isinstance(result, dict) else {}
    meta = body.get("_meta")
    told = {**(meta if isinstance(meta, dict) else {}), "acp-proxy": {"handover": True}}
    return jsonrpc.result(id, {**body, "_meta": told})


def refused(id: RequestId, line: bytes) -> bytes:
    """The agent's error, as the answer to the load. Raises ValueError, KeyError."""
    text = splice.decode(line)
    start, end = splice.members(text, splice.whole(text)[0])["error"]
    return splice.encode(f'{{"jsonrpc":"2.0","id":{id},"error":{text[start:end]}}}\n')


def notice(session: str) -> bytes:
    """The last thing that is told: what the user should know."""
    content = {"type": "text", "text": _NOTICE}
    update = {"sessionUpdate": acp.AGENT_CHUNK, "content": content, "messageId": "acp-proxy-handover"}
    return jsonrpc.notification(acp.UPDATE, {"sessionId": session, "update": update})


def with_brief(line: bytes, brief: str) -> bytes:
    """A prompt with the record of what was before the user's blocks. Raises ValueError, KeyError."""
    text = splice.decode(line)
    params = splice.members(text, splice.whole(text)[0])["params"]
    start, _ = splice.members(text, params[0])["prompt"]
    blocks = splice.elements(text, start)
    block = jsonrpc.dump({"type": "text", "text": brief}).decode()
    at = blocks[0][0] if blocks else start + 1
    return splice.encode(splice.replaced(text, [((at, at), f"{block}," if blocks else block)]))


class Briefed:
    """What an agent that was given a brief may say of it: clients never hear that."""

    def __init__(self, brief: str) -> None:
        self._folded = " ".join(brief.split())
        self._left = brief
        self._heard = ""

    def words(self, text: str) -> str:
        """What is left of a user chunk's text without the brief: agents echo prompts, whole or in pieces."""
        left, heard = self._left, self._heard
        if left and left.startswith(text):
            self._left, self._heard = left[len(text) :], heard + text
            return ""
        self._left = self._heard = ""
        if left and text.startswith(left):
            return text[len(left) :].lstrip()
        return heard + text if left else text  # it only began like the brief

    def is_title(self, title: str) -> bool:
        """Whether a title is made of the brief: agents take the first words of a prompt."""
        words = " ".join(title.split()).rstrip(".… ")
        return bool(words) and self._folded.startswith(words)
