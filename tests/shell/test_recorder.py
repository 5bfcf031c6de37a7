"""What is added is in the files after a flush, in that order; trouble suspends a session, and ends with a note."""

import itertools
import json
import os
import resource
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from acp_proxy.core.effects import (
    Begin,
    BeginTurn,
    EndTurn,
    Forget,
    Identify,
    Keep,
    KeepNote,
    KeepPiece,
    KeepUpdates,
    Recording,
)
from acp_proxy.shell.backlog import PATIENCE_BYTES
from acp_proxy.shell.recorder import Recorder, Stalled
from acp_proxy.transcripts.journal import DELETED, Journal
from acp_proxy.transcripts.store import Store
from acp_proxy.transcripts.transcript import Transcript
from acp_proxy.wire import record
from acp_proxy.wire.jsonrpc import Peer
from tests.shell.hanging import HangingStore

SECONDS = 20.0
NAME = "some-agent"
MOST_OPEN_FILES = 64


class Notes:
    """A recorder over a real store, and what it said."""

    def __init__(self, store: Store, *, fsync: str = "turn", mask: Callable[[bytes], bytes] | None = None) -> None:
        self.store = store
        self.warnings: list[str] = []
        self.recorder = Recorder(store, ["agent"], None, fsync, self.warnings.append, mask)

    def put(self, *effects: Recording) -> None:
        for effect in effects:
            self.recorder.add(effect)
        self.recorder.flush()

    def begin(self, session: str = "s", *, origin: str = "recorded") -> None:
        self.put(Identify(NAME, "1.0"), Begin(session, "/project", [], origin))

    def kept(self, session: str = "s") -> list[dict[str, Any]]:
        """The entries of a transcript that can be read, without the header."""
        reading = self.store.read(self.recorder.agent, session)
        try:
            values = [line.entry for line in reading.lines()]
        finally:
            reading.close()
        return [{"value": one.value, "note": one.note, "of": one.of, "peer": one.peer} for one in values if one]

    def said(self, session: str = "s") -> list[Any]:
        """The texts of the updates that are kept; a note stands as its type."""
        return [entry["note"]["type"] if entry["note"] else text_of(entry["value"]) for entry in self.kept(session)]

    def is_recording(self) -> bool:
        return self.recorder.is_recording

    def is_complete(self, session: str = "s") -> bool:
        reading = self.store.read(self.recorder.agent, session)
        try:
            return reading.is_complete
        finally:
            reading.close()

    def path(self, session: str = "s") -> Path:
        [found] = [
            path
            for path in self.store.root.glob("transcripts/*/*.jsonl")
            if path.name != "state.jsonl" and json.loads(path.read_bytes().split(b"\n")[0])["sessionId"] == session
        ]
        return found


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    return Notes(Store(tmp_path / "store"))


def update(text: str, session: str = "s") -> bytes:
    content = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    return json.dumps({"method": "session/update", "params": {"sessionId": session, "update": content}}).encode()


def said(text: str, session: str = "s") -> Keep:
    return Keep(session, Peer.AGENT, update(text, session))


def prompted(text: str, session: str = "s") -> tuple[BeginTurn, Keep]:
    message = {"id": 1, "method": "session/prompt", "params": {"sessionId": session, "prompt": text}}
    return BeginTurn(session), Keep(session, Peer.CLIENT, json.dumps(message).encode())


def text_of(value: Any) -> str:
    params = value["params"]
    return str(params["prompt"] if "prompt" in params else params["update"]["content"]["text"])


