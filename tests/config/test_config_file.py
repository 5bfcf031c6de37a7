"""The configuration file is read by the rules of its options; what is wrong in it stops no agent."""

import os
import re
from pathlib import Path

import platformdirs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.config import config_file, options
from acp_proxy.errors import UsageError


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "config.toml"
    monkeypatch.setenv(config_file.VARIABLE, str(file))
    return file


def read(path: Path, text: str) -> tuple[dict[str, str], list[str]]:
    path.write_text(text, encoding="utf-8", newline="")
    return config_file.read(str(path))


def wrong(path: Path, text: str) -> str:
    """The only problem, without the file's name."""
    _, [problem] = read(path, text)
    assert problem.startswith(str(path))
    return problem.removeprefix(str(path))


def test_the_file_is_where_platformdirs_finds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("/elsewhere", "", None):
        if folder is None:
            monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
        else:
            monkeypatch.setenv("XDG_CONFIG_HOME", folder)
        found = platformdirs.user_config_dir("acp-proxy", appauthor=False, roaming=True)
        environment = {name: value for name, value in os.environ.items() if name != config_file.VARIABLE}
        assert config_file.find_path(environment) == os.path.join(found, "config.toml")


def test_each_system_has_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert config_file.find_path({}, "linux") == "/home/ada/.config/acp-proxy/config.toml"
    assert config_file.find_path({}, "darwin") == "/home/ada/Library/Application Support/acp-proxy/config.toml"
    assert config_file.find_path({"XDG_CONFIG_HOME": "x"}, "linux") == "/home/ada/.config/acp-proxy/config.toml"
    assert config_file.find_path({"APPDATA": "/appdata"}, "win32") == "/appdata/acp-proxy/config.toml"
    assert config_file.find_path({config_file.VARIABLE: "/other.toml"}, "linux") == "/other.toml"


def test_a_missing_file_is_empty(path: Path) -> None:
    assert config_file.read(str(path)) == ({}, [])
    assert config_file.read(str(path / "below")) == ({}, [])


def test_every_option_has_a_key_but_the_name_of_one_agent(path: Path) -> None:
    for name, option in options.OPTIONS.items():
        value = "true" if option.is_flag else f'"{option.default or "/somewhere"}"'
        values, problems = read(path, f"{name} = {value}")
        assert (list(values), bool(problems)) == (([], True) if name == "agent-id" else ([name], False))


def test_flags_numbers_and_paths_have_the_forms_of_toml(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    text = 'no-record = true\nno-synthesize = false\ngrace = 2.5\nreplay-tool-limit = 0\nstore = "~/sessions"\n'
    assert read(path, text) == (
        {
            "no-record": "1",
            "no-synthesize": "",
            "grace": "2.5",
            "replay-tool-limit": "0",
            "store": os.path.expanduser("~/sessions"),
        },
        [],
    )
    (path.parent / "patterns").write_text("x+\n")
    assert read(path, 'redact = "patterns"\nstore = "here"\n') == (
        {"redact": str(path.parent / "patterns"), "store": str(path.parent / "here")},
        [],
    )


def test_a_wrong_value_is_named_by_file_line_and_key_and_the_rest_counts(path: Path) -> None:
    values, [one, two, three] = read(path, '# mine\nload = "never"\ndelete-mode = "soft"\nlod = "x"\n[grace]\na = 1\n')
    assert values == {"delete-mode": "soft"}
    assert one == f"{path}, line 2: load takes one of auto, agent, store, not 'never'."
    assert two == f"{path}, line 4: there is no option 'lod'. Did you mean load?"
    assert three.startswith(f"{path}, line 5: grace takes ")


def test_a_value_with_a_nul_character_is_wrong(path: Path) -> None:
    assert wrong(path, 'store = "a\\u0000b"') == ", line 1: store cannot have a NUL character in it."


@pytest.mark.parametrize("value", ["true", "5", '["a"]', "2020-01-01", "{a = 1}"])
def test_a_value_of_the_wrong_type_is_wrong(path: Path, value: str) -> None:
    assert wrong(path, f"load = {value}").startswith(", line 1: load takes a text in quotes, not ")


@pytest.mark.parametrize(
    "text",
    [
        'redact = "/no/such/file"',
        'redact = "a\\u0000b"',
        "redact = true",
        'no-record = "maybe"',
        "no_record = true",
        'redakt = "keys"',
        'REDACT = "keys"',
        'ACP_PROXY_REDACT = "keys"',
        "ACP_PROXY_NO_RECORD = true",
        '[run]\nredact = "keys"',
        "no-record = 1",
        "redact = ",
        "\xff",
        "a = [" * 9999,
    ],
)
def test_nothing_is_recorded_if_the_file_does_not_say_whether_to_record_or_to_redact(path: Path, text: str) -> None:
    path.write_bytes(text.encode("latin-1"))
    values, [problem] = config_file.read(str(path))
    assert values == {"no-record": "1"}
    assert problem.endswith("Until it is correct, nothing is recorded.")


def test_a_byte_order_mark_is_no_mistake(path: Path) -> None:
    assert read(path, '\ufeffload = "agent"\r\n') == ({"load": "agent"}, [])


def test_the_message_about_a_broken_file_has_its_line(path: Path) -> None:
    assert re.search(r"line 2, column \d+", wrong(path, "a = 1\nb = \n"))


@given(st.binary() | st.text().map(str.encode))
def test_any_bytes_are_read(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(data)
    values, problems = config_file.read(str(path))
    assert set(values) <= set(options.OPTIONS)
    assert all(isinstance(problem, str) for problem in problems)


def test_options_win_over_the_environment_and_that_over_the_file() -> None:
    file = {"load": "agent", "list": "agent", "no-record": "1"}
    environment = {"ACP_PROXY_LOAD": "store", "ACP_PROXY_LIST": "store", "ACP_PROXY_NO_RECORD": "0"}
    assert options.parse(["a"], {}, file)[0]["load"] == "agent"
    given, _ = options.parse(["--list", "auto", "a"], environment, file)
    assert (given["load"], given["list"], given["no-record"]) == ("store", "auto", "")


def test_an_unknown_key_gets_the_option_that_was_meant_or_the_way_to_see_all(path: Path) -> None:
    assert wrong(path, "delete_mode = 1").endswith("'delete_mode'. Did you mean delete-mode?")
    assert wrong(path, "xyzzy = 1").endswith("'xyzzy'. To see all: acp-proxy config")


def test_commands_refuse_a_wrong_file(path: Path) -> None:
    path.write_text("lod = 1")
    with pytest.raises(UsageError, match="line 1: there is no option 'lod'"):
        config_file.read_valid()
