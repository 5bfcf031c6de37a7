"""Each snippet contains exactly the command that it was made from."""

import ast
import json
import re
from typing import Any

import pytest

from acp_proxy import shell_quote
from acp_proxy.tools.editors.known_editors import EDITORS, Name
from acp_proxy.tools.editors.snippets import EditorEntry, make_snippet

PROXY = "/home/user/.local/bin/acp-proxy"
WORDS = [PROXY, "run", "npx", "-y", 'a "quoted" \\ word', "ünï", "--flag={1}"]
VARIABLES = {"KEY": 'a "b" \\ c', "OTHER_1": "x,y}"}
JSON_EDITORS = [Name.ZED, Name.JETBRAINS, Name.VSCODE]
LUA_EDITORS = [Name.CODECOMPANION, Name.AVANTE, Name.AGENTIC]
STRING = r'"(?:\\.|[^"\\])*"'
posix = pytest.mark.skipif(shell_quote.ON_WINDOWS, reason="a line for cmd.exe and PowerShell loses some signs")
PAIRS = {")": "(", "]": "[", "}": "{"}


def make_whole(editor: Name, agent: str = "some-agent", variables: dict[str, str] = VARIABLES) -> str:
    return make_snippet(editor, EditorEntry(WORDS, variables, agent)).whole


def strings(text: str) -> list[str]:
    """The strings in Lua or Elisp code; their escapes of quotes and backslashes equal Python's."""
    return [ast.literal_eval(found) for found in re.findall(STRING, text)]


def check_balanced(text: str) -> None:
    open_ones = []
    for one in re.sub(STRING, "", text):
        if one in PAIRS.values():
            open_ones.append(one)
        elif one in PAIRS:
            assert open_ones.pop() == PAIRS[one], text
    assert open_ones == []


def is_within(words: list[str], text: str) -> bool:
    found = strings(text)
    return any(found[at : at + len(words)] == words for at in range(len(found)))


def test_every_editor_has_a_snippet() -> None:
    assert list(EDITORS) == list(Name)
    for editor in Name:
        snippet = make_snippet(editor, EditorEntry(WORDS, VARIABLES, "some-agent"))
        assert all((snippet.whole, snippet.title, snippet.next_step)), editor


@pytest.mark.parametrize("editor", JSON_EDITORS)
def test_json_parses_to_the_command_and_its_variables(editor: Name) -> None:
    value: Any = json.loads(make_whole(editor))
    [[title, entry]] = value[EDITORS[editor].configured.members[0]].items()  # type: ignore[union-attr]
    assert title == "some-agent (recorded)"
    assert entry.pop("type", None) == ("custom" if editor == Name.ZED else None)
    assert entry == {"command": PROXY, "args": WORDS[1:], "env": VARIABLES}


def test_paseos_command_contains_its_arguments() -> None:
    value = json.loads(make_whole(Name.PASEO, "Some_Agent 2"))
    assert value == {
        "agents": {
            "providers": {
                "some-agent-2-recorded": {
                    "extends": "acp",
                    "label": "Some_Agent 2 (recorded)",
                    "command": WORDS,
                    "env": VARIABLES,
                }
            }
        }
    }


def list_typed_words(editor: Name) -> list[str]:
    """The words of a command for a shell, which a user types."""
    return shell_quote.split(make_whole(editor))


@posix
def test_toad_gets_the_command_as_one_word() -> None:
    program, command, line, _ = list_typed_words(Name.TOAD)
    assert (program, command) == ("toad", "acp")
    assert shell_quote.split(line) == ["env", *(f"{key}={value}" for key, value in VARIABLES.items()), *WORDS]


@posix
def test_bb_gets_a_list_with_the_agent() -> None:
    *command, agents = list_typed_words(Name.BB)
    assert command == ["bb", "plugin", "config", "provider-acp", "set", "customAgents"]
    assert json.loads(agents) == [
        {
            "id": "some-agent-recorded",
            "displayName": "some-agent (recorded)",
            "command": PROXY,
            "args": WORDS[1:],
            "env": VARIABLES,
        }
    ]


@posix
@pytest.mark.parametrize(("agent", "port"), [("claude-agent-acp", "3017"), ("gemini", "3019"), ("some-agent", "3017")])
def test_marimos_command_listens_where_marimo_looks(agent: str, port: str) -> None:
    *begin, command, _, at = shell_quote.split(make_whole(Name.MARIMO, agent, {}))
    assert (begin, at) == (["npx", "stdio-to-ws"], port)
    assert shell_quote.split(command) == WORDS


