"""A cursor continues its own list, and is invalid for any other."""

import base64
import contextlib
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from acp_proxy.errors import InvalidCursor
from acp_proxy.store.index_database import Index
from tests.store import transcript_lines
from tests.store.indexed_transcripts import AGENT, IndexedTranscripts
from tests.strategies import texts, values


def get_cursor(transcripts: IndexedTranscripts, cwd: str | None = None) -> str:
    for number in range(3):
        transcripts.write_session(f"s{number}", at=number, cwd="/x")
    found = transcripts.index.select_page(AGENT, cwd, None, transcript_lines.RUN, 1).next
    assert found is not None
    return found


def test_a_cursor_is_bound_to_its_filter_and_agent(transcripts: IndexedTranscripts) -> None:
    unfiltered, filtered = get_cursor(transcripts), get_cursor(transcripts, "/x")
    assert (
        transcripts.list_ids(None, unfiltered)
        == transcripts.list_ids("/x", filtered)
        == transcripts.list_ids("/x/", filtered)
        == ["s1", "s0"]
    )
    foreign = [(AGENT, "/x", unfiltered), (AGENT, None, filtered), (AGENT, "/y", filtered), ("other", None, unfiltered)]
    for agent, cwd, cursor in foreign:
        with pytest.raises(InvalidCursor):
            transcripts.index.select_page(agent, cwd, cursor, transcript_lines.RUN)


def test_a_cursor_works_in_an_index_made_anew(transcripts: IndexedTranscripts) -> None:
    cursor = get_cursor(transcripts)
    anew = IndexedTranscripts(transcripts.folder)
    for number in range(3):
        anew.index_transcript(f"s{number}")
    assert anew.list_ids(None, cursor) == ["s1", "s0"]
    anew.index.close()


def test_a_cursor_needs_no_quoting(transcripts: IndexedTranscripts) -> None:
    assert get_cursor(transcripts).replace("-", "").replace("_", "").isalnum()


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
def test_garbage_is_an_invalid_cursor(transcripts: IndexedTranscripts, cursor: str) -> None:
    get_cursor(transcripts)
    with pytest.raises(InvalidCursor):
        transcripts.list_ids(None, cursor)


def decode_cursor(cursor: str) -> list[Any]:
    value = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    assert isinstance(value, list)
    return value


def encode_cursor(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def test_a_cursor_of_another_version_or_shape_is_invalid(transcripts: IndexedTranscripts) -> None:
    version, *rest = decode_cursor(get_cursor(transcripts))
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
            transcripts.list_ids(None, encode_cursor(value))


@given(st.data(), texts | st.text("abcDEF012-_=", max_size=80) | values.map(encode_cursor))
@example(None, encode_cursor([1, "0" * 16, "", ""]))
def test_any_other_text_is_an_invalid_cursor(data: st.DataObject | None, cursor: str) -> None:
    index = Index(None)
    try:
        with pytest.raises(InvalidCursor):
            index.select_page(AGENT, None, cursor, transcript_lines.RUN)
    finally:
        index.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_damaged_cursor_is_invalid_or_another_position(transcripts: IndexedTranscripts, data: st.DataObject) -> None:
    whole = get_cursor(transcripts)
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = whole[:at] + data.draw(st.characters() | st.sampled_from("abcxyzABCXYZ0123456789-_")) + whole[at + 1 :]
    with contextlib.suppress(InvalidCursor):
        assert set(transcripts.list_ids(None, damaged)) <= {"s0", "s1", "s2"}
