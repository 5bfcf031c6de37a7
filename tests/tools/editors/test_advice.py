"""The advice for an existing file can be followed literally, and keeps the rest of the file."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from acp_proxy.tools.editors import jsonc
from acp_proxy.tools.editors.advice import PlacedSnippet, place_snippet
from acp_proxy.tools.editors.known_editors import EDITORS, Name, TypedByUser
from acp_proxy.tools.editors.snippets import EditorEntry, Snippet, make_snippet

PATH = Path("/home/user/settings")
COMMAND = ["/opt/acp-proxy", "run", "opencode", "acp"]
JSON_EDITORS = [Name.ZED, Name.JETBRAINS, Name.VSCODE]
LUA_EDITORS = [Name.CODECOMPANION, Name.AVANTE, Name.AGENTIC]
TITLE = "OpenCode (recorded)"
REPLACED = "REPLACED"
"""A placeholder for the value to replace."""


def make_entry(editor: Name) -> Snippet:
    return make_snippet(editor, EditorEntry(COMMAND, {"KEY": "v"}, "opencode"))


def place(editor: Name, there: str | OSError | None, *, whole: bool = False) -> PlacedSnippet:
    return place_snippet(EDITORS[editor], make_entry(editor), PATH, there, is_whole=whole)


def member_of(editor: Name) -> str:
    return make_entry(editor).members[0]


def follow_advice(there: str, told: PlacedSnippet, member: str) -> Any:
    """The settings after following the advice, which must be strict JSON."""
    if told.instruction.endswith("which is empty"):
        return json.loads(told.text)
    if told.instruction.endswith("right after its outermost {"):
        at = there.index("{") + 1
    elif told.instruction.endswith(f'right after the {{ of its "{member}"'):
        at = there.index("{", there.index(f'"{member}"')) + 1
    else:
        assert "in place of" in told.instruction
        name = told.text[: told.text.index(": ")]
        assert name in told.instruction
        begin = there.index(name)
        end = there.index(f'"{REPLACED}"') + len(REPLACED) + 2
        return json.loads(there[:begin] + told.text + there[end:])
    return json.loads(f"{there[:at]}\n{told.text}\n{there[at:]}")


@pytest.mark.parametrize("editor", JSON_EDITORS)
@pytest.mark.parametrize(
    "there",
    [
        "",
        "{}",
        '{"theme": {"x": 1}}',
        '{"theme": 1, "MEMBER": {}}',
        '{"MEMBER": {"other": {"command": "x"}}, "theme": 1}',
        f'{{"MEMBER": {{"other": 1, "{TITLE}": "{REPLACED}"}}, "theme": 1}}',
        f'{{"MEMBER": "{REPLACED}", "theme": 1}}',
    ],
)
def test_existing_settings_get_the_entry_and_keep_the_rest(editor: Name, there: str) -> None:
    member = member_of(editor)
    there = there.replace("MEMBER", member)
    told = place(editor, there)
    assert told.instruction.startswith(f"Put this into {PATH}, ")
    after = follow_advice(there, told, member)
    entry = after[member].pop(TITLE)
    assert (entry["command"], entry["args"], entry["env"]) == (COMMAND[0], COMMAND[1:], {"KEY": "v"})
    before = json.loads(there or "{}")
    agents = before.get(member)
    others = {name: value for name, value in agents.items() if name != TITLE} if isinstance(agents, dict) else {}
    assert after == before | {member: others}


@pytest.mark.parametrize("editor", JSON_EDITORS)
def test_settings_with_only_comments_get_everything(editor: Name) -> None:
    told = place(editor, "// a { to come\n")
    assert (told.text, told.instruction) == (make_entry(editor).whole, f"Put this into {PATH}, which is empty")


def test_comments_in_empty_settings_stay() -> None:
    told = place(Name.ZED, "{ // mine\n}")
    assert told.instruction.endswith(", right after its outermost {")
    assert jsonc.decode("{" + told.text + "// mine\n}") == json.loads(make_entry(Name.ZED).whole)


@pytest.mark.parametrize("there", ['{"agent_', "[1]", OSError(13, "Permission denied")])
def test_unreadable_settings_get_everything(there: str | OSError) -> None:
    told = place(Name.ZED, there)
    assert told.text == make_entry(Name.ZED).whole
    assert told.instruction.startswith(f"Add this to the content of {PATH} (it ")


WITH_FILES = [name for name, each in EDITORS.items() if not isinstance(each.configured, TypedByUser)]


@pytest.mark.parametrize("editor", WITH_FILES)
def test_a_missing_file_or_whole_gets_everything(editor: Name) -> None:
    there = '{"agent_servers": {}, "acp.agents": {}}'
    if editor not in JSON_EDITORS:
        there = f'"{editor}" agent-shell adapters = {{ acp = {{ acp_providers = {{ provider = 1'
    assert place(editor, None).text == place(editor, there, whole=True).text == make_entry(editor).whole
    assert re.match(f"Create {re.escape(str(PATH))}[ ,]", place(editor, None).instruction)
    assert not place(editor, there, whole=True).instruction.startswith("Create")


@pytest.mark.parametrize("editor", LUA_EDITORS)
def test_a_missing_program_is_to_set_up_the_plugin(editor: Name) -> None:
    instruction = place(editor, None).instruction
    assert instruction.startswith(f"Create {PATH}, set up {EDITORS[editor].title} in it, and put this into what you")


@pytest.mark.parametrize("editor", [each for each in Name if each not in WITH_FILES])
def test_a_client_to_which_the_user_gives_the_command_has_no_file(editor: Name) -> None:
    told = place_snippet(EDITORS[editor], make_entry(editor), None, None, is_whole=False)
    assert told.text == make_entry(editor).whole
    assert str(PATH) not in told.instruction


def test_the_place_is_named_however_much_of_it_is_there() -> None:
    """Paseo's agents are two members deep."""
    assert place(Name.PASEO, '{"version": 1}').instruction == f"Put this into {PATH}, right after its outermost {{"
    inner = place(Name.PASEO, '{"agents": {"x": 1}}')
    assert inner.instruction == f'Put this into {PATH}, right after the {{ of its "agents"'
    assert inner.text.startswith('"providers": {')
    assert place(Name.PASEO, '{"agents": {"providers": 3}}').instruction.endswith('in place of its "agents.providers"')
    last = place(Name.PASEO, '{"agents": {"providers": {"opencode-recorded": {}}}}')
    assert last.instruction.endswith('in place of "opencode-recorded" in its "agents.providers"')


