"""The help of ``run`` and ``chain``: the common options, or all of them."""

import re

from acp_proxy.cli.run_help import COMMON, PANELS
from acp_proxy.config import options
from tests.cli.commands import invoke

ALL = set(options.OPTIONS)


def read_help(asked: str, command: str = "run") -> tuple[str, set[str]]:
    """The help text, and the options in it."""
    result = invoke(command, asked)
    assert result.exit_code == 0
    return result.stdout, set(re.findall(r"^  --([a-z-]+)", result.stdout, re.MULTILINE)) - {"help-all"}


def test_every_option_is_either_common_or_in_one_panel() -> None:
    placed = [*COMMON, *(name for names in PANELS.values() for name in names)]
    assert (len(placed), set(placed)) == (len(ALL), ALL)


def test_help_shows_the_common_options_and_names_help_all() -> None:
    text, names = read_help("--help")
    assert names == set(COMMON)
    assert "--help-all" in text


def test_help_all_shows_every_option_by_panel() -> None:
    text, names = read_help("--help-all")
    assert names == ALL
    sections = re.findall(r"^(\w[\w ]*):$", text, re.MULTILINE)
    assert sections == ["Arguments", "Options", *PANELS]


def test_chain_has_the_options_of_run_but_those_about_the_agents_process() -> None:
    assert read_help("--help", "chain")[1] == set(COMMON)
    text, names = read_help("--help-all", "chain")
    assert names == ALL - {"grace", "registry"}
    assert "Arguments:" not in text
