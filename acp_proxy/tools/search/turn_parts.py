"""Reads the parts of each turn of a transcript: what user and agent say, what tool calls are, and what they print.

What tools print is many times what is said, so of each call's output the beginning and the end are read: errors come
last.

A transcript that has grown is read again as a whole, since a call of an earlier turn may have printed more.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from acp_proxy.protocol import acp
from acp_proxy.tools.search.fts_table import (
    Addition,
    IndexedTranscript,
    Key,
    MeasuredLines,
    TurnText,
    make_text,
)
from acp_proxy.tools.search.query import BETWEEN, TurnPart
from acp_proxy.tools.search.turn_text import read_block, read_reply_block
from acp_proxy.transcript.reader import TranscriptReader
from acp_proxy.views.conversation import Part, SpokenMessage, ToolCall, TurnBegin, read_parts
from acp_proxy.views.sanitize import strip_sequences
from acp_proxy.views.tool_calls import strip_fence

_OUTPUT_SIDE = 4096
"""Characters of a call's output that are searched at its beginning, and as many at its end."""
_LONGEST_PART = 4 * 1024 * 1024
"""Characters of a part of one turn: 500 calls that print more than is searched, or as many long files written."""
_MOST_DEPTH = 8
"""How deep the input and output of a call are read."""


def read_turn_parts(key: Key, before: IndexedTranscript | None, reader: TranscriptReader) -> Addition[TurnText] | None:
    """What to add for a transcript. Raises OSError."""
    header = reader.header or reader.rebuild_header()
    if header is None:
        return None
    lines = MeasuredLines(reader.read_alike())
    turns = list(divide_turns(read_parts(reader, header.session_id, lines=lines)))
    return Addition(key, before, IndexedTranscript(header.created_at, reader.inode, lines.size), 0, turns)


def divide_turns(conversation: Iterable[Part]) -> Iterator[TurnText]:
    """The turns of a conversation with the text of each of their parts."""
    turn, last = _DividedTurn(0, ""), None
    for item in conversation:
        match item:
            case TurnBegin():
                yield from turn.finish()
                turn = _DividedTurn(item.number, item.started_at)
            case SpokenMessage(speaker=("user" | "agent") as speaker):
                goes_on = isinstance(last, SpokenMessage) and (last.speaker, last.id) == (speaker, item.id)
                turn.add_message(TurnPart(speaker), item.blocks, continues=goes_on)
            case ToolCall():
                turn.add_call(item)
        last = item
    yield from turn.finish()


@dataclass(slots=True)
class _DividedTurn:
    number: int
    started_at: str
    pieces: dict[TurnPart, list[str]] = field(default_factory=lambda: {part: [] for part in TurnPart})
    room_left: dict[TurnPart, int] = field(default_factory=lambda: dict.fromkeys(TurnPart, _LONGEST_PART))
    described_texts: set[str] = field(default_factory=set)
    """What ``TurnPart.TOOLS`` has: updates of a call repeat it."""

    def finish(self) -> Iterator[TurnText]:
        """The turn, if it has any text."""
        if any(self.pieces.values()):
            yield TurnText(
                self.number, self.started_at, tuple(make_text("".join(pieces)) for pieces in self.pieces.values())
            )

    def add_message(self, speaker: TurnPart, blocks: list[Mapping[str, object]], *, continues: bool) -> None:
        if speaker is TurnPart.AGENT:
            self._add(speaker, "".join(map(read_reply_block, blocks)), "" if continues else BETWEEN)
        else:  # each of the user's blocks stands for itself
            self._add(speaker, " ".join(filter(None, map(read_block, blocks))), " " if continues else BETWEEN)

    def add_call(self, call: ToolCall) -> None:
        for text in _describe(call):
            if text not in self.described_texts:
                self.described_texts.add(text)
                self._add(TurnPart.TOOLS, text)
        self._add(TurnPart.OUTPUT, _shorten_output("\n".join(_read_output(call))))

    def _add(self, part: TurnPart, text: str, separator: str = BETWEEN) -> None:
        if text and self.room_left[part] > 0:
            self.pieces[part] += [separator if self.pieces[part] else "", text[: self.room_left[part]]]
            self.room_left[part] -= len(text)


def _describe(call: ToolCall) -> Iterator[str]:
    """What a call is: its title, its tool, its input, the files that it names, and their changed lines."""
    for name in ("title", "name"):
        yield acp.text(call.fields, name) or ""
    yield "\n".join(_iterate_texts(call.fields.get("rawInput")))
    for location_or_item in (*_read_list(call.fields.get("locations")), *_read_list(call.fields.get("content"))):
        yield acp.text(location_or_item, "path") or ""
        if acp.text(location_or_item, "type") == "diff":
            yield "\n".join(
                _find_changed_lines(acp.text(location_or_item, "oldText"), acp.text(location_or_item, "newText"))
            )


def _find_changed_lines(old: str | None, new: str | None) -> list[str]:
    """The lines that only one of both texts has, the new ones first. To compare them in order would take long."""
    old_lines, new_lines = (dict.fromkeys(text.splitlines() if text else ()) for text in (old, new))
    return [
        *(line for line in new_lines if line not in old_lines),
        *(line for line in old_lines if line not in new_lines),
    ]


def _read_output(call: ToolCall) -> Iterator[str]:
    """The texts in a call's content and in its raw output, each once: agents state the same text in several members.

    Not those of diffs, which are what the call did, nor what the raw output repeats of the input: Codex states the
    command there again, and a search for a command in what was printed would find every call of it.
    """
    input_texts = set(_iterate_texts(call.fields.get("rawInput")))
    blocks = [acp.member(item, "content") for item in _read_list(call.fields.get("content"))]
    texts = [acp.text(block, "text") or acp.text(acp.member(block, "resource"), "text") or "" for block in blocks]
    texts += [text for text in _iterate_texts(call.fields.get("rawOutput")) if text not in input_texts]
    yield from {strip_fence(text): None for text in map(strip_sequences, texts) if text}


def _iterate_texts(value: object, depth: int = _MOST_DEPTH) -> Iterator[str]:
    """The texts and numbers in a value, without the names of its members, which every call of a tool has."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)
    elif depth:
        inner_values = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
        for inner_value in inner_values:
            yield from _iterate_texts(inner_value, depth - 1)


def _read_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _shorten_output(text: str) -> str:
    return text if len(text) <= 2 * _OUTPUT_SIDE else f"{text[:_OUTPUT_SIDE]} … {text[-_OUTPUT_SIDE:]}"
