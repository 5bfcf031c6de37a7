"""The configuration that makes an editor start an agent through acp-proxy. Pure.

An agent that the editor knows keeps its name there, so that its other settings stay in force. Any other agent gets a
new name.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from textwrap import indent

from acp_proxy import shell_quote
from acp_proxy.tools.editors.known_editors import EXTENSION, EXTENSION_TITLE, VSCODE_BUILDS, Name


@dataclass(frozen=True, slots=True)
class EditorEntry:
    """The complete command, acp-proxy first; the agent's variables; the name of the agent by its command."""

    words: list[str]
    variables: Mapping[str, str]
    agent: str


@dataclass(frozen=True, slots=True)
class Snippet:
    """What to put into a configuration. ``entry``: the agent's entry, under ``title``. ``members``: its enclosing
    members, outermost first. ``container``: what these are in, if that is not the file. ``text_beside``: text next to
    the outermost member. ``next_step``: how to choose the agent.
    """

    entry: str
    title: str
    members: tuple[str, ...]
    next_step: str
    container: str | None = None
    text_beside: str | None = None
    is_json: bool = False

    def make_text(self, depth: int) -> str:
        """The text inside the innermost of so many existing members."""
        text = self.entry
        for member in reversed(self.members[depth:]):
            inner = indent(text, _INDENT)
            text = f"{_quote(member)}: {{\n{inner}\n}}" if self.is_json else f"{member} = {{\n{inner}\n}},"
        return text

    @property
    def whole(self) -> str:
        """The text for a file without any of it."""
        text = self.make_text(0)
        if self.is_json:
            return f"{{\n{indent(text, _INDENT)}\n}}"
        return f"{self.text_beside}\n{text}" if self.text_beside is not None else text


_INDENT = "  "


@dataclass(frozen=True, slots=True)
class _AgentNames:
    """An agent's display name, and its name in editors. None: the editor does not know it."""

    title: str
    codecompanion: str | None = None
    avante: str | None = None
    agentic: str | None = None
    agent_shell: str | None = None


_CLAUDE = _AgentNames("Claude", "claude_code", "claude-code", "claude-agent-acp", "anthropic-claude")
_GEMINI = _AgentNames("Gemini", "gemini_cli", "gemini-cli", "gemini-acp", "google-gemini")
_OPENCODE = _AgentNames("OpenCode", "opencode", "opencode", "opencode-acp", "opencode")
_VIBE = _AgentNames("Mistral Vibe", "mistral_vibe", None, "mistral-vibe-acp", "mistral")
KNOWN_AGENTS = {
    "claude-agent-acp": _CLAUDE,
    "claude-code-acp": _CLAUDE,
    "gemini": _GEMINI,
    "gemini-cli": _GEMINI,
    "codex-acp": _AgentNames("Codex", "codex", "codex", "codex-acp", "openai-codex"),
    "opencode": _OPENCODE,
    "opencode-ai": _OPENCODE,
    "copilot": _AgentNames("Copilot", "copilot_acp", None, "copilot-acp", "github"),
    "goose": _AgentNames("Goose", "goose", "goose", "goose-acp", "goose"),
    "kimi": _AgentNames("Kimi", "kimi_cli", "kimi-cli", None, "kimi"),
    "vibe-acp": _VIBE,
    "mistral-vibe": _VIBE,
}


def make_snippet(editor: Name, agent_entry: EditorEntry) -> Snippet:
    """What to put into an editor's configuration to start this agent through acp-proxy."""
    agent_names = KNOWN_AGENTS.get(agent_entry.agent, _AgentNames(agent_entry.agent))
    return _MAKERS[editor](agent_entry, agent_names)


def _make_zed_snippet(agent_entry: EditorEntry, agent_names: _AgentNames) -> Snippet:
    title = f"{agent_names.title} (recorded)"
    next_step = f'in the agent panel, begin a thread with "{title}".'
    return _make_json_snippet("agent_servers", title, {"type": "custom"}, agent_entry, next_step)


