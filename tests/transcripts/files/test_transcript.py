"""Whole lines are appended whatever stood there before."""

import os
import stat
import sys
import threading
from pathlib import Path

import pytest

from acp_proxy.transcripts.files import access
from acp_proxy.transcripts.files.reading import Reading
from acp_proxy.transcripts.files.transcript import Transcript
from tests.transcripts import talk
from tests.transcripts.full_disk import on_full_disk
from tests.transcripts.one_file import HEADER, append, lines_of, reading, text_of, told
from tests.transcripts.writing import SECONDS, run_together
from tests.transcripts.writing import text as written_text


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


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

    monkeypatch.setattr("acp_proxy.transcripts.files.transcript.lock", lock)
    assert not one.claim()
    assert refused
    assert not other.claim()
    one.close()
    assert other.claim()
    other.close()
