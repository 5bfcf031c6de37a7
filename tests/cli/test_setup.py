"""``setup`` in an empty home with the settings that real editors write."""

import errno
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial, partialmethod
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from typer.testing import Result

from acp_proxy import shell_quote
from acp_proxy.cli.confirm import discard_typed_input
from acp_proxy.tools.doctor.advice import Advice
from acp_proxy.tools.doctor.agent_report import AgentReport
from acp_proxy.tools.editors import jsonc, own_files
from acp_proxy.tools.editors.config_dirs import Machine
from acp_proxy.tools.editors.entries import read_words
from acp_proxy.tools.editors.known_editors import EDITORS, Name
from acp_proxy.tools.setup import setup as setup_steps
from acp_proxy.tools.setup.record import Record
from acp_proxy.tools.setup.report_written import report_written
from acp_proxy.tools.setup.setup import FileChange
from acp_proxy.tools.setup.try_agents import TriedAgents, try_agents
from tests.cli.commands import invoke

COMMAND = os.path.abspath("/home/user/.local/bin/acp-proxy")  # on Windows, with a drive
ON_WINDOWS = sys.platform == "win32"
QUOTE = '"' if ON_WINDOWS else "'"
MOVE, REMOVE, MAKE_WRITABLE = ("copy", "del", "attrib -R") if ON_WINDOWS else ("mv", "rm", "chmod u+w")
"""Commands that a user is told to type, with a file."""
ZED = """\
// Zed settings
{
  "theme": "One Dark", // dark
  "agent_servers": {
    "Claude": {
      "type": "custom",
      "command": "npx",
      "args": ["-y", "@agentclientprotocol/claude-agent-acp"],
      "env": { "ANTHROPIC_API_KEY": "sk-secret" },
    },
    "gemini": { "type": "registry" },
  },
}
"""
PASEO = """\
{
  "version": 1,
  "agents": {
    "providers": {
      "claude": { "command": ["/opt/claude", "--x"] },
      "gemini": {
        "extends": "acp",
        "label": "Gemini",
        "command": ["gemini", "--acp"]
      },
      "kimi": { "extends": "acp", "label": "Kimi", "command": [
        "kimi",
        "acp"
      ] }
    }
  }
}
"""
JETBRAINS = (
    '\ufeff{\r\n\t"default_mcp_settings": {},\r\n\t"agent_servers": {\r\n\t\t"G": {"command": "gemini"}\r\n\t}\r\n}'
)
VSCODE = '{\n    "editor.fontSize": 13,\n}\n'


def _say_tried(changes: Sequence[FileChange], tried: TriedAgents) -> bool:
    """In place of starting the agents, which all answer."""
    typer.echo(f"tried: {', '.join(change.path.name for change in changes)}")
    tried.some_answer = True
    return True


def _say_written(machine: Machine, done: Sequence[FileChange], tried: TriedAgents) -> bool:
    """In place of looking at this machine, where nothing is wrong."""
    typer.echo(f"written: {', '.join(each.path.name for each in done)}")
    return True


class Home:
    """The home of a user who has installed acp-proxy, and where this system's editors keep their settings there."""

    def __init__(self, path: Path) -> None:
        config = path / ".config"
        roaming, local = path / "AppData/Roaming", path / "AppData/Local"
        self.path = path
        self.zed = (roaming / "Zed" if ON_WINDOWS else config / "zed") / "settings.json"
        self.jetbrains = path / ".jetbrains/acp.json"
        self.vscode = (roaming if ON_WINDOWS else config) / "Code/User/settings.json"
        self.cursor = (roaming if ON_WINDOWS else config) / "Cursor/User/settings.json"
        self.paseo = path / ".paseo/config.json"
        self.neovim = (local if ON_WINDOWS else config) / "nvim/init.lua"
        self.emacs = (roaming if ON_WINDOWS else path) / ".emacs"
        self.record = (roaming if ON_WINDOWS else config) / "acp-proxy/setup.json"
        homes = dict.fromkeys(("HOME", "USERPROFILE"), path)  # the second one is Windows'
        self.variables = {**homes, "APPDATA": roaming, "LOCALAPPDATA": local}

    def files(self) -> dict[Path, bytes]:
        found = [path for path in self.path.rglob("*") if path.is_file() or path.is_symlink()]
        return {path: path.read_bytes() for path in found}


def read(path: Path) -> str:
    """A file's text, with its line ends as they are."""
    return path.read_bytes().decode()


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


def write_program(path: Path, text: str = "#!/bin/sh\n") -> str:
    """A program's path, with the suffix by which Windows knows it."""
    path = path.with_name(f"{path.name}.exe") if ON_WINDOWS else path
    write(path, text)
    path.chmod(0o755)
    return str(path)


def use_home(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, place in home.variables.items():
        monkeypatch.setenv(name, str(place))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setattr("sys.argv", [COMMAND])
    monkeypatch.setattr("acp_proxy.invocation.make_typed_command", lambda: ["acp-proxy"])
    platform = sys.platform if ON_WINDOWS else "linux"
    monkeypatch.setattr("acp_proxy.tools.editors.config_dirs.sys", SimpleNamespace(platform=platform))
    monkeypatch.setattr("acp_proxy.tools.setup.try_agents.try_agents", _say_tried)
    monkeypatch.setattr("acp_proxy.tools.setup.command.report_written", _say_written)
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "NVIM_APPNAME"):
        monkeypatch.delenv(name, raising=False)
    home = Home(tmp_path)
    use_home(home, monkeypatch)
    return home


def setup(*words: str, answer: str | None = None) -> Result:
    return invoke("setup", *words, answer=answer)


def read_entry(path: Path, *names: str) -> object:
    found = jsonc.decode(path.read_bytes().decode())
    for name in names:
        assert isinstance(found, dict)
        found = found[name]
    return found


def test_every_agent_gets_acp_proxy_in_front_and_undo_gives_every_byte_back(home: Home) -> None:
    write(home.zed, ZED)
    write(home.jetbrains, JETBRAINS)
    write(home.vscode, VSCODE)
    before = home.files()
    done = setup(answer="\n")
    assert done.exit_code == 0
    assert read_entry(home.zed, "agent_servers", "Claude") == {
        "type": "custom",
        "command": COMMAND,
        "args": ["run", "npx", "-y", "@agentclientprotocol/claude-agent-acp"],
        "env": {"ANTHROPIC_API_KEY": "sk-secret"},
    }
    assert read_entry(home.jetbrains, "agent_servers", "G") == {"command": COMMAND, "args": ["run", "gemini"]}
    assert read(home.zed.with_name("settings.json.before-acp-proxy")) == ZED
    assert read(home.vscode) == VSCODE
    undone = setup("--undo", "--yes")
    assert (undone.exit_code, "until its editor starts it again" in undone.stderr) == (0, True)
    assert home.files() == before


def test_a_command_that_contains_its_arguments_gets_acp_proxy_in_front(home: Home) -> None:
    """Only of agents of the protocol: Paseo starts others in ways of its own."""
    write(home.paseo, PASEO)
    assert setup("--yes").exit_code == 0
    assert read_entry(home.paseo, "agents", "providers") == {
        "claude": {"command": ["/opt/claude", "--x"]},
        "gemini": {"extends": "acp", "label": "Gemini", "command": [COMMAND, "run", "gemini", "--acp"]},
        "kimi": {"extends": "acp", "label": "Kimi", "command": [COMMAND, "run", "kimi", "acp"]},
    }
    assert "Nothing to change" in setup("--yes").stderr
    assert setup("--undo", "--yes").exit_code == 0
    assert read(home.paseo) == PASEO


@pytest.mark.parametrize("is_edited", [False, True])
@pytest.mark.parametrize(
    ("editor", "text"),
    [
        ("zed", '{"theme": "One", "agent_servers": {"A": {"command": "~/bin/agent", "args": ["~/x"]}}}'),
        ("zed", '{"theme": "One", "agent_servers": {"A": {"command": "~/bin/agent"}}}'),
        (
            "paseo",
            '{"theme": "One", "agents": {"providers": {"A": {"extends": "acp", "command": ["~/bin/agent", "~/x"]}}}}',
        ),
    ],
)
def test_the_home_directory_of_a_command_is_written_out_and_undone(
    home: Home, editor: str, text: str, is_edited: bool
) -> None:
    """``run`` gets no ``~`` that nobody expands, as Zed does for the agents that it starts itself."""
    settings: Path = getattr(home, editor)
    write(settings, text)
    assert setup("--yes").exit_code == 0
    words = read_words(read_entry(settings, *EDITORS[Name(editor)].configured.members, "A"))  # type: ignore[union-attr]
    assert words[:3] == [COMMAND, "run", str(home.path / "bin/agent")]
    assert words[3:] == (["~/x"] if "~/x" in text else [])
    if is_edited:
        write(settings, read(settings).replace("One", "Ayu"))
    assert setup("--undo", "--yes").exit_code == 0
    assert read(settings) == (text.replace("One", "Ayu") if is_edited else text)


@pytest.mark.usefixtures("registry")
def test_an_agent_is_named_by_its_path_in_the_home_directory(home: Home) -> None:
    program = write_program(home.path / "bin/agent")
    name = Path(program).name
    assert setup("--yes", "--editor", "jetbrains", "--agent", f"~/bin/{name} acp").exit_code == 0
    assert [*servers(home.jetbrains).values()] == [[COMMAND, "run", program, "acp"]]
    printed = invoke("editor", "jetbrains", f"~/bin/{name}", "acp")
    assert json.dumps(program) in printed.stdout
    assert "was not found" not in printed.stderr


def test_undo_takes_acp_proxy_out_of_such_a_command_after_an_edit(home: Home) -> None:
    write(home.paseo, PASEO)
    setup("--yes")
    write(home.paseo, read(home.paseo).replace("Kimi", "Kimi K2"))
    assert setup("--undo", "--yes").exit_code == 0
    assert read(home.paseo) == PASEO.replace("Kimi", "Kimi K2")


def test_such_a_command_that_is_gone_is_replaced(home: Home) -> None:
    old_python = json.dumps(os.path.abspath("/old/python"))
    write(home.paseo, PASEO.replace('"gemini", "--acp"', f'{old_python}, "-P", "-m", "acp_proxy", "run", "gemini"'))
    setup("--editor", "paseo", "--yes")
    assert read_entry(home.paseo, "agents", "providers", "gemini", "command") == [COMMAND, "run", "gemini"]


@pytest.mark.parametrize("before", ["", '{"version": 1}', '{"agents": {}}', PASEO])
def test_an_agent_is_added_where_it_belongs_however_much_is_there(home: Home, before: str) -> None:
    write(home.paseo, before)
    assert setup("--agent", "some-agent --acp", "--yes", "--force").exit_code == 0
    added = read_entry(home.paseo, "agents", "providers", "some-agent-recorded")
    assert isinstance(added, dict)
    assert added["command"] == [COMMAND, "run", "some-agent", "--acp"]
    assert setup("--undo", "--yes").exit_code == 0
    assert read(home.paseo) == before


def test_a_dry_run_shows_the_change_and_writes_nothing(home: Home) -> None:
    write(home.zed, ZED)
    before = home.files()
    shown = setup("--dry-run")
    assert "Nothing was written." in shown.stderr
    assert '+      "args": ["run", "npx", "-y", "@agentclientprotocol/claude-agent-acp"],' in shown.stdout
    assert (shown.exit_code, home.files()) == (0, before)


def test_setup_says_that_an_editor_may_not_have_the_store_of_a_variable(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home.zed, ZED)
    assert "ACP_PROXY_STORE" not in setup("--dry-run").stderr
    monkeypatch.setenv("ACP_PROXY_STORE", "/srv/place")
    assert "acp-proxy config set store /srv/place" in " ".join(setup("--dry-run").stderr.split())


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(("words", "answer"), [(["--dry-run"], None), ([], "n\n"), (["--yes"], None)])
def test_setup_begins_with_what_it_has_found(
    home: Home, monkeypatch: pytest.MonkeyPatch, words: list[str], answer: str | None
) -> None:
    program = json.dumps(write_program(home.path / "bin/acp-proxy"))
    for name in ("npx", "old"):
        write_program(home.path / "bin" / name)
    monkeypatch.setenv("PATH", str(home.path / "bin"))
    write(
        home.zed,
        f"""{{ "agent_servers": {{
            "Claude": {{ "command": "npx", "args": ["claude-agent-acp"] }}, // mine
            "newagent": {{ "type": "registry" }},
            "gemini": {{ "type": "registry" }},
            "kimi": {{ "default_mode": "plan" }},
            "Here": {{ "command": {program}, "args": ["run", "here"] }},
            "Private": {{ "command": {program}, "args": ["run", "--no-record", "here"] }},
            "Old": {{ "command": "/gone/acp-proxy", "args": ["run", "old"] }},
        }} }}""",
    )
    write(home.jetbrains, JETBRAINS)
    write(home.vscode, VSCODE)
    write(home.paseo, "{")
    write(home.neovim, 'require("codecompanion").setup({})')
    overview = f"""\
Zed  {home.zed}
  "Claude" will be recorded
  "newagent" stays as it is: the registry of agents has no such id. To add the agent by its command: acp-proxy setup
    --agent COMMAND.
  "gemini" will be recorded
  "kimi" has no command: the editor itself starts it, and it is not recorded. To add one that is recorded:
    acp-proxy setup --agent kimi
  "Here" is recorded already
  "Private" goes through acp-proxy already, but is not recorded
  "Old" will start the present acp-proxy
JetBrains  {home.jetbrains}
  "G" will be recorded, but gemini is not in PATH
VS Code  {home.vscode}
  no agents
Paseo  {home.paseo}
  stays as it is: it is not valid JSON at line 1, column 2: a name in double quotes or a closing bracket is missing.
    Correct it, then run acp-proxy setup again.
CodeCompanion  {home.neovim}
  a program, which stays as it is. To print what to put there: acp-proxy editor codecompanion AGENT

"""
    stderr = setup(*words, answer=answer).stderr
    assert stderr.split()[: len(overview.split())] == overview.split()
    assert [stderr.count(text) for text in ("no such id", "no command", "stays as it is: it is not valid")] == [1] * 3


