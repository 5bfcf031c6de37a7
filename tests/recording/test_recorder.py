"""After a flush, everything added is in the files, in order, whichever thread added it."""

import json
import os
import queue
import threading
from pathlib import Path

import pytest

from acp_proxy.decisions.effects import (
    BeginTranscript,
    EndTurn,
    IdentifyAgent,
    RecordGap,
    RecordMessage,
    RecordNote,
    RecordUnparsedUpdates,
)
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.recording.recorder import Recorder
from acp_proxy.recording.transcript_files import TranscriptFiles
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.store.proxy_store import ProxyStore
from tests.open_files import list_open_below
from tests.recording.recorder_harness import (
    MOST_OPEN_FILES,
    NAME,
    RecorderHarness,
    chunk_to_record,
    get_text,
    make_prompt_effects,
    update_line,
)
from tests.waiting import SECONDS

# Entries and their files.


def test_entries_of_several_sessions_go_to_their_own_files_in_order(recording: RecorderHarness) -> None:
    recording.begin("a")
    recording.write(BeginTranscript("b", "/project", [], "recorded"))
    recording.write(
        chunk_to_record("1", "a"),
        chunk_to_record("2", "b"),
        chunk_to_record("3", "a"),
        chunk_to_record("4", "a"),
        chunk_to_record("5", "b"),
    )
    assert recording.read_texts_and_notes("a") == ["1", "3", "4"]
    assert recording.read_texts_and_notes("b") == ["2", "5"]
    assert recording.warnings == []


def test_the_header_names_the_session_and_its_agent(recording: RecorderHarness) -> None:
    recording.write(
        IdentifyAgent(NAME, "1.0"), BeginTranscript("s", "/project", ["/more"], "recorded"), chunk_to_record("1")
    )
    reader = recording.store.open_reader(recording.recorder.find_agent_folder(), "s")
    header = reader.header
    reader.close()
    assert header is not None
    assert (header.session_id, header.cwd, header.origin, header.directories) == (
        "s",
        "/project",
        "recorded",
        ["/more"],
    )
    assert header.agent == {"id": recording.recorder.find_agent_folder(), "name": NAME, "version": "1.0"}


def test_an_answer_names_the_method_of_its_request_and_a_note_has_no_peer(recording: RecorderHarness) -> None:
    recording.begin()
    recording.write(
        RecordMessage("s", Peer.AGENT, b'{"id":1,"result":{}}', "session/prompt"), RecordNote("s", {"type": "closed"})
    )
    answer, note = recording.read_entries()
    assert (answer["peer"], answer["of"], answer["value"]) == (Peer.AGENT, "session/prompt", {"id": 1, "result": {}})
    assert (note["peer"], note["note"]) == (None, {"type": "closed"})


