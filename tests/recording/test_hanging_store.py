"""Nothing waits long for a store that hangs: entries wait in memory, and requests are answered without it. A slow store
is waited for."""

import threading
import time
from collections import deque
from pathlib import Path

import pytest

from acp_proxy.decisions.effects import BeginTranscript, BeginTurn, EndTurn, RecordGap, RecordUnparsedUpdates
from acp_proxy.recording import recorder, writer_jobs
from acp_proxy.recording.recorder import WAITING_BYTES
from acp_proxy.recording.writer_jobs import Heartbeat, Stalled
from acp_proxy.store.proxy_store import ProxyStore
from acp_proxy.transcript.reader import TranscriptReader
from tests.open_files import list_open_below
from tests.recording.hanging_store import HangingStore, come_back, hang
from tests.recording.recorder_harness import RecorderHarness, chunk_to_record, make_prompt_effects
from tests.relay.relay_conversation import RelayConversation, chunk, is_complete
from tests.waiting import SECONDS, wait_until


@pytest.fixture
def recording(hanging: HangingStore) -> RecorderHarness:
    recording = RecorderHarness(hanging)
    recording.begin()
    return recording


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_jobs, "STALL_SECONDS", 0.01)


# --- the recorder


def test_entries_wait_in_memory_while_the_store_hangs_and_are_kept_when_it_returns(
    recording: RecorderHarness, hanging: HangingStore
) -> None:
    hang(recording, hanging, chunk_to_record("stuck"))
    recording.write(chunk_to_record("1"))
    recording.write(BeginTranscript("new", "/project", [], "recorded"), *make_prompt_effects("2", "new"))
    come_back(recording.recorder, hanging)
    assert recording.read_texts_and_notes() == ["stuck", "1"]
    assert recording.read_texts_and_notes("new") == ["2"]
    assert recording.records_all_sessions()
    assert recording.is_complete()
    assert recording.is_complete("new")
    assert len(recording.warnings) == 1


