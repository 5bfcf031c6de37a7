"""The commands as a whole."""

import os
import re
import sys
from pathlib import Path

import pytest
from typer.main import get_group
from typer.testing import CliRunner

from acp_proxy import __version__, shell_quote
from acp_proxy.cli.app import COMMAND_GROUPS, SESSION_COMMANDS, RootGroup, app
from acp_proxy.cli.wrong_usage import COMMAND_BY_SYNONYM, INSTEAD_OF_OPTION
from acp_proxy.installation import advise_uninstall
from acp_proxy.store.proxy_store import ProxyStore
from tests import forked
from tests.cli.commands import invoke
from tests.stored import store_session
from tests.waiting import SECONDS


def test_the_version_is_printed() -> None:
    result = invoke("--version")
    assert (result.exit_code, result.stdout) == (0, f"acp-proxy {__version__}\n")


@pytest.mark.parametrize("words", [[], ["run"], ["editor"], ["doctor"], ["sessions"], ["list"], ["mock-agent"]])
@pytest.mark.parametrize("asked", ["-h", "--help"])
def test_help_exits_with_0(words: list[str], asked: str) -> None:
    result = invoke(*words, asked)
    assert result.exit_code == 0
    assert "Usage" in result.stdout


def get_stdout(*words: str) -> str:
    result = invoke(*words)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


@pytest.mark.parametrize(
    ("short", "long"),
    [
        (["ls", "-h"], ["list", "-h"]),
        (["sessions", "ls", "-h"], ["sessions", "list", "-h"]),
        (["sessions", "help", "ls"], ["sessions", "list", "-h"]),
        (["version"], ["--version"]),
        (["-v"], ["--version"]),
        (["-V"], ["--version"]),
        (["help"], ["--help"]),
        (["help", "help"], ["--help"]),
        (["help", "editor"], ["editor", "--help"]),
        (["help", "ls"], ["list", "--help"]),
        (["help", "sessions"], ["sessions", "--help"]),
        (["help", "sessions", "show"], ["sessions", "show", "--help"]),
        (["sessions", "help", "show"], ["sessions", "show", "--help"]),
    ],
)
def test_a_short_form_does_the_same_as_the_long_one(short: list[str], long: list[str]) -> None:
    assert get_stdout(*short) == get_stdout(*long) != ""


def test_a_short_form_of_the_list_takes_its_options(tmp_path: Path) -> None:
    store_session(ProxyStore(tmp_path / "store"), "s", ("Mend it", []))
    options = ["--store", str(tmp_path / "store"), "--limit", "1"]
    assert get_stdout("ls", *options) == get_stdout("list", *options) == get_stdout("sessions", "list", *options)
    assert "Mend it" in get_stdout("ls", *options)


def test_every_command_on_sessions_has_a_longer_form() -> None:
    for group in SESSION_COMMANDS.values():
        for name in group:
            short, long = (invoke(*words, name, "--help").stdout for words in ([], ["sessions"]))
            assert long.replace("acp-proxy sessions ", "acp-proxy ") == short


@pytest.mark.parametrize(("columns", "beside"), [("80", True), ("60", False)])
def test_the_help_lists_every_command_once_by_group(columns: str, beside: bool) -> None:
    stdout = CliRunner().invoke(app, ["--help"], env={"COLUMNS": columns}, terminal_width=int(columns)).stdout
    for title, group in COMMAND_GROUPS.items():
        section = stdout.partition(f"\n{title}:\n")[2].partition("\n\n")[0]
        assert [name for name in group if f"{name:<11} {group[name].brief}" in section] == list(group)
        assert (len(section.splitlines()) < len(group)) is beside
    assert max(map(len, stdout.splitlines())) <= int(columns)


