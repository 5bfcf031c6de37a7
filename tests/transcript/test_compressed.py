"""A compressed transcript is read like the plain one, even if damaged."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_proxy.sessions.raw_lines import read_raw_lines
from acp_proxy.transcript import compressed as compressed_files
from acp_proxy.transcript.appender import TranscriptAppender
from acp_proxy.transcript.compressed import CHUNK, PIECE, CompressedTranscript, compress_chunks
from acp_proxy.transcript.file_access import open_private
from acp_proxy.transcript.file_names import compressed_path
from acp_proxy.transcript.reader import TranscriptReader
from tests.store import transcript_lines
from tests.store.compressible import decode_before

DATA = b"".join(transcript_lines.agent_chunk(f"{number} and {number * 7919 % 1000}") for number in range(20_000))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "transcript.jsonl"
    transcript = TranscriptAppender(path, transcript_lines.header())
    transcript.append(DATA)
    transcript.close()
    return path


def compress(path: Path) -> Path:
    data = path.read_bytes()
    compressed_path(path).write_bytes(b"".join(compress_chunks(iter([data]), len(data))))
    path.unlink()
    return compressed_path(path)


@pytest.fixture
def opened(path: Path) -> Iterator[tuple[CompressedTranscript, bytes]]:
    data = path.read_bytes()
    fd = open_private(compress(path), os.O_RDONLY)
    yield CompressedTranscript(fd), data
    os.close(fd)


def test_a_compressed_file_can_be_read_at_any_offset(opened: tuple[CompressedTranscript, bytes]) -> None:
    file, data = opened
    assert file.size == len(data) > CHUNK
    chance = random.Random(0)
    for _ in range(50):
        at, size = chance.randrange(len(data) + 10), chance.choice((0, 1, 100, 65_536, CHUNK + 1))
        assert file.read(size, at) == data[at : at + size]
    assert not file.is_damaged


def test_a_compressed_transcript_has_the_entries_of_the_plain_one(path: Path) -> None:
    plain = TranscriptReader(path)
    before = (
        list(plain.read_lines()),
        plain.header,
        plain.size,
        plain.is_complete,
        b"".join(plain.read_bytes(plain.entries_start)),
    )
    plain.close()
    compress(path)
    reader = TranscriptReader(path)
    assert (
        list(reader.read_lines()),
        reader.header,
        reader.size,
        reader.is_complete,
        b"".join(reader.read_bytes(reader.entries_start)),
    ) == before
    some = before[0][1000]
    assert next(reader.read_lines(some.end, some.number + 1)) == before[0][1001]
    reader.close()


def test_the_plain_file_wins_over_the_compressed_one(path: Path) -> None:
    data = path.read_bytes()
    compress(path)
    path.write_bytes(data + transcript_lines.agent_chunk("more"))
    reader = TranscriptReader(path)
    assert (reader.size, reader.compressed) == (len(data) + len(transcript_lines.agent_chunk("more")), None)
    reader.close()


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        TranscriptReader(tmp_path / "transcript.jsonl")


def test_a_frame_without_its_size_can_be_read(path: Path) -> None:
    data = path.read_bytes()
    told = compress(path)
    known = told.read_bytes()
    unknown = b"".join(compress_chunks(iter([data]), None))
    assert len(unknown) != len(known)
    told.write_bytes(unknown)
    reader = TranscriptReader(path)
    assert reader.size == len(data)
    assert reader.is_complete
    reader.close()


@pytest.mark.parametrize("seed", range(40))
def test_everything_before_damage_is_read(path: Path, seed: int) -> None:
    data = path.read_bytes()
    told, chance = compress(path), random.Random(seed)
    frame = bytearray(told.read_bytes())
    at = chance.randrange(len(frame))
    intact = decode_before(bytes(frame), at)
    assert len(intact) >= 100_000 or at < 4 * PIECE
    match chance.choice(("cut", "turned", "zeroed")):
        case "cut":
            del frame[at:]
        case "turned":
            frame[at] ^= 1 << chance.randrange(8)
        case _:
            frame[at : at + 512] = bytes(len(frame[at : at + 512]))
    told.write_bytes(frame)
    reader = TranscriptReader(path)
    read = reader.first_line[: reader.header_size] + b"".join(line for _, _, line in read_raw_lines(reader))
    assert reader.compressed is not None
    assert reader.compressed.is_damaged
    assert not reader.is_complete
    reader.close()
    assert read != data
    assert data.startswith(intact)
    assert read.startswith(intact)


@pytest.mark.parametrize("apart", [1, 2, 3, 4])
def test_a_wrong_checksum_is_damage_even_if_read_separately(
    path: Path, monkeypatch: pytest.MonkeyPatch, apart: int
) -> None:
    data = path.read_bytes()
    told = compress(path)
    frame = bytearray(told.read_bytes())
    frame[-1] ^= 1
    told.write_bytes(frame)
    monkeypatch.setattr(compressed_files, "PIECE", len(frame) - apart)
    reader = TranscriptReader(path)
    assert sum(len(line) for _, _, line in read_raw_lines(reader)) == len(data) - reader.header_size
    assert reader.compressed is not None
    assert reader.compressed.is_damaged
    reader.close()
