"""The life of a recorded session: a prompt revives it after a delete, and trouble ends with a note."""

import errno
import json
import os
import shutil
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from acp_proxy.decisions.effects import (
    BeginTranscript,
    BeginTurn,
    EndTurn,
    ForgetSession,
    IdentifyAgent,
    RecordNote,
    RecordUnparsedUpdates,
    SaveAndIndex,
)
from acp_proxy.protocol import timestamps
from acp_proxy.recording.recorder import TimedEffect
from acp_proxy.sessions import soft_deleted
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.store import delete
from acp_proxy.store.journal import DELETED, Event, Journal
from acp_proxy.store.proxy_store import ProxyStore
from acp_proxy.transcript.appender import TranscriptAppender
from acp_proxy.transcript.file_format import PARTIAL
from acp_proxy.transcript.file_names import file_name
from tests.open_files import list_open_below
from tests.recording.recorder_harness import (
    NAME,
    RecorderHarness,
    chunk_to_record,
    fill_disk,
    make_prompt_effects,
    set_clock,
    update_line,
)
from tests.store.transcript_lines import header

# Begun, continued, deleted.


def test_a_new_session_has_the_branch_of_its_directory_and_a_known_one_keeps_it(
    recording: RecorderHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acp_proxy.recording.git_head._READ_SECONDS", 20.0)
    (tmp_path / "project/.git").mkdir(parents=True)
    (tmp_path / "project/.git/HEAD").write_text("ref: refs/heads/topic\n")
    recording.write(IdentifyAgent(NAME, "1.0"))
    for session, origin in (("new", "recorded"), ("older", "partial")):
        recording.write(
            BeginTranscript(session, str(tmp_path / "project"), [], origin), *make_prompt_effects("hello", session)
        )
    heads = [json.loads(recording.path(session).read_bytes().split(b"\n")[0]) for session in ("new", "older")]
    assert [head.get("git") for head in heads] == [{"branch": "topic"}, None]


def test_a_known_session_is_continued(recording: RecorderHarness) -> None:
    recording.begin()
    recording.write(chunk_to_record("1"), BeginTranscript("s", "/elsewhere", [], "partial"), chunk_to_record("2"))
    assert recording.read_texts_and_notes() == ["1", "2"]
    assert recording.is_complete()


def test_an_imported_session_is_marked_for_the_index_without_a_prompt(recording: RecorderHarness) -> None:
    recording.begin(origin="imported")
    recording.write(chunk_to_record("1"))
    assert [path.name for path in recording.store.root.glob("unindexed/*/*")] == [recording.path().stem]
    assert [(row.session_id, row.prompt_count) for row in CommandStore(recording.store.root).list_all()] == [("s", 1)]
    recording.begin("other")
    recording.write(RecordUnparsedUpdates("other", update_line("hi", "other") + b"\n"))
    assert [row.session_id for row in CommandStore(recording.store.root).list_all()] == ["s"]


def test_two_processes_that_import_a_session_at_once_record_its_replay_once(tmp_path: Path) -> None:
    first, second = (RecorderHarness(ProxyStore(tmp_path / "store")) for _ in range(2))
    for window, words in ((first, "new"), (second, "newer")):
        window.begin(origin="imported")
        window.write(chunk_to_record("replayed"))
        window.write(chunk_to_record("replayed too"), RecordNote("s", {"type": "opened"}), chunk_to_record(words))
    assert first.read_texts_and_notes() == ["replayed", "replayed too", "opened", "new", "opened", "newer"]


def test_a_title_in_a_turn_lets_no_turns_of_another_machine_in(
    recording: RecorderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(recording.store, "has_remote_turns", lambda agent, session: asked.append(session))

    def add_turns() -> None:
        recording.recorder.run_on_writer(lambda: recording.recorder.append_remote_turns("s"))

    recording.begin()
    recording.write(*make_prompt_effects("hello"), SaveAndIndex("s"))
    add_turns()
    assert asked == []
    recording.write(EndTurn("s"))
    add_turns()
    assert asked == ["s"]


def test_a_repeated_id_begins_a_new_transcript(recording: RecorderHarness) -> None:
    recording.begin()
    recording.write(chunk_to_record("old"), BeginTranscript("s", "/project", [], "recorded"), chunk_to_record("new"))
    assert recording.read_texts_and_notes() == ["new"]
    assert sorted(path.name.count("~") for path in recording.store.root.glob("transcripts/*/*-*.jsonl")) == [0, 1]


def test_two_windows_whose_agents_give_the_same_id_keep_their_sessions_apart(tmp_path: Path) -> None:
    first, second = (RecorderHarness(ProxyStore(tmp_path / "store")) for _ in range(2))
    for window, words in ((first, "mine"), (second, "yours")):
        window.begin()
        window.write(*make_prompt_effects(words))
    first.write(*make_prompt_effects("mine again"))
    assert second.read_texts_and_notes() == ["yours"]
    (aside,) = (tmp_path / "store").rglob("*~1.jsonl")
    assert aside.read_text().count("mine") == 2
    assert aside.stem in {mark.name for mark in (tmp_path / "store" / "unindexed").rglob("*~1")}


def test_a_session_that_is_set_aside_while_its_turn_begins_goes_on_in_its_own_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (RecorderHarness(ProxyStore(tmp_path / "store")) for _ in range(2))
    first.begin()
    looks, is_at_its_path = list[TranscriptAppender](), TranscriptAppender.is_at_its_path

    def set_aside_after_the_first_look(transcript: TranscriptAppender) -> bool:
        looks.append(transcript)
        if len(looks) == 2:
            second.begin()
        return is_at_its_path(transcript)

    monkeypatch.setattr(TranscriptAppender, "is_at_its_path", set_aside_after_the_first_look)
    first.write(*make_prompt_effects("mine"))
    second.write(*make_prompt_effects("yours"))
    assert second.read_texts_and_notes() == ["yours"]
    (aside,) = (tmp_path / "store").rglob("*~1.jsonl")
    assert aside.read_text().count("mine") == 1


def test_a_session_is_in_use_elsewhere_only_in_another_process_and_not_known_in_a_turn(tmp_path: Path) -> None:
    first, second = (RecorderHarness(ProxyStore(tmp_path / "store")) for _ in range(2))

    def is_open(window: RecorderHarness) -> bool | None:
        return window.recorder.run_on_writer(lambda: window.recorder.close_and_check_in_use("s"))

    first.begin()
    first.write(*make_prompt_effects("hello"), EndTurn("s"))
    assert is_open(first) is False
    second.begin(origin="partial")
    assert is_open(first) is True
    first.write(*make_prompt_effects("hello again"))
    assert (is_open(first), is_open(second)) == (None, True)
    assert first.read_texts_and_notes() == ["hello", "hello again"]


def test_a_forgotten_session_continues_in_its_transcript(recording: RecorderHarness) -> None:
    recording.begin()
    recording.write(chunk_to_record("one"), ForgetSession("s"), chunk_to_record("unheard"))
    recording.write(BeginTranscript("s", None, [], "partial"), chunk_to_record("two"))
    assert recording.read_texts_and_notes() == ["one", "two"]
    assert recording.is_complete()


def test_without_a_mark_entries_are_kept_and_the_mark_is_made_later(recording: RecorderHarness) -> None:
    recording.begin()
    directory = recording.store.root / "unindexed"
    directory.rmdir()
    directory.touch()
    recording.write(*make_prompt_effects("first"), chunk_to_record("1"))
    assert recording.read_texts_and_notes() == ["first", "1"]
    assert recording.is_complete()
    assert recording.warnings == []
    directory.unlink()
    recording.write(chunk_to_record("2"))
    assert [path.name for path in directory.glob("*/*")] == [recording.path().stem]


def test_recording_that_resumes_within_a_turn_makes_a_mark(
    recording: RecorderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = set_clock(monkeypatch)
    recording.begin()
    with fill_disk():
        recording.write(*make_prompt_effects("lost"))
    shutil.rmtree(recording.store.root / "unindexed")
    now.seconds += 10
    recording.write(chunk_to_record("kept"))
    assert recording.read_texts_and_notes() == ["gap", "kept"]
    assert [path.name for path in recording.store.root.glob("unindexed/*/*")] == [recording.path().stem]


def test_entries_after_a_delete_are_not_kept_until_the_next_prompt(recording: RecorderHarness) -> None:
    recording.begin()
    recording.write(*make_prompt_effects("first"), chunk_to_record("1"))
    recording.delete("s")
    recording.write(chunk_to_record("2"))
    assert list(recording.store.root.glob("transcripts/*/s-*.jsonl")) == []
    recording.write(*make_prompt_effects("again"), chunk_to_record("3"))
    assert recording.read_texts_and_notes() == ["again", "3"]
    assert not recording.is_complete()
    assert recording.store.read_deleted(recording.recorder.find_agent_folder()) == frozenset()


def test_only_a_prompt_revives_a_session_that_another_process_deleted(recording: RecorderHarness) -> None:
    recording.begin()
    recording.write(*make_prompt_effects("first"), chunk_to_record("1"))
    ProxyStore(recording.store.root).delete(recording.recorder.find_agent_folder(), "s", soft=False)
    recording.write(chunk_to_record("2"))
    assert list(recording.store.root.glob("transcripts/*/s-*.jsonl")) == []
    recording.write(*make_prompt_effects("again"))
    assert recording.read_texts_and_notes() == ["again"]
    assert recording.warnings == []


def test_a_soft_deleted_session_has_what_was_recorded_until_another_process_deleted_it(
    recording: RecorderHarness,
) -> None:
    recording.begin()
    recording.write(*make_prompt_effects("first"), chunk_to_record("1"))
    path = recording.path()
    ProxyStore(recording.store.root).delete(recording.recorder.find_agent_folder(), "s", soft=True)
    recording.write(chunk_to_record("2"))
    assert list_open_below(recording.store.root / "transcripts") == []
    [deleted] = soft_deleted.list_deleted(recording.store.layout)
    soft_deleted.restore(recording.store.layout, deleted)
    recording.write(chunk_to_record("3"))
    assert (recording.path(), recording.read_texts_and_notes()) == (path, ["first", "1", "gap"])
    recording.write(*make_prompt_effects("again"), chunk_to_record("4"))
    assert recording.read_texts_and_notes() == ["first", "1", "gap", "again", "4"]
    assert recording.warnings == []


def test_a_session_set_aside_and_then_deleted_by_another_process_gets_nothing_more(recording: RecorderHarness) -> None:
    recording.begin()
    recording.write(*make_prompt_effects("first"), chunk_to_record("1"))
    folder, other = recording.recorder.find_agent_folder(), ProxyStore(recording.store.root)
    other.open_to_append(folder, header("s"), is_new=True).close()  # an agent gives the id to a session elsewhere
    aside = f"{file_name('s')}~1"
    delete.delete_by_name(other.layout, folder, "s", aside, soft=True, only_on_this_machine=False)
    [deleted_path] = recording.store.root.glob("deleted/*/*.jsonl")
    before = deleted_path.read_bytes()
    recording.write(chunk_to_record("2"))
    assert deleted_path.read_bytes() == before
    assert recording.read_texts_and_notes() == []


def test_a_permanent_delete_by_another_process_ends_the_recording_even_if_the_file_has_another_name(
    recording: RecorderHarness, tmp_path: Path
) -> None:
    recording.begin()
    recording.write(*make_prompt_effects("first"), chunk_to_record("1"))
    snapshot = tmp_path / "snapshot.jsonl"
    os.link(recording.path(), snapshot)  # as cp -al and rsync --link-dest do
    before = snapshot.read_bytes()
    ProxyStore(recording.store.root).delete(recording.recorder.find_agent_folder(), "s", soft=False)
    recording.write(chunk_to_record("2"))
    assert snapshot.read_bytes() == before
    recording.write(*make_prompt_effects("again"), chunk_to_record("3"))
    assert recording.read_texts_and_notes() == ["again", "3"]
    assert snapshot.read_bytes() == before


def test_a_permanent_delete_ends_the_recording_even_if_another_process_has_begun_the_session_anew(
    recording: RecorderHarness, tmp_path: Path
) -> None:
    recording.begin()
    recording.write(*make_prompt_effects("first"), chunk_to_record("1"))
    snapshot = tmp_path / "snapshot.jsonl"
    os.link(recording.path(), snapshot)
    before = snapshot.read_bytes()
    other = RecorderHarness(ProxyStore(recording.store.root))
    other.begin(origin=PARTIAL)
    other.store.delete(recording.recorder.find_agent_folder(), "s", soft=False)
    other.write(*make_prompt_effects("theirs"), chunk_to_record("2"))
    recording.write(chunk_to_record("3"))
    assert recording.read_texts_and_notes() == ["theirs", "2"]
    assert snapshot.read_bytes() == before
    recording.write(*make_prompt_effects("mine"), chunk_to_record("4"))
    assert recording.read_texts_and_notes() == ["theirs", "2", "mine", "4"]


def test_a_file_that_somebody_moves_in_a_turn_gets_the_rest_of_the_turn(
    recording: RecorderHarness, tmp_path: Path
) -> None:
    recording.begin()
    recording.write(*make_prompt_effects("first"), chunk_to_record("1"))
    moved = recording.path().rename(tmp_path / "moved.jsonl")
    recording.write(chunk_to_record("the rest"))
    assert b"the rest" in moved.read_bytes()
    recording.write(*make_prompt_effects("again"), chunk_to_record("3"))
    assert recording.read_texts_and_notes() == ["again", "3"]
    assert b"again" not in moved.read_bytes()


def test_a_file_that_somebody_moved_is_looked_for_once(
    recording: RecorderHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording.begin()
    recording.write(*make_prompt_effects("first"))
    recording.path().rename(tmp_path / "moved.jsonl")
    listed = list[object]()
    for name in ("listdir", "scandir"):
        monkeypatch.setattr(os, name, partial(_note_and_call, listed, getattr(os, name)))
    recording.write(chunk_to_record("1"))
    assert listed
    listed.clear()
    recording.write(chunk_to_record("2"))
    recording.write(chunk_to_record("3"))
    assert not listed


def _note_and_call(noted: list[object], call: Callable[..., Any], *args: object) -> Any:
    noted.append(args)
    return call(*args)


def test_a_failing_look_at_the_files_name_loses_nothing(
    recording: RecorderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(transcript: TranscriptAppender) -> bool:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(transcript.path))

    recording.begin()
    recording.write(*make_prompt_effects("first"))
    with monkeypatch.context() as broken:
        broken.setattr(TranscriptAppender, "is_at_its_path", fail)
        recording.write(chunk_to_record("1"))
        recording.write(*make_prompt_effects("second"), chunk_to_record("2"))
    assert recording.read_texts_and_notes() == ["first", "1", "second", "2"]
    assert recording.is_complete()
    assert recording.warnings == []


def test_updates_of_a_session_deleted_in_an_earlier_run_create_no_file(recording: RecorderHarness) -> None:
    recording.begin("other")
    recording.store.delete(recording.recorder.find_agent_folder(), "s", soft=False)
    recording.write(BeginTranscript("s", None, [], "partial"), chunk_to_record("1"))
    assert list(recording.store.root.glob("transcripts/*/s-*.jsonl")) == []
    assert recording.records_all_sessions()
    assert recording.warnings == []
    recording.write(*make_prompt_effects("again"))
    assert recording.read_texts_and_notes() == ["again"]


def test_updates_of_a_deleted_session_in_a_later_process_are_not_recorded_before_a_prompt(
    recording: RecorderHarness,
) -> None:
    recording.begin()
    recording.write(chunk_to_record("one"))
    recording.delete("s")
    later = RecorderHarness(recording.store)
    later.write(IdentifyAgent(NAME, "1.0"), BeginTranscript("s", None, [], "partial"), chunk_to_record("late"))
    assert list(recording.store.root.glob("transcripts/*/s-*")) == []
    later.write(BeginTurn("s"), chunk_to_record("anew"))
    assert later.read_texts_and_notes() == ["anew"]


def test_a_prompt_after_an_interrupted_delete_brings_nothing_back(recording: RecorderHarness) -> None:
    recording.begin()
    recording.write(*make_prompt_effects("first"), chunk_to_record("1"))
    path = recording.path()
    # By another process, which died during the delete.
    Journal(path.with_name("state.jsonl")).append(Event(DELETED, "s"))
    recording.write(*make_prompt_effects("again"), chunk_to_record("2"))
    assert recording.read_texts_and_notes() == ["again", "2"]
    assert not recording.is_complete()
    assert b"first" not in path.read_bytes()


def test_a_failed_delete_leaves_the_entries_and_a_gap(recording: RecorderHarness) -> None:
    recording.begin()
    recording.write(*make_prompt_effects("first"), chunk_to_record("1"))
    with fill_disk(), pytest.raises(OSError):
        recording.delete("s")
    assert recording.read_texts_and_notes() == ["first", "1"]
    recording.write(*make_prompt_effects("again"))
    assert recording.read_texts_and_notes() == ["first", "1", "gap", "again"]
    assert not recording.is_complete()


# --- trouble


def test_a_full_disk_suspends_a_session_with_one_warning_and_free_space_ends_it_with_a_note(
    recording: RecorderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = set_clock(monkeypatch)
    recording.begin()
    recording.write(chunk_to_record("1"))
    with fill_disk(after=recording.path().stat().st_size):
        for number in range(2, 6):
            recording.write(chunk_to_record(str(number)))
            now.seconds += 10
        assert not recording.records_all_sessions()
    recording.write(chunk_to_record("6"))
    assert recording.read_texts_and_notes() == ["1", "gap", "6"]
    assert not recording.is_complete()
    assert recording.records_all_sessions()
    [warning] = recording.warnings
    assert "EFBIG" in warning
    gap = recording.read_entries()[1]["note"]
    assert gap["reason"] == "EFBIG"
    assert gap["since"]


def test_a_gap_begins_with_the_first_entry_that_was_lost(
    recording: RecorderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = set_clock(monkeypatch)
    recording.begin()
    recording.write(chunk_to_record("1"))
    lost = deque[TimedEffect]([(100.0, chunk_to_record("2")), (200.0, chunk_to_record("3")), (300.0, EndTurn("s"))])
    with fill_disk(after=recording.path().stat().st_size):
        recording.recorder.run_on_writer(lambda: recording.recorder._write_batch(lost))
    now.seconds += 10
    recording.write(chunk_to_record("4"))
    assert recording.read_texts_and_notes() == ["1", "gap", "4"]
    assert recording.read_entries()[1]["note"]["since"] == timestamps.format_now(100.0)


def test_a_failing_store_is_tried_again_after_a_second_and_not_for_every_entry(
    recording: RecorderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = set_clock(monkeypatch)
    recording.begin()
    with fill_disk(after=recording.path().stat().st_size):
        recording.write(chunk_to_record("1"))
    now.seconds = 0.9
    recording.write(chunk_to_record("2"))
    assert recording.read_texts_and_notes() == []
    now.seconds = 1.0
    recording.write(chunk_to_record("3"))
    assert recording.read_texts_and_notes() == ["gap", "3"]


def test_a_prompt_revives_a_deleted_session_once_there_is_space(
    recording: RecorderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = set_clock(monkeypatch)
    recording.begin()
    recording.delete("s")
    with fill_disk():
        recording.write(*make_prompt_effects("again"), chunk_to_record("1"))
        now.seconds += 10
        recording.write(chunk_to_record("2"))
    now.seconds += 10
    recording.write(chunk_to_record("3"))
    assert recording.read_texts_and_notes() == ["gap", "3"]


@pytest.mark.parametrize("room", [0, 20])
def test_a_transcript_that_could_not_be_begun_is_begun_when_there_is_space(
    recording: RecorderHarness, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    now = set_clock(monkeypatch)
    recording.write(IdentifyAgent(NAME, "1.0"))
    with fill_disk(after=room):
        recording.write(BeginTranscript("s", "/project", [], "recorded"))
        for number in range(3):
            now.seconds += 10
            recording.write(chunk_to_record(str(number)))
        assert list_open_below(recording.store.root) == []
    now.seconds += 10
    recording.write(*make_prompt_effects("hello"), chunk_to_record("1"))
    assert recording.read_texts_and_notes() == ["gap", "hello", "1"]
    assert not recording.is_complete()
    assert [path.name for path in recording.path().parent.glob("*.jsonl")] == [recording.path().name]
    [listed] = CommandStore(recording.store.root).list_all()
    assert (listed.session_id, listed.cwd) == ("s", "/project")
    assert len(recording.warnings) == 1


def test_one_session_in_trouble_does_not_stop_the_others(recording: RecorderHarness) -> None:
    recording.begin("a")
    recording.write(BeginTranscript("b", "/project", [], "recorded"))
    recording.write(chunk_to_record("x" * 2000, "a"))
    with fill_disk(after=1500):
        recording.write(chunk_to_record("1", "a"), chunk_to_record("2", "b"), chunk_to_record("3", "a"))
    assert recording.read_texts_and_notes("a") == ["x" * 2000]
    assert recording.read_texts_and_notes("b") == ["2"]
    assert len(recording.warnings) == 1


def test_a_removed_store_is_created_again_at_the_next_prompt(recording: RecorderHarness) -> None:
    recording.begin()
    recording.write(*make_prompt_effects("first"), chunk_to_record("1"))
    shutil.rmtree(recording.store.root)
    recording.write(chunk_to_record("2"))
    assert recording.warnings == []
    recording.write(*make_prompt_effects("again"), chunk_to_record("3"))
    assert recording.read_texts_and_notes() == ["again", "3"]
    assert not recording.is_complete()
    assert len(recording.warnings) == 1


def test_trouble_with_a_store_that_was_created_again_is_one_more_warning(recording: RecorderHarness) -> None:
    recording.begin()
    recording.write(*make_prompt_effects("first"))
    shutil.rmtree(recording.store.root)
    recording.write(*make_prompt_effects("again"))
    with fill_disk(after=recording.path().stat().st_size):
        recording.write(chunk_to_record("1"), chunk_to_record("2"))
    removal, trouble = recording.warnings
    assert "was removed" in removal
    assert "recording is suspended" in trouble
    assert trouble.endswith("To see what to do: acp-proxy doctor")


def test_a_gap_is_noted_with_the_next_entry_of_any_session(
    recording: RecorderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = set_clock(monkeypatch)
    recording.begin("a")
    recording.write(BeginTranscript("b", "/project", [], "recorded"), chunk_to_record("x" * 2000, "a"))
    with fill_disk(after=1500):
        recording.write(chunk_to_record("1", "a"))
        now.seconds += 10
        recording.write(chunk_to_record("2", "b"))
        assert not recording.records_all_sessions()
        assert recording.recorder.has_unnoted_gap("a")
    now.seconds += 10
    recording.write(chunk_to_record("3", "b"))
    assert recording.records_all_sessions()
    assert recording.read_texts_and_notes("a") == ["x" * 2000, "gap"]
    assert not recording.is_complete("a")


def test_a_gap_at_the_end_is_tried_once_more_however_recent_it_is(
    recording: RecorderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_clock(monkeypatch)
    recording.begin()
    with fill_disk(after=recording.path().stat().st_size):
        recording.write(chunk_to_record("1"))
    recording.recorder.wait_until_recorded()
    assert recording.read_texts_and_notes() == []
    recording.recorder.flush()
    assert recording.read_texts_and_notes() == ["gap"]


def test_a_fork_of_a_session_with_a_gap_has_the_gap(
    recording: RecorderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_clock(monkeypatch)
    recording.begin()
    recording.write(*make_prompt_effects("hello"))
    with fill_disk(after=recording.path().stat().st_size):
        recording.write(chunk_to_record("lost"))
    recording.write(BeginTranscript("fork", "/project", [], "recorded", parent_id="s"), chunk_to_record("new", "fork"))
    assert recording.read_texts_and_notes("fork") == ["copied", "hello", "gap", "new"]


def test_a_gap_ends_when_another_process_deletes_its_session(
    recording: RecorderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = set_clock(monkeypatch)
    recording.begin("a")
    recording.write(BeginTranscript("b", "/project", [], "recorded"), *make_prompt_effects("hello", "a"))
    with fill_disk(after=recording.path("a").stat().st_size):
        recording.write(chunk_to_record("1", "a"))
    ProxyStore(recording.store.root).delete(recording.recorder.find_agent_folder(), "a", soft=False)
    now.seconds += 10
    recording.write(chunk_to_record("2", "b"))
    recording.write(chunk_to_record("3", "b"))
    assert recording.records_all_sessions()
    assert list(recording.store.root.glob("transcripts/*/a-*.jsonl")) == []


def test_a_gap_outlives_the_forgetting_of_its_session(
    recording: RecorderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = set_clock(monkeypatch)
    recording.begin()
    recording.write(chunk_to_record("one"))
    folder = recording.path().parent
    aside = folder.rename(folder.with_name("aside"))
    folder.touch()  # no directory: nothing can be opened in it
    recording.write(
        ForgetSession("s"), BeginTranscript("s", None, [], "partial"), chunk_to_record("lost"), ForgetSession("s")
    )
    folder.unlink()
    aside.rename(folder)
    now.seconds += 10
    recording.write(BeginTranscript("s", None, [], "partial"), chunk_to_record("two"))
    assert recording.read_texts_and_notes() == ["one", "gap", "two"]
    assert not recording.is_complete()
