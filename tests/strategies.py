"""Strategies for property tests: JSON values of every kind, the many ways to spell one, random pieces."""

import json
from typing import Any

from hypothesis import strategies as st

from acp_proxy.transcript.file_format import Entry, decode_entry
from fuzz.choices import KEYS, METHODS, Choices
from fuzz.targets import replay

texts = st.text(st.characters(), max_size=20)
"""Any text: control characters, U+2028, astral planes and lone surrogates too."""
numbers = st.integers() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | texts
values: st.SearchStrategy[Any] = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=12
)

_KEYS = ("jsonrpc", "id", "method", "params", "result", "error")
messages: st.SearchStrategy[Any] = st.dictionaries(
    st.sampled_from(_KEYS) | texts,
    st.sampled_from(METHODS) | st.dictionaries(st.sampled_from(KEYS) | texts, values, max_size=4) | values,
    max_size=6,
)
"""Values that look like messages and are invalid in many ways."""
chosen_messages: st.SearchStrategy[Any] = st.binary(max_size=60).map(lambda data: Choices(data).message())
"""Messages that the fuzzer makes: valid, nearly valid or invalid."""
any_entries: st.SearchStrategy[Entry | None] = st.binary(max_size=80).map(
    lambda data: decode_entry(replay.entry(Choices(data)))
)
"""An entry that the fuzzer makes; None if it cannot be read."""

_blanks = st.text(" \t", max_size=2)


def one_line(value: Any) -> bytes:
    """A value as common encoders write it."""
    return json.dumps(value).encode()


@st.composite
def spelled(draw: st.DrawFn, inner: st.SearchStrategy[Any] = values) -> str:
    """JSON text of a value, on one line, with white space, escapes and duplicate keys where they may stand."""
    return _text(draw, draw(inner))


def _text(draw: st.DrawFn, value: Any) -> str:
    before, after = draw(_blanks), draw(_blanks)
    if isinstance(value, dict):
        pairs = [(key, item) for key, item in value.items() for _ in range(draw(st.integers(1, 2)))]
        inside = ",".join(f"{before}{_string(draw, key)}{after}:{_text(draw, item)}" for key, item in pairs)
        return f"{before}{{{inside or after}}}{after}"
    if isinstance(value, list):
        return f"{before}[{','.join(_text(draw, item) for item in value) or after}]{after}"
    return before + (_string(draw, value) if isinstance(value, str) else json.dumps(value)) + after


def _string(draw: st.DrawFn, value: str) -> str:
    """A JSON string, escaped or not; a string without a UTF-8 form is always escaped."""
    is_plain = draw(st.booleans()) and not any("\ud800" <= character <= "\udfff" for character in value)
    return json.dumps(value, ensure_ascii=not is_plain)


@st.composite
def chunked(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """The same bytes in pieces of any length, empty ones too."""
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=12)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
