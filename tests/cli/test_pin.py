"""A pinned session is marked in lists, and prune leaves it alone, until it is unpinned or deleted."""

from pathlib import Path

import pytest

from acp_proxy.store.proxy_store import ProxyStore
from tests.cli.commands import get_error, get_json, get_stdout, list_ids, run
from tests.cli.terminal import run_on_terminal
from tests.stored import make_store_of_three, store_session


@pytest.fixture
def store(tmp_path: Path) -> ProxyStore:
    return make_store_of_three(tmp_path / "store")


def test_a_pinned_session_is_marked_and_listed_alone(store: ProxyStore) -> None:
    assert run(store, "list", "--pinned").stderr.startswith("No session matches.")
    assert get_stdout(store, "pin", "two").endswith("Pinned.\n")
    assert (list_ids(store), list_ids(store, "--pinned")) == (["three", "two", "one"], ["two"])
    assert {row["sessionId"]: row["isPinned"] for row in get_json(store, "list")} == {
        "one": False,
        "two": True,
        "three": False,
    }
    screen = run_on_terminal("list", "--store", str(store.root), columns=120)
    assert "pinned · mend two" in screen
    assert screen.count("pinned") == 1
    assert get_stdout(store, "unpin", "two").endswith("Unpinned.\n")
    assert list_ids(store, "--pinned") == []


def test_prune_leaves_pinned_sessions_and_does_not_count_them(store: ProxyStore) -> None:
    get_stdout(store, "pin", "one")
    get_stdout(store, "prune", "--keep", "1", "--yes")
    assert list_ids(store) == ["three", "one"]
    get_stdout(store, "prune", "--keep", "0", "--yes")
    assert list_ids(store) == ["one"]
    get_stdout(store, "unpin", "one")
    get_stdout(store, "prune", "--keep", "0", "--yes")
    assert list_ids(store) == []


@pytest.mark.parametrize("how", ["--soft", "--permanent"])
def test_a_delete_unpins_for_another_session_of_the_id(store: ProxyStore, how: str) -> None:
    get_stdout(store, "pin", "one")
    get_stdout(store, "delete", "one", how, "--yes")
    store_session(store, "one", ("again", []))
    assert list_ids(store, "--pinned") == []


def test_a_restored_session_is_pinned_again(store: ProxyStore) -> None:
    get_stdout(store, "pin", "one")
    for _ in range(2):
        get_stdout(store, "delete", "one", "--yes")
        assert list_ids(store, "--pinned") == []
        get_stdout(store, "restore", "one")
        assert list_ids(store, "--pinned") == ["one"]
    get_stdout(store, "unpin", "one")
    get_stdout(store, "delete", "one", "--yes")
    get_stdout(store, "restore", "one")
    assert list_ids(store, "--pinned") == []


def test_a_pinned_session_is_pinned_again_beside_a_newer_one_of_its_id(store: ProxyStore) -> None:
    get_stdout(store, "pin", "one")
    store_session(store, "one", ("newer", []), at=9000.0)
    get_stdout(store, "delete", "one~1", "--yes")
    get_stdout(store, "restore", "last")
    assert [row["title"] for row in get_json(store, "list", "--pinned")] == ["mend one"]
    get_stdout(store, "delete", "one~1", "--permanent", "--yes")
    assert list_ids(store, "--pinned") == []


def test_pinning_twice_changes_nothing_more(store: ProxyStore) -> None:
    get_stdout(store, "pin", "two")
    assert get_stdout(store, "pin", "two").endswith("Nothing changed: it was already pinned.\n")
    [journal] = store.root.rglob("state.jsonl")
    assert journal.read_text().count("\n") == 1
    assert get_stdout(store, "unpin", "one").endswith("Nothing changed: it was not pinned.\n")
    assert get_error(store, "pin", "one", "nobody")[0] == 1
    assert list_ids(store, "--pinned") == ["two"]


def test_unpin_without_a_session_lists_the_pinned_ones(store: ProxyStore) -> None:
    assert (run(store, "unpin").exit_code, run(store, "unpin").stderr) == (0, "No session is pinned.\n")
    get_stdout(store, "pin", "two")
    result = run(store, "unpin")
    assert (result.exit_code, result.stdout.split("\t")[:2]) == (0, ["two", "mend two"])
    assert (result.stdout.count("\n"), result.stderr) == (1, "To unpin one: acp-proxy unpin SESSION\n")
    assert list_ids(store, "--pinned") == ["two"]


def test_a_message_names_a_session_by_its_short_id(tmp_path: Path) -> None:
    store, long = ProxyStore(tmp_path / "other"), "0123456789abcdef0123"
    store_session(store, long, ("mend it", []))
    for words in (["pin"], ["archive"], ["unarchive"], ["delete", "--yes"]):
        said = get_stdout(store, words[0], long, *words[1:]).partition(" back")[
            0
        ]  # what brings it back has the whole id
        assert ("01234567" in said, long in said) == (True, False)


def test_a_session_whose_id_is_used_again_stays_pinned(store: ProxyStore) -> None:
    get_stdout(store, "pin", "one")
    store_session(store, "one", ("another with this id", []), at=9000.0)
    assert [row["title"] for row in get_json(store, "list", "--pinned")] == ["mend one"]
