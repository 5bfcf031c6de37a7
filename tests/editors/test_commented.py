"""JSON with comments and trailing commas is read as editors read it."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.editors import commented


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('\ufeff// first\n{"a": /* in\nbetween */ [1, 2,],}\n// last', {"a": [1, 2]}),
        (
            '{"url": "http://x/*y*/", "comma": ",]", "quote": "\\",}"}',
            {"url": "http://x/*y*/", "comma": ",]", "quote": '",}'},
        ),
        ('{"a": [1, // one\n ], /* no more */ }', {"a": [1]}),
        ('{"tab": "a\tb"}', {"tab": "a\tb"}),
        ("", {}),
        ("// nothing yet\n", {}),
    ],
)
def test_comments_and_last_commas_are_left_out_and_strings_stay(text: str, value: object) -> None:
    assert commented.read(text) == value


@pytest.mark.parametrize("text", ["{", "{'a': 1}", '{"a": 1 "b": 2}', "/* no end {}", '{"a": "no end}'])
def test_invalid_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        commented.read(text)


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(VALUES)
def test_plain_json_is_read_unchanged(value: Any) -> None:
    assert commented.read(json.dumps(value)) == value


@given(st.text(alphabet='{}[]",:/*\\\n a1'))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        commented.read(text)
