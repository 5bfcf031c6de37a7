"""A line too long to be held is written in pieces as one entry; other entries of its session follow it."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.proxy.effects import BeginTranscript, RecordNote, RecordPiece
from acp_proxy.recording.backlog import PATIENCE_BYTES
from acp_proxy.store.store import Store
from acp_proxy.transcript import file_format
from acp_proxy.transcript.appender import Transcript
from tests.recording.hanging import HangingStore, come_back, hang
from tests.recording.notes import (
    MOST_OPEN_FILES,
    Notes,
    clock_at,
    full_disk,
    prompted,
    said,
    update,
)


def pieces(line: bytes, session: str = "s", peer: Peer = Peer.AGENT) -> list[RecordPiece]:
    """A line, in three pieces."""
    cuts = [0, 10, len(line) // 2, len(line)]
    return [
        RecordPiece(session, peer, line[start:end], first=start == 0, last=end == len(line))
        for start, end in itertools.pairwise(cuts)
    ]


def test_other_entries_of_a_session_wait_for_the_end_of_its_long_line(notes: Notes) -> None:
    notes.begin()
    notes.put(BeginTranscript("t", "/project", [], "recorded"), said("0"))
    first, second, third = pieces(update("long") + b"\n")
    notes.put(first, said("1"), said("of another", "t"))
    assert notes.said("t") == ["of another"]
    notes.put(second, RecordNote("s", {"type": "closed"}))
    assert notes.said() == ["0"]
    notes.put(third, said("2"))
    assert notes.said() == ["0", "long", "1", "closed", "2"]


def test_both_sides_may_send_a_long_line_at_once(notes: Notes) -> None:
    notes.begin()
    begin, asked = prompted("asked")
    notes.put(begin)
    longs = pieces(update("said")), pieces(asked.raw, peer=Peer.CLIENT)
    notes.put(*(piece for both in zip(*longs, strict=True) for piece in both), said("1"))
    assert notes.said() == ["said", "asked", "1"]


def test_a_long_line_that_breaks_off_damages_no_other_entry(notes: Notes) -> None:
    notes.begin()
    first, second, third = pieces(update("long"))
    notes.put(first, second, RecordPiece(third.session, third.peer, b"", first=False, last=True), said("1"))
    assert notes.said() == ["1"]
    assert notes.path().read_bytes().endswith(b"\n")


def test_a_long_line_is_held_while_another_process_has_the_file_open(notes: Notes) -> None:
    notes.begin()
    other = Transcript(notes.path())
    long = pieces(update("long"))
    for piece in long:
        notes.put(piece)
        other.append(file_format.encode_note("2026-11-20T09:15:02.123Z", "other1", {"type": "closed"}))
    other.close()
    assert notes.said() == ["closed", "closed", "long", "closed"]
    for piece in long:
        notes.put(piece)
    assert notes.said()[-2:] == ["closed", "long"]


def test_no_process_can_open_the_file_for_appending_during_a_long_line(notes: Notes) -> None:
    notes.begin()
    first, second, third = pieces(update("long"))
    notes.put(first)
    with pytest.raises(BlockingIOError):
        Transcript(notes.path())
    notes.put(second, third)
    Transcript(notes.path()).close()


def test_a_long_line_that_does_not_fit_on_the_disk_is_a_gap(notes: Notes, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = clock_at(monkeypatch)
    notes.begin()
    first, second, third = pieces(update("long" * 1000))
    notes.put(first)
    with full_disk(notes.path().stat().st_size + 100):
        notes.put(second, said("1"))
    clock.seconds += 2
    notes.put(third, said("2"))
    assert notes.said() == ["gap", "2"]


@pytest.mark.parametrize("mask", [None, lambda data: data], ids=["in pieces", "held"])
def test_a_long_line_without_a_part_is_a_gap_and_its_rest_is_dropped(
    tmp_path: Path, mask: Callable[[bytes], bytes] | None
) -> None:
    store = HangingStore(tmp_path / "store")
    notes = Notes(store, mask=mask)
    notes.begin()
    notes.put(BeginTranscript("t", "/project", [], "recorded"), said("0", "t"))
    first, second, third = pieces(update("l" + "o" * PATIENCE_BYTES * 3 + " end of it"))
    notes.put(first)
    stuck = hang(notes, store, said("stuck", "t"))
    notes.put(second)  # too much, while the store hangs
    come_back(store, stuck)
    notes.put(said("of another", "t"))
    notes.put(third, said("1"))
    assert notes.said() == ["gap", "1"]
    assert b"end of it" not in notes.path().read_bytes()
    assert notes.is_recording()


def test_a_long_line_is_given_up_if_too_much_waits_for_its_end(notes: Notes) -> None:
    notes.begin()
    (begin, asked), words = prompted("asked"), "x" * (PATIENCE_BYTES // 4)
    first, second, third = pieces(asked.raw, peer=Peer.CLIENT)
    notes.put(begin, first, second)
    for _ in range(3):
        notes.put(said(words))
    assert notes.said() == []
    notes.put(said("too much" + words))
    assert [text[:8] for text in notes.said()] == ["gap", *["x" * 8] * 3, "too much"]
    notes.put(said("1"), third, said("2"))
    assert notes.said()[-2:] == ["1", "2"]
    assert len(notes.said()) == 7


def test_a_long_line_keeps_its_file_open_while_many_others_are_written(notes: Notes) -> None:
    notes.begin()
    first, second, third = pieces(update("long"))
    notes.put(first)
    for number in range(MOST_OPEN_FILES + 2):
        notes.put(BeginTranscript(str(number), "/project", [], "recorded"), said("1", str(number)))
    notes.put(second, third)
    assert notes.said() == ["long"]


def test_a_delete_ends_the_long_line_of_its_session(notes: Notes) -> None:
    notes.begin()
    first, second, third = pieces(update("long"))
    notes.put(first)
    notes.recorder.delete("s")
    notes.put(second, said("1"), third, *prompted("2"))
    assert notes.said() == ["2"]


def test_a_secret_across_two_pieces_of_a_long_line_is_masked(tmp_path: Path) -> None:
    notes = Notes(Store(tmp_path / "store"), mask=lambda data: data.replace(b"secret", b"******"))
    notes.begin()
    line = update("a secret")
    cut = line.index(b"secret") + 3
    notes.put(RecordPiece("s", Peer.AGENT, line[:cut], first=True, last=False))
    assert b"sec" not in notes.path().read_bytes()
    notes.put(RecordPiece("s", Peer.AGENT, line[cut:], first=False, last=True))
    assert notes.said() == ["a ******"]
