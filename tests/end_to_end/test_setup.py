"""From an editor's own settings to the first kept session and back: ``setup``, then the command that stands in the
settings, started as the editor starts it; a conversation, a kill, a list, a load; and ``setup --undo``."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from acp_proxy.invocation import make_child_command
from acp_proxy.tools.demo.walkthrough import walk
from acp_proxy.tools.editors import jsonc
from acp_proxy.tools.editors.config_dirs import Machine
from acp_proxy.tools.editors.known_editors import EDITORS, Name, SettingsFiles
from tests.waiting import SECONDS

ZED = """\
// Zed settings
//
// For information on how to configure Zed, see the Zed documentation.
{
  "agent_servers": {
    // my own
    "Otter": {
      "type": "custom",
      "command": PROGRAM, /* the agent */
      "args": [
        ARGS, // where it remembers
      ],
      "env": { "OTTER_KEY": "sk-secret" },
    },
    "gemini": { "type": "registry", "default_mode": "yolo" },
  },
  "telemetry": { "diagnostics": false, "metrics": false },
  "ui_font_size": 16,
  "theme": {
    "mode": "system",
    "light": "One Light",
    "dark": "One Dark", // "run": { "command": "agent" }
  },
}
"""
JETBRAINS = """\
\ufeff{
\t"default_mcp_settings": {
\t\t"use_custom_mcp": true,
\t\t"use_idea_mcp": false
\t},
\t"agent_servers": {
\t\t"Otter": {
\t\t\t"command": PROGRAM,
\t\t\t"args": [ARGS],
\t\t\t"env": {"OTTER_KEY": "sk-secret"}
\t\t}
\t}
}""".replace("\n", "\r\n")
VSCODE = """\
{
    // "acp.agents": {},
    "editor.fontSize": 13,
    "[python]": { "editor.formatOnSave": true },
    "acp.agents": {
        "Otter": { "command": PROGRAM, "args": [ARGS], "env": {"OTTER_KEY": "sk-secret"} },
    },
    "workbench.colorTheme": "Größe ✓"
}
"""
PASEO = """\
{
  "version": 1,
  "daemon": { "listen": "127.0.0.1:6767" },
  "agents": {
    "providers": {
      "claude": { "command": ["/opt/claude"] },
      "otter": { "extends": "acp", "label": "Otter", "command": [PROGRAM, ARGS], "env": {"OTTER_KEY": "sk-secret"} }
    }
  }
}
"""


@dataclass(frozen=True)
class Settings:
    """An editor's settings: its name, the file's text, and the names that lead to the agent's entry."""

    editor: Name
    text: str
    names: tuple[str, ...]


REAL = [
    Settings(Name.ZED, ZED, ("agent_servers", "Otter")),
    Settings(Name.JETBRAINS, JETBRAINS, ("agent_servers", "Otter")),
    Settings(Name.VSCODE, VSCODE, ("acp.agents", "Otter")),
    Settings(Name.PASEO, PASEO, ("agents", "providers", "otter")),
]


def place_of(editor: Name, home: Path, environment: Mapping[str, str]) -> Path:
    kind = EDITORS[editor].configured
    assert isinstance(kind, SettingsFiles)
    return kind.find_files(Machine(sys.platform, home, environment))[0]


def command_in(text: str, names: tuple[str, ...]) -> tuple[list[str], dict[str, str]]:
    """What an editor starts, and the variables that it sets."""
    found = jsonc.decode(text.removeprefix("\ufeff"))
    for name in names:
        assert isinstance(found, dict)
        found = found[name]
    assert isinstance(found, dict)
    command, env = found["command"], found["env"]
    assert isinstance(env, dict)
    return ([*command] if isinstance(command, list) else [str(command), *found["args"]]), env


@pytest.mark.parametrize("settings", REAL, ids=lambda settings: settings.editor.value)
def test_from_an_editors_settings_to_a_kept_session_and_back(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(home))
    monkeypatch.setenv("LOCALAPPDATA", str(home / "AppData" / "Local"))
    monkeypatch.setenv("APPDATA", str(home / "AppData" / "Roaming"))
    if sys.platform == "win32":  # whose user's store is not where variables say
        monkeypatch.setenv("ACP_PROXY_STORE", str(home / "acp-proxy" / "store"))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "PASEO_HOME"):
        monkeypatch.delenv(name, raising=False)
    agent = [*make_child_command("acp_proxy.tools.demo.agent"), "--memory", str(tmp_path / "memory")]
    path = place_of(settings.editor, home, os.environ)
    path.parent.mkdir(parents=True)
    (tmp_path / "memory").mkdir()
    text = settings.text.replace("PROGRAM", json.dumps(agent[0]))
    before = text.replace("ARGS", json.dumps(agent[1:])[1:-1]).encode()
    path.write_bytes(before)
    files = {each for each in home.rglob("*") if each.is_file()}

    def setup(*words: str) -> str:
        command = [*make_child_command("acp_proxy"), "setup", "--yes", *words]
        result = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, encoding="utf-8")
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stderr

    assert re.search(r'^".+" answers\.$', setup(), re.MULTILINE)
    words, variables = command_in(path.read_bytes().decode(), settings.names)
    assert words == [*make_child_command("acp_proxy"), "run", *agent]
    assert variables == {"OTTER_KEY": "sk-secret"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    walk(lambda text: None, lambda store, memory: words)

    setup("--undo")
    assert path.read_bytes() == before
    assert {each for each in home.rglob("*") if each.is_file() and "acp-proxy" not in each.parts} == files
