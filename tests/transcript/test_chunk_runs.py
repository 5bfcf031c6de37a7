"""A streamed message read many lines at once has the same entries as its lines read one by one."""

import json
import tracemalloc
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript import file_format
from acp_proxy.transcript.chunk_runs import AlikeChunks, AlikeChunksFinder
from acp_proxy.transcript.file_format import Entry
from tests.strategies import texts

AT, RUN = "2026-11-20T09:15:02.123Z", "k3f9a1"


def chunk_line(
    text: str, *, at: str = AT, kind: str = "agent_message_chunk", peer: Peer = Peer.AGENT, **more: Any
) -> bytes:
    update = {"sessionUpdate": kind, "content": {"type": "text", "text": text}, **more}
    message = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}
    return entry_line(json.dumps(message, separators=(",", ":")).encode(), at=at, peer=peer)


def entry_line(raw: bytes, *, at: str = AT, peer: Peer = Peer.AGENT, of: str | None = None) -> bytes:
    return file_format.encode_message(at, RUN, peer, raw, of)[:-1]


def read(lines: list[bytes]) -> list[Entry | AlikeChunks | None]:
    """The lines, read as a transcript is read."""
    streams, out, at = AlikeChunksFinder(), list[Entry | AlikeChunks | None](), 0
    lines = [line + b"\n" for line in lines]
    while at < len(lines):
        if (stream := streams.find(lines, at)) is not None:
            at += stream.count
            out.append(stream)
            continue
        entry = file_format.decode_entry(lines[at])
        streams.last_read = lines[at], entry
        out.append(entry)
        at += 1
    return out


decoded = cache(file_format.decode_entry)  # the same lines surround many others


def one_by_one(lines: list[bytes]) -> list[Entry | None]:
    return [decoded(line) for line in lines]


def streams_in(lines: list[bytes]) -> list[AlikeChunks]:
    """The streams found; checks that they and the other lines have the same entries as the lines one by one."""
    found = read(lines)
    entries = [entry for one in found for entry in (one.decode_entries() if isinstance(one, AlikeChunks) else [one])]
    assert entries == one_by_one(lines)
    streams = [one for one in found if isinstance(one, AlikeChunks)]
    for stream in streams:
        inner = list(stream.decode_entries())
        assert len(inner) == stream.count
        assert stream.at == inner[-1].at
        assert stream.size == sum(map(len, stream.lines))
        assert stream.messages == b"".join((entry.raw or b"") + b"\n" for entry in inner)
        assert stream.text == "".join(text_of(entry) for entry in inner)
    return streams


def text_of(entry: Entry) -> str:
    message: Any = entry.value
    text: str = message["params"]["update"]["content"]["text"]
    return text


@pytest.mark.parametrize("more", [{}, {"messageId": "m"}, {"_meta": {"text": "another", "n": 1.0}}])
@pytest.mark.parametrize("kind", ["agent_message_chunk", "agent_thought_chunk"])
def test_similar_lines_in_a_row_are_one_stream_whatever_their_text(kind: str, more: Any) -> None:
    words = ["Hel", "lo", "", ' "quoted"', "\\", "\n", "é\U0001f600\u2028", '"}}}}}', '"text":"', "x" * 70_000, "\r\0"]
    words += [chunk_line("x").decode(), chunk_line("x").decode() + "\n"]
    times = [f"2026-11-20T09:15:02.{number:03}Z" for number in range(len(words))]
    lines = [chunk_line(word, at=time, kind=kind, **more) for word, time in zip(words, times, strict=True)]
    has_later_text = "_meta" not in more  # the last "text" of the line is another one there
    assert [stream.count for stream in streams_in(lines)] == ([len(words) - 1] if has_later_text else [])


def test_a_stream_of_any_length_is_read_in_few_steps() -> None:
    assert len(streams_in([chunk_line(f" word{number}") for number in range(3_000)])) < 10


@pytest.mark.parametrize(
    "other",
    [
        chunk_line("x", kind="user_message_chunk"),
        chunk_line("x", kind="agent_thought_chunk"),
        chunk_line("x", peer=Peer.CLIENT),
        chunk_line("x", messageId="other"),
        chunk_line("x", at="later"),
        b"",
        b"\0" * 100,
        chunk_line("x")[:-1],
        chunk_line("x")[:-1] + b"]",
        chunk_line("x") + b" ",
        chunk_line("x").replace(b"k3f9a1", b"k3f9a2"),
        chunk_line("x")[:7] + b"\0" + chunk_line("x")[8:],
        chunk_line("x")[:7] + b'"' + chunk_line("x")[8:],
        chunk_line("x").replace(b'"x"', b'"'),
        chunk_line("x").replace(b'"x"', b'"x\\"'),
        chunk_line("x").replace(b'"x"', b'"x","y"'),
        chunk_line("x").replace(b'"x"', b'"x","text":"y"'),
        chunk_line("x").replace(b'"x"', b'"\t"'),
        chunk_line("x").replace(b'"x"', b'"\xff"'),
        chunk_line("x").replace(b'"x"', b'"\\ud83d"'),
        chunk_line("x").replace(b'"x"', b'""]["'),
    ],
)
def test_other_lines_are_read_as_usual(other: bytes) -> None:
    before, after = (
        [chunk_line("a"), chunk_line("b"), chunk_line("c")],
        [chunk_line("d"), chunk_line("e"), chunk_line("f")],
    )
    assert [stream.text for stream in streams_in([*before, other, *after])] in (["bc", "ef"], ["def"], ["ef"])
    assert streams_in([*before, other]) or streams_in(before)


