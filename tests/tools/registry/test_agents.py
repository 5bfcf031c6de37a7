"""An id becomes the command that the registry names for this machine."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_proxy.tools.registry.agents import Archive, NotAsked, Registry, RegistryError, is_id
from tests.tools.registry.server import Server, serve

NPX = {
    "id": "claude-acp",
    "name": "Claude",
    "version": "1.2.3",
    "distribution": {"npx": {"package": "@x/claude-acp@1.2.3", "args": ["--acp"], "env": {"MODE": "acp", "BAD": 1}}},
}
UVX = {"id": "kimi", "name": "Kimi", "version": "2.0.0", "distribution": {"uvx": {"package": "kimi-cli==2.0.0"}}}
BINARY = {
    "id": "codex-acp",
    "name": "Codex",
    "version": "0.9.2",
    "distribution": {
        "binary": {
            "linux-x86_64": {"archive": "https://h/c.tar.gz", "cmd": "./codex-acp", "args": ["acp"], "sha256": "AB"}
        }
    },
}


@pytest.fixture
def server() -> Iterator[Server]:
    with serve() as found:
        yield found


def test_a_package_becomes_the_command_of_its_runner(server: Server, tmp_path: Path) -> None:
    registry = Registry(server.serve_agents(NPX, UVX), tmp_path)
    claude, kimi = registry.find("claude-acp"), registry.find("kimi")
    assert claude.words == ("npx", "-y", "@x/claude-acp@1.2.3", "--acp")
    assert claude.variables == (("MODE", "acp"),)
    assert kimi.words == ("uvx", "kimi-cli==2.0.0")


def test_a_binary_is_the_one_for_this_machine(server: Server, tmp_path: Path) -> None:
    registry = Registry(server.serve_agents(BINARY), tmp_path)
    found = registry.find("codex-acp", machine="linux-x86_64")
    assert found.archive == Archive("https://h/c.tar.gz", "./codex-acp", "AB")
    assert found.words == ("acp",)
    with pytest.raises(RegistryError, match=r"no Codex for this machine \(windows-aarch64\)"):
        registry.find("codex-acp", machine="windows-aarch64")


def test_the_registry_is_read_once_a_day(server: Server, tmp_path: Path) -> None:
    url = server.serve_agents(NPX)
    for _ in range(3):
        Registry(url, tmp_path).find("claude-acp")
    assert len(server.asked) == 1
    [kept] = tmp_path.glob("registry-*.json")
    os.utime(kept, (0, 0))
    Registry(url, tmp_path).find("claude-acp")
    assert len(server.asked) == 2


def test_who_may_not_wait_takes_an_old_cache_and_asks_only_for_an_unknown_id(server: Server, tmp_path: Path) -> None:
    url = server.serve_agents(NPX)
    Registry(url, tmp_path).find("claude-acp")
    [kept] = tmp_path.glob("registry-*.json")
    os.utime(kept, (0, 0))
    assert Registry(url, tmp_path).find("claude-acp", may_wait=False).name == "Claude"
    assert len(server.asked) == 1
    server.serve_agents(NPX, UVX)
    assert Registry(url, tmp_path).find("kimi", may_wait=False).name == "Kimi"
    assert len(server.asked) == 2


def test_offline_what_was_read_before_is_used_and_said(server: Server, tmp_path: Path) -> None:
    url = server.serve_agents(NPX)
    Registry(url, tmp_path).find("claude-acp")
    [kept] = tmp_path.glob("registry-*.json")
    os.utime(kept, (0, 0))
    server.answers.clear()
    said: list[str] = []
    assert Registry(url, tmp_path, said.append).find("claude-acp").name == "Claude"
    assert "cannot be read now" in said[0]


@pytest.mark.parametrize("damaged", [b"", b'{"agents": [', b'{"agents": 1}'])
def test_a_cache_that_is_damaged_counts_as_none(damaged: bytes, server: Server, tmp_path: Path) -> None:
    url = server.serve_agents(NPX)
    Registry(url, tmp_path).find("claude-acp")
    [kept] = tmp_path.glob("registry-*.json")
    kept.write_bytes(damaged)
    with pytest.raises(NotAsked, match="is not here"):
        Registry(url, tmp_path).find("claude-acp", may_wait=False, may_download=False)
    assert Registry(url, tmp_path).find("claude-acp", may_wait=False).name == "Claude"
    assert Registry(url, tmp_path).find("claude-acp").name == "Claude"
    assert len(server.asked) == 2
    kept.write_bytes(damaged)
    server.answers.clear()
    with pytest.raises(RegistryError, match=r"cannot be read .*404.* give the agent's own command"):
        Registry(url, tmp_path).find("claude-acp")


def test_offline_without_a_cache_the_error_says_what_to_do(server: Server, tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match=r"cannot be read .*404.* give the agent's own command"):
        Registry(f"{server.url}/registry.json", tmp_path).find("claude-acp")


def test_a_file_that_cannot_be_read_is_named_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match=r"cannot be read: .*nope: .* Correct the path, or give the agent's own"):
        Registry(str(tmp_path / "nope"), tmp_path / "cache").find("claude-acp")


def test_a_file_is_a_registry_too(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps({"agents": [NPX]}))
    assert Registry(str(file), tmp_path / "cache").list_ids() == ["claude-acp"]


@pytest.mark.parametrize(
    ("id", "advice"),
    [
        ("nothing-like-it", r"It has: claude-acp, kimi"),
        ("claude", r"Did you mean claude-acp\?"),
        ("acp", r"Did you mean claude-acp\?"),
        ("kmii", r"Did you mean kimi\?"),
    ],
)
def test_an_unknown_id_is_answered_with_what_exists(id: str, advice: str, server: Server, tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match=rf"no agent '{id}'\. {advice}"):
        Registry(server.serve_agents(UVX, NPX), tmp_path).find(id)


@pytest.mark.parametrize(
    "entry",
    [
        {"id": "../../x", "distribution": {"npx": {"package": "p"}}},
        {"id": "A", "distribution": {"npx": {"package": "p"}}},
        {"id": 1},
        None,
        [],
    ],
)
def test_an_entry_without_a_right_id_is_left_out(entry: object, server: Server, tmp_path: Path) -> None:
    assert Registry(server.serve_agents(entry, NPX), tmp_path).list_ids() == ["claude-acp"]


@pytest.mark.parametrize(
    "ways",
    [
        None,
        {},
        {"npx": {"package": "--version"}},
        {"npx": {"package": ["x"]}},
        {"binary": {"linux-x86_64": {"archive": "https://h/x"}}},
        {"other": {"package": "x"}},
    ],
)
def test_an_agent_without_a_way_to_start_it_is_refused(ways: object, server: Server, tmp_path: Path) -> None:
    registry = Registry(server.serve_agents({"id": "a", "distribution": ways}), tmp_path)
    with pytest.raises(RegistryError, match="no a for this machine"):
        registry.find("a", machine="linux-x86_64")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"agents": {}}', b"[" * 100_000])
def test_a_damaged_registry_is_an_error_and_not_kept(body: bytes, server: Server, tmp_path: Path) -> None:
    server.answers["/registry.json"] = body
    with pytest.raises(RegistryError, match="registry of agents"):
        Registry(f"{server.url}/registry.json", tmp_path).list_ids()
    assert not list(tmp_path.iterdir())


def test_a_redirect_to_a_file_is_not_followed(server: Server, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text('{"agents": []}')
    server.answers["/registry.json"] = (302, {"Location": f"file://{tmp_path}/secret"}, b"")
    with pytest.raises(RegistryError, match="cannot be read"):
        Registry(f"{server.url}/registry.json", tmp_path / "cache").list_ids()


def test_a_registry_that_never_ends_is_given_up(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acp_proxy.tools.registry.agents._LARGEST_REGISTRY_BYTES", 1000)
    server.answers["/registry.json"] = b" " * 2000
    with pytest.raises(RegistryError, match="more than 1,000 bytes"):
        Registry(f"{server.url}/registry.json", tmp_path).list_ids()


@pytest.mark.parametrize(
    ("word", "is_one"),
    [("claude-acp", True), ("registry:claude-acp", True), ("./claude", False), ("Claude", False), ("registry:", False)],
)
def test_an_id_has_small_letters_digits_and_hyphens(word: str, is_one: bool) -> None:
    assert is_id(word) is is_one