def test_nobody_waits_again_until_the_writer_moves(
    recording: RecorderHarness, hanging: HangingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    hang(recording, hanging, chunk_to_record("stuck"))
    monkeypatch.setattr(writer_jobs, "STALL_SECONDS", 1000.0)
    recording.write(chunk_to_record("1"))
    with pytest.raises(Stalled):
        recording.recorder.run_on_writer(lambda: pytest.fail("the store does not answer"))
    assert not recording.recorder.jobs.wait(recording.recorder.jobs.submit(lambda: None))


def test_too_many_entries_while_the_store_hangs_become_a_gap_in_their_place(
    recording: RecorderHarness, hanging: HangingStore
) -> None:
    hang(recording, hanging, chunk_to_record("stuck"))
    recording.write(chunk_to_record("lost"))
    recording.write(chunk_to_record("x" * WAITING_BYTES, "s"))
    recording.write(chunk_to_record("kept again"))
    with pytest.raises(Stalled):
        recording.recorder.run_when_recorded(threading.Lock(), lambda: None, lambda: None)
    with pytest.raises(Stalled):
        recording.delete("s")
    come_back(recording.recorder, hanging)
    recording.write(chunk_to_record("after"))
    assert recording.read_texts_and_notes() == ["stuck", "gap", "kept again", "after"]
    assert recording.records_all_sessions()
    assert not recording.is_complete()
    assert len(recording.warnings) == 1


def test_a_session_begun_while_the_store_hung_is_recorded_with_a_gap(
    recording: RecorderHarness, hanging: HangingStore
) -> None:
    hang(recording, hanging, chunk_to_record("stuck"))
    recording.write(BeginTranscript("b", "/project", [], "recorded"), chunk_to_record("x" * WAITING_BYTES, "b"))
    come_back(recording.recorder, hanging)
    recording.write(*make_prompt_effects("hello", "b"))
    assert recording.read_texts_and_notes("b") == ["gap", "hello"]
    assert not recording.is_complete("b")


def test_beyond_the_limit_only_sessions_and_turns_are_kept_and_losses_are_marked() -> None:
    begin, turn, words = (
        BeginTranscript("new", "/project", [], "recorded"),
        BeginTurn("s"),
        RecordUnparsedUpdates("s", b"x\n"),
    )
    waiting = (words, turn, words, begin, RecordUnparsedUpdates("new", b"first\n"), EndTurn("s"), words)
    left = recorder._replace_entries_with_gaps(deque((1.0, effect) for effect in waiting))
    assert [effect for _, effect in left] == [
        *(RecordGap("s", "ETIMEDOUT"), turn, begin, RecordGap("new", "ETIMEDOUT"), EndTurn("s"))
    ]


class Moving(Heartbeat):
    """The writer has begun something else whenever somebody looks, and even when he looks at the clock soon after."""

    looks = 0

    @property
    def moved_at(self) -> float:
        self.looks += 1
        return time.monotonic() + 0.1

    @moved_at.setter
    def moved_at(self, at: float) -> None:
        pass


def test_a_slow_store_is_waited_for_while_it_moves(
    recording: RecorderHarness, hanging: HangingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_jobs, "STALL_SECONDS", 0.01)
    recording.recorder._heartbeat = recording.recorder.jobs._heartbeat = moving = Moving()
    hanging.hangs.set()
    recording.recorder.add(chunk_to_record("1"))
    waiting = threading.Thread(target=recording.recorder.wait_until_recorded)
    waiting.start()
    wait_until(lambda: moving.looks >= 3 or not waiting.is_alive())
    assert waiting.is_alive()
    monkeypatch.setattr(writer_jobs, "STALL_SECONDS", SECONDS)  # what follows is about what was waited for
    hanging.release()
    waiting.join(SECONDS)
    assert recording.read_texts_and_notes() == ["1"]
    assert recording.warnings == []


def test_slow_masking_does_not_count_as_a_hanging_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def mask(data: bytes) -> bytes:
        begun.set()
        assert goes_on.wait(SECONDS)
        return data

    recording = RecorderHarness(ProxyStore(tmp_path / "store"), mask=mask)
    recording.begin()
    recording.recorder.add(chunk_to_record("1"))
    recording.recorder.wake()
    assert begun.wait(SECONDS)
    with monkeypatch.context() as impatient:
        impatient.setattr(writer_jobs, "STALL_SECONDS", 0.01)
        waiting = threading.Thread(target=recording.recorder.wait_until_recorded)
        waiting.start()
        waiting.join(0.05)
        assert waiting.is_alive()
    goes_on.set()
    waiting.join(SECONDS)
    assert recording.read_texts_and_notes() == ["1"]
    assert recording.warnings == []


@pytest.mark.usefixtures("impatient")
def test_what_is_refused_is_not_done_later(recording: RecorderHarness, hanging: HangingStore) -> None:
    hanging.hangs.set()
    recording.recorder.add(chunk_to_record("stuck"))
    with pytest.raises(Stalled):
        recording.delete("s")
    come_back(recording.recorder, hanging)
    assert recording.read_texts_and_notes() == ["stuck"]


@pytest.mark.usefixtures("impatient")
def test_what_comes_too_late_is_discarded(recording: RecorderHarness, hanging: HangingStore) -> None:
    before = list_open_below(hanging.root)
    hanging.hangs.set()
    with pytest.raises(Stalled):
        recording.recorder.run_on_writer(
            lambda: hanging.open_reader(recording.recorder.find_agent_folder(), "s"), TranscriptReader.close
        )
    come_back(recording.recorder, hanging)
    assert recording.recorder.run_on_writer(lambda: None) is None
    assert list_open_below(hanging.root) == before


@pytest.mark.usefixtures("impatient")
def test_nothing_is_decided_after_a_look_up_was_refused(recording: RecorderHarness, hanging: HangingStore) -> None:
    hanging.hangs.set()
    with pytest.raises(Stalled):
        recording.recorder.run_when_recorded(threading.Lock(), hanging.wait, lambda: pytest.fail("too late"))
    come_back(recording.recorder, hanging)


# --- the conversation


def test_both_directions_continue_without_a_hanging_store_and_recording_resumes_when_it_returns(
    talk: RelayConversation, hanging: HangingStore
) -> None:
    talk.open()
    talk.turn("one")
    assert is_complete(talk)
    hanging.hangs.set()
    talk.turn("two")  # the editor's direction waits for it once
    assert hanging.stuck.is_set()
    talk.agent.say(chunk("said meanwhile"))
    talk.editor.hear(**chunk("said meanwhile"))
    talk.turn("three")
    assert not talk.recorder.is_recording_all

    come_back(talk.recorder, hanging)
    talk.turn("four")
    told = talk.transcript_items()
    assert told[:3] == ["opened", "one", "two"]  # what was being written when it hung is written when it is back
    assert told[3:] == ["three", "four"]
    assert is_complete(talk)
    [warning] = talk.warnings
    assert str(hanging.root) in warning


def test_the_agents_direction_continues_after_an_update_that_cannot_be_recorded(
    talk: RelayConversation, hanging: HangingStore
) -> None:
    talk.open()
    talk.turn("one")
    hanging.hangs.set()
    for number in range(3):
        talk.agent.say(chunk(f"update {number}"))
        talk.editor.hear(**chunk(f"update {number}"))
    talk.turn("two")
    assert hanging.stuck.is_set()
    assert len(talk.warnings) == 1


def test_a_delete_after_a_hanging_write_is_refused_and_the_conversation_continues(
    talk: RelayConversation, hanging: HangingStore
) -> None:
    talk.open()
    hanging.hangs.set()
    talk.turn("one")
    assert hanging.stuck.is_set()
    assert talk.ask("session/delete", {"sessionId": "s"})["error"]["code"] == -32603
    talk.turn("two")


class SlowToDelete(ProxyStore):
    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.back = threading.Event()

    def delete(self, agent: str, session: str, *, soft: bool = False) -> None:
        self.back.wait()
        super().delete(agent, session, soft=soft)


@pytest.mark.parametrize(("seconds", "answered"), [(SECONDS, (0, 1)), (0.05, (1, 0))])
def test_a_delete_that_hangs_is_answered_once_and_the_conversation_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, answered: tuple[int, int]
) -> None:
    monkeypatch.setattr("acp_proxy.relay.worker.ANSWER_SECONDS", seconds)
    store = SlowToDelete(tmp_path / "store")
    talk = RelayConversation(store)
    talk.open()
    talk.editor.say({"jsonrpc": "2.0", "id": 1, "method": "session/delete", "params": {"sessionId": "s"}})
    talk.turn("one")
    store.back.set()
    talk.editor.hear(id=1)
    talk.end()
    said = b"".join(talk.editor.lines)
    assert (said.count(b"ETIMEDOUT"), said.count(b'"result":{}')) == answered


