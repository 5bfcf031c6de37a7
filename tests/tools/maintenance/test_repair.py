"""A damaged transcript is repaired in place, after a backup, while others may have it open."""

import os
import stat
from pathlib import Path

import pytest

from acp_proxy.errors import Unmendable
from acp_proxy.store.layout import lock_folder
from acp_proxy.tools.maintenance.repair import repair_transcript
from acp_proxy.transcript import file_format
from acp_proxy.transcript.appender import TranscriptAppender
from acp_proxy.transcript.file_format import Header
from acp_proxy.transcript.file_names import file_name
from acp_proxy.transcript.reader import TranscriptReader
from tests.store import transcript_lines

HEADER = file_format.encode_header(transcript_lines.header())
ONE, TWO, THREE = (transcript_lines.agent_chunk(text, at=at) for at, text in enumerate(("one", "two", "three")))
LONG_AGO = 1_000_000_000
GAP = file_format.encode_note(transcript_lines.time(0), "repair", {"type": "gap", "reason": "repair"})[:-1]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / f"{file_name(transcript_lines.SESSION)}.jsonl"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "backups" / "agent" / "copy.jsonl"


def write(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    os.utime(path, (LONG_AGO, LONG_AGO))


def read(path: Path) -> tuple[Header | None, list[str], bool]:
    """The header, the messages (for notes, their types), and whether it is complete."""
    reader = TranscriptReader(path)
    try:
        entries = [line.entry for line in reader.read_lines()]
        said = [
            "damage" if entry is None else str(entry.note["type"]) if entry.note else spoken(entry) for entry in entries
        ]
        return reader.header, said, reader.is_complete
    finally:
        reader.close()


def spoken(entry: file_format.Entry) -> str:
    assert isinstance(entry.value, dict)
    return str(entry.value["params"]["update"]["content"]["text"])


@pytest.mark.parametrize("data", [HEADER, HEADER + ONE, HEADER + ONE[:-1], HEADER + ONE[:-1] + TWO, ONE + TWO])
def test_an_intact_file_is_neither_changed_nor_copied(path: Path, copy: Path, data: bytes) -> None:
    write(path, data)
    assert repair_transcript(path, copy) == 0
    assert path.read_bytes() == data
    assert not copy.parent.exists()


def test_a_damaged_line_becomes_a_gap_note_with_the_time_of_the_entry_before(path: Path, copy: Path) -> None:
    torn = transcript_lines.agent_chunk("x" * 300)[:-9]
    write(path, HEADER + ONE + torn + b"\n" + TWO)
    assert repair_transcript(path, copy) == 1
    assert path.read_bytes() == HEADER + ONE + GAP.ljust(len(torn)) + b"\n" + TWO
    assert read(path) == (transcript_lines.header(), ["one", "gap", "two"], False)


def test_the_backup_has_the_old_content_and_is_private(path: Path, copy: Path) -> None:
    before = HEADER + b"\0" * 200 + ONE
    write(path, before)
    repair_transcript(path, copy)
    assert copy.read_bytes() == before
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert stat.S_IMODE(copy.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("size", [1, 2, 3, 50, 99, 100, 101, 102, 103, 104, 105, 200])
def test_entries_on_a_damaged_line_get_their_own_lines(path: Path, copy: Path, size: int) -> None:
    write(path, HEADER + ONE[:-1] + b"\0" * size + TWO[:-1] + b"#" * size + b"\n" + THREE)
    repair_transcript(path, copy)
    lines = path.read_bytes().split(b"\n")
    assert [line for line in lines if line.strip() and b'"run":"repair"' not in line] == [
        line[:-1] for line in (HEADER, ONE, TWO, THREE)
    ]
    _, said, complete = read(path)
    assert [text for text in said if text != "gap"] == ["one", "two", "three"]
    assert not complete


def test_a_gap_note_that_does_not_fit_is_appended(path: Path, copy: Path) -> None:
    write(path, HEADER + ONE + b"{\n" + TWO + b"{")
    repair_transcript(path, copy)
    at_end = file_format.encode_note(transcript_lines.time(1), "repair", {"type": "gap", "reason": "repair"})
    assert path.read_bytes() == HEADER + ONE + b" \n" + TWO + b"\n" + at_end


def test_a_torn_end_is_closed_before_another_process_appends(path: Path, copy: Path) -> None:
    write(path, HEADER + ONE)
    proxy = TranscriptAppender(path)
    with path.open("ab") as another:
        another.write(transcript_lines.agent_chunk("x" * 300)[:-9])
    os.utime(path, (LONG_AGO, LONG_AGO))
    repair_transcript(path, copy)
    proxy.append(TWO)
    proxy.close()
    assert read(path) == (transcript_lines.header(), ["one", "gap", "two"], False)


def test_a_damaged_gap_note_is_replaced_by_another(path: Path, copy: Path) -> None:
    gap = file_format.encode_note("2026-11-20T09:15:04.123Z", "k3f9a1", {"type": "gap", "since": "x", "reason": "EIO"})
    write(path, HEADER + ONE + gap.replace(b',"from"', b',\n"from"') + TWO)
    repair_transcript(path, copy)
    assert read(path)[2] is False


def test_a_second_header_is_removed_without_a_gap(path: Path, copy: Path) -> None:
    write(path, HEADER + HEADER + ONE)
    assert repair_transcript(path, copy) == 1
    assert read(path) == (transcript_lines.header(), ["one"], True)


def test_a_very_long_damage_is_blanked_in_pieces(path: Path, copy: Path) -> None:
    noise = b"noise\n" * 20_000 + b"\0" * 2_500_000
    write(path, HEADER + ONE + noise + TWO)
    repair_transcript(path, copy)
    assert read(path)[1] == ["one", "gap", "two"]
    assert path.stat().st_size == len(HEADER + ONE + noise + TWO)
    assert path.read_bytes().count(b"\n" + TWO) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [(b'"sess-1"', b'"sess-3"'), (b'"sess-1"', b'"sess-1\0'), (b'{"acp', b'{"ac\0'), (b"recorded", b"recorde\xff")],
)
def test_a_broken_header_is_remade_in_place(path: Path, copy: Path, old: bytes, new: bytes) -> None:
    write(path, HEADER.replace(old, new) + ONE)
    repair_transcript(path, copy)
    header, said, complete = read(path)
    assert header == transcript_lines.header(origin=file_format.PARTIAL)
    assert (said, complete) == (["one"], False)
    assert path.read_bytes().endswith(b"\n" + ONE)


def test_a_header_broken_into_several_lines_is_remade(path: Path, copy: Path) -> None:
    broken = HEADER[:37] + b"\n" + HEADER[37:-1]
    write(path, broken + ONE)
    repair_transcript(path, copy)
    header, said, _ = read(path)
    assert header is not None
    assert (header.session_id, header.cwd, said) == (transcript_lines.SESSION, None, ["one"])


def test_the_ids_of_a_forks_parents_come_from_its_entries(path: Path, copy: Path) -> None:
    write(
        path,
        HEADER.replace(b'"acp', b'"\0cp').replace(b"}\n", b" " * 99 + b"}\n")
        + transcript_lines.agent_chunk("x", session="p")
        + ONE,
    )
    repair_transcript(path, copy)
    header, _, _ = read(path)
    assert header is not None
    assert header.forked_from == ["p"]


def test_a_header_without_room_is_not_remade(path: Path, copy: Path) -> None:
    write(path, HEADER[:60] + b"\n" + ONE + b"\0" * 200 + b"\n" + TWO)
    assert repair_transcript(path, copy) == 1
    assert path.read_bytes().startswith(HEADER[:60] + b"\n" + ONE)
    assert read(path)[1] == ["damage", "one", "gap", "two"]


@pytest.mark.parametrize("data", [b"\0" * 99, HEADER[:20], b"\x7fELF\n\n\0", HEADER.replace(b"sess-1", b"sess-2")])
def test_a_file_without_a_session_is_not_changed(path: Path, copy: Path, data: bytes) -> None:
    write(path, data)
    with pytest.raises(Unmendable, match="was not changed"):
        repair_transcript(path, copy)
    assert path.read_bytes() == data


def test_two_repairs_of_one_folder_exclude_each_other(path: Path, copy: Path) -> None:
    write(path, HEADER + b"\0" * 200 + ONE)
    with lock_folder(path.parent), pytest.raises(Unmendable, match="Try again"):
        repair_transcript(path, copy)
    assert repair_transcript(path, copy) == 1


def test_a_proxy_recognises_its_file_after_the_repair_of_the_header(path: Path, copy: Path) -> None:
    for broken in (HEADER.replace(b"sess-1", b"sess-2"), b"\0" * len(HEADER[:-1]) + b"\n"):
        write(path, broken + ONE)
        proxy = TranscriptAppender(path)
        identity = proxy.identity
        repair_transcript(path, copy)
        copy.unlink()
        assert proxy.has_identity(identity)
        proxy.close()