def test_a_bug_in_noting_a_gap_is_warned_of_once_and_the_writer_goes_on(
    recording: RecorderHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording.begin()
    try_note_gaps, bugs = TranscriptFiles.try_note_gaps, [RuntimeError("a bug")] * 3

    def stumble(files: TranscriptFiles) -> None:
        if bugs:
            raise bugs.pop()
        try_note_gaps(files)

    monkeypatch.setattr(TranscriptFiles, "try_note_gaps", stumble)
    recording.write(RecordGap("s", "EIO"))
    assert recording.warnings == ["internal error, something was not recorded: RuntimeError: a bug"]
    bugs.clear()
    recording.write(chunk_to_record("1"))
    assert recording.read_texts_and_notes() == ["gap", "1"]


def test_unread_updates_are_kept_line_by_line(recording: RecorderHarness) -> None:
    recording.begin()
    recording.write(
        RecordUnparsedUpdates("s", update_line("1") + b"\n" + update_line("2") + b"\n"), chunk_to_record("3")
    )
    assert recording.read_texts_and_notes() == ["1", "2", "3"]


def test_a_line_that_is_not_strict_json_is_kept_byte_for_byte(recording: RecorderHarness) -> None:
    raw = b'{"method":"session/update","params":{"a":"\\ud800","n":1.0, "b":\xff"\xff"}}'
    recording.begin()
    recording.write(RecordMessage("s", Peer.AGENT, raw))
    reader = recording.store.open_reader(recording.recorder.find_agent_folder(), "s")
    [line] = reader.read_lines()
    reader.close()
    assert line.entry is not None
    assert line.entry.raw == raw


def test_nothing_stays_in_a_buffer_after_a_flush(recording: RecorderHarness) -> None:
    recording.begin()
    recording.write(chunk_to_record("1"))
    assert get_text(json.loads(recording.path().read_bytes().split(b"\n")[1])["message"]) == "1"


def test_a_prompt_marks_its_transcript_for_the_index_and_the_end_of_a_turn_is_reported(
    recording: RecorderHarness,
) -> None:
    ended: queue.SimpleQueue[str] = queue.SimpleQueue()
    recording.recorder.on_session_changed = ended.put
    recording.begin()
    assert list(recording.store.root.glob("unindexed/*/*")) == []
    recording.write(*make_prompt_effects("hello"))
    assert len(list(recording.store.root.glob("unindexed/*/*"))) == 1
    assert ended.empty()
    recording.write(EndTurn("s"))
    assert ended.get(timeout=SECONDS) == "s"


def test_what_comes_between_turns_is_in_the_next_list_as_in_a_rebuilt_index(recording: RecorderHarness) -> None:
    title = {"sessionUpdate": "session_info_update", "title": "Renamed by the agent"}
    info = json.dumps({"method": "session/update", "params": {"sessionId": "s", "update": title}}).encode()
    late = RecordUnparsedUpdates("s", update_line("late") + b"\n"), RecordMessage("s", Peer.AGENT, info)
    long = RecordUnparsedUpdates("s", update_line("long" * 100_000) + b"\n"), chunk_to_record("long" * 100_000)
    answer = RecordMessage("s", Peer.AGENT, b'{"id":1,"result":{}}', "session/prompt")
    recording.begin()
    recording.write(*make_prompt_effects("hello"), answer, EndTurn("s"))
    for effects in ([late[0]], [late[1]], long, [chunk_to_record("later")]):
        recording.store.index_session(recording.recorder.find_agent_folder(), "s")
        assert list(recording.store.root.glob("unindexed/*/*")) == []
        recording.write(*effects)
        [mark] = recording.store.root.glob("unindexed/*/*")
        assert mark.name == recording.path().stem
    [row] = CommandStore(recording.store.root).list_all()
    assert (row.size, row.title) == (recording.path().stat().st_size, "Renamed by the agent")
    (recording.store.root / "index.sqlite3").unlink()
    assert CommandStore(recording.store.root).list_all() == [row]


def test_updates_of_a_turn_are_written_without_another_mark(recording: RecorderHarness) -> None:
    recording.begin()
    recording.write(*make_prompt_effects("hello"))
    [mark] = recording.store.root.glob("unindexed/*/*")
    mark.unlink()
    recording.write(RecordUnparsedUpdates("s", update_line("1") + b"\n"), chunk_to_record("2"))
    assert list(recording.store.root.glob("unindexed/*/*")) == []


def test_more_sessions_than_files_may_be_open_are_all_recorded(recording: RecorderHarness) -> None:
    names = [f"s{number}" for number in range(100)]
    recording.begin("first")
    for turn in ("1", "2"):
        for name in names:
            recording.write(
                *([BeginTranscript(name, "/project", [], "recorded")] if turn == "1" else []),
                chunk_to_record(turn, name),
            )
    assert len(list_open_below(recording.store.root)) <= MOST_OPEN_FILES
    assert all(recording.read_texts_and_notes(name) == ["1", "2"] for name in names)


def test_a_delete_includes_entries_added_before_it(recording: RecorderHarness) -> None:
    recording.begin()
    recording.recorder.add(chunk_to_record("1"))
    recording.delete("s")
    assert list(recording.store.root.glob("transcripts/*/s-*.jsonl")) == []


def test_what_runs_when_written_runs_once_everything_added_is_in_the_files(recording: RecorderHarness) -> None:
    lock = threading.Lock()
    recording.begin()
    recording.recorder.add(chunk_to_record("1"))
    looked: list[bool] = []
    look = lambda: looked.append(lock.locked())  # noqa: E731
    assert recording.recorder.run_when_recorded(
        lock, look, lambda: (lock.locked(), recording.read_texts_and_notes())
    ) == (True, ["1"])
    assert looked == [False]  # the store may hang, and deciding must not wait for it


@pytest.mark.parametrize(("fsync", "times"), [("always", 2), ("turn", 0), ("never", 0)])
def test_entries_are_forced_to_the_disk_one_by_one_only_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fsync: str, times: int
) -> None:
    recording = RecorderHarness(ProxyStore(tmp_path / "store"), fsync=fsync)
    recording.begin()
    forced: list[int] = []
    monkeypatch.setattr(os, "fsync", forced.append)
    recording.write(chunk_to_record("1"))
    recording.write(chunk_to_record("2"))
    assert len(forced) == times


def test_a_long_agent_name_does_not_fill_every_header(recording: RecorderHarness) -> None:
    recording.write(IdentifyAgent("x" * 1024 * 1024, "1" * 1024 * 1024), BeginTranscript("s", None, [], "recorded"))
    assert recording.path().stat().st_size < 4096


# --- masking


def test_every_entry_is_masked_as_it_is_written_and_the_header_is_not(recording: RecorderHarness) -> None:
    recorder = Recorder(recording.store, ["agent"], None, "turn", recording.warnings.append, lambda data: data.upper())
    recorder.start()
    for effect in (
        *(
            IdentifyAgent(NAME, "1.0"),
            BeginTranscript("s", "/project", [], "recorded"),
            chunk_to_record("a"),
            RecordNote("s", {"type": "closed"}),
        ),
        RecordUnparsedUpdates("s", update_line("b") + b"\n" + update_line("c") + b"\n"),
        *(*make_prompt_effects("d"), RecordMessage("s", Peer.AGENT, b"{}", "session/prompt")),
    ):
        recorder.add(effect)
    recorder.wait_until_recorded()
    header, *entries = recording.path().read_bytes().splitlines()
    assert b'"sessionId":"s"' in header
    assert len(entries) == 6
    assert [entry.upper() for entry in entries] == entries


# Waiting.
