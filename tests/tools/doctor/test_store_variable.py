"""A store that only a terminal's variable names is reported, with what to do."""

import tempfile
from pathlib import Path

import pytest

from acp_proxy.config import config_file
from acp_proxy.tools.doctor.store_variable import explain_store_variable


@pytest.fixture(autouse=True)
def usual(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The store without a variable, on a machine whose temporary directory is elsewhere."""
    monkeypatch.setattr("acp_proxy.store.store_root.find_default_root", lambda: tmp_path / "usual")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv(config_file.VARIABLE, str(tmp_path / "config.toml"))
    (tmp_path / "config.toml").touch()
    return tmp_path / "usual"


def explain(place: Path | str) -> str | None:
    return explain_store_variable({"ACP_PROXY_STORE": str(place)})


def test_a_store_in_a_variable_is_named_with_the_command_that_sets_it_everywhere(tmp_path: Path) -> None:
    place = tmp_path / "place"
    text = explain(place)
    assert text is not None
    assert text.startswith(f"ACP_PROXY_STORE is set to {place} here.")
    assert text.endswith(f"acp-proxy config set store {place}")
    (tmp_path / "config.toml").write_text('store = "place"')
    assert explain(place) is None


def test_without_the_variable_or_with_the_usual_store_in_it_nothing_is_said(usual: Path) -> None:
    assert explain_store_variable({}) is None
    assert explain("") is None
    assert explain(usual) is None


def test_a_store_among_temporary_files_is_to_be_left(tmp_path: Path) -> None:
    text = explain(tmp_path / "temporary" / "acp-proxy-demo-x" / "store")
    assert text is not None
    assert text.endswith("type: unset ACP_PROXY_STORE")


def test_a_broken_configuration_file_is_no_error_here(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("store = 1")
    assert "config set store" in str(explain(tmp_path / "place"))
