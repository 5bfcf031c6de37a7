"""Lines are appended whole, whatever the file contained before."""

import os
import stat
import threading
from pathlib import Path

import pytest

from acp_proxy.transcript import file_access
from acp_proxy.transcript.appender import TranscriptAppender
from acp_proxy.transcript.reader import TranscriptReader
from tests.store import transcript_lines
from tests.store.concurrent_writers import run_together
from tests.store.concurrent_writers import text as written_text
from tests.store.full_disk import run_on_full_disk
from tests.transcript.transcript_file import HEADER, append_lines, open_to_read, read_lines, read_texts, text_of
from tests.waiting import SECONDS


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


def test_a_new_transcript_is_private_and_begins_with_its_header(path: Path) -> None:
    TranscriptAppender(path, transcript_lines.header()).close()
    assert path.read_bytes() == HEADER
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_existing_transcript_is_continued_with_its_header(path: Path) -> None:
    TranscriptAppender(path, transcript_lines.header()).close()
    transcript = TranscriptAppender(path, transcript_lines.header("another", "/elsewhere"))
    transcript.append(transcript_lines.agent_chunk("one"))
    transcript.close()
    append_lines(path, transcript_lines.agent_chunk("two"))
    assert path.read_bytes() == HEADER + transcript_lines.agent_chunk("one") + transcript_lines.agent_chunk("two")


def test_an_empty_file_gets_a_header(path: Path) -> None:
    path.touch()
    TranscriptAppender(path, transcript_lines.header()).close()
    assert path.read_bytes() == HEADER


