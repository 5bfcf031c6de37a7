"""Entries that wait to be written keep their order and take limited memory."""

from acp_proxy.proxy.effects import BeginTranscript, BeginTurn, EndTurn, RecordUpdates
from acp_proxy.recording.backlog import PATIENCE_BYTES, Backlog, Dropped


def test_postponed_entries_come_before_later_ones_and_are_taken_once() -> None:
    backlog = Backlog()
    turns = [BeginTurn("1"), BeginTurn("2"), BeginTurn("3")]
    backlog.pending.append((1.0, turns[0]))
    backlog.put_off()
    backlog.pending.append((2.0, turns[1]))
    backlog.put_off()
    backlog.pending.append((3.0, turns[2]))
    assert [effect for _, effect in backlog.taken()] == turns
    assert not backlog.holds_any
    assert not backlog.taken()


def test_beyond_the_limit_only_starts_of_sessions_and_turns_are_kept_and_losses_are_marked() -> None:
    backlog = Backlog()
    begin, turn = BeginTranscript("new", "/project", [], "recorded"), BeginTurn("s")
    words = RecordUpdates("s", b"x" * (PATIENCE_BYTES // 2) + b"\n")
    for effect in (words, turn, words, begin, RecordUpdates("new", b"first\n"), EndTurn("s"), words):
        backlog.pending.append((1.0, effect))
        backlog.put_off()
    assert [effect for _, effect in backlog.taken()] == [Dropped("s"), turn, begin, Dropped("new")]
