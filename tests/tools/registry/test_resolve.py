"""A command is a program, or an id of the registry."""

import json
import os
from pathlib import Path

import pytest

from acp_proxy import __main__ as main
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


def test_an_id_becomes_the_agents_command_with_the_users_words_behind_it(registry: Registry) -> None:
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
    assert main._find_agent(["claude-acp"], source)[0] == "npx"
    assert main._find_agent(["./claude-acp"], source) == ["./claude-acp"]


def test_the_prefix_forces_the_id(registry: Registry) -> None:
    assert words(registry, "registry:kimi")[0] == "npx"


def test_a_path_is_never_an_id(registry: Registry) -> None:
    assert words(registry, "./claude-acp") == ["./claude-acp"]


def test_an_unknown_word_stays_with_the_reason(registry: Registry) -> None:
    found = resolve(["other"], registry, lambda text: None, may_wait=True)
    assert found.words == ["other"]
    assert found.problem == "other is no program here, and the registry has no agent 'other'. It has: claude-acp, kimi"
    with pytest.raises(RegistryError, match="no agent 'other'"):
        words(registry, "registry:other")
