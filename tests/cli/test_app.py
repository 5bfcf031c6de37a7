"""The commands as a whole."""

import pytest
from typer.testing import CliRunner

from acp_proxy import __version__
from acp_proxy.cli.app import app


def test_the_version_is_printed() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"acp-proxy {__version__}\n")


@pytest.mark.parametrize(
    "words", [["--help"], ["run", "--help"], ["sessions", "--help"], ["sessions", "list", "--help"]]
)
def test_help_is_no_error(words: list[str]) -> None:
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0
    assert "Usage" in result.stdout


@pytest.mark.parametrize("words", [["no-such-command"], ["--no-such-option"], ["doctor", "--no-such-option"]])
def test_a_wrong_usage_is_exit_2(words: list[str]) -> None:
    result = CliRunner().invoke(app, words)
    assert (result.exit_code, result.stdout) == (2, "")
