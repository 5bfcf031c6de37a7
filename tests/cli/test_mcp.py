"""The errors of ``mcp`` before it serves. Its service: tests/tools/recall/test_server.py."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import invoke
from tests.posix import pty


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--cwd", ".", "--everywhere"], 2, "exclude each other"),
        (["--store", "missing"], 1, "there is no store"),
    ],
)
def test_a_wrong_command_line_is_reported_on_stderr_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], status: int, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke("mcp", *words)
    assert (result.exit_code, result.stdout) == (status, "")
    assert said in result.stderr


def test_without_its_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [
        name for name in sys.modules if name.split(".")[0] == "mcp" or name == "acp_proxy.tools.recall.server"
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    result = invoke("mcp")
    assert result.exit_code == 1
    assert "[mcp" in result.stderr


def test_in_a_terminal_it_says_that_an_agent_starts_it(tmp_path: Path) -> None:
    _, terminal = pty.openpty()
    command = [sys.executable, "-m", "acp_proxy", "mcp", "--cwd", str(tmp_path)]
    result = subprocess.run(command, stdin=terminal, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout) == (1, "")
    assert "acp-proxy run --recall AGENT" in result.stderr
