"""What is printed for an editor: the snippet on stdout, the talk on stderr."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from acp_proxy.cli.app import app
from acp_proxy.editors.table import Name

COMMAND = "/home/user/.local/bin/acp-proxy"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's machine, on which acp-proxy is installed."""
    monkeypatch.setattr("sys.argv", [COMMAND])
    monkeypatch.setattr("sys.platform", "linux")
    for name in ("XDG_CONFIG_HOME", "NVIM_APPNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def editor(*words: str) -> Result:
    result = CliRunner().invoke(app, ["editor", *words])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


ZED = """\
{
  "agent_servers": {
    "Claude (kept)": {
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
(setq agent-shell-prefer-session-resume nil) ; load, so that the conversation is shown
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
def test_the_snippet_alone_is_the_output(words: str, expected: str) -> None:
    result = editor(*words.split())
    assert (result.exit_code, result.stdout) == (0, expected)


@pytest.mark.parametrize("name", list(Name))
def test_the_file_is_named_and_whether_it_is_there(name: Name, home: Path) -> None:
    said = editor(name, sys.executable).stderr
    assert str(home) in said
    assert "not there yet" in said
    assert "Note" not in said


def test_a_file_that_is_there_is_named_as_found(home: Path) -> None:
    (home / ".jetbrains").mkdir()
    (home / ".jetbrains/acp.json").write_text("{}")
    assert f"{home}/.jetbrains/acp.json (found)" in editor("jetbrains", "agent").stderr


def test_nothing_is_written(home: Path) -> None:
    editor("jetbrains", "agent")
    assert list(home.iterdir()) == []


def entry(*words: str) -> dict[str, object]:
    result = editor("vscode", *words)
    assert result.exit_code == 0, result.stderr
    [found] = json.loads(result.stdout)["acp.agents"].values()
    assert isinstance(found, dict)
    return found


def test_words_in_front_are_the_agents_variables_and_options_of_run() -> None:
    assert entry("KEY=a=b", "OTHER=", "agent", "X=1") == {
        "command": COMMAND,
        "args": ["run", "agent", "X=1"],
        "env": {"KEY": "a=b", "OTHER": ""},
    }
    assert entry("--load", "store", "--", "KEY=1", "agent", "--flag")["args"] == [
        *("run", "--load", "store", "--", "agent", "--flag")
    ]


def test_a_relative_path_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert entry("./agent", "./file")["args"] == ["run", str(tmp_path / "agent"), "./file"]


def test_an_agent_that_is_not_there_is_noted() -> None:
    assert "no-such-agent is not found" in editor("zed", "no-such-agent").stderr


def test_a_module_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/x/acp_proxy/__main__.py"])
    assert entry("agent")["command"] == sys.executable
    assert f"{sys.executable} -m acp_proxy" in editor("zed", "agent").stderr


@pytest.mark.parametrize(
    "words",
    [[], ["zed"], ["no-such-editor", "agent"], ["zed", "KEY=1"], ["zed", "--no-such", "agent"], ["zed", "a\x1b"]],
)
def test_a_wrong_usage_is_exit_2(words: list[str]) -> None:
    result = editor(*words)
    assert (result.exit_code, result.stdout) == (2, "")
