"""One place knows how acp-proxy is started: an editor gets a path that stays valid, and our children start."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from acp_proxy import invocation
from acp_proxy.cli.app import app
from acp_proxy.invocation import make_child_command, make_settings_command
from acp_proxy.tools.editors.command_line import count_own_words


def make_program(path: Path) -> str:
    """A program that is found in PATH by this name, and the path by which it is found."""
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.with_name(f"{path.name}.exe") if sys.platform == "win32" else path).touch(mode=0o755)
    return shutil.which(str(path)) or ""


def make_command_of(name: str, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], str | None]:
    monkeypatch.setattr(sys, "argv", [name, "setup"])
    return make_settings_command()


def test_the_installed_command_is_named_by_its_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words, _ = make_command_of(os.path.join("bin", "acp-proxy"), monkeypatch)
    assert words == [str(tmp_path / "bin" / "acp-proxy")]


def test_a_bare_name_is_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = make_program(tmp_path / "acp-proxy")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert make_command_of("acp-proxy", monkeypatch)[0] == [command]


def test_a_link_to_the_command_stays_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every upgrade moves the link's target."""
    link = tmp_path / "acp-proxy"
    link.symlink_to(tmp_path / "tools" / "acp-proxy")
    assert make_command_of(str(link), monkeypatch)[0] == [str(link)]


def test_an_installed_command_needs_no_note(monkeypatch: pytest.MonkeyPatch) -> None:
    assert make_command_of("/home/user/.local/bin/acp-proxy", monkeypatch)[1] is None


def test_a_module_gets_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    words, advice = make_command_of("/somewhere/acp_proxy/__main__.py", monkeypatch)
    assert words == [sys.executable, "-P", "-m", "acp_proxy"]
    assert advice is not None


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
    command = make_program(tmp_path / runner)
    monkeypatch.setenv("PATH", str(tmp_path))
    words, advice = make_command_of(path, monkeypatch)
    assert (words, advice) == ([command, *rest], None)
    assert count_own_words([*words, "run", "agent"]) == len(words)


@pytest.mark.parametrize(
    ("argv", "on_path", "typed"),
    [
        ("bin/acp-proxy", ["bin/acp-proxy"], ["acp-proxy"]),
        ("archive-v0/x/acp-proxy", ["archive-v0/x/acp-proxy", "tools/uvx"], ["uvx", "acp-proxy"]),
        ("bin/acp-proxy", [], ["{}/bin/acp-proxy"]),
    ],
)
def test_what_a_user_types_is_what_the_shell_finds(
    argv: str, on_path: list[str], typed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in on_path:
        make_program(tmp_path / name)
    monkeypatch.setenv("PATH", os.pathsep.join(str((tmp_path / name).parent) for name in on_path))
    monkeypatch.setattr(sys, "argv", [str(tmp_path / argv), "demo"])
    assert invocation.make_typed_command() == [os.path.normpath(word.format(tmp_path)) for word in typed]


def test_a_temporary_directory_gets_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    words, advice = make_command_of("/home/user/.cache/uv/archive-v0/x/bin/acp-proxy", monkeypatch)
    assert words == [os.path.abspath("/home/user/.cache/uv/archive-v0/x/bin/acp-proxy")]
    assert advice is not None


@pytest.mark.skipif(os.name == "nt", reason="a home directory is not in one called tmp")
def test_a_home_in_a_temporary_directory_is_none_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("HOME", "/tmp/me")
    assert make_command_of("/tmp/me/.local/bin/acp-proxy", monkeypatch)[1] is None
    for passing in ("/tmp/other/bin/acp-proxy", "/tmp/me/.cache/uv/archive-v0/x/bin/acp-proxy"):
        assert make_command_of(passing, monkeypatch)[1] is not None


@pytest.mark.parametrize("name", ["acp-proxy.pyz", "acp-proxy-linux-x86_64.pyz", "acp-proxy-macos-arm64 (1).pyz"])
def test_a_zipapp_is_started_by_the_python_that_runs_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An editor's PATH may begin with another one, or have none. A virtual environment may be removed."""
    monkeypatch.setattr(invocation, "zipapp", f"/home/user/Downloads/{name}")
    monkeypatch.setattr(sys, "_base_executable", "/usr/bin/python3")
    words, advice = make_settings_command()
    assert (words, advice) == (["/usr/bin/python3", f"/home/user/Downloads/{name}"], None)
    assert count_own_words([*words, "run", "agent"]) == len(words)


@pytest.mark.parametrize("name", ["acp-proxy", "acp-proxy-linux-x86_64", "acp-proxy-windows-amd64.exe"])
def test_an_executable_is_started_by_itself(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Python lies in a cache, and has another place after an upgrade."""
    monkeypatch.setattr(invocation, "executable", f"/home/user/bin/{name}")
    words, advice = make_settings_command()
    assert (words, advice) == ([f"/home/user/bin/{name}"], None)
    assert count_own_words([*words, "run", "agent"]) == len(words)


@pytest.mark.parametrize("kind", ["zipapp", "executable"])
def test_a_file_that_would_not_be_known_in_settings_gets_a_note(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invocation, kind, "/home/user/bin/ap")
    assert make_settings_command()[1] is not None


def test_a_child_of_a_zipapp_is_started_through_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invocation, "zipapp", "/home/user/acp-proxy.pyz")
    command = make_child_command("acp_proxy.tools.demo.agent", "--memory", "here")
    assert command == [
        sys.executable,
        "/home/user/acp-proxy.pyz",
        "-m",
        "acp_proxy.tools.demo.agent",
        "--memory",
        "here",
    ]


def test_a_child_of_an_executable_does_not_see_the_users_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invocation, "executable", "/home/user/bin/acp-proxy")
    assert make_child_command("acp_proxy") == [sys.executable, "-I", "-m", "acp_proxy"]


def test_a_child_imports_nothing_from_the_directory_in_which_it_starts(tmp_path: Path) -> None:
    (tmp_path / "acp_proxy.py").write_text("raise SystemExit('a project was imported')")
    result = subprocess.run(
        [*make_child_command("acp_proxy"), "--version"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_messages_name_the_commands_as_the_user_types_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "acp-proxy records it. See: acp-proxy list, or uvx acp-proxy show, or /bin/acp-proxy list"
    monkeypatch.setattr(sys, "argv", ["/home/user/.local/bin/acp-proxy"])
    assert invocation.write_as_typed(text) == text
    make_program(tmp_path / "uvx")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["/home/user/.cache/uv/archive-v0/x/bin/acp-proxy"])
    once = invocation.write_as_typed(text)
    assert once == text.replace("See: acp-proxy", "See: uvx acp-proxy")
    wrapped = once.replace("uvx ", "uvx\n  ").replace("acp-proxy list, ", "acp-proxy\nlist, ")
    assert [invocation.write_as_typed(each) for each in (once, wrapped)] == [once, wrapped]
    for source in ("'acp-proxy[web]'", '"acp-proxy[web]"', "'acp-proxy[web] @ https://x/y'", "/a.whl[web]"):
        with_extra = f"uvx --from {source} acp-proxy web"
        assert invocation.write_as_typed(with_extra) == with_extra
    said = CliRunner().invoke(app, ["list", "--help"])
    assert "Example" in said.stdout
    assert "uvx acp-proxy list login" in said.stdout
    assert "To see all: uvx acp-proxy help" in CliRunner().invoke(app, ["nosuch"]).stderr
