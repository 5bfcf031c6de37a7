"""A recorded conversation told again: the user's prompts as chunks, then every update as it was, in order.

Entries go in one at a time, lines come out as soon as they are certain; only a prompt and the chunks right behind it
wait for each other (an agent may echo the prompt, and then the echo is what is told). State is not told in between:
the latest of it comes from ``states`` once everything is told.
"""

from collections.abc import Mapping
from itertools import accumulate

from acp_proxy.wire import acp, jsonrpc, splice
from acp_proxy.wire.jsonrpc import Peer
from acp_proxy.wire.record import Entry

_LATEST = (acp.AVAILABLE_COMMANDS, acp.USAGE)
"""Kinds of state whose last value is told after the answer. Modes and options are in the answer itself."""


class Telling:
    def __init__(self, session: str) -> None:
        self._session = session
        self._prompt: _Prompt | None = None
        self._latest: dict[str, bytes] = {}

    def add(self, number: int, entry: Entry) -> list[bytes]:
        """The lines that this entry makes certain. ``number`` is its line's in the transcript."""
        if entry.raw is None:
            return []
        if entry.peer is Peer.CLIENT:
            if acp.text(entry.value, "method") != acp.PROMPT:
                return []
            told = self.end()
            self._prompt = _Prompt(self._session, f"acp-proxy-{entry.run}-{number}", entry)
            return told
        params = acp.member(entry.value, "params")
        if acp.text(entry.value, "method") != acp.UPDATE or acp.session_id(params) != self._session:
            return []
        update = acp.member(params, "update")
        kind = acp.update_kind(update)
        if kind is None:  # what no client could read
            return []
        line = entry.raw + b"\n"
        if not acp.is_conversation(kind):
            if kind in _LATEST:
                self._latest[kind] = line
            return []
        if kind == acp.USER_CHUNK and self._prompt is not None:
            self._prompt.behind.append((line, acp.member(update, "content")))
            return []
        return [*self.end(), line]

    def end(self) -> list[bytes]:
        """What was still waiting."""
        prompt, self._prompt = self._prompt, None
        return prompt.told() if prompt is not None else []

    def states(self) -> list[bytes]:
        return [self._latest[kind] for kind in _LATEST if kind in self._latest]


class _Prompt:
    """A prompt, and the user chunks of the agent right behind it."""

    def __init__(self, session: str, message_id: str, entry: Entry) -> None:
        self.behind: list[tuple[bytes, object]] = []
        self._session = session
        self._message_id = message_id
        blocks = acp.member(acp.member(entry.value, "params"), "prompt")
        self._blocks: list[object] = blocks if isinstance(blocks, list) else []
        self._raws = _raw_blocks(entry.raw or b"", self._blocks)

    def told(self) -> list[bytes]:
        """Its blocks in order; an echo stands in the place of the first text, and for all of them."""
        spoken = "".join(_text_of(block) or "" for block in self._blocks)
        count = _echoing([_text_of(content) or "" for _, content in self.behind], spoken.strip())
        lines = [line for line, _ in self.behind]
        echo, echoed = lines[:count], [content for _, content in self.behind[:count]]
        told: list[bytes] = []
        for block, raw in zip(self._blocks, self._raws, strict=True):
            if count and _text_of(block) is not None:
                told += echo
                echo = []
            elif isinstance(block, Mapping) and block not in echoed:
                told.append(acp.user_chunk(self._session, raw, self._message_id))
        return [*told, *lines[count:]]


def _text_of(block: object) -> str | None:
    return acp.text(block, "text") if acp.text(block, "type") == "text" else None


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


def _raw_blocks(raw: bytes, blocks: list[object]) -> list[bytes]:
    """Each block's own bytes."""
    text = splice.decode(raw)
    try:
        params = splice.members(text, splice.whole(text)[0])["params"]
        spans = splice.elements(text, splice.members(text, params[0])["prompt"][0])
        if len(spans) == len(blocks):
            return [splice.encode(text[start:end]) for start, end in spans]
    except (ValueError, KeyError):
        pass
    return [jsonrpc.dump(block) for block in blocks]
