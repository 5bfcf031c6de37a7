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
def test_help_is_no_error(words: list[str], asked: str) -> None:
    result = CliRunner().invoke(app, [*words, asked])
    assert result.exit_code == 0
    assert "Usage" in result.stdout


@pytest.mark.parametrize("words", [["no-such-command"], ["--no-such-option"], ["doctor", "--no-such-option"]])
def test_a_wrong_usage_is_exit_2(words: list[str]) -> None:
    result = CliRunner().invoke(app, words)
    assert (result.exit_code, result.stdout) == (2, "")


@pytest.mark.parametrize(
    "words",
    [["editor", "foo", "agent"], ["mock-agent", "--match", "foo", "x"], ["sessions", "export", "--tools", "foo"]],
)
def test_a_choice_that_there_is_not_is_answered_with_those_that_there_are(words: list[str]) -> None:
    result = CliRunner().invoke(app, words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert ": 'foo' is not one of '" in result.stderr
    assert "Value error" not in result.stderr
