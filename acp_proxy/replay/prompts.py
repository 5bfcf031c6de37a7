"""A prompt told as a client hears it: a chunk for each of its blocks, with the id of the agent's echo or ours."""

from acp_proxy.replay.updates import block_text, is_block, letters
from acp_proxy.wire import acp, jsonrpc, splice
from acp_proxy.wire.record import Entry


class Prompt:
    """``letters``: its text without white space. ``is_certain``: nothing that comes can change what is told of it."""

    def __init__(self, session: str, number: int, entry: Entry) -> None:
        self.run = entry.run
        self.id = jsonrpc.dump(acp.member(entry.value, "id"))
        self.is_echoed = self.is_certain = self.is_cancelled = False
        self._session = session
        self._message_id = f"acp-proxy-{entry.run}-{number}"
        self._blocks = _blocks(entry)
        texts = [block_text(block) for block, _ in self._blocks]
        self.letters = letters("".join(text for text in texts if text is not None))
        self.is_only_text = None not in texts

    def echoed(self, message_id: str | None) -> None:
        """``message_id``: the echo's."""
        self.is_echoed = self.is_certain = True
        self._message_id = message_id if message_id is not None else self._message_id

    def told(self) -> list[bytes]:
        """Its lines, once."""
        blocks, self._blocks = self._blocks, []
        return [acp.user_chunk(self._session, raw, self._message_id) for _, raw in blocks]


def _blocks(entry: Entry) -> list[tuple[object, bytes]]:
    """The blocks that can be told, each with its own bytes."""
    found = acp.member(acp.member(entry.value, "params"), "prompt")
    blocks: list[object] = found if isinstance(found, list) else []
    raw = entry.raw or b""
    is_ours = jsonrpc.is_dumped(raw, entry.value)  # the usual case: nothing has to be looked for
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
