"""Masks secrets in the lines of a transcript without changing any length in bytes.

A line of JSON stays JSON with the same keys, lengths and offsets. Only the text of string values changes, and only
where a rule matches; escapes are decoded for the match. Keys, and the values of ``PROTECTED`` keys, which readers
depend on, never change. Lines that are not JSON are masked as text. Never raises, whatever the bytes.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from acp_proxy.errors import NewerFormat
from acp_proxy.protocol import json_splice, jsonrpc
from acp_proxy.redaction import secret_rules
from acp_proxy.redaction.masks import MASK_IN_TEXT, make_mask
from acp_proxy.redaction.secret_rules import BEFORE_LENGTH, LONG_RUN_PATTERN, RULES, SecretRule
from acp_proxy.transcript import file_format

PROTECTED = frozenset(
    {
        *("jsonrpc", "id", "method", "sessionId", "messageId", "toolCallId", "terminalId", "optionId"),
        *("sessionUpdate", "type", "status", "stopReason", "kind", "priority", "outcome", "mimeType"),
        *("updatedAt", "cwd", "additionalDirectories"),
        *("at", "run", "from", "of", "event", "since", "to"),
    }
)
"""Keys whose values readers depend on, except inside ``_FREE_KEYS``."""
_FREE_KEYS = frozenset({"rawInput", "rawOutput", "_meta"})
"""Keys whose values the protocol does not define: in them, an ``id`` is an ordinary text."""
_LINE_KEY, _KEPT_LINE = "line", b'"line":"'
"""The key of a complete line that is kept as a string; its escapes are escaped again."""

_TOKEN = re.compile(rb'[{}\[\]]|"((?:[^"\\]++|\\.)*+)(?:"|\\?\Z)([ \t\r\n]*+:)?', re.DOTALL)
_PIECE = re.compile(
    rb"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|\\u([0-9a-fA-F]{4})|\\(.)|[^\\]+|\\", re.DOTALL
)
_SHORT_ESCAPES = {b"n": "\n", b"t": "\t", b"r": "\r", b"b": "\b", b"f": "\f"}
_ASCII_ESCAPE = re.compile(rb"\\u00([2-7][0-9a-fA-F])")
_HEADER_START = b'{"acp-transcript":'
_START_LIMIT = 8
"""How many starts of an entry are tried: a message may contain what one begins with. Damage is rare, and its cost must
stay linear."""


@dataclass(frozen=True, slots=True)
class Span:
    """A match of one rule: start and end in a text, or in bytes."""

    start: int
    end: int
    rule: SecretRule


@dataclass(frozen=True, slots=True)
class MaskedSpan:
    """A replacement: ``mask`` goes to this offset, over as many bytes.

    ``rule``: the rule's name. ``match_count``: matches to count; 0 for the later pieces of a secret.
    """

    offset: int
    mask: bytes
    rule: str
    match_count: int = 1


class DecodedText:
    """The decoded text of a JSON string, and the position of each part in the raw bytes."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self._text_offsets: list[int] = []
        self._raw_offsets: list[int] = []
        self._pieces: list[str] = []
        if b"\\" not in raw:
            self.text = json_splice.decode(raw)
            self._text_offsets, self._raw_offsets, self._pieces = [0], [0], [self.text]
            return
        length = 0
        for match in _PIECE.finditer(raw):
            self._text_offsets.append(length)
            self._raw_offsets.append(match.start())
            piece = _unescape(match)
            self._pieces.append(piece)
            length += len(piece)
        self.text = "".join(self._pieces)

    def find_raw_position(self, offset: int) -> int:
        """The raw position of a character of the text."""
        if offset >= len(self.text):
            return len(self.raw)
        number = bisect_right(self._text_offsets, offset) - 1
        offset_in_piece = offset - self._text_offsets[number]
        if not offset_in_piece:
            return self._raw_offsets[number]
        piece = self._pieces[number]
        return self._raw_offsets[number] + (
            offset_in_piece if piece.isascii() else len(json_splice.encode(piece[:offset_in_piece]))
        )


