"""A process that is forked does what a started one does."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import forked
from tests.client import TIMEOUT
from tests.forked import PROXY


@pytest.mark.parametrize(
    "words",
    [("--version",), ("path", "--store", "."), ("show", "x"), ("sessions", "no"), ("run",)],
)
def test_it_says_the_same_and_ends_the_same(words: tuple[str, ...], tmp_path: Path) -> None:
    options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    options |= {"cwd": tmp_path, "env": os.environ | {"ACP_PROXY_STORE": str(tmp_path / "store")}}
    ended = []
    for start in (forked.start, subprocess.Popen):
        with start([*PROXY, *words], **options) as process:
            said = process.communicate(timeout=TIMEOUT)
            ended.append((process.returncode, *said))
    assert ended[0] == ended[1]


def test_it_runs_until_it_is_killed(tmp_path: Path) -> None:
    command = [*PROXY, "run", "--store", str(tmp_path / "store"), "--", "cat"]
    with forked.start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(line := b'{"jsonrpc":"2.0","method":"_hello"}\n')
        process.stdin.flush()
        assert process.stdout.readline() == line
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.kill()
        assert process.wait(TIMEOUT) == -signal.SIGKILL == process.poll()
