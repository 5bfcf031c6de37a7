"""The agent's process tree, as Linux and as psutil show it."""

import signal
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from acp_proxy.run import process_tree
from acp_proxy.run.process_tree import LinuxProcess, TreeProcess
from tests.waiting import SECONDS

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this /proc")
FAMILY = """
import subprocess, sys
words = sys.argv[1:]
child = subprocess.Popen([sys.executable, "-c", *words]) if words else None
print("started", flush=True)
sys.stdin.read()
"""


@pytest.fixture(params=["by this system", "by psutil"])
def _shown(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "by psutil":
        monkeypatch.setattr(process_tree, "HAS_PROC", False)


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


def ids(processes: list[TreeProcess]) -> list[int]:
    return [process.pid for process in processes]


@pytest.mark.usefixtures("_shown")
def test_the_tree_is_the_process_and_its_descendants(family: subprocess.Popen[bytes]) -> None:
    tree = process_tree.find_tree(family.pid)
    assert len(tree) == 3
    expected = [family.pid, *(child.pid for child in psutil.Process(family.pid).children(recursive=True))]
    assert sorted(ids(tree)) == sorted(expected)
    assert ids(tree)[0] == family.pid
    assert ids(process_tree.find_running(tree)) == ids(tree)


@pytest.mark.usefixtures("_shown")
def test_a_signal_reaches_what_still_runs_and_zombies_do_not_run(family: subprocess.Popen[bytes]) -> None:
    tree = process_tree.find_tree(family.pid)
    others = [psutil.Process(each.pid) for each in tree[1:]]
    process_tree.send_signal(tree[:1], signal.SIGTERM)
    assert family.wait(SECONDS)
    assert ids(process_tree.find_running(tree)) == ids(tree[1:])
    process_tree.send_signal(tree, signal.SIGTERM)
    assert not psutil.wait_procs(others, SECONDS)[1]
    assert process_tree.find_running(tree) == []


@pytest.mark.usefixtures("_shown")
def test_a_process_that_ended_has_no_tree() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait(SECONDS)
    assert process_tree.find_tree(process.pid) == []


@linux
def test_a_later_process_with_the_same_id_is_another_one(family: subprocess.Popen[bytes]) -> None:
    earlier = LinuxProcess(family.pid, b"1")
    assert process_tree.find_running([earlier]) == []
    process_tree.send_signal([earlier], signal.SIGKILL)
    assert family.poll() is None


@linux
def test_a_name_may_contain_anything() -> None:
    words = [sys.executable, "-c", f"open('/proc/self/comm', 'w').write(') Z 1 (')\n{FAMILY}"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        [found] = process_tree.find_tree(process.pid)
        assert (found.pid, found.is_running()) == (process.pid, True)
        assert process.stdin is not None
        process.stdin.close()