ALL_OF_IT = 'into what you give to require("PLUGIN").setup (with lazy.nvim: its opts), next to the existing entries'


@pytest.mark.parametrize("editor", LUA_EDITORS)
@pytest.mark.parametrize(
    "there",
    [
        "",
        'require("neotest").setup({ adapters = { acp = { } }, acp_providers = {}, provider = 1 })',
        'require("PLUGIN").setup({})',
        'require("neotest").setup({ adapters = { acp = { } }, acp_providers = {}, provider = 1 })\nrequire("PLUGIN")',
        'require("PLUGIN").setup({\n -- adapters = {\n -- acp_providers = { \n -- provider = 1 })\n',
    ],
)
def test_a_program_without_the_members_gets_everything(editor: Name, there: str) -> None:
    told = place(editor, there.replace("PLUGIN", editor))
    assert told.text == make_entry(editor).whole
    assert told.instruction.endswith(ALL_OF_IT.replace("PLUGIN", editor))
    assert told.more_advice == ()


@pytest.mark.parametrize(
    ("editor", "there", "into", "begins", "also"),
    [
        (Name.CODECOMPANION, "adapters = { http = {} }", "adapters of what you give", "acp = {\n", ["adapters"]),
        (
            Name.CODECOMPANION,
            '["adapters"] = {\n acp={',
            "adapters.acp of what you give",
            '["opencode"] = function()\n',
            ["adapters.acp"],
        ),
        (Name.AVANTE, "provider = 'x'", "into what you give", "acp_providers = {\n", ['provider = "opencode",']),
        (
            Name.AVANTE,
            "acp_providers = { }",
            "acp_providers of what you give",
            '["opencode"] = {\n',
            ['provider = "opencode",', "acp_providers"],
        ),
        (
            Name.AGENTIC,
            "provider = 1, acp_providers = { }",
            'in place of any ["opencode-acp"] there',
            '["opencode-acp"] = {\n',
            ['provider = "opencode-acp",', "acp_providers"],
        ),
    ],
)
def test_a_program_with_the_members_gets_their_content(
    editor: Name, there: str, into: str, begins: str, also: list[str]
) -> None:
    told = place(editor, f'require("{editor}").setup({{ {there} }})')
    assert told.instruction.startswith(f"Put this into {PATH}, ")
    assert into in told.instruction
    assert told.text.startswith(begins)
    assert told.text != make_entry(editor).whole
    assert [text in said for text, said in zip(also, told.more_advice, strict=True)] == [True] * len(also)


@pytest.mark.parametrize("editor", LUA_EDITORS)
def test_the_content_of_the_members_is_part_of_everything(editor: Name) -> None:
    snippet = make_entry(editor)
    bare = [line.strip() for line in snippet.whole.split("\n")]
    for depth in range(len(snippet.members) + 1):
        part = [line.strip() for line in snippet.make_text(depth).split("\n")]
        assert bare[len(bare) - len(part) - depth : len(bare) - depth] == part


def test_the_snippet_for_emacs_goes_to_the_end() -> None:
    told = place(Name.AGENT_SHELL, "(require 'agent-shell)")
    assert (told.instruction, told.text) == (f"Put this into {PATH}, at its end", make_entry(Name.AGENT_SHELL).whole)