def test_no_file_is_created_without_a_header(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        TranscriptAppender(path)
    assert not path.exists()


def test_an_appended_line_can_be_read_at_once(path: Path) -> None:
    transcript = TranscriptAppender(path, transcript_lines.header())
    transcript.append(transcript_lines.agent_chunk("one"))
    assert path.read_bytes() == HEADER + transcript_lines.agent_chunk("one")
    transcript.fsync()
    transcript.close()


@pytest.mark.parametrize(
    "torn",
    [
        b"{",
        transcript_lines.agent_chunk("torn")[:50],
        transcript_lines.agent_chunk("ä€")[:-12],
        "é".encode()[:1],
        b"\0",
        b" ",
        transcript_lines.agent_chunk("whole")[:-1],
    ],
    ids=["brace", "half", "in a text", "half a character", "nul", "blank", "only its newline"],
)
def test_an_append_after_a_torn_line_begins_a_new_line(path: Path, torn: bytes) -> None:
    path.write_bytes(HEADER + transcript_lines.agent_chunk("one") + torn)
    append_lines(path, transcript_lines.agent_chunk("two"), transcript_lines.agent_chunk("three"))
    assert path.read_bytes() == HEADER + transcript_lines.agent_chunk(
        "one"
    ) + torn + b"\n" + transcript_lines.agent_chunk("two") + transcript_lines.agent_chunk("three")


def test_a_line_torn_by_another_process_does_not_damage_the_next(path: Path) -> None:
    ours = TranscriptAppender(path, transcript_lines.header())
    ours.append(transcript_lines.agent_chunk("one"))
    with path.open("ab") as theirs:
        theirs.write(transcript_lines.agent_chunk("torn")[:-9])
    ours.append(transcript_lines.agent_chunk("two"))
    ours.append(transcript_lines.agent_chunk("three"))
    ours.close()
    assert read_texts(path) == ["one", "two", "three"]


def test_two_processes_can_append_at_once(path: Path) -> None:
    lines = 150
    run_together(("append", path, "one", str(lines)), ("append", path, "two", str(lines)))
    found = read_lines(path)
    with open_to_read(path) as opened:
        assert opened.header is not None
    for name in ("one", "two"):
        of_one = [text_of(line) for line in found if line.entry is not None and line.entry.run == name]
        assert of_one == [written_text(name, number) for number in range(lines)]


def test_a_half_written_header_is_waited_for(path: Path) -> None:
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    file_access.lock(fd)  # like the process that writes it
    os.write(fd, HEADER[:20])

    def append_line() -> None:
        transcript = TranscriptAppender(path, transcript_lines.header())
        transcript.append(transcript_lines.agent_chunk("mine"))
        transcript.close()

    other = threading.Thread(target=append_line)
    other.start()
    other.join(0.2)  # it would end by now if it did not wait
    os.ftruncate(fd, 0)  # as if there were no room for the rest
    os.close(fd)
    other.join(SECONDS)
    assert path.read_bytes() == HEADER + transcript_lines.agent_chunk("mine")


def test_a_write_in_progress_is_waited_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    TranscriptAppender(path, transcript_lines.header()).close()
    line = transcript_lines.agent_chunk("theirs")
    with path.open("ab", buffering=0) as another:
        another.write(line[:20])
        monkeypatch.setattr("time.sleep", lambda seconds: another.write(line[20:]))
        transcript = TranscriptAppender(path)
    transcript.append(transcript_lines.agent_chunk("mine"))
    transcript.close()
    assert path.read_bytes() == HEADER + line + transcript_lines.agent_chunk("mine")


@pytest.mark.parametrize("size", [1000, 1001, 1050, 1101, 1150])
def test_a_full_disk_keeps_whole_lines_and_later_lines_are_whole(path: Path, size: int) -> None:
    [said] = run_on_full_disk("append", path, size)
    number, problem = said.split()
    assert int(number) >= 1
    assert problem == "EFBIG"
    texts = [text for text in read_texts(path) if text is not None]
    assert texts == [*(f"{line} ä" for line in range(int(number))), "room again"]
    assert path.read_bytes().endswith(b"\n" + transcript_lines.agent_chunk("room again"))


def test_a_line_that_exactly_fills_the_disk_is_kept(path: Path) -> None:
    assert run_on_full_disk("append", path, len(HEADER + transcript_lines.agent_chunk("0 ä"))) == ["1 EFBIG"]
    assert path.read_bytes() == HEADER + transcript_lines.agent_chunk("0 ä") + b"\n" + transcript_lines.agent_chunk(
        "room again"
    )
    assert read_texts(path) == ["0 ä", "room again"]


@pytest.mark.parametrize("size", [0, 1, len(HEADER) - 1])
def test_a_header_that_does_not_fit_is_removed(path: Path, size: int) -> None:
    assert run_on_full_disk("append", path, size) == ["none EFBIG"]
    assert path.read_bytes() == HEADER + transcript_lines.agent_chunk("room again")


def test_a_deleted_file_has_lost_its_name(path: Path) -> None:
    transcript = TranscriptAppender(path, transcript_lines.header())
    assert transcript.is_at_its_path()
    path.unlink()
    assert not transcript.is_at_its_path()
    transcript.append(transcript_lines.agent_chunk("into the void"))
    assert not path.exists()
    transcript.close()


def test_a_replaced_file_has_lost_its_name(path: Path) -> None:
    first = TranscriptAppender(path, transcript_lines.header())
    path.rename(path.with_name("aside.jsonl"))
    assert not first.is_at_its_path()
    second = TranscriptAppender(path, transcript_lines.header())
    assert second.is_at_its_path()
    assert not first.is_at_its_path()
    first.close()
    second.close()


def test_a_link_or_directory_in_place_of_a_transcript_raises_an_oserror(path: Path, tmp_path: Path) -> None:
    path.symlink_to(tmp_path / "target")
    with pytest.raises(OSError):
        TranscriptAppender(path, transcript_lines.header())
    assert not (tmp_path / "target").exists()
    path.unlink()
    path.mkdir()
    with pytest.raises(OSError):
        TranscriptAppender(path, transcript_lines.header())
    with pytest.raises(OSError):
        TranscriptReader(path)


def test_a_pipe_in_place_of_a_transcript_raises_at_once(path: Path) -> None:
    os.mkfifo(path)
    for opening in (lambda: TranscriptReader(path), lambda: TranscriptAppender(path, transcript_lines.header())):
        with pytest.raises(OSError, match="Invalid argument"):
            opening()


def test_a_part_of_any_size_is_written_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel may take a part of what it is given, for example when the disk is nearly full."""
    one = TranscriptAppender(tmp_path / "s.jsonl", transcript_lines.header())
    before = (tmp_path / "s.jsonl").read_bytes()
    monkeypatch.setattr(
        os, "writev", lambda fd, parts: os.write(fd, b"".join(parts)[: len(parts[0]) + 5]), raising=False
    )
    parts: list[bytes | memoryview] = [b"begin", b"x" * 100_000, memoryview(b"end?")[:-1], b"\n"]
    one.append(*parts)
    one.append(b"short", b"\n")
    one.close()
    assert (tmp_path / "s.jsonl").read_bytes() == before + b"".join(parts) + b"short\n"
