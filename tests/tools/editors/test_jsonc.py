"""JSON with comments and trailing commas is read as editors read it."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.tools.editors import jsonc


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
    assert jsonc.decode(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[,]",
        '{"a": [ , ]}',
        "[1,,]",
        "{,}",
        "[/* x */,/* y */]",
        "{'a': 1}",
        '{"a": 1 "b": 2}',
        "/* no end {}",
        '{"a": "no end}',
    ],
)
def test_invalid_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        jsonc.decode(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            '// mine\n{\n  "a": 1, /* two\nlines */ "b": [2,]\n  "c": 3\n}',
            "line 5, column 3: a comma or a closing bracket",
        ),
        ('\ufeff{"a" 1}', "line 1, column 6: a colon"),
        ('{"a": }', "line 1, column 7: a value"),
        ("{'a': 1}", "line 1, column 2: a name in double quotes"),
        ("{} {}", "line 1, column 4: there is text after the end"),
        ('{"a": "b', "line 1, column 7: a string has no closing quote"),
        (r'{"a": "C:\p"}', r"line 1, column 10: a string has a single \ in it; write \\"),
    ],
)
def test_a_mistake_is_named_with_its_line_and_column(text: str, told: str) -> None:
    with pytest.raises(ValueError) as refused:
        jsonc.decode(text)
    assert told in str(refused.value)


@pytest.mark.parametrize(("text", "told"), [("[" * 100_000, "deeply|line 1"), (f"[{'9' * 5000}]", "too many digits")])
def test_text_beyond_the_limits_is_refused(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        jsonc.decode(text)


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(VALUES)
def test_plain_json_is_read_unchanged(value: Any) -> None:
    assert jsonc.decode(json.dumps(value)) == value


@given(st.text(alphabet='{}[]",:/*\\\n a1'))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        jsonc.decode(text)