def test_help_with_an_agents_command_starts_no_agent(tmp_path: Path) -> None:
    assert "Usage: acp-proxy run" in get_stdout("help", "run", "touch", str(tmp_path / "started"))
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("name", ["list", "ls", "help", "version"])
def test_run_starts_an_agent_with_the_name_of_a_short_form(tmp_path: Path, name: str) -> None:
    agent = tmp_path / name
    agent.write_text("#!/bin/sh\necho the agent: $0 $*\n")
    agent.chmod(0o755)
    result = forked.run(
        [sys.executable, "-m", "acp_proxy", "run", "--store", str(tmp_path / "store"), name, "-h"],
        env={**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        text=True,
        timeout=SECONDS,
    )
    assert result.returncode == 0
    assert f"the agent: {agent} -h" in result.stdout + result.stderr


@pytest.mark.parametrize("words", [["run"], ["doctor"], ["replay"], ["list"], ["export"], ["search"]])
def test_help_names_no_types_of_the_programming_language(words: list[str]) -> None:
    stdout = invoke(*words, "--help").stdout
    assert not [kind for kind in ("<str>", "<int", "<float", "list[", " range>") if kind in stdout]


@pytest.mark.parametrize(
    "words",
    [
        ["no-such-command"],
        ["help", "no-such-command"],
        ["--no-such-option"],
        ["doctor", "--no-such-option"],
        ["list", "--no-such-option"],
        ["show"],
        ["delete"],
        ["sessions", "no-such-command"],
        ["stats", "extra"],
    ],
)
def test_wrong_usage_exits_with_2(words: list[str]) -> None:
    result = invoke(*words)
    assert (result.exit_code, result.stdout) == (2, "")


@pytest.mark.parametrize(
    ("words", "whole"),
    [
        (["exprot", "last"], "acp-proxy export last"),
        (["help", "shwo"], "acp-proxy show --help"),
        (["rm", "last"], "acp-proxy delete last"),
        (["sessions", "rm", "last"], "acp-proxy delete last"),
        (["history"], "acp-proxy list"),
        (["info"], "acp-proxy show"),
        (["grep", "the login"], f"acp-proxy search {shell_quote.quote('the login')}"),
        (["sessions", "cat", "last"], "acp-proxy show last"),
        (["sync", "push"], "acp-proxy sync now"),
        (["tail", "last"], "acp-proxy show --follow last"),
        (["undo"], "acp-proxy restore, or: acp-proxy setup --undo"),
        (["help", "resume"], "acp-proxy continue --help"),
        (["lst"], "acp-proxy list"),
        (["edtor"], "acp-proxy editor"),
        (["exp", "last"], "acp-proxy export last"),
        (["ren"], "acp-proxy rename"),
    ],
)
def test_a_command_in_the_wrong_place_or_by_another_name_is_answered_with_the_right_one(
    words: list[str], whole: str
) -> None:
    result = invoke(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith(f"Did you mean: {whole}\n")


def test_other_words_for_commands_name_a_command() -> None:
    assert not [word for word in COMMAND_BY_SYNONYM if word in RootGroup.commands_by_name or word in RootGroup.aliases]
    for whole in COMMAND_BY_SYNONYM.values():
        assert all(
            each.split()[1] in (*RootGroup.commands_by_name, *RootGroup.aliases, "--install-completion")
            for each in whole.split(", or: ")
        )


def test_an_option_has_the_same_letter_in_every_command() -> None:
    letters: dict[str, set[str]] = {}
    options: dict[str, set[str]] = {}
    for name in RootGroup.commands_by_name:
        for param in get_group(app).commands[name].params:
            for word in param.opts if param.param_type_name == "option" else ():
                if not word.startswith("--"):
                    letters.setdefault(param.opts[0], set()).add(word)
                    options.setdefault(word, set()).add(param.opts[0])
    assert letters
    assert {word: found for word, found in [*letters.items(), *options.items()] if len(found) > 1} == {}


@pytest.mark.parametrize("command", ["list", "search", "stats", "browse", "export"])
def test_commands_on_many_sessions_have_the_same_filters_by_the_same_letters(command: str) -> None:
    stdout = get_stdout(command, "--help")
    assert all(text in stdout for text in ("-a, --agent", "-H, --here", "-S, --since", "-U, --until"))


@pytest.mark.parametrize(("command", "wrong"), INSTEAD_OF_OPTION)
def test_a_frequent_wrong_option_is_answered_with_what_to_write(command: str, wrong: str) -> None:
    result = invoke(command, wrong)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f". Instead: {INSTEAD_OF_OPTION[command, wrong]}" in " ".join(result.stderr.split())


def test_an_option_of_other_programs_is_not_taken_for_one_that_is_spelled_alike() -> None:
    assert " ".join(invoke("import", "--force").stderr.split()).endswith("To see all: acp-proxy import --help")
    assert "Did you mean --damaged?" in invoke("import", "--damged").stderr


@pytest.mark.parametrize(
    ("command", "advice"), [(command, advice) for (command, _), advice in INSTEAD_OF_OPTION.items()]
)
def test_what_to_write_instead_exists(command: str, advice: str) -> None:
    stdout = get_stdout(command, "--help")
    assert all(option in stdout for option in re.findall(r"--[a-z]+", advice))
    assert all(name in RootGroup.commands_by_name for name in re.findall(r"acp-proxy ([a-z]+)", advice))


def test_a_missing_argument_is_explained_with_an_example() -> None:
    without_any, without_agent = (invoke(*words).stderr for words in (["editor"], ["editor", "zed"]))
    assert without_any.startswith("acp-proxy: EDITOR is missing: one of: zed, jetbrains")
    assert without_agent.startswith("acp-proxy: AGENT is missing: the agent's command")
    assert "\nExample: acp-proxy editor zed " in without_agent  # a line of its own, to be copied
    assert "Example: acp-proxy editor zed npx" in without_agent


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["list", "--limit", "abc"], "--limit: write a whole number, such as 20, not 'abc'"),
        (["list", "--limit", "1.5"], "--limit: write a whole number, such as 20, not '1.5'"),
        (["list", "--limit", ""], "--limit: write a whole number, such as 20, not ''"),
        (["list", "--limit", "0"], "--limit: write 1 or more, not '0'"),
        (["list", "--limit", "9" * 5000], f"--limit: write a whole number, such as 20, not '{'9' * 20}'"),
        (["web", "--port", "99999"], "--port: write 0 to 65535, not '99999'"),
        (["replay", "--speed", "abc", "last"], "--speed: write a number, such as 2 or 0.5, not 'abc'"),
        (["replay", "--speed", "-1", "last"], "--speed: write 0 or more, not '-1'"),
        (["replay", "--speed", "nan", "last"], "--speed: write a number, such as 2 or 0.5, not 'nan'"),
        (["doctor", "--timeout", "nan"], "--timeout: write a number, such as 2 or 0.5, not 'nan'"),
        (["list", "--limit", f"1{'0' * 19}"], f"--limit: write a whole number, such as 20, not '1{'0' * 19}'"),
    ],
)
def test_a_wrong_number_is_answered_with_what_to_write(words: list[str], advice: str) -> None:
    result = invoke(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"acp-proxy: {advice}.\n"


@pytest.mark.parametrize(
    "words",
    [
        ["prune", "--agent", "", "--keep", "0", "--yes"],
        ["prune", "-a", "", "--keep", "0", "--yes"],
        ["list", "--agent="],
        ["sync", "init", "/shared", "--agent", ""],
        ["setup", "--registry", ""],
    ],
)
def test_an_option_with_an_empty_value_is_refused(words: list[str]) -> None:
    result = invoke(*words)
    option = "--registry" if "--registry" in words else "--agent"
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"acp-proxy: {option} is empty. Give it a value, or leave it out.\n"


def test_an_empty_variable_counts_as_unset(tmp_path: Path) -> None:
    result = invoke("list", variables={"ACP_PROXY_STORE": "", "XDG_DATA_HOME": str(tmp_path)})
    assert "is empty" not in result.output


@pytest.mark.parametrize(
    "words",
    [["editor", "foo", "agent"], ["mock-agent", "--match", "foo", "x"], ["export", "--tools", "foo"]],
)
def test_an_unknown_choice_is_answered_with_the_known_ones(words: list[str]) -> None:
    result = invoke(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert ": 'foo' is not one of '" in result.stderr
    assert "Value error" not in result.stderr


def test_only_a_command_that_takes_words_is_said_to_need_quotes() -> None:
    said = {words: invoke(*words).stderr for words in (("config", "set", "x"), ("show", "the", "login"))}
    assert "quotes" not in said["config", "set", "x"]
    assert "Put a text of several words in quotes." in " ".join(said["show", "the", "login"].split())
    assert invoke("show", "last", "last").stderr == "acp-proxy: show does not take: last. It takes one session.\n"


@pytest.mark.parametrize(
    ("agent", "adapter"),
    [
        (["claude"], "claude-agent-acp"),
        (["/opt/bin/claude", "--model", "opus"], "claude-agent-acp"),
        (["codex"], "codex-acp"),
    ],
)
def test_editor_refuses_a_program_that_does_not_speak_the_protocol_with_the_line_of_its_adapter(
    agent: list[str], adapter: str
) -> None:
    result = invoke("editor", "zed", "--no-record", "KEY=v", *agent)
    line = f"editor zed --no-record KEY=v npx -y @agentclientprotocol/{adapter}"
    assert (result.exit_code, result.stdout) == (2, "")
    assert line in " ".join(result.stderr.split())
    assert "agent_servers" in invoke(*line.split()).stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["search", "--long", "x"],  # not --json
            "there is no option --long. As a word: acp-proxy search -- --long. To see all: acp-proxy search --help",
        ),
        (
            ["search", "-foo"],
            "there is no option -foo. As a word: acp-proxy search -- -foo. To see all: acp-proxy search --help",
        ),
        (["show", "-xyz"], "there is no option -xyz. To see all: acp-proxy show --help"),
        (["list", "--branh", "x"], "there is no option --branh. Did you mean --branch?"),
        (["--foo"], "there is no option --foo. To see all: acp-proxy --help"),
        (["list", "-agent", "codex"], "there is no option -agent. Did you mean --agent?"),
        (["setup", "-undo"], "there is no option -undo. Did you mean --undo?"),
        (["search", "-agent=codex", "x"], "there is no option -agent=codex. Did you mean --agent=codex?"),
        (["list", "--limit"], "--limit needs a value after it."),
        (
            ["--store", "x", "list"],
            "there is no option --store. It goes after the command: acp-proxy list --store …",
        ),
        (
            ["--store", "list", "-a", "x", "import", "f"],
            "there is no option --store. It goes after the command: acp-proxy import --store …",
        ),
        (["setup", "--remove"], "there is no option --remove. Instead: --undo"),
        (["setup", "--uninstall", "--yes"], "there is no option --uninstall. Instead: --undo"),
        (["setup", "--agent", "one", "--edtor", "zed"], "there is no option --edtor. Did you mean --editor?"),
        (["doctor", "--agent", "opencode"], "there is no option --agent. Write: acp-proxy doctor opencode"),
        (["doctor", "--agent=pi acp", "--json"], "there is no option --agent. Write: acp-proxy doctor --json pi acp"),
        (["adopt", "--yes", "--agent", "pi", "acp"], "there is no option --agent. Write: acp-proxy adopt --yes pi acp"),
        (["editor", "--agent", "opencode", "zed"], "there is no option --agent. Write: acp-proxy editor zed opencode"),
        (
            ["editor", "--whole", "--agent", "pi"],
            "there is no option --agent. Write: acp-proxy editor --whole EDITOR pi",
        ),
        (
            ["editor", "--agent", "pi", "--registry", "r", "zed"],
            "there is no option --agent. To see all: acp-proxy editor --help",
        ),
        (["editor", "zed", "--agent", "opencode"], "there is no option --agent. Write: acp-proxy editor zed opencode"),
        (["editor", "zed", "--agent=pi acp"], "there is no option --agent. Write: acp-proxy editor zed pi acp"),
        (["editor", "zed", "--agent"], "there is no option --agent. Write: acp-proxy editor zed AGENT"),
        (["-H"], "there is no option -H. It goes after the command: acp-proxy list -H …"),
    ],
)
def test_an_unknown_option_is_told_with_those_that_are_near(words: list[str], told: str) -> None:
    result = invoke(*words)
    assert result.exit_code == 2
    assert result.stderr == f"acp-proxy: {told}\n"


