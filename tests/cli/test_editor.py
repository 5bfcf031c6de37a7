"""``editor`` prints the snippet on stdout, and everything else on stderr."""

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from acp_proxy import shell_quote
from acp_proxy.tools.editors.known_editors import EDITORS, Name, TypedByUser
from tests.cli.commands import invoke

COMMAND = "/home/user/.local/bin/acp-proxy"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of a user who has installed acp-proxy."""
    monkeypatch.setattr("sys.argv", [COMMAND])
    monkeypatch.setattr("sys.platform", "linux")
    for name in ("XDG_CONFIG_HOME", "NVIM_APPNAME"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "USERPROFILE"):  # the second one is Windows'
        monkeypatch.setenv(name, str(tmp_path))
    registry = tmp_path_factory.mktemp("registry") / "empty.json"
    registry.write_text('{"agents": []}')
    monkeypatch.setenv("ACP_PROXY_REGISTRY", str(registry))
    return tmp_path


def editor(*words: str) -> Result:
    return invoke("editor", *words)


ZED = """\
{
  "agent_servers": {
    "Claude (recorded)": {
      "type": "custom",
      "command": "/home/user/.local/bin/acp-proxy",
      "args": [
        "run",
        "npx",
        "-y",
        "@agentclientprotocol/claude-agent-acp"
      ],
      "env": {}
    }
  }
}
"""
CODECOMPANION = """\
adapters = {
  acp = {
    ["claude_code"] = function()
      return require("codecompanion.adapters").extend("claude_code", {
        formatted_name = "Claude (recorded)",
        commands = { default = { "/home/user/.local/bin/acp-proxy", "run", "claude-agent-acp" } },
      })
    end,
  },
},
"""
AVANTE = """\
provider = "opencode",
acp_providers = {
  ["opencode"] = {
    command = "/home/user/.local/bin/acp-proxy",
    args = { "run", "opencode", "acp" },
    env = {},
  },
},
"""
AGENT_SHELL = """\
(setq agent-shell-anthropic-claude-acp-command
      '("/home/user/.local/bin/acp-proxy" "run" "claude-agent-acp"))
(setq agent-shell-session-restore-verbosity 'full) ; load, so that the conversation is shown
(setq agent-shell-prefer-session-resume nil) ; the same, for older versions of agent-shell
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("zed npx -y @agentclientprotocol/claude-agent-acp", ZED),
        ("codecompanion claude-agent-acp", CODECOMPANION),
        ("avante opencode acp", AVANTE),
        ("agent-shell claude-agent-acp", AGENT_SHELL),
    ],
)
def test_only_the_snippet_is_on_stdout(words: str, expected: str) -> None:
    result = editor(*words.split())
    assert (result.exit_code, result.stdout) == (0, expected)


@pytest.mark.parametrize(
    "name", [name for name, each in EDITORS.items() if not isinstance(each.configured, TypedByUser)]
)
def test_a_missing_file_is_to_be_created(name: Name, home: Path) -> None:
    stderr = editor(name, sys.executable).stderr
    assert str(home) in stderr
    assert stderr.startswith("Create ")
    assert "Note" not in stderr


def test_an_agent_before_the_editor_is_answered_with_the_line_that_works() -> None:
    result = editor("opencode", "acp", "zed")
    assert result.exit_code == 2
    assert " ".join(result.stderr.split()).endswith("The editor comes first: acp-proxy editor zed opencode acp")


def test_only_an_option_that_was_given_is_said_to_stand_elsewhere() -> None:
    late = " ".join(editor("zed", "A=1", "--redact", "keys", "opencode").stderr.split())
    advice = "options of run come first, then variables, then the agent."
    assert late == f"acp-proxy: {advice} Write: acp-proxy editor zed --redact keys A=1 opencode"
    assert "--whole comes first" in " ".join(editor("zed", "A=1", "--whole", "opencode").stderr.split())


def test_an_option_of_run_after_the_agent_is_noted() -> None:
    late = editor("zed", "opencode", "acp", "--redact", "keys").stderr
    assert "Note: the agent gets --redact, which stands after it. If it is for acp-proxy: write it before." in late
    assert "stands after it" not in editor("zed", "--redact", "keys", "opencode", "acp", "--model", "x").stderr


