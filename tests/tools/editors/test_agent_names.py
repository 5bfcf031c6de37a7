"""What is advised for a program that does not answer."""

import json
import sys
from pathlib import Path

import pytest

from acp_proxy.tools.editors.agent_names import advise_arguments


def test_the_arguments_of_the_registry_are_advised_for_a_program_without_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distribution = {"npx": {"package": "@google/gemini-cli@1", "args": ["--acp"]}}
    registry = tmp_path / "registry.json"
    registry.write_text(json.dumps({"agents": [{"id": "gemini", "distribution": distribution}]}))
    program = tmp_path / ("gemini.exe" if sys.platform == "win32" else "gemini")
    program.touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("ACP_PROXY_REGISTRY", str(registry))
    assert advise_arguments(["gemini"]) == 'The registry of agents has arguments for it: "gemini --acp".'
    assert [advise_arguments(command) for command in (["gemini", "--acp"], ["kimi"])] == [None, None]


def test_no_registry_is_downloaded_for_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> bytes:
        raise AssertionError

    monkeypatch.setattr("acp_proxy.tools.registry.download.fetch", fail)
    monkeypatch.setenv("ACP_PROXY_REGISTRY", "https://registry.example/registry.json")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert advise_arguments(["agent"]) is None
