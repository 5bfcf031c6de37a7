"""A command is a program, or an id of the registry."""

import json
import os
from pathlib import Path

import pytest

from acp_proxy import __main__ as main
from acp_proxy.tools.editors.agent_names import identify_agent
from acp_proxy.tools.registry.agents import Registry, RegistryError
from acp_proxy.tools.registry.resolve import ResolvedAgent, resolve
from tests.tools.registry.test_agents import NPX


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """A registry with one agent, on a machine whose PATH has one program."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / ("kimi.exe" if os.name == "nt" else "kimi")).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(programs))
    (tmp_path / "registry.json").write_text(json.dumps({"agents": [NPX, NPX | {"id": "kimi"}]}))
    return Registry(str(tmp_path / "registry.json"), tmp_path / "cache")


def words(registry: Registry, *command: str) -> list[str]:
    return resolve(command, registry, lambda text: None, may_wait=True).words


def test_an_id_becomes_the_agents_command_with_the_users_words_after_it(registry: Registry) -> None:
    found = resolve(["claude-acp", "--debug"], registry, lambda text: None, may_wait=True)
    assert found == ResolvedAgent(["npx", "-y", "@x/claude-acp@1.2.3", "--acp", "--debug"], {"MODE": "acp"})


def test_arguments_that_the_registry_has_are_not_given_twice(registry: Registry) -> None:
    assert words(registry, "claude-acp", "--acp") == ["npx", "-y", "@x/claude-acp@1.2.3", "--acp"]
    assert words(registry, "claude-acp", "--acp", "--acp")[-3:] == ["--acp"] * 3


def test_a_word_that_is_a_program_is_that_program(registry: Registry) -> None:
    assert words(registry, "kimi", "acp") == ["kimi", "acp"]


@pytest.mark.parametrize("platform", ["linux", "win32"])
def test_run_takes_an_id_without_the_prefix_on_every_system(
    platform: str, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setenv("MODE", "as it was")  # the process gets the variables of the agent
    source = str(tmp_path / "registry.json")
    monkeypatch.setenv("PATHEXT", ".exe")
    for name in ("npx", "npx.exe"):
        (tmp_path / "bin" / name).touch(mode=0o755)
    assert main._find_agent(["claude-acp"], source)[0] == "npx"
    assert main._find_agent(["./claude-acp"], source) == ["./claude-acp"]


def test_the_prefix_forces_the_id(registry: Registry) -> None:
    assert words(registry, "registry:kimi")[0] == "npx"
    for word in ("registry:", "registry:Kimi"):
        with pytest.raises(RegistryError, match="the registry has no agent"):
            words(registry, word)


def test_a_path_is_never_an_id(registry: Registry) -> None:
    assert words(registry, "./claude-acp") == ["./claude-acp"]


def test_an_unknown_word_stays_with_the_reason(registry: Registry) -> None:
    found = resolve(["other"], registry, lambda text: None, may_wait=True)
    assert found.words == ["other"]
    assert found.problem == "other is not in PATH. The registry has no agent 'other'."
    found = resolve(["kmii"], registry, lambda text: None, may_wait=True)
    assert found.problem == "kmii is not in PATH. The registry has no agent 'kmii'. Did you mean kimi?"
    with pytest.raises(RegistryError, match=r"no agent 'other'\. It has: claude-acp, kimi"):
        words(registry, "registry:other")


def forbid_download(url: str, limit: int, seconds: float) -> bytes:
    raise AssertionError("downloaded")


@pytest.mark.parametrize("command", [["other", "acp"], ["./other"], ["/opt/other", "--acp"], ["two words"]])
def test_nothing_is_downloaded_for_what_is_more_likely_a_program(
    command: list[str], registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acp_proxy.tools.registry.download.fetch", forbid_download)
    asked = Registry("https://localhost/registry.json", tmp_path / "empty")
    for may_wait in (True, False):
        found = resolve(command, asked, lambda text: None, may_wait=may_wait)
        assert found.words == command
    if command[0] == "other":
        advice = "If you mean an id of the registry of agents: registry:other"
        assert found.problem == f"other is not in PATH. {advice}"
        assert identify_agent(command, asked).problem == found.problem


def test_a_registry_that_is_here_is_read_for_an_id_with_arguments(
    tmp_path: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acp_proxy.tools.registry.download.fetch", forbid_download)
    (tmp_path / "cache").mkdir()
    here = tmp_path / "cache" / "registry.json"
    here.write_bytes((tmp_path / "registry.json").read_bytes())
    os.utime(here, (0, 0))
    monkeypatch.setattr("acp_proxy.tools.registry.agents.URL", "https://localhost/registry.json")
    asked = Registry("https://localhost/registry.json", tmp_path / "cache")
    assert words(asked, "claude-acp", "--debug")[-1] == "--debug"
    assert words(asked, "other", "--debug") == ["other", "--debug"]


def test_a_word_alone_says_first_that_it_is_no_program_then_that_nobody_could_be_asked(
    tmp_path: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(url: str, limit: int, seconds: float) -> bytes:
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr("acp_proxy.tools.registry.download.fetch", fail)
    asked = Registry("https://localhost/registry.json", tmp_path / "empty")
    found = resolve(["other"], asked, lambda text: None, may_wait=True)
    why = "The registry of agents could not be asked for this id (Network is unreachable). "
    why += "Check the network, or give the agent's own command."
    assert found.problem == f"other is not in PATH. {why}"
