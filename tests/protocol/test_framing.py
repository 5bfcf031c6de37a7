"""Lines are cut only at newline bytes, whatever pieces they come in, at a linear cost."""

import tracemalloc
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.protocol.framing import LineFramer
from tests.strategies import chunked

SAMPLES = {
    "one line": b'{"a":1}\n',
    "three lines": b'{"a":1}\n[]\n42\n',
    "empty lines": b"\n\n{}\n\n",
    "carriage returns": b"one\r\n\rtwo\r\r\nthree\n",
    "other line separators": "a\u2028b\u2029c\u0085d\x0b\x0c\x1c\x1d\x1ee\n".encode(),
    "bytes that are not text": b"\xff\xfe\n\xe2\x80\n\x00\n",
}


def feed_all(framer: LineFramer, pieces: Iterable[bytes]) -> list[bytes]:
    return [line for piece in pieces for line in framer.feed(piece)]


def single_bytes(data: bytes) -> Iterator[bytes]:
    return (data[at : at + 1] for at in range(len(data)))


@pytest.mark.parametrize(
    "tail", [b"", b'{"torn', b"\r", b"\xe2\x82"], ids=["no tail", "torn", "return", "half a character"]
)
@pytest.mark.parametrize("data", SAMPLES.values(), ids=SAMPLES.keys())
def test_whole_reads_and_single_bytes_give_the_same_lines_and_the_same_tail(data: bytes, tail: bytes) -> None:
    expected = [line + b"\n" for line in data.split(b"\n")[:-1]]
    for pieces in ([data + tail], single_bytes(data + tail)):
        framer = LineFramer()
        assert feed_all(framer, pieces) == expected
        assert framer.take_unfinished() == tail


@given(st.data(), st.lists(st.binary(max_size=30) | st.just(b"\n")).map(b"\n".join))
def test_any_chunking_gives_the_same_lines_and_loses_nothing(data: st.DataObject, stream: bytes) -> None:
    framer = LineFramer()
    lines = feed_all(framer, data.draw(chunked(stream)))
    rest = framer.take_unfinished()
    assert b"".join(lines) + rest == stream
    assert all(line.index(b"\n") == len(line) - 1 for line in lines)
    assert b"\n" not in rest


def test_a_line_comes_with_the_read_that_completes_it() -> None:
    framer = LineFramer()
    assert framer.feed(b"on") == []
    assert framer.feed(b"e\ntwo\nth") == [b"one\n", b"two\n"]
    assert framer.feed(b"") == []
    assert framer.feed(b"ree\n") == [b"three\n"]
    assert framer.take_unfinished() == b""


def test_a_thousand_lines_in_one_read_come_in_one_list() -> None:
    lines = [b'{"n":%d}\n' % number for number in range(1000)]
    assert LineFramer().feed(b"".join(lines)) == lines


def test_the_rest_is_returned_once_and_belongs_to_no_later_line() -> None:
    framer = LineFramer()
    framer.feed(b"torn")
    assert framer.take_unfinished() == b"torn"
    assert framer.take_unfinished() == b""
    assert framer.feed(b"next\n") == [b"next\n"]


def measure_allocated(length: int) -> int:
    """Bytes allocated to feed a line of this length byte by byte, summed over all reads."""
    framer, total = LineFramer(), 0
    tracemalloc.start()
    try:
        for _ in range(length):
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            framer.feed(b"x")
            total += tracemalloc.get_traced_memory()[1] - before
        return total
    finally:
        tracemalloc.stop()


def test_a_long_line_that_comes_byte_by_byte_is_not_copied_repeatedly() -> None:
    short, long = measure_allocated(4_000), measure_allocated(16_000)
    assert long < 6 * short  # four times as much, and the growth of a list; copying would take sixteen times as much


def test_the_beginning_of_an_unfinished_line_can_be_read() -> None:
    framer = LineFramer()
    assert (framer.unfinished_size, framer.peek_beginning()) == (0, b"")
    assert framer.feed_joined(b"one\ntw") == b"one\n"
    assert framer.feed_joined(b"o") == b""
    assert (framer.unfinished_size, framer.peek_beginning()) == (3, b"two")
    assert framer.feed_joined(b"\nthree\n") == b"two\nthree\n"
    assert (framer.unfinished_size, framer.peek_beginning()) == (0, b"")
    framer.feed_joined(b"four")
    assert framer.take_unfinished() == b"four"
    assert (framer.unfinished_size, framer.take_unfinished()) == (0, b"")


def test_the_rest_can_be_taken_in_the_pieces_in_which_it_came() -> None:
    framer = LineFramer()
    came = [b"a", b"b", b"c" * 5000, b"d" * 5000, b"e"]
    for data in came:
        framer.feed_joined(data)
    assert framer.peek_beginning() == b"ab" + came[2]
    assert framer.unfinished_size == 10_003
    assert framer.take_parts() == [b"ab" + came[2], came[3], came[4]]
    assert (framer.unfinished_size, framer.take_parts(), framer.take_unfinished()) == (0, [], b"")
