"""Completion is installed for the shell that the command runs in, and changes nothing for other programs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from acp_proxy.cli.app import app

LINE = "fpath+=~/.zfunc; autoload -Uz compinit; compinit\n"
SECONDS = 20.0


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.delenv("ZDOTDIR", raising=False)
    return tmp_path


def installed(monkeypatch: pytest.MonkeyPatch, shell: str) -> Result:
    monkeypatch.setattr("acp_proxy.cli.shell_completion._get_shell_name", lambda: shell)
    monkeypatch.setattr("typer._completion_shared._get_shell_name", lambda: shell)
    return CliRunner().invoke(app, ["--install-completion"], prog_name="acp-proxy")


@pytest.mark.parametrize("before", [None, "alias a=b", "alias a=b\n"])
def test_zsh_gets_a_function_and_one_line(home: Path, monkeypatch: pytest.MonkeyPatch, before: str | None) -> None:
    settings = home / ".zshrc"
    if before is not None:
        settings.write_text(before)
    result = installed(monkeypatch, "zsh")
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"Added to {settings}: {LINE}" in result.stdout
    assert settings.read_text() == ("alias a=b\n" if before else "") + LINE
    assert (home / ".zfunc" / "_acp-proxy").read_text().startswith("#compdef acp-proxy\n")
    assert "Added" not in installed(monkeypatch, "zsh").stdout
    assert settings.read_text().count(LINE) == 1


def test_zsh_settings_elsewhere_are_respected(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "settings").mkdir()
    monkeypatch.setenv("ZDOTDIR", str(home / "settings"))
    assert installed(monkeypatch, "zsh").exit_code == 0
    assert (home / "settings" / ".zshrc").read_text() == LINE
    assert not (home / ".zshrc").exists()


def test_other_shells_get_their_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert installed(monkeypatch, "fish").exit_code == 0
    assert (home / ".config" / "fish" / "completions" / "acp-proxy.fish").is_file()
    assert not (home / ".zshrc").exists()


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_the_first_tab_of_zsh_completes(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "zsh")
    program = home / "acp-proxy"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m acp_proxy "$@"\n')
    program.chmod(0o700)
    script = """
    compdef() { echo registered }
    _arguments() { print -r -- "$@" }
    fpath=(~/.zfunc); words=(acp-proxy editor z); CURRENT=3
    autoload -U _acp-proxy; _acp-proxy
    """
    environment = os.environ | {"PATH": f"{home}:{os.environ['PATH']}"}
    command = ["zsh", "-f", "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=True)
    assert done.stdout == '*: :(("zed"))\n'
