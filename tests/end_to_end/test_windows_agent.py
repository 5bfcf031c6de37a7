"""Agents on Windows itself: batch files, and the job that ends everything."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from tests.client import Client
from tests.end_to_end.proxied import PROXY
from tests.waiting import SECONDS
from torture.processes import is_gone

pytestmark = pytest.mark.skipif(sys.platform != "win32", reason="tests what only Windows has")

TELLS = 'import json, sys; print(json.dumps({"got": sys.argv[1:]}), flush=True); sys.stdin.read()'
"""An agent that tells its arguments."""
BEARS = """
import json, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], stdin=subprocess.DEVNULL)
print(json.dumps({"child": child.pid}), flush=True)
while True:
    sys.stdin.read(1)
"""
"""An agent that starts a child at once and ignores the end of its input."""


@pytest.fixture
def batch(tmp_path: Path) -> Path:
    """An agent behind a batch file that ends like those of npm."""
    place = tmp_path / "with space"
    place.mkdir()
    (place / "tells.py").write_text(TELLS, encoding="utf-8")
    batch = place / "agent.cmd"
    batch.write_text(f'@ECHO off\nSETLOCAL\nendLocal & "{sys.executable}" "%~dp0tells.py" %*\n', encoding="utf-8")
    return batch


def proxy(store: Path, agent: Sequence[str | Path], *options: str) -> list[str]:
    return [*PROXY, "run", "--store", str(store), *options, "--", *map(str, agent)]


def test_a_batch_file_gets_its_arguments_exactly(batch: Path, tmp_path: Path) -> None:
    words = [
        "-y",
        "a b",
        "",
        "x&y",
        "a^b",
        "(c)",
        "a|b>c<d",
        "!PATH!",
        "d\\",
        "e f\\",
        "a=b",
        "a,b;c",
        "'q'",
        "&calc",
        "ü",
    ]
    with Client(proxy(tmp_path / "store", [batch, *words])) as client:
        assert client.wait_for(lambda message: "got" in message, SECONDS).message == {"got": words}
        client.close_stdin()
        assert client.wait(SECONDS) == 0


@pytest.mark.parametrize("word", ["%PATH%", 'say "hi"'])
def test_an_argument_that_a_batch_file_would_get_changed_is_refused(batch: Path, tmp_path: Path, word: str) -> None:
    result = subprocess.run(
        proxy(tmp_path / "store", [batch, word]), stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS
    )
    assert (result.returncode, result.stdout) == (126, b"")
    assert b"batch file" in result.stderr
    assert b"Traceback" not in result.stderr


def test_a_program_that_is_missing_is_reported(tmp_path: Path) -> None:
    result = subprocess.run(
        proxy(tmp_path / "store", ["no-such-agent"]), stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS
    )
    assert result.returncode == 127
    assert result.stderr.startswith(b"acp-proxy: no-such-agent is not in PATH. The registry")


def test_an_agent_that_crashes_ends_us_with_its_status(tmp_path: Path) -> None:
    crashes = "import ctypes; ctypes.windll.kernel32.TerminateProcess(ctypes.c_void_p(-1), 0xC0000005)"
    with Client(proxy(tmp_path / "store", [sys.executable, "-c", crashes])) as client:
        error = client.wait_for_answer(client.start_request("initialize", {"protocolVersion": 1}), SECONDS)["error"]
        assert error["message"].startswith("agent exited with status 0xC0000005. To see why: ")
        assert client.wait(SECONDS) == 0xC0000005
        assert client.read_stderr() == f"acp-proxy: {error['message']}\n"


def test_terminating_the_proxy_ends_what_the_agent_started_at_once(tmp_path: Path) -> None:
    with Client(proxy(tmp_path / "store", [sys.executable, "-c", BEARS])) as client:
        child = psutil.Process(client.wait_for(lambda message: "child" in message, SECONDS).message["child"])
        psutil.Process(client.pid).kill()
        assert is_gone(child, SECONDS)


def test_after_the_grace_the_agent_and_what_it_started_end(tmp_path: Path) -> None:
    with Client(proxy(tmp_path / "store", [sys.executable, "-c", BEARS], "--grace", "0.2")) as client:
        child = psutil.Process(client.wait_for(lambda message: "child" in message, SECONDS).message["child"])
        client.close_stdin()
        client.wait(SECONDS)
        assert is_gone(child, SECONDS)
