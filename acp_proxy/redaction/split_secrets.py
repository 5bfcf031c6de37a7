"""Finds secrets that are spread over several chunks of a message, in lines that were already masked one by one.

The chunks of a message (same session, kind and ``messageId``) are joined, even if other entries lie between them.
Without a ``messageId``, a message ends where another kind of chunk or a tool call begins. Text that follows a mask at
the end of a chunk belongs to the secret: when the chunk was recorded, only the secret's beginning had a known form.

Memory is bounded: ``WINDOW`` characters of a message are searched at a time. These windows overlap by ``OVERLAP``,
which is more than the longest secret of the built-in rules. The number of messages at one time is bounded too
(``_MESSAGE_LIMIT``).
"""

import re
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate

from acp_proxy.protocol import acp, json_splice, update_kinds
from acp_proxy.redaction.masking import DecodedText, MaskedSpan, Masking, Span, apply_changes, merge_spans
from acp_proxy.redaction.masks import MASK_IN_TEXT, make_mask
from acp_proxy.redaction.secret_rules import LONGEST_SECRET, SecretRule
from acp_proxy.transcript import file_format
from acp_proxy.transcript.file_format import Entry

OVERLAP = 2 * LONGEST_SECRET
WINDOW = 4 * OVERLAP
_MESSAGE_LIMIT = 16
_TEXT_PATH = ("message", "params", "update", "content", "text")

_CONTINUATION = re.compile(r"(?:[A-Za-z0-9_+/=~-]|\.(?=[A-Za-z0-9_-]))++")
_CONTINUATION_RULE = SecretRule("rest of one that was masked before", (), _CONTINUATION, mask_start="")

_Message = tuple[str | None, str, str | None]
"""Session, kind, messageId."""


@dataclass(slots=True)
class _Piece:
    """The text of one chunk, and the position of its raw bytes in the file."""

    text: DecodedText
    offset: int


class _ChunkedMessage:
    """The last chunks of one message."""

    def __init__(self, masking: Masking) -> None:
        self._masking = masking
        self._pieces: list[_Piece] = []
        self._length = 0

    def add(self, raw: bytes, offset: int) -> Iterator[MaskedSpan]:
        self._pieces.append(_Piece(DecodedText(raw), offset))
        self._length += len(self._pieces[-1].text.text)
        if self._length >= WINDOW:
            yield from self.search()
            while self._length - len(self._pieces[0].text.text) >= OVERLAP:
                self._length -= len(self._pieces.pop(0).text.text)

    def search(self) -> Iterator[MaskedSpan]:
        """The matches in the current chunks. A match that may continue after them is left to the next search."""
        starts = [0, *accumulate(len(piece.text.text) for piece in self._pieces)]
        joined_text = "".join(piece.text.text for piece in self._pieces)
        changes: dict[int, list[MaskedSpan]] = {}
        for span in self._find_secrets(joined_text, frozenset(starts[1:-1])):
            for number, change in self._find_changes(span, starts):
                changes.setdefault(number, []).append(change)
        for number, piece_changes in changes.items():
            piece = self._pieces[number]
            self._length -= len(piece.text.text)
            piece.text = DecodedText(apply_changes(piece.text.raw, piece_changes))
            self._length += len(piece.text.text)
            yield from (replace(change, offset=piece.offset + change.offset) for change in piece_changes)

    def _find_secrets(self, joined_text: str, joints: frozenset[int]) -> list[Span]:
        """The matches of the rules, and the text that continues them or a mask across chunks."""
        spans = self._masking.find(joined_text)
        spans += [Span(match.end(), match.end(), _CONTINUATION_RULE) for match in MASK_IN_TEXT.finditer(joined_text)]
        secrets = []
        for span in spans:
            continuation = _CONTINUATION.match(joined_text, span.end) if span.end in joints else None
            end = continuation.end() if continuation is not None else span.end
            if span.start < end:
                secrets.append(Span(span.start, end, span.rule))
        return merge_spans(secrets)

    def _find_changes(self, span: Span, starts: list[int]) -> Iterator[tuple[int, MaskedSpan]]:
        """The pieces of a match; only the mask of the first one has its ``mask_start``."""
        mask_start, match_count, first = span.rule.mask_start, 1, bisect_right(starts, span.start) - 1
        for number in range(first, len(self._pieces)):
            if starts[number] >= span.end:
                break
            text = self._pieces[number].text
            start = text.find_raw_position(max(span.start - starts[number], 0))
            end = text.find_raw_position(span.end - starts[number])
            mask = make_mask(end - start, mask_start)
            mask_start = ""
            if text.raw[start:end] != mask:
                yield number, MaskedSpan(start, mask, span.rule.name, match_count)
                match_count = 0


class SplitSecretFinder:
    """Reads the lines of a file in order, each already masked by itself."""

    def __init__(self, masking: Masking) -> None:
        self._masking = masking
        self._messages: OrderedDict[_Message, _ChunkedMessage] = OrderedDict()

    def add(self, line: bytes, offset: int) -> Iterator[MaskedSpan]:
        """Read the next line, at this offset; yields changes with their offsets in the file."""
        for piece in file_format.find_entries(line):
            yield from self._add(line[piece.start : piece.end], offset + piece.start, piece.value)

    def end(self) -> Iterator[MaskedSpan]:
        """End every message; yields the last changes."""
        yield from self._end_messages(list(self._messages))

    def _add(self, line: bytes, offset: int, entry: Entry) -> Iterator[MaskedSpan]:
        if entry.is_prompt:
            yield from self.end()
        params = acp.member(entry.value, "params")
        update = acp.member(params, "update")
        kind = acp.update_kind(update)
        if kind not in update_kinds.V1_MESSAGE_CHUNKS and kind != update_kinds.TOOL_CALL:
            return
        message = acp.session_id(params), kind, acp.text(update, "messageId")
        yield from self._end_messages(
            [open_message for open_message in self._messages if open_message[2] is None and open_message != message]
        )
        if kind in update_kinds.V1_MESSAGE_CHUNKS and (text_and_offset := _find_text(line)) is not None:
            if message not in self._messages:
                self._messages[message] = _ChunkedMessage(self._masking)
            self._messages.move_to_end(message)
            yield from self._messages[message].add(text_and_offset[0], offset + text_and_offset[1])
            yield from self._end_messages(list(self._messages)[:-_MESSAGE_LIMIT])

    def _end_messages(self, messages: list[_Message]) -> Iterator[MaskedSpan]:
        for message in messages:
            yield from self._messages.pop(message).search()


def _find_text(line: bytes) -> tuple[bytes, int] | None:
    """The raw text of a chunk's string, and its position in the line."""
    text = json_splice.decode(line)
    try:
        start, end = json_splice.find_span(text, *_TEXT_PATH)
    except (ValueError, KeyError):
        return None
    if text[start] != '"':
        return None
    return json_splice.encode(text[start + 1 : end - 1]), len(json_splice.encode(text[: start + 1]))
