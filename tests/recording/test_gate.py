"""While the store hangs, entries wait in memory and nothing waits for the store; a slow store is waited for."""

import threading
import time
from pathlib import Path

import pytest

from acp_proxy.proxy.effects import BeginTranscript
from acp_proxy.recording.backlog import PATIENCE_BYTES, Backlog
from acp_proxy.recording.gate import Gate, Stalled
from tests.recording.hanging import HangingStore, come_back, hang
from tests.recording.notes import SECONDS, Notes, prompted, said


class GetsOn(Gate):
    """Every look finds that the holder has begun something else."""

    looks = 0

    @property
    def busy_since(self) -> float | None:
        self.looks += 1
        return float(self.looks)

    @busy_since.setter
    def busy_since(self, since: float | None) -> None:
        pass


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acp_proxy.recording.gate.STALL_SECONDS", 0.01)


@pytest.mark.usefixtures("impatient")
def test_a_patient_caller_waits_for_a_busy_store_that_makes_progress() -> None:
    gate = GetsOn(Backlog())
    gate.enter()
    waiting = threading.Thread(target=gate.enter, args=(SECONDS,))
    waiting.start()
    deadline = time.monotonic() + SECONDS
    while gate.looks < 10:
        assert waiting.is_alive()
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)
    gate.leave()
    waiting.join(SECONDS)
    assert gate.is_taken


@pytest.mark.usefixtures("impatient")
def test_no_caller_waits_for_a_store_without_progress() -> None:
    gate = Gate(Backlog())
    gate.enter()
    comes_back = threading.Timer(SECONDS / 2, gate.leave)  # a caller that still waited would get the store then
    comes_back.start()
    with pytest.raises(Stalled):
        gate.enter(SECONDS)
    comes_back.cancel()


def test_entries_wait_in_memory_while_the_store_hangs_and_are_kept_when_it_returns(tmp_path: Path) -> None:
    store = HangingStore(tmp_path / "store")
    notes = Notes(store)
    notes.begin()
    stuck = hang(notes, store, said("stuck"))
    assert not notes.is_recording()
    notes.put(said("1"))  # returns: nothing waits for the store
    notes.put(BeginTranscript("new", "/project", [], "recorded"), *prompted("2", "new"))
    come_back(store, stuck)
    assert notes.said() == ["stuck", "1"]
    assert notes.said("new") == ["2"]
    assert notes.is_recording()
    assert notes.is_complete()
    assert notes.is_complete("new")
    assert len(notes.warnings) == 1


def test_a_thread_that_returns_at_the_last_moment_does_not_count_as_hanging(notes: Notes) -> None:
    notes.begin()
    notes.recorder.stall(0.0, lambda stuck: pytest.fail("nobody hangs"))
    assert notes.is_recording()
    assert notes.warnings == []


def test_entries_postponed_as_the_store_returns_are_kept_at_once(
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


def test_too_many_entries_while_the_store_hangs_become_a_gap_in_their_place(tmp_path: Path) -> None:
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


def test_a_session_begun_while_the_store_hung_is_recorded_with_a_gap(tmp_path: Path) -> None:
    store = HangingStore(tmp_path / "store")
    notes = Notes(store)
    notes.begin("a")
    stuck = hang(notes, store, said("stuck", "a"))
    notes.put(said("x" * PATIENCE_BYTES, "a"))
    notes.put(BeginTranscript("b", "/project", [], "recorded"), said("lost", "b"))
    come_back(store, stuck)
    notes.put(*prompted("hello", "b"))
    assert notes.said("b") == ["gap", "hello"]
    assert not notes.is_complete("b")