def test_an_existing_file_is_named(home: Path) -> None:
    (home / ".jetbrains").mkdir()
    (home / ".jetbrains/acp.json").write_text("{}")
    result = editor("jetbrains", "agent")
    assert f"{home}/.jetbrains/acp.json, " in result.stderr
    assert result.stdout.startswith('"agent_servers": {\n')


def test_a_file_with_agents_gets_the_entry_or_everything_on_demand(home: Path) -> None:
    whole = editor("jetbrains", "agent").stdout
    (home / ".jetbrains").mkdir()
    (home / ".jetbrains/acp.json").write_text('{"agent_servers": {}}')
    result = editor("jetbrains", "agent")
    assert json.loads(f"{{{result.stdout}}}") == json.loads(whole)["agent_servers"]
    assert 'right after the { of its "agent_servers":\n' in result.stderr
    assert editor("--whole", "jetbrains", "agent").stdout == editor("jetbrains", "--whole", "agent").stdout == whole


def test_other_settings_to_change_are_named(home: Path) -> None:
    init = home / ".config/nvim/init.lua"
    init.parent.mkdir(parents=True)
    init.write_text('require("avante").setup({ provider = "x", acp_providers = {} })')
    stderr = editor("avante", "opencode", "acp").stderr
    assert 'Next to acp_providers, set: provider = "opencode",\n' in stderr
    assert "acp-proxy editor --whole avante" in stderr


def test_no_file_is_written(home: Path) -> None:
    editor("jetbrains", "agent")
    assert list(home.iterdir()) == []


def get_entry(*words: str) -> dict[str, Any]:
    result = editor("vscode", *words)
    assert result.exit_code == 0, result.stderr
    [found] = json.loads(result.stdout)["acp.agents"].values()
    assert isinstance(found, dict)
    return found


def test_variables_and_options_of_run_may_precede_the_command() -> None:
    assert get_entry("KEY=a=b", "OTHER=", "agent", "X=1") == {
        "command": COMMAND,
        "args": ["run", "agent", "X=1"],
        "env": {"KEY": "a=b", "OTHER": ""},
    }
    assert get_entry("--load", "store", "--", "KEY=1", "agent", "--flag")["args"] == [
        *("run", "--load", "store", "--", "agent", "--flag")
    ]


@pytest.mark.parametrize(
    "line",
    [
        "--load store KEY=v agent --acp",
        "KEY=v acp-proxy run --load store agent --acp",
        "--load store -- KEY=v /opt/bin/acp-proxy run -- agent --acp",
        "acp-proxy run --load store uvx acp-proxy@0.1 run KEY=v agent --acp",
        "env KEY=v acp-proxy run --load store agent --acp",
        "python3 -m acp_proxy run --load store -- KEY=v agent --acp",
    ],
)
def test_a_command_with_acp_proxy_in_front_gets_it_only_once(line: str) -> None:
    found = get_entry(*line.split())
    assert [word for word in found["args"] if word != "--"] == ["run", "--load", "store", "agent", "--acp"]
    assert found["env"] == {"KEY": "v"}


def test_a_command_may_be_one_argument() -> None:
    assert get_entry("acp-proxy run --load store 'an agent' --acp")["args"] == [
        "run",
        "--load",
        "store",
        "an agent",
        "--acp",
    ]


def test_a_relative_path_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert get_entry("./agent", "./file")["args"] == ["run", str(tmp_path / "agent"), "./file"]


def test_a_missing_agent_is_noted() -> None:
    stderr = editor("zed", "no-such-agent").stderr
    assert "no-such-agent was not found on this machine, nor in the registry" in stderr.replace("\n", " ")


def test_an_agent_may_be_named_as_an_editors_settings_name_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    path = tmp_path / ".config/zed/settings.json"
    path.parent.mkdir(parents=True)
    mine = {
        "command": "/p/acp-proxy",
        "args": ["run", "--redact", "keys", "/opt/mine", "--acp"],
        "env": {"KEY": "sk-1"},
    }
    path.write_text(json.dumps({"agent_servers": {"My Agent": mine}}))
    result = editor("--whole", "zed", "my agent")
    [(title, found)] = json.loads(result.stdout)["agent_servers"].items()
    assert (title, found["args"][-4:]) == (
        "My Agent (recorded)",
        ["--redact", "keys", os.path.abspath("/opt/mine"), "--acp"],
    )
    said = " ".join(result.stderr.split())
    assert 'my agent is taken as "My Agent" in the settings of an editor here. Copy its variables from there' in said
    assert "sk-1" not in result.output


