"""What waits to be written down keeps its order, and takes a bounded amount of memory."""

from acp_proxy.core.effects import BeginTranscript, BeginTurn, EndTurn, RecordUpdates
from acp_proxy.recording.backlog import PATIENCE_BYTES, Backlog, Dropped


def test_what_was_put_off_comes_before_what_came_later_and_is_taken_once() -> None:
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


def test_of_too_much_only_what_later_entries_stand_on_is_kept_and_where_something_is_missing() -> None:
    backlog = Backlog()
    begin, turn = BeginTranscript("new", "/project", [], "recorded"), BeginTurn("s")
    words = RecordUpdates("s", b"x" * (PATIENCE_BYTES // 2) + b"\n")
    for effect in (words, turn, words, begin, RecordUpdates("new", b"first\n"), EndTurn("s"), words):
        backlog.pending.append((1.0, effect))
        backlog.put_off()
    assert [effect for _, effect in backlog.taken()] == [Dropped("s"), turn, begin, Dropped("new")]
