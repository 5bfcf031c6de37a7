"""A thread that hangs in the store is noticed, and idle minutes are used as long as they last."""

import math
import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from acp_proxy.recording.gate import Gate
from acp_proxy.recording.recorder import Recorder
from acp_proxy.run import idle_compression, watch
from acp_proxy.run.watch import Watch
from acp_proxy.store.layout import Layout
from acp_proxy.transcript.file_names import compressed, unfinished
from tests.client import until
from tests.recording.hanging import HangingStore, come_back
from tests.recording.notes import SECONDS, Notes, said
from tests.run.sides import Talk
from tests.store import cold
from tests.stored import Both

SOON = 0.001
"""Seconds: so few that a test does not wait for a pause."""


class Watching:
    """Watches that end with the test, and what they ask and report."""

    def __init__(self) -> None:
        self.stuck: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.warnings: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.asked = threading.Semaphore(0)
        """Released whenever an idle watch asks whether a replay runs."""
        self._before = set(threading.enumerate())
        self._made: list[Watch] = []

    def __call__(
        self, recorder: Recorder, idle_seconds: float | None, is_replaying: Callable[[], bool] = lambda: False
    ) -> Watch:
        def asks() -> bool:
            self.asked.release()
            return is_replaying()

        made = Watch(recorder, self.stuck.put, asks, self.warnings.put, idle_seconds)
        self._made.append(made)
        made.start()
        return made

    def threads(self, name: str) -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == name and thread not in self._before]

    def end(self) -> None:
        for made in self._made:
            made.end()


@pytest.fixture
def watching(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watching]:
    monkeypatch.setattr(watch, "_WATCH_SECONDS", SOON)
    monkeypatch.setattr(watch, "STALL_SECONDS", SOON)
    monkeypatch.setattr(idle_compression, "_NICE", 0)
    made = Watching()
    yield made
    made.end()


# A busy store.


def test_a_thread_that_hangs_in_the_store_is_reported_and_nothing_waits_for_it(
    watching: Watching, tmp_path: Path
) -> None:
    store = HangingStore(tmp_path / "store")
    notes = Notes(store)
    notes.begin()
    watched = watching(notes.recorder, None)
    store.hangs.set()
    notes.recorder.add(said("1"))
    hangs = threading.Thread(target=notes.recorder.flush)
    hangs.start()
    assert store.stuck.wait(SECONDS)
    watched.stir()
    assert watching.stuck.get(timeout=SECONDS) == hangs.ident
    assert not notes.is_recording()
    until(lambda: len(notes.warnings) == 1)
    come_back(store, hangs)
    assert notes.said() == ["1"]
    assert notes.is_recording()


class LookedAt(Gate):
    """Busy with a long job, for the first looks."""

    looks = 0

    @property
    def busy_since(self) -> float | None:
        self.looks += 1
        return math.inf if self.looks < 10 else None

    @busy_since.setter
    def busy_since(self, since: float | None) -> None:
        pass


def test_a_busy_store_is_watched_and_does_not_count_as_hanging(watching: Watching, notes: Notes) -> None:
    notes.recorder.gate = gate = LookedAt(notes.recorder._backlog)
    watched = watching(notes.recorder, None)
    assert not gate.looks
    watched.stir()
    until(lambda: gate.looks == 10)
    watched.stir()
    until(lambda: gate.looks == 11)
    assert watching.stuck.empty()
    assert not notes.warnings


# Idle minutes.


@pytest.fixture
def two_cold(notes: Notes) -> list[Path]:
    """Two cold transcripts, in the order in which they are compressed."""
    paths = sorted(cold.kept(Both(notes.store.root), session) for session in ("one", "two"))
    for path in paths:
        cold.age(path, 8)
    return paths


def test_cold_transcripts_are_compressed_when_nothing_has_passed_for_a_while(
    watching: Watching, notes: Notes, two_cold: list[Path]
) -> None:
    watching(notes.recorder, SOON)
    until(lambda: not any(path.exists() for path in two_cold))
    assert all(compressed(path).exists() for path in two_cold)


def test_nothing_is_compressed_while_a_replay_runs(watching: Watching, notes: Notes, two_cold: list[Path]) -> None:
    ended = threading.Event()
    watching(notes.recorder, SOON, lambda: not ended.is_set())
    for _ in range(10):
        assert watching.asked.acquire(timeout=SECONDS)
    assert not watching.threads("idle")
    assert all(path.exists() for path in two_cold)
    ended.set()
    until(lambda: not any(path.exists() for path in two_cold))


def test_without_compression_the_watch_is_never_idle(watching: Watching, notes: Notes) -> None:
    notes.recorder.gate = gate = LookedAt(notes.recorder._backlog)
    gate.looks = 10
    watched = watching(notes.recorder, None)
    for looks in range(11, 14):
        watched.stir()
        until(lambda looks=looks: gate.looks == looks)  # type: ignore[misc]
    assert not watching.asked.acquire(blocking=False)


@pytest.fixture
def patient(watching: Watching, monkeypatch: pytest.MonkeyPatch) -> Watching:
    """After a line, it is not idle again before the test is over."""
    monkeypatch.setattr(watch, "_WATCH_SECONDS", SECONDS)
    return watching


def is_under_way(path: Path) -> bool:
    return unfinished(compressed(path)).exists()


def test_a_line_ends_the_running_compression(patient: Watching, notes: Notes, two_cold: list[Path]) -> None:
    with Layout(notes.store.root).journal(cold.AGENT).lock():  # it can begin, but not end
        watched = patient(notes.recorder, SOON)
        until(lambda: is_under_way(two_cold[0]))
        [working] = patient.threads("idle")
        watched.stir()
    working.join(SECONDS)
    assert not working.is_alive()
    assert two_cold[1].exists()


def test_a_meaningless_line_of_the_editor_ends_the_running_compression(
    patient: Watching, notes: Notes, two_cold: list[Path]
) -> None:
    with Layout(notes.store.root).journal(cold.AGENT).lock():
        talk = Talk(notes.store, idle_seconds=SOON)
        until(lambda: is_under_way(two_cold[0]))
        [working] = patient.threads("idle")
        for number in range(2):  # the second is read when the first has been handled
            talk.editor.say({"jsonrpc": "2.0", "method": f"_nothing_{number}"})
            talk.agent.hear(method=f"_nothing_{number}")
    working.join(SECONDS)
    assert not working.is_alive()
    assert two_cold[1].exists()
    talk.end()


class Buggy(Both):
    """Fails when it is asked for its root."""

    trips = False

    def __getattribute__(self, name: str) -> object:
        if name == "root" and self.trips:
            raise RuntimeError("a bug")
        return super().__getattribute__(name)


def test_a_bug_in_idle_work_is_a_warning(watching: Watching, tmp_path: Path) -> None:
    store = Buggy(tmp_path / "store")
    notes = Notes(store)
    store.trips = True
    watching(notes.recorder, SOON)
    assert watching.warnings.get(timeout=SECONDS) == "internal error while idle: RuntimeError: a bug"


# The end.


@pytest.mark.parametrize("idle_seconds", [None, SOON])
def test_a_watch_ends_when_it_is_told_to(watching: Watching, notes: Notes, idle_seconds: float | None) -> None:
    watched = watching(notes.recorder, idle_seconds)
    [thread] = watching.threads("watch")
    watched.end()
    thread.join(SECONDS)
    assert not thread.is_alive()
