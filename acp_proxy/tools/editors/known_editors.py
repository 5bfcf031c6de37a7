"""The known editors and other clients: one table, both for finding their configuration and for writing it.

Source: each one's documentation or source code, named beside it (2026).
"""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from functools import partial
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
    CODE_INSIDERS = "code-insiders"
    VSCODIUM = "vscodium"
    CURSOR = "cursor"
    PASEO = "paseo"
    TOAD = "toad"
    BB = "bb"
    OBSIDIAN = "obsidian"
    JUPYTER_AI = "jupyter-ai"
    MARIMO = "marimo"
    INTELLIGENT_TERMINAL = "intelligent-terminal"


@dataclass(frozen=True, slots=True)
class SettingsFiles:
    """JSON files: their possible places, the usual one first, and the members that lead to the agents.

    ``agent_member``: a member and its value, which an entry has if it is an agent of this protocol; None: all are. Such
    an entry's ``command`` is a list, with the arguments in it. ``extensions``: the directory of the editor's extensions
    below the home directory, if it has the agents from one. ``find_own_directory``: a directory that the editor makes
    when it first runs; None: that of its settings file.
    """

    find_files: Callable[[Machine], list[Path]]
    members: tuple[str, ...]
    agent_member: tuple[str, str] | None = None
    extensions: str | None = None
    find_own_directory: Callable[[Machine], Path] | None = None

    def lists_agent(self, entry: object) -> bool:
        """Whether an entry is an agent of this protocol."""
        return self.agent_member is None or (
            isinstance(entry, dict) and entry.get(self.agent_member[0]) == self.agent_member[1]
        )

    def lacks_extension(self, machine: Machine) -> bool:
        """Whether nothing reads the agents, because the extension that does is not installed."""
        return self.extensions is not None and not any(Path(machine.home, self.extensions).glob(f"{EXTENSION}-*"))


@dataclass(frozen=True, slots=True)
class Sources:
    """A configuration that is a program: its possible places (files or directories, the usual one first), the suffix of
    its files, the sign of a comment, and a pattern for the plugin's name.
    """

    find_places: Callable[[Machine], list[Path]]
    suffix: str
    comment: str
    plugin_pattern: str


@dataclass(frozen=True, slots=True)
class TypedByUser:
    """A client to which users give the command themselves. ``instruction``: how."""

    instruction: str


@dataclass(frozen=True, slots=True)
class Editor:
    """An editor or another client. ``title``: its name for people. ``configured``: where, and in which form."""

    name: Name
    title: str
    configured: SettingsFiles | Sources | TypedByUser


def _find_zed_files(machine: Machine) -> list[Path]:
    if machine.is_windows:
        return [machine.roaming / "Zed" / "settings.json"]
    usual = machine.home / ".config" if machine.is_mac else machine.config
    flatpak = machine.home / ".var" / "app" / "dev.zed.Zed" / "config"
    return [directory / "zed" / "settings.json" for directory in (usual, flatpak)]


def _find_jetbrains_files(machine: Machine) -> list[Path]:
    return [machine.home / ".jetbrains" / "acp.json"]


def _find_jetbrains_directory(machine: Machine) -> Path:
    return _find_base(machine) / "JetBrains"  # "Directories used by the IDE" in its help


def _find_base(machine: Machine) -> Path:
    """The directory in which most editors keep what is theirs."""
    if machine.is_windows:
        return machine.roaming
    return machine.home / "Library" / "Application Support" if machine.is_mac else machine.config


VSCODE_BUILDS = {
    Name.VSCODE: ("VS Code", "Code", ".vscode"),
    Name.CODE_INSIDERS: ("Code Insiders", "Code - Insiders", ".vscode-insiders"),
    Name.VSCODIUM: ("VSCodium", "VSCodium", ".vscode-oss"),
    Name.CURSOR: ("Cursor", "Cursor", ".cursor"),
}
"""Of each build of VS Code: its title, and the directories of its configuration and of its data."""
EXTENSION, EXTENSION_TITLE = "formulahendry.acp-client", "ACP Client"
"""The extension by which they have agents."""


def _find_vscode_files(directory: str, machine: Machine) -> list[Path]:
    return [_find_base(machine) / directory / "User" / "settings.json"]


def _find_paseo_files(machine: Machine) -> list[Path]:
    value = machine.environment.get("PASEO_HOME")
    home = Path(value) if value and Path(value).is_absolute() else machine.home / ".paseo"
    return [home / "config.json"]


def _find_neovim_files(machine: Machine) -> list[Path]:
    base = machine.local if machine.is_windows else machine.config
    directory = base / (machine.environment.get("NVIM_APPNAME") or "nvim")
    return [directory / "init.lua", directory]


def _find_emacs_files(machine: Machine) -> list[Path]:
    home = machine.roaming if machine.is_windows else machine.home
    directories = [home / ".emacs.d", machine.config / "emacs", machine.config / "doom", home / ".doom.d"]
    return [home / ".emacs.d" / "init.el", home / ".emacs", home / ".emacs.el", home / ".spacemacs", *directories]


