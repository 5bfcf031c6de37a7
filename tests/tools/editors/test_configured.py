"""The agents in the editors' files of a machine, on every system."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from acp_proxy.tools.editors import command_line
from acp_proxy.tools.editors.config_dirs import Machine
from acp_proxy.tools.editors.configured import Configuration, ConfiguredAgent, Way, find_configurations, find_file
from acp_proxy.tools.editors.known_editors import EDITORS, Name

AGENT = sys.executable
PROXIED = {"command": "/opt/bin/acp-proxy", "args": ["run", AGENT, "x"]}
BY_UVX = {"command": "uvx", "args": ["acp-proxy@0.1", "run", AGENT]}
BY_PYTHON = {"command": "python3", "args": ["-m", "acp_proxy", "run", AGENT]}
BY_WINDOWS = {"command": r"C:\bin\acp-proxy.exe", "args": ["run", AGENT]}
DIRECT = {"command": AGENT, "args": ["x", "--cwd", "/home/user/acp-proxy", "y"], "env": {"KEY": "sk-secret"}}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def linux(home: Path, **environment: str) -> Machine:
    return Machine("linux", home, environment)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def only(machine: Machine) -> Configuration:
    [found] = find_configurations(machine)
    return found


def test_a_machine_without_editors_has_no_configuration(home: Path) -> None:
    assert find_configurations(linux(home)) == []


def test_the_agents_of_a_settings_file_are_classified(home: Path) -> None:
    agents = {
        "kept": PROXIED,
        "uvx": BY_UVX,
        "python": BY_PYTHON,
        "windows": BY_WINDOWS,
        "direct": DIRECT,
        "registry": {"type": "registry"},
        "odd": None,
    }
    path = write(home / ".config/zed/settings.json", "// mine\n" + json.dumps({"theme": "x", "agent_servers": agents}))
    found = only(linux(home))
    assert (found.path, found.editor.name, found.is_proxied) == (path, Name.ZED, True)
    assert tuple(replace(agent, is_mended_by_setup=False) for agent in found.agents) == (
        ConfiguredAgent("kept", Way.PROXIED, "/opt/bin/acp-proxy"),
        ConfiguredAgent("uvx", Way.PROXIED, "uvx"),
        ConfiguredAgent("python", Way.PROXIED, "python3"),
        ConfiguredAgent("windows", Way.PROXIED, r"C:\bin\acp-proxy.exe"),
        ConfiguredAgent("direct", Way.DIRECT),
        ConfiguredAgent("registry", Way.REGISTRY),
        ConfiguredAgent("odd", Way.NOT),
    )


ENTRIES: dict[str, tuple[dict[str, object], ConfiguredAgent]] = {
    "run forgotten": (
        {"args": [AGENT]},
        ConfiguredAgent("x", Way.REFUSED, "acp-proxy", command_line.MISSING_RUN, is_mended_by_setup=True),
    ),
    "run forgotten, in front of no agent that is here": (
        {"args": ["serve"]},
        ConfiguredAgent("x", Way.REFUSED, "acp-proxy", command_line.MISSING_RUN),
    ),
    "run forgotten, after another program": (
        {"command": "env", "args": ["KEY=v", "acp-proxy", "foo"]},
        ConfiguredAgent("x", Way.REFUSED, "env", command_line.MISSING_RUN),
    ),
    "no arguments": ({}, ConfiguredAgent("x", Way.REFUSED, "acp-proxy", command_line.MISSING_RUN)),
    "a wrong variable": (
        {"args": ["run", AGENT], "env": {"ACP_PROXY_LIST": "mine"}},
        ConfiguredAgent(
            "x",
            Way.PROXIED,
            "acp-proxy",
            fault="ACP_PROXY_LIST takes one of auto, agent, store, not 'mine'",
            is_mended_by_setup=True,
        ),
    ),
    "a store": (
        {"args": ["run", "--store", "/x", AGENT]},
        ConfiguredAgent("x", Way.PROXIED, "acp-proxy", None, "/x", is_mended_by_setup=True),
    ),
    "a store by its variable": (
        {"args": ["run", AGENT], "env": {"ACP_PROXY_STORE": "/x", "odd": 3}},
        ConfiguredAgent("x", Way.PROXIED, "acp-proxy", None, "/x", is_mended_by_setup=True),
    ),
    "not recorded": (
        {"args": ["run", "--no-record", AGENT]},
        ConfiguredAgent("x", Way.PROXIED, "acp-proxy", is_recorded=False, is_mended_by_setup=True),
    ),
    "not recorded, by its variable": (
        {"args": ["run", AGENT], "env": {"ACP_PROXY_NO_RECORD": "1"}},
        ConfiguredAgent("x", Way.PROXIED, "acp-proxy", is_recorded=False, is_mended_by_setup=True),
    ),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_is_read_as_run_would_read_it(home: Path, name: str) -> None:
    entry, expected = ENTRIES[name]
    agents = {"x": {"command": "acp-proxy", **entry}}
    write(home / ".jetbrains/acp.json", json.dumps({"agent_servers": agents}))
    assert only(linux(home)).agents == (expected,)


def test_an_entry_can_name_its_own_configuration_file(home: Path) -> None:
    path, store = home / "own.toml", str(home / "own")
    write(path, f"store = '{store}'\n")
    entry = {"command": "acp-proxy", "args": ["run", AGENT]}
    agents = {
        "own": {**entry, "env": {"ACP_PROXY_CONFIG": str(path)}},
        "missing": {**entry, "env": {"ACP_PROXY_CONFIG": str(home / "none.toml")}},
        "usual": entry,
    }
    write(home / ".jetbrains/acp.json", json.dumps({"agent_servers": agents}))
    assert only(linux(home)).agents == (
        ConfiguredAgent("own", Way.PROXIED, "acp-proxy", store=store, is_mended_by_setup=True),
        ConfiguredAgent("missing", Way.PROXIED, "acp-proxy", is_recorded=False, is_mended_by_setup=True),
        ConfiguredAgent("usual", Way.PROXIED, "acp-proxy", is_mended_by_setup=True),
    )


def test_an_agent_that_does_not_exist_is_named_without_its_arguments(home: Path) -> None:
    agents = {"x": {"command": "acp-proxy", "args": ["run", "no-such-agent", "secret"], "env": {"KEY": "secret"}}}
    write(home / ".jetbrains/acp.json", json.dumps({"agent_servers": agents}))
    [agent] = only(linux(home)).agents
    assert (agent.way, agent.missing_program, "secret" in repr(agent)) == (Way.PROXIED, "no-such-agent", False)


def test_an_agent_is_looked_for_in_the_path_of_its_entry(home: Path) -> None:
    folder, name = os.path.split(AGENT)
    environments = {"there": {"PATH": folder}, "elsewhere": {"PATH": str(home)}}
    agents = {key: {"command": "acp-proxy", "args": ["run", name], "env": value} for key, value in environments.items()}
    write(home / ".jetbrains/acp.json", json.dumps({"agent_servers": agents}))
    assert [agent.missing_program for agent in only(linux(home)).agents] == [None, name]


def test_an_unknown_option_of_run_is_named(home: Path) -> None:
    agents = {"x": {"command": "acp-proxy", "args": ["run", "--bogus=secret", "foo"]}}
    write(home / ".jetbrains/acp.json", json.dumps({"agent_servers": agents}))
    [agent] = only(linux(home)).agents
    assert (agent.way, "--bogus" in str(agent.problem), "secret" in str(agent.problem)) == (Way.REFUSED, True, False)


def test_only_names_and_the_proxys_options_are_kept_of_a_settings_file(home: Path) -> None:
    write(home / ".jetbrains/acp.json", json.dumps({"agent_servers": {"direct": DIRECT}}))
    assert "secret" not in repr(only(linux(home)).agents)


@pytest.mark.parametrize(
    ("text", "is_wrong"),
    [("{", True), ("[" * 100_000, True), ("[1]", True), ('{"agent_servers": 3}', False), ("", False)],
)
def test_settings_without_agents_have_none_and_invalid_json_is_reported(home: Path, text: str, is_wrong: bool) -> None:
    write(home / ".jetbrains/acp.json", text)
    found = only(linux(home))
    assert (found.agents, found.problem is not None) == ((), is_wrong)


def test_unreadable_settings_are_reported(home: Path) -> None:
    (home / ".jetbrains/acp.json").mkdir(parents=True)
    assert only(linux(home)).problem == "Is a directory"


def test_large_settings_are_not_taken_for_invalid_ones(home: Path) -> None:
    path = write(home / ".jetbrains/acp.json", "[1]")
    os.truncate(path, 17 * 1024 * 1024)
    assert only(linux(home)).problem == "File too large"


def test_the_program_is_the_zipapp_if_that_is_gone(home: Path) -> None:
    """A zipapp that is there need not be executable: its Python is the program."""
    there, gone = write(home / "acp-proxy.pyz", ""), os.path.abspath("/gone/acp-proxy-linux-x86_64.pyz")
    commands = {
        name: [sys.executable, zipapp, "run", "agent"] for name, zipapp in (("there", str(there)), ("gone", gone))
    }
    agents = {name: {"command": words[0], "args": words[1:]} for name, words in commands.items()}
    write(home / ".config/zed/settings.json", json.dumps({"agent_servers": agents}))
    assert [agent.program for agent in only(linux(home)).agents] == [sys.executable, gone]


def test_a_program_is_searched_for_the_plugin_and_for_the_proxy(home: Path) -> None:
    ai = write(home / ".config/nvim/lua/plugins/ai.lua", 'require("codecompanion").setup({ "acp-proxy", "run" })')
    old = write(home / ".config/nvim/lua/plugins/old.lua", '{ "yetone/avante.nvim" } \n  -- acp-proxy some day')
    write(home / ".config/nvim/init.lua", "-- codecompanion\n")
    write(home / ".config/nvim/.git/x.lua", "codecompanion")
    found = [
        (configuration.editor.name, configuration.path, configuration.mentions_proxy)
        for configuration in find_configurations(linux(home))
    ]
    assert found == [(Name.CODECOMPANION, ai, True), (Name.AVANTE, old, False)]


def test_packages_of_emacs_are_not_the_users_configuration(home: Path) -> None:
    mine = write(home / ".emacs.d/lisp/ai.el", "(require 'agent-shell)")
    write(home / ".emacs.d/elpa/agent-shell-1/agent-shell.el", "agent-shell")
    assert only(linux(home)).path == mine


@pytest.mark.parametrize(
    ("platform", "environment", "editor", "expected"),
    [
        ("linux", {}, Name.ZED, ".config/zed/settings.json"),
        ("linux", {"XDG_CONFIG_HOME": "/HOME/x"}, Name.ZED, "x/zed/settings.json"),
        ("linux", {"XDG_CONFIG_HOME": "relative"}, Name.ZED, ".config/zed/settings.json"),
        ("darwin", {"XDG_CONFIG_HOME": "/HOME/x"}, Name.ZED, ".config/zed/settings.json"),
        ("win32", {"APPDATA": "/HOME/r"}, Name.ZED, "r/Zed/settings.json"),
        ("linux", {}, Name.JETBRAINS, ".jetbrains/acp.json"),
        ("linux", {}, Name.VSCODE, ".config/Code/User/settings.json"),
        ("darwin", {}, Name.VSCODE, "Library/Application Support/Code/User/settings.json"),
        ("win32", {}, Name.VSCODE, "AppData/Roaming/Code/User/settings.json"),
        ("linux", {"NVIM_APPNAME": "mine"}, Name.AVANTE, ".config/mine/init.lua"),
        ("win32", {}, Name.CODECOMPANION, "AppData/Local/nvim/init.lua"),
        ("linux", {}, Name.AGENT_SHELL, ".emacs.d/init.el"),
        ("win32", {}, Name.AGENT_SHELL, "AppData/Roaming/.emacs.d/init.el"),
    ],
)
def test_without_a_configuration_the_usual_file_is_named(
    home: Path, platform: str, environment: dict[str, str], editor: Name, expected: str
) -> None:
    placed = {name: value.replace("/HOME", str(home)) for name, value in environment.items()}
    assert find_file(EDITORS[editor], Machine(platform, home, placed)) == (home / expected, False)


def test_a_build_of_vs_code_has_its_own_name(home: Path) -> None:
    for build in ("Code", "Code - Insiders", "VSCodium", "Cursor"):
        write(home / f".config/{build}/User/settings.json", "{}")
    titles = [configuration.editor.title for configuration in find_configurations(linux(home))]
    assert titles == ["VS Code", "Code Insiders", "VSCodium", "Cursor"]


def test_an_existing_file_goes_before_the_usual_one(home: Path) -> None:
    flatpak = write(home / ".var/app/dev.zed.Zed/config/zed/settings.json", "{}")
    assert find_file(EDITORS[Name.ZED], linux(home)) == (flatpak, True)
    usual = write(home / ".config/zed/settings.json", "{}")
    assert find_file(EDITORS[Name.ZED], linux(home)) == (usual, True)


def test_a_file_with_the_plugin_goes_before_the_others(home: Path) -> None:
    init = write(home / ".config/nvim/init.lua", "")
    assert find_file(EDITORS[Name.CODECOMPANION], linux(home)) == (init, True)
    ai = write(home / ".config/nvim/lua/ai.lua", 'require("codecompanion")')
    assert find_file(EDITORS[Name.CODECOMPANION], linux(home)) == (ai, True)
