"""The known editors: one table, both for finding their configuration and for writing it.

Source: each editor's documentation or source code, named beside it (2026).
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from acp_proxy.tools.editors.config_dirs import Machine


class Name(StrEnum):
    """The name of an editor on our command line."""

    ZED = "zed"
    JETBRAINS = "jetbrains"
    CODECOMPANION = "codecompanion"
    AVANTE = "avante"
    AGENTIC = "agentic"
    AGENT_SHELL = "agent-shell"
    VSCODE = "vscode"


@dataclass(frozen=True, slots=True)
class SettingsFiles:
    """JSON files: their possible places, the usual one first, and the member that contains the agents."""

    files: Callable[[Machine], list[Path]]
    member: str


@dataclass(frozen=True, slots=True)
class Sources:
    """A configuration that is a program: its possible places (files or directories, the usual one first), the suffix of
    its files, the sign of a comment, and a pattern for the plugin's name.
    """

    places: Callable[[Machine], list[Path]]
    suffix: str
    comment: str
    mark: str


@dataclass(frozen=True, slots=True)
class Editor:
    name: Name
    title: str
    configured: SettingsFiles | Sources


def _zed(machine: Machine) -> list[Path]:
    if machine.is_windows:
        return [machine.roaming / "Zed" / "settings.json"]
    usual = machine.home / ".config" if machine.is_mac else machine.config
    flatpak = machine.home / ".var" / "app" / "dev.zed.Zed" / "config"
    return [directory / "zed" / "settings.json" for directory in (usual, flatpak)]


def _jetbrains(machine: Machine) -> list[Path]:
    return [machine.home / ".jetbrains" / "acp.json"]


def _vscode(machine: Machine) -> list[Path]:
    base = machine.config
    if machine.is_windows:
        base = machine.roaming
    elif machine.is_mac:
        base = machine.home / "Library" / "Application Support"
    return [base / build / "User" / "settings.json" for build in ("Code", "Code - Insiders", "VSCodium", "Cursor")]


def _neovim(machine: Machine) -> list[Path]:
    base = machine.local if machine.is_windows else machine.config
    directory = base / (machine.environment.get("NVIM_APPNAME") or "nvim")
    return [directory / "init.lua", directory]


def _emacs(machine: Machine) -> list[Path]:
    home = machine.roaming if machine.is_windows else machine.home
    directories = [home / ".emacs.d", machine.config / "emacs", machine.config / "doom", home / ".doom.d"]
    return [home / ".emacs.d" / "init.el", home / ".emacs", home / ".emacs.el", home / ".spacemacs", *directories]


EDITORS = {
    editor.name: editor
    for editor in (
        # zed-industries/zed: crates/paths, crates/settings_content (CustomAgentServerSettings)
        Editor(Name.ZED, "Zed", SettingsFiles(_zed, "agent_servers")),
        # jetbrains.com/help/ai-assistant/acp.html
        Editor(Name.JETBRAINS, "JetBrains", SettingsFiles(_jetbrains, "agent_servers")),
        # olimorris/codecompanion.nvim: doc/configuration/adapters-acp.md
        Editor(Name.CODECOMPANION, "CodeCompanion", Sources(_neovim, ".lua", "--", r"codecompanion")),
        # yetone/avante.nvim: lua/avante/config.lua
        Editor(Name.AVANTE, "avante", Sources(_neovim, ".lua", "--", r"avante\.nvim|[\"']avante[\"']")),
        # carlos-algms/agentic.nvim: lua/agentic/config_default.lua
        Editor(Name.AGENTIC, "agentic.nvim", Sources(_neovim, ".lua", "--", r"agentic\.nvim|[\"']agentic[\"']")),
        # xenodium/agent-shell: agent-shell.el, agent-shell-anthropic.el and its neighbours
        Editor(Name.AGENT_SHELL, "agent-shell", Sources(_emacs, ".el", ";", r"agent-shell")),
        # formulahendry/vscode-acp: package.json
        Editor(Name.VSCODE, "VS Code", SettingsFiles(_vscode, "acp.agents")),
    )
}
