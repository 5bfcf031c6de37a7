"""``config`` shows where each value comes from, and the commands use the file's values."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from acp_proxy import open_store
from acp_proxy.config import config_file, options
from acp_proxy.config.config_file import VARIABLE
from tests import forked
from tests.cli.commands import invoke
from tests.stored import WholeStore, chunk, store_session


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "config.toml"
    monkeypatch.setenv(VARIABLE, str(file))
    for option in options.OPTIONS.values():
        monkeypatch.delenv(option.variable, raising=False)
    return file


def run(*words: str) -> Result:
    return invoke(*words)


def sources() -> dict[str, tuple[Any, str]]:
    told = json.loads(run("config", "--json").stdout)
    return {option["name"]: (option["value"], option["from"]) for option in told["options"]}


def test_each_value_is_shown_with_its_source(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text('redact = "keys"\ngrace = 2\nno-record = true\n')
    monkeypatch.setenv("ACP_PROXY_GRACE", "7")
    monkeypatch.setenv("ACP_PROXY_LOAD", "")
    found = sources()
    assert set(found) == set(options.OPTIONS)
    assert found["redact"] == ("keys", "file")
    assert found["no-record"] == (True, "file")
    assert found["grace"] == ("7", "environment")
    assert found["load"] == ("auto", "default")
    lines = run("config").stdout.splitlines()
    assert lines[0] == str(path)
    assert {"redact\tkeys\tfile", "grace\t7\tACP_PROXY_GRACE", "load\tauto\tdefault"} <= set(lines)


def test_an_option_is_explained(path: Path) -> None:
    path.write_text('load = "agent"\n')
    stdout = run("config", "load").stdout
    assert options.OPTIONS["load"].help_text in stdout
    assert ("auto, agent, store" in stdout, "agent  (file)" in stdout) == (True, True)
    for name, option in options.OPTIONS.items():
        assert option.help_text in run("config", name).stdout
    assert "now       false  (default)\n" in run("config", "recall").stdout
    assert "now       (not set)\n" in run("config", "also-list").stdout
    assert json.loads(run("config", "load", "--json").stdout)["value"] == "agent"
    assert [run("config", "get", name).stdout for name in ("load", "recall")] == ["agent\n", "false\n"]
    assert ("config unset load" in stdout, "config unset" in run("config", "list").stdout) == (True, False)
    assert (run("config", "lod").exit_code, "Did you mean load?" in run("config", "lod").stderr) == (2, True)
    assert "acp-proxy config set load store" in run("config", "load", "store").stderr


COMMENTED = """\
# mine
redact = "off"  # a # and a "quote"
grace = 5
"""


def test_set_and_unset_change_one_line_of_the_file(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("config", "set", "redact", "keys").stdout == f'redact = "keys"  in {path}\n'
    assert path.read_text() == 'redact = "keys"\n'
    path.write_text(COMMENTED)
    path.chmod(0o640)
    for words in ("redact keys", "grace 0.5", "no-record true", "bin-days 7"):
        assert run("config", "set", *words.split()).exit_code == 0
    after = COMMENTED.replace('"off"', '"keys"').replace("grace = 5", "grace = 0.5")
    assert path.read_text() == f"{after}no-record = true\nbin-days = 7\n"
    assert path.stat().st_mode & 0o777 == 0o640 or os.name == "nt"
    assert (sources()["no-record"], sources()["grace"]) == ((True, "file"), ("0.5", "file"))
    assert run("config", "unset", "no-record").stdout == f"no-record is removed from {path}\n"
    assert run("config", "unset", "no-record").stdout == f"no-record is not set in {path}\n"
    assert run("config", "unset", "bin-days").exit_code == 0
    assert path.read_text() == after
    monkeypatch.chdir(tmp_path)
    assert run("config", "set", "store", "here").stdout.startswith(f"store = {json.dumps(str(tmp_path / 'here'))}")
    monkeypatch.setenv("ACP_PROXY_GRACE", "7")
    assert "ACP_PROXY_GRACE is set" in run("config", "set", "grace", "2").stderr


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        ("", "set also-list \udcff", "is not UTF-8, so no file can have it. Set ACP_PROXY_ALSO_LIST instead"),
        ("", "set load never", "load takes one of auto, agent, store"),
        ("", "set no-record perhaps", "no-record takes false or true, not 'perhaps'"),
        ("", "set bin-days -3", "bin-days takes"),
        pytest.param("", f"set bin-days {'9' * 5000}", "bin-days takes", id="too many digits"),
        ("", "set agent-id me", "agent-id cannot be set here"),
        ("", "set lod auto", "Did you mean load?"),
        ("", "set load", "config set takes NAME VALUE"),
        ("", "get", "config get takes NAME, such as: acp-proxy config get redact"),
        ("", "get load x", "config get takes NAME"),
        ("", "sett load auto", "there is no option 'sett'. Did you mean set?"),
        ("", "reset redact", "there is no option 'reset'. Did you mean unset?"),
        ("", "--set", "there is no option '--set'. Did you mean set?"),
        ("", f"set store {__file__}", "is not a directory"),
        ("load = \n", "set load auto", "the file is not TOML"),
        ('load = """\nauto"""\n', "set load auto", "in a form that is not changed by a command"),
        ("store.x = 1\n", "unset store", "in a form that is not changed by a command"),
    ],
)
def test_a_wrong_value_or_file_changes_nothing(path: Path, text: str, words: str, said: str) -> None:
    path.write_text(text)
    result = run("config", *words.split())
    assert (result.exit_code, path.read_text()) == (2, text)
    assert said in " ".join(result.stderr.split())


@pytest.mark.parametrize("name", ["store", "redact", "registry", "grace"])
def test_an_empty_value_is_refused_with_the_way_to_unset_it(path: Path, name: str) -> None:
    for value in ("", " "):
        result = run("config", "set", name, value)
        assert (result.exit_code, path.exists()) == (2, False)
        assert f"To unset it: acp-proxy config unset {name}" in " ".join(result.stderr.split())


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_a_link_to_the_file_stays_one(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "dotfiles.toml"
    target.write_text("[table]\nx = 1")
    path.symlink_to(target)
    run("config", "set", "grace", "2")
    assert (path.is_symlink(), target.read_text()) == (True, "grace = 2\n[table]\nx = 1")


def test_a_missing_file_is_no_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = config_file.find_path()
    result = run("config")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(f"{path} (there is no such file)\n")


def test_everything_that_is_wrong_is_said(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text('lod = "agent"\nload = "never"\n')
    monkeypatch.setenv("ACP_PROXY_GRACE", "soon")
    result = run("config", "--json")
    assert result.exit_code == 2
    problems = json.loads(result.stdout)["problems"]
    assert [os.path.basename(problem.split(" ")[0]) for problem in problems] == [
        "config.toml,",
        "config.toml,",
        "ACP_PROXY_GRACE:",
    ]


@pytest.mark.parametrize("words", [("redact",), ("get", "redact"), ("set", "grace", "7"), ("unset", "grace")])
def test_a_command_about_one_option_says_what_is_wrong_in_the_file(path: Path, words: tuple[str, ...]) -> None:
    path.write_text('redct = "keys"\n')
    result = run("config", *words)
    assert (result.exit_code, result.stdout != "") == (2, True)
    assert "line 1: there is no option 'redct'. Did you mean redact?" in " ".join(result.stderr.split())
    assert "nothing is recorded" in " ".join(result.stderr.split())


def test_a_value_that_is_set_right_is_no_error_whatever_was_wrong_with_it(path: Path) -> None:
    path.write_text('redact = "no-such-file"\n')
    assert run("config", "set", "redact", "keys").exit_code == 0


def test_a_named_file_that_does_not_exist_is_an_error(path: Path) -> None:
    for words in (("config",), ("list",)):
        result = run(*words)
        assert result.exit_code == 2
        assert f"{VARIABLE} names {path}, which does not exist." in result.stderr.replace("\n", " ")


def test_a_named_file_that_does_not_exist_stops_no_agent_but_recording(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACP_PROXY_STORE", str(tmp_path / "store"))
    words = [sys.executable, "-m", "acp_proxy", "run", sys.executable, "-c", "print(input())"]
    line = b'{"jsonrpc":"2.0","method":"hello"}\n'
    result = forked.run(words, given=line, timeout=60, check=True)
    assert result.stdout.split() == line.split()
    assert f"{VARIABLE} names {path}, which does not exist." in result.stderr.decode()
    assert not (tmp_path / "store").exists()


def test_the_doctor_lists_what_is_wrong_in_the_file_and_checks_the_rest(path: Path) -> None:
    path.write_text('delete_mode = "soft"\nload = "never"\n')
    result = run("doctor", "--json")
    told = json.loads(result.stdout)
    one, two = (each["text"] for each in told["todo"] if str(path) in each["text"])
    assert (result.exit_code, told["isWell"], bool(told["versions"])) == (1, False, True)
    assert one == f"{path}, line 1: there is no option 'delete_mode'. Did you mean delete-mode?"
    assert two == f"{path}, line 2: load takes one of auto, agent, store, not 'never'."


def test_commands_and_programs_use_the_store_of_the_file(path: Path, tmp_path: Path) -> None:
    store = WholeStore(tmp_path / "kept")
    store_session(store, "s", ("mend it", [chunk("done")]))
    path.write_text('store = "kept"\n')
    assert run("path").stdout == f"{tmp_path / 'kept'}\n"
    assert run("list").stdout.startswith("s\t")
    assert open_store().path.samefile(tmp_path / "kept")
    other = str(tmp_path / "other")
    assert run("path", "--store", other).stdout == f"{other}\n"


def test_commands_refuse_a_wrong_file_but_show_their_help(path: Path) -> None:
    path.write_text("lod = 1\ngrace = true\n")
    result = run("list")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{path}, line 1: there is no option 'lod'. Did you mean load?" in result.stderr.replace("\n", " ")
    assert f"{path}, line 2: grace takes" in result.stderr.replace("\n", " ")
    assert run("list", "--help").exit_code == 0


@pytest.mark.parametrize("text", ['lod = 1\nload = "x"\nno-record = true\n', "redact = \n", ""])
def test_a_wrong_file_stops_no_agent(path: Path, text: str) -> None:
    path.write_text(text)
    words = [sys.executable, "-m", "acp_proxy", "run", sys.executable, "-c", "print(input())"]
    line = b'{"jsonrpc":"2.0","method":"hello"}\n'
    result = forked.run(words, given=line, timeout=60, check=True)
    assert result.stdout.split() == line.split()
    said = [line for line in result.stderr.decode().splitlines() if str(path) in line]
    assert len(said) == {0: 0, 1: 1, 3: 2}[text.count("\n")]
