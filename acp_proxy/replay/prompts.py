"""A prompt told as a client hears it: a chunk for each of its blocks, or the agent's own echo of them.

An echo is adjacent user chunks behind the prompt whose joined text is the prompt's, trimmed; then the echo is what is
told, and of the prompt only the blocks that are no text. User chunks that say something else are kept beside it.
"""

from itertools import accumulate

from acp_proxy.replay.updates import Update, block_text, is_block
from acp_proxy.wire import acp, jsonrpc, splice
from acp_proxy.wire.record import Entry


class Prompt:
    """A prompt, and the user chunks of the agent right behind it."""

    def __init__(self, session: str, number: int, entry: Entry) -> None:
        self.behind: list[Update] = []
        self._session = session
        self._message_id = f"acp-proxy-{entry.run}-{number}"
        self._blocks = _blocks(entry)

    def told(self) -> tuple[list[bytes], list[Update]]:
        """The lines of the prompt, and what the agent said behind it that is no echo.

        The blocks in order; an echo stands in the place of the first text, and for all of them.
        """
        spoken = "".join(block_text(block) or "" for block, _ in self._blocks).strip()
        count = _echoing([block_text(update.value.get("content")) or "" for update in self.behind], spoken)
        echo, echoed = self.behind[:count], [update.value.get("content") for update in self.behind[:count]]
        told: list[bytes] = []
        for block, raw in self._blocks:
            if count and block_text(block) is not None:
                told += [update.line for update in echo]
                echo = []
            elif block not in echoed:
                told.append(self._line(raw))
        return told, self.behind[count:]

    def _line(self, block: bytes) -> bytes:
        return acp.user_chunk(self._session, block, self._message_id)


def _echoing(texts: list[str], words: str) -> int:
    """How many of these texts, from the first one on, say these words and no others."""
    said = "".join(texts)
    start = len(said) - len(said.lstrip())
    if not words or not said.startswith(words, start):
        return 0
    end = start + len(words)
    beyond = len(said) - len(said[end:].lstrip())
    ends = [at for at in accumulate(map(len, texts)) if at <= beyond]
    return len(ends) if ends and ends[-1] >= end else 0


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
