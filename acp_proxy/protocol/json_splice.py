"""Finds where the values in a JSON text begin and end, so that one can be replaced while the rest keeps its bytes.

Works on ``str``: offsets count characters. Raises ValueError for text that is not JSON or is nested too deeply. Of
duplicate keys the last one counts, as in common parsers.
"""

import json
import re
from collections.abc import Iterable, Mapping
from json.decoder import JSONDecoder

Span = tuple[int, int]
"""The offsets of a value's first character and of the character after it."""

_BLANK = re.compile(r"[ \t\r\n]+")
_BYTE_ORDER_MARK = "\ufeff"
# Values are only measured, so numbers need not be converted.
_decoder = JSONDecoder(parse_int=str, parse_float=str, strict=False)


def decode(data: bytes | bytearray) -> str:
    """Any bytes as text. ``encode`` turns it back into the same bytes."""
    return data.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    """The reverse of ``decode``. Raises UnicodeEncodeError, a ValueError, for text with other lone surrogates."""
    return text.encode("utf-8", "surrogateescape")


def find_value(text: str) -> Span:
    """The span of the text's only value. Raises ValueError if there is none, or more than one."""
    start = _skip_blanks(text, 1 if text.startswith(_BYTE_ORDER_MARK) else 0)
    end = find_end(text, start)
    if _skip_blanks(text, end) != len(text):
        raise ValueError("more than one value")
    return start, end


def find_span(text: str, *path: str) -> Span:
    """The span of the value to which these keys lead from the text's only value. Raises ValueError, KeyError."""
    span = find_value(text)
    for key in path:
        span = find_members(text, span[0])[key]
    return span


def with_value(raw: bytes, value: str, *path: str) -> bytes:
    """The JSON text with another value, itself a JSON text, at the end of a path. Raises ValueError, KeyError."""
    text = decode(raw)
    return encode(replace_spans(text, [(find_span(text, *path), value)]))


def get_first_value(text: str) -> str:
    """The JSON text of the value at the start of a text, whatever follows. Raises ValueError."""
    return text[: find_end(text, 0)]


def find_members(text: str, start: int = 0) -> dict[str, Span]:
    """The spans of an object's values, by key. It begins at ``start``, or after blanks there. Raises ValueError."""
    offset = _expect(text, _skip_blanks(text, start), "{")
    spans: dict[str, Span] = {}
    if text[offset : offset + 1] == "}":
        return spans
    while True:
        if text[offset : offset + 1] != '"':
            raise ValueError(f"expected a key at {offset}")
        key, offset = _decoder.raw_decode(text, offset)
        value = _expect(text, _skip_blanks(text, offset), ":")
        end = find_end(text, value)
        spans[str(key)] = value, end
        offset = _skip_blanks(text, end)
        if text[offset : offset + 1] == "}":
            return spans
        offset = _expect(text, offset, ",")


def without_member(text: str, start: int, key: str) -> str:
    """The object at ``start`` without a member; the values of the others stay as they are. Raises ValueError."""
    other_members = (
        f"{json.dumps(name)}:{text[a:b]}" for name, (a, b) in find_members(text, start).items() if name != key
    )
    return f"{{{','.join(other_members)}}}"


def find_elements(text: str, start: int = 0) -> list[Span]:
    """The spans of an array's values. The array begins at ``start``, or after white space there. Raises ValueError."""
    spans: list[Span] = []
    offset = _expect(text, _skip_blanks(text, start), "[")
    is_over = text[offset : offset + 1] == "]"
    while not is_over:
        span = offset, find_end(text, offset)
        offset = _skip_blanks(text, span[1])
        is_over = text[offset : offset + 1] == "]"
        offset = offset if is_over else _expect(text, offset, ",")
        spans.append(span)
    return spans


def replace_spans(text: str, changes: Iterable[tuple[Span, str]]) -> str:
    """The text with each span replaced. Spans must not overlap; an empty span inserts."""
    parts: list[str] = []
    offset = 0
    for (start, end), new_text in sorted(changes):
        parts += text[offset:start], new_text
        offset = end
    return "".join([*parts, text[offset:]])


def list_member_changes(text: str, span: Span, values: Mapping[str, object]) -> list[tuple[Span, str]]:
    """The replacements that set these members of an object. Objects among the values are merged, not replaced."""
    spans = find_members(text, span[0])
    changes: list[tuple[Span, str]] = []
    new_members: list[str] = []
    for key, value in values.items():
        encoded = json.dumps(value, separators=(",", ":"))
        if key not in spans:
            new_members.append(f"{json.dumps(key)}:{encoded}")
        elif isinstance(value, Mapping) and value and text[spans[key][0]] == "{":
            changes += list_member_changes(text, spans[key], value)
        else:
            changes.append((spans[key], encoded))
    if new_members:
        end = span[1] - 1
        changes.append(((end, end), ("," if spans else "") + ",".join(new_members)))
    return changes


def _skip_blanks(text: str, offset: int) -> int:
    match = _BLANK.match(text, offset)
    return match.end() if match else offset


def _expect(text: str, offset: int, character: str) -> int:
    if text[offset : offset + 1] != character:
        raise ValueError(f"expected {character!r} at {offset}")
    return _skip_blanks(text, offset + 1)


def find_end(text: str, start: int) -> int:
    """The offset of the end of the value that begins at ``start``. Raises ValueError."""
    try:
        return _decoder.raw_decode(text, start)[1]
    except RecursionError:
        raise ValueError("nested too deeply") from None