EDITORS = {
    editor.name: editor
    for editor in (
        # zed-industries/zed: crates/paths, crates/settings_content (CustomAgentServerSettings)
        Editor(Name.ZED, "Zed", SettingsFiles(_find_zed_files, ("agent_servers",))),
        # jetbrains.com/help/ai-assistant/acp.html
        Editor(
            Name.JETBRAINS,
            "JetBrains",
            SettingsFiles(_find_jetbrains_files, ("agent_servers",), find_own_directory=_find_jetbrains_directory),
        ),
        # olimorris/codecompanion.nvim: doc/configuration/adapters-acp.md
        Editor(Name.CODECOMPANION, "CodeCompanion", Sources(_find_neovim_files, ".lua", "--", r"codecompanion")),
        # yetone/avante.nvim: lua/avante/config.lua
        Editor(Name.AVANTE, "avante", Sources(_find_neovim_files, ".lua", "--", r"avante\.nvim|[\"']avante[\"']")),
        # carlos-algms/agentic.nvim: lua/agentic/config_default.lua
        Editor(
            Name.AGENTIC, "agentic.nvim", Sources(_find_neovim_files, ".lua", "--", r"agentic\.nvim|[\"']agentic[\"']")
        ),
        # xenodium/agent-shell: agent-shell.el, agent-shell-anthropic.el and its neighbours
        Editor(Name.AGENT_SHELL, "agent-shell", Sources(_find_emacs_files, ".el", ";", r"agent-shell")),
        # formulahendry/vscode-acp: package.json
        *(
            Editor(
                name,
                title,
                SettingsFiles(partial(_find_vscode_files, directory), ("acp.agents",), extensions=f"{data}/extensions"),
            )
            for name, (title, directory, data) in VSCODE_BUILDS.items()
        ),
        # getpaseo/paseo: docs/custom-providers.md, packages/server/src/server/paseo-home.ts
        Editor(Name.PASEO, "Paseo", SettingsFiles(_find_paseo_files, ("agents", "providers"), ("extends", "acp"))),
        # batrachianai/toad: src/toad/cli.py; src/toad/agents.py reads no agents of the user
        Editor(Name.TOAD, "Toad", TypedByUser("Start Toad with this command, in the project's directory")),
        # ymichael/bb: the section "Custom ACP Agents" of its configuration guide
        Editor(
            Name.BB,
            "bb",
            TypedByUser("Run this command; it sets the whole list, so add the agents that you have there"),
        ),
        # RAIT-09/obsidian-agent-client: docs/agent-setup/custom-agents.md
        Editor(
            Name.OBSIDIAN,
            "Obsidian",
            TypedByUser("In Obsidian: Settings, Agent Client, Custom Agents, Add custom agent. Fill in"),
        ),
        # jupyter-ai-contrib/jupyter-ai-acp-client: README.md, acp_personas/claude.py;
        # jupyter-ai-contrib/jupyter-ai-persona-manager: README.md
        Editor(
            Name.JUPYTER_AI,
            "Jupyter AI",
            TypedByUser(
                "Put this into .jupyter/personas/acp_proxy_persona.py, in the directory that JupyterLab serves"
            ),
        ),
        # marimo-team/marimo: frontend/src/components/chat/acp/state.ts
        Editor(Name.MARIMO, "marimo", TypedByUser("Run this command, and leave it running while you use marimo")),
        # microsoft/intelligent-terminal: src/cascadia/TerminalSettingsEditor/AIAgentsViewModel.cpp
        Editor(
            Name.INTELLIGENT_TERMINAL,
            "Intelligent Terminal",
            TypedByUser("In Intelligent Terminal: Settings, Agent, the agent's list, Add New. Give this command"),
        ),
    )
}

NEOVIM_PLUGINS = (Name.CODECOMPANION, Name.AVANTE, Name.AGENTIC)
_JETBRAINS_IDES = (
    "idea intellij pycharm webstorm goland clion rider phpstorm rubymine rustrover datagrip android-studio"
)
_OTHER_NAMES: dict[str, tuple[Name, ...]] = {
    **dict.fromkeys(("nvim", "neovim", "vim", "lazyvim"), NEOVIM_PLUGINS),
    **dict.fromkeys(_JETBRAINS_IDES.split(), (Name.JETBRAINS,)),
    **dict.fromkeys(("code", "vs-code"), (Name.VSCODE,)),
    **dict.fromkeys(("insiders", "vscode-insiders", "vs-code-insiders"), (Name.CODE_INSIDERS,)),
    "codium": (Name.VSCODIUM,),
    **dict.fromkeys(("emacs", "doom", "spacemacs", "agent_shell"), (Name.AGENT_SHELL,)),
    **dict.fromkeys(("jupyter", "jupyterlab", "jupyter_ai"), (Name.JUPYTER_AI,)),
    "zeditor": (Name.ZED,),
}
"""What else users call an editor: its program, or the program that a plugin is for."""


def find_editors(word: str) -> list[Name]:
    """The editors that a user may mean, without regard to case: by name, by another name, or by a beginning."""
    lowered = word.lower().replace(" ", "-")
    if lowered in list(Name):
        return [Name(lowered)]
    return [*_OTHER_NAMES.get(lowered, ())] or [name for name in Name if lowered and name.startswith(lowered)]


def find_near_editors(word: str) -> list[str]:
    """The names of editors that are written nearly so, the nearest first."""
    # As alike as "zde" and "zed", and more than "claude" and "code".
    near_names = get_close_matches(word.lower(), [*Name, *_OTHER_NAMES], n=2, cutoff=0.65)
    return [
        str(name)
        for name in dict.fromkeys(editor_name for near_name in near_names for editor_name in find_editors(near_name))
    ]