@pytest.mark.skipif(ON_WINDOWS, reason="the paths differ there")
def test_the_documented_overview_is_what_setup_says(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    program = write_program(home.path / "bin/acp-proxy")
    write_program(home.path / "bin/npx")
    monkeypatch.setenv("PATH", str(home.path / "bin"))
    claude = {"command": "npx", "args": ["-y", "@agentclientprotocol/claude-agent-acp"]}
    write(home.zed, json.dumps({"agent_servers": {"Claude": claude, "gemini": {"default_mode": "plan"}}}))
    write_servers(home, OpenCode=f"{program} run opencode acp")
    page = (Path(__file__).parents[2] / "docs/editors.md").read_text(encoding="utf-8")
    overview = page.partition("```text\n")[2].partition("```")[0]
    said = setup("--dry-run").stderr.replace(str(home.path), "/home/me")
    assert said.split()[: len(overview.split())] == overview.split()


def test_no_means_no(home: Home) -> None:
    write(home.zed, ZED)
    before = home.files()
    declined = setup("--editor", "zed", answer="n\n")
    assert declined.exit_code == 1
    assert declined.stderr.endswith("Nothing was changed. To see it again: acp-proxy setup --editor zed\n")
    assert home.files() == before


def test_a_second_setup_has_nothing_to_do(home: Home) -> None:
    write(home.zed, ZED)
    setup("--yes")
    before = home.files()
    again = setup("--yes")
    assert (again.exit_code, again.stderr.count('"gemini" cannot be recorded while the registry')) == (0, 1)
    assert "Nothing to change" not in again.stderr
    assert home.files() == before


@pytest.mark.usefixtures("registry")
def test_an_agent_of_the_editor_without_a_command_is_named_and_can_be_added(home: Home) -> None:
    write(home.zed, '{"agent_servers": {"claude": {"default_mode": "plan"}}}')
    assert "--agent 'npx -y @agentclientprotocol/claude-agent-acp'" in setup("--yes").stderr.replace('"', "'")
    write(home.zed, '{"agent_servers": {"gemini": {"default_mode": "plan"}}}')
    noted = setup("--yes")
    assert (noted.exit_code, '"gemini" has no command' in noted.stderr) == (0, True)
    assert "To add one that is recorded: acp-proxy setup --agent gemini" in " ".join(noted.stderr.split())
    assert setup("--agent", "gemini", "--yes", "--force").exit_code == 0
    added_name = next(name for name in servers(home.zed) if name.endswith("(recorded)"))
    assert servers(home.zed)[added_name][:2] == [COMMAND, "run"]
    assert "To add one that is recorded" not in setup("--yes").stderr


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(
    ("name", "word"), [("gemini", "gemini"), ("claude-acp", "npx -y @agentclientprotocol/claude-agent-acp")]
)
def test_an_agent_that_is_added_gets_the_variables_of_the_editors_own_one(home: Home, name: str, word: str) -> None:
    write(home.zed, json.dumps({"agent_servers": {name: {"env": {"KEY": "k", "MODE": "m"}, "default_mode": "yolo"}}}))
    write(home.jetbrains, "{}")
    before = home.files()
    done = setup("--agent", f"MODE=mine {word}", "--yes", "--force")
    environments = [
        value["env"]
        for path in (home.zed, home.jetbrains)
        for value in json.loads(read(path))["agent_servers"].values()
        if "command" in value
    ]
    assert environments == [{"KEY": "k", "MODE": "mine"}, {"MODE": "mine"}]
    said = " ".join(done.stderr.split())
    assert f'The new entry has the variables of "{name}" in {home.zed}: KEY.' in said
    assert said.count("has the variables") == 1
    assert setup("--undo", "--yes").exit_code == 0
    assert home.files() == before


@pytest.mark.usefixtures("registry")
def test_an_id_that_the_registry_lacks_is_named(home: Home) -> None:
    write(home.zed, '{"agent_servers": {"newagent": {"type": "registry"}}}')
    for words in ([], ["--agent", "newagent"]):
        done = setup(*words, "--yes")
        assert '"newagent" stays as it is: the registry of agents has no such id.' in " ".join(done.stderr.split())
        assert done.exit_code == 1


def test_an_entry_of_a_registry_that_cannot_be_read_is_all_that_is_said(home: Home) -> None:
    write(home.zed, '{"agent_servers": {"gemini": {"type": "registry"}}}')
    for words in (["--yes"], ["--agent", "gemini", "--yes"]):
        done = setup(*words)
        assert (done.exit_code, done.stderr.count('"gemini" cannot be recorded while the registry')) == (1, 1)
        said = " ".join(done.stderr.split())
        assert said.count("The registry of agents cannot be read") == 1
        assert said.endswith("To add an agent by its command: acp-proxy setup --agent COMMAND")
        assert "Nothing to change" not in done.stderr


def test_an_editor_without_settings_is_named_with_what_writes_them(home: Home) -> None:
    write(home.zed, ZED)
    said = " ".join(setup("--editor", "vscode", "--yes").stderr.split())
    assert f"VS Code {home.vscode} no settings yet" in said
    assert "Nothing to change. To add an agent: acp-proxy setup --editor vscode --agent COMMAND" in said


def test_an_ide_that_has_no_settings_of_agents_yet_gets_the_agent(home: Home) -> None:
    (home.vscode.parents[2] / "JetBrains").mkdir(parents=True)
    assert f"JetBrains  {home.jetbrains}\n  no settings yet\n" in setup("--yes").stderr
    assert setup("--agent", "some-agent acp", "--yes", "--force").exit_code == 0
    assert [*servers(home.jetbrains).values()] == [[COMMAND, "run", "some-agent", "acp"]]


def test_undo_takes_back_only_what_setup_did_after_the_user_edited_the_file(home: Home) -> None:
    write(home.zed, ZED)
    setup("--yes")
    edited = read(home.zed).replace("One Dark", "Ayu").replace('"-y"', '"-y", "--debug"')
    write(home.zed, edited)
    assert setup("--undo", "--yes").exit_code == 0
    assert read(home.zed) == ZED.replace("One Dark", "Ayu").replace('"-y"', '"-y", "--debug"')
    assert "Claude" in read(home.zed)
    assert not home.zed.with_name("settings.json.before-acp-proxy").exists()


def test_an_edit_between_two_setups_survives_undo(home: Home) -> None:
    write(home.zed, ZED)
    setup("--yes")
    write(home.zed, read(home.zed).replace("One Dark", "Ayu"))
    setup("--yes", "--force", "--editor", "zed", "--agent", "goose acp")
    assert read_entry(home.zed, "agent_servers", "Goose (recorded)", "args") == ["run", "goose", "acp"]
    setup("--undo", "--yes")
    assert read(home.zed) == ZED.replace("One Dark", "Ayu")


def test_undo_keeps_the_copy_of_a_file_that_is_missing_and_says_how_it_comes_back(home: Home) -> None:
    write(home.zed, ZED)
    setup("--yes")
    before = home.files()
    home.zed.rename(home.path / "saved")
    copy = home.zed.with_name("settings.json.before-acp-proxy")
    for words in (["--undo", "--dry-run"], ["--undo", "--yes"], ["--undo", "--yes"]):
        done = setup(*words)
        said = " ".join(done.stderr.split())
        assert f"{home.zed} is missing. To bring back what it was before setup: {MOVE} {copy} {home.zed}" in said
        assert f"If you do not need it: {REMOVE} {copy}" in said
        assert (done.exit_code, read(copy)) == (0, ZED)
    (home.path / "saved").rename(home.zed)
    assert home.files() == before
    assert setup("--undo", "--yes").exit_code == 0
    assert home.files() == {home.zed: ZED.encode()}


def test_undo_names_a_file_once_that_is_removed_with_its_copy(home: Home) -> None:
    write(home.zed, ZED)
    setup("--yes")
    for path in (home.zed, home.zed.with_name("settings.json.before-acp-proxy")):
        path.unlink()
    for words in (["--dry-run"], ["--agent", "Claude", "--yes"], ["--yes"]):
        done = setup("--undo", *words)
        assert (done.exit_code, f"{home.zed} is missing, and setup has no copy" in done.stderr.replace("\n", " ")) == (
            0,
            True,
        )
    assert home.files() == {}
    assert "Nothing left to undo" in setup("--undo", "--yes").stderr


def test_undo_keeps_its_record_of_a_file_whose_directory_is_missing(home: Home) -> None:
    write(home.zed, ZED)
    setup("--yes")
    home.zed.parent.rename(home.path / "elsewhere")
    assert setup("--undo", "--yes").exit_code == 0
    (home.path / "elsewhere").rename(home.zed.parent)
    assert setup("--undo", "--yes").exit_code == 0
    assert home.files() == {home.zed: ZED.encode()}


def test_setup_writes_no_missing_file_anew_while_its_copy_is_there(home: Home) -> None:
    write(home.zed, ZED)
    setup("--yes")
    home.zed.unlink()
    before = home.files()
    done = setup("--yes", "--force", "--agent", "someagent acp")
    copy = home.zed.with_name("settings.json.before-acp-proxy")
    said = " ".join(done.stderr.split())
    assert f"it is missing. To bring back what it was before setup: {MOVE} {copy} {home.zed}." in said
    assert (done.exit_code, home.files()) == (1, before)
    copy.rename(home.path / "elsewhere")
    assert setup("--yes", "--force", "--agent", "someagent acp").exit_code == 0
    assert setup("--undo", "--yes").exit_code == 0
    assert home.files() == {home.path / "elsewhere": ZED.encode()}


@pytest.mark.parametrize("text", ["", "{}", '{"theme": "One"}'])
@pytest.mark.parametrize("is_set_up_again", [True, False])
@pytest.mark.parametrize("words", [[], ["--agent", "one acp"]])
@pytest.mark.parametrize("before", [ZED, "{\n  // mine\n}\n"])
def test_undo_keeps_the_copy_of_a_file_that_was_emptied_until_the_user_removes_it(
    home: Home, text: str, before: str, words: list[str], is_set_up_again: bool
) -> None:
    write(home.zed, before)
    setup("--yes", "--force", *(words or ["--agent", "two acp"] if before != ZED else words))
    write(home.zed, text)
    if is_set_up_again:
        setup("--yes", "--force", "--agent", "someagent acp")
    copy = home.zed.with_name("settings.json.before-acp-proxy")
    for _ in range(2):
        said = " ".join(setup("--undo", "--yes").stderr.split())
        assert f": {REMOVE} {copy}" in said
        assert read(copy) == before
        assert "someagent" not in read(home.zed)
    copy.unlink()
    assert "has nothing of setup any more." in setup("--undo", "--yes").stderr.replace("\n", " ")
    assert list(home.files()) == [home.zed]


def test_undo_finds_its_files_after_the_home_directory_has_moved(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = Home(home.path / "one"), Home(home.path / "two")
    write(old.zed, ZED)
    use_home(old, monkeypatch)
    setup("--yes")
    old.path.rename(new.path)
    use_home(new, monkeypatch)
    assert setup("--undo", "--yes").exit_code == 0
    assert home.files() == {new.zed: ZED.encode()}


def test_undo_removes_the_copy_of_a_file_that_the_user_gave_back(home: Home) -> None:
    write(home.zed, ZED)
    setup("--yes")
    write(home.zed, ZED)
    assert setup("--undo", "--yes").exit_code == 0
    assert home.files() == {home.zed: ZED.encode()}


def test_of_two_setups_at_once_the_second_finds_that_the_file_has_changed(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits until the first has written the file and the record, and loses nothing of either."""
    write(home.zed, ZED)
    write(home.jetbrains, JETBRAINS)
    record, other_record = (Record(home.record) for _ in range(2))
    own_words, results = [COMMAND, "run"], list[str]()
    changes = [
        setup_steps.plan_file(EDITORS[Name.ZED], home.zed, setup_steps.Wish(own_words)),
        setup_steps.plan_file(EDITORS[Name.JETBRAINS], home.jetbrains, setup_steps.Wish(own_words)),
    ]

    def write_all() -> None:
        for change in changes:
            try:
                setup_steps.write_file(change, other_record)
                results.append("written")
            except ValueError as problem:
                results.append(str(problem))

    replace_file, thread = own_files.replace_file, threading.Thread(target=write_all)

    def replace_slowly(path: Path, data: bytes) -> None:
        if not thread.ident:
            thread.start()
            time.sleep(0.2)
            assert results == []
        replace_file(path, data)

    monkeypatch.setattr(setup_steps, "replace_file", replace_slowly)
    setup_steps.write_file(changes[0], record)
    thread.join()
    assert results[0].startswith("it changed in the meantime")
    assert results[1:] == ["written"]
    assert setup("--undo", "--yes").exit_code == 0
    assert home.files().keys() == {home.zed, home.jetbrains}


def test_undo_leaves_an_entry_that_setup_added_and_the_user_has_edited(home: Home) -> None:
    write(home.zed, "{}")
    setup("--yes", "--force", "--agent", "nosuchagent acp")
    write(home.zed, read(home.zed).replace('"env": {}', '"env": {"KEY": "sk-1234"}, // my key'))
    edited = read(home.zed)
    assert "sk-1234" in edited
    done = setup("--undo", "--yes")
    assert (done.exit_code, read(home.zed)) == (1, edited)
    said = " ".join(done.stderr.split())
    assert "stays as it is: setup added it, but it may have been edited since. To remove it all the same:" in said
    assert "acp-proxy setup --undo --force" in said


@pytest.mark.parametrize("words", [[], ["--agent", "nosuchagent"]])
def test_undo_asks_about_an_entry_that_setup_added_and_the_user_has_edited(home: Home, words: list[str]) -> None:
    write(home.zed, "{}")
    setup("--yes", "--force", "--agent", "nosuchagent acp")
    write(home.zed, edited := read(home.zed).replace('"env": {}', '"env": {},\n      "default_model": "opus"'))
    assert "opus" in edited
    for answer in ("\n", "n\n"):
        kept = setup("--undo", *words, answer=answer)
        assert (kept.exit_code, read(home.zed)) == (1, edited)
    shown = '"nosuchagent (recorded)": {\n  "type": "custom",\n  "command": '
    assert (shown in kept.stdout, "Remove it? [y/N]" in kept.stderr) == (True, True)
    assert setup("--undo", *words, "--dry-run", "--force").exit_code == 0
    assert read(home.zed) == edited
    gone = setup("--undo", *words, *(["--yes", "--force"] if words else []), answer="y\ny\n")
    assert (gone.exit_code, read(home.zed)) == (0, "{}")
    assert home.files() == {home.zed: b"{}"}


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("words", [[], ["--agent", "mine"]])
@pytest.mark.parametrize("edit", ['"env": {}', '"env": {"KEY": "sk-1234"}'])
def test_undo_asks_about_an_id_that_setup_added_and_the_user_has_renamed(
    home: Home, words: list[str], edit: str
) -> None:
    write(home.zed, before := '{"agent_servers": {"Other": {"command": "other"}}}')
    setup("--yes", "--agent", "gemini")
    write(home.zed, edited := read(home.zed).replace("Gemini (recorded)", "Mine").replace('"env": {}', edit))
    for _ in range(2):
        kept = setup("--undo", *words, "--yes")
        said = " ".join(kept.stderr.split())
        assert (kept.exit_code, read(home.zed)) == (1, edited)
        assert f'"Mine" in {home.zed} stays as it is: setup added it, but it may have been edited since.' in said
        assert (said.count("--force"), "any more" in said) == (1, False)
    assert '"Mine": {' in setup("--undo", *words, answer="n\n").stdout
    assert setup("--undo", *words, "--yes", "--force").exit_code == 0
    if words:
        setup("--undo", "--yes")
    assert jsonc.decode(read(home.zed)) == jsonc.decode(before)
    assert [path for path in home.files() if path.name != "registry.json"] == [home.zed]


@pytest.mark.parametrize("options", ["", "--redact keys "])
def test_undo_removes_an_entry_that_setup_added_and_that_got_options_of_run(home: Home, options: str) -> None:
    write(home.zed, "{}")
    write(home.paseo, '{"agents": {"providers": {"kimi": {"extends": "acp", "command": ["kimi"]}}}}')
    before = home.files()
    setup("--yes", "--force", "--agent", f"{options}nosuchagent acp")
    for path in (home.zed, home.paseo):
        write(path, read(path).replace('"run",', '"run", "--store", "/x", "--recall",'))
    assert setup("--undo", "--yes").exit_code == 0
    assert {path: jsonc.decode(data.decode()) for path, data in home.files().items()} == {
        path: jsonc.decode(data.decode()) for path, data in before.items()
    }


@pytest.mark.parametrize("is_edited", [False, True])
def test_undo_of_one_agent_leaves_the_others_until_they_are_undone_too(home: Home, is_edited: bool) -> None:
    write(home.zed, ZED.replace('"gemini": { "type": "registry" }', '"Goose": { "command": "goose" }'))
    write(home.jetbrains, JETBRAINS)
    before = home.files()
    setup("--yes")
    written = read(home.jetbrains)
    if is_edited:
        write(home.zed, read(home.zed).replace("One Dark", "Ayu"))
    assert setup("--undo", "--agent", "goose", "--dry-run").exit_code == 0
    undone = setup("--undo", "--agent", "goose", "--yes")
    assert (undone.exit_code, "setup did not write it there" in undone.stderr) == (0, False)
    assert {name: words[0] for name, words in servers(home.zed).items()} == {"Claude": COMMAND, "Goose": "goose"}
    assert read(home.jetbrains) == written
    refused = setup("--undo", "--agent", "goose", "--yes")
    said = " ".join(refused.stderr.split())
    assert (refused.exit_code, "setup has changed no agent 'goose'. Those that it has changed: Claude, G." in said) == (
        2,
        True,
    )
    assert setup("--undo", "--agent", "clau", "--yes").exit_code == 0
    assert setup("--undo", "--agent", "g", "--yes").exit_code == 0
    if is_edited:
        before[home.zed] = before[home.zed].replace(b"One Dark", b"Ayu")
    assert home.files() == before


@pytest.mark.parametrize(
    ("word", "is_readable"),
    [
        ("gemini", True),
        ("registry:gemini", True),
        ("registry:gemini", False),
        ("npx -y @google/gemini-cli", True),
        ("FOO=1 gemini --acp", True),
        ("--redact keys gemini", True),
    ],
)
@pytest.mark.parametrize("has_entry", [False, True])
def test_undo_takes_the_words_by_which_setup_has_found_or_added_an_agent(
    home: Home, monkeypatch: pytest.MonkeyPatch, word: str, is_readable: bool, has_entry: bool
) -> None:
    write(home.path / "registry.json", registry_of(*AGENTS))
    monkeypatch.setenv("ACP_PROXY_REGISTRY", str(home.path / "registry.json"))
    write_servers(home, Other="two", **({"Mine": "npx -y @google/gemini-cli --acp"} if has_entry else {}))
    setup("--yes", "--agent", "Other")
    before = servers(home.jetbrains)
    setup("--yes", "--force", "--agent", word)
    assert servers(home.jetbrains) != before
    if not is_readable:
        write(home.path / "registry.json", "damaged")
    undone = setup("--undo", "--yes", "--agent", word)
    assert (undone.exit_code, servers(home.jetbrains)) == (0, before)
    assert setup("--undo", "--yes", "--agent", word).exit_code == 2


def test_undo_of_an_agent_that_setup_added_removes_its_entry(home: Home) -> None:
    write(home.zed, ZED)
    setup("--yes")
    one_agent = read(home.zed)
    setup("--yes", "--force", "--agent", "someagent acp")
    assert setup("--undo", "--agent", "someagent", "--yes").exit_code == 0
    assert read(home.zed) == one_agent
    setup("--undo", "--yes")
    assert home.files() == {home.zed: ZED.encode()}


def test_undo_leaves_no_blank_lines_around_a_comment_in_an_entry_that_setup_added(home: Home) -> None:
    write(home.zed, '{\n  "theme": "One"\n}\n')
    setup("--yes", "--force", "--agent", "nosuchagent acp")
    write(home.zed, read(home.zed).replace('"env": {}', '"env": {} // my key'))
    assert setup("--undo", "--yes").exit_code == 0
    text = read(home.zed)
    assert "// my key" in text
    assert [line for line in text.split("\n")[:-1] if not line.strip()] == []
    assert jsonc.decode(text) == {"theme": "One", "agent_servers": {}}


@pytest.mark.parametrize("name", ["settings.json.before-acp-proxy", "setup.json", "settings.json"])
def test_a_setup_that_fails_leaves_all_as_it_was_and_names_the_file(
    home: Home, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    write(home.zed, ZED)
    before = home.files()
    replace = os.replace

    def fail(source: Path, target: Path) -> None:
        if target.name == name:
            raise OSError(errno.EFBIG, "File too large", str(source))
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail)
    done = setup("--yes")
    said = " ".join(done.stderr.split())
    assert (done.exit_code, home.files()) == (1, before)
    assert f"{'it' if name == 'settings.json' else ''} cannot be written (File too large)" in said
    assert name in said


def test_what_a_setup_that_was_killed_has_left_is_used_and_removed(home: Home) -> None:
    write(home.zed, ZED)
    write(home.zed.with_name(".settings.json.acp-proxy-new"), "{")
    write(home.zed.with_name(".settings.json.before-acp-proxy.acp-proxy-new"), "{")
    write(home.zed.with_name("settings.json.before-acp-proxy"), ZED)
    setup("--yes")
    assert len([path for path in home.files() if path.parent == home.zed.parent]) == 3
    assert setup("--undo", "--yes").exit_code == 0
    assert home.files() == {home.zed: ZED.encode()}


def test_directories_that_setup_made_go_with_its_file(home: Home) -> None:
    setup("--yes", "--force", "--editor", "vscode", "--agent", "someagent acp")
    assert home.vscode.exists()
    setup("--undo", "--yes")
    assert not home.vscode.parents[1].exists()
    home.zed.parent.mkdir(parents=True)
    setup("--yes", "--force", "--agent", "someagent acp")
    setup("--undo", "--yes")
    assert home.zed.parent.is_dir()


def test_undo_names_a_copy_that_its_record_does_not_know(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    write_servers(home, A="one")
    setup("--yes")
    variable = "APPDATA" if ON_WINDOWS else "XDG_CONFIG_HOME"
    monkeypatch.setenv(variable, str(home.path / "other"))
    done = setup("--undo", "--yes")
    copy = home.jetbrains.with_name("acp.json.before-acp-proxy")
    said = " ".join(done.stderr.split())
    assert f"{copy} is the copy of another setup" in said
    assert f"{variable} was then. To bring back what it was before setup: {MOVE} {copy} {home.jetbrains}" in said
    assert (done.exit_code, copy.exists()) == (1, True)


def test_undo_names_a_copy_and_leftovers_though_nothing_goes_through_acp_proxy(home: Home) -> None:
    write_servers(home, A="one")
    copy = home.jetbrains.with_name("acp.json.before-acp-proxy")
    leftover = home.jetbrains.with_name(".acp.json.acp-proxy-new")
    write(copy, "{}")
    write(leftover, "{")
    done = setup("--undo", "--yes")
    said = " ".join(done.stderr.split())
    assert f"{copy} is the copy of another setup" in said
    assert f"If you do not need it: {REMOVE} {copy}" in said
    assert f"A setup that was killed has left {leftover}. To remove it: {REMOVE} {leftover}" in said
    assert "Nothing left to undo" not in said
    assert (done.exit_code, copy.exists(), leftover.exists()) == (0, True, True)


def test_undo_says_that_the_file_is_written_where_its_record_cannot_be(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(record: Record) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(record.path))

    write(home.zed, ZED)
    setup("--yes")
    copy, record_path = home.zed.with_name("settings.json.before-acp-proxy"), home.record
    reason = f"because {record_path} cannot be written (Permission denied). Check its permissions and the disk."
    with monkeypatch.context() as patch:
        patch.setattr(Record, "save", fail)
        first, second = setup("--undo", "--yes"), setup("--undo", "--yes")
    assert f"{home.zed} is written; the record and the copy stay, {reason}" in " ".join(first.stderr.split())
    assert f"The record and its copy, {copy}, stay, {reason}" in " ".join(second.stderr.split())
    assert (first.exit_code, second.exit_code, read(home.zed)) == (1, 1, ZED)
    assert setup("--undo", "--yes").exit_code == 0
    assert not copy.exists()


@pytest.mark.parametrize("before", ["// mine", "// mine\r\n// more", "/* mine */"])
def test_an_agent_is_added_to_a_file_with_only_a_comment(home: Home, before: str) -> None:
    write(home.zed, before)
    assert setup("--agent", "some-agent --acp", "--editor", "zed", "--yes", "--force").exit_code == 0
    assert home.zed.read_bytes().decode().startswith(before)
    assert "some-agent" in str(read_entry(home.zed, "agent_servers"))
    assert setup("--undo", "--yes").exit_code == 0
    assert home.zed.read_bytes() == before.encode()


def test_words_of_the_settings_cannot_control_the_terminal(home: Home) -> None:
    write_servers(home, **{"A\x1b]0;pwn\x07": "good\x1b]0;pwn\x07"})
    for words in (["--dry-run"], ["--yes"], ["--yes"], ["--undo", "--dry-run"]):
        done = setup(*words)
        assert "\x1b" not in done.stdout + done.stderr


GONE_PROXY = os.path.abspath("/gone/acp-proxy")


@pytest.mark.parametrize(
    "words",
    [
        ["env", "X=1", GONE_PROXY, "run", sys.executable],
        ["sh", "-c", f"{GONE_PROXY} run {sys.executable}"],
        ["sh", "-c", f"X=1 exec '{GONE_PROXY}' run {sys.executable}"],
    ],
)
def test_an_acp_proxy_that_is_gone_after_other_words_is_named(home: Home, words: list[str]) -> None:
    value = {"command": words[0], "args": words[1:]}
    write(home.jetbrains, json.dumps({"agent_servers": {"A": value}}))
    for option in ([], ["--agent", "A"]):
        said = " ".join(setup("--yes", *option).stderr.split())
        assert '"A" does not start through acp-proxy, and setup cannot repair it. To see why: acp-proxy doctor' in said
    done = invoke("doctor")
    assert f'starts "A" with {GONE_PROXY}, which does not exist. Correct the entry.' in " ".join(done.stdout.split())
    assert done.exit_code == 1


@pytest.mark.parametrize(
    "words",
    [
        ["ssh", "host", "acp-proxy", "run", "no-such-agent", "acp"],
        ["ssh", "host", f"{GONE_PROXY} run no-such-agent"],
        ["env", "X=1", "docker", "exec", "-i", "box", GONE_PROXY, "run", "no-such-agent"],
        ["sh", "-c", f"ssh host {GONE_PROXY} run no-such-agent"],
    ],
)
def test_what_runs_on_another_machine_is_not_checked(
    home: Home, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    for name in ("ssh", "docker", "env", "sh"):
        write_program(home.path / "bin" / name)
    monkeypatch.setenv("PATH", str(home.path / "bin"), prepend=os.pathsep)
    write(home.jetbrains, json.dumps({"agent_servers": {"A": {"command": words[0], "args": words[1:]}}}))
    assert "cannot repair" not in setup("--yes").stderr
    done = invoke("doctor")
    said = " ".join(done.stdout.split())
    assert '"A": through acp-proxy on another machine or in a container, which was not checked' in said
    assert (done.exit_code, "no-such-agent" in said, GONE_PROXY in said) == (0, False, False)


def test_a_directory_called_as_such_a_program_is_none(home: Home) -> None:
    lines = ["uv --directory /srv/docker run acp-proxy run", "env X=/bin/ssh acp-proxy run", "sh -c"]
    values = [[*line.split(), "no-such-agent", "ssh"] for line in lines]
    values[2][2:] = [f"{GONE_PROXY} run no-such-agent docker exec"]
    agents = {words[0]: {"command": words[0], "args": words[1:]} for words in values}
    write(home.jetbrains, json.dumps({"agent_servers": agents}))
    assert "on another machine" not in invoke("doctor").stdout


def test_editor_shows_a_name_in_the_settings_without_control_characters(home: Home) -> None:
    write_servers(home, **{"Mine\x1b]0;pwn\x07": "good --acp"})
    done = invoke("editor", "zed", "mine")
    assert (done.exit_code, "is taken as" in done.stderr, "\x1b" in done.stdout + done.stderr) == (0, True, False)


def test_settings_that_cannot_be_read_are_not_called_read_only(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home.zed, ZED)
    home.zed.chmod(0o200)
    monkeypatch.setattr("os.access", lambda *_: False)  # root may read all
    said = " ".join(setup("--yes").stderr.split())
    assert f"it cannot be read. To allow it: chmod u+rw {home.zed}" in said


def test_undo_needs_no_copy(home: Home) -> None:
    write(home.zed, ZED)
    setup("--yes")
    home.zed.with_name("settings.json.before-acp-proxy").unlink()
    assert setup("--undo", "--yes").exit_code == 0
    assert read(home.zed) == ZED


def test_undo_leaves_a_file_alone_from_which_the_user_took_acp_proxy_out(home: Home) -> None:
    write(home.zed, ZED)
    setup("--yes")
    write(home.zed, "{}")
    done = setup("--undo", "--yes")
    assert "has nothing of setup any more" in done.stderr.replace("\n", " ")
    copy = home.zed.with_name("settings.json.before-acp-proxy")
    assert (read(home.zed), read(copy), done.exit_code) == ("{}", ZED, 0)


@pytest.mark.parametrize(
    "agent", ['"command": "gemini"', '"command": "gemini", "args": []', '"command": "x", "args": ["y"]']
)
def test_undo_takes_acp_proxy_out_of_an_entry_that_the_user_has_renamed(home: Home, agent: str) -> None:
    write(home.zed, f'{{"agent_servers": {{"A": {{ {agent} }}}}}}')
    before = read(home.zed)
    setup("--yes")
    write(home.zed, read(home.zed).replace('"A"', '"B"'))
    shown = setup("--undo", "--dry-run")
    assert "nothing of setup" not in shown.stderr
    assert setup("--undo", "--yes").exit_code == 0
    assert home.files() == {home.zed: before.replace('"A"', '"B"').encode()}


def test_undo_takes_acp_proxy_out_of_a_copy_of_an_entry(home: Home) -> None:
    write_servers(home, A="one")
    setup("--yes")
    write_servers(home, A=f"{COMMAND} run one", B=f"{COMMAND} run --recall one -x")
    assert setup("--undo", "--yes").exit_code == 0
    assert servers(home.jetbrains) == {"A": ["one"], "B": ["one", "-x"]}


@pytest.mark.parametrize("name", ["Mine", "Renamed"])
def test_undo_leaves_and_names_an_entry_that_went_through_acp_proxy_before(home: Home, name: str) -> None:
    write_servers(home, A="one", Mine=f"{sys.executable} -m acp_proxy run two")
    setup("--yes")
    write_servers(home, A=f"{COMMAND} run one", **{name: f"{sys.executable} -m acp_proxy run two"})
    done = setup("--undo", "--yes")
    assert servers(home.jetbrains) == {"A": ["one"], name: [sys.executable, "-m", "acp_proxy", "run", "two"]}
    said = f'"{name}" in {home.jetbrains} goes through acp-proxy, but setup did not write it there'
    assert said in " ".join(done.stderr.split())
    assert done.exit_code == 0


def test_undo_names_what_goes_through_acp_proxy_though_setup_did_nothing(home: Home) -> None:
    write_servers(home, A=f"{COMMAND} run one", B="two")
    write(home.emacs, "(require 'agent-shell) ; acp-proxy\n(acp-proxy)")
    said = " ".join(setup("--undo").stderr.split())
    assert "Nothing left to undo" not in said
    assert f'"A" in {home.jetbrains} goes through acp-proxy, but setup did not write it there' in said
    assert f"{home.emacs} mentions acp-proxy." in said
    assert '"B"' not in said


BEGINNING = "it does not begin with acp-proxy and run"
NOT_JUST_AN_AGENT = "what follows run is not just an agent's command"
NOT_AS_SETUP_WRITES = {
    "firejail --net=none PROXY run one acp": BEGINNING,
    "env KEY=v PROXY run one acp": BEGINNING,
    "sudo -u x PROXY run one": BEGINNING,
    "nice -n 5 PROXY run one": BEGINNING,
    "ssh host acp-proxy run one": BEGINNING,
    "docker exec -i box /usr/bin/acp-proxy run --store /d one": BEGINNING,
    "node agent.js --proxy acp-proxy run foo": BEGINNING,
    "python /src/acp-proxy run tests": BEGINNING,
    "acp-proxy mock-agent acp-proxy run x": BEGINNING,
    "one acp-proxy run": BEGINNING,
    "PROXY": BEGINNING,
    "PROXY one": BEGINNING,
    "PROXY run --redact keys PROXY run one acp": NOT_JUST_AN_AGENT,
    "PROXY run -- -x": NOT_JUST_AN_AGENT,
    "PROXY run --nonsense one acp": "run has no option --nonsense",
    "PROXY run --agent-id": "--agent-id needs a value",
    "PROXY run": "run needs the agent's command",
    "PROXY run registry:gemini": "only acp-proxy can start registry:gemini",
}


@pytest.mark.parametrize("name", ["A", "B"])
@pytest.mark.parametrize("line", NOT_AS_SETUP_WRITES)
def test_undo_leaves_and_names_an_entry_that_is_not_as_setup_writes_it(home: Home, line: str, name: str) -> None:
    """Whatever stands there is the user's. All other entries are undone, and the copy stays."""
    write_servers(home, A="one", Other="two")
    setup("--yes")
    words = line.replace("PROXY", COMMAND).split()
    write_servers(home, **{name: " ".join(words), "Other": f"{COMMAND} run two"})
    copy = home.jetbrains.with_name("acp.json.before-acp-proxy").read_bytes()
    for _ in range(2):
        done = setup("--undo", "--yes")
        said = " ".join(done.stderr.split())
        assert done.exit_code == 1
        assert servers(home.jetbrains) == {name: words, "Other": ["two"]}
        assert f'"{name}" in {home.jetbrains} stays as it is: {NOT_AS_SETUP_WRITES[line]}' in said
        assert "setup did not write it there" not in said
        assert home.jetbrains.with_name("acp.json.before-acp-proxy").read_bytes() == copy
    write_servers(home, A="one", Other="two")  # as before setup, by hand
    assert setup("--undo", "--yes").exit_code == 0
    assert list(home.files()) == [home.jetbrains]


def test_undo_leaves_an_entry_with_arguments_that_are_no_texts(home: Home) -> None:
    write_servers(home, A="one")
    setup("--yes")
    text = json.dumps({"agent_servers": {"A": {"command": COMMAND, "args": ["run", "one", 3]}}})
    write(home.jetbrains, text)
    assert (setup("--undo", "--yes").exit_code, read(home.jetbrains)) == (1, text)


def test_undo_leaves_and_names_a_line_for_a_shell_that_starts_acp_proxy(home: Home) -> None:
    write_servers(home, A="one")
    setup("--yes")
    for words in (["sh", "-c", f"{COMMAND} run one"], ["sh", "-c", 'exec "$@"', "x", COMMAND, "run", "one"]):
        text = json.dumps({"agent_servers": {"A": {"command": words[0], "args": words[1:]}}})
        write(home.jetbrains, text)
        done = setup("--undo", "--yes")
        assert (done.exit_code, read(home.jetbrains)) == (1, text)
        assert '"A" in ' in done.stderr


@pytest.mark.usefixtures("registry")
def test_undo_leaves_and_names_a_renamed_agent_of_zeds_registry_and_undoes_the_others(home: Home) -> None:
    write(home.zed, ZED)
    setup("--yes")
    write(home.zed, read(home.zed).replace('"gemini"', '"mine"'))
    done = setup("--undo", "--yes")
    said = " ".join(done.stderr.split())
    assert done.exit_code == 1
    assert f'"mine" in {home.zed} stays as it is: only acp-proxy can start registry:gemini.' in said
    assert "write the agent's own command there, or delete the entry." in said
    assert f"The copy from before setup stays, too: {home.zed}.before-acp-proxy" in said
    assert read_entry(home.zed, "agent_servers", "Claude", "command") == "npx"
    assert read_entry(home.zed, "agent_servers", "mine", "command") == COMMAND
    assert read(home.zed.with_name("settings.json.before-acp-proxy")) == ZED


@pytest.mark.usefixtures("registry")
def test_undo_leaves_an_agent_of_zeds_registry_that_has_arguments_of_the_user(home: Home) -> None:
    write(home.zed, ZED)
    setup("--yes")
    write(home.zed, read(home.zed).replace('"registry:gemini"', '"registry:gemini", "--model", "x"'))
    assert setup("--undo", "--yes").exit_code == 1
    args = ["run", "registry:gemini", "--model", "x"]
    assert read_entry(home.zed, "agent_servers", "gemini") == {"type": "custom", "command": COMMAND, "args": args}


@pytest.mark.parametrize("args", ["[{}]", "[{},]", "[{}/*a*/,/*b*/]", "[\n {},\n ]", "[/*a*/{}\n, // b\n]"])
def test_undo_never_leaves_a_comma_alone(home: Home, args: str) -> None:
    """A formatter writes one after the last argument, and comments may be around it."""
    write(home.zed, '{"agent_servers": {"A": {"command": "one", "args": []}}}')
    setup("--yes")
    text = read(home.zed)
    write(home.zed, text.replace(text[text.index("[") : text.index("]") + 1], args.replace("{}", '"run","one"')))
    assert setup("--undo", "--yes").exit_code == 0
    args_undone = args.replace("{}", "").replace(",", "") if "a" in args else "[]"
    assert read(home.zed) == text[: text.index("[")].replace(json.dumps(COMMAND), '"one"') + args_undone + "}}}"


def test_a_comma_alone_is_no_json(home: Home) -> None:
    write(home.zed, '{"agent_servers": {"A": {"command": "one", "args": [,]}}}')
    before = home.files()
    done = setup("--yes")
    assert "it is not valid JSON at line 1, column 53: a value is missing" in " ".join(done.stderr.split())
    assert (done.exit_code, home.files()) == (1, before)


def test_another_program_of_the_name_is_an_agent_like_any_other(home: Home) -> None:
    program = write_program(home.path / "other/acp-proxy")
    write_servers(home, Mine=f"{program} serve", A="one")
    before = read(home.jetbrains)
    setup("--yes")
    assert servers(home.jetbrains)["Mine"] == [COMMAND, "run", program, "serve"]
    write(home.jetbrains, read(home.jetbrains) + "\n")
    assert setup("--undo", "--yes").exit_code == 0
    assert read(home.jetbrains) == before + "\n"


def test_an_acp_proxy_that_is_here_is_known_by_what_it_imports(home: Home) -> None:
    text = "#!/usr/bin/python3\nfrom acp_proxy.__main__ import main\n"
    program = write_program(home.path / "other/acp-proxy", text)
    write_servers(home, Mine=f"{program} {sys.executable}")
    setup("--yes")
    assert servers(home.jetbrains) == {"Mine": [COMMAND, "run", sys.executable]}


def test_undo_gives_back_the_words_that_a_repair_has_replaced(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    lines = {
        "Name": "acp-proxy run --redact keys one",
        "No run": f"uvx acp-proxy {sys.executable} x",
        "Gone": f"{os.path.abspath('/gone/python3')} -P -m acp_proxy run one",
    }
    write_servers(home, **lines)
    before = read(home.jetbrains)
    setup("--yes")
    assert {words[0] for words in servers(home.jetbrains).values()} == {COMMAND}
    write(home.jetbrains, read(home.jetbrains) + "\n")
    undone = setup("--undo", "--yes")
    assert undone.exit_code == 0
    assert read(home.jetbrains) == before + "\n"
    said = " ".join(undone.stderr.split())
    assert f'"Gone" in {home.jetbrains} names acp-proxy again as it did before setup, which had repaired it.' in said
    assert "goes through acp-proxy" not in said


def test_undo_gives_back_what_stood_there_before_the_first_of_two_repairs(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    write_servers(home, Mine="acp-proxy run one", A="two")
    before = read(home.jetbrains)
    setup("--yes")
    monkeypatch.setattr("sys.argv", [other := os.path.abspath("/opt/bin/acp-proxy")])
    setup("--yes")
    assert {words[0] for words in servers(home.jetbrains).values()} == {other}
    write(home.jetbrains, read(home.jetbrains) + "\n")
    assert setup("--undo", "--yes").exit_code == 0
    assert read(home.jetbrains) == before + "\n"


def test_an_entry_with_a_wrong_option_of_run_is_named_once_and_not_repaired(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    write_servers(home, Wrong="acp-proxy run --redat keys one", Two="two")
    done = setup("--yes")
    said = " ".join(done.stderr.split())
    reason = "run has no option --redat. Did you mean --redact? Correct it, then run acp-proxy setup again."
    assert (done.exit_code, said.count("--redat"), f'"Wrong" stays as it is: {reason}' in said) == (1, 1, True)
    wrong_words = ["acp-proxy", "run", "--redat", "keys", "one"]
    assert servers(home.jetbrains) == {"Wrong": wrong_words, "Two": [COMMAND, "run", "two"]}


def test_undo_leaves_an_entry_that_may_be_a_renamed_repair(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    write_servers(home, Mine="acp-proxy run one", A="two")
    setup("--yes")
    write_servers(home, Renamed=f"{COMMAND} run one", B=f"{COMMAND} run two")
    done = setup("--undo", "--yes")
    assert servers(home.jetbrains) == {"Renamed": [COMMAND, "run", "one"], "B": ["two"]}
    assert "it may have gone through acp-proxy before setup" in " ".join(done.stderr.split())
    assert done.exit_code == 1


def test_without_its_copy_undo_leaves_entries_of_which_nobody_knows_whether_they_are_of_setup(home: Home) -> None:
    write_servers(home, A="one", Mine=f"{COMMAND} run two")
    setup("--yes")
    home.jetbrains.with_name("acp.json.before-acp-proxy").unlink()
    write(home.jetbrains, read(home.jetbrains) + "\n")
    done = setup("--undo", "--yes")
    assert (done.exit_code, servers(home.jetbrains)) == (1, {"A": ["one"], "Mine": [COMMAND, "run", "two"]})
    assert '"Mine" in' in done.stderr


def test_undo_reads_a_record_that_an_earlier_setup_wrote(home: Home) -> None:
    write(home.zed, ZED)
    setup("--yes")
    path = home.record
    record = json.loads(path.read_bytes())
    for file in record["files"].values():
        del file["copied"]
        for change in file["entries"]:
            del change["old_words"], change["new_words"]
    write(path, json.dumps(record))
    assert setup("--undo", "--yes").exit_code == 0
    assert home.files() == {home.zed: ZED.encode()}


def test_undo_knows_its_own_words_where_the_program_has_another_name(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acp_proxy.invocation.executable", program := os.path.abspath("/opt/bin/recorder"))
    write_servers(home, A="one", B="two x")
    before = read(home.jetbrains)
    setup("--yes")
    assert servers(home.jetbrains)["A"] == [program, "run", "one"]
    write(home.jetbrains, read(home.jetbrains) + "\n")
    assert setup("--undo", "--yes").exit_code == 0
    assert read(home.jetbrains) == before + "\n"


def test_undo_gives_back_no_copy_that_somebody_has_changed(home: Home) -> None:
    write(home.zed, ZED)
    setup("--yes")
    copy = home.zed.with_name("settings.json.before-acp-proxy")
    write(copy, '{"x": 1}')
    done = setup("--undo", "--yes")
    assert f"The copy of {home.zed} has changed since setup made it" in " ".join(done.stderr.split())
    assert (done.exit_code, read(home.zed), read(copy)) == (0, ZED, '{"x": 1}')


@pytest.mark.parametrize("text", ["{}", '{"a": 1}', '{"agent_servers": { "A": {"command": "acp-proxy"} /* mine */ }}'])
def test_an_entry_that_setup_has_added_goes_with_all_that_was_added_for_it(home: Home, text: str) -> None:
    write(home.zed, text)
    setup("--yes", "--force", "--agent", "nosuchagent acp")
    write(home.zed, read(home.zed) + "\n")
    assert setup("--undo", "--yes").exit_code == 0
    assert read(home.zed) == text + "\n"


def test_an_entry_that_setup_has_added_and_the_user_renamed_keeps_no_empty_list(home: Home) -> None:
    setup("--yes", "--force", "--editor", "zed", "--agent", "nosuchagent")
    write(home.zed, read(home.zed).replace("(recorded)", "mine"))
    assert setup("--undo", "--yes").exit_code == 0
    agent = read_entry(home.zed, "agent_servers", "nosuchagent mine")
    assert agent == {"type": "custom", "command": "nosuchagent", "env": {}}


def test_a_file_that_setup_made_goes_with_the_last_agent_that_is_undone(home: Home) -> None:
    for agent in ("someagent acp", "other acp"):
        setup("--yes", "--force", "--editor", "zed", "--agent", agent)
    for agent in ("someagent", "other"):
        assert setup("--undo", "--yes", "--agent", agent).exit_code == 0
    assert home.files() == {}


def test_setup_names_the_extension_that_an_editor_lacks_for_a_new_agent(home: Home) -> None:
    words = ("--editor", "vscode", "--dry-run", "--force", "--agent", "someagent acp")
    text = 'VS Code has no extension "ACP Client", which starts the agent. Install it there: formulahendry.acp-client'
    assert text in " ".join(setup(*words).stderr.split())
    write(home.path / ".vscode/extensions/formulahendry.acp-client-0.2.0/package.json", "{}")
    assert "Install it" not in setup(*words).stderr


@pytest.mark.parametrize("has_id", [True, False])
def test_an_agent_of_the_editor_itself_is_added_by_its_id_if_the_registry_has_it(
    home: Home, monkeypatch: pytest.MonkeyPatch, has_id: bool
) -> None:
    write(home.path / "registry.json", registry_of(("codex-acp", "Codex", "codex"), *AGENTS) if has_id else "damaged")
    monkeypatch.setenv("ACP_PROXY_REGISTRY", str(home.path / "registry.json"))
    write(home.zed, '{"agent_servers": {"codex": {"env": {}}}}')
    agent = "codex-acp" if has_id else f"{QUOTE}npx -y @agentclientprotocol/codex-acp"
    for said in (setup("--yes").stderr, invoke("doctor").stdout):
        assert f"To add one that is recorded: acp-proxy setup --agent {agent}" in " ".join(said.split())


def test_undo_names_acp_proxy_without_arguments_too(home: Home) -> None:
    write_servers(home, A=COMMAND)
    assert f'"A" in {home.jetbrains} goes through acp-proxy' in " ".join(setup("--undo").stderr.split())


@pytest.mark.parametrize("agent", ["", " "])
def test_an_empty_agent_is_refused(home: Home, agent: str) -> None:
    write(home.zed, ZED)
    before = home.files()
    done = setup("--agent", agent, "--yes")
    assert (done.exit_code, home.files()) == (2, before)
    assert "leave --agent out" in " ".join(done.stderr.replace("│", " ").split())


def test_undo_finds_the_agents_of_a_file_where_its_editor_does_not_look_any_more(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASEO_HOME", str(home.path / "elsewhere"))
    path = home.path / "elsewhere/config.json"
    write(path, PASEO)
    setup("--yes")
    write(path, read(path).replace("Kimi", "Kimi K2"))
    monkeypatch.delenv("PASEO_HOME")
    assert setup("--undo", "--yes").exit_code == 0
    assert read(path) == PASEO.replace("Kimi", "Kimi K2")


def test_a_dry_run_of_undo_changes_nothing(home: Home) -> None:
    write(home.zed, ZED)
    setup("--yes")
    home.zed.unlink()
    before = home.files()
    assert setup("--undo", "--dry-run").exit_code == 0
    assert home.files() == before


def test_an_agent_can_be_added_to_an_editor_without_settings(home: Home) -> None:
    home.zed.parent.mkdir(parents=True)
    assert setup("--yes", "--force", "--agent", "KEY=x opencode acp").exit_code == 0
    assert read_entry(home.zed) == {
        "agent_servers": {
            "OpenCode (recorded)": {
                "type": "custom",
                "command": COMMAND,
                "args": ["run", "opencode", "acp"],
                "env": {"KEY": "x"},
            }
        }
    }
    undone = setup("--undo", "--yes").stderr
    assert not home.zed.exists()
    assert "settings.json is removed. An agent that runs keeps" in " ".join(undone.split())
    assert setup("--undo").stderr.startswith("Nothing left to undo")


def test_undo_says_of_an_editor_that_it_has_nothing_though_another_has(home: Home) -> None:
    write(home.zed, ZED)
    assert setup("--yes").exit_code == 0
    assert setup("--undo", "--editor", "jetbrains").stderr == "JetBrains has nothing of setup.\n"


def test_an_agent_that_is_named_and_not_written_for_lack_of_an_editor_is_a_failure(home: Home) -> None:
    result = setup("--agent", "gemini --acp", "--yes")
    assert "has settings of agents on this machine. To write them: acp-proxy setup" in " ".join(result.stderr.split())
    assert (result.exit_code, home.files(), setup("--yes").exit_code) == (1, {}, 0)


def test_an_editor_that_the_user_names_need_not_be_there(home: Home) -> None:
    assert setup("--yes", "--force", "--editor", "jetbrains", "--agent", "gemini --acp").exit_code == 0
    assert home.jetbrains.exists()
    assert not home.zed.exists()


def test_with_an_agent_only_that_agent_changes(home: Home) -> None:
    write(home.zed, ZED)
    write(home.jetbrains, JETBRAINS)
    setup("--yes", "--editor", "zed", "--agent", "npx -y @agentclientprotocol/claude-agent-acp")
    assert read_entry(home.zed, "agent_servers", "Claude", "command") == COMMAND
    assert "(recorded)" not in read(home.zed)
    assert home.jetbrains.read_bytes() == JETBRAINS.encode()


def test_a_variable_for_an_agent_that_is_there_is_said_not_to_be_written(home: Home) -> None:
    entry = '"Key": {"command": "keyagent", "env": {"SAME": "1"}}'
    write(home.jetbrains, f'{{"agent_servers": {{{entry}}}}}')
    said = " ".join(setup("--yes", "--agent", "SAME=1 FOO_KEY=secret keyagent").stderr.split())
    where = f'JetBrains has "Key" already. Add it to its "env" in {home.jetbrains}.'
    assert said.count("is not written") == said.count(f"FOO_KEY is not written: {where}") == 1
    assert "secret" not in said
    assert servers(home.jetbrains) == {"Key": [COMMAND, "run", "keyagent"]}


def test_an_agent_is_named_as_the_settings_name_it(home: Home) -> None:
    write(home.jetbrains, '{"agent_servers": {"My Agent": {"command": "one"}, "Other": {"command": "two"}}}')
    assert setup("--agent", "My Agent", "--yes").exit_code == 0
    servers = read_entry(home.jetbrains, "agent_servers")
    assert isinstance(servers, dict)
    assert list(servers) == ["My Agent", "Other"]
    assert servers["My Agent"]["args"][-2:] == ["run", "one"]
    assert servers["Other"] == {"command": "two"}
    assert setup("--agent", "My Agent").stderr.endswith("\nNothing to change.\n")


def servers(path: Path) -> dict[str, list[str]]:
    """The commands in a settings file, by name."""
    found = read_entry(path, "agent_servers")
    assert isinstance(found, dict)
    return {name: read_words(value) for name, value in found.items()}


def write_servers(home: Home, **commands: str) -> None:
    entries = {name: {"command": line.split()[0], "args": line.split()[1:]} for name, line in commands.items()}
    write(home.jetbrains, json.dumps({"agent_servers": entries}))


@pytest.mark.parametrize("word", ["GOOGLE", "Goog", "google's other"])
def test_a_name_counts_in_any_case_and_by_a_unique_beginning(home: Home, word: str) -> None:
    write_servers(home, **{"Google's other": "mine", "Other": "two"})
    result = setup("--agent", word, "--yes")
    assert servers(home.jetbrains) == {"Google's other": [COMMAND, "run", "mine"], "Other": ["two"]}
    assert ("Note: " in result.stderr) is (word != "google's other")


def test_a_beginning_of_several_names_is_refused_with_the_names(home: Home) -> None:
    write_servers(home, **{"My one": "one", "My two": "two"})
    result = setup("--agent", "my", "--yes")
    assert "several agents begin with 'my': My one, My two." in " ".join(result.stderr.split())
    assert result.exit_code == 2


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("word", ["gemini", "registry:gemini", "npx -y @google/gemini-cli", "gemini --acp"])
@pytest.mark.parametrize("started", ["gemini --acp", "/opt/gemini --acp", "npx @google/gemini-cli@0.61.0 --acp"])
def test_an_entry_that_starts_the_agent_is_recognised_whatever_its_name(home: Home, word: str, started: str) -> None:
    write_servers(home, Mine=started, Gem="other")
    setup("--agent", word, "--yes")
    assert servers(home.jetbrains) == {"Mine": [COMMAND, "run", *started.split()], "Gem": ["other"]}
    assert setup("--agent", word).stderr.endswith("\nNothing to change.\n")


@pytest.mark.parametrize("word", ["gemini --acp --model pro", f"{os.path.abspath('/mine/gemini')} --acp"])
def test_a_command_with_other_arguments_or_another_path_is_another_agent(home: Home, word: str) -> None:
    write_servers(home, Gemini="gemini --acp")
    setup("--agent", word, "--yes", "--force")
    added = [COMMAND, "run", *word.split()]
    assert servers(home.jetbrains) == {"Gemini": ["gemini", "--acp"], "Gemini (recorded)": added}


def test_an_agent_that_one_editor_has_is_added_to_no_other(home: Home) -> None:
    write_servers(home, Gemini="gemini --acp")
    write(home.zed, "{}")
    setup("--agent", "gemini", "--yes")
    assert servers(home.jetbrains) == {"Gemini": [COMMAND, "run", "gemini", "--acp"]}
    assert read(home.zed) == "{}"


def test_an_agent_with_other_arguments_is_added_once_the_other_has_another_name(home: Home) -> None:
    write_servers(home, **{"OpenCode (recorded)": "opencode acp"})
    words = ("--agent", "opencode acp --debug", "--yes", "--force")
    refused = setup(*words)
    assert 'its "OpenCode (recorded)" has another command. To have both, give that one another name;' in " ".join(
        refused.stderr.split()
    )
    write_servers(home, Renamed="opencode acp")
    assert (refused.exit_code, setup(*words).exit_code) == (1, 0)
    assert [*servers(home.jetbrains)] == ["OpenCode (recorded)", "Renamed"]


@pytest.mark.usefixtures("registry")
def test_a_program_that_is_added_gets_the_arguments_that_the_registry_has_for_it(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name, path=None: os.path.abspath(f"/bin/{name}"))
    setup("--agent", "kimi", "--yes", "--editor", "jetbrains")
    assert servers(home.jetbrains) == {"Kimi (recorded)": [COMMAND, "run", "kimi", "--acp"]}


@pytest.mark.parametrize(
    ("word", "file"), [("idea", "jetbrains"), ("PyCharm", "jetbrains"), ("code", "vscode"), ("jet", "jetbrains")]
)
def test_an_editor_is_known_by_its_program_in_any_case_and_by_a_beginning(home: Home, word: str, file: str) -> None:
    setup("--editor", word, "--agent", "some-agent --acp", "--yes", "--force")
    assert getattr(home, file).exists()


@pytest.mark.parametrize(("word", "other"), [("cursor", "vscode"), ("vscode", "cursor")])
def test_a_build_of_vs_code_is_an_editor_of_its_own(home: Home, word: str, other: str) -> None:
    named: Path = getattr(home, word)
    for path in (home.vscode, home.cursor):
        write(path, '{"acp.agents": {"One": {"command": "one"}}}')
    assert setup("--editor", word, "--yes").exit_code == 0
    assert read_entry(named, "acp.agents", "One") == {"command": COMMAND, "args": ["run", "one"]}
    assert read(getattr(home, other)) == '{"acp.agents": {"One": {"command": "one"}}}'
    assert str(named) in invoke("editor", word, "some-agent", "acp").stderr
    assert setup("--undo", "--editor", other, "--yes").exit_code == 0
    assert "run" in read(named)


def test_no_agent_is_added_where_nothing_reads_it_unless_the_editor_is_named(home: Home) -> None:
    for path in (home.zed, home.vscode, home.cursor):
        write(path, "{}")
    (home.path / ".cursor/extensions/formulahendry.acp-client-0.2.0").mkdir(parents=True)
    words = ("--agent", "some-agent acp", "--yes", "--force")
    said = " ".join(setup(*words).stderr.split())
    reason = "left out: no extension ACP Client. To write it all the same: --editor vscode"
    assert f"VS Code {home.vscode} {reason}" in said
    assert said.count("no extension") == 1
    assert [read(path) == "{}" for path in (home.zed, home.vscode, home.cursor)] == [False, True, False]
    assert setup(*words, "--editor", "vscode").exit_code == 0
    assert "some-agent" in read(home.vscode)


@pytest.mark.parametrize("text", ['{"acp.agents": {"One": {"command": "one"}}}', "{"])
def test_settings_of_vs_code_with_agents_are_not_left_out_without_the_extension(home: Home, text: str) -> None:
    write(home.vscode, text)
    assert "left out" not in setup("--agent", "some-agent acp", "--yes", "--force").stderr


@pytest.mark.parametrize("word", ["vim", "nvim", "neovim"])
def test_neovim_is_left_to_the_command_that_prints(home: Home, word: str) -> None:
    result = setup("--editor", word)
    said = " ".join(result.stderr.replace("│", " ").split())
    assert "acp-proxy editor PLUGIN AGENT, with your plugin: codecompanion, avante, agentic." in said
    assert result.exit_code == 2


def test_a_program_that_needs_an_adapter_is_refused_with_the_line_that_adds_it(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home.zed, ZED)
    program = Path(write_program(home.path / "bin/codex"))
    monkeypatch.setenv("PATH", str(program.parent))
    refused = setup("--agent", "codex", "--yes")
    advice = "Give its adapter instead: acp-proxy setup --agent 'npx -y @agentclientprotocol/codex-acp'"
    assert advice.replace("'", '"' if ON_WINDOWS else "'") in " ".join(refused.stderr.split())
    assert (refused.exit_code, read(home.zed)) == (2, ZED)
    write(home.path / "registry.json", registry_of(("codex-acp", "Codex", "codex")))
    monkeypatch.setenv("ACP_PROXY_REGISTRY", str(home.path / "registry.json"))
    assert "instead: acp-proxy setup --agent codex-acp\n" in setup("--agent", "codex", "--yes").stderr
    assert setup("--agent", "codex", "--yes", "--force").exit_code == 0


@pytest.mark.skipif(os.name != "posix", reason="there are no pseudo-terminals")
def test_what_was_typed_before_a_question_answers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    keyboard, terminal = os.openpty()
    with open(terminal, encoding="ascii") as stdin, open(keyboard, "wb", buffering=0) as typed:
        monkeypatch.setattr("sys.stdin", stdin)
        typed.write(b"\n")
        assert select.select([stdin], [], [], 5)[0]
        discard_typed_input()
        assert not select.select([stdin], [], [], 0)[0]


@pytest.mark.skipif(sys.platform == "win32", reason="no script is a program there")
@pytest.mark.parametrize(("status", "exit_code"), [(0, 0), (1, 2)])
def test_a_runner_that_cannot_start_acp_proxy_is_not_written(
    home: Home, monkeypatch: pytest.MonkeyPatch, status: int, exit_code: int
) -> None:
    """As after ``uvx --from SOURCE acp-proxy setup``, where the package index does not have it."""
    write(home.zed, ZED)
    runner = write_program(home.path / "bin/uvx", f"#!/bin/sh\necho not found >&2\nexit {status}\n")
    monkeypatch.setenv("PATH", str(home.path / "bin"))
    monkeypatch.setattr("sys.argv", [str(home.path / ".cache/uv/archive-v0/x/bin/acp-proxy")])
    done = setup("--yes", "--force")
    assert done.exit_code == exit_code
    reason = f"{runner} acp-proxy does not start acp-proxy here, so no editor could: not found"
    assert (reason in " ".join(done.stderr.split())) is bool(status)
    assert (read(home.zed) == ZED) is bool(status)


def test_an_editor_that_lacks_the_named_agent_is_named(home: Home) -> None:
    write(home.zed, "{}")
    program = write_program(home.path / "bin/acp-proxy")
    write_servers(home, OpenCode=f"{program} run opencode acp")
    done = setup("--agent", "OpenCode", "--yes")
    said, command = " ".join(done.stderr.split()), f"acp-proxy setup --editor zed --agent {QUOTE}opencode acp{QUOTE}"
    assert (done.exit_code, f'Zed {home.zed} has no "OpenCode". To add it there: {command}' in said) == (0, True)
    assert setup("--editor", "zed", "--agent", "opencode acp", "--yes", "--force").exit_code == 0
    assert servers(home.zed)["OpenCode (recorded)"] == [COMMAND, "run", "opencode", "acp"]


@pytest.mark.parametrize("word", ["opencode acp", "OpenCode"])
def test_an_agent_is_added_to_a_named_editor_that_lacks_it(home: Home, word: str) -> None:
    write(home.zed, '{"agent_servers": {"OpenCode": {"command": "opencode", "args": ["acp"], "env": {"KEY": "k"}}}}')
    write(home.cursor, "{}")
    words = ("--editor", "zed", "--editor", "jetbrains", "--editor", "cursor", "--agent", word, "--yes")
    done = setup(*words)
    said = " ".join(done.stderr.split())
    assert (done.exit_code, servers(home.zed)["OpenCode"]) == (0, [COMMAND, "run", "opencode", "acp"])
    assert servers(home.jetbrains) == {"OpenCode (recorded)": [COMMAND, "run", "opencode", "acp"]}
    assert "OpenCode (recorded)" in read(home.cursor)
    assert f'JetBrains {home.jetbrains} "OpenCode (recorded)" will be added, and recorded' in said
    assert f'Copy the variables of "OpenCode" in {home.zed}, too: KEY.' in said
    written = home.files()
    assert "Nothing to change." in setup(*words).stderr
    assert home.files() == written


def test_an_editor_that_has_no_settings_is_not_said_to_lack_the_named_agent(home: Home) -> None:
    write_servers(home, OpenCode="opencode acp")
    home.zed.parent.mkdir(parents=True)
    assert str(home.zed) not in setup("--agent", "OpenCode", "--yes").stderr.replace("\n", "")


def test_the_name_of_an_agent_of_another_editor_is_answered_with_its_command(home: Home) -> None:
    write_servers(home, OpenCode="opencode acp")
    refused = setup("--agent", "opencode", "--editor", "zed")
    line = f"acp-proxy setup --editor zed --agent {QUOTE}opencode acp{QUOTE}"
    assert f'Zed has no "OpenCode", but another editor has. To add it there: {line}' in " ".join(refused.stderr.split())
    assert refused.exit_code == 2
    assert setup("--agent", "opencode acp", "--editor", "zed", "--yes", "--force").exit_code == 0


def test_a_runner_without_a_package_is_refused_with_what_is_missing(home: Home) -> None:
    write(home.zed, "{}")
    for words in (["setup", "--yes", "--force", "--agent", "npx -y"], ["editor", "zed", "npx"]):
        refused = invoke(*words)
        said = " ".join(refused.stderr.split())
        assert (refused.exit_code, "Give the agent's package, too: npx -y PACKAGE" in said) == (2, True)
    assert read(home.zed) == "{}"


def test_several_agents_at_once_are_refused(home: Home) -> None:
    write(home.zed, ZED)
    refused = setup("--agent", "opencode acp", "--agent", "Claude", "--yes")
    assert "it takes one agent. For more, run setup once for each" in " ".join(refused.stderr.replace("│", " ").split())
    assert (refused.exit_code, read(home.zed)) == (2, ZED)


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(
    ("word", "advice"),
    [
        ("Kimy", "Did you mean: kimi?"),
        ("clawde", "Did you mean: Claude?"),
        ("nosuchagent", "Give its command, or one of the ids: gemini, kimi"),
        ("nosuchagent --acp", "nosuchagent is not in PATH. Install it, or give its absolute path."),
        (os.path.abspath("/nowhere/agent"), "agent does not exist. Correct the path."),
    ],
)
def test_an_agent_that_is_not_here_is_refused_unless_forced(home: Home, word: str, advice: str) -> None:
    write(home.zed, ZED)
    before = home.files()
    result = setup("--agent", word, "--yes")
    said = " ".join(result.stderr.split())
    assert (result.exit_code, home.files()) == (2, before)
    assert advice in said
    assert said.endswith("for a program that you install later: --force")
    assert setup("--agent", word, "--yes", "--force").exit_code == 0
    assert "(recorded)" in read(home.zed)


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("is_other_read", [True, False])
def test_settings_that_cannot_be_read_are_named_where_an_agent_is_not_found(home: Home, is_other_read: bool) -> None:
    write(home.zed, '{ "theme": ')
    check_naming(home, "not valid JSON at line 1, column 1", is_other_read)


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("is_other_read", [True, False])
def test_a_link_to_damaged_settings_is_named_where_an_agent_is_not_found(home: Home, is_other_read: bool) -> None:
    write(home.path / "dotfiles/zed.json", '{ "theme": ')
    home.zed.parent.mkdir(parents=True)
    home.zed.symlink_to(home.path / "dotfiles/zed.json")
    home.zed = home.path / "dotfiles/zed.json"
    check_naming(home, "it is not valid JSON at line 1", is_other_read)


def check_naming(home: Home, reason: str, is_other_read: bool) -> None:
    """``setup`` names Zed's settings with the reason, and the agent only if it has read other settings."""
    if is_other_read:
        write(home.jetbrains, JETBRAINS)
    result = setup("--agent", "Claude", "--yes")
    said = " ".join(result.stderr.split())
    assert f"{home.zed} stays as it is: " in said
    assert reason in said
    assert "no agent in your editors' settings" not in said
    assert ("Claude is not in PATH" in said) is is_other_read
    assert result.exit_code == (2 if is_other_read else 1)


def test_an_agent_that_may_be_in_a_registry_that_cannot_be_read_is_refused_with_the_reason(home: Home) -> None:
    result = setup("--agent", "nosuchagent", "--editor", "jetbrains", "--yes")
    assert "agent in your editors' settings. The registry of agents cannot be read" in " ".join(result.stderr.split())
    assert (result.exit_code, home.files()) == (2, {})


@pytest.fixture
def trying(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents are really started."""
    monkeypatch.setattr("acp_proxy.tools.setup.try_agents.try_agents", try_agents)


GONE = '{"agent_servers": {"Gone": {"command": "nosuchprogram"}}}'


@pytest.mark.usefixtures("trying")
@pytest.mark.parametrize("answer", ["\n", "y\n"])
def test_an_agent_that_does_not_start_is_named_before_the_question_which_enter_declines(
    home: Home, answer: str
) -> None:
    write(home.jetbrains, GONE)
    result = setup(answer=answer)
    said = " ".join(result.stderr.split())
    assert '"Gone" does not answer: nosuchprogram is not in PATH, so it would not start. Install it, or give ' in said
    assert said.index("Install it") < said.index("Write this all the same? [y/N]")
    assert (read(home.jetbrains) != GONE) is (answer == "y\n")
    assert result.exit_code == (0 if answer == "y\n" else 1)  # a yes is a decision, as --force is


@pytest.mark.usefixtures("trying")
def test_without_an_answer_the_options_that_write_it_all_the_same_are_named(home: Home) -> None:
    write(home.jetbrains, GONE)
    assert setup(answer="").stderr.endswith("To skip the question: --yes --force\n")
    assert read(home.jetbrains) == GONE
    assert setup("--yes", "--force").exit_code == 0
    assert read(home.jetbrains) != GONE


@pytest.mark.skipif(ON_WINDOWS, reason="the end of stdin is found only by reading there")
def test_no_agent_is_started_where_nobody_can_answer_the_question(home: Home) -> None:
    write(home.jetbrains, GONE)
    words = [sys.executable, "-m", "acp_proxy", "setup"]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "is started once" in done.stderr, read(home.jetbrains)) == (1, False, GONE)
    assert done.stderr.endswith("stdin is not a terminal, so there is no answer. To skip the question: --yes\n")
    assert "+++ " in done.stdout
    answered = subprocess.run(words, input="y\n", capture_output=True, text=True, timeout=60, check=False)
    assert ("is started once" in answered.stderr, read(home.jetbrains) == GONE) == (True, False)


@pytest.mark.usefixtures("trying")
def test_what_an_agent_that_does_not_answer_has_said_is_below_the_advice_that_names_it(home: Home) -> None:
    write_servers(home, Exits=f"{sys.executable} -c import(sys")
    said = " ".join(setup("--yes").stderr.split())
    assert "See its messages on stderr. on stderr: " in said


@pytest.mark.usefixtures("trying")
def test_one_agent_that_does_not_answer_is_left_out_and_enter_means_yes(home: Home) -> None:
    memory = str(home.path / "memory")
    agent = {"command": sys.executable, "args": ["-m", "acp_proxy.tools.demo.agent", "--memory", memory]}
    gone = {"command": "nosuchprogram"}
    write(home.jetbrains, json.dumps({"agent_servers": {"Demo": agent, "Gone": gone}}))
    result = setup(answer="\n")
    said = " ".join(result.stderr.split())
    assert '"Demo" answers.' in said
    assert 'Left out, until it answers: "Gone". To write it all the same: acp-proxy setup --force' in said
    assert "Write this? [Y/n]" in said
    assert (result.stdout.count("+++ "), result.exit_code) == (1, 0)
    assert [words[0] for words in servers(home.jetbrains).values()] == [COMMAND, "nosuchprogram"]
    assert setup("--yes", "--force").exit_code == 0
    assert [words[:2] for words in servers(home.jetbrains).values()] == [[COMMAND, "run"]] * 2


@pytest.mark.usefixtures("trying")
def test_an_agent_of_several_editors_is_started_once_unless_its_variables_differ(home: Home) -> None:
    starts = home.path / "starts"
    agent = {"command": sys.executable, "args": ["-c", "import sys; open(sys.argv[1], 'a').write('x')", str(starts)]}
    entries_there = {"Exits": agent, "Other": {**agent, "env": {"KEY": "1"}}}
    write(home.jetbrains, json.dumps({"agent_servers": entries_there}))
    write(home.zed, json.dumps({"agent_servers": {"Mine": agent, "Exits": agent}}))
    result = setup("--yes")
    said = " ".join(result.stderr.split())
    assert said.count('Starting "Mine" (also "Exits") …') == 1
    assert said.count('"Mine" (also "Exits") does not answer: at initialize') == 1
    assert 'Left out, until it answers: "Mine", "Exits", "Other".' in said
    assert (result.exit_code, starts.read_text()) == (1, "xx")
    assert setup("--yes", "--force").exit_code == 0
    assert [words[0] for path in (home.zed, home.jetbrains) for words in servers(path).values()] == [COMMAND] * 4


@pytest.mark.usefixtures("trying")
@pytest.mark.parametrize("words", [[], ["--agent", "Gone"]])
def test_an_agent_that_was_left_out_is_not_written_by_a_second_setup(home: Home, words: list[str]) -> None:
    entries_there = {"Mine": {"command": COMMAND, "args": ["run", "mine"]}, "Gone": {"command": "nosuchprogram"}}
    write(home.jetbrains, json.dumps({"agent_servers": entries_there}))
    before = home.files()
    result = setup("--yes", *words)
    said = " ".join(result.stderr.split())
    assert 'Left out, until it answers: "Gone". To write it all the same: acp-proxy setup' in said
    assert said.endswith("--force Nothing was written.")
    assert (result.exit_code, home.files()) == (1 if words else 0, before)
    assert setup("--yes", "--force", *words).exit_code == 0
    assert servers(home.jetbrains)["Gone"] == [COMMAND, "run", "nosuchprogram"]


@pytest.mark.usefixtures("trying")
@pytest.mark.parametrize(
    "text", ["{}", GONE, f'{{"agent_servers": {{"Mine": {{"command": {json.dumps(COMMAND)}, "args": ["run", "x"]}}}}}}']
)
@pytest.mark.parametrize("is_named", [True, False])
def test_an_agent_that_does_not_answer_is_written_only_after_a_yes_or_with_force(
    home: Home, text: str, is_named: bool
) -> None:
    agent_that_exits = {"command": sys.executable, "args": ["-c", "pass"]}
    content = json.loads(text)
    if not is_named:
        content.setdefault("agent_servers", {})["Exits"] = agent_that_exits
    write(home.jetbrains, json.dumps(content))
    before = home.files()
    words = ["--agent", f"{sys.executable} -c pass"] if is_named else []
    result = setup("--yes", *words)
    said = " ".join(result.stderr.split())
    is_done_before = text.endswith('["run", "x"]}}}') and not is_named
    assert (result.exit_code, home.files()) == (0 if is_done_before else 1, before)
    assert "Left out, until it answers: " in said
    assert said.endswith("--force Nothing was written.")
    result = setup(*words, answer="\n")
    assert "Write this all the same? [y/N]" in " ".join(result.stderr.split())
    assert (result.exit_code, home.files()) == (1, before)
    assert setup("--yes", "--force", *words).exit_code == 0
    assert [COMMAND, "run", sys.executable, "-c", "pass"] in servers(home.jetbrains).values()


@pytest.mark.usefixtures("trying")
def test_an_entry_without_run_gets_it_whether_the_agent_answers_or_not(home: Home) -> None:
    exits = f"{sys.executable} -c pass"
    write_servers(home, Plain=f"acp-proxy {exits}", Runner=f"uvx acp-proxy --redact keys {exits}")
    before = read(home.jetbrains)
    assert setup("--yes").exit_code == 1  # the entry started nothing before, and nobody was asked
    assert servers(home.jetbrains) == {
        "Plain": [COMMAND, "run", *exits.split()],
        "Runner": [COMMAND, "run", "--redact", "keys", *exits.split()],
    }
    setup("--undo", "--yes")
    assert read(home.jetbrains) == before
    for words in ("acp-proxy", "acp-proxy chain x"):  # no agent of a user
        write_servers(home, Other=words)
        assert "Nothing to change" in setup("--yes").stderr


@pytest.mark.parametrize(
    ("word", "near"), [("zd", "zed"), ("zde", "zed"), ("jetbrians", "jetbrains"), ("vscod3", "vscode")]
)
def test_a_wrong_editor_is_answered_with_the_near_one(home: Home, word: str, near: str) -> None:
    result = setup("--editor", word)
    assert (result.exit_code, f"Did you mean {near}?" in " ".join(result.stderr.split())) == (2, True)


def test_a_wrong_editor_is_answered_with_those_that_setup_writes(home: Home) -> None:
    said = " ".join(setup("--editor", "nope").stderr.split())
    names = "'zed', 'jetbrains', 'vscode', 'code-insiders', 'vscodium', 'cursor', 'paseo'"
    assert f"'nope' is not one of {names}. For other editors" in said
    assert "acp-proxy editor EDITOR AGENT" in said


def test_the_end_of_the_input_is_not_a_yes(home: Home) -> None:
    write(home.jetbrains, GONE)
    setup("--yes")
    written = read(home.jetbrains)
    result = setup("--undo", answer="")
    assert (result.exit_code, read(home.jetbrains)) == (1, written)
    assert "Nothing was changed. To see it again: acp-proxy setup --undo\n" in result.stderr
    assert result.stderr.endswith("To skip the question: --yes\n")


def test_ctrl_c_while_an_agent_is_silent_changes_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(changes: Sequence[FileChange], tried: TriedAgents) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr("acp_proxy.tools.setup.try_agents.try_agents", wait)
    write(home.jetbrains, GONE)
    result = setup()
    assert (result.exit_code, result.stderr.endswith("\nNothing was changed.\n")) == (130, True)
    assert read(home.jetbrains) == GONE


@pytest.mark.usefixtures("trying")
def test_ctrl_c_skips_one_agent_and_another_ends_setup(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    starts = list[list[str]]()

    def start(root: object, words: list[str], *_: object) -> tuple[AgentReport, list[Advice]]:
        starts.append(words)
        if words[-1] == "silent":
            raise KeyboardInterrupt
        if words[-1] == "stubborn":  # it does not end at once, and the user presses Ctrl-C again
            try:
                raise KeyboardInterrupt
            except KeyboardInterrupt:
                raise KeyboardInterrupt  # noqa: B904
        return AgentReport(words), []

    monkeypatch.setattr("acp_proxy.tools.doctor.report.diagnose_agent", start)
    write_servers(home, First="silent", Second="answers")
    done = setup("--yes")
    assert '"First" is skipped.' in done.stderr
    assert (done.exit_code, servers(home.jetbrains)) == (
        0,
        {"First": ["silent"], "Second": [COMMAND, "run", "answers"]},
    )
    for first, start_count in (("one silent", 2), ("stubborn", 1)):
        write_servers(home, First=first, Second="another silent", Third="answers")
        before = read(home.jetbrains)
        starts.clear()
        ended = setup("--yes")
        assert (ended.exit_code, len(starts)) == (130, start_count)
        assert ended.stderr.endswith("\nNothing was changed.\n")
        assert read(home.jetbrains) == before
    monkeypatch.setattr("acp_proxy.tools.setup.try_agents._END_SECONDS", 0.0)  # the user waits before the second Ctrl-C
    write_servers(home, First="one silent", Second="another silent", Third="answers")
    assert setup("--yes").exit_code == 0
    assert [words[0] for words in servers(home.jetbrains).values()] == ["one", "another", COMMAND]


@pytest.mark.usefixtures("trying")
def test_a_dry_run_starts_no_agent(home: Home) -> None:
    write(home.jetbrains, GONE)
    stderr = setup("--dry-run").stderr
    assert "Starting" not in stderr
    said = " ".join(stderr.split())
    assert "Then each agent is started once, and one that does not answer is left out." in said
    assert '"Gone" will be recorded, but nosuchprogram is not in PATH' in said
    assert "started" not in setup("--dry-run", "--force").stderr


def test_what_doctor_finds_afterwards_is_said_once_and_without_the_agents_that_were_tried(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acp_proxy.tools.setup.try_agents.try_agents", try_agents)
    monkeypatch.setattr("acp_proxy.tools.setup.command.report_written", report_written)
    write(home.jetbrains, GONE)
    result = setup("--yes", "--force")
    said = " ".join(result.stderr.split())
    assert result.exit_code == 1
    assert said.count("Install it, or give its absolute path.") == 1
    assert f'What to do: 1. JetBrains starts "Gone" with {COMMAND}, which does not exist.' in said
    assert "choose the agent" not in said


def test_what_doctor_finds_about_something_else_is_shown_and_no_failure(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acp_proxy.tools.setup.command.report_written", report_written)
    monkeypatch.setenv("ACP_PROXY_CONFIG", str(home.path / "nowhere"))
    monkeypatch.setattr("sys.argv", [write_program(home.path / "acp-proxy")])
    write_servers(home, New=f"{sys.executable} agent")
    result = setup("--yes")
    assert "What to do: 1. ACP_PROXY_CONFIG names" in " ".join(result.stderr.split())
    assert result.exit_code == 0


@pytest.mark.parametrize("is_in_written", [False, True])
def test_what_is_wrong_elsewhere_is_noted_only_of_editors_that_were_written(
    home: Home, monkeypatch: pytest.MonkeyPatch, is_in_written: bool
) -> None:
    monkeypatch.setattr("acp_proxy.tools.setup.command.report_written", report_written)
    proxy = write_program(home.path / "acp-proxy")
    monkeypatch.setattr("sys.argv", [proxy])
    wrong, new = f"{proxy} run --nonsense one", f"{sys.executable} agent"
    write_servers(home, New=new, **({"Wrong": wrong} if is_in_written else {}))
    write(home.zed, json.dumps({"agent_servers": {"Wrong": {"command": proxy, "args": wrong.split()[1:]}}}))
    said = " ".join(setup("--yes", "--agent", "New").stderr.split())
    assert ("Note: JetBrains" in said, "Note: Zed" in said) == (is_in_written, False)


def test_the_next_step_is_for_the_build_of_vs_code_that_was_written(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acp_proxy.tools.setup.command.report_written", report_written)
    write(home.cursor, '{"acp.agents": {"One": {"command": "one"}}}')
    said = " ".join(setup("--yes").stderr.split())
    assert 'In Cursor: run the command "Developer: Reload Window"' in said
    assert "VS Code" not in said
    assert f'Cursor starts "One" with {COMMAND}, which does not exist.' in said.partition("What to do:")[2]


def test_settings_that_their_editor_writes_again_are_named(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acp_proxy.tools.setup.command.report_written", report_written)
    written = setup_steps.write_file

    def write_and_lose(change: FileChange, record: Record) -> None:
        written(change, record)
        write(change.path, GONE)

    monkeypatch.setattr(setup_steps, "write_file", write_and_lose)
    write(home.jetbrains, GONE)
    result = setup("--yes")
    assert f"{home.jetbrains} was written again, and not by setup." in " ".join(result.stderr.split())
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("word", "name"), [("codecompanion", "codecompanion"), ("emacs", "agent-shell"), ("toad", "toad")]
)
def test_a_configuration_that_is_a_program_is_left_to_the_command_that_prints(home: Home, word: str, name: str) -> None:
    write(home.zed, "{}")
    result = setup("--editor", word, "--yes")
    said = " ".join(result.stderr.replace("│", " ").split())
    assert result.exit_code == 2
    assert f"acp-proxy editor {name} AGENT" in said
    assert "has settings of agents on this machine" not in said


def test_a_command_that_is_gone_is_replaced_by_the_present_one(home: Home) -> None:
    gone = {"command": os.path.abspath("/old/env/bin/python"), "args": ["-P", "-m", "acp_proxy", "run", "agent"]}
    write(home.zed, json.dumps({"agent_servers": {"A": gone}}))
    setup("--yes")
    assert read_entry(home.zed, "agent_servers", "A") == {"command": COMMAND, "args": ["run", "agent"]}


def test_a_zipapp_that_is_gone_is_replaced_though_its_python_is_there(home: Home) -> None:
    gone = {"command": sys.executable, "args": [os.path.abspath("/old/acp-proxy-linux-x86_64.pyz"), "run", "agent"]}
    write(home.zed, json.dumps({"agent_servers": {"A": gone}}))
    assert setup("--yes").exit_code == 0
    assert read_entry(home.zed, "agent_servers", "A") == {"command": COMMAND, "args": ["run", "agent"]}


def test_a_name_that_only_a_terminal_finds_becomes_a_path(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name, path=None: os.path.abspath(f"/bin/{name}"))
    write_servers(home, Mine="acp-proxy run --store /s gemini --acp", Other="uvx acp-proxy run gemini --acp")
    setup("--yes")
    assert servers(home.jetbrains) == {
        "Mine": [COMMAND, "run", "--store", "/s", "gemini", "--acp"],
        "Other": ["uvx", "acp-proxy", "run", "gemini", "--acp"],
    }
    assert "Nothing to change" in setup("--yes").stderr


def test_a_command_that_is_there_stays(home: Home) -> None:
    other = {"command": sys.executable, "args": ["-m", "acp_proxy", "run", "agent"]}
    write(home.zed, json.dumps({"agent_servers": {"A": other}}))
    assert "Nothing to change" in setup("--yes").stderr


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"agent_servers": {"A": {"command": "x"}', "not valid JSON at line 1"),
        ("[]", "not a JSON object"),
        ('{"agent_servers": {"A": {"command": "x", "args": "y"}}}', "its args are not a list"),
        ("\udcff", "not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_and_stays(home: Home, text: str, reason: str) -> None:
    home.zed.parent.mkdir(parents=True)
    home.zed.write_bytes(text.encode("utf-8", "surrogateescape"))
    write(home.jetbrains, JETBRAINS)
    done = setup("--yes")
    said = " ".join(done.stderr.split())
    assert said.startswith(f"Zed {home.zed} ")
    assert "stays as it is: " in said
    assert reason in said
    assert done.exit_code == 1
    assert home.zed.read_bytes() == text.encode("utf-8", "surrogateescape")
    assert read_entry(home.jetbrains, "agent_servers", "G", "command") == COMMAND
    assert "written: acp.json" in done.stdout


def test_the_file_to_which_a_link_leads_is_changed_and_undone(home: Home) -> None:
    target = home.path / "dotfiles/zed.json"
    write(target, ZED)
    home.zed.parent.mkdir(parents=True)
    home.zed.symlink_to(target)
    before = home.files()
    for said in (setup("--dry-run").stderr, invoke("doctor").stdout):
        assert f"Zed {home.zed} -> {target} " in " ".join(said.split())
    done = setup("--yes")
    assert (done.exit_code, f"+++ {target}" in done.stdout, home.zed.is_symlink()) == (0, True, True)
    assert read_entry(home.zed, "agent_servers", "Claude", "command") == COMMAND
    assert setup("--undo", "--yes").exit_code == 0
    assert home.files() == before
    setup("--yes")
    write(target, read(target).replace("{", "{ // mine", 1))
    assert setup("--undo", "--yes").exit_code == 0
    assert read(home.zed) == ZED.replace("{", "{ // mine", 1)
    assert home.zed.is_symlink()


def test_a_link_to_what_the_user_cannot_write_stays(home: Home) -> None:
    target = home.path / "generated/zed.json"
    write(target, ZED)
    target.chmod(0o444)
    home.zed.parent.mkdir(parents=True)
    home.zed.symlink_to(target)
    done = setup("--yes")
    assert f"{home.zed} stays as it is: it is a link, to {target}." in " ".join(done.stderr.split())
    assert (done.exit_code, read(target)) == (1, ZED)


def test_a_link_to_itself_stays_and_is_named(home: Home) -> None:
    home.zed.parent.mkdir(parents=True)
    home.zed.symlink_to(home.zed.name)
    done = setup("--yes")
    assert f"{home.zed} stays as it is: it is a link, to {home.zed}." in " ".join(done.stderr.split())
    assert (done.exit_code, home.zed.is_symlink()) == (1, True)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give files away")
def test_the_file_of_another_user_stays(home: Home) -> None:
    write(home.zed, ZED)
    os.chown(home.zed, 12345, 12345)
    assert "it belongs to another user" in setup("--yes").stderr
    assert read(home.zed) == ZED


def test_a_file_that_changes_while_the_user_thinks_stays(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home.zed, ZED)

    def answer(question: str, *, enter_means_yes: bool, declined: str, options_to_skip: str) -> None:
        write(home.zed, "{}")

    monkeypatch.setattr("acp_proxy.tools.setup.write_changes.ask_to_confirm", answer)
    done = setup()
    assert "it changed in the meantime" in done.stderr
    assert (done.exit_code, read(home.zed)) == (1, "{}")


def test_permissions_stay(home: Home) -> None:
    write(home.zed, ZED)
    home.zed.chmod(0o640)
    setup("--yes")
    copy = home.zed.with_name("settings.json.before-acp-proxy")
    assert {path.stat().st_mode & 0o777 for path in (home.zed, copy)} == {0o640}


def test_programs_are_named_and_stay(home: Home) -> None:
    write(home.neovim, 'require("codecompanion").setup({})')
    before = home.files()
    said = setup("--yes").stderr.replace("\n", " ")
    assert "acp-proxy editor codecompanion AGENT" in said
    assert home.files() == before


def test_the_record_has_no_words_of_the_agents_command(home: Home) -> None:
    write(home.zed, ZED.replace('"-y"', '"--key", "sk-hidden"'))
    setup("--yes")
    assert "sk-" not in read(home.record)


def test_a_machine_without_editors_gets_advice(home: Home) -> None:
    done = setup("--yes")
    said = " ".join(done.stderr.split())
    assert (
        "setup --editor zed --agent COMMAND (or jetbrains, vscode, code-insiders, vscodium, cursor, paseo) For Neovim"
        in said
    )
    assert "acp-proxy editor EDITOR COMMAND" in said
    assert done.exit_code == 0
    assert f"acp-proxy setup --editor zed --agent {shell_quote.quote('npx me')}" in " ".join(
        setup("--agent", "npx me").stderr.split()
    )


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "3",
        "{}",
        '{"version": 1, "files": [1]}',
        '{"version": 1, "files": {"x": {"copy": 3}}}',
        '{"files": 3}',
    ],
)
@pytest.mark.parametrize("words", [[], ["--undo"]])
def test_a_damaged_record_is_named_with_what_to_do(home: Home, text: str, words: list[str]) -> None:
    path = home.record
    write(path, text)
    write(home.zed, "{}")
    write(copy := home.zed.with_name("settings.json.before-acp-proxy"), ZED)
    done = setup(*words)
    said = " ".join(done.stderr.split())
    assert said.startswith(f"acp-proxy: {path}, in which setup notes what it changed, is damaged. What to do: 1. Where")
    assert f"which ends with .before-acp-proxy: {MOVE} {copy} {home.zed} 2. " in said
    assert said.endswith(f"2. Remove the record: {REMOVE} {path}")
    assert (done.exit_code, read(path)) == (1, text)


def test_the_record_of_a_newer_version_is_named(home: Home) -> None:
    write(home.record, '{"version": 99, "files": 3}')
    assert "was made by a newer acp-proxy. Upgrade acp-proxy." in " ".join(setup("--yes").stderr.split())


def registry_of(*agents: tuple[str, str, str]) -> str:
    """A registry of agents: their ids, names and packages."""
    entries = [
        {"id": id, "name": name, "distribution": {"npx": {"package": package, "args": ["--acp"]}}}
        for id, name, package in agents
    ]
    return json.dumps({"agents": entries})


@pytest.fixture
def registry(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home.path / "registry.json", registry_of(*AGENTS))
    monkeypatch.setenv("ACP_PROXY_REGISTRY", str(home.path / "registry.json"))
    monkeypatch.setenv("PATH", "")


AGENTS = [("gemini", "Gemini CLI", "@google/gemini-cli@0.61.0"), ("kimi", "Kimi CLI", "kimi")]


@pytest.mark.usefixtures("registry")
def test_an_agent_of_zeds_registry_is_started_by_its_id(home: Home) -> None:
    write(home.zed, ZED)
    setup("--yes")
    assert read_entry(home.zed, "agent_servers", "gemini") == {
        "type": "custom",
        "command": COMMAND,
        "args": ["run", "registry:gemini"],
    }
    assert "Nothing to change" in setup("--yes").stderr
    write(home.zed, read(home.zed).replace("One Dark", "Ayu"))
    setup("--undo", "--yes")
    assert read(home.zed) == ZED.replace("One Dark", "Ayu")


@pytest.mark.usefixtures("registry")
def test_an_agent_is_added_by_its_id(home: Home) -> None:
    setup("--yes", "--editor", "jetbrains", "--agent", "kimi --acp")  # the registry has this argument
    assert read_entry(home.jetbrains, "agent_servers", "Kimi (recorded)") == {
        "command": COMMAND,
        "args": ["run", "registry:kimi"],
        "env": {},
    }
    before = home.files()
    setup("--yes", "--editor", "jetbrains", "--agent", "registry:kimi")
    assert home.files() == before


def test_an_entry_that_needs_another_registry_names_it(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home.path / "other.json", registry_of(("gemini", "Gemini CLI", "gemini"), ("kimi", "Kimi CLI", "kimi")))
    write(home.zed, '{"agent_servers": {"gemini": {"type": "registry"}, "Mine": {"command": "mine"}}}')
    monkeypatch.setenv("PATH", "")
    monkeypatch.chdir(home.path)
    setup("--registry", "other.json", "--yes")
    setup("--registry", "other.json", "--agent", "kimi", "--yes")
    named = [COMMAND, "run", "--registry", str(home.path / "other.json")]
    assert servers(home.zed) == {
        "gemini": [*named, "registry:gemini"],
        "Mine": [COMMAND, "run", "mine"],
        "Kimi (recorded)": [*named, "registry:kimi"],
    }


def test_an_entry_that_setup_left_as_it_is_is_a_note(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another agent that does not start is no reason to fail for the one that was asked for."""
    monkeypatch.setattr("acp_proxy.tools.setup.command.report_written", report_written)
    program = write_program(home.path / "acp-proxy")
    monkeypatch.setattr("sys.argv", [program])
    lost = {"command": program, "args": ["run", "no-such-agent"]}
    entries = {"Lost": lost, "New": {"command": sys.executable, "args": ["agent"]}}
    write(home.jetbrains, json.dumps({"agent_servers": entries}))
    done = setup("--yes", "--agent", "New")
    said = " ".join(done.stderr.split())
    assert (done.exit_code, "What to do" in said) == (0, False)
    assert 'Note: JetBrains starts "Lost" through acp-proxy, but no-such-agent is not in PATH' in said


ODD_ENTRIES: dict[str, tuple[dict[str, object], str]] = {
    "a variable with a sign": ({"env": {"A=B": "y"}}, 'does not answer: its variable "A=B" is no name'),
    "a variable without a name": ({"env": {"": "y"}}, 'does not answer: its variable "" is no name'),
    "a zero in a variable": ({"env": {"N": "\0"}}, 'its variable "N" has a character that no program can get'),
    "a zero in the command": ({"command": "x\0y"}, "stays as it is: its command has a character that no program"),
    "a text for args": ({"args": "x"}, "stays as it is: its args are not a list of texts. Correct it"),
    "null for args": ({"args": None}, "stays as it is: its args are not a list of texts"),
    "a number in args": ({"args": ["x", 3]}, "stays as it is: its args are not a list of texts"),
}
if not ON_WINDOWS:  # there, a program can get it
    ODD_ENTRIES["half a character"] = (
        {"args": ["\ud800"]},
        "stays as it is: its command has a character that no program can get",
    )


@pytest.mark.usefixtures("trying")
@pytest.mark.parametrize("name", ODD_ENTRIES)
def test_an_odd_entry_is_named_by_setup_and_doctor_and_all_others_are_written(home: Home, name: str) -> None:
    members, reason = ODD_ENTRIES[name]
    agent = {"command": sys.executable, "args": ["-m", "acp_proxy.tools.demo.agent", "--memory", str(home.path / "m")]}
    odd = {"command": sys.executable, **members}
    write(home.jetbrains, json.dumps({"agent_servers": {"Odd": odd, "Good": agent}}))
    done = setup("--yes")
    said = " ".join(done.stderr.split())
    assert '"Odd"' in said
    assert reason in said
    assert read_entry(home.jetbrains, "agent_servers", "Odd") == odd
    assert servers(home.jetbrains)["Good"][:2] == [COMMAND, "run"]
    assert done.exit_code == (1 if "stays" in reason else 0)
    fault = reason.partition(": ")[2] or reason
    assert f'The entry "Odd" in JetBrains is wrong: {fault}' in " ".join(invoke("doctor").stdout.split())
    assert setup("--undo", "--yes").exit_code == 0


def test_doctor_refuses_the_name_of_an_entry_that_nobody_can_start(home: Home) -> None:
    write(home.jetbrains, json.dumps({"agent_servers": {"Odd": {"command": "x", "env": {"A=B": "y"}}}}))
    done = invoke("doctor", "Odd")
    assert (done.exit_code, '"Odd" in JetBrains cannot be started: its variable "A=B" is no name' in done.stderr) == (
        2,
        True,
    )


def test_settings_at_a_path_that_cannot_be_looked_at_stop_no_other(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    lstat, status = Path.lstat, Path.stat

    def fail(read: Callable[..., os.stat_result], path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if path == home.zed:  # as in a directory without permissions
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return read(path)

    write(home.jetbrains, JETBRAINS)
    home.zed.parent.mkdir(parents=True)
    monkeypatch.setattr(Path, "lstat", partialmethod(partial(fail, lstat)))
    monkeypatch.setattr(Path, "stat", partialmethod(partial(fail, status)))
    done = setup("--yes")
    assert f"{home.zed} stays as it is: Permission denied. Check its permissions" in " ".join(done.stderr.split())
    assert read_entry(home.jetbrains, "agent_servers", "G", "command") == COMMAND
    said = " ".join(invoke("doctor").stdout.split())
    assert f"{home.zed} cannot be read: Permission denied." in said
    assert '"G": through acp-proxy' in said
    assert setup("--undo", "--yes").exit_code == 0
    assert home.jetbrains.read_bytes() == JETBRAINS.encode()


@pytest.mark.parametrize(
    "line",
    [
        GONE_PROXY,
        f"{GONE_PROXY} --listen 8080",
        f"{GONE_PROXY} serve",
        "acp-proxy chain",
        f"{sys.executable} -m acp_proxy run --redcat keys one",
    ],
)
def test_setup_and_doctor_agree_on_what_setup_cannot_repair(home: Home, line: str) -> None:
    write_servers(home, Broken=line)
    before = read(home.jetbrains)
    for words in ([], ["--agent", "Broken"]):
        said = " ".join(setup("--yes", *words).stderr.split())
        assert '"Broken" does not start through acp-proxy, and setup cannot repair it. To see why:' in said
    assert read(home.jetbrains) == before
    done = invoke("doctor")
    assert (done.exit_code, "acp-proxy setup --editor" in done.stdout) == (1, False)


@pytest.mark.parametrize("line", ["exec acp-proxy run goodagent", "KEY=v '/opt/acp-proxy' run goodagent"])
def test_a_line_for_a_shell_that_starts_acp_proxy_gets_no_second_one(home: Home, line: str) -> None:
    text = json.dumps({"agent_servers": {"A": {"command": "sh", "args": ["-c", line]}}})
    write(home.jetbrains, text)
    assert "Nothing to change" in setup("--yes").stderr
    assert read(home.jetbrains) == text
    assert '"A": through acp-proxy' in invoke("doctor").stdout
    assert '"A" in' in setup("--undo").stderr


@pytest.mark.parametrize(("editor", "value"), [("zed", None), ("zed", []), ("zed", {}), ("paseo", {})])
def test_doctor_does_not_advise_setup_for_an_entry_without_a_command(home: Home, editor: str, value: object) -> None:
    if editor == "zed":
        write(home.zed, json.dumps({"agent_servers": {"Odd": value}}))
    else:
        write(home.paseo, json.dumps({"agents": {"providers": {"Odd": {"extends": "acp"}}}}))
    text = '"Odd" has no command: the editor itself starts it, and it is not recorded. To add one that is recorded:'
    for said in (invoke("doctor").stdout, setup("--yes").stderr):
        assert text in " ".join(said.split())


def make_read_only(path: Path) -> None:
    path.chmod(0o444)


def add_name(path: Path) -> None:
    path.with_name("other.json").hardlink_to(path)


def replace_by_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("make_odd", "reason"),
    [
        (make_read_only, f"it is read-only. To allow it: {MAKE_WRITABLE} {{}}"),
        (add_name, "it has several names (hard links), and only one of them would change"),
        (replace_by_directory, "it is not a file"),
        pytest.param(
            replace_by_pipe,
            "it is not a file",
            marks=pytest.mark.skipif(ON_WINDOWS, reason="Windows has no such files"),
        ),
    ],
)
def test_what_setup_would_change_without_a_word_stays_and_is_named(
    home: Home, make_odd: Callable[[Path], None], reason: str
) -> None:
    write(home.zed, ZED)
    write(home.jetbrains, JETBRAINS)
    assert setup("--yes").exit_code == 0
    make_odd(home.zed)
    before = home.zed.lstat()
    for words in (["--force"], ["--undo"]):
        done = setup("--yes", *words)
        assert f"{home.zed} stays as it is: {reason.replace('{}', str(home.zed))}" in " ".join(done.stderr.split())
        assert (done.exit_code, home.zed.lstat()[:6]) == (1, before[:6])
    assert home.jetbrains.read_bytes() == JETBRAINS.encode()
    assert ("cannot be read: it is not a file" in invoke("doctor").stdout) is (make_odd is replace_by_pipe)
    assert invoke("editor", "zed", sys.executable).exit_code == 0


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("is_other_there", [False, True])
def test_an_agent_in_read_only_settings_is_not_called_unknown(home: Home, is_other_there: bool) -> None:
    write(home.zed, '{"agent_servers": {"OpenCode": {"command": "opencode", "args": ["acp"]}}}')
    home.zed.chmod(0o444)
    if is_other_there:
        write(home.jetbrains, "{}")
    done = setup("--yes", "--agent", "OpenCode")
    said = " ".join(done.stderr.split())
    assert f"stays as it is: it is read-only. To allow it: {MAKE_WRITABLE} {home.zed}" in said
    assert (done.exit_code, "PATH" in said, "Did you mean" in said) == (1, False, False)
    assert ("JetBrains" in said) is is_other_there
    assert home.files().get(home.jetbrains, b"{}") == b"{}"


@pytest.mark.skipif(ON_WINDOWS, reason="an editor has the user's PATH there")
@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize(("word", "program"), [("some-agent --acp", "some-agent"), ("registry:gemini", "npx")])
def test_an_agent_that_only_a_terminal_finds_is_noted_where_it_is_added(
    home: Home, monkeypatch: pytest.MonkeyPatch, word: str, program: str
) -> None:
    directory = Path(write_program(home.path / "nvm/bin" / program)).parent
    monkeypatch.setenv("PATH", str(directory))
    write(home.zed, "{}")
    said = " ".join(setup("--agent", word, "--dry-run").stderr.split())
    assert f"Note: {program} is in {directory}, where an editor that is started from a menu may not look." in said
    assert f'"PATH": "{directory}:/usr/local/bin:/usr/bin:' in said
    assert "from a menu" not in setup("--agent", f"PATH={directory} {word}", "--dry-run").stderr
    write_servers(home, Mine=word)
    assert "from a menu" not in setup("--dry-run").stderr
    monkeypatch.setattr("acp_proxy.tools.editors.program_places._SYSTEM_DIRECTORIES", (str(directory),))
    assert "from a menu" not in setup("--agent", word, "--dry-run").stderr


@pytest.mark.skipif(ON_WINDOWS, reason="every file may be started there")
def test_a_program_that_cannot_be_started_is_named_with_what_to_do(home: Home) -> None:
    program = Path(write_program(home.path / "bin/gemini"))
    program.chmod(0o644)
    write_servers(home, Plain=str(program), Shell="$HOME/bin/gemini", Right=sys.executable)
    facts = [f"{program} is not executable", "$HOME/bin/gemini does not exist"]
    found, shown = (" ".join(said.split()) for said in (invoke("doctor").stdout, setup("--dry-run").stderr))
    for fact in facts:
        assert (fact in found, f"but {fact}" in shown) == (True, True)
    assert f"To allow it: chmod +x {program}" in found
    assert "Write the directory itself: only a shell replaces $HOME." in found
    refused = setup("--agent", f"{program} --acp", "--editor", "zed", "--yes")
    assert (refused.exit_code, f"To allow it: chmod +x {program}" in " ".join(refused.stderr.split())) == (2, True)


def test_undo_says_what_to_do_with_a_file_that_it_cannot_read(home: Home) -> None:
    write(home.zed, ZED)
    setup("--yes")
    write(home.zed, "{")
    said = " ".join(setup("--undo", "--yes").stderr.split())
    assert "bracket is missing. Correct it, then run acp-proxy setup --undo again." in said


@pytest.mark.parametrize("links_directory", [False, True])
def test_settings_that_editors_share_by_links_are_written_and_undone_once(home: Home, links_directory: bool) -> None:
    servers = '{"acp.agents": {"G": {"command": "gemini"}}}'
    write(home.vscode, servers)
    (home.path / ".cursor/extensions/formulahendry.acp-client-1").mkdir(parents=True)
    link, target = (home.cursor.parent, home.vscode.parent) if links_directory else (home.cursor, home.vscode)
    link.parent.mkdir(parents=True)
    link.symlink_to(target)
    done = setup("--yes")
    assert (done.exit_code, done.stdout.count("+++"), "meantime" in done.stderr) == (0, 1, False)
    assert "Cursor, VS Code  " in done.stderr
    assert setup("--undo", "--yes", "--editor", "vscode").exit_code == 0
    assert (read(home.vscode), home.record.exists()) == (servers, False)


@pytest.mark.parametrize("moves_copy", [False, True])
@pytest.mark.parametrize("is_edited", [False, True])
def test_undo_follows_a_link_to_which_the_settings_have_moved_since(
    home: Home, moves_copy: bool, is_edited: bool
) -> None:
    write(home.zed, ZED)
    setup("--yes")
    target, copy = home.path / "dotfiles/zed.json", home.zed.with_name("settings.json.before-acp-proxy")
    target.parent.mkdir()
    home.zed.rename(target)
    home.zed.symlink_to(target)
    if moves_copy:
        copy.rename(target.parent / copy.name)
    before = ZED
    if is_edited:
        before = ZED.replace("{", "{ // mine", 1)
        write(target, read(target).replace("{", "{ // mine", 1))
    moved = home.files()
    setup("--yes")
    assert home.files() == moved
    undone = setup("--undo", "--yes")
    assert (undone.exit_code, read(target), home.zed.is_symlink()) == (0, before, True)
    assert {*home.files()} == {home.zed, target}
    assert "did not write it" not in undone.stderr


def test_undo_says_what_to_do_with_a_link_to_what_the_user_cannot_write(home: Home) -> None:
    write(home.zed, ZED)
    setup("--yes")
    home.zed.rename(home.path / "settings.json")
    (home.path / "settings.json").chmod(0o444)
    home.zed.symlink_to(home.path / "settings.json")
    said = " ".join(setup("--undo", "--yes").stderr.split())
    assert f"it is a link, to {home.path / 'settings.json'}. You can take acp-proxy out of it by hand." in said


@pytest.mark.usefixtures("trying")
def test_a_slow_agent_is_answered_with_an_option_that_setup_has(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acp_proxy.tools.setup.try_agents.ANSWER_SECONDS", 1.0)
    write_servers(home, Slow=f"{sys.executable} -c __import__('time').sleep(60)")
    said = " ".join(setup("--yes").stderr.split())
    assert "up to 1 s for an answer. Ctrl-C skips an agent." in said
    assert "If it is only slow, write it all the same: --force" in said
    assert "--timeout" not in said


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["zed"], "--editor zed"),
        (["jetbrains"], "--editor jetbrains"),
        (["undo"], "--undo"),
        (["-undo"], "--undo"),
        (["goodagent"], "--agent goodagent"),
        (["goodagent", "acp"], f"--agent {shell_quote.quote('goodagent acp')}"),
    ],
)
def test_a_word_without_its_option_is_answered_with_the_option(home: Home, words: list[str], option: str) -> None:
    done = setup(*words)
    assert (done.exit_code, f"Did you mean {option}?" in " ".join(done.stderr.split())) == (2, True)
