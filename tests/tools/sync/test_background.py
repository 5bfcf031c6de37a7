"""The process that ``run`` starts, and what ``run`` does for it. Mostly called here without a process of its
own."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from acp_proxy.relay.start_sync_round import LOCK, SETTINGS, WAITING, start_sync_round
from acp_proxy.tools.sync import open_place
from acp_proxy.tools.sync.background import do_rounds_until_idle
from acp_proxy.tools.sync.encryption import HistoryKey
from acp_proxy.tools.sync.membership import SyncMembership, SyncSettings, read_trouble
from acp_proxy.tools.sync.sync_store import lock, open_private
from tests.client import TIMEOUT
from tests.stored import WholeStore, store_session
from tests.waiting import wait_until

STARTS = """
import ctypes, sys, time
from pathlib import Path
from acp_proxy.relay.start_sync_round import start_sync_round

if sys.platform == "win32":
    from acp_proxy.relay.windows_agent import end_with_us

    end_with_us(ctypes.c_void_p(-1), ctypes.windll.kernel32)  # this process and what it starts
start_sync_round(Path(sys.argv[1]), print)
sys.stdout.buffer.write(b"started\\n")
sys.stdout.flush()
time.sleep(300)
"""


class Laptop:
    """A store with one session, whose history is in a folder. ``pauses``: how long its process has slept."""

    def __init__(self, base: Path) -> None:
        self.place, self.key, self.root = base / "shared", base / "key", base / "store"
        self.folder = self.root / "sync"
        self.pauses: list[float] = []
        self.place.mkdir()
        HistoryKey.create().write(self.key)
        store_session(WholeStore(self.root), "s", ("Hello", []))
        self.joined = SyncMembership(self.root)
        self.joined.join(SyncSettings(self.place.as_uri(), str(self.key)), "laptop")

    def do_rounds(self, when_asleep: Callable[[], object] = lambda: None) -> None:
        def sleep(seconds: float) -> None:
            self.pauses.append(seconds)
            when_asleep()

        do_rounds_until_idle(self.root, sleep)

    def lock_file(self, name: str) -> int:
        fd = open_private(self.folder / name, os.O_RDWR | os.O_CREAT)
        lock(fd)
        return fd

    def run(self) -> list[str]:
        """What a proxy says after a turn, while a process is waiting already."""
        fd = self.lock_file(WAITING)
        told: list[str] = []
        start_sync_round(self.root, told.append)
        os.close(fd)
        return told


@pytest.fixture
def laptop(tmp_path: Path) -> Laptop:
    return Laptop(tmp_path)


def test_it_does_a_round_at_once_if_there_was_none_and_then_one_in_a_minute(laptop: Laptop) -> None:
    laptop.do_rounds()
    laptop.do_rounds()
    assert laptop.joined.read_status().sent == 1
    assert laptop.pauses[0] == 0
    assert 0 < laptop.pauses[1] <= 60


def test_a_round_in_the_future_of_a_wrong_clock_delays_it_by_a_minute_at_most(laptop: Laptop) -> None:
    laptop.do_rounds()
    os.utime(laptop.folder / LOCK, (4e9, 4e9))
    laptop.do_rounds()
    assert laptop.pauses[1] == 60


def test_while_one_waits_others_end_at_once(laptop: Laptop) -> None:
    fd = laptop.lock_file(WAITING)
    laptop.do_rounds()
    os.close(fd)
    assert (laptop.pauses, laptop.joined.read_status().sent) == ([], 0)


def test_without_the_packages_the_user_is_told(laptop: Laptop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_place, "find_spec", lambda name: None)
    laptop.do_rounds()
    [told] = laptop.run()
    assert told.startswith("sync failed: sync needs more packages (nacl, obstore). To install them, too: ")


def test_it_waits_for_the_round_of_another_process(laptop: Laptop) -> None:
    fd = laptop.lock_file(LOCK)
    asleep = threading.Event()
    waiting = threading.Thread(target=laptop.do_rounds, args=(asleep.set,))
    waiting.start()
    assert asleep.wait(TIMEOUT)
    assert laptop.joined.read_status().sent == 0  # which can be asked at any time
    os.close(fd)
    waiting.join(TIMEOUT)
    assert laptop.joined.read_status().sent == 1


def test_a_place_that_does_not_answer_is_tried_again_and_again(laptop: Laptop) -> None:
    laptop.place.rmdir()

    def comes_back() -> None:
        if len(laptop.pauses) == 4:
            laptop.place.mkdir()

    laptop.do_rounds(comes_back)
    assert laptop.pauses == [0, 60, 120, 300]
    assert (laptop.joined.read_status().sent, laptop.joined.read_status().trouble) == (1, "")


def test_what_went_wrong_is_told_once_until_the_next_success(laptop: Laptop) -> None:
    laptop.key.rename(laptop.key.with_suffix(".away"))
    for _ in range(2):
        laptop.do_rounds()
        assert str(laptop.key) in laptop.joined.read_status().trouble
    [told] = laptop.run()
    assert told.startswith("sync failed: ")
    assert "acp-proxy sync status" in told
    laptop.do_rounds()
    assert laptop.run() == []
    assert str(laptop.key) in laptop.joined.read_status().trouble
    laptop.key.with_suffix(".away").rename(laptop.key)
    laptop.do_rounds()
    assert read_trouble(laptop.folder) == ""
    laptop.key.unlink()
    laptop.do_rounds()
    assert len(laptop.run()) == 1


def test_a_store_that_is_synchronized_by_hand_is_left_alone(laptop: Laptop) -> None:
    settings = laptop.folder / SETTINGS
    settings.write_text(settings.read_text().replace('"manual": false', '"manual": true'))
    laptop.key.unlink()
    laptop.do_rounds()
    assert laptop.joined.read_status().trouble == ""
    assert laptop.joined.read_status().sent == 0
    (laptop.folder / WAITING).unlink()
    start_sync_round(laptop.root, pytest.fail)
    assert not (laptop.folder / WAITING).exists()  # it did not even look whether a process waits


def test_it_goes_on_when_an_editor_ends_all_that_it_started(laptop: Laptop) -> None:
    editor = subprocess.Popen([sys.executable, "-c", STARTS, laptop.root], stdout=subprocess.PIPE, process_group=0)
    assert editor.stdout is not None
    assert editor.stdout.readline() == b"started\n"
    os.killpg(editor.pid, signal.SIGKILL) if sys.platform != "win32" else editor.kill()
    editor.communicate(timeout=TIMEOUT)
    wait_until(lambda: laptop.joined.read_status().sent)


def test_a_store_that_is_not_synchronized_is_left_as_it_is(tmp_path: Path) -> None:
    do_rounds_until_idle(tmp_path, pytest.fail)  # type: ignore[arg-type]
    start_sync_round(tmp_path, pytest.fail)
    assert list(tmp_path.iterdir()) == []