class Masking:
    """Rules, ready to be applied."""

    def __init__(self, patterns: Sequence[str] = (), rules: Sequence[SecretRule] = RULES) -> None:
        """``patterns``: the user's own, already validated. ``rules``: those beside them."""
        self._all_rules = [*rules, *secret_rules.compile_patterns(list(patterns))]
        # Flat tables, since this is asked of every line: one `in` for each literal, and no generator for each rule.
        self._in_long_runs, self._in_text, self._in_any_case = (
            [(literal.encode(), rule.name) for rule in rules if belongs(rule) for literal in rule.literals]
            for belongs in (
                lambda rule: rule.is_one_run,
                lambda rule: not rule.is_one_run and not rule.ignores_case,
                lambda rule: rule.ignores_case,
            )
        )

    def mask_lines(self, data: bytes) -> bytes:
        """Mask complete lines of a transcript. The number of lines and the bytes of each stay the same."""
        candidates = self._choose_rules(data, self._all_rules)
        if not candidates:
            return data
        return b"\n".join(apply_changes(line, self._find_changes(line, candidates)) for line in data.split(b"\n"))

    def find_changes(self, line: bytes) -> list[MaskedSpan]:
        """The changes that mask one line, with or without its newline."""
        return self._find_changes(line, self._all_rules)

    def _find_changes(self, line: bytes, rules: list[SecretRule]) -> list[MaskedSpan]:
        candidates = self._choose_rules(line, rules)
        # A line of spaces was repaired, or is a title that was erased: it must stay one.
        if not candidates or line.isspace() or _is_header(line):
            return []
        return mask_spans(line, _find_in_line(line.removesuffix(b"\n"), candidates))

    def find(self, text: str) -> list[Span]:
        """The secrets in a text, in order and without overlap."""
        return find_in_text(text, self._all_rules)

    def _choose_rules(self, data: bytes, rules: list[SecretRule]) -> list[SecretRule]:
        """The rules that may match. Escaped characters count as the characters they stand for."""
        if _KEPT_LINE in data:
            return rules
        if b"\\/" in data:
            data = data.replace(b"\\/", b"/")
        if b"\\u00" in data:
            data = _ASCII_ESCAPE.sub(lambda match: bytes([int(match[1], 16)]), data)
        words, lower = b" ".join({*LONG_RUN_PATTERN.findall(data)}), data.lower()
        names = {name for literal, name in self._in_long_runs if literal in words}
        names.update([name for literal, name in self._in_text if literal in data])
        names.update([name for literal, name in self._in_any_case if literal in lower])
        return [rule for rule in rules if rule.is_users_pattern or rule.name in names]


def find_in_text(text: str, candidates: Iterable[SecretRule], key: str = "") -> list[Span]:
    """The matches of these rules in a text with this key. Overlapping matches become one, with the first one's rule.

    A key alone may identify a secret; the user's patterns see only the text.
    """
    text_with_key = f"{key}={text}"
    lower = text_with_key.lower()
    shift = len(text_with_key) - len(text)
    spans = []
    masks = [match.span() for match in MASK_IN_TEXT.finditer(text)]
    for rule in candidates:
        if rule.is_users_pattern:  # which may match words of a mask: that stays whole, else sync does not know it
            spans += [
                Span(*match.span(), rule)
                for match in rule.pattern.finditer(text)
                if match[0] and not any(start <= match.start() and match.end() <= end for start, end in masks)
            ]
        elif any(literal in (lower if rule.ignores_case else text_with_key) for literal in rule.literals):
            for match in rule.pattern.finditer(text_with_key):
                start, end = match.span(rule.group)
                begin = match.start()
                if rule.preceding is not None and not rule.preceding.search(
                    text_with_key, max(begin - BEFORE_LENGTH, 0), begin
                ):
                    continue
                if start >= shift:
                    spans.append(Span(start - shift, end - shift, rule))
    return merge_spans(spans)


def apply_changes(line: bytes, changes: Iterable[MaskedSpan]) -> bytes:
    """The line with the changes applied."""
    masked = bytearray(line)
    for change in changes:
        masked[change.offset : change.offset + len(change.mask)] = change.mask
    return bytes(masked)


def _is_header(line: bytes) -> bool:
    """Whether readers depend on all of it."""
    try:
        return line.startswith(_HEADER_START) and file_format.decode_header(line) is not None
    except NewerFormat:
        return True