def _make_jetbrains(agent_entry: EditorEntry, agent_names: _AgentNames) -> Snippet:
    title = f"{agent_names.title} (recorded)"
    next_step = f'in AI Chat, choose "{title}".'
    return _make_json_snippet("agent_servers", title, {}, agent_entry, next_step)


def _make_vscode(agent_entry: EditorEntry, agent_names: _AgentNames) -> Snippet:
    title = f"{agent_names.title} (recorded)"
    next_step = f'in the panel of the extension "{EXTENSION_TITLE}" ({EXTENSION}), choose "{title}".'
    return _make_json_snippet("acp.agents", title, {}, agent_entry, next_step)


def _make_json_snippet(
    member: str, title: str, first_members: dict[str, object], agent_entry: EditorEntry, next_step: str
) -> Snippet:
    value = {
        **first_members,
        "command": agent_entry.words[0],
        "args": agent_entry.words[1:],
        "env": dict(agent_entry.variables),
    }
    entry = f"{_quote(title)}: {json.dumps(value, indent=_INDENT, ensure_ascii=False)}"
    return Snippet(entry, title, (member,), next_step, is_json=True)


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _make_paseo(agent_entry: EditorEntry, agent_names: _AgentNames) -> Snippet:
    key = f"{_make_slug(agent_entry.agent)}-recorded"
    value = {
        "extends": "acp",
        "label": f"{agent_names.title} (recorded)",
        "command": list(agent_entry.words),
        "env": dict(agent_entry.variables),
    }
    entry = f"{_quote(key)}: {json.dumps(value, indent=_INDENT, ensure_ascii=False)}"
    next_step = f'restart Paseo\'s daemon, and choose "{agent_names.title} (recorded)".'
    return Snippet(entry, key, ("agents", "providers"), next_step, is_json=True)


def _make_slug(agent: str) -> str:
    """A name of lowercase letters, digits and hyphens, which begins with a letter."""
    return re.sub(r"[^a-z0-9]+", "-", agent.lower()).strip("-").lstrip("0123456789-") or "agent"


# --- Clients to which the user gives the command


def _make_toad(agent_entry: EditorEntry, agent_names: _AgentNames) -> Snippet:
    line = shell_quote.join(["toad", "acp", shell_quote.join(_list_words(agent_entry)), "."])
    return Snippet(line, agent_names.title, (), "ctrl+r on Toad's start page lists your sessions with it.")


def _make_bb(agent_entry: EditorEntry, agent_names: _AgentNames) -> Snippet:
    agent = {
        "id": f"{_make_slug(agent_entry.agent)}-recorded",
        "displayName": f"{agent_names.title} (recorded)",
        "command": agent_entry.words[0],
        "args": agent_entry.words[1:],
        "env": dict(agent_entry.variables),
    }
    agents = json.dumps([agent], ensure_ascii=False)
    line = shell_quote.join(["bb", "plugin", "config", "provider-acp", "set", "customAgents", agents])
    return Snippet(line, agent_names.title, (), f'choose "{agent_names.title} (recorded)" for a thread.')


def _make_obsidian(agent_entry: EditorEntry, agent_names: _AgentNames) -> Snippet:
    lines = [
        f"Agent ID: {_make_slug(agent_entry.agent)}-recorded",
        f"Display name: {agent_names.title} (recorded)",
        f"Path: {agent_entry.words[0]}",
        "Arguments:",
        *(f"  {word}" for word in agent_entry.words[1:]),
    ]
    if agent_entry.variables:
        lines += ["Environment variables:", *(f"  {key}={value}" for key, value in agent_entry.variables.items())]
    next_step = f'open a chat view and choose "{agent_names.title} (recorded)".'
    return Snippet("\n".join(lines), agent_names.title, (), next_step)


_PERSONA = """\
import os

import jupyter_ai_acp_client
from jupyter_ai_acp_client.base_acp_persona import BaseAcpPersona
from jupyter_ai_persona_manager import PersonaDefaults


class RecordedPersona(BaseAcpPersona):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, executable={command}, **kwargs)

    @property
    def defaults(self):
        package = os.path.dirname(jupyter_ai_acp_client.__file__)
        return PersonaDefaults(
            name={title},
            description="Through acp-proxy, which records its sessions.",
            avatar_path=os.path.join(package, "static", "claude.svg"),
            system_prompt="unused",
        )"""