def test_the_variables_of_an_agent_that_the_editor_has_of_itself_are_to_be_copied(home: Path) -> None:
    path = home / ".config/zed/settings.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"agent_servers": {"gemini": {"env": {"KEY": "secret", "MODE": "m"}}, "g": {"env": {"X": ""}}}}')
    result = editor("zed", "MODE=mine", "gemini", "--acp")
    assert 'Copy the variables of "gemini" there, too: KEY.' in " ".join(result.stderr.split())
    assert "secret" not in result.output
    assert "Copy" not in editor("zed", "kimi", "--acp").stderr


def test_a_word_that_may_be_an_id_of_a_registry_that_cannot_be_read_is_refused() -> None:
    unread = ("--registry", "/nowhere/registry.json")
    refused, noted = editor("zed", *unread, "no-such-agent"), editor("zed", *unread, "no-such-agent", "acp")
    assert (refused.exit_code, refused.stdout, noted.exit_code) == (1, "", 0)
    for result in (refused, noted):
        assert f"the registry of agents cannot be read: {Path('/nowhere')}" in result.stderr.lower().replace("\n", " ")
        assert "nor in the registry" not in result.stderr


def test_an_id_of_a_registry_that_cannot_be_asked_has_a_next_step(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    result = editor("emacs", "--registry", "http://127.0.0.1:9/registry.json", "claude-acp")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "Check the network, or give the agent's own command." in " ".join(result.stderr.split())


def test_an_unknown_editor_gets_the_general_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", [program := os.path.abspath("/opt/acp-proxy")])
    result = editor("helix", "opencode", "acp")
    assert (result.exit_code, result.stdout) == (2, "")
    said = " ".join(result.stderr.split())
    assert said.endswith(f"In any other editor, use the agent's command with this in front of it: {program} run.")
    assert "In any other editor" not in editor("neovm", "opencode", "acp").stderr
    assert "Did you mean" not in editor("claude", "zed").stderr


def test_a_start_as_a_module_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/x/acp_proxy/__main__.py"])
    assert get_entry("agent")["command"] == sys.executable
    assert f"{sys.executable} -P -m acp_proxy" in editor("zed", "agent").stderr


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["zed"],
        ["no-such-editor", "agent"],
        ["zed", "KEY=1"],
        ["zed", "KEY=1", ""],
        ["zed", ""],
        ["zed", "   "],
        ["zed", "KEY=1", "   "],
        ["zed", "a\udcff"],
        ["zed", "--whole"],
        ["zed", "--no-such", "agent"],
        ["zed", "a\x1b"],
        ["zed", "acp-proxy", "agent"],
        ["zed", "acp-proxy", "run", "--no-such", "agent"],
        ["zed", 'acp-proxy run "agent'],
    ],
)
def test_wrong_usage_exits_with_2(words: list[str]) -> None:
    result = editor(*words)
    assert (result.exit_code, result.stdout) == (2, "")


@pytest.mark.parametrize(
    ("words", "right"),
    [
        ("jetbrains KEY='a b' --load store gemini --acp", "jetbrains --load store 'KEY=a b' gemini --acp"),
        ("avante --fsync never -- KEY=v --load store -- a", "avante --fsync never --load store KEY=v a"),
        ("zed --load store KEY=v --no-record --whole a", "zed --whole --load store --no-record KEY=v a"),
        ("zed --load store --whole a", "zed --whole --load store a"),
        ("--whole zed KEY=v --no-record a", "zed --whole --no-record KEY=v a"),
    ],
)
def test_options_in_the_wrong_place_are_refused_with_the_right_command(words: str, right: str) -> None:
    result = editor(*shlex.split(words))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith(f"Write: acp-proxy editor {shell_quote.join(shlex.split(right))}\n")
    assert editor(*shlex.split(right)).exit_code == 0


