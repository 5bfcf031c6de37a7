"""What a delete asks, refuses, removes and says."""

import sqlite3

import pytest

from acp_proxy.store.proxy_store import ProxyStore
from tests.cli.commands import ids, printed, run
from tests.stored import store_running_session, store_session


def test_delete_asks_and_needs_a_yes(store: ProxyStore) -> None:
    path = store_session(store, "s", ("Mend it", []))
    for answer in ("n\n", "\n", ""):
        result = run(store, "delete", "s", answer=answer)
        assert result.exit_code == 1
        assert "Mend it" in result.stderr
        assert path.exists()
    assert run(store, "delete", "s", answer="y\n").exit_code == 0
    assert not path.exists()


def test_a_mistyped_answer_is_explained_and_asked_again(store: ProxyStore) -> None:
    path = store_session(store, "s", ("Mend it", []))
    result = run(store, "delete", "s", answer="what\nno\n")
    assert (result.exit_code, path.exists()) == (1, True)
    assert "Type y for yes, or n for no. Enter alone means no.\n" in result.stderr
    assert result.stderr.count("[y/N]") == 2
    assert "[y/N]:\nNothing was changed.\n" in result.stderr  # only a terminal shows what was typed
    assert run(store, "delete", "s", answer="yess\n YES \n").exit_code == 0
    assert not path.exists()


def test_delete_with_yes_refuses_a_running_session_without_force(store: ProxyStore) -> None:
    other = store_session(store, "other", ("Mend it", []))
    with store_running_session(store, "s", "Break it") as path:
        result = run(store, "delete", "other", "s", "--yes")
        assert (result.exit_code, result.stdout) == (1, "")
        assert [" ".join(line.split()) for line in result.stderr.splitlines()] == [
            "acp-proxy: the turn of a session is running, so nothing was deleted:",
            "ID TITLE AGENT DIRECTORY WHEN TURNS",
            "s Break it agent /project running 1",
            "Wait until the turn ends, or add --force.",
        ]
        assert path.exists()
        assert other.exists()
        printed(store, "delete", "other", "--yes")
        printed(store, "delete", "s", "--yes", "--force")
        assert not path.exists()


def test_the_question_says_that_a_session_is_running(store: ProxyStore) -> None:
    with store_running_session(store, "s", "Break it") as path:
        for words in (("delete", "s"), ("delete", "s", "--force")):
            result = run(store, *words, answer="n\n")
            assert result.exit_code == 1
            assert "Its turn is running. The rest of it will not be recorded." in result.stderr
            assert path.exists()
        assert run(store, "delete", "s", answer="y\n").exit_code == 0
        assert not path.exists()


def test_a_delete_with_a_locked_index_says_that_the_next_list_updates_it(
    store: ProxyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acp_proxy.store.index._BUSY_MS", 50)
    store_session(store, "s", ("Mend it", []))
    assert ids(store) == ["s"]
    other = sqlite3.connect(store.root / "index.sqlite3", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    result = run(store, "delete", "s", "--yes")
    assert (result.exit_code, "Deleted." in result.stdout, "next list" in result.stderr) == (0, True, True)
    other.execute("ROLLBACK")
    other.close()
    assert ids(store) == []