def _make_jupyter_ai(agent_entry: EditorEntry, agent_names: _AgentNames) -> Snippet:
    name = f"{agent_names.title}-recorded".replace(" ", "-")  # it is mentioned by its name
    command = json.dumps(_list_words(agent_entry), ensure_ascii=False)
    text = _PERSONA.format(command=command, title=_quote(name))
    return Snippet(text, name, (), f"restart JupyterLab, and write to @{name} in a chat.")


_MARIMOS_PORTS = {"Gemini": 3019, "Codex": 3021, "OpenCode": 3023}
_CLAUDES_PORT = 3017


def _make_marimo(agent_entry: EditorEntry, agent_names: _AgentNames) -> Snippet:
    port = _MARIMOS_PORTS.get(agent_names.title, _CLAUDES_PORT)
    agent = agent_names.title if agent_names.title in _MARIMOS_PORTS else "Claude"
    command = shell_quote.join(_list_words(agent_entry))
    line = shell_quote.join(["npx", "stdio-to-ws", command, "--port", str(port)])
    return Snippet(line, agent_names.title, (), f"in marimo's panel of agents, choose {agent}: it looks at this port.")


def _make_intelligent_terminal(agent_entry: EditorEntry, agent_names: _AgentNames) -> Snippet:
    line = shell_quote.join(_list_words(agent_entry))
    return Snippet(line, agent_names.title, (), "open the agent pane.")


def _list_words(agent_entry: EditorEntry) -> list[str]:
    """The command, where it has no place for variables beside it. Windows has no ``env``: there, a user sets them."""
    pairs = [f"{key}={value}" for key, value in agent_entry.variables.items()]
    return ["env", *pairs, *agent_entry.words] if pairs else agent_entry.words


_CODECOMPANION = """\
{name} = function()
  return require("codecompanion.adapters").extend({base}, {{
{more}    commands = {{ default = {command} }},
{env}  }})
end,"""


def _make_codecompanion(agent_entry: EditorEntry, agent_names: _AgentNames) -> Snippet:
    name, name_lines, env = agent_names.codecompanion, "", ""
    if name is None:
        name = re.sub(r"\W", "_", agent_entry.agent, flags=re.ASCII)
        name_lines = f"    name = {_quote_lua(name)},\n"
    name_lines += f"    formatted_name = {_quote_lua(f'{agent_names.title} (recorded)')},\n"
    if agent_entry.variables:  # a plain string might be read as the name of a variable
        values = (
            f"[{_quote_lua(key)}] = function() return {_quote_lua(value)} end"
            for key, value in agent_entry.variables.items()
        )
        env = f"    env = {{ {', '.join(values)} }},\n"
    text = _CODECOMPANION.format(
        name=(title := f"[{_quote_lua(name)}]"),
        base=_quote_lua(agent_names.codecompanion or "opencode"),  # the simplest adapter
        more=name_lines,
        command=_format_lua_list(agent_entry.words),
        env=env,
    )
    next_step = f":CodeCompanionChat adapter={name}"
    return Snippet(text, title, ("adapters", "acp"), next_step, _name_place("codecompanion"))


_PROVIDER = """\
[{name}] = {{
{more}  command = {command},
  args = {arguments},
  env = {{{env}}},
}},"""


def _make_avante(agent_entry: EditorEntry, agent_names: _AgentNames) -> Snippet:
    name = agent_names.avante or agent_entry.agent
    return _make_provider("avante", name, "", agent_entry, ":AvanteToggle")


def _make_agentic(agent_entry: EditorEntry, agent_names: _AgentNames) -> Snippet:
    name = agent_names.agentic or agent_entry.agent
    more = f"  name = {_quote_lua(f'{agent_names.title} (recorded)')},\n"
    return _make_provider("agentic", name, more, agent_entry, ':lua require("agentic").toggle()')