@pytest.mark.parametrize(
    "values",
    [
        (b'"a",', b'"b'),
        (b'"a\\', b',"b"'),
        (b'"a",["b"', b'"c"],"d"'),
        (b'"a",["b"', b'"c"', b'"d"],"e"'),
        (b'"', b'"a","b"'),
        (b'"\\"', b'"n"'),
        (b'"\\"', b'"x"'),
        (b'"\\u12"', b'"34"'),
        (b'"\\u12"', b'"x4"'),
        (b'"\\ud83d"', b'"\\ude00"'),
        (b'"\\ud83d\\"', b'"ude00"'),
        (b'"\xf0\x9f"', b'"\x98\x80"'),
        (b'"\xc3"', b'"\xa9"'),
    ],
)
def test_lines_with_values_that_are_valid_only_together_are_no_stream(values: tuple[bytes, ...]) -> None:
    start, end = chunk_line("x").split(b'"x"')
    streams_in(
        [chunk_line("a"), chunk_line("b"), *(start + value + end for value in values), chunk_line("c"), chunk_line("d")]
    )


@pytest.mark.parametrize("byte", [b"\0", b" ", b'"', b"x", b"7", b"\\", b"\xff", b""])
@pytest.mark.parametrize("count", [1, 30])
def test_a_line_with_a_changed_byte_is_read_as_usual(byte: bytes, count: int) -> None:
    line = chunk_line("word")
    around = [chunk_line(f"word{number}") for number in range(count)]
    for at in range(len(line)):
        streams_in([*around, line[:at] + byte + line[at + 1 :], *around])


@pytest.mark.parametrize("size", [1, 7, 31, 100, 200])
def test_a_truncated_line_is_read_as_usual(size: int) -> None:
    around = [chunk_line(f"word{number}") for number in range(20)]
    line = chunk_line("word")
    streams_in([*around, line[:size], *around, line[size:], *around, line[:-size]])


def test_short_lines_around_a_large_one_take_little_memory() -> None:
    update = {"sessionUpdate": "agent_message_chunk", "_meta": "m" * 100_000, "content": {"type": "text", "text": "a"}}
    message = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}
    large = entry_line(json.dumps(message, separators=(",", ":")).encode())
    lines = (
        [chunk_line("word")] * 5_000 + [large] * 2 + [b"{}"] * 2_000
    )  # the stream before them has made the window long
    tracemalloc.start()
    try:
        read(lines)
        assert tracemalloc.get_traced_memory()[1] < 20 * len(b"".join(lines))
    finally:
        tracemalloc.stop()


def test_lines_that_only_begin_like_a_chunk_are_no_stream() -> None:
    for line in (
        entry_line(b'{"method":"session/update","params":{"update":{"content":{"type":"text","text":"a"}}}}'),
        entry_line(b'{"method":"other","text":"a"}'),
        entry_line(b'{"text":"a"}', of="session/prompt"),
        chunk_line("a", _meta={"text": "b"}),
        chunk_line("a").replace(b'"type":', b'"text":"b","type":').replace(b'"text":"a"', b'"tex":"a"'),
    ):
        streams_in([line] * 5)
    assert not streams_in([entry_line(b'{"text":"a"}')] * 5)


_pieces = st.sampled_from(
    [b'"', b"\\", b",", b"[", b"]", b"}", b"\0", b"\xff", b"\\ud83d", b'"}}}}}', b'"text":"', b',"text":', b"\r"]
)
_halves = st.sampled_from([b"x", b"n", b"\\u12", b"34", b"\\ude00", b"\xf0\x9f", b"\x98\x80", b"\\", b"\\ud83d"])
_bodies = st.one_of(
    texts.map(lambda text: json.dumps(text).encode()),
    st.lists(_pieces | _halves, max_size=3).map(lambda pieces: b'"%b"' % b"".join(pieces)),
    st.lists(st.one_of(_pieces, st.binary(max_size=3)), max_size=4).map(b"".join),
).map(lambda body: body.replace(b"\n", b""))


@st.composite
def _lines(draw: st.DrawFn) -> bytes:
    kind = draw(st.sampled_from(["agent_message_chunk", "agent_message_chunk", "agent_thought_chunk", "tool_call"]))
    at = draw(st.sampled_from([AT, AT, "2026-11-20T09:15:02.124Z", "2026", '2026-11-20T09:15:02."23Z']))
    line = chunk_line("x", at=at, kind=kind).replace(b'"x"', draw(_bodies))
    if draw(st.integers(0, 9)) == 0:
        at_byte = draw(st.integers(0, len(line)))
        line = line[:at_byte] + draw(_pieces) + line[at_byte + draw(st.integers(0, 40)) :]
    return line


@given(st.lists(_lines(), max_size=30))
def test_any_lines_have_the_same_entries_at_once_and_one_by_one(lines: list[bytes]) -> None:
    streams_in(lines)