@pytest.mark.parametrize(
    ("words", "agent"),
    [
        ("--agent opencode acp", "opencode acp"),
        ("--agent=opencode acp --dry-run", "opencode acp"),
        ("--yes --agent gemini --acp", "gemini --acp"),
        ("--agent npx -y @x/y --editor zed", "npx -y @x/y"),
        ("--agent opencode acp -y", "opencode acp"),
    ],
)
def test_setup_wants_the_agents_words_in_quotes(words: str, agent: str) -> None:
    result = invoke("setup", *words.split())
    assert result.exit_code == 2
    assert result.stderr.endswith(f" Put the agent's command in quotes: {shell_quote.join(['--agent', agent])}\n")


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("adopt opencode acp --dry-run", "--dry-run"),
        ("adopt acp-proxy run --store s opencode acp --yes", "--yes"),
        ("editor jetbrains opencode --whole", "--whole"),
        ("editor zed --recall KEY=v opencode --registry r", "--registry"),
        ("doctor OpenCode --json", "--json"),
        ("doctor run --store s chatty --timeout=3", "--timeout"),
        ("doctor chatty --help -- --json", "--help"),
    ],
)
def test_an_option_of_the_command_is_refused_after_the_agent(words: str, option: str) -> None:
    result = invoke(*words.split())
    assert (result.exit_code, result.stdout) == (2, "")
    advice = "write it before the agent. After -- it goes to the agent."
    assert result.stderr == f"acp-proxy: {option} is an option of acp-proxy {words.split()[0]}: {advice}\n"


