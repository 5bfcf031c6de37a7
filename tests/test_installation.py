"""The commands that add an extra, or upgrade acp-proxy: from where it came, with the extras that are there."""

import json
import sys
from collections.abc import Callable
from importlib import metadata

import pytest

from acp_proxy import installation, invocation, shell_quote


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, dict[str, object] | None], None]:
    """Pretends where acp-proxy is installed, and from what: direct_url.json, or None: from an index."""

    class Distribution:
        def __init__(self, source: dict[str, object] | None) -> None:
            self._source = source

        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return json.dumps(self._source) if self._source is not None else None

    def pretend(prefix: str, source: dict[str, object] | None) -> None:
        monkeypatch.setattr(sys, "prefix", prefix)
        monkeypatch.setattr(installation, "_EXTRAS", {"mcp": "no_such_package", "sync": "json"})
        monkeypatch.setattr(metadata, "distribution", lambda name: Distribution(source))

    return pretend


@pytest.mark.parametrize(
    ("prefix", "tool"),
    [
        ("/home/ada/.local/share/uv/tools/acp-proxy", "uv tool install --force"),
        ("/home/ada/.local/share/pipx/venvs/acp-proxy", "pipx install --force"),
        ("/home/ada/clone/.venv", f"{sys.executable} -m pip install"),
    ],
)
def test_the_advice_to_install_an_extra_keeps_the_others(
    installed: Callable[..., None], prefix: str, tool: str
) -> None:
    installed(prefix, None)
    assert shell_quote.split(installation.advise_install("mcp")) == [*shell_quote.split(tool), "acp-proxy[mcp,sync]"]
    assert shell_quote.split(installation.advise_install("sync")) == [*shell_quote.split(tool), "acp-proxy[sync]"]


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ({"url": "file:///home/ada/my%20clone", "dir_info": {}}, ["/home/ada/my clone[sync]"]),
        ({"url": "file:///clone", "dir_info": {"editable": True}}, ["--editable", "/clone[sync]"]),
        ({"url": "file:///a.whl", "archive_info": {}}, ["/a.whl[sync]"]),
        ({"url": "https://x/y", "vcs_info": {"vcs": "git", "commit_id": "1"}}, ["acp-proxy[sync] @ git+https://x/y"]),
        (None, ["acp-proxy[sync]"]),
    ],
)
def test_an_extra_comes_from_where_acp_proxy_came(
    installed: Callable[..., None], source: dict[str, object] | None, wanted: list[str]
) -> None:
    installed("/home/ada/.local/share/uv/tools/acp-proxy", source)
    assert shell_quote.split(installation.advise_install("sync")) == ["uv", "tool", "install", "--force", *wanted]


def test_an_extra_of_what_uvx_runs_is_run_and_not_installed(
    installed: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    installed("/home/ada/.cache/uv/archive-v0/x", None)
    monkeypatch.setattr(sys, "argv", ["acp-proxy", "sync", "now"])
    assert shell_quote.split(installation.advise_install("sync")) == [
        "uvx",
        "--from",
        "acp-proxy[sync]",
        "acp-proxy",
        "sync",
        "now",
    ]
    assert installation.advise_upgrade() == "uvx acp-proxy@latest"


@pytest.mark.parametrize(
    ("prefix", "source", "wanted"),
    [
        ("/home/ada/.local/share/uv/tools/acp-proxy", None, ["uv", "tool", "upgrade", "acp-proxy"]),
        ("/home/ada/.local/share/pipx/venvs/acp-proxy", None, ["pipx", "install", "--force", "acp-proxy[sync]"]),
        ("/home/ada/venv", None, [sys.executable, "-m", "pip", "install", "--upgrade", "acp-proxy[sync]"]),
    ],
)
def test_an_upgrade_is_by_what_installed_it(
    installed: Callable[..., None], prefix: str, source: None, wanted: list[str]
) -> None:
    installed(prefix, source)
    assert shell_quote.split(installation.advise_upgrade()) == wanted


def test_a_file_is_upgraded_by_a_newer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invocation, "executable", "/home/ada/bin/acp-proxy")
    assert installation.advise_upgrade() == "replace /home/ada/bin/acp-proxy by a newer one"


@pytest.mark.parametrize(
    ("prefix", "wanted"),
    [
        ("/home/ada/.local/share/uv/tools/acp-proxy", ["uv", "tool", "uninstall", "acp-proxy"]),
        ("/home/ada/.local/share/pipx/venvs/acp-proxy", ["pipx", "uninstall", "acp-proxy"]),
        ("/home/ada/.cache/uv/archive-v0/x", ["uv", "cache", "prune"]),
        ("/home/ada/venv", [sys.executable, "-m", "pip", "uninstall", "acp-proxy"]),
    ],
)
def test_what_installed_it_removes_it(installed: Callable[..., None], prefix: str, wanted: list[str]) -> None:
    installed(prefix, None)
    assert shell_quote.split(installation.advise_uninstall()) == wanted


def test_a_zipapp_is_removed_by_deleting_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invocation, "zipapp", "/home/ada/bin/acp-proxy.pyz")
    assert installation.advise_uninstall() == "delete /home/ada/bin/acp-proxy.pyz"
