"""What comes while the store hangs waits in memory, and nobody waits for the store; one that gets on is waited for."""

import threading
import time
from pathlib import Path

import pytest

from acp_proxy.core.effects import (
    BeginTranscript,
)
from acp_proxy.recording.backlog import PATIENCE_BYTES, Backlog
from acp_proxy.recording.gate import Gate, Stalled
from tests.recording.hanging import HangingStore, come_back, hang
from tests.recording.notes import SECONDS, Notes, prompted, said


class GetsOn(Gate):
    """Whoever looks finds that who has it has begun something else."""

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
def test_who_has_patience_waits_for_a_store_that_is_busy_and_gets_on() -> None:
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
def test_nobody_has_patience_with_a_store_that_does_not_get_on() -> None:
    gate = Gate(Backlog())
    gate.enter()
    comes_back = threading.Timer(SECONDS / 2, gate.leave)  # who had patience would have the store then
    comes_back.start()
    with pytest.raises(Stalled):
        gate.enter(SECONDS)
    comes_back.cancel()


def test_what_comes_while_the_store_hangs_waits_in_memory_and_is_kept_when_it_comes_back(tmp_path: Path) -> None:
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
    notes.put(BeginTranscript("b", "/project", [], "recorded"), said("lost", "b"))
    come_back(store, stuck)
    notes.put(*prompted("hello", "b"))
    assert notes.said("b") == ["gap", "hello"]
    assert not notes.is_complete("b")
