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


def whole(text: str) -> Span:
    """The span of the text's only value. Raises ValueError if there is none, or more than one."""
    start = _skip(text, 1 if text.startswith(_BYTE_ORDER_MARK) else 0)
    end = end_of(text, start)
    if _skip(text, end) != len(text):
        raise ValueError("more than one value")
    return start, end


def first(text: str) -> str:
    """The JSON text of the value at the start of a text, whatever follows. Raises ValueError."""
    return text[: end_of(text, 0)]


def members(text: str, start: int = 0) -> dict[str, Span]:
    """The spans of an object's values, by key. The object begins at ``start``, or after white space there.

    Raises ValueError.
    """
    at = _expect(text, _skip(text, start), "{")
    spans: dict[str, Span] = {}
    if text[at : at + 1] == "}":
        return spans
    while True:
        if text[at : at + 1] != '"':
            raise ValueError(f"expected a key at {at}")
        key, at = _decoder.raw_decode(text, at)
        value = _expect(text, _skip(text, at), ":")
        end = end_of(text, value)
        spans[str(key)] = value, end
        at = _skip(text, end)
        if text[at : at + 1] == "}":
            return spans
        at = _expect(text, at, ",")


def without(text: str, start: int, key: str) -> str:
    """The object at ``start`` without a member; the values of the others stay as they are. Raises ValueError."""
    kept = (f"{json.dumps(name)}:{text[a:b]}" for name, (a, b) in members(text, start).items() if name != key)
    return f"{{{','.join(kept)}}}"


def elements(text: str, start: int = 0) -> list[Span]:
    """The spans of an array's values. The array begins at ``start``, or after white space there. Raises ValueError."""
    spans: list[Span] = []
    at = _expect(text, _skip(text, start), "[")
    is_over = text[at : at + 1] == "]"
    while not is_over:
        span = at, end_of(text, at)
        at = _skip(text, span[1])
        is_over = text[at : at + 1] == "]"
        at = at if is_over else _expect(text, at, ",")
        spans.append(span)
    return spans


def replaced(text: str, changes: Iterable[tuple[Span, str]]) -> str:
    """The text with each span replaced. Spans must not overlap; an empty span inserts."""
    parts: list[str] = []
    at = 0
    for (start, end), new in sorted(changes):
        parts += text[at:start], new
        at = end
    return "".join([*parts, text[at:]])


def set_members(text: str, span: Span, values: Mapping[str, object]) -> list[tuple[Span, str]]:
    """The replacements that set these members of an object. Objects among the values are merged, not replaced."""
    present = members(text, span[0])
    changes: list[tuple[Span, str]] = []
    new: list[str] = []
    for key, value in values.items():
        encoded = json.dumps(value, separators=(",", ":"))
        if key not in present:
            new.append(f"{json.dumps(key)}:{encoded}")
        elif isinstance(value, Mapping) and value and text[present[key][0]] == "{":
            changes += set_members(text, present[key], value)
        else:
            changes.append((present[key], encoded))
    if new:
        end = span[1] - 1
        changes.append(((end, end), ("," if present else "") + ",".join(new)))
    return changes


def _skip(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _expect(text: str, at: int, character: str) -> int:
    if text[at : at + 1] != character:
        raise ValueError(f"expected {character!r} at {at}")
    return _skip(text, at + 1)


def end_of(text: str, at: int) -> int:
    """The offset of the end of the value that begins at ``at``. Raises ValueError."""
    try:
        return _decoder.raw_decode(text, at)[1]
    except RecursionError:
        raise ValueError("nested too deeply") from None