def _make_provider(plugin: str, name: str, more: str, agent_entry: EditorEntry, next_step: str) -> Snippet:
    pairs = ", ".join(f"[{_quote_lua(key)}] = {_quote_lua(value)}" for key, value in agent_entry.variables.items())
    entry = _PROVIDER.format(
        name=_quote_lua(name),
        more=more,
        command=_quote_lua(agent_entry.words[0]),
        arguments=_format_lua_list(agent_entry.words[1:]),
        env=f" {pairs} " if pairs else "",
    )
    beside = f"provider = {_quote_lua(name)},"
    return Snippet(entry, f"[{_quote_lua(name)}]", ("acp_providers",), next_step, _name_place(plugin), beside)


def _name_place(plugin: str) -> str:
    return f'what you give to require("{plugin}").setup (with lazy.nvim: its opts)'


_RESUME = """\
(setq agent-shell-session-restore-verbosity 'full) ; load, so that the conversation is shown
(setq agent-shell-prefer-session-resume nil) ; the same, for older versions of agent-shell"""

_AGENT_SHELL = """\
(with-eval-after-load 'agent-shell
  (add-to-list
   'agent-shell-agent-configs
   (agent-shell-make-agent-config
    :identifier '{name}
    :mode-line-name {title}
    :buffer-name {title}
    :shell-prompt {prompt}
    :shell-prompt-regexp {regexp}
    :client-maker
    (lambda (buffer)
      (acp-make-client
       :command {command}
       :command-params '({arguments})
       :environment-variables '({variables})
       :context-buffer buffer)))))"""


def _make_agent_shell(agent_entry: EditorEntry, agent_names: _AgentNames) -> Snippet:
    title = agent_names.title if agent_names.agent_shell is not None else f"{agent_names.title} (recorded)"
    variables = _format_elisp_list(f"{key}={value}" for key, value in agent_entry.variables.items())
    if agent_names.agent_shell is not None:
        prefix = f"agent-shell-{agent_names.agent_shell}"
        lines = [f"(setq {prefix}-acp-command\n      '({_format_elisp_list(agent_entry.words)}))"]
        if variables:
            lines.append(f"(setq {prefix}-environment '({variables}))")
        text = "\n".join([*lines, _RESUME])
    else:
        made = _AGENT_SHELL.format(
            name=re.sub(r"[^\w-]", "-", agent_entry.agent, flags=re.ASCII),
            title=_quote_elisp(title),
            prompt=_quote_elisp(f"{agent_names.title}> "),
            regexp=_quote_elisp(re.sub(r"[^\w ]", ".", agent_names.title) + "> "),
            command=_quote_elisp(agent_entry.words[0]),
            arguments=_format_elisp_list(agent_entry.words[1:]),
            variables=variables,
        )
        text = f"{made}\n{_RESUME}"
    return Snippet(text, agent_names.title, (), f"M-x agent-shell, and choose {title}.")


_MAKERS = {
    Name.ZED: _make_zed_snippet,
    Name.JETBRAINS: _make_jetbrains,
    Name.CODECOMPANION: _make_codecompanion,
    Name.AVANTE: _make_avante,
    Name.AGENTIC: _make_agentic,
    Name.AGENT_SHELL: _make_agent_shell,
    **dict.fromkeys(VSCODE_BUILDS, _make_vscode),
    Name.PASEO: _make_paseo,
    Name.TOAD: _make_toad,
    Name.BB: _make_bb,
    Name.OBSIDIAN: _make_obsidian,
    Name.JUPYTER_AI: _make_jupyter_ai,
    Name.MARIMO: _make_marimo,
    Name.INTELLIGENT_TERMINAL: _make_intelligent_terminal,
}


def _quote_lua(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return (
        '"' + "".join(character if character.isprintable() else _escape_lua(character) for character in escaped) + '"'
    )


def _escape_lua(character: str) -> str:
    return "".join(f"\\{byte:03}" for byte in character.encode())


def _format_lua_list(words: Iterable[str]) -> str:
    return f"{{ {', '.join(_quote_lua(word) for word in words)} }}"


def _quote_elisp(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _format_elisp_list(words: Iterable[str]) -> str:
    return " ".join(_quote_elisp(word) for word in words)