def test_obsidian_gets_an_argument_a_line() -> None:
    lines = make_whole(Name.OBSIDIAN).splitlines()
    assert lines[0] == "Agent ID: some-agent-recorded"
    assert lines[2] == f"Path: {PROXY}"
    assert lines[4 : 4 + len(WORDS) - 1] == [f"  {word}" for word in WORDS[1:]]


def test_jupyters_persona_is_a_program_that_starts_the_command() -> None:
    text = make_whole(Name.JUPYTER_AI, variables={})
    ast.parse(text)
    assert is_within(WORDS, text)
    assert 'name="some-agent-recorded"' in text
    assert "kept" not in text.lower()


@posix
def test_intelligent_terminal_gets_a_line() -> None:
    assert shell_quote.split(make_whole(Name.INTELLIGENT_TERMINAL, variables={})) == WORDS


@pytest.mark.parametrize("agent", ["some-agent", "claude-agent-acp", "gemini-cli", "copilot", "goose"])
@pytest.mark.parametrize("editor", [*LUA_EDITORS, Name.AGENT_SHELL])
def test_a_program_is_balanced_and_has_the_words_in_order(editor: Name, agent: str) -> None:
    for variables in ({}, VARIABLES):
        text = make_whole(editor, agent, variables)
        check_balanced(text)
        assert is_within(WORDS, text)
        if editor == Name.AGENT_SHELL:
            assert {f"{key}={value}" for key, value in variables.items()} <= set(strings(text))
        else:
            assert {*variables, *variables.values()} <= set(strings(text))


def test_a_known_agent_keeps_its_name_in_the_editor() -> None:
    assert 'extend("claude_code"' in make_whole(Name.CODECOMPANION, "claude-agent-acp")
    assert '["claude-code"] = {' in make_whole(Name.AVANTE, "claude-agent-acp")
    assert '["claude-agent-acp"] = {' in make_whole(Name.AGENTIC, "claude-agent-acp")
    assert "(setq agent-shell-anthropic-claude-acp-command" in make_whole(Name.AGENT_SHELL, "claude-agent-acp")
    assert "(setq agent-shell-anthropic-claude-environment" in make_whole(Name.AGENT_SHELL, "claude-agent-acp")
    assert "(setq agent-shell-mistral-acp-command" in make_whole(Name.AGENT_SHELL, "vibe-acp")
    assert "(setq agent-shell-kimi-acp-command" in make_whole(Name.AGENT_SHELL, "kimi")
    assert '"Claude (recorded)"' in make_whole(Name.ZED, "claude-agent-acp")


def test_the_next_step_in_zed_is_one_that_a_user_can_take() -> None:
    next_step = make_snippet(Name.ZED, EditorEntry(WORDS, VARIABLES, "some-agent")).next_step
    assert next_step == 'in the agent panel, begin a thread with "some-agent (recorded)".'


def test_an_unknown_agent_gets_a_new_name() -> None:
    assert '["some_agent"] = function()' in make_whole(Name.CODECOMPANION)
    assert '["some-agent"] = {' in make_whole(Name.AVANTE)
    assert 'name = "some-agent (recorded)"' in make_whole(Name.AGENTIC)
    assert ":identifier 'some-agent" in make_whole(Name.AGENT_SHELL)


def test_the_name_says_that_sessions_are_recorded_where_the_editor_takes_one() -> None:
    for agent in ("claude-agent-acp", "some-agent"):
        assert ' (recorded)",\n        commands' in make_whole(Name.CODECOMPANION, agent)
    assert ':buffer-name "some-agent (recorded)"' in make_whole(Name.AGENT_SHELL)
    next_step = make_snippet(Name.AGENT_SHELL, EditorEntry(WORDS, VARIABLES, "some-agent")).next_step
    assert next_step.endswith("choose some-agent (recorded).")


def test_codecompanion_gets_the_value_of_a_variable_unchanged() -> None:
    """CodeCompanion replaces a string that is the name of a variable, or begins with ``cmd:``."""
    text = make_whole(Name.CODECOMPANION, variables={"A": "HOME", "B": "cmd:rm"})
    assert 'function() return "HOME" end' in text
    assert 'function() return "cmd:rm" end' in text


def test_agent_shell_is_told_to_show_the_conversation_in_old_and_new_versions() -> None:
    for agent in ("claude-agent-acp", "some-agent"):
        assert "(setq agent-shell-session-restore-verbosity 'full)" in make_whole(Name.AGENT_SHELL, agent)
        assert "(setq agent-shell-prefer-session-resume nil)" in make_whole(Name.AGENT_SHELL, agent)
