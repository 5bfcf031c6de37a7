"""A cursor continues its own list, and is invalid for any other."""

import base64
import contextlib
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from acp_proxy.errors import InvalidCursor
from acp_proxy.store.index import Index
from tests.store import transcript_lines
from tests.store.shelf import AGENT, Shelf
from tests.strategies import texts, values


def cursor_of(shelf: Shelf, cwd: str | None = None) -> str:
    for number in range(3):
        shelf.session(f"s{number}", at=number, cwd="/x")
    found = shelf.index.select_page(AGENT, cwd, None, transcript_lines.RUN, 1).next
    assert found is not None
    return found


def test_a_cursor_is_bound_to_its_filter_and_agent(shelf: Shelf) -> None:
    unfiltered, filtered = cursor_of(shelf), cursor_of(shelf, "/x")
    assert shelf.page(None, unfiltered) == shelf.page("/x", filtered) == shelf.page("/x/", filtered) == ["s1", "s0"]
    foreign = [(AGENT, "/x", unfiltered), (AGENT, None, filtered), (AGENT, "/y", filtered), ("other", None, unfiltered)]
    for agent, cwd, cursor in foreign:
        with pytest.raises(InvalidCursor):
            shelf.index.select_page(agent, cwd, cursor, transcript_lines.RUN)


def test_a_cursor_works_in_an_index_made_anew(shelf: Shelf) -> None:
    cursor = cursor_of(shelf)
    anew = Shelf(shelf.folder)
    for number in range(3):
        anew.add(f"s{number}")
    assert anew.page(None, cursor) == ["s1", "s0"]
    anew.index.close()


def test_a_cursor_needs_no_quoting(shelf: Shelf) -> None:
    assert cursor_of(shelf).replace("-", "").replace("_", "").isalnum()


GARBAGE = [
    "",
    "x",
    "=",
    "====",
    "null",
    "0",
    "a" * 10_000,
    "é",
    "\ud800",
    "\0",
    "eyJ9",
    "../..",
    " ",
    "MQ",
    "[1]",
    "W10",
]


@pytest.mark.parametrize("cursor", GARBAGE, ids=lambda cursor: ascii(cursor)[:12])
def test_garbage_is_an_invalid_cursor(shelf: Shelf, cursor: str) -> None:
    cursor_of(shelf)
    with pytest.raises(InvalidCursor):
        shelf.page(None, cursor)


def opened(cursor: str) -> list[Any]:
    value = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    assert isinstance(value, list)
    return value


def closed(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def test_a_cursor_of_another_version_or_shape_is_invalid(shelf: Shelf) -> None:
    version, *rest = opened(cursor_of(shelf))
    binding, updated, session = rest
    wrong = [
        [version + 1, *rest],
        [version, *rest, 1],
        [version, binding, updated],
        [version, binding, 7, session],
        [version, binding, None, session],
        [version, binding, updated, "not hex"],
        [version, binding, updated, 7],
        [version, binding, "\ud800", session],
        {"version": version},
        {"a": 1, "b": 2, "c": 3, "d": 4},
        [[[[]]]],
    ]
    for value in wrong:
        with pytest.raises(InvalidCursor):
            shelf.page(None, closed(value))


@given(st.data(), texts | st.text("abcDEF012-_=", max_size=80) | values.map(closed))
@example(None, closed([1, "0" * 16, "", ""]))
def test_any_other_text_is_an_invalid_cursor(data: st.DataObject | None, cursor: str) -> None:
    index = Index(None)
    try:
        with pytest.raises(InvalidCursor):
            index.select_page(AGENT, None, cursor, transcript_lines.RUN)
    finally:
        index.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_damaged_cursor_is_invalid_or_another_position(shelf: Shelf, data: st.DataObject) -> None:
    whole = cursor_of(shelf)
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = whole[:at] + data.draw(st.characters() | st.sampled_from("abcxyzABCXYZ0123456789-_")) + whole[at + 1 :]
    with contextlib.suppress(InvalidCursor):
        assert set(shelf.page(None, damaged)) <= {"s0", "s1", "s2"}
