"""Find where the values of a JSON text begin and end, so that one can be replaced and the rest keeps its bytes.

Works on ``str``: offsets are characters. Raises ``ValueError`` on text that is not JSON, or nested too deeply to tell.
Duplicate keys: the last one counts, as in every common reader.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator
from json.decoder import JSONDecoder

Span = tuple[int, int]

_BLANK = re.compile(r"[ \t\r\n]+")
_BYTE_ORDER_MARK = "\ufeff"
# Values are only measured, never used: numbers of any size stay text.
_decoder = JSONDecoder(parse_int=str, parse_float=str, strict=False)


def decode(data: bytes) -> str:
    """Any bytes as text that ``encode`` brings back unchanged."""
    return data.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def whole(text: str) -> Span:
    """The span of the one value of a text. Raises ValueError when there is none, or more than one."""
    start = _skip(text, 1 if text.startswith(_BYTE_ORDER_MARK) else 0)
    end = end_of(text, start)
    if _skip(text, end) != len(text):
        raise ValueError("more than one value")
    return start, end


def first(text: str) -> str:
    """The value that a text begins with, whatever follows. Raises ValueError."""
    return text[: end_of(text, 0)]


def members(text: str, start: int = 0) -> dict[str, Span]:
    """The spans of an object's values, by key; the object begins at ``start`` (white space before it is fine)."""
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


def elements(text: str, start: int = 0) -> list[Span]:
    """The spans of an array's values; the array begins at ``start``."""
    return list(_elements(text, start))


def elements_before_break(text: str, start: int = 0) -> list[Span]:
    """The elements of an array that may break off: those of which the end is certain. Never raises."""

    def found() -> Iterator[Span]:
        with contextlib.suppress(ValueError):
            yield from _elements(text, start)

    return list(found())


def _elements(text: str, start: int) -> Iterator[Span]:
    at = _expect(text, _skip(text, start), "[")
    is_over = text[at : at + 1] == "]"
    while not is_over:
        span = at, end_of(text, at)
        at = _skip(text, span[1])
        is_over = text[at : at + 1] == "]"
        at = at if is_over else _expect(text, at, ",")
        yield span


def replaced(text: str, changes: Iterable[tuple[Span, str]]) -> str:
    """The text with each span replaced; spans do not overlap. An empty span inserts."""
    parts: list[str] = []
    at = 0
    for (start, end), new in sorted(changes):
        parts += text[at:start], new
        at = end
    return "".join([*parts, text[at:]])


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _expect(text: str, at: int, character: str) -> int:
    if text[at : at + 1] != character:
        raise ValueError(f"expected {character!r} at {at}")
    return _skip(text, at + 1)


def end_of(text: str, at: int) -> int:
    """Where the value that begins at ``at`` ends. Raises ValueError."""
    try:
        return _decoder.raw_decode(text, at)[1]
    except RecursionError:
        raise ValueError("nested too deeply") from None
