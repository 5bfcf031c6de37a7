"""The user's title wins until it is cleared, or its session is deleted."""

from pathlib import Path

import pytest

from acp_proxy.store.proxy_store import ProxyStore
from tests.cli.commands import get_error, get_json, get_stdout, list_titles, run
from tests.stored import find_files_with, store_session


@pytest.fixture
def store(tmp_path: Path) -> ProxyStore:
    store = ProxyStore(tmp_path / "store")
    named = {"sessionUpdate": "session_info_update", "title": "The agent's"}
    store_session(store, "named", ("mend it", [named]), at=2000.0)
    store_session(store, "unnamed", ("break it", []), at=1000.0)
    return store


def test_the_users_title_replaces_every_other_title(store: ProxyStore) -> None:
    assert list_titles(store) == ["The agent's", "break it"]
    assert get_stdout(store, "rename", "named", "Mine").startswith("Mine\n")
    assert get_stdout(store, "rename", "un", "Mine too").startswith("Mine too\n")
    assert list_titles(store) == ["Mine", "Mine too"]
    assert "Mine too" in get_stdout(store, "list")
    assert get_stdout(store, "show", "named").startswith("Mine\n")
    assert "Mine too" in run(store, "delete", "unnamed", answer="n\n").stderr


def test_the_session_that_got_the_title_is_named_as_pin_names_it(store: ProxyStore) -> None:
    named = get_stdout(store, "rename", "last", "## Mine")
    assert (named.splitlines()[0], named.splitlines()[1].split("  ")[:3]) == ("Mine", ["named", "agent", "/project"])
    assert get_stdout(store, "pin", "last").startswith(named)


def test_clear_restores_the_agents_title(store: ProxyStore) -> None:
    get_stdout(store, "rename", "named", "Mine")
    assert get_stdout(store, "rename", "named", "--clear").startswith("The agent's\n")
    assert list_titles(store) == ["The agent's", "break it"]
    assert find_files_with(store, "Mine") == []
    assert get_stdout(store, "rename", "named", "--clear").startswith("The agent's\n")


def test_a_title_is_one_line_of_printable_text_of_bounded_length(store: ProxyStore) -> None:
    get_stdout(store, "rename", "named", "  two\nlines\x1b[2J \x07and\u202e a\ttab ")
    assert list_titles(store)[0] == "two lines and a tab"
    assert run(store, "rename", "named", "x" * 500).stderr == ""
    for title in ("x" * 501, "word " * 1000):
        result = run(store, "rename", "named", title)
        assert (result.exit_code, result.stderr) == (0, "The title was cut: the longest has 500 characters.\n")
    assert len(list_titles(store)[0]) <= 500
    assert list_titles(store)[0].endswith("…")


def test_a_title_that_commands_take_for_the_newest_session_is_refused(store: ProxyStore) -> None:
    code, said = get_error(store, "rename", "named", " last ")
    assert (code, "Choose another title" in said) == (2, True)
    assert list_titles(store) == ["The agent's", "break it"]


@pytest.mark.parametrize(
    "words", [("named",), ("named", " \n"), ("named", "\x1b"), ("named", ""), ("named", "x", "--clear")]
)
def test_an_empty_title_changes_nothing(store: ProxyStore, words: tuple[str, ...]) -> None:
    code, said = get_error(store, "rename", *words)
    assert code == 2
    assert "--clear" in said
    assert list_titles(store) == ["The agent's", "break it"]


def test_deleting_a_session_deletes_the_words_of_its_titles(store: ProxyStore) -> None:
    for title in ("First words", "Second words"):
        get_stdout(store, "rename", "named", title)
    get_stdout(store, "rename", "unnamed", "Other words")
    assert find_files_with(store, "First words")
    get_stdout(store, "delete", "named", "--permanent", "--yes")
    assert find_files_with(store, "First words") == find_files_with(store, "Second words") == []
    assert list_titles(store) == ["Other words"]
    assert get_stdout(store, "verify") == "No damage found.\n"
    assert [row["sessionId"] for row in get_json(store, "list")] == ["unnamed"]


def test_a_wrong_variable_is_named_and_no_option_that_rename_lacks(
    store: ProxyStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ACP_PROXY_REDACT", str(tmp_path / "none"))
    result = run(store, "rename", "last", "A title")
    assert result.exit_code == 2
    assert result.stderr.startswith("acp-proxy: ACP_PROXY_REDACT takes off, keys, or a file of patterns: ")
