"""Whole lines are appended whatever stood there before, and everything that is intact is read again."""

import os
import stat
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acp_proxy.errors import NewerFormat
from acp_proxy.transcripts import access
from acp_proxy.transcripts.names import file_name
from acp_proxy.transcripts.transcript import Line, Reading, Transcript
from acp_proxy.wire import acp, record
from acp_proxy.wire.jsonrpc import Peer
from tests.strategies import messages
from tests.transcripts import talk
from tests.transcripts.full_disk import on_full_disk
from tests.transcripts.writing import SECONDS, run_together
from tests.transcripts.writing import text as written_text

HEADER = record.encode_header(talk.header())
MORE_THAN_A_READ = 200_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


@contextmanager
def reading(path: Path) -> Iterator[Reading]:
    opened = Reading(path)
    try:
        yield opened
    finally:
        opened.close()


def lines_of(path: Path) -> list[Line]:
    with reading(path) as opened:
        return list(opened.lines())


def told(path: Path) -> list[str | None]:
    """The texts of the agent's chunks, the types of notes; None for what cannot be read."""
    return [text_of(line) for line in lines_of(path)]


def text_of(line: Line) -> str | None:
    if line.entry is None:
        return None
    if line.entry.note is not None:
        return str(line.entry.note["type"])
    update = acp.member(acp.member(line.entry.value, "params"), "update")
    return acp.text(acp.member(update, "content"), "text")


def append(path: Path, *lines: bytes) -> None:
    transcript = Transcript(path)
    for line in lines:
        transcript.append(line)
    transcript.close()


# Appending.


def test_a_transcript_begins_with_its_header_and_is_for_us_alone(path: Path) -> None:
    Transcript(path, talk.header()).close()
    assert path.read_bytes() == HEADER
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_one_that_is_there_is_gone_on_with_and_keeps_its_header(path: Path) -> None:
    Transcript(path, talk.header()).close()
    transcript = Transcript(path, talk.header("another", "/elsewhere"))
    transcript.append(talk.said("one"))
    transcript.close()
    append(path, talk.said("two"))
    assert path.read_bytes() == HEADER + talk.said("one") + talk.said("two")


def test_an_empty_file_gets_the_header_that_it_lacks(path: Path) -> None:
    path.touch()
    Transcript(path, talk.header()).close()
    assert path.read_bytes() == HEADER