def _find_in_line(line: bytes, candidates: list[SecretRule]) -> list[Span]:
    start = _find_intact_json(line)
    torn_spans = _find_in_string(line[:start], candidates) if start else []
    return torn_spans + [_shift(span, start) for span in _find_in_json(line[start:], candidates)]


def _find_in_json(line: bytes, candidates: list[SecretRule]) -> list[Span]:
    spans: list[Span] = []
    for offset, raw, key in _find_strings(line):
        if key == _LINE_KEY:
            spans += [_shift(span, offset) for span in _find_in_kept_line(raw, candidates)]
        else:
            spans += [_shift(span, offset) for span in _find_in_string(raw, candidates, key)]
    return spans


def _find_in_string(raw: bytes, candidates: Iterable[SecretRule], key: str = "") -> list[Span]:
    text = DecodedText(raw)
    return [
        Span(text.find_raw_position(span.start), text.find_raw_position(span.end), span.rule)
        for span in find_in_text(text.text, candidates, key)
    ]


def _find_in_kept_line(raw: bytes, candidates: list[SecretRule]) -> list[Span]:
    """A message that is kept as a string contains strings with their own escapes."""
    text = DecodedText(raw)
    try:
        inner = json_splice.encode(text.text)
    except UnicodeEncodeError:
        return _find_in_string(raw, candidates)
    inner_spans = [
        (len(json_splice.decode(inner[: span.start])), len(json_splice.decode(inner[: span.end])), span.rule)
        for span in _find_in_line(inner, candidates)
    ]
    return [Span(text.find_raw_position(start), text.find_raw_position(end), rule) for start, end, rule in inner_spans]


def _find_strings(line: bytes) -> Iterator[tuple[int, bytes, str]]:
    """The strings that may be masked: the position of their text, and their key."""
    key, is_free = "", False
    outer: list[tuple[str, bool]] = []
    for token in _TOKEN.finditer(line):
        match token[0][:1]:
            case b"{" | b"[":
                outer.append((key, is_free))
                is_free = is_free or key in _FREE_KEYS
            case b"}" | b"]":
                key, is_free = outer.pop() if outer else ("", False)
            case _ if token[2] is not None:
                key = DecodedText(token[1]).text
            case _ if is_free or key not in PROTECTED:
                yield token.start(1), token[1], key if key != _LINE_KEY or len(outer) == 1 else ""


def _find_intact_json(line: bytes) -> int:
    """Where the JSON after torn bytes begins; the line's end if there is none."""
    start = 0
    for _ in range(_START_LIMIT):
        try:
            jsonrpc.parse(line[start:].strip(b"\r\n"))
            return start
        except RecursionError:  # too deeply nested to tell: treat it as JSON
            return start
        except ValueError:
            if (start := line.find(file_format.ENTRY_START, start + 1)) < 0:
                break
    return len(line)


def mask_spans(line: bytes, spans: Iterable[Span]) -> list[MaskedSpan]:
    """The changes for these matches, except changes already made."""
    changes = []
    for span in spans:
        mask = make_mask(span.end - span.start, span.rule.mask_start)
        if line[span.start : span.end] != mask:
            changes.append(MaskedSpan(span.start, mask, span.rule.name))
    return changes


def merge_spans(spans: list[Span]) -> list[Span]:
    """The spans in order, overlapping ones joined."""
    spans.sort(key=lambda span: (span.start, -span.end))
    merged: list[Span] = []
    for span in spans:
        if merged and span.start < merged[-1].end:
            merged[-1] = Span(merged[-1].start, max(merged[-1].end, span.end), merged[-1].rule)
        else:
            merged.append(span)
    return merged


def _shift(span: Span, offset: int) -> Span:
    return Span(span.start + offset, span.end + offset, span.rule)


def _unescape(match: re.Match[bytes]) -> str:
    high, low, single, short = match.groups()
    if high is not None:
        return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + (int(low, 16) - 0xDC00))
    if single is not None:
        return chr(int(single, 16))
    if short is not None:
        return _SHORT_ESCAPES.get(short) or json_splice.decode(short)
    return json_splice.decode(match[0])
