"""A line that is too long is cut to bounded memory, and keeps its meaning."""

import json
import random
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript import file_format, long_lines
from acp_proxy.transcript.long_lines import LONG, LineShortener, read_shortened, shorten_line
from acp_proxy.transcript.reader import Line
from acp_proxy.transcript.summary import Summary
from tests.store import transcript_lines
from tests.store.transcript_lines import agent_chunk, answer, info, prompt_line, update
from tests.strategies import values
from tests.transcript import transcript_file

LARGE = "x" * (2 * LONG)
IMAGE = {"type": "image", "data": "AAAA" * LONG, "mimeType": "image/png"}
UNITS = ["x", "é", "\U0001f600", "\\ud83d\\ude00", "\\u00e9", "\\n", '\\"', "\\\\", "\\/"]
"""The limit for one string, in bytes of JSON."""


def feed_in_pieces(line: bytes, *sizes: int) -> bytes | None:
    """The line, fed in pieces of these sizes in turn."""
    short, file = LineShortener(), BytesIO(line)
    while True:
        for size in sizes or (len(line),):
            if not (piece := file.read(size)):
                return short.text
            short.feed(piece)


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set low limits, so that short lines count as long."""
    monkeypatch.setattr(long_lines, "_STRING_BYTES", 20)
    monkeypatch.setattr(long_lines, "_LINE_BYTES", 300)


@given(values, st.lists(st.integers(1, 40), min_size=1, max_size=4))
def test_a_line_without_long_strings_is_unchanged(value: Any, sizes: list[int]) -> None:
    line = json.dumps({"value": value}).encode()
    assert feed_in_pieces(line, *sizes) == line


@pytest.mark.usefixtures("little")
def test_a_long_string_is_cut_between_characters() -> None:
    chance = random.Random(0)
    for _ in range(500):
        text = "".join(chance.choice(UNITS) for _ in range(chance.randrange(40)))
        line = f'{{"a":["{text}",1],"b":"{text}"}}'.encode()
        found, whole = json.loads(feed_in_pieces(line, chance.randrange(1, 9)) or b""), json.loads(line)
        assert whole["a"][0].startswith(found["a"][0])
        assert whole["b"].startswith(found["b"])
        assert found["a"][1] == 1
        assert (found == whole) is (len(text.encode()) <= 20)


@pytest.mark.usefixtures("little")
@pytest.mark.parametrize(
    "whole",
    [{"k": [1] * 1_000}, {"k": [{"a": "b,{"}] * 200}, {str(n): [[]] for n in range(200)}, [["x" * 30, {}]] * 100],
    ids=lambda whole: json.dumps(whole)[:20],
)
def test_a_long_line_of_short_values_ends_after_a_whole_member(whole: Any) -> None:
    for size in (1, 7, 1_000):
        found = feed_in_pieces(json.dumps(["first", whole, "last"]).encode(), size)
        assert found is not None
        assert len(found) < 400
        assert json.loads(found)[0] == "first"
        assert len(found) > 200


BROKEN = {
    "torn in a string": b'{"a":"' + b"x" * 900,
    "torn after a string": b'{"a":"' + b"x" * 900 + b'"',
    "NUL bytes in a string": b'{"a":"' + b"x" * 900 + b"\0" * 9 + b'"}',
    "NUL bytes between": b'{"a":[' + b"1," * 900 + b"\0" * 9 + b'"x"]}',
    "an invalid escape": b'{"a":"' + b"x" * 900 + b'\\x"}',
    "invalid UTF-8": b'{"a":"' + b"x" * 900 + b'\xff"}',
    "half a character at the end": b'{"a":"' + b"x" * 900 + b'\xc3"}',
    "a second object": b'{"a":"' + b"x" * 900 + b'"}{"a":1}',
    "a second object after a full one": b'{"a":["' + b'",["' * 900 + b'"' + b"]" * 901 + b'}{"a":1}',
    "one bracket too many": b'{"a":"' + b"x" * 900 + b'"}}',
    "not an object": b'"' + b"x" * 900 + b'"',
    "words": b"x" * 900,
}


@pytest.mark.usefixtures("little")
@pytest.mark.parametrize("line", BROKEN.values(), ids=BROKEN.keys())
def test_a_damaged_line_gives_nothing(line: bytes) -> None:
    for size in (1, 7, 100, 10_000):
        found = feed_in_pieces(line, size)
        assert found is None or file_format.decode_entry(found) is None


@pytest.mark.usefixtures("little")
def test_memory_is_bounded_for_any_line() -> None:
    for piece in (b"x" * 65_536, b"\\n" * 32_768, b'","' * 20_000, b"[" * 65_536, b'{"a":' * 10_000):
        short = LineShortener()
        short.feed(b'{"a":"')
        for _ in range(3):
            short.feed(piece)
        assert len(short._shortened) <= long_lines._LINE_BYTES


@pytest.mark.parametrize(
    "line",
    [
        prompt_line(IMAGE, IMAGE, "What is this?", at=5),
        prompt_line(LARGE, at=5),
        agent_chunk(LARGE, at=5),
        update("tool_call", toolCallId="c", content=[{"a": n} for n in range(200_000)], at=5),
        info(title="Named", _meta={"large": LARGE, "small": 1}, at=5),
        transcript_lines.message({"id": 1, "error": {"code": 1, "message": LARGE}}, Peer.AGENT, "session/prompt", at=5),
    ],
    ids=["images", "words", "said", "dense", "info", "error"],
)
@pytest.mark.parametrize("later", [(), (agent_chunk("more", at=6), answer(at=7))], ids=["last", "in the middle"])
def test_a_shortened_line_gives_the_same_summary(tmp_path: Path, line: bytes, later: tuple[bytes, ...]) -> None:
    path = tmp_path / "s.jsonl"
    lines = (prompt_line("/one"), agent_chunk("a"), agent_chunk("b"), line, *later)
    path.write_bytes(transcript_file.HEADER + b"".join(lines))
    whole, folded = Summary.begin(transcript_lines.header()), Summary.begin(transcript_lines.header())
    for each in lines:
        whole.add(transcript_lines.entry(each))
    ends = []
    with transcript_file.open_to_read(path) as reading:
        for found in reading.read_alike(shortens=True):
            ends.append((found.number, found.end))
            if not isinstance(found, Line):
                folded.add_chunks(found.chunks)
            elif found.entry is not None:
                folded.add(found.entry)
        assert {end for _, end in ends} <= {each.end for each in reading.read_lines()}
        assert ends[-1] == (len(lines), path.stat().st_size)
    assert folded.dump_state() | {"meta_room": 0, "meta_is_measured": 0} == whole.dump_state() | {
        "meta_room": 0,
        "meta_is_measured": 0,
    }


def test_intact_parts_of_a_long_damaged_line_count(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(transcript_file.HEADER + agent_chunk(LARGE)[:-20] + prompt_line("intact") + answer())
    with transcript_file.open_to_read(path) as reading:
        found = [line.entry for line in reading.read_alike(shortens=True) if isinstance(line, Line)]
    assert [entry.of if entry is not None else None for entry in found] == [None, "session/prompt"]
    assert found[0] is not None
    assert "intact" in str(found[0].value)


def test_only_long_lines_are_cut() -> None:
    lines = [
        b'{"a":1}\n',
        b"{" + b" " * LONG + b'"a":"' + LARGE.encode() + b'"}\n',
        b"\n",
        b"x" * (3 * LONG) + b"\n",
        b"torn",
    ]
    data = b"".join(lines)

    def read(size: int, at: int) -> bytes:
        return data[at : at + size]

    found: Iterator[bytes | None] = read_shortened(read, len(data))
    assert next(found) == lines[0]
    assert len(next(found) or b"") < 2 * LONG
    assert list(found) == [b"\n", None, b"torn"]
    assert shorten_line([b'{"a":'], read, len(data), len(data)) == (None, len(data), False)


def test_very_many_brackets_are_shortened_like_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """In time that grows with the line: with its square, this would take minutes, and hours at the real limit."""
    monkeypatch.setattr(long_lines, "_LINE_BYTES", 250_000)
    many = 300_000
    for line in (b'{"a":1,"b":' + b"[" * many + b"]" * many + b"}", b'{"a":1,"b":[[]' + b",[]" * many + b"]}"):
        short = LineShortener()
        for at in range(0, len(line), 65_536):
            short.feed(line[at : at + 65_536])
        assert short.text is not None
        assert short.text.startswith(b'{"a":1,"b":[[')
        assert short.text.count(b"[") == short.text.count(b"]") < many
