"""Completion is installed for the shell that the command runs in, and changes nothing for other programs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from acp_proxy.cli.app import app
from tests.stored import EPOCH, WholeStore, store_session
from tests.waiting import SECONDS

LINE = "fpath+=~/.zfunc; autoload -Uz compinit; compinit\n"
TAB, LIST, MENU = 9, 63, 37
"""What bash sets COMP_TYPE to."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.delenv("ZDOTDIR", raising=False)
    return tmp_path


def install_completion(monkeypatch: pytest.MonkeyPatch, shell: str) -> Result:
    monkeypatch.setattr("acp_proxy.cli.shell_completion._get_shell_name", lambda: shell)
    monkeypatch.setattr("typer._completion_shared._get_shell_name", lambda: shell)
    return CliRunner().invoke(app, ["--install-completion"], prog_name="acp-proxy")


def program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)


@pytest.mark.parametrize("before", [None, "alias a=b", "alias a=b\n"])
def test_zsh_gets_a_function_and_one_line(home: Path, monkeypatch: pytest.MonkeyPatch, before: str | None) -> None:
    settings = home / ".zshrc"
    if before is not None:
        settings.write_text(before)
    result = install_completion(monkeypatch, "zsh")
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"Added to {settings}: {LINE}" in result.stdout
    assert settings.read_text() == ("alias a=b\n" if before else "") + LINE
    assert (home / ".zfunc" / "_acp-proxy").read_text().startswith("#compdef acp-proxy\n")
    assert "Added" not in install_completion(monkeypatch, "zsh").stdout
    assert settings.read_text().count(LINE) == 1


def test_zsh_settings_elsewhere_are_respected(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "settings").mkdir()
    monkeypatch.setenv("ZDOTDIR", str(home / "settings"))
    assert install_completion(monkeypatch, "zsh").exit_code == 0
    assert (home / "settings" / ".zshrc").read_text() == LINE
    assert not (home / ".zshrc").exists()


def test_other_shells_get_their_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert install_completion(monkeypatch, "fish").exit_code == 0
    assert (home / ".config" / "fish" / "completions" / "acp-proxy.fish").is_file()
    assert not (home / ".zshrc").exists()


def test_bash_gets_a_function_and_one_line(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / ".bashrc").write_text("alias a=b")
    assert install_completion(monkeypatch, "bash").exit_code == 0
    function = home / ".bash_completions" / "acp-proxy.sh"
    for _ in range(2):
        assert (home / ".bashrc").read_text() == f"alias a=b\nsource '{function}'\n"
        assert install_completion(monkeypatch, "bash").exit_code == 0
    stdout = CliRunner().invoke(app, ["--show-completion"], prog_name="acp-proxy").stdout
    assert function.read_text() == stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("line", "kind", "words"),
    [
        ("acp-proxy show aa", LIST, ["aab-2  (Break it?)", "aaa-1  (Mend it now)"]),
        ("acp-proxy show aa", MENU, ["aab-2", "aaa-1"]),
        ("acp-proxy show aaa", LIST, ["aaa-1"]),
        ("acp-proxy show b", TAB, ["both"]),
        ("acp-proxy show b", LIST, ["both  (Mend it)", "both  (Mend it)"]),
        ("acp-proxy show a:bb", LIST, ["bb:4  (Paint it)", "bb:3  (Paint it)"]),
        ("acp-proxy list --agent=o", LIST, ["one"]),
        ("acp-proxy run --load ", LIST, ["auto", "agent", "store"]),
        ("acp-proxy show nothing", LIST, []),
    ],
)
def test_a_list_in_bash_shows_titles_that_do_not_get_into_the_line(
    home: Path, monkeypatch: pytest.MonkeyPatch, line: str, kind: int, words: list[str]
) -> None:
    store = WholeStore(home / "store")
    names = ("aaa-1", "Mend it * now"), ("aab-2", "Break it?"), ("a:bb:3", "Paint it"), ("a:bb:4", "Paint it")
    for number, (session, title) in enumerate(names):
        store_session(store, session, (title, []), agent="one", at=EPOCH + 60 * number)
    for agent in ("one", "two"):
        store_session(store, "both", ("Mend it", []), agent=agent)
    store.list_all()
    install_completion(monkeypatch, "bash")
    program(home, "acp-proxy", f'exec "{sys.executable}" -m acp_proxy "$@"')
    script = f"""
    . ~/.bash_completions/acp-proxy.sh
    COMP_LINE='{line}' COMP_POINT={len(line)} COMP_TYPE={kind} _acp_proxy_completion
    for word in "${{COMPREPLY[@]}}"; do printf '%s\n' "$word"; done
    """
    environment = os.environ | {"PATH": f"{home}:{os.environ['PATH']}", "ACP_PROXY_STORE": str(store.root)}
    command = ["bash", "--norc", "-c", script]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=True)
    assert (result.stdout.splitlines(), result.stderr) == (words, "")


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script stands in for PowerShell")
@pytest.mark.parametrize("policy", ["Restricted", "RemoteSigned"])
def test_powershell_keeps_its_keys_and_its_execution_policy(
    home: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    profile = home / "PowerShell" / "prøfile.ps1"
    program(home, "pwsh", f'echo "$*" >>"{home}/asked"; printf "%s\r\n" "{profile}" {policy}')
    monkeypatch.setenv("PATH", str(home), prepend=os.pathsep)
    for _ in range(2):
        result = install_completion(monkeypatch, "pwsh")
        assert (result.exit_code, result.stderr) == (0, "")
        assert ("Set-ExecutionPolicy RemoteSigned" in result.stdout) == (policy == "Restricted")
        assert profile.read_text().count("Register-ArgumentCompleter -Native -CommandName acp-proxy") == 1
    assert "PSReadLine" not in profile.read_text()
    assert "Set-ExecutionPolicy" not in (home / "asked").read_text()


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script stands in for PowerShell")
def test_a_powershell_without_a_profile_is_told_what_to_add(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(home, "pwsh", "exit 1")
    monkeypatch.setenv("PATH", str(home), prepend=os.pathsep)
    result = install_completion(monkeypatch, "pwsh")
    assert result.exit_code == 1
    assert "Register-ArgumentCompleter" in result.stderr


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_the_first_tab_of_zsh_completes(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_completion(monkeypatch, "zsh")
    program(home, "acp-proxy", f'exec "{sys.executable}" -m acp_proxy "$@"')
    script = """
    compdef() { echo registered }
    _arguments() { print -r -- "$@" }
    fpath=(~/.zfunc); words=(acp-proxy editor z); CURRENT=3
    autoload -U _acp-proxy; _acp-proxy
    """
    environment = os.environ | {"PATH": f"{home}:{os.environ['PATH']}"}
    command = ["zsh", "-f", "-c", script]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=True)
    assert result.stdout == '*: :(("zed"))\n'
