"""Idle minutes are used to compress once a day, and a line ends that at once."""

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from acp_proxy.run import idle_compression
from acp_proxy.run.idle_compression import compress
from acp_proxy.transcript.file_names import compressed
from tests.run.sides import SECONDS, Talk, chunk
from tests.store.cold import age, content, kept
from tests.stored import Both

NICE = idle_compression._NICE


@pytest.fixture(autouse=True)
def as_quick_as_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread with a low priority may have to wait longer than a test does."""
    monkeypatch.setattr(idle_compression, "_NICE", 0)


@pytest.fixture
def store(tmp_path: Path) -> Both:
    return Both(tmp_path / "store")


@pytest.fixture
def cold(store: Both) -> Path:
    return _made_cold(store)


def _made_cold(store: Both, session: str = "cold") -> Path:
    path = kept(store, session)
    age(path, 8)
    return path


def in_a_thread(store: Both, goes_on: bool) -> None:
    """Compress in a thread of its own: a lowered priority is not restored."""
    thread = threading.Thread(target=compress, args=(store.root, lambda: goes_on))
    thread.start()
    thread.join(SECONDS)
    assert not thread.is_alive()


def test_cold_transcripts_are_compressed_once_a_day(store: Both, cold: Path) -> None:
    warm = kept(store, "warm")
    in_a_thread(store, True)
    assert (cold.exists(), compressed(cold).exists(), warm.exists()) == (False, True, True)
    later = _made_cold(store, "later")
    in_a_thread(store, True)
    assert later.exists()
    age(store.root / "compressed", 1.01)
    in_a_thread(store, True)
    assert not later.exists()


def test_interrupted_compression_is_done_in_the_next_idle_minutes(store: Both, cold: Path) -> None:
    in_a_thread(store, False)
    assert cold.exists()
    in_a_thread(store, True)
    assert not cold.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a thread has no priority of its own")
@pytest.mark.parametrize(("before", "then"), [(0, NICE), (NICE + 5, NICE + 5)])
def test_the_compressing_thread_lowers_its_priority_and_never_raises_it(
    store: Both, monkeypatch: pytest.MonkeyPatch, before: int, then: int
) -> None:
    monkeypatch.setattr(idle_compression, "_NICE", NICE)
    found: list[int] = []

    def work() -> None:
        os.setpriority(os.PRIO_PROCESS, thread := threading.get_native_id(), max(before, usual))
        compress(store.root, lambda: False)
        found.append(os.getpriority(os.PRIO_PROCESS, thread))

    usual = os.getpriority(os.PRIO_PROCESS, 0)
    working = threading.Thread(target=work)
    working.start()
    working.join(SECONDS)
    assert found == [max(then, usual)]


def test_a_failing_store_is_left_alone(store: Both, cold: Path) -> None:
    os.mkdir(store.root / "compressed")
    in_a_thread(store, True)
    assert cold.exists()


def test_an_idle_relay_compresses_cold_transcripts_and_continues(store: Both, cold: Path) -> None:
    before = content(cold)
    talk = Talk(store, idle_seconds=0.01)
    talk.open()
    deadline = time.monotonic() + SECONDS
    while cold.exists():
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)
    assert content(cold) == before
    talk.turn("one")
    talk.agent.say(chunk("two"))
    talk.editor.hear(**chunk("two"))
    talk.end()
    assert talk.told() == ["opened", "one"]
    assert talk.warnings == []


def test_a_relay_without_an_idle_time_compresses_nothing(store: Both, cold: Path) -> None:
    talk = Talk(store)
    talk.open()
    talk.turn("one")
    talk.end()
    assert cold.exists()
    assert not (store.root / "compressed").exists()