@contextmanager
def full_disk(after: int = 0) -> Iterator[None]:
    """No file of this process can grow past so many bytes."""
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (after, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


# What is kept, and where.


def test_lines_of_several_sessions_go_to_their_own_files_in_the_order_in_which_they_were_added(notes: Notes) -> None:
    notes.begin("a")
    notes.put(Begin("b", "/project", [], "recorded"))
    notes.put(said("1", "a"), said("2", "b"), said("3", "a"), said("4", "a"), said("5", "b"))
    assert notes.said("a") == ["1", "3", "4"]
    assert notes.said("b") == ["2", "5"]
    assert notes.warnings == []


def test_the_header_says_what_the_session_is_and_whose(notes: Notes) -> None:
    notes.put(Identify(NAME, "1.0"), Begin("s", "/project", ["/more"], "recorded"), said("1"))
    reading = notes.store.read(notes.recorder.agent, "s")
    header = reading.header
    reading.close()
    assert header is not None
    assert (header.session, header.cwd, header.origin, header.directories) == ("s", "/project", "recorded", ["/more"])
    assert header.agent == {"id": notes.recorder.agent, "name": NAME, "version": "1.0"}


def test_an_answer_says_what_it_answers_and_a_note_is_ours(notes: Notes) -> None:
    notes.begin()
    notes.put(Keep("s", Peer.AGENT, b'{"id":1,"result":{}}', "session/prompt"), KeepNote("s", {"type": "closed"}))
    answer, note = notes.kept()
    assert (answer["peer"], answer["of"], answer["value"]) == (Peer.AGENT, "session/prompt", {"id": 1, "result": {}})
    assert (note["peer"], note["note"]) == (None, {"type": "closed"})


def test_updates_that_nobody_looked_into_are_kept_line_by_line(notes: Notes) -> None:
    notes.begin()
    notes.put(KeepUpdates("s", update("1") + b"\n" + update("2") + b"\n"), said("3"))
    assert notes.said() == ["1", "2", "3"]


def test_a_line_that_is_no_json_is_kept_byte_for_byte(notes: Notes) -> None:
    raw = b'{"method":"session/update","params":{"a":"\\ud800","n":1.0, "b":\xff"\xff"}}'
    notes.begin()
    notes.put(Keep("s", Peer.AGENT, raw))
    reading = notes.store.read(notes.recorder.agent, "s")
    [line] = reading.lines()
    reading.close()
    assert line.entry is not None
    assert line.entry.raw == raw


def test_nothing_waits_in_a_buffer_of_ours_after_a_flush(notes: Notes) -> None:
    notes.begin()
    notes.put(said("1"))
    assert text_of(json.loads(notes.path().read_bytes().split(b"\n")[1])["message"]) == "1"


def test_a_session_that_is_known_already_is_gone_on_with(notes: Notes) -> None:
    notes.begin()
    notes.put(said("1"), Begin("s", "/elsewhere", [], "partial"), said("2"))
    assert notes.said() == ["1", "2"]
    assert notes.is_complete()


def test_an_id_that_the_agent_gives_again_begins_a_new_transcript(notes: Notes) -> None:
    notes.begin()
    notes.put(said("old"), Begin("s", "/project", [], "recorded"), said("new"))
    assert notes.said() == ["new"]
    assert sorted(path.name.count("~") for path in notes.store.root.glob("transcripts/*/*-*.jsonl")) == [0, 1]


def test_a_prompt_leaves_a_mark_for_the_index_and_the_end_of_a_turn_is_told(notes: Notes) -> None:
    ended: list[str] = []
    notes.recorder.on_turn_end = ended.append
    notes.begin()
    assert list(notes.store.root.glob("unindexed/*/*")) == []
    notes.put(*prompted("hello"))
    assert len(list(notes.store.root.glob("unindexed/*/*"))) == 1
    assert ended == []
    notes.put(EndTurn("s"))
    assert ended == ["s"]


def test_where_no_mark_can_be_made_the_words_are_kept_and_the_mark_is_made_when_it_can(notes: Notes) -> None:
    notes.begin()
    directory = notes.store.root / "unindexed"
    directory.rmdir()
    directory.touch()
    notes.put(*prompted("first"), said("1"))
    assert notes.said() == ["first", "1"]
    assert notes.is_complete()
    assert notes.warnings == []
    directory.unlink()
    notes.put(said("2"))
    assert [path.name for path in directory.glob("*/*")] == [notes.path().stem]


def test_what_is_recorded_again_in_the_middle_of_a_turn_has_a_mark(
    notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = clock_at(monkeypatch)
    notes.begin()
    with full_disk():
        notes.put(*prompted("lost"))
    shutil.rmtree(notes.store.root / "unindexed")
    now.seconds += 10
    notes.put(said("kept"))
    assert notes.said() == ["gap", "kept"]
    assert [path.name for path in notes.store.root.glob("unindexed/*/*")] == [notes.path().stem]


def test_more_sessions_than_files_may_be_open_are_all_kept(notes: Notes) -> None:
    names = [f"s{number}" for number in range(100)]
    notes.begin("first")
    for turn in ("1", "2"):
        for name in names:
            notes.put(*([Begin(name, "/project", [], "recorded")] if turn == "1" else []), said(turn, name))
    root = str(notes.store.root)
    assert sum(file.path.startswith(root) for file in psutil.Process().open_files()) <= MOST_OPEN_FILES
    assert all(notes.said(name) == ["1", "2"] for name in names)


def test_what_follows_a_delete_is_not_kept_until_the_next_prompt(notes: Notes) -> None:
    notes.begin()
    notes.put(*prompted("first"), said("1"))
    notes.recorder.delete("s")
    notes.put(said("2"))
    assert list(notes.store.root.glob("transcripts/*/s-*.jsonl")) == []
    notes.put(*prompted("again"), said("3"))
    assert notes.said() == ["again", "3"]
    assert not notes.is_complete()
    assert notes.store.deleted(notes.recorder.agent) == frozenset()


def test_a_session_that_another_process_deleted_is_not_brought_back_but_by_a_prompt(notes: Notes) -> None:
    notes.begin()
    notes.put(*prompted("first"), said("1"))
    Store(notes.store.root).delete(notes.recorder.agent, "s")
    notes.put(said("2"))
    assert list(notes.store.root.glob("transcripts/*/s-*.jsonl")) == []
    notes.put(*prompted("again"))
    assert notes.said() == ["again"]
    assert notes.warnings == []


def test_updates_of_a_session_that_was_deleted_in_an_earlier_run_make_no_file(notes: Notes) -> None:
    notes.begin("other")
    notes.store.delete(notes.recorder.agent, "s")
    notes.put(Begin("s", None, [], "partial"), said("1"))
    assert list(notes.store.root.glob("transcripts/*/s-*.jsonl")) == []
    assert notes.is_recording()
    assert notes.warnings == []
    notes.put(*prompted("again"))
    assert notes.said() == ["again"]


def test_a_prompt_in_a_session_whose_delete_was_cut_short_brings_none_of_it_back(notes: Notes) -> None:
    notes.begin()
    notes.put(*prompted("first"), said("1"))
    path = notes.path()
    Journal(path.with_name("state.jsonl")).append(DELETED, "s", "")  # by another process, which died of it
    notes.put(*prompted("again"), said("2"))
    assert notes.said() == ["again", "2"]
    assert not notes.is_complete()
    assert b"first" not in path.read_bytes()


def test_a_delete_sees_what_was_added_before_it(notes: Notes) -> None:
    notes.begin()
    notes.recorder.add(said("1"))
    notes.recorder.delete("s")
    assert list(notes.store.root.glob("transcripts/*/s-*.jsonl")) == []


def test_a_delete_that_failed_leaves_what_there_is_and_a_gap_where_it_went_on(notes: Notes) -> None:
    notes.begin()
    notes.put(*prompted("first"), said("1"))
    with full_disk(), pytest.raises(OSError):
        notes.recorder.delete("s")
    assert notes.said() == ["first", "1"]
    notes.put(*prompted("again"))
    assert notes.said() == ["first", "1", "gap", "again"]
    assert not notes.is_complete()


@pytest.mark.parametrize("gets_on", [True, False])
def test_who_has_patience_waits_for_a_store_that_is_busy_and_gets_on(
    notes: Notes, monkeypatch: pytest.MonkeyPatch, gets_on: bool
) -> None:
    monkeypatch.setattr("acp_proxy.shell.recorder.STALL_SECONDS", 0.05)
    begun, enough = threading.Event(), threading.Event()

    def busy() -> None:
        begun.set()
        for _ in range(50):
            if gets_on:
                notes.recorder.busy_since = time.monotonic()
            enough.wait(0.01)

    thread = threading.Thread(target=lambda: notes.recorder.at_store(busy))
    thread.start()
    assert begun.wait(SECONDS)
    if gets_on:
        assert notes.recorder.at_store(lambda: "done", SECONDS) == "done"
    else:
        with pytest.raises(Stalled):
            notes.recorder.at_store(lambda: "done", SECONDS)
        enough.set()
    thread.join(SECONDS)


def test_settled_acts_when_all_that_was_added_is_in_the_files(notes: Notes) -> None:
    lock = threading.Lock()
    notes.begin()
    notes.recorder.add(said("1"))
    looked: list[bool] = []
    look = lambda: looked.append(lock.locked())  # noqa: E731
    assert notes.recorder.settled(lock, look, lambda: (lock.locked(), notes.said())) == (True, ["1"])
    assert looked == [False]  # the store may hang; who decides does not


@pytest.mark.parametrize(("fsync", "times"), [("always", 2), ("turn", 0), ("never", 0)])
def test_lines_are_forced_to_the_disk_one_by_one_only_where_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fsync: str, times: int
) -> None:
    notes = Notes(Store(tmp_path / "store"), fsync=fsync)
    notes.begin()
    forced: list[int] = []
    monkeypatch.setattr(os, "fsync", forced.append)
    notes.put(said("1"))
    notes.put(said("2"))
    assert len(forced) == times


# Trouble.


def test_a_full_disk_suspends_the_session_with_one_warning_and_space_ends_it_with_a_note(
    notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = clock_at(monkeypatch)
    notes.begin()
    notes.put(said("1"))
    with full_disk(after=notes.path().stat().st_size):
        for number in range(2, 6):
            notes.put(said(str(number)))
            now.seconds += 10
        assert not notes.is_recording()
    notes.put(said("6"))
    assert notes.said() == ["1", "gap", "6"]
    assert not notes.is_complete()
    assert notes.is_recording()
    [warning] = notes.warnings
    assert "EFBIG" in warning
    gap = notes.kept()[1]["note"]
    assert gap["reason"] == "EFBIG"
    assert gap["since"]


def test_updates_that_nobody_looked_into_are_a_gap_where_the_disk_is_full(
    notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = clock_at(monkeypatch)
    notes.begin()
    notes.put(said("0"))
    with full_disk():
        notes.put(KeepUpdates("s", update("1") + b"\n"))
        notes.put(KeepUpdates("s", update("2") + b"\n"))
    assert len(notes.warnings) == 1
    assert notes.recorder.lacks("s")
    clock.seconds += 10
    notes.put(KeepUpdates("s", update("3") + b"\n"))
    assert notes.said() == ["0", "gap", "3"]


def test_a_store_in_trouble_is_not_tried_for_every_line(notes: Notes, monkeypatch: pytest.MonkeyPatch) -> None:
    now = clock_at(monkeypatch)
    notes.begin()
    with full_disk(after=notes.path().stat().st_size):
        notes.put(said("1"))
    notes.put(said("2"))
    assert notes.said() == []
    now.seconds += 10
    notes.put(said("3"))
    assert notes.said() == ["gap", "3"]


def test_a_line_that_was_torn_by_a_full_disk_is_closed_and_the_rest_is_intact(
    notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = clock_at(monkeypatch)
    notes.begin()
    notes.put(said("1"))
    with full_disk(after=notes.path().stat().st_size + 40):
        notes.put(said("2"))
    now.seconds += 10
    notes.put(said("3"))
    assert notes.said() == ["1", "gap", "3"]


@pytest.mark.parametrize("room", [0, 20])
def test_a_transcript_that_could_not_be_begun_is_begun_when_there_is_space(
    notes: Notes, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    now = clock_at(monkeypatch)
    notes.put(Identify(NAME, "1.0"))
    with full_disk(after=room):
        notes.put(Begin("s", "/project", [], "recorded"))
        before = open_descriptors()
        for number in range(3):
            now.seconds += 10
            notes.put(said(str(number)))
        assert open_descriptors() == before
    now.seconds += 10
    notes.put(*prompted("hello"), said("1"))
    assert notes.said() == ["gap", "hello", "1"]
    assert not notes.is_complete()
    assert [path.name for path in notes.path().parent.glob("*.jsonl")] == [notes.path().name]
    [listed] = notes.store.sessions()
    assert (listed.session, listed.cwd) == ("s", "/project")
    assert len(notes.warnings) == 1


def test_one_session_in_trouble_does_not_stop_the_others(notes: Notes) -> None:
    notes.begin("a")
    notes.put(Begin("b", "/project", [], "recorded"))
    notes.put(said("x" * 2000, "a"))
    with full_disk(after=1500):
        notes.put(said("1", "a"), said("2", "b"), said("3", "a"))
    assert notes.said("a") == ["x" * 2000]
    assert notes.said("b") == ["2"]
    assert len(notes.warnings) == 1


def test_a_store_that_was_removed_is_made_again_at_the_next_prompt(notes: Notes) -> None:
    notes.begin()
    notes.put(*prompted("first"), said("1"))
    shutil.rmtree(notes.store.root)
    notes.put(said("2"))
    assert notes.warnings == []
    notes.put(*prompted("again"), said("3"))
    assert notes.said() == ["again", "3"]
    assert not notes.is_complete()
    assert len(notes.warnings) == 1


# A store that hangs.


def hang(notes: Notes, store: HangingStore, *effects: Recording) -> threading.Thread:
    """A thread that hangs in the store while it writes these, and nobody waits for it any more."""
    store.hangs.set()
    for effect in effects:
        notes.recorder.add(effect)
    stuck = threading.Thread(target=notes.recorder.flush)
    stuck.start()
    assert store.stuck.wait(SECONDS)
    told: list[int] = []
    assert notes.recorder.busy_since is not None
    notes.recorder.stall(notes.recorder.busy_since, told.append)
    assert told == [stuck.ident]
    return stuck


def come_back(store: HangingStore, stuck: threading.Thread) -> None:
    store.release()
    stuck.join(SECONDS)
    assert not stuck.is_alive()


def test_what_comes_while_the_store_hangs_waits_in_memory_and_is_kept_when_it_comes_back(tmp_path: Path) -> None:
    store = HangingStore(tmp_path / "store")
    notes = Notes(store)
    notes.begin()
    stuck = hang(notes, store, said("stuck"))
    assert not notes.is_recording()
    notes.put(said("1"))  # returns: nothing waits for the store
    notes.put(Begin("new", "/project", [], "recorded"), *prompted("2", "new"))
    come_back(store, stuck)
    assert notes.said() == ["stuck", "1"]
    assert notes.said("new") == ["2"]
    assert notes.is_recording()
    assert notes.is_complete()
    assert notes.is_complete("new")
    assert len(notes.warnings) == 1


def test_who_came_back_in_the_last_moment_is_not_taken_for_one_that_hangs(notes: Notes) -> None:
    notes.begin()
    notes.recorder.stall(0.0, lambda stuck: pytest.fail("nobody hangs"))
    assert notes.is_recording()
    assert notes.warnings == []


def test_what_is_put_off_at_the_moment_in_which_the_store_comes_back_is_kept_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = HangingStore(tmp_path / "store")
    notes = Notes(store)
    notes.begin()
    stuck = hang(notes, store, said("stuck"))
    put_off = notes.recorder._backlog.put_off

    def late() -> None:
        come_back(store, stuck)
        put_off()

    monkeypatch.setattr(notes.recorder._backlog, "put_off", late)
    notes.put(said("1"))
    assert notes.said() == ["stuck", "1"]


def test_too_much_of_what_comes_while_the_store_hangs_is_dropped_and_noted_in_its_place(tmp_path: Path) -> None:
    store = HangingStore(tmp_path / "store")
    notes = Notes(store)
    notes.begin()
    stuck = hang(notes, store, said("stuck"))
    notes.put(said("lost"))
    notes.put(said("x" * PATIENCE_BYTES, "s"))
    notes.put(said("lost too"))
    with pytest.raises(Stalled):
        notes.recorder.settled(threading.Lock(), lambda: None, lambda: None)
    with pytest.raises(OSError):
        notes.recorder.delete("s")

    come_back(store, stuck)
    notes.put(said("after"))
    assert notes.said() == ["stuck", "gap", "after"]
    assert notes.is_recording()
    assert not notes.is_complete()
    assert len(notes.warnings) == 1


def test_a_session_that_began_while_the_store_hung_is_recorded_with_a_gap_when_it_comes_back(tmp_path: Path) -> None:
    store = HangingStore(tmp_path / "store")
    notes = Notes(store)
    notes.begin("a")
    stuck = hang(notes, store, said("stuck", "a"))
    notes.put(said("x" * PATIENCE_BYTES, "a"))
    notes.put(Begin("b", "/project", [], "recorded"), said("lost", "b"))
    come_back(store, stuck)
    notes.put(*prompted("hello", "b"))
    assert notes.said("b") == ["gap", "hello"]
    assert not notes.is_complete("b")


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0


def clock_at(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The pace of new tries, in the test's hands."""
    now = Clock()
    monkeypatch.setattr("time.monotonic", lambda: now.seconds)
    return now


def open_descriptors() -> int:
    return int(psutil.Process().num_fds())


def test_two_windows_whose_agents_give_out_the_same_id_keep_their_sessions_apart(tmp_path: Path) -> None:
    first, second = (Notes(Store(tmp_path / "store")) for _ in range(2))
    for window, words in ((first, "mine"), (second, "yours")):
        window.begin()
        window.put(*prompted(words))
    first.put(*prompted("mine again"))
    assert second.said() == ["yours"]
    (aside,) = (tmp_path / "store").rglob("*~1.jsonl")
    assert aside.read_text().count("mine") == 2
    assert aside.stem in {mark.name for mark in (tmp_path / "store" / "unindexed").rglob("*~1")}


# A line that is too long to be held.


def pieces(line: bytes, session: str = "s", peer: Peer = Peer.AGENT) -> list[KeepPiece]:
    """A line, in three pieces."""
    cuts = [0, 10, len(line) // 2, len(line)]
    return [
        KeepPiece(session, peer, line[start:end], first=start == 0, last=end == len(line))
        for start, end in itertools.pairwise(cuts)
    ]


def test_what_is_kept_of_a_session_waits_for_the_end_of_its_long_line(notes: Notes) -> None:
    notes.begin()
    notes.put(Begin("t", "/project", [], "recorded"), said("0"))
    first, second, third = pieces(update("long") + b"\n")
    notes.put(first, said("1"), said("of another", "t"))
    assert notes.said("t") == ["of another"]
    notes.put(second, KeepNote("s", {"type": "closed"}))
    assert notes.said() == ["0"]
    notes.put(third, said("2"))
    assert notes.said() == ["0", "long", "1", "closed", "2"]


def test_both_sides_may_say_something_long_at_once(notes: Notes) -> None:
    notes.begin()
    begin, asked = prompted("asked")
    notes.put(begin)
    longs = pieces(update("said")), pieces(asked.raw, peer=Peer.CLIENT)
    notes.put(*(piece for both in zip(*longs, strict=True) for piece in both), said("1"))
    assert notes.said() == ["said", "asked", "1"]


def test_a_long_line_that_breaks_off_takes_nothing_with_it(notes: Notes) -> None:
    notes.begin()
    first, second, third = pieces(update("long"))
    notes.put(first, second, KeepPiece(third.session, third.peer, b"", first=False, last=True), said("1"))
    assert notes.said() == ["1"]
    assert notes.path().read_bytes().endswith(b"\n")


def test_a_long_line_is_held_where_another_process_appends_to_the_file(notes: Notes) -> None:
    notes.begin()
    other = Transcript(notes.path())
    long = pieces(update("long"))
    for piece in long:
        notes.put(piece)
        other.append(record.encode_note("2026-11-20T09:15:02.123Z", "other1", {"type": "closed"}))
    other.close()
    assert notes.said() == ["closed", "closed", "long", "closed"]
    for piece in long:
        notes.put(piece)
    assert notes.said()[-2:] == ["closed", "long"]


def test_nobody_opens_a_file_to_append_to_it_within_a_long_line(notes: Notes) -> None:
    notes.begin()
    first, second, third = pieces(update("long"))
    notes.put(first)
    with pytest.raises(BlockingIOError):
        Transcript(notes.path())
    notes.put(second, third)
    Transcript(notes.path()).close()


def test_a_long_line_that_the_disk_has_no_room_for_is_a_gap(notes: Notes, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_a_long_line_that_lacks_a_part_is_a_gap_and_nothing_of_it_stands_behind_that(
    tmp_path: Path, mask: Callable[[bytes], bytes] | None
) -> None:
    store = HangingStore(tmp_path / "store")
    notes = Notes(store, mask=mask)
    notes.begin()
    notes.put(Begin("t", "/project", [], "recorded"), said("0", "t"))
    first, second, third = pieces(update("l" + "o" * PATIENCE_BYTES * 3 + "ng"))
    notes.put(first)
    stuck = hang(notes, store, said("stuck", "t"))
    notes.put(second)  # too much, while the store hangs
    come_back(store, stuck)
    notes.put(said("of another", "t"))
    notes.put(third, said("1"))
    assert notes.said() == ["gap", "1"]
    assert b"ng" not in notes.path().read_bytes()
    assert notes.is_recording()


def test_a_long_line_is_given_up_where_too_much_waits_for_its_end(notes: Notes) -> None:
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


def test_a_long_line_keeps_its_file_open_however_many_others_are_written_to(notes: Notes) -> None:
    notes.begin()
    first, second, third = pieces(update("long"))
    notes.put(first)
    for number in range(MOST_OPEN_FILES + 2):
        notes.put(Begin(str(number), "/project", [], "recorded"), said("1", str(number)))
    notes.put(second, third)
    assert notes.said() == ["long"]


def test_a_deleted_session_ends_its_long_line(notes: Notes) -> None:
    notes.begin()
    first, second, third = pieces(update("long"))
    notes.put(first)
    notes.recorder.delete("s")
    notes.put(second, said("1"), third, *prompted("2"))
    assert notes.said() == ["2"]


def test_a_gap_is_noted_with_the_next_thing_that_passes_though_nothing_more_comes_to_its_session(
    notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = clock_at(monkeypatch)
    notes.begin("a")
    notes.put(Begin("b", "/project", [], "recorded"), said("x" * 2000, "a"))
    with full_disk(after=1500):
        notes.put(said("1", "a"))
        now.seconds += 10
        notes.put(said("2", "b"))
        assert not notes.is_recording()
        assert notes.recorder.lacks("a")
    now.seconds += 10
    notes.put(said("3", "b"))
    assert notes.is_recording()
    assert notes.said("a") == ["x" * 2000, "gap"]
    assert not notes.is_complete("a")


def test_a_gap_at_the_end_is_tried_once_more_however_short_a_time_ago_it_began(
    notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock_at(monkeypatch)
    notes.begin()
    with full_disk(after=notes.path().stat().st_size):
        notes.put(said("1"))
    notes.recorder.flush()
    assert notes.said() == []
    notes.recorder.try_again()
    notes.recorder.flush()
    assert notes.said() == ["gap"]


def test_a_gap_of_a_session_that_another_process_deleted_is_no_gap_any_more(
    notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = clock_at(monkeypatch)
    notes.begin("a")
    notes.put(Begin("b", "/project", [], "recorded"), *prompted("hello", "a"))
    with full_disk(after=notes.path("a").stat().st_size):
        notes.put(said("1", "a"))
    Store(notes.store.root).delete(notes.recorder.agent, "a")
    now.seconds += 10
    notes.put(said("2", "b"))
    notes.put(said("3", "b"))
    assert notes.is_recording()
    assert list(notes.store.root.glob("transcripts/*/a-*.jsonl")) == []


def test_a_session_that_was_forgotten_goes_on_in_its_transcript(notes: Notes) -> None:
    notes.begin()
    notes.put(said("one"), Forget("s"), said("unheard"))
    notes.put(Begin("s", None, [], "partial"), said("two"))
    assert notes.said() == ["one", "two"]
    assert notes.is_complete()


def test_a_gap_outlives_that_its_session_is_forgotten(notes: Notes, monkeypatch: pytest.MonkeyPatch) -> None:
    now = clock_at(monkeypatch)
    notes.begin()
    notes.put(said("one"))
    folder = notes.path().parent
    aside = folder.rename(folder.with_name("aside"))
    folder.touch()  # no directory: nothing can be opened in it
    notes.put(Forget("s"), Begin("s", None, [], "partial"), said("lost"), Forget("s"))
    folder.unlink()
    aside.rename(folder)
    now.seconds += 10
    notes.put(Begin("s", None, [], "partial"), said("two"))
    assert notes.said() == ["one", "gap", "two"]
    assert not notes.is_complete()


def test_what_a_deleted_session_says_in_a_later_process_is_not_recorded_until_its_prompt(notes: Notes) -> None:
    notes.begin()
    notes.put(said("one"))
    notes.recorder.delete("s")
    later = Notes(notes.store)
    later.put(Identify(NAME, "1.0"), Begin("s", None, [], "partial"), said("late"))
    assert list(notes.store.root.glob("transcripts/*/s-*")) == []
    later.put(BeginTurn("s"), said("anew"))
    assert later.said() == ["anew"]


def test_a_long_name_of_an_agent_does_not_fill_every_header(notes: Notes) -> None:
    notes.put(Identify("x" * 1024 * 1024, "1" * 1024 * 1024), Begin("s", None, [], "recorded"))
    assert notes.path().stat().st_size < 4096


# What is masked.


def test_every_entry_is_masked_as_it_is_written_and_the_header_is_not(notes: Notes) -> None:
    recorder = Recorder(notes.store, ["agent"], None, "turn", notes.warnings.append, lambda data: data.upper())
    for effect in (
        *(Identify(NAME, "1.0"), Begin("s", "/project", [], "recorded"), said("a"), KeepNote("s", {"type": "closed"})),
        KeepUpdates("s", update("b") + b"\n" + update("c") + b"\n"),
        *(*prompted("d"), Keep("s", Peer.AGENT, b"{}", "session/prompt")),
    ):
        recorder.add(effect)
    recorder.flush()
    header, *entries = notes.path().read_bytes().splitlines()
    assert b'"sessionId":"s"' in header
    assert len(entries) == 6
    assert [entry.upper() for entry in entries] == entries


def test_masking_that_takes_long_is_no_store_that_hangs(notes: Notes) -> None:
    seen = []

    def mask(data: bytes) -> bytes:
        seen.append(recorder.busy_since)
        return data

    recorder = Recorder(notes.store, ["agent"], None, "turn", notes.warnings.append, mask)
    for effect in (Identify(NAME, "1.0"), Begin("s", "/project", [], "recorded"), said("a")):
        recorder.add(effect)
    recorder.flush()
    assert seen == [float("inf")]


def test_a_secret_that_lies_across_two_pieces_of_a_long_line_is_masked(tmp_path: Path) -> None:
    notes = Notes(Store(tmp_path / "store"), mask=lambda data: data.replace(b"secret", b"******"))
    notes.begin()
    line = update("a secret")
    cut = line.index(b"secret") + 3
    notes.put(KeepPiece("s", Peer.AGENT, line[:cut], first=True, last=False))
    assert b"sec" not in notes.path().read_bytes()
    notes.put(KeepPiece("s", Peer.AGENT, line[cut:], first=False, last=True))
    assert notes.said() == ["a ******"]
