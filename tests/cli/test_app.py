"""The commands as a whole."""

import pytest
from typer.testing import CliRunner

from acp_proxy import __version__
from acp_proxy.cli.app import app


def test_the_version_is_printed() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"acp-proxy {__version__}\n")


@pytest.mark.parametrize(
    "words", [[], ["run"], ["editor"], ["doctor"], ["sessions"], ["sessions", "list"], ["mock-agent"]]
)
@pytest.mark.parametrize("asked", ["-h", "--help"])
def test_help_exits_with_0(words: list[str], asked: str) -> None:
    result = CliRunner().invoke(app, [*words, asked])
    assert result.exit_code == 0
    assert "Usage" in result.stdout


@pytest.mark.parametrize("words", [["no-such-command"], ["--no-such-option"], ["doctor", "--no-such-option"]])
def test_wrong_usage_exits_with_2(words: list[str]) -> None:
    result = CliRunner().invoke(app, words)
    assert (result.exit_code, result.stdout) == (2, "")


@pytest.mark.parametrize(
    "words",
    [["editor", "foo", "agent"], ["mock-agent", "--match", "foo", "x"], ["sessions", "export", "--tools", "foo"]],
)
def test_an_unknown_choice_is_answered_with_the_known_ones(words: list[str]) -> None:
    result = CliRunner().invoke(app, words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert ": 'foo' is not one of '" in result.stderr
    assert "Value error" not in result.stderr
