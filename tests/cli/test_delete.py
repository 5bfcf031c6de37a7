"""What a delete asks, refuses, removes and says."""

import os
import re
import signal
import sqlite3
import subprocess
import sys

import pytest

from acp_proxy.store.proxy_store import ProxyStore
from tests.cli.commands import get_json, get_stdout, list_ids, list_titles, run
from tests.stored import find_files_with, store_running_session, store_session
from tests.waiting import SECONDS


@pytest.fixture
def store(three_sessions: ProxyStore) -> ProxyStore:
    return three_sessions


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
        get_stdout(store, "delete", "other", "--yes")
        get_stdout(store, "delete", "s", "--yes", "--force")
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
    monkeypatch.setattr("acp_proxy.store.index_database._BUSY_MS", 50)
    store_session(store, "s", ("Mend it", []))
    assert "s" in list_ids(store)
    other = sqlite3.connect(store.root / "index.sqlite3", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    result = run(store, "delete", "s", "--yes")
    assert (result.exit_code, "Deleted." in result.stdout, "next list" in result.stderr) == (0, True, True)
    other.execute("ROLLBACK")
    other.close()
    assert "s" not in list_ids(store)


def test_several_sessions_are_deleted_after_one_question(store: ProxyStore) -> None:
    result = run(store, "delete", "abc-1", "abc-2", "abc-1", answer="n\n")
    assert result.exit_code == 1
    assert "Delete these 2? They can be restored for 30 days. [y/N]" in result.stderr
    assert len(list_titles(store)) == 3
    assert run(store, "delete", "abc-1", "abc-2", answer="y\n").exit_code == 0
    assert list_titles(store) == ["the words of xyz"]


def test_the_question_says_whether_the_delete_is_permanent(store: ProxyStore) -> None:
    soft, permanent = "Delete it? It can be restored for 30 days.", "Delete it permanently?"
    for words, said in (((), soft), (("--soft",), soft), (("--permanent",), permanent)):
        stderr = run(store, "delete", "xyz", *words, answer="n\n").stderr
        assert said in stderr
        assert re.search(r"  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\n", stderr)  # as show has it
    assert run(store, "delete", "xyz", "--soft", "--permanent").exit_code == 2


def test_with_bin_days_0_every_delete_is_permanent(store: ProxyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACP_PROXY_BIN_DAYS", "0")
    assert "Delete it permanently?" in run(store, "delete", "xyz", answer="n\n").stderr
    assert get_stdout(store, "delete", "xyz", "--yes").endswith("Deleted permanently.\n")
    assert get_json(store, "restore") == []
    for words in (("delete", "abc-1", "--soft"), ("prune", "--keep", "0", "--soft")):
        assert "bin-days is 0" in run(store, *words, "--yes").stderr
    assert len(list_titles(store)) == 2


def test_a_wrong_variable_is_named_and_no_option_that_delete_lacks(
    store: ProxyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACP_PROXY_BIN_DAYS", "abc")
    result = run(store, "delete", "xyz", "--yes")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "acp-proxy: ACP_PROXY_BIN_DAYS takes a number of days, at most 36500, not 'abc'\n"


def test_a_soft_deleted_session_is_deleted_permanently_only_if_that_is_asked_for(store: ProxyStore) -> None:
    get_stdout(store, "delete", "xyz", "--yes")
    assert "acp-proxy delete --permanent xyz" in run(store, "delete", "xyz", "--yes").stderr
    assert [row["sessionId"] for row in get_json(store, "restore")] == ["xyz"]
    get_stdout(store, "delete", "xyz", "--permanent", "--yes")
    assert get_json(store, "restore") == []
    none, advice = "acp-proxy: no deleted session can be restored", "To see those that are not deleted: acp-proxy list"
    assert run(store, "restore", "last").stderr == f"{none}. {advice}\n"
    named = run(store, "restore", "nope").stderr
    assert " ".join(named.split()) == f"{none}, so none matches 'nope'. {advice}"


def test_ctrl_c_at_the_question_deletes_nothing_and_exits_with_130(store: ProxyStore) -> None:
    command = [sys.executable, "-m", "acp_proxy", "delete", "xyz", "--store", str(store.root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as asking:
        assert asking.stderr is not None
        said = b""
        while not said.endswith(b"]:"):
            said += (byte := os.read(asking.stderr.fileno(), 1))
            assert byte, said
        asking.send_signal(signal.SIGINT)
        assert asking.wait(SECONDS) == 130
        more = asking.stderr.read()
    # The signal may interrupt the write: then the question is still in the buffer, and is written again.
    assert more.removeprefix(said.splitlines()[-1]).decode().split() == ["Nothing", "was", "changed."]
    assert len(list_titles(store)) == 3


def test_without_a_terminal_nothing_is_deleted_unless_yes(store: ProxyStore) -> None:
    for words in (("delete", "abc-1"), ("prune", "--keep", "1")):
        result = run(store, *words)
        assert (result.exit_code, result.stdout.strip()) == (1, "")
        assert "?" in result.stderr
        assert "--yes" in result.stderr
    assert len(list_titles(store)) == 3


def test_an_unknown_session_stops_the_delete_of_the_others(store: ProxyStore) -> None:
    assert run(store, "delete", "abc-1", "nobody", "--yes").exit_code == 1
    assert len(list_titles(store)) == 3


def test_a_soft_deleted_session_is_deleted_permanently_by_its_id(store: ProxyStore) -> None:
    get_stdout(store, "rename", "abc-1", "The words of mine")
    get_stdout(store, "delete", "abc-1", "abc-2", "--soft", "--yes")
    assert run(store, "delete", "abc-1", "--soft", "--yes").exit_code == 1
    assert run(store, "delete", "abc", "--yes").exit_code == 1
    assert "words of mine" in run(store, "delete", "abc-1", "--permanent", answer="n\n").stderr
    assert "the words of abc-2" in run(store, "delete", "abc-2", "--permanent", answer="n\n").stderr
    assert len(get_json(store, "restore")) == 2
    get_stdout(store, "delete", "abc-1", "--permanent", "--yes")
    assert find_files_with(store, "the words of abc-1") == find_files_with(store, "The words of mine") == []
    assert [row["sessionId"] for row in get_json(store, "restore")] == ["abc-2"]
    assert run(store, "delete", "abc-1", "--yes").exit_code == 1


def test_a_prefix_of_a_listed_session_never_matches_a_deleted_one(store: ProxyStore) -> None:
    store_session(store, "abc-3", ("more", []))
    get_stdout(store, "delete", "abc-3", "--soft", "--yes")
    assert run(store, "delete", "abc", "--yes").exit_code == 1
    assert len(list_titles(store)) == 3
    assert len(get_json(store, "restore")) == 1
