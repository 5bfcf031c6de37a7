"""What commands say when there is nothing to show or to do, or when a word is wrong."""

from pathlib import Path

import pytest

from tests.cli.commands import get_error, invoke, run
from tests.stored import WholeStore, store_session


@pytest.fixture
def store(tmp_path: Path) -> WholeStore:
    store = WholeStore(tmp_path / "store")
    store_session(store, "s", ("mend it", []))
    return store


def test_an_empty_list_names_the_way_back_from_a_soft_delete(store: WholeStore) -> None:
    run(store, "delete", "s", "--soft", "--yes")
    assert "All sessions are deleted. To bring one back: acp-proxy restore" in run(store, "list").stderr
    assert "acp-proxy restore SESSION" in run(store, "restore").stderr


def test_unarchive_says_if_nothing_was_archived(store: WholeStore) -> None:
    assert "it was not archived" in run(store, "unarchive", "s").stdout


def test_a_period_that_ends_before_it_begins_is_refused(store: WholeStore) -> None:
    assert "--until is before --since" in get_error(store, "list", "--since", "yesterday", "--until", "7d")[1]


def test_a_period_without_length_is_refused(store: WholeStore) -> None:
    code, said = get_error(store, "list", "--since", "2026-11-30 23:59", "--until", "2026-11-30 23:59")
    assert (code, "the same moment" in said, "Exchange" in said) == (2, True, False)


def test_a_title_needs_no_quotes(store: WholeStore) -> None:
    assert run(store, "rename", "s", "The", "new", "login").stdout.startswith("The new login\n")


def test_prune_says_how_to_undo_a_soft_delete(store: WholeStore) -> None:
    result = run(store, "prune", "--keep", "0", "--soft", answer="y\n")
    assert "Delete this 1 session" in result.stderr
    assert "acp-proxy restore" in result.stderr


def test_a_missing_store_of_the_configuration_file_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "config.toml"
    file.write_text('store = "elsewhere"')
    monkeypatch.setenv("ACP_PROXY_CONFIG", str(file))
    assert f"{file} names it" in invoke("list").stderr


def test_toad_has_a_command_instead_of_a_file() -> None:
    assert invoke("editor", "toad", "opencode", "acp").stdout.startswith("toad acp ")
