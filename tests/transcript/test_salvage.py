"""Whole objects in a damaged line are found; parts of other objects are not."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.transcript.salvage import find_pieces, get_first_value

START = re.compile(rb'\{"n":')


def numbers(line: bytes) -> list[tuple[int, int, object]]:
    return [
        (piece.start, piece.end, piece.value)
        for piece in find_pieces(line, START, lambda data, _: json.loads(data)["n"])
    ]


def test_every_whole_object_is_found_with_its_place() -> None:
    assert numbers(b'{"n":1}') == [(0, 7, 1)]
    assert numbers(b'torn {"n"{"n":1}\0\0{"n":2}{"n":3} after\r\n') == [(9, 16, 1), (18, 25, 2), (25, 32, 3)]
    assert numbers(b"") == numbers(b"\n") == numbers(b'{"m":1}') == []


def test_members_of_a_truncated_object_are_not_found() -> None:
    assert numbers(b'{"a":[{"n":1},{"n":2}],"b":{"n":3},"torn') == []


def test_an_object_after_one_truncated_before_a_value_is_found() -> None:
    for torn in (b'{"a":', b'{"a":[1,', b'{"a":['):
        assert numbers(torn + b'{"n":1}\n') == [(len(torn), len(torn) + 7, 1)]


@pytest.mark.parametrize(
    ("before", "is_value"),
    [(b'{"a": ', True), (b'{"a":[1,', True), (b'{"a":[', True), (b'{"a":"', False), (b"", False)],
)
def test_an_object_that_may_be_a_part_of_a_truncated_one_is_marked(before: bytes, is_value: bool) -> None:
    marks: list[bool] = []
    find_pieces(before + b'{"n":1}', START, lambda _, is_value: marks.append(is_value))
    assert marks == [is_value]


def test_a_line_of_beginnings_takes_a_limited_number_of_reads() -> None:
    looks = 0

    def read(data: bytes, is_value: bool) -> None:
        nonlocal looks
        looks += 1

    assert find_pieces(b'{"n":' * 20_000, START, read) == []
    assert looks < 200


@given(st.binary(max_size=30), st.binary(max_size=30))
def test_searching_in_any_surroundings_never_raises(before: bytes, after: bytes) -> None:
    find_pieces(before + b'{"n":1}' + after, START, lambda data, _: data)
    assert (before + after).startswith(get_first_value(before + after))
