"""The life of a recorded session: a prompt revives it after a delete, and trouble ends with a note."""

import errno
import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from acp_proxy.proxy.effects import (
    BeginTranscript,
    BeginTurn,
    EndTurn,
    ForgetSession,
    IdentifyAgent,
    IndexSession,
    RecordNote,
    RecordUpdates,
)
from acp_proxy.store import delete, soft_deleted
from acp_proxy.store.command_store import CommandStore
from acp_proxy.store.journal import DELETED, Journal
from acp_proxy.store.proxy_store import ProxyStore
from acp_proxy.transcript.appender import Transcript
from acp_proxy.transcript.file_names import file_name
from tests.opened import list_open_below
from tests.recording.recorder_harness import (
    NAME,
    RecorderHarness,
    chunk_to_record,
    fill_disk,
    prompted,
    set_clock,
    update,
)
from tests.store.transcript_lines import header

# Begun, continued, deleted.


def test_a_new_session_has_the_branch_of_its_directory_and_a_known_one_keeps_it(
    notes: RecorderHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acp_proxy.recording.git_head._READ_SECONDS", 20.0)
    (tmp_path / "project/.git").mkdir(parents=True)
    (tmp_path / "project/.git/HEAD").write_text("ref: refs/heads/topic\n")
    notes.put(IdentifyAgent(NAME, "1.0"))
    for session, origin in (("new", "recorded"), ("older", "partial")):
        notes.put(BeginTranscript(session, str(tmp_path / "project"), [], origin), *prompted("hello", session))
    heads = [json.loads(notes.path(session).read_bytes().split(b"\n")[0]) for session in ("new", "older")]
    assert [head.get("git") for head in heads] == [{"branch": "topic"}, None]


def test_a_known_session_is_continued(notes: RecorderHarness) -> None:
    notes.begin()
    notes.put(chunk_to_record("1"), BeginTranscript("s", "/elsewhere", [], "partial"), chunk_to_record("2"))
    assert notes.said() == ["1", "2"]
    assert notes.is_complete()


def test_an_imported_session_is_marked_for_the_index_without_a_prompt(notes: RecorderHarness) -> None:
    notes.begin(origin="imported")
    notes.put(chunk_to_record("1"))
    assert [path.name for path in notes.store.root.glob("unindexed/*/*")] == [notes.path().stem]
    assert [(row.session_id, row.prompt_count) for row in CommandStore(notes.store.root).list_all()] == [("s", 1)]
    notes.begin("other")
    notes.put(RecordUpdates("other", update("hi", "other") + b"\n"))
    assert [row.session_id for row in CommandStore(notes.store.root).list_all()] == ["s"]


def test_two_processes_that_import_a_session_at_once_record_its_replay_once(tmp_path: Path) -> None:
    first, second = (RecorderHarness(ProxyStore(tmp_path / "store")) for _ in range(2))
    for window, words in ((first, "new"), (second, "newer")):
        window.begin(origin="imported")
        window.put(chunk_to_record("replayed"))
        window.put(chunk_to_record("replayed too"), RecordNote("s", {"type": "opened"}), chunk_to_record(words))
    assert first.said() == ["replayed", "replayed too", "opened", "new", "opened", "newer"]


def test_a_title_in_a_turn_lets_no_turns_of_another_machine_in(
    notes: RecorderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(notes.store, "has_waiting_turns", lambda agent, session: asked.append(session))

    def add_turns() -> None:
        notes.recorder.run_on_writer(lambda: notes.recorder.append_waiting_turns("s"))

    notes.begin()
    notes.put(*prompted("hello"), IndexSession("s"))
    add_turns()
    assert asked == []
    notes.put(EndTurn("s"))
    add_turns()
    assert asked == ["s"]


def test_a_repeated_id_begins_a_new_transcript(notes: RecorderHarness) -> None:
    notes.begin()
    notes.put(chunk_to_record("old"), BeginTranscript("s", "/project", [], "recorded"), chunk_to_record("new"))
    assert notes.said() == ["new"]
    assert sorted(path.name.count("~") for path in notes.store.root.glob("transcripts/*/*-*.jsonl")) == [0, 1]


def test_two_windows_whose_agents_give_the_same_id_keep_their_sessions_apart(tmp_path: Path) -> None:
    first, second = (RecorderHarness(ProxyStore(tmp_path / "store")) for _ in range(2))
    for window, words in ((first, "mine"), (second, "yours")):
        window.begin()
        window.put(*prompted(words))
    first.put(*prompted("mine again"))
    assert second.said() == ["yours"]
    (aside,) = (tmp_path / "store").rglob("*~1.jsonl")
    assert aside.read_text().count("mine") == 2
    assert aside.stem in {mark.name for mark in (tmp_path / "store" / "unindexed").rglob("*~1")}


def test_a_session_is_open_elsewhere_only_in_another_process_and_not_known_in_a_turn(tmp_path: Path) -> None:
    first, second = (RecorderHarness(ProxyStore(tmp_path / "store")) for _ in range(2))

    def is_open(window: RecorderHarness) -> bool | None:
        return window.recorder.run_on_writer(lambda: window.recorder.is_open_elsewhere("s"))

    first.begin()
    first.put(*prompted("hello"), EndTurn("s"))
    assert is_open(first) is False
    second.begin(origin="partial")
    assert is_open(first) is True
    first.put(*prompted("hello again"))
    assert (is_open(first), is_open(second)) == (None, True)
    assert first.said() == ["hello", "hello again"]


def test_a_forgotten_session_continues_in_its_transcript(notes: RecorderHarness) -> None:
    notes.begin()
    notes.put(chunk_to_record("one"), ForgetSession("s"), chunk_to_record("unheard"))
    notes.put(BeginTranscript("s", None, [], "partial"), chunk_to_record("two"))
    assert notes.said() == ["one", "two"]
    assert notes.is_complete()


def test_without_a_mark_entries_are_kept_and_the_mark_is_made_later(notes: RecorderHarness) -> None:
    notes.begin()
    directory = notes.store.root / "unindexed"
    directory.rmdir()
    directory.touch()
    notes.put(*prompted("first"), chunk_to_record("1"))
    assert notes.said() == ["first", "1"]
    assert notes.is_complete()
    assert notes.warnings == []
    directory.unlink()
    notes.put(chunk_to_record("2"))
    assert [path.name for path in directory.glob("*/*")] == [notes.path().stem]


def test_recording_that_resumes_within_a_turn_makes_a_mark(
    notes: RecorderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = set_clock(monkeypatch)
    notes.begin()
    with fill_disk():
        notes.put(*prompted("lost"))
    shutil.rmtree(notes.store.root / "unindexed")
    now.seconds += 10
    notes.put(chunk_to_record("kept"))
    assert notes.said() == ["gap", "kept"]
    assert [path.name for path in notes.store.root.glob("unindexed/*/*")] == [notes.path().stem]


def test_entries_after_a_delete_are_not_kept_until_the_next_prompt(notes: RecorderHarness) -> None:
    notes.begin()
    notes.put(*prompted("first"), chunk_to_record("1"))
    notes.delete("s")
    notes.put(chunk_to_record("2"))
    assert list(notes.store.root.glob("transcripts/*/s-*.jsonl")) == []
    notes.put(*prompted("again"), chunk_to_record("3"))
    assert notes.said() == ["again", "3"]
    assert not notes.is_complete()
    assert notes.store.read_deleted(notes.recorder.agent_folder) == frozenset()


def test_only_a_prompt_revives_a_session_that_another_process_deleted(notes: RecorderHarness) -> None:
    notes.begin()
    notes.put(*prompted("first"), chunk_to_record("1"))
    ProxyStore(notes.store.root).delete(notes.recorder.agent_folder, "s", soft=False)
    notes.put(chunk_to_record("2"))
    assert list(notes.store.root.glob("transcripts/*/s-*.jsonl")) == []
    notes.put(*prompted("again"))
    assert notes.said() == ["again"]
    assert notes.warnings == []


def test_the_bin_has_what_was_recorded_until_another_process_deleted_the_session(notes: RecorderHarness) -> None:
    notes.begin()
    notes.put(*prompted("first"), chunk_to_record("1"))
    path = notes.path()
    ProxyStore(notes.store.root).delete(notes.recorder.agent_folder, "s", soft=True)
    notes.put(chunk_to_record("2"))
    assert list_open_below(notes.store.root / "transcripts") == []
    [deleted] = soft_deleted.list_deleted(notes.store.layout)
    soft_deleted.restore(notes.store.layout, deleted)
    notes.put(chunk_to_record("3"))
    assert (notes.path(), notes.said()) == (path, ["first", "1", "gap"])
    notes.put(*prompted("again"), chunk_to_record("4"))
    assert notes.said() == ["first", "1", "gap", "again", "4"]
    assert notes.warnings == []


def test_a_session_set_aside_and_then_deleted_by_another_process_gets_nothing_more(notes: RecorderHarness) -> None:
    notes.begin()
    notes.put(*prompted("first"), chunk_to_record("1"))
    folder, other = notes.recorder.agent_folder, ProxyStore(notes.store.root)
    other.open_to_append(folder, header("s"), is_new=True).close()  # an agent gives the id to a session elsewhere
    aside = f"{file_name('s')}~1"
    delete.delete_transcript(other.layout, folder, "s", aside, soft=True, only_on_this_machine=False)
    [in_bin] = notes.store.root.glob("deleted/*/*.jsonl")
    before = in_bin.read_bytes()
    notes.put(chunk_to_record("2"))
    assert in_bin.read_bytes() == before
    assert notes.said() == []


def test_a_permanent_delete_by_another_process_ends_the_recording_even_if_the_file_has_another_name(
    notes: RecorderHarness, tmp_path: Path
) -> None:
    notes.begin()
    notes.put(*prompted("first"), chunk_to_record("1"))
    snapshot = tmp_path / "snapshot.jsonl"
    os.link(notes.path(), snapshot)  # as cp -al and rsync --link-dest do
    before = snapshot.read_bytes()
    ProxyStore(notes.store.root).delete(notes.recorder.agent_folder, "s", soft=False)
    notes.put(chunk_to_record("2"))
    assert snapshot.read_bytes() == before
    notes.put(*prompted("again"), chunk_to_record("3"))
    assert notes.said() == ["again", "3"]
    assert snapshot.read_bytes() == before


def test_a_file_that_somebody_moves_in_a_turn_gets_the_rest_of_the_turn(notes: RecorderHarness, tmp_path: Path) -> None:
    notes.begin()
    notes.put(*prompted("first"), chunk_to_record("1"))
    moved = notes.path().rename(tmp_path / "moved.jsonl")
    notes.put(chunk_to_record("the rest"))
    assert b"the rest" in moved.read_bytes()
    notes.put(*prompted("again"), chunk_to_record("3"))
    assert notes.said() == ["again", "3"]
    assert b"again" not in moved.read_bytes()


def test_a_file_that_somebody_moved_is_looked_for_once(
    notes: RecorderHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes.begin()
    notes.put(*prompted("first"))
    notes.path().rename(tmp_path / "moved.jsonl")
    listed = list[object]()
    for name in ("listdir", "scandir"):
        monkeypatch.setattr(os, name, partial(_note_and_call, listed, getattr(os, name)))
    notes.put(chunk_to_record("1"))
    assert listed
    listed.clear()
    notes.put(chunk_to_record("2"))
    notes.put(chunk_to_record("3"))
    assert not listed


def _note_and_call(noted: list[object], call: Callable[..., Any], *args: object) -> Any:
    noted.append(args)
    return call(*args)


def test_a_failing_look_at_the_files_name_loses_nothing(
    notes: RecorderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(transcript: Transcript) -> bool:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(transcript.path))

    notes.begin()
    notes.put(*prompted("first"))
    with monkeypatch.context() as broken:
        broken.setattr(Transcript, "has_its_name", fail)
        notes.put(chunk_to_record("1"))
    assert notes.said() == ["first", "1"]
    assert notes.is_complete()
    assert notes.warnings == []


def test_updates_of_a_session_deleted_in_an_earlier_run_create_no_file(notes: RecorderHarness) -> None:
    notes.begin("other")
    notes.store.delete(notes.recorder.agent_folder, "s", soft=False)
    notes.put(BeginTranscript("s", None, [], "partial"), chunk_to_record("1"))
    assert list(notes.store.root.glob("transcripts/*/s-*.jsonl")) == []
    assert notes.is_recording()
    assert notes.warnings == []
    notes.put(*prompted("again"))
    assert notes.said() == ["again"]


def test_updates_of_a_deleted_session_in_a_later_process_are_not_recorded_before_a_prompt(
    notes: RecorderHarness,
) -> None:
    notes.begin()
    notes.put(chunk_to_record("one"))
    notes.delete("s")
    later = RecorderHarness(notes.store)
    later.put(IdentifyAgent(NAME, "1.0"), BeginTranscript("s", None, [], "partial"), chunk_to_record("late"))
    assert list(notes.store.root.glob("transcripts/*/s-*")) == []
    later.put(BeginTurn("s"), chunk_to_record("anew"))
    assert later.said() == ["anew"]


def test_a_prompt_after_an_interrupted_delete_brings_nothing_back(notes: RecorderHarness) -> None:
    notes.begin()
    notes.put(*prompted("first"), chunk_to_record("1"))
    path = notes.path()
    Journal(path.with_name("state.jsonl")).append(DELETED, "s", "")  # by another process, which died during the delete
    notes.put(*prompted("again"), chunk_to_record("2"))
    assert notes.said() == ["again", "2"]
    assert not notes.is_complete()
    assert b"first" not in path.read_bytes()


def test_a_failed_delete_leaves_the_entries_and_a_gap(notes: RecorderHarness) -> None:
    notes.begin()
    notes.put(*prompted("first"), chunk_to_record("1"))
    with fill_disk(), pytest.raises(OSError):
        notes.delete("s")
    assert notes.said() == ["first", "1"]
    notes.put(*prompted("again"))
    assert notes.said() == ["first", "1", "gap", "again"]
    assert not notes.is_complete()


# Trouble.


def test_a_full_disk_suspends_a_session_with_one_warning_and_free_space_ends_it_with_a_note(
    notes: RecorderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = set_clock(monkeypatch)
    notes.begin()
    notes.put(chunk_to_record("1"))
    with fill_disk(after=notes.path().stat().st_size):
        for number in range(2, 6):
            notes.put(chunk_to_record(str(number)))
            now.seconds += 10
        assert not notes.is_recording()
    notes.put(chunk_to_record("6"))
    assert notes.said() == ["1", "gap", "6"]
    assert not notes.is_complete()
    assert notes.is_recording()
    [warning] = notes.warnings
    assert "EFBIG" in warning
    gap = notes.kept()[1]["note"]
    assert gap["reason"] == "EFBIG"
    assert gap["since"]


def test_a_failing_store_is_not_tried_for_every_entry(notes: RecorderHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    now = set_clock(monkeypatch)
    notes.begin()
    with fill_disk(after=notes.path().stat().st_size):
        notes.put(chunk_to_record("1"))
    notes.put(chunk_to_record("2"))
    assert notes.said() == []
    now.seconds += 10
    notes.put(chunk_to_record("3"))
    assert notes.said() == ["gap", "3"]


@pytest.mark.parametrize("room", [0, 20])
def test_a_transcript_that_could_not_be_begun_is_begun_when_there_is_space(
    notes: RecorderHarness, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    now = set_clock(monkeypatch)
    notes.put(IdentifyAgent(NAME, "1.0"))
    with fill_disk(after=room):
        notes.put(BeginTranscript("s", "/project", [], "recorded"))
        for number in range(3):
            now.seconds += 10
            notes.put(chunk_to_record(str(number)))
        assert list_open_below(notes.store.root) == []
    now.seconds += 10
    notes.put(*prompted("hello"), chunk_to_record("1"))
    assert notes.said() == ["gap", "hello", "1"]
    assert not notes.is_complete()
    assert [path.name for path in notes.path().parent.glob("*.jsonl")] == [notes.path().name]
    [listed] = CommandStore(notes.store.root).list_all()
    assert (listed.session_id, listed.cwd) == ("s", "/project")
    assert len(notes.warnings) == 1


def test_one_session_in_trouble_does_not_stop_the_others(notes: RecorderHarness) -> None:
    notes.begin("a")
    notes.put(BeginTranscript("b", "/project", [], "recorded"))
    notes.put(chunk_to_record("x" * 2000, "a"))
    with fill_disk(after=1500):
        notes.put(chunk_to_record("1", "a"), chunk_to_record("2", "b"), chunk_to_record("3", "a"))
    assert notes.said("a") == ["x" * 2000]
    assert notes.said("b") == ["2"]
    assert len(notes.warnings) == 1


def test_a_removed_store_is_created_again_at_the_next_prompt(notes: RecorderHarness) -> None:
    notes.begin()
    notes.put(*prompted("first"), chunk_to_record("1"))
    shutil.rmtree(notes.store.root)
    notes.put(chunk_to_record("2"))
    assert notes.warnings == []
    notes.put(*prompted("again"), chunk_to_record("3"))
    assert notes.said() == ["again", "3"]
    assert not notes.is_complete()
    assert len(notes.warnings) == 1


def test_a_gap_is_noted_with_the_next_entry_of_any_session(
    notes: RecorderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = set_clock(monkeypatch)
    notes.begin("a")
    notes.put(BeginTranscript("b", "/project", [], "recorded"), chunk_to_record("x" * 2000, "a"))
    with fill_disk(after=1500):
        notes.put(chunk_to_record("1", "a"))
        now.seconds += 10
        notes.put(chunk_to_record("2", "b"))
        assert not notes.is_recording()
        assert notes.recorder.has_gap("a")
    now.seconds += 10
    notes.put(chunk_to_record("3", "b"))
    assert notes.is_recording()
    assert notes.said("a") == ["x" * 2000, "gap"]
    assert not notes.is_complete("a")


def test_a_gap_at_the_end_is_tried_once_more_however_recent_it_is(
    notes: RecorderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_clock(monkeypatch)
    notes.begin()
    with fill_disk(after=notes.path().stat().st_size):
        notes.put(chunk_to_record("1"))
    notes.recorder.flush()
    assert notes.said() == []
    notes.recorder.finish()
    assert notes.said() == ["gap"]


def test_a_fork_of_a_session_with_a_gap_has_the_gap(notes: RecorderHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    set_clock(monkeypatch)
    notes.begin()
    notes.put(*prompted("hello"))
    with fill_disk(after=notes.path().stat().st_size):
        notes.put(chunk_to_record("lost"))
    notes.put(BeginTranscript("fork", "/project", [], "recorded", parent="s"), chunk_to_record("new", "fork"))
    assert notes.said("fork") == ["copied", "hello", "gap", "new"]


def test_a_gap_ends_when_another_process_deletes_its_session(
    notes: RecorderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = set_clock(monkeypatch)
    notes.begin("a")
    notes.put(BeginTranscript("b", "/project", [], "recorded"), *prompted("hello", "a"))
    with fill_disk(after=notes.path("a").stat().st_size):
        notes.put(chunk_to_record("1", "a"))
    ProxyStore(notes.store.root).delete(notes.recorder.agent_folder, "a", soft=False)
    now.seconds += 10
    notes.put(chunk_to_record("2", "b"))
    notes.put(chunk_to_record("3", "b"))
    assert notes.is_recording()
    assert list(notes.store.root.glob("transcripts/*/a-*.jsonl")) == []


def test_a_gap_outlives_the_forgetting_of_its_session(notes: RecorderHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    now = set_clock(monkeypatch)
    notes.begin()
    notes.put(chunk_to_record("one"))
    folder = notes.path().parent
    aside = folder.rename(folder.with_name("aside"))
    folder.touch()  # no directory: nothing can be opened in it
    notes.put(
        ForgetSession("s"), BeginTranscript("s", None, [], "partial"), chunk_to_record("lost"), ForgetSession("s")
    )
    folder.unlink()
    aside.rename(folder)
    now.seconds += 10
    notes.put(BeginTranscript("s", None, [], "partial"), chunk_to_record("two"))
    assert notes.said() == ["one", "gap", "two"]
    assert not notes.is_complete()
