"""A session that the agent cannot restore goes on in a new one of the agent: the lines that bring that about.

Pure: how they are made, not when. Source: design of the handover.
"""

from acp_proxy.wire import acp, jsonrpc, splice
from acp_proxy.wire.jsonrpc import Request, RequestId

OWN_IDS = "acp-proxy/"
"""How ids of our own requests begin: no client would make one."""

_NOTICE = "This conversation continues in a new session of the agent, which has been given the record above."


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
    """The load's answer: the new session's modes and options, and a word on what happened."""
    body = {key: found for key in ("modes", "configOptions") if (found := acp.member(result, key)) is not None}
    return jsonrpc.result(id, {**body, "_meta": {"acp-proxy": {"handover": True}}})


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
