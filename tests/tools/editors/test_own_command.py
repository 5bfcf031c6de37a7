"""An editor gets a path that stays valid."""

import os
from pathlib import Path

import pytest

from acp_proxy.tools.editors.own_command import ourselves

PYTHON = "/usr/bin/python3"


def test_the_installed_command_is_named_by_its_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = ourselves(os.path.join("bin", "acp-proxy"), PYTHON)
    assert found.words == [str(tmp_path / "bin" / "acp-proxy")]


def test_a_bare_name_is_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = tmp_path / "acp-proxy"
    command.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ourselves("acp-proxy", PYTHON).words == [str(command)]


def test_a_link_to_the_command_stays_one(tmp_path: Path) -> None:
    """Every upgrade moves the link's target."""
    link = tmp_path / "acp-proxy"
    link.symlink_to(tmp_path / "tools" / "acp-proxy")
    assert ourselves(str(link), PYTHON).words == [str(link)]


def test_an_installed_command_needs_no_note() -> None:
    assert ourselves("/home/user/.local/bin/acp-proxy", PYTHON).note is None


def test_a_module_gets_a_note() -> None:
    found = ourselves("/somewhere/acp_proxy/__main__.py", PYTHON)
    assert found.words == [PYTHON, "-P", "-m", "acp_proxy"]
    assert found.note is not None


@pytest.mark.parametrize(
    ("path", "runner", "rest"),
    [
        ("/home/user/.cache/uv/archive-v0/x/bin/acp-proxy", "uvx", ["acp-proxy"]),
        ("/home/user/.local/pipx/.cache/x/bin/acp-proxy", "pipx", ["run", "acp-proxy"]),
    ],
)
def test_a_runner_that_installs_into_a_cache_is_named_instead(
    path: str, runner: str, rest: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = tmp_path / runner
    command.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = ourselves(path, PYTHON)
    assert (found.words, found.note) == ([str(command), *rest], None)


def test_a_temporary_directory_gets_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    found = ourselves("/home/user/.cache/uv/archive-v0/x/bin/acp-proxy", PYTHON)
    assert found.words == ["/home/user/.cache/uv/archive-v0/x/bin/acp-proxy"]
    assert found.note is not None
