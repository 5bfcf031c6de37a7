"""Every intact entry is read, whatever happened to the rest of the file."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acp_proxy.errors import NewerFormat
from acp_proxy.protocol import jsonrpc
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.transcript import appender, file_format
from acp_proxy.transcript.appender import TranscriptAppender
from acp_proxy.transcript.compressed import compress_chunks
from acp_proxy.transcript.file_access import TooLarge
from acp_proxy.transcript.file_format import NoteType
from acp_proxy.transcript.file_names import file_name
from acp_proxy.transcript.reader import Line, TranscriptReader
from acp_proxy.transcript.rewinds import REWIND_BYTES
from tests.open_files import list_open_below
from tests.store import transcript_lines
from tests.strategies import messages
from tests.transcript.transcript_file import HEADER, append_lines, open_to_read, read_lines, read_texts, text_of

MORE_THAN_A_READ = 200_000
MIB = 1024 * 1024


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


def test_a_line_has_a_number_and_an_end_to_continue_from(path: Path) -> None:
    raws = [
        transcript_lines.agent_chunk("ä"),
        b"\n",
        transcript_lines.agent_chunk("two"),
        b"garbage\n",
        b" \t\n",
        transcript_lines.agent_chunk("three"),
    ]
    path.write_bytes(HEADER + b"".join(raws))
    lines = read_lines(path)
    assert [(line.number, text_of(line)) for line in lines] == [(1, "ä"), (3, "two"), (4, None), (6, "three")]
    ends = [len(HEADER + b"".join(raws[:count])) for count in (1, 3, 4, 6)]
    assert [line.end for line in lines] == ends
    with open_to_read(path) as opened:
        for index, line in enumerate(lines):
            assert list(opened.read_lines(line.end, line.number + 1)) == lines[index + 1 :]


def test_lines_longer_than_one_read_are_whole(path: Path) -> None:
    long = "é" * MORE_THAN_A_READ
    path.write_bytes(
        HEADER
        + transcript_lines.agent_chunk(long)
        + transcript_lines.agent_chunk("short")
        + transcript_lines.agent_chunk(long)
    )
    assert read_texts(path) == [long, "short", long]


def test_a_header_longer_than_one_read_is_whole(path: Path) -> None:
    cwd = "/" + "x" * MORE_THAN_A_READ
    TranscriptAppender(path, transcript_lines.header(cwd=cwd)).close()
    with open_to_read(path) as opened:
        assert opened.header == transcript_lines.header(cwd=cwd)


def test_later_lines_are_read_after_measuring_again(path: Path) -> None:
    path.write_bytes(HEADER + transcript_lines.agent_chunk("one"))
    with open_to_read(path) as opened:
        append_lines(path, transcript_lines.agent_chunk("two"))
        assert [text_of(line) for line in opened.read_lines()] == ["one"]
        opened.measure()
        assert [text_of(line) for line in opened.read_lines()] == ["one", "two"]


def test_reading_a_file_that_shrinks_ends_early(path: Path) -> None:
    path.write_bytes(HEADER + transcript_lines.agent_chunk("one") + transcript_lines.agent_chunk("two"))
    with open_to_read(path) as opened:
        os.truncate(path, len(HEADER + transcript_lines.agent_chunk("one")))
        assert [text_of(line) for line in opened.read_lines()] == ["one"]


def test_an_open_file_is_read_to_its_end_after_its_deletion(path: Path) -> None:
    path.write_bytes(HEADER + transcript_lines.agent_chunk("one"))
    with open_to_read(path) as opened:
        path.unlink()
        assert [text_of(line) for line in opened.read_lines()] == ["one"]
    with pytest.raises(FileNotFoundError):
        TranscriptReader(path)


def test_the_age_counts_from_the_last_write(path: Path) -> None:
    path.write_bytes(HEADER)
    os.utime(path, (1000, 1000))
    with open_to_read(path) as opened:
        assert opened.measure_age(1060.5) == 60.5
    append_lines(path, transcript_lines.agent_chunk("one"))
    with open_to_read(path) as opened:
        assert opened.measure_age(time.time()) < 1000


def test_a_newer_version_is_refused_and_no_descriptor_stays_open(path: Path) -> None:
    path.write_bytes(b'{"acp-transcript":2,"sessionId":"sess-1"}\n')
    with pytest.raises(NewerFormat):
        TranscriptReader(path)
    assert list_open_below(path.parent) == []


# --- complete: recorded from the beginning, and no gap


@pytest.mark.parametrize(
    ("start", "complete"),
    [
        (HEADER, True),
        (file_format.encode_header(transcript_lines.header(origin=file_format.PARTIAL)), False),
        (file_format.encode_header(transcript_lines.header(origin=file_format.IMPORTED)), False),
        (b"", False),
        (b"garbage\n", False),
    ],
    ids=["recorded", "partial", "imported", "no header", "damaged header"],
)
def test_only_a_transcript_recorded_from_the_beginning_is_complete(path: Path, start: bytes, complete: bool) -> None:
    path.write_bytes(start + transcript_lines.prompt_line("one") + transcript_lines.agent_chunk("two"))
    with open_to_read(path) as opened:
        assert opened.is_complete is complete


@pytest.mark.parametrize("before", [0, 1, 65_000, 65_530, 65_536, 70_000, 131_060])
def test_a_gap_note_is_found_anywhere(path: Path, before: int) -> None:
    gap = transcript_lines.note(NoteType.GAP, since=transcript_lines.time(0), reason="ENOSPC")
    text_size = before - len(HEADER) - len(transcript_lines.agent_chunk(""))
    path.write_bytes(
        HEADER + transcript_lines.agent_chunk("x" * max(0, text_size)) + gap + transcript_lines.agent_chunk("after")
    )
    with open_to_read(path) as opened:
        assert not opened.is_complete


@pytest.mark.parametrize("shift", range(30))
def test_a_gap_note_is_found_across_two_reads(path: Path, shift: int) -> None:
    gap = transcript_lines.note(NoteType.GAP)
    fill = 65_536 - shift - gap.index(file_format.NOTE_BYTES) - len(HEADER) - len(transcript_lines.agent_chunk(""))
    path.write_bytes(HEADER + transcript_lines.agent_chunk("x" * fill) + gap)
    with open_to_read(path) as opened:
        assert not opened.is_complete


@pytest.mark.parametrize("before", [0, 3 * 1024 * 1024, 5 * 1024 * 1024, 9 * 1024 * 1024])
def test_a_long_transcript_is_searched_in_steps(path: Path, before: int) -> None:
    path.write_bytes(
        HEADER + transcript_lines.agent_chunk("x" * before) + transcript_lines.agent_chunk("y" * 4 * 1024 * 1024)
    )
    with open_to_read(path) as opened:
        assert opened.search()
        append_lines(path, transcript_lines.note(NoteType.GAP))
        assert opened.is_complete, "what was appended counts from the next measuring on"
        opened.measure()
        assert not opened.is_complete


@pytest.mark.parametrize("mark", REWIND_BYTES)
@pytest.mark.parametrize("border", [65_536, MIB, MIB + 65_536])
@pytest.mark.parametrize("width", [100, 70_000, 3 * MIB])
def test_what_may_be_a_rewind_is_found_across_two_reads(path: Path, mark: bytes, border: int, width: int) -> None:
    lines = bytearray(b"x" * 2 * MIB)
    lines[width - 1 :: width] = b"\n" * len(lines[width - 1 :: width])
    path.write_bytes(HEADER + lines)
    with open_to_read(path) as opened:
        assert not opened.may_be_rewound
    for offset in range(border - len(mark), border + 1):
        path.write_bytes(HEADER + lines[:offset] + mark + lines[offset + len(mark) :])
        with open_to_read(path) as opened:
            assert opened.may_be_rewound


@pytest.mark.parametrize("last", [transcript_lines.update("history_truncated"), b'{"of":"session/rewind"}'])
def test_what_may_be_a_rewind_is_found_at_the_end(path: Path, last: bytes) -> None:
    path.write_bytes(HEADER + transcript_lines.agent_chunk("x") + last)
    with open_to_read(path) as opened:
        assert opened.may_be_rewound


@pytest.mark.parametrize(
    "end",
    [
        b"",
        transcript_lines.agent_chunk("torn")[:-1],
        transcript_lines.agent_chunk("torn")[:-20],
        b"\n\n",
        transcript_lines.note("opened"),
    ],
)
@pytest.mark.parametrize("header", [HEADER, HEADER[:-1], b"", b"garbage\n"])
def test_streams_give_the_same_lines(path: Path, header: bytes, end: bytes) -> None:
    chunks = [transcript_lines.agent_chunk(f" word{number}", at=number) for number in range(2_000)]
    middle = b"".join(
        [
            transcript_lines.prompt_line("a"),
            b"\n",
            transcript_lines.agent_chunk("torn")[:-30],
            transcript_lines.agent_chunk("glued"),
            b"\r\n",
            transcript_lines.answer(),
        ]
    )
    path.write_bytes(header + b"".join(chunks[:1_000]) + middle + b"".join(chunks[1_000:]) + end)
    with open_to_read(path) as opened:
        lines, known = list(opened.read_lines()), dict[tuple[int, int], list[Line]]()
        for found in opened.read_alike():
            if isinstance(found, Line):
                known[found.number, found.end] = [*known.get((found.number, found.end), []), found]
                continue
            number, offset = found.number - found.chunks.count, found.end - found.chunks.size
            for entry, line in zip(found.chunks.decode_entries(), found.chunks.lines, strict=True):
                number, offset = number + 1, offset + len(line)
                known[number, offset] = [Line(number, offset, True, entry)]
            assert (number, offset) == (found.number, found.end)
    assert [line for each in known.values() for line in each] == lines
    assert len(lines) > 2_000
    with open_to_read(path) as opened:
        assert len(list(opened.read_alike())) < 100
        start = lines[1_500]
        assert next(opened.read_alike(start.end, start.number + 1)) == lines[1_501]


def test_text_that_looks_like_a_gap_is_none(path: Path) -> None:
    path.write_bytes(
        HEADER
        + transcript_lines.agent_chunk(file_format.NOTE_BYTES.decode() + 'gap"')
        + transcript_lines.note("other", of='"type":"gap"')
    )
    with open_to_read(path) as opened:
        assert opened.is_complete


def test_a_gap_written_during_the_reading_counts_once_it_is_measured(path: Path) -> None:
    path.write_bytes(HEADER)
    with open_to_read(path) as opened:
        assert opened.is_complete
        append_lines(path, transcript_lines.note(NoteType.GAP))
        opened.measure()
        assert not opened.is_complete


@pytest.mark.parametrize("newline", [b"\n", b""])
def test_a_note_counts_once_however_often_the_end_is_searched(path: Path, newline: bytes) -> None:
    note = transcript_lines.note(NoteType.OPENED, method="session/load", anew=True)
    path.write_bytes(HEADER + note.removesuffix(b"\n") + newline)
    with open_to_read(path) as opened:
        assert opened.is_complete
        opened.measure()
        assert opened.is_complete
        assert opened.agent_session.new_session_count == 1


# Damage.

LAST = [transcript_lines.prompt_line("größer"), transcript_lines.agent_chunk("kleiner €")]


def test_a_file_cut_in_its_last_lines_is_read_up_to_the_cut(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appender, "_LOCK_PAUSE_SECONDS", 0)  # nobody else writes
    start = HEADER + transcript_lines.agent_chunk("one") + transcript_lines.agent_chunk("two")
    data = start + b"".join(LAST)
    ends = [len(start) + len(LAST[0]), len(data)]
    for size in range(len(start) - 1, len(data) + 1):
        path.write_bytes(data[:size])
        lines = read_lines(path)
        intact = 2 + sum(size >= end - 1 for end in ends)
        assert len([line for line in lines if line.entry is not None]) == intact
        assert all(line.is_whole for line in lines[:-1])
        assert lines[-1].is_whole is (data[size - 1 : size] == b"\n")
        append_lines(path, transcript_lines.agent_chunk("more"))
        assert read_texts(path)[-1] == "more"
        assert len([line for line in read_lines(path) if line.entry is not None]) == intact + 1


damage = st.sampled_from(
    [b"garbage", b"\0" * 600, b"\xff\xfe", b"{", b'{"at":"', b"[" * 3000, b'{"at":"x"}', b"", b"7"]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.booleans(), min_size=1, max_size=8), st.data())
def test_every_intact_line_is_read_between_damaged_ones(
    tmp_path: Path, intact: list[bool], data: st.DataObject
) -> None:
    path = tmp_path / "damaged.jsonl"
    lines = [
        transcript_lines.agent_chunk(str(at)) if good else data.draw(damage) + b"\n" for at, good in enumerate(intact)
    ]
    path.write_bytes(HEADER + b"".join(lines))
    assert [text for text in read_texts(path) if text is not None] == [
        str(at) for at, good in enumerate(intact) if good
    ]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(messages, max_size=3), st.data())
def test_no_damage_makes_reading_raise(tmp_path: Path, said: list[object], data: st.DataObject) -> None:
    path = tmp_path / "damaged.jsonl"
    lines = [transcript_lines.message(value, Peer.AGENT) for value in said]
    whole = bytearray(HEADER + b"".join(lines) + transcript_lines.note(NoteType.GAP))
    for _ in range(data.draw(st.integers(1, 5))):
        offset = data.draw(st.integers(0, len(whole) - 1))
        whole[offset : offset + data.draw(st.sampled_from([0, 1, 1, 40]))] = data.draw(st.binary(max_size=3))
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
    try:
        opened = TranscriptReader(path)
    except NewerFormat:
        return
    found = list(opened.read_lines())
    assert opened.is_complete in (True, False)
    opened.close()
    ends = {line.number: line.end for line in found}
    assert list(ends.items()) == sorted({(line.number, line.end) for line in found})
    assert list(ends.values()) == sorted(set(ends.values()))
    append_lines(path, transcript_lines.agent_chunk("more"))
    assert read_texts(path)[-1] == "more"


def test_a_header_with_another_id_than_the_file_name_is_broken(tmp_path: Path) -> None:
    path = tmp_path / f"{file_name(transcript_lines.SESSION)}~2.jsonl"
    path.write_bytes(HEADER + transcript_lines.agent_chunk("one"))
    with open_to_read(path) as opened:
        assert opened.header == transcript_lines.header()
    path.write_bytes(
        HEADER.replace(b"sess-1", b"sess-3")
        + transcript_lines.agent_chunk("one")
        + transcript_lines.agent_chunk("two", session="parent")
    )
    with open_to_read(path) as opened:
        assert opened.header is None
        assert [text_of(line) for line in opened.read_lines()] == [None, "one", "two"]
        remade = opened.rebuild_header()
        assert remade is not None
        assert (remade.session_id, remade.cwd, remade.origin) == (
            transcript_lines.SESSION,
            transcript_lines.CWD,
            file_format.PARTIAL,
        )
        assert opened.other_ids == {transcript_lines.SESSION, "parent"}


def test_a_header_after_a_foreign_line_is_found(path: Path) -> None:
    path.write_bytes(b"npm WARN deprecated\n" + HEADER + transcript_lines.agent_chunk("one"))
    with open_to_read(path) as opened:
        assert opened.header is None
        remade = opened.rebuild_header()
        assert remade is not None
        assert (remade.session_id, remade.cwd) == (transcript_lines.SESSION, transcript_lines.CWD)


def test_entries_on_one_line_are_all_read(path: Path) -> None:
    path.write_bytes(
        HEADER[:-1]
        + transcript_lines.agent_chunk("one")[:-1]
        + b"\0"
        + transcript_lines.agent_chunk("two")[:-1]
        + transcript_lines.agent_chunk("three")
    )
    assert read_texts(path) == ["one", "two", "three"]


def forge_note(kind: str) -> dict[str, object]:
    """What looks like a note, for somebody who can choose a part of a message."""
    return {"from": "proxy", "note": {"type": kind, "to": "victim", "method": "session/fork"}}


def entry_of(kind: str) -> dict[str, object]:
    return {"at": transcript_lines.time(0), "run": "forged"} | forge_note(kind)


KINDS = ["gap", "alias", "handover", "continued", "opened", "caught-up"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("note", [forge_note, entry_of])
@pytest.mark.parametrize("size", [0, 70_000, 1_200_000], ids=["short", "longer than a read", "long"])
def test_what_a_message_contains_is_no_note(
    path: Path, note: Callable[[str], dict[str, object]], kind: str, size: int
) -> None:
    """In any part of it, also if the line was cut off there."""
    inside, text = note(kind), jsonrpc.dump(note(kind)).decode()
    fill = "x" * size
    lines = [
        transcript_lines.update("tool_call", toolCallId=text, title=text, rawInput=inside, content=[{"fill": fill}]),
        transcript_lines.update("tool_call_update", toolCallId=text, rawOutput={"fill": fill, "all": [inside, inside]}),
        transcript_lines.update(
            "agent_message_chunk", content={"type": "text", "text": text}, _meta={"fill": fill, "one": inside}
        ),
        transcript_lines.prompt_line(
            text, {"type": "resource_link", "name": text, "uri": f"file:///{text}", "_meta": inside}
        ),
        transcript_lines.message({"id": 1, "result": inside | {"fill": fill}}, Peer.AGENT, "session/prompt"),
        transcript_lines.info(title=text, _meta=inside),
    ]
    cut = [line[: line.rindex(b'"victim"') + after] + b"\n" for line in lines[1:3] for after in (30, 35, 36, 37)]
    torn = [line[: line.index(b"{", line.index(b'"proxy"') - 80)] for line in lines[:2] if b'"proxy"' in line]
    path.write_bytes(HEADER + b"".join([*lines, *cut, *(each + b"\n" for each in torn)]))
    with open_to_read(path) as opened:
        assert opened.is_complete
        found = opened.agent_session
        assert (found.alias, found.is_missing, found.lacks_past) == (None, False, False)


def test_a_note_after_a_long_line_is_found(path: Path) -> None:
    for long in (
        transcript_lines.agent_chunk("x" * 70_000),
        transcript_lines.agent_chunk("x" * 3_000_000),
        transcript_lines.note("opened", modes="x" * 3_000_000),
    ):
        for note in (
            transcript_lines.note("alias", to="theirs"),
            transcript_lines.note("alias", to="theirs", more="x" * 3_000_000),
        ):
            path.write_bytes(HEADER + long + long[:-9] + b"\n" + note)
            with open_to_read(path) as opened:
                assert opened.is_complete
                assert opened.agent_session.alias == "theirs"


def zeros(size: int) -> Iterator[bytes]:
    yield HEADER
    yield from (bytes(2**20) for _ in range(size // 2**20))


@pytest.mark.parametrize("says_size", [True, False])
def test_a_small_file_that_would_become_huge_is_not_read(path: Path, says_size: bool) -> None:
    size = 2**28
    data = b"".join(compress_chunks(zeros(size), len(HEADER) + size if says_size else None))
    path.with_suffix(".jsonl.zst").write_bytes(data)
    with pytest.raises(TooLarge, match=r"(128|256) MiB in .* KiB on disk.*Move it out of the store") as raised:
        TranscriptReader(path)
    assert raised.value.filename == str(path.with_suffix(".jsonl.zst"))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not say how much of a file is on disk")
def test_a_sparse_file_is_not_read(path: Path) -> None:
    path.write_bytes(HEADER)
    os.truncate(path, 2**40)
    with pytest.raises(TooLarge, match="1,048,576 MiB in"):
        TranscriptReader(path)


HANDED_OVER = transcript_lines.note("handover", to="theirs")


@pytest.mark.parametrize(
    ("lines", "alias", "is_missing"),
    [
        ([HANDED_OVER], "theirs", False),
        ([HANDED_OVER, transcript_lines.note("continued", agent="a", session="s")], None, True),
        ([HANDED_OVER, transcript_lines.note("continued", agent="a"), HANDED_OVER], "theirs", False),
        ([HANDED_OVER, transcript_lines.note("opened", method="session/fork")], None, False),
        ([HANDED_OVER, transcript_lines.note("opened", method="session/load")], "theirs", False),
    ],
)
def test_a_copy_and_a_fork_have_no_id_of_what_they_were_copied_from(
    path: Path, lines: list[bytes], alias: str | None, is_missing: bool
) -> None:
    path.write_bytes(HEADER + b"".join(lines))
    with open_to_read(path) as opened:
        while opened.search():
            pass
        found = opened.agent_session
        assert (found.alias, found.is_missing, found.lacks_past) == (alias, is_missing, True)


def test_intact_parts_of_a_long_damaged_line_count(path: Path) -> None:
    torn = transcript_lines.agent_chunk("x" * 2 * MIB)[:-20]
    path.write_bytes(HEADER + torn + transcript_lines.prompt_line("intact") + transcript_lines.answer())
    with open_to_read(path) as opened:
        found = [line.entry for line in opened.read_alike() if isinstance(line, Line)]
    assert [entry.answered_method if entry is not None else None for entry in found] == [None, "session/prompt"]
    assert found[0] is not None
    assert "intact" in str(found[0].value)


def test_the_last_line_of_each_run_is_found(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    ask, say = transcript_lines.prompt_line("q", run="run001"), transcript_lines.agent_chunk("a", run="run002")
    quoted = transcript_lines.agent_chunk(ask.decode() + "\n" + ask.decode(), run="run002")
    header = file_format.encode_header(transcript_lines.header())
    path.write_bytes(b"".join([header, ask, say, quoted.rstrip()]))
    with closing(TranscriptReader(path)) as reader:
        assert reader.find_last_lines() == {"run001": len(header), "run002": len(header + ask + say)}
