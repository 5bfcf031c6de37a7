"""The commands by which editors start their agents."""

import json
from pathlib import Path

from acp_proxy.tools.adopt.candidates import choose_agents
from acp_proxy.tools.editors.config_dirs import Machine
from acp_proxy.tools.editors.launch_commands import StartedAgent, find_started_agents
from acp_proxy.tools.registry.resolve import ResolvedAgent


def machine(home: Path, **files: str) -> Machine:
    for place, text in files.items():
        path = home / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Machine("linux", home, {})


def test_a_command_comes_with_its_arguments_and_its_environment(tmp_path: Path) -> None:
    agents = {"One": {"command": "npx", "args": ["-y", "one"], "env": {"KEY": "secret", "N": 1}}, "Two": {"x": 1}}
    agents |= {"kimi": {"type": "registry"}}
    started_agents = find_started_agents(
        machine(tmp_path, **{".config/zed/settings.json": json.dumps({"agent_servers": agents})})
    )
    assert started_agents == [
        StartedAgent("Zed", "One", ("npx", "-y", "one"), (("KEY", "secret"),)),
        StartedAgent("Zed", "Two", None),
        StartedAgent("Zed", "kimi", None, registered="registry:kimi"),
    ]


def test_a_configuration_that_is_a_program_has_one_agent_without_a_command(tmp_path: Path) -> None:
    [found] = find_started_agents(machine(tmp_path, **{".config/nvim/init.lua": 'require("codecompanion").setup()'}))
    assert (found.editor, found.words) == ("CodeCompanion", None)
    assert "init.lua" in found.name


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    [found] = find_started_agents(machine(tmp_path, **{".config/zed/settings.json": "{,"}))
    assert (found.editor, found.words, found.is_damaged) == ("Zed", None, True)
    assert (
        "settings.json (Zed): the file is not valid JSON"
        in choose_agents([found], {}, tmp_path, lambda command, _: ResolvedAgent(command, {}))[1][0]
    )