def test_without_a_header_nothing_is_made(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Transcript(path)
    assert not path.exists()


def test_every_line_is_with_the_kernel_when_append_returns(path: Path) -> None:
    transcript = Transcript(path, talk.header())
    transcript.append(talk.said("one"))
    assert path.read_bytes() == HEADER + talk.said("one")
    transcript.sync()
    transcript.close()


@pytest.mark.parametrize(
    "torn",
    [b"{", talk.said("torn")[:50], talk.said("ä€")[:-12], "é".encode()[:1], b"\0", b" ", talk.said("whole")[:-1]],
    ids=["brace", "half", "in a text", "half a character", "nul", "blank", "only its newline"],
)
def test_behind_a_torn_line_the_next_begins_on_a_fresh_one(path: Path, torn: bytes) -> None:
    path.write_bytes(HEADER + talk.said("one") + torn)
    append(path, talk.said("two"), talk.said("three"))
    assert path.read_bytes() == HEADER + talk.said("one") + torn + b"\n" + talk.said("two") + talk.said("three")


def test_a_line_that_another_process_tears_does_not_swallow_the_next_of_ours(path: Path) -> None:
    ours = Transcript(path, talk.header())
    ours.append(talk.said("one"))
    with path.open("ab") as theirs:
        theirs.write(talk.said("torn")[:-9])
    ours.append(talk.said("two"))
    ours.append(talk.said("three"))
    ours.close()
    assert told(path) == ["one", "two", "three"]


def test_two_processes_that_append_at_once_keep_every_line_whole(path: Path) -> None:
    lines = 150
    run_together(("append", path, "one", str(lines)), ("append", path, "two", str(lines)))
    found = lines_of(path)
    with reading(path) as opened:
        assert opened.header is not None
    for name in ("one", "two"):
        of_one = [text_of(line) for line in found if line.entry is not None and line.entry.run == name]
        assert of_one == [written_text(name, number) for number in range(lines)]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
def test_who_finds_half_a_header_waits_for_what_becomes_of_it(path: Path) -> None:
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    access.lock(fd)  # as the process that writes it
    os.write(fd, HEADER[:20])

    def append() -> None:
        transcript = Transcript(path, talk.header())
        transcript.append(talk.said("mine"))
        transcript.close()

    other = threading.Thread(target=append)
    other.start()
    other.join(0.2)  # one that does not wait would be done
    os.ftruncate(fd, 0)  # there was no room for the rest
    os.close(fd)
    other.join(SECONDS)
    assert path.read_bytes() == HEADER + talk.said("mine")


def test_who_opens_the_file_in_the_middle_of_a_write_waits_for_its_end(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Transcript(path, talk.header()).close()
    line = talk.said("theirs")
    with path.open("ab", buffering=0) as another:
        another.write(line[:20])
        monkeypatch.setattr("time.sleep", lambda seconds: another.write(line[20:]))
        transcript = Transcript(path)
    transcript.append(talk.said("mine"))
    transcript.close()
    assert path.read_bytes() == HEADER + line + talk.said("mine")


@pytest.mark.parametrize("size", [1000, 1001, 1050, 1101, 1150])
def test_a_full_disk_keeps_what_was_whole_and_the_next_line_is_whole_again(path: Path, size: int) -> None:
    [said] = on_full_disk("append", path, size)
    number, problem = said.split()
    assert int(number) >= 1
    assert problem == "EFBIG"
    kept = [text for text in told(path) if text is not None]
    assert kept == [*(f"{line} ä" for line in range(int(number))), "room again"]
    assert path.read_bytes().endswith(b"\n" + talk.said("room again"))


def test_a_line_that_ends_just_where_the_disk_is_full_is_kept(path: Path) -> None:
    assert on_full_disk("append", path, len(HEADER + talk.said("0 ä"))) == ["1 EFBIG"]
    assert path.read_bytes() == HEADER + talk.said("0 ä") + b"\n" + talk.said("room again")
    assert told(path) == ["0 ä", "room again"]


@pytest.mark.parametrize("size", [0, 1, len(HEADER) - 1])
def test_a_header_that_does_not_fit_leaves_nothing_that_stands_in_the_way_of_a_whole_one(path: Path, size: int) -> None:
    assert on_full_disk("append", path, size) == ["none EFBIG"]
    assert path.read_bytes() == HEADER + talk.said("room again")


def test_a_file_that_is_deleted_underneath_has_lost_its_name(path: Path) -> None:
    transcript = Transcript(path, talk.header())
    assert transcript.has_its_name()
    path.unlink()
    assert not transcript.has_its_name()
    transcript.append(talk.said("into the void"))
    assert not path.exists()
    transcript.close()


def test_a_file_that_another_has_taken_the_place_of_has_lost_its_name(path: Path) -> None:
    first = Transcript(path, talk.header())
    path.rename(path.with_name("aside.jsonl"))
    assert not first.has_its_name()
    second = Transcript(path, talk.header())
    assert second.has_its_name()
    assert not first.has_its_name()
    first.close()
    second.close()


def test_a_link_or_a_directory_in_the_place_of_a_transcript_is_an_error_of_the_system(
    path: Path, tmp_path: Path
) -> None:
    path.symlink_to(tmp_path / "target")
    with pytest.raises(OSError):
        Transcript(path, talk.header())
    assert not (tmp_path / "target").exists()
    path.unlink()
    path.mkdir()
    with pytest.raises(OSError):
        Transcript(path, talk.header())
    with pytest.raises(OSError):
        Reading(path)


# Reading.


def test_a_line_has_a_number_and_an_end_and_can_be_begun_from(path: Path) -> None:
    raws = [talk.said("ä"), b"\n", talk.said("two"), b"garbage\n", b" \t\n", talk.said("three")]
    path.write_bytes(HEADER + b"".join(raws))
    found = lines_of(path)
    assert [(line.number, text_of(line)) for line in found] == [(1, "ä"), (3, "two"), (4, None), (6, "three")]
    ends = [len(HEADER + b"".join(raws[:count])) for count in (1, 3, 4, 6)]
    assert [line.end for line in found] == ends
    with reading(path) as opened:
        for at, line in enumerate(found):
            assert list(opened.lines(line.end, line.number + 1)) == found[at + 1 :]


def test_lines_longer_than_one_read_are_read_whole(path: Path) -> None:
    long = "é" * MORE_THAN_A_READ
    path.write_bytes(HEADER + talk.said(long) + talk.said("short") + talk.said(long))
    assert told(path) == [long, "short", long]


def test_a_header_longer_than_one_read_is_read_whole(path: Path) -> None:
    cwd = "/" + "x" * MORE_THAN_A_READ
    Transcript(path, talk.header(cwd=cwd)).close()
    with reading(path) as opened:
        assert opened.header == talk.header(cwd=cwd)


def test_what_comes_after_the_opening_is_read_only_once_it_has_been_measured(path: Path) -> None:
    path.write_bytes(HEADER + talk.said("one"))
    with reading(path) as opened:
        append(path, talk.said("two"))
        assert [text_of(line) for line in opened.lines()] == ["one"]
        opened.measure()
        assert [text_of(line) for line in opened.lines()] == ["one", "two"]


def test_a_file_that_shrinks_while_it_is_read_ends_early(path: Path) -> None:
    path.write_bytes(HEADER + talk.said("one") + talk.said("two"))
    with reading(path) as opened:
        os.truncate(path, len(HEADER + talk.said("one")))
        assert [text_of(line) for line in opened.lines()] == ["one"]


def test_a_deleted_file_is_read_to_its_end_by_who_has_opened_it(path: Path) -> None:
    path.write_bytes(HEADER + talk.said("one"))
    with reading(path) as opened:
        path.unlink()
        assert [text_of(line) for line in opened.lines()] == ["one"]
    with pytest.raises(FileNotFoundError):
        Reading(path)


def test_its_age_counts_from_the_last_write(path: Path) -> None:
    path.write_bytes(HEADER)
    os.utime(path, (1000, 1000))
    with reading(path) as opened:
        assert opened.age(1060.5) == 60.5
    append(path, talk.said("one"))
    with reading(path) as opened:
        assert opened.age(time.time()) < 1000


def test_a_newer_version_is_refused_and_no_descriptor_stays_open(path: Path) -> None:
    path.write_bytes(b'{"acp-transcript":2,"sessionId":"sess-1"}\n')
    before = os.dup(0)
    os.close(before)
    for _ in range(3):
        with pytest.raises(NewerFormat):
            Reading(path)
    after = os.dup(0)
    os.close(after)
    assert after == before  # the system hands out the lowest free number


# Complete: recorded from the beginning, and no gap.


@pytest.mark.parametrize(
    ("start", "complete"),
    [
        (HEADER, True),
        (record.encode_header(talk.header(origin=record.PARTIAL)), False),
        (record.encode_header(talk.header(origin=record.IMPORTED)), False),
        (b"", False),
        (b"garbage\n", False),
    ],
    ids=["recorded", "partial", "imported", "no header", "damaged header"],
)
def test_only_what_was_recorded_from_the_beginning_is_complete(path: Path, start: bytes, complete: bool) -> None:
    path.write_bytes(start + talk.prompt("one") + talk.said("two"))
    with reading(path) as opened:
        assert opened.is_complete is complete


@pytest.mark.parametrize("before", [0, 1, 65_000, 65_530, 65_536, 70_000, 131_060])
def test_a_note_of_a_gap_is_found_wherever_it_stands(path: Path, before: int) -> None:
    gap = talk.note(record.GAP, since=talk.time(0), reason="ENOSPC")
    at = before - len(HEADER) - len(talk.said(""))
    path.write_bytes(HEADER + talk.said("x" * max(0, at)) + gap + talk.said("after"))
    with reading(path) as opened:
        assert not opened.is_complete


@pytest.mark.parametrize("shift", range(30))
def test_a_note_of_a_gap_is_found_across_the_border_of_two_reads(path: Path, shift: int) -> None:
    gap = talk.note(record.GAP)
    fill = 65_536 - shift - gap.index(record.GAP_MARK) - len(HEADER) - len(talk.said(""))
    path.write_bytes(HEADER + talk.said("x" * fill) + gap)
    with reading(path) as opened:
        assert not opened.is_complete


@pytest.mark.parametrize("before", [0, 3 * 1024 * 1024, 5 * 1024 * 1024, 9 * 1024 * 1024])
def test_a_long_transcript_is_looked_through_in_steps(path: Path, before: int) -> None:
    path.write_bytes(HEADER + talk.said("x" * before) + talk.said("y" * 4 * 1024 * 1024))
    with reading(path) as opened:
        assert opened.search()
        append(path, talk.note(record.GAP))
        while opened.search():
            pass
        assert not opened.is_still_complete


@pytest.mark.parametrize("end", [b"", talk.said("torn")[:-1], talk.said("torn")[:-20], b"\n\n", talk.note("opened")])
@pytest.mark.parametrize("header", [HEADER, HEADER[:-1], b"", b"garbage\n"])
def test_streamed_messages_are_the_same_lines(path: Path, header: bytes, end: bytes) -> None:
    chunks = [talk.said(f" word{number}", at=number) for number in range(2_000)]
    middle = b"".join([talk.prompt("a"), b"\n", talk.said("torn")[:-30], talk.said("glued"), b"\r\n", talk.answer()])
    path.write_bytes(header + b"".join(chunks[:1_000]) + middle + b"".join(chunks[1_000:]) + end)
    with reading(path) as opened:
        lines, known = list(opened.lines()), dict[tuple[int, int], list[Line]]()
        for found in opened.streams():
            if isinstance(found, Line):
                known[found.number, found.end] = [*known.get((found.number, found.end), []), found]
                continue
            number, at = found.number - found.stream.count, found.end - found.stream.size
            for entry, line in zip(found.stream.entries(), found.stream.lines, strict=True):
                number, at = number + 1, at + len(line) + 1
                known[number, at] = [Line(number, at, True, entry)]
            assert (number, at) == (found.number, found.end)
    assert [line for each in known.values() for line in each] == lines
    assert len(lines) > 2_000
    with reading(path) as opened:
        assert len(list(opened.streams())) < 100
        start = lines[1_500]
        assert next(opened.streams(start.end, start.number + 1)) == lines[1_501]


def test_words_that_look_like_a_gap_are_none(path: Path) -> None:
    path.write_bytes(HEADER + talk.said(record.GAP_MARK.decode()) + talk.note("other", of='"type":"gap"'))
    with reading(path) as opened:
        assert opened.is_complete


def test_a_gap_that_is_written_while_it_is_read_counts(path: Path) -> None:
    path.write_bytes(HEADER)
    with reading(path) as opened:
        assert opened.is_complete
        append(path, talk.note(record.GAP))
        assert not opened.is_complete


# Damage.

LAST = [talk.prompt("größer"), talk.said("kleiner €")]


def test_cut_anywhere_in_its_last_two_lines_it_is_read_up_to_there(path: Path) -> None:
    start = HEADER + talk.said("one") + talk.said("two")
    data = start + b"".join(LAST)
    ends = [len(start) + len(LAST[0]), len(data)]
    for size in range(len(start) - 1, len(data) + 1):
        path.write_bytes(data[:size])
        found = lines_of(path)
        intact = 2 + sum(size >= end - 1 for end in ends)
        assert len([line for line in found if line.entry is not None]) == intact
        assert all(line.whole for line in found[:-1])
        assert found[-1].whole is (data[size - 1 : size] == b"\n")
        append(path, talk.said("more"))
        assert told(path)[-1] == "more"
        assert len([line for line in lines_of(path) if line.entry is not None]) == intact + 1


damage = st.sampled_from(
    [b"garbage", b"\0" * 600, b"\xff\xfe", b"{", b'{"at":"', b"[" * 3000, b'{"at":"x"}', b"", b"7"]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.booleans(), min_size=1, max_size=8), st.data())
def test_every_intact_line_is_read_whatever_the_others_have_become(
    tmp_path: Path, intact: list[bool], data: st.DataObject
) -> None:
    path = tmp_path / "damaged.jsonl"
    lines = [talk.said(str(at)) if good else data.draw(damage) + b"\n" for at, good in enumerate(intact)]
    path.write_bytes(HEADER + b"".join(lines))
    assert [text for text in told(path) if text is not None] == [str(at) for at, good in enumerate(intact) if good]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(messages, max_size=3), st.data())
