"""Recognising ``run`` in a command line, and its absence."""

import sys
import zipfile
from pathlib import Path

import pytest

from acp_proxy.errors import UsageError
from acp_proxy.tools.editors.command_line import (
    count_own_words,
    find_words_after_run,
    lacks_run,
    may_exist,
    mentions_proxy,
    split_line,
)


@pytest.mark.parametrize(
    ("line", "agent_words"),
    [
        ("acp-proxy run npx x", "npx x"),
        ("/opt/bin/acp-proxy run --load store x", "--load store x"),
        (r"C:\bin\ACP-Proxy.exe run x", "x"),
        ("uvx acp-proxy@0.1 run x", "x"),
        ("uvx --from acp-proxy==1.2 acp-proxy run x", "x"),
        ("python3 -m acp_proxy run x", "x"),
        ("python3 -P -m acp_proxy run x", "x"),
        ("cmd /c acp-proxy.cmd run x", "x"),
    ],
)
def test_the_words_after_run_are_found(line: str, agent_words: str) -> None:
    assert find_words_after_run(line.split()) == agent_words.split()
    assert not lacks_run(line.split())


@pytest.mark.parametrize(
    "line",
    [
        "acp-proxy",
        "acp-proxy foo",
        "/opt/bin/acp-proxy foo",
        "acp-proxy --store x run foo",
        "uvx acp-proxy@0.1 foo",
        "pipx run acp-proxy foo",
        "python3.11 -m acp_proxy foo",
        "env KEY=a=b acp-proxy==1.2 foo",
    ],
)
def test_a_missing_run_is_found(line: str) -> None:
    assert find_words_after_run(line.split()) is None
    assert lacks_run(line.split())


@pytest.mark.parametrize(
    "line",
    [
        "npx x",
        "npx x --cwd /home/user/acp-proxy y",
        "codex acp-proxy",
        "acp-proxy mock-agent x.jsonl",
        "uv run --directory acp-proxy agent",
        "python3 /src/acp-proxy/agent.py",
        "python3 -m acp_proxy.agent",
        "env /src/acp-proxy",
        "uv run",
    ],
)
def test_other_commands_lack_nothing(line: str) -> None:
    assert find_words_after_run(line.split()) is None
    assert not lacks_run(line.split())


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("acp-proxy run x", 1),
        (r"C:\bin\acp-proxy.exe run x", 1),
        ("/opt/acp-proxy-linux-x86_64 run x", 1),
        ("/opt/bin/uvx acp-proxy@0.1 run x", 2),
        ("pipx run acp-proxy run x", 3),
        ("/usr/bin/python3.13 /opt/acp-proxy.pyz run x", 2),
        ("python3 -P -m acp_proxy run x", 4),
        ("python3 -m acp_proxy run x", 3),
        ("env KEY=v acp-proxy run x", None),
        ("nice -n 5 acp-proxy run x", None),
        ("ssh host acp-proxy run x", None),
        ("uvx --with x acp-proxy run x", None),
        ("python3 /src/acp-proxy run x", None),
        ("python3 -c x acp-proxy run x", None),
        ("agent acp-proxy run", None),
    ],
)
def test_only_the_words_that_setup_writes_are_acp_proxys_own(line: str, count: int | None) -> None:
    assert count_own_words(line.split()) == count
    assert mentions_proxy(line.split())


def test_a_zipapp_of_any_name_is_acp_proxy_and_a_checkout_is_not(tmp_path: Path) -> None:
    path = tmp_path / "acp-proxy"
    path.mkdir()
    assert count_own_words([sys.executable, str(path), "run", "x"]) is None
    path.rmdir()
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("__main__.py", "")
    assert count_own_words([sys.executable, str(path), "run", "x"]) == 2


def test_another_program_of_the_name_lacks_no_run(tmp_path: Path) -> None:
    program = tmp_path / "acp-proxy"
    for content, is_other in ((b"#!/bin/sh\n", True), (b"MZ" + bytes(9999) + b"import acp_proxy", False)):
        program.write_bytes(content)
        program.chmod(0o755)
        assert lacks_run([str(program), "serve"]) is not is_other


def test_acp_proxy_is_found_in_a_line_for_a_shell() -> None:
    assert mentions_proxy(["sh", "-c", "KEY=v '/opt/acp-proxy' run agent"])
    for words in ([], ["agent", "--cwd", "/src/acp-proxy"], ["sh", "-c", "my-acp-proxy run"], ["acp-proxyrun", "run"]):
        assert not mentions_proxy(words)


def test_a_line_in_one_argument_is_split() -> None:
    assert split_line(["acp-proxy run 'an agent' --acp"]) == ["acp-proxy", "run", "an agent", "--acp"]


def test_a_single_word_is_not_split(tmp_path: Path) -> None:
    program = tmp_path / "an agent"
    program.touch()
    for words in (["agent"], ["an agent", "--acp"], [str(program)], ["an\u00e4gent "]):
        assert split_line(words) == words


def test_a_program_of_path_with_a_space_in_its_name_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my agent").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert split_line(["my agent"]) == ["my agent"]


def test_a_line_whose_quotes_do_not_close_is_refused() -> None:
    with pytest.raises(UsageError, match="acp-proxy run 'x"):
        split_line(["acp-proxy run 'x"])


def test_a_program_may_exist_unless_a_name_or_an_absolute_path_leads_nowhere(tmp_path: Path) -> None:
    name = Path(sys.executable).name
    assert may_exist(sys.executable, "")
    assert may_exist(name, str(Path(sys.executable).parent))
    assert not may_exist(name, str(tmp_path))
    assert not may_exist(str(tmp_path / "none"), None)
    assert not may_exist("no-such-program", None)
    assert may_exist("bin/agent", None)  # below the editor's directory
    assert may_exist("${HOME}/bin/agent", None)
    assert not may_exist("~/no-such-agent", None)  # nobody expands the ~


def test_a_line_with_an_open_quotation_mark_is_refused_with_what_to_do() -> None:
    with pytest.raises(UsageError, match="Close each quotation mark that it opens"):
        split_line(["npx -y '@x"])
