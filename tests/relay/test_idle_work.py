"""Idle minutes are used to compress once a day, and a line ends that at once."""

import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from acp_proxy.relay import idle_work
from acp_proxy.relay.idle_work import IdleWork, compress_daily
from acp_proxy.store import journal
from acp_proxy.store.layout import Layout
from acp_proxy.transcript.file_names import compressed_path, unfinished_path
from tests.relay.relay_conversation import RelayConversation, chunk
from tests.store.compressible import AGENT, age, read_content, store_compressible
from tests.stored import WholeStore
from tests.waiting import SECONDS, wait_until

NICE = idle_work._NICENESS


@pytest.fixture(autouse=True)
def as_quick_as_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread with a low priority may have to wait longer than a test does."""
    monkeypatch.setattr(idle_work, "_NICENESS", 0)


@pytest.fixture
def cold(store: WholeStore) -> Path:
    return _made_cold(store)


def _made_cold(store: WholeStore, session: str = "cold") -> Path:
    path = store_compressible(store, session)
    age(path, 8)
    return path


def in_a_thread(store: WholeStore, goes_on: bool) -> None:
    """Compress in a thread of its own: a lowered priority is not restored."""
    thread = threading.Thread(target=compress_daily, args=(store.root, lambda: goes_on))
    thread.start()
    thread.join(SECONDS)
    assert not thread.is_alive()


def test_cold_transcripts_are_compressed_once_a_day(store: WholeStore, cold: Path) -> None:
    warm = store_compressible(store, "warm")
    in_a_thread(store, True)
    assert (cold.exists(), compressed_path(cold).exists(), warm.exists()) == (False, True, True)
    later = _made_cold(store, "later")
    in_a_thread(store, True)
    assert later.exists()
    age(store.root / "compressed", 1.01)
    in_a_thread(store, True)
    assert not later.exists()


def test_interrupted_compression_is_done_in_the_next_idle_minutes(store: WholeStore, cold: Path) -> None:
    in_a_thread(store, False)
    assert cold.exists()
    in_a_thread(store, True)
    assert not cold.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a thread has no priority of its own")
@pytest.mark.parametrize(("before", "then"), [(0, NICE), (NICE + 5, NICE + 5)])
def test_the_compressing_thread_lowers_its_priority_and_never_raises_it(
    store: WholeStore, monkeypatch: pytest.MonkeyPatch, before: int, then: int
) -> None:
    monkeypatch.setattr(idle_work, "_NICENESS", NICE)
    found: list[int] = []

    def work() -> None:
        os.setpriority(os.PRIO_PROCESS, thread := threading.get_native_id(), max(before, usual))
        compress_daily(store.root, lambda: False)
        found.append(os.getpriority(os.PRIO_PROCESS, thread))

    usual = os.getpriority(os.PRIO_PROCESS, 0)
    working = threading.Thread(target=work)
    working.start()
    working.join(SECONDS)
    assert found == [max(then, usual)]


def test_a_failing_store_is_left_alone(store: WholeStore, cold: Path) -> None:
    os.mkdir(store.root / "compressed")
    in_a_thread(store, True)
    assert cold.exists()


def test_an_idle_relay_compresses_cold_transcripts_and_continues(store: WholeStore, cold: Path) -> None:
    before = read_content(cold)
    talk = RelayConversation(store, idle_seconds=0.01)
    talk.open()
    wait_until(lambda: not cold.exists())
    assert read_content(cold) == before
    talk.turn("one")
    talk.agent.say(chunk("two"))
    talk.editor.hear(**chunk("two"))
    talk.end()
    assert talk.transcript_items() == ["opened", "one"]
    assert talk.warnings == []


def test_expired_sessions_are_removed_in_idle_minutes(store: WholeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for session, days in (("over", 1), ("stays", 365_000)):
        store_compressible(store, session)
        WholeStore(store.root, bin_days=days).delete(AGENT, session, soft=True)
    monkeypatch.setattr(journal, "stamp_now", lambda: "2999-01-01T00:00:00.000Z")
    talk = RelayConversation(store, idle_seconds=0.01)
    talk.open()
    wait_until(lambda: len(store.layout.list_soft_deleted_names(AGENT)) < 2)
    talk.end()
    assert [deleted.session_id for deleted in store.list_deleted()] == ["stays"]
    assert len(store.layout.list_soft_deleted_names(AGENT)) == 1


def test_a_relay_without_an_idle_time_compresses_nothing(store: WholeStore, cold: Path) -> None:
    talk = RelayConversation(store)
    talk.open()
    talk.turn("one")
    talk.end()
    assert cold.exists()
    assert not (store.root / "compressed").exists()


SOON = 0.001
NEVER = 3600.0
"""Seconds: so few that a test does not wait for a pause."""


class Idle:
    """Threads that end with the test, and what they ask and report."""

    def __init__(self) -> None:
        self.warnings: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.asked = threading.Semaphore(0)
        """Released whenever it asks whether the past is being shown."""
        self._made: list[IdleWork] = []
        self._before = set(threading.enumerate())

    def __call__(self, root: Path, seconds: float = SOON, has_loads: Callable[[], bool] = lambda: False) -> IdleWork:
        def asks() -> bool:
            self.asked.release()
            return has_loads()

        made = IdleWork(root, seconds, asks, self.warnings.put)
        self._made.append(made)
        made.start()
        return made

    def thread(self) -> threading.Thread:
        [found] = [each for each in threading.enumerate() if each.name == "idle" and each not in self._before]
        return found

    def end(self) -> None:
        for made in self._made:
            made.end()


@pytest.fixture
def idle() -> Iterator[Idle]:
    made = Idle()
    yield made
    made.end()


@pytest.fixture
def two_cold(store: WholeStore) -> list[Path]:
    """Two cold transcripts, in the order in which they are compressed."""
    return sorted(_made_cold(store, session) for session in ("one", "two"))


def is_under_way(path: Path) -> bool:
    return unfinished_path(compressed_path(path)).exists()


def test_nothing_is_compressed_while_the_past_is_shown(idle: Idle, store: WholeStore, two_cold: list[Path]) -> None:
    ended = threading.Event()
    idle(store.root, SOON, lambda: not ended.is_set())
    for _ in range(10):
        assert idle.asked.acquire(timeout=SECONDS)
    assert all(path.exists() for path in two_cold)
    ended.set()
    wait_until(lambda: not any(path.exists() for path in two_cold))


def test_a_line_ends_the_running_compression(idle: Idle, store: WholeStore, two_cold: list[Path]) -> None:
    with Layout(store.root).get_journal(AGENT).lock():  # it can begin, but not end
        running = idle(store.root)
        wait_until(lambda: is_under_way(two_cold[0]))
        thread = idle.thread()
        running.is_idle = False
        running.end()
    thread.join(SECONDS)
    assert two_cold[1].exists()


def test_a_meaningless_line_of_the_editor_ends_the_idle_time(store: WholeStore) -> None:
    talk = RelayConversation(store, idle_seconds=NEVER)
    assert talk.relay._idle_work is not None
    talk.relay._idle_work.is_idle = True
    for number in range(2):  # the second is read when the first has been handled
        talk.editor.say({"jsonrpc": "2.0", "method": f"_nothing_{number}"})
        talk.agent.hear(method=f"_nothing_{number}")
    assert not talk.relay._idle_work.is_idle
    talk.end()


def test_a_bug_in_idle_work_is_a_warning(idle: Idle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(idle_work, "compress_daily", fails)
    idle(tmp_path)
    assert idle.warnings.get(timeout=SECONDS) == "internal error while idle: RuntimeError: a bug"


@pytest.mark.parametrize("seconds", [SECONDS, SOON])
def test_the_thread_ends_when_it_is_told_to(idle: Idle, tmp_path: Path, seconds: float) -> None:
    running = idle(tmp_path, seconds)
    thread = idle.thread()
    running.end()
    thread.join(SECONDS)
    assert not thread.is_alive()
