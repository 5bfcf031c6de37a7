"""Damage is reported by its place, its look, and the entries around it."""

from functools import partial
from pathlib import Path

import pytest

from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.store.journal import DELETED, Event, Journal
from acp_proxy.tools.maintenance import damage
from acp_proxy.tools.maintenance.damage import DamagedStretch, Neighbour
from acp_proxy.transcript import file_access, file_format
from acp_proxy.transcript.reader import TranscriptReader, split_file
from tests.store import transcript_lines

HEADER = file_format.encode_header(transcript_lines.header())
ONE, TWO, THREE = (transcript_lines.agent_chunk(text, at=at) for at, text in enumerate(("one", "two", "three")))


def stretches(path: Path, data: bytes) -> list[DamagedStretch]:
    path.write_bytes(data)
    reader = TranscriptReader(path)
    try:
        return list(damage.find_in_transcript(reader))
    finally:
        reader.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


@pytest.mark.parametrize(
    "data",
    [b"", HEADER, HEADER + ONE + TWO, HEADER + b"\n  \n" + ONE, ONE, HEADER + ONE[:-1], HEADER + ONE[:-1] + TWO],
)
def test_an_intact_file_has_no_damage(path: Path, data: bytes) -> None:
    assert stretches(path, data) == []


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        (ONE[:40], damage.TORN),
        (b"\0" * 512, damage.NUL),
        (b"npm WARN", damage.NO_ENTRY),
        (b'{"level":"info"}', damage.OF_ANOTHER_PROGRAM),
        (b"42", damage.OF_ANOTHER_PROGRAM),
        (ONE[:-1].replace(b'"agent"', b'"agdnt"'), damage.UNKNOWN),
        (HEADER[:-1], damage.SECOND_HEADER),
        (b"\xff\xfe", damage.NO_ENTRY),
    ],
)
def test_damage_is_reported_with_the_entries_around_it(path: Path, what: bytes, kind: str) -> None:
    last = Neighbour(2, transcript_lines.time(1), "agent agent_message_chunk")
    following = Neighbour(4, transcript_lines.time(2), "agent agent_message_chunk")
    [found] = stretches(path, HEADER + TWO + what + b"\n" + THREE)
    assert found == DamagedStretch(3, len(HEADER + TWO), len(what), (kind,), last=last, next=following)


def test_adjacent_damaged_lines_are_one_stretch(path: Path) -> None:
    [found] = stretches(path, HEADER + b"\0\0\n\nnoise\n\0" + ONE)
    assert (found.line, found.length, found.kinds) == (2, len(b"\0\0\n\nnoise\n\0"), (damage.NUL, damage.NO_ENTRY))
    assert (found.behind, found.before, found.ends) == (False, True, False)


def test_damage_on_a_line_with_entries_says_on_which_side_they_are(path: Path) -> None:
    between, last = stretches(path, HEADER + ONE[:-1] + b"\0" + TWO[:-1] + b"xy\n" + THREE)
    assert (between.length, between.behind, between.before) == (1, True, True)
    assert (last.length, last.behind, last.before) == (2, True, False)
    [after_header] = stretches(path, HEADER[:-1] + b"*" + ONE)
    assert (after_header.offset, after_header.begins, after_header.behind) == (len(HEADER) - 1, False, True)


def test_an_incomplete_last_line_is_a_torn_end(path: Path) -> None:
    for torn in (TWO[:30], b"{", "é".encode()[:1]):
        [found] = stretches(path, HEADER + ONE + torn)
        assert (found.kinds, found.ends, found.length) == ((damage.TORN_END,), True, len(torn))
    [found] = stretches(path, HEADER + ONE + b"\0" * 9)
    assert (found.kinds, found.ends) == ((damage.NUL,), True)


def test_a_file_without_an_intact_header_has_a_broken_header(path: Path) -> None:
    for broken in (HEADER[:30] + b"\n", b"\0" * 99 + b"\n", HEADER.replace(b'"sessionId"', b'"sessionIe"')):
        [found] = stretches(path, broken + ONE)
        assert (found.kinds, found.begins, found.offset) == ((damage.BROKEN_HEADER,), True, 0)


def test_entries_are_named_by_sender_and_kind() -> None:
    lines = [
        transcript_lines.prompt_line("x"),
        transcript_lines.answer(),
        transcript_lines.agent_chunk("x"),
        transcript_lines.note("opened"),
        transcript_lines.message({"id": 1}, Peer.AGENT),
    ]
    assert [damage.describe_entry(transcript_lines.entry(line)) for line in lines] == [
        "client session/prompt",
        "agent answers session/prompt",
        "agent agent_message_chunk",
        "note opened",
        "agent message",
    ]


def test_damage_of_a_journal_is_found(tmp_path: Path) -> None:
    path = tmp_path / "state.jsonl"
    journal = Journal(path)
    journal.append(Event(DELETED, "a"), transcript_lines.time(0))
    with path.open("ab") as file:
        file.write(b"\0\0\0")
    journal.append(Event(DELETED, "b"), transcript_lines.time(0))
    with path.open("rb") as file:
        [found] = damage.find_in_journal(
            split_file(partial(file_access.read_at, file.fileno()), 0, path.stat().st_size)
        )
    assert (found.line, found.length) == (2, 3)