@pytest.mark.parametrize("words", ["-- one --whole", "one -- --whole", "--recall -- one --whole"])
def test_after_two_dashes_every_option_goes_to_the_agent(words: str) -> None:
    result = invoke("editor", "zed", *words.split())
    assert result.exit_code == 0
    assert '"--whole"' in result.stdout


def test_a_word_like_an_option_is_a_word_after_two_dashes(tmp_path: Path) -> None:
    store_session(ProxyStore(tmp_path), "s", ("Why -agent fails", []))
    assert invoke("list", "--store", str(tmp_path), "--", "-agent").exit_code == 0


def test_a_word_that_is_no_command_is_answered_with_all_commands_or_as_an_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for word in ("settingz", "re"):  # several commands begin with re
        assert invoke(word).stderr.endswith("To see all: acp-proxy help\n")
    assert invoke("sync", "foo").stderr.startswith("acp-proxy: sync has no command 'foo'.")
    assert " --upgrade" in " ".join(invoke("upgrade").stderr.split())
    program = tmp_path / ("agent.cmd" if os.name == "nt" else "agent")
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    stderr = invoke("agent", "--acp").stderr
    assert stderr.endswith("To start an agent: acp-proxy run agent --acp\n")
    for words in ("opencode", "nosuchagent acp"):  # not on PATH, but clearly an agent
        stderr = invoke(*words.split()).stderr
        assert stderr.endswith(f"To start an agent: acp-proxy run {words}\n")
    assert "To start an agent" not in invoke("nosuchagent").stderr