def test_no_damage_at_all_makes_reading_raise(tmp_path: Path, said: list[object], data: st.DataObject) -> None:
    path = tmp_path / "damaged.jsonl"
    lines = [talk.message(value, Peer.AGENT) for value in said]
    whole = bytearray(HEADER + b"".join(lines) + talk.note(record.GAP))
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at : at + data.draw(st.sampled_from([0, 1, 1, 40]))] = data.draw(st.binary(max_size=3))
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
    try:
        opened = Reading(path)
    except NewerFormat:
        return
    found = list(opened.lines())
    assert opened.is_complete in (True, False)
    opened.close()
    assert [line.end for line in found] == sorted({line.end for line in found})
    append(path, talk.said("more"))
    assert told(path)[-1] == "more"


def test_a_header_whose_id_does_not_fit_the_files_name_is_broken(tmp_path: Path) -> None:
    path = tmp_path / f"{file_name(talk.SESSION)}~2.jsonl"
    path.write_bytes(HEADER + talk.said("one"))
    with reading(path) as opened:
        assert opened.header == talk.header()
    path.write_bytes(HEADER.replace(b"sess-1", b"sess-3") + talk.said("one") + talk.said("two", session="parent"))
    with reading(path) as opened:
        assert opened.header is None
        assert [text_of(line) for line in opened.lines()] == [None, "one", "two"]
        remade = opened.remade_header()
        assert remade is not None
        assert (remade.session, remade.cwd, remade.origin) == (talk.SESSION, talk.CWD, record.PARTIAL)
        assert opened.also == {talk.SESSION, "parent"}


