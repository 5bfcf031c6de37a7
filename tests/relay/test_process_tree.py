"""The agent's process tree."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import cast

import psutil
import pytest

from acp_proxy.relay import agent_process, process_tree, shutdown
from acp_proxy.relay.relay import Relay
from tests.waiting import SECONDS

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this /proc")
FAMILY = """
import subprocess, sys
words = sys.argv[1:]
child = subprocess.Popen([sys.executable, "-c", *words]) if words else None
print("started", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def family() -> Iterator[subprocess.Popen[bytes]]:
    """A process with a child and a grandchild."""
    words = [sys.executable, "-c", FAMILY, FAMILY, FAMILY]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        for _ in range(3):
            assert first.stdout.readline().strip() == b"started"
        everyone = [psutil.Process(first.pid), *psutil.Process(first.pid).children(recursive=True)]
        yield first
        for each in everyone:
            if each.is_running():
                each.kill()


def ids(processes: list[psutil.Process]) -> list[int]:
    return [process.pid for process in processes]


def test_the_tree_is_the_process_and_its_descendants(family: subprocess.Popen[bytes]) -> None:
    tree = process_tree.find_tree(family.pid)
    assert len(tree) == 3
    expected = [family.pid, *(child.pid for child in psutil.Process(family.pid).children(recursive=True))]
    assert sorted(ids(tree)) == sorted(expected)
    assert ids(tree)[0] == family.pid
    assert ids(process_tree.find_running(tree)) == ids(tree)


def test_a_signal_reaches_what_still_runs_and_zombies_do_not_run(family: subprocess.Popen[bytes]) -> None:
    tree = process_tree.find_tree(family.pid)
    others = [psutil.Process(each.pid) for each in tree[1:]]
    process_tree.send_signal(tree[:1], signal.SIGTERM)
    assert family.wait(SECONDS)
    assert ids(process_tree.find_running(tree)) == ids(tree[1:])
    process_tree.send_signal(tree, signal.SIGTERM)
    assert not psutil.wait_procs(others, SECONDS)[1]
    assert process_tree.find_running(tree) == []


def test_a_process_that_ended_has_no_tree() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait(SECONDS)
    assert process_tree.find_tree(process.pid) == []


def test_a_later_process_with_the_same_id_is_another_one(
    family: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = psutil.Process(family.pid)
    monkeypatch.setattr(earlier, "_ident", (family.pid, 1.0))
    assert process_tree.find_running([earlier]) == []
    process_tree.send_signal([earlier], signal.SIGKILL)
    assert family.poll() is None


@linux
def test_a_name_may_contain_anything() -> None:
    words = [sys.executable, "-c", f"open('/proc/self/comm', 'w').write(') Z 1 (')\n{FAMILY}"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        [found] = process_tree.find_running(process_tree.find_tree(process.pid))
        assert found.pid == process.pid
        assert process.stdin is not None
        process.stdin.close()


class FakeRelay:
    """The relay of a client that has gone."""

    client_is_gone, agent_has_unread_input, slow_write_count, has_waiting_requests = True, False, 0, False
    agent_reads_no_more = False

    def __init__(self) -> None:
        self.agent_pump = FakePump()

    def end_input(self) -> None:
        pass

    def handle_agent_end(self, reason: str, advice: str = "") -> None:
        pass

    def finish_work(self, seconds: float) -> None:
        pass


class FakePump:
    """The pump of an agent that has closed its output."""

    def __init__(self) -> None:
        self.ended, self.is_waiting_for_input = threading.Event(), True
        self.ended.set()


def test_the_agent_ends_even_if_psutil_was_replaced_since_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    agent = agent_process.start_agent([sys.executable, "-c", "import time; time.sleep(1000)"])
    ended = shutdown._Supervisor(agent, cast("Relay", FakeRelay()), 0.1, lambda: "")
    ended.run_until_end()
    assert agent.status == -signal.SIGTERM


def test_the_wait_for_what_waits_and_the_end_share_one_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent gets no more time than without us, however long something waits for a load."""
    agent = agent_process.start_agent([sys.executable, "-c", "import time; time.sleep(1000)"])
    relay = FakeRelay()
    relay.has_waiting_requests = True
    relay.agent_pump.ended.clear()
    ended = shutdown._Supervisor(agent, cast("Relay", relay), 0.2, lambda: "")
    graces: list[float] = []
    end = ended._end

    def note_and_end(grace: float) -> None:
        graces.append(grace)
        relay.agent_pump.ended.set()
        end(grace)

    monkeypatch.setattr(ended, "_end", note_and_end)
    ended.run_until_end()
    assert graces == [0.0]
