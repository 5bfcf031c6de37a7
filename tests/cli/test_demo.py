"""The demo ends with 0 when the main job works, and with 1 when it does not."""

import pytest
from typer.testing import CliRunner

from acp_proxy.cli.app import app


def test_the_demo_walks_through_the_main_job_and_says_what_comes_next() -> None:
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 0, result.stdout
    assert "session/list" in result.stdout
    assert "session/load" in result.stdout
    assert result.stdout.splitlines()[-1].strip().startswith("acp-proxy editor")
    assert all(one.isprintable() or one == "\n" for one in result.stdout)


def test_a_demo_that_fails_says_so_and_ends_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACP_PROXY_NO_RECORD", "1")  # then the proxy has nothing to offer
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 1
    assert "failed" in result.stdout