def test_entries_glued_to_one_another_and_to_the_header_are_all_read(path: Path) -> None:
    path.write_bytes(HEADER[:-1] + talk.said("one")[:-1] + b"\0" + talk.said("two")[:-1] + talk.said("three"))
    assert told(path) == ["one", "two", "three"]


def test_a_pipe_in_its_place_is_an_error_and_not_waited_for(path: Path) -> None:
    os.mkfifo(path)
    for opening in (lambda: Reading(path), lambda: Transcript(path, talk.header())):
        with pytest.raises(OSError, match="Invalid argument"):
            opening()


def test_who_cannot_have_a_file_alone_gets_back_the_lock_that_it_had_though_another_was_quicker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Transcript(tmp_path / "s.jsonl", talk.header())
    other = Transcript(tmp_path / "s.jsonl")
    refused: list[bool] = []

    def lock(fd: int, *, shared: bool = False) -> bool:
        if shared and not refused:
            refused.append(True)  # for a moment, nobody has it: the other takes it for itself, and lets go
            raise BlockingIOError
        return access.lock(fd, shared=shared)

    monkeypatch.setattr("acp_proxy.transcripts.transcript.lock", lock)
    assert not one.claim()
    assert refused
    assert not other.claim()
    one.close()
    assert other.claim()
    other.close()