@pytest.mark.parametrize("words", ["--bogus gemini", "KEY=v --bogus gemini", "--bogus gemini --whole"])
def test_an_unknown_option_is_refused_with_where_to_find_the_known_ones(words: str) -> None:
    result = editor("jetbrains", *words.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no option --bogus" in result.stderr
    assert "acp-proxy run --help-all" in result.stderr


def test_the_prefix_of_ids_alone_is_no_agent(tmp_path: Path) -> None:
    registry = tmp_path / "registry.json"
    registry.write_text('{"agents": [{"id": "kimi"}]}')
    result = invoke("editor", "zed", "--registry", str(registry), "registry:")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "the registry has no agent ''. It has: kimi" in " ".join(result.stderr.split())


def test_a_missing_agent_is_refused_with_the_users_editor() -> None:
    assert "acp-proxy editor jetbrains NAME=VALUE AGENT" in editor("jetbrains", "KEY=v").stderr


def test_help_is_shown_after_the_editors_name_too() -> None:
    result = editor("jetbrains", "--help")
    assert (result.exit_code, result.stdout) == (0, editor("--help").stdout)


def test_emacs_means_agent_shell() -> None:
    assert editor("emacs", "opencode", "acp").stdout == editor("agent-shell", "opencode", "acp").stdout != ""


@pytest.mark.parametrize("word", ["nvim", "neovim", "Vim"])
@pytest.mark.parametrize(
    ("init", "plugin", "note"),
    [
        ("", "codecompanion", "For avante: acp-proxy editor avante opencode acp (or agentic)"),
        ('require("avante")', "avante", "For CodeCompanion: acp-proxy editor codecompanion opencode acp (or agentic)"),
    ],
)
def test_neovim_means_its_configured_plugin_or_the_first(
    home: Path, word: str, init: str, plugin: str, note: str
) -> None:
    (home / ".config/nvim").mkdir(parents=True)
    (home / ".config/nvim/init.lua").write_text(init)
    result, of_plugin = editor(word, "opencode", "acp"), editor(plugin, "opencode", "acp")
    assert result.stdout == of_plugin.stdout != ""
    assert note in " ".join(result.stderr.split())
    assert "For " not in of_plugin.stderr


@pytest.mark.parametrize(("word", "name"), [("emacs", "agent-shell"), ("jetbrains", "jetbrains"), ("nvim", "neovim")])
def test_without_an_agent_the_example_is_for_this_editor(word: str, name: str) -> None:
    result = editor(word)
    assert result.exit_code == 2
    assert f"Example: acp-proxy editor {name} npx" in result.stderr


def test_neovim_and_emacs_are_in_the_list_of_editors() -> None:
    assert "agentic, neovim, agent-shell, emacs, vscode" in " ".join(editor("--help").stdout.split())
    assert "'emacs'" in editor("foo", "agent").stderr


def test_recall_is_offered_with_the_command_of_its_server_until_it_is_chosen() -> None:
    assert (
        f"give it this MCP server: {shell_quote.join([os.path.abspath(COMMAND), 'mcp'])}\n"
        in editor("zed", "opencode", "acp").stderr
    )
    chosen = editor("zed", "--recall", "opencode", "acp")
    assert "MCP server" not in chosen.stderr
    assert '"--recall"' in chosen.stdout


def test_paths_in_options_of_run_are_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules").touch()
    for given, written in (
        ("--store=new --redact rules", f"--store={tmp_path / 'new'} --redact {tmp_path / 'rules'}"),
        ("--store ~/x --redact keys --registry https://a/b", "--store ~/x --redact keys --registry https://a/b"),
        ("--load store --list agent", "--load store --list agent"),
    ):
        assert get_entry(*given.split(), "some-agent", "acp")["args"] == ["run", *written.split(), "some-agent", "acp"]


def test_the_complete_content_needs_an_agent_too() -> None:
    done = invoke("editor", "zed", "--whole")
    assert (done.exit_code, "acp-proxy editor zed --whole AGENT" in done.stderr) == (2, True)


@pytest.mark.skipif(os.name == "nt", reason="an editor has the user's PATH there")
@pytest.mark.parametrize("name", ["zed", "codecompanion", "agent-shell", "toad"])
def test_an_agent_that_only_a_terminal_finds_is_noted(home: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    program = home / "nvm/bin/some-agent"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    said = " ".join(editor(name, "--recall", "some-agent", "acp").stderr.split())
    assert f"Note: some-agent is in {program.parent}, where an editor that is started from a menu may not look." in said
    assignment = said.partition("put this in front of the agent here, too: ")[2].split()[0]
    assert assignment.startswith(f"PATH={program.parent}:/usr/local/bin:")
    done = editor(name, "--recall", assignment, "some-agent", "acp")
    assert (done.exit_code, "from a menu" in done.stderr, assignment.partition("=")[2] in done.stdout) == (
        0,
        False,
        True,
    )
    assert "from a menu" not in editor(name, str(program), "acp").stderr
