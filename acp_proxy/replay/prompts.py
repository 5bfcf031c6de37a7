"""Turns a prompt into the user chunks that a client should see: one for each block."""

from acp_proxy.replay.updates import block_text, is_block, letters
from acp_proxy.wire import acp, jsonrpc, splice
from acp_proxy.wire.record import Entry


class Prompt:
    """A prompt.

    ``run``, ``id``: the connection, and the JSON text of the request's id. ``letters``: its text without white space.
    ``is_only_text``: all its blocks are text. ``is_echoed``: the agent has echoed it. ``is_certain``: nothing that
    comes can change its chunks. ``is_cancelled``: the client has cancelled its turn.
    """

    def __init__(self, session: str, number: int, entry: Entry, given: str | None = None) -> None:
        """``number``: its line in the transcript, which makes its ``messageId`` unless an echo gives one, or the agent
        has another one in its own replay (``given``): it may be asked to fork or rewind there."""
        self.run = entry.run
        self.id = jsonrpc.dump(acp.member(entry.value, "id"))
        self.is_echoed = self.is_certain = self.is_cancelled = False
        self._session = session
        self._message_id = given or f"acp-proxy-{entry.run}-{number}"
        self._blocks = _blocks(entry)
        texts = [block_text(block) for block, _ in self._blocks]
        self.letters = letters("".join(text for text in texts if text is not None))
        self.is_only_text = None not in texts

    def echoed(self, message_id: str | None) -> None:
        """The agent has echoed the prompt. ``message_id``: the echo's, if it has one."""
        self.is_echoed = self.is_certain = True
        self._message_id = message_id if message_id is not None else self._message_id

    def told(self) -> list[bytes]:
        """The lines of the chunks. Empty when called again."""
        blocks, self._blocks = self._blocks, []
        return [acp.user_chunk(self._session, raw, self._message_id) for _, raw in blocks]


def _blocks(entry: Entry) -> list[tuple[object, bytes]]:
    """The valid blocks of a prompt, each with its JSON text."""
    found = acp.member(acp.member(entry.value, "params"), "prompt")
    blocks: list[object] = found if isinstance(found, list) else []
    raw = entry.raw or b""
    is_ours = jsonrpc.is_dumped(raw, entry.value)  # the usual case, which needs no search for the blocks
    raws = [jsonrpc.dump(block) for block in blocks] if is_ours else _raw_blocks(raw, blocks)
    return [(block, raw) for block, raw in zip(blocks, raws, strict=True) if is_block(block)]


def _raw_blocks(raw: bytes, blocks: list[object]) -> list[bytes]:
    text = splice.decode(raw)
    try:
        params = splice.members(text, splice.whole(text)[0])["params"]
        spans = splice.elements(text, splice.members(text, params[0])["prompt"][0])
        if len(spans) == len(blocks):
            return [splice.encode(text[start:end]) for start, end in spans]
    except (ValueError, KeyError):
        pass
    return [jsonrpc.dump(block) for block in blocks]