def test_what_only_the_download_has_is_answered_with_how_to_remove_this_one() -> None:
    said = " ".join(invoke("self", "remove").stderr.split())
    removal = f"To remove this one: acp-proxy setup --undo, then {advise_uninstall()}"
    where = "It is only in the download that brings a Python of its own."
    assert said == f"acp-proxy: there is no command 'self'. {where} {removal}"
    assert "To upgrade this one: " in " ".join(invoke("self", "update").stderr.split())
    assert "download" not in invoke("sync", "self").stderr


@pytest.mark.parametrize("words", [[], ["sessions"], ["sync"]])
def test_a_group_alone_shows_its_help_on_stdout(words: list[str]) -> None:
    alone, asked = (invoke(*given) for given in (words, [*words, "--help"]))
    assert (alone.exit_code, alone.stdout, alone.stderr) == (0, asked.stdout, "")


def test_the_help_of_a_command_fits_a_screen_and_begins_with_an_example() -> None:
    for name in RootGroup.commands_by_name:
        stdout = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "80"}, terminal_width=80).stdout
        assert stdout.count("\n") <= 45, name
        if "Example" in stdout:
            assert stdout.index("Example") < stdout.index("Options:"), name
    assert CliRunner().invoke(app, terminal_width=80).stdout.count("\n") <= 40


@pytest.mark.parametrize("columns", [60, 80])
def test_a_help_breaks_no_name_at_its_hyphen_and_has_no_ranges(columns: int) -> None:
    for name in RootGroup.commands_by_name:
        stdout = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "80"}, terminal_width=columns).stdout
        _, _, text = stdout.partition("\n\n")  # after the usage
        assert re.findall(r".*\w-\n|.*\bx>=.*|.*<=x.*|.*\u2011.*", text) == [], name
    assert "  [default: 10]\n" in CliRunner().invoke(app, ["search", "--help"], terminal_width=100).stdout


def test_the_usage_of_a_command_that_starts_an_agent_takes_its_arguments() -> None:
    assert "Usage: acp-proxy run [OPTIONS] AGENT [ARGS]...\n" in invoke("run", "--help").stdout
    assert "Usage: acp-proxy doctor [OPTIONS] [AGENT [ARGS]...]\n" in invoke("doctor", "--help").stdout
    assert "Usage: acp-proxy show [OPTIONS] SESSION|FILE\n" in invoke("show", "--help").stdout