def test_a_list_says_that_nothing_is_recorded_while_the_store_hangs(
    talk: RelayConversation, hanging: HangingStore
) -> None:
    talk.open()
    talk.turn("one")
    hanging.hangs.set()
    talk.turn("two")
    result = talk.ask("session/list", {})["result"]
    assert result["_meta"] == {"acp-proxy": {"recording": False}}
    assert [session["sessionId"] for session in result["sessions"]] == ["s"]


class SlowToFsync(ProxyStore):
    """A disk that accepts writes, and hangs when they are forced to it."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.begun, self.back = threading.Event(), threading.Event()

    def fsync_transcript(self, agent: str, session: str) -> bool:
        self.begun.set()
        return self.back.wait()


def test_a_list_and_a_delete_after_hanging_work_are_answered_once_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acp_proxy.relay.worker.ANSWER_SECONDS", 0.05)
    store = SlowToFsync(tmp_path / "store")
    talk = RelayConversation(store)
    talk.open()
    talk.turn("one")
    assert store.begun.wait(SECONDS)
    assert talk.ask("session/list", {})["error"] == {
        "code": -32603,
        "message": "Session history cannot be read (ETIMEDOUT). Run: acp-proxy doctor",
    }
    monkeypatch.setattr("acp_proxy.relay.worker.ANSWER_SECONDS", 1.0)  # within which every machine removes the file
    assert talk.ask("session/delete", {"sessionId": "s"})["result"] == {}
    assert not list(store.root.glob("transcripts/*/s-*"))
    store.back.set()
    talk.end()
    said = b"".join(talk.editor.lines)
    assert (said.count(b"ETIMEDOUT"), said.count(b'"sessions"'), said.count(b'"result":{}')) == (1, 0, 1)


def test_nothing_is_answered_after_the_end(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    store = SlowToFsync(tmp_path / "store")
    talk = RelayConversation(store)
    talk.open()
    talk.turn("one")
    assert store.begun.wait(SECONDS)
    talk.editor.say({"jsonrpc": "2.0", "id": 1, "method": "session/list", "params": {}})
    talk.editor.say({"jsonrpc": "2.0", "method": "_after"})
    talk.agent.hear(method="_after")
    talk.relay.finish_work(0.01)
    said = list(talk.editor.lines)
    store.back.set()
    for thread in set(threading.enumerate()) - before:
        if thread.name in ("worker", "post"):
            thread.join(SECONDS)
            assert not thread.is_alive()
    talk.end()
    assert talk.editor.lines == said


def test_a_load_from_a_hanging_store_is_refused_and_the_conversation_continues(
    talk: RelayConversation, hanging: HangingStore
) -> None:
    talk.open()
    talk.turn("one")
    hanging.hangs.set()
    place = {"sessionId": "s", "cwd": "/project", "mcpServers": []}
    answer = talk.ask("session/load", place)
    assert answer["error"] == {
        "code": -32603,
        "message": "Session history cannot be read (ETIMEDOUT). Run: acp-proxy doctor",
    }
    talk.turn("two")
    assert not any(b"session/resume" in line for line in talk.agent.lines)


def test_beyond_the_waiting_lists_the_next_list_gets_an_error_and_a_delete_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acp_proxy.relay.worker.QUESTION_LIMIT", 1)
    store = SlowToFsync(tmp_path / "store")
    talk = RelayConversation(store)
    talk.open()
    talk.turn("one")
    assert store.begun.wait(SECONDS)
    talk.editor.say({"jsonrpc": "2.0", "id": 1, "method": "session/list", "params": {}})
    assert "ETIMEDOUT" in talk.ask("session/list", {})["error"]["message"]
    assert talk.ask("session/delete", {"sessionId": "s"})["result"] == {}
    assert not list(store.root.glob("transcripts/*/s-*"))
    store.back.set()
    assert "result" in talk.editor.hear(id=1)  # which may have read the store before the delete
    assert talk.ask("session/list", {})["result"]["sessions"] == []
    talk.end()
