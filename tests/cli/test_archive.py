"""An archived session is in no list until it is unarchived; every command still takes its id."""

from pathlib import Path

import pytest

from acp_proxy import shell_quote
from acp_proxy.store.proxy_store import ProxyStore
from tests.cli.commands import get_error, get_json, get_stdout, list_ids, run
from tests.stored import make_store_of_three, store_session


@pytest.fixture
def store(tmp_path: Path) -> ProxyStore:
    return make_store_of_three(tmp_path / "store")


def test_an_archived_session_is_only_in_the_list_of_archived_ones(store: ProxyStore) -> None:
    stdout = get_stdout(store, "archive", "two", "one")
    assert stdout.startswith("mend two\n")
    assert stdout.endswith("Archived. To bring them back: acp-proxy unarchive two one --store " + f"{store.root}\n")
    assert (list_ids(store), list_ids(store, "--archived")) == (["three"], ["two", "one"])
    assert [row["isArchived"] for row in get_json(store, "list", "--archived")] == [True, True]
    assert get_stdout(store, "show", "two").startswith("mend two\n")
    assert {row["sessionId"]: row["isArchived"] for row in get_json(store, "search", "mend")} == {
        "one": True,
        "two": True,
        "three": False,
    }
    assert get_stdout(store, "unarchive", "two").endswith("Unarchived.\n")
    assert (list_ids(store), list_ids(store, "--archived")) == (["three", "two"], ["one"])


def test_last_is_the_newest_that_is_not_archived_and_for_unarchive_the_newest_that_is(store: ProxyStore) -> None:
    get_stdout(store, "archive", "last")
    get_stdout(store, "archive", "last")
    assert list_ids(store) == ["one"]
    assert get_stdout(store, "show", "last").startswith("mend one\n")
    get_stdout(store, "unarchive", "last")
    assert list_ids(store) == ["three", "one"]


def test_archiving_and_unarchiving_twice_change_nothing_more(store: ProxyStore) -> None:
    where = shell_quote.join(["--store", str(store.root)])
    for command, end in (
        ("archive", f"Archived. To bring it back: acp-proxy unarchive two {where}\n"),
        ("archive", "Nothing changed: it was already archived.\n"),
        ("unarchive", "Unarchived.\n"),
        ("unarchive", "Nothing changed: it was not archived.\n"),
    ):
        assert get_stdout(store, command, "two").endswith(end)
    get_stdout(store, "archive", "two")
    said = get_stdout(store, "archive", "two", "one").splitlines()[-1]
    assert said == f"Archived. To bring it back: acp-proxy unarchive one {where}"
    get_stdout(store, "unarchive", "two", "one")
    assert list_ids(store) == ["three", "two", "one"]
    [journal] = store.root.rglob("state.jsonl")
    assert journal.read_text().count("\n") == 6


def test_an_export_of_all_sessions_has_archived_ones_too(store: ProxyStore, tmp_path: Path) -> None:
    get_stdout(store, "archive", "two")
    get_stdout(store, "export", "--all", "-o", f"{tmp_path / 'out'}/")
    assert len(list((tmp_path / "out").iterdir())) == 3


def test_empty_lists_say_what_to_do(store: ProxyStore) -> None:
    assert "acp-proxy archive SESSION" in run(store, "list", "--archived").stderr
    assert get_error(store, "unarchive", "last")[0] == 1
    get_stdout(store, "archive", "one", "two", "three")
    assert "acp-proxy list --archived" in run(store, "list").stderr
    assert "acp-proxy list --archived" in run(store, "list", "--archived", "--cwd", "/other").stderr


def test_unarchive_without_a_session_lists_the_archived_ones(store: ProxyStore) -> None:
    assert "acp-proxy archive SESSION" in run(store, "unarchive").stderr
    get_stdout(store, "archive", "two")
    result = run(store, "unarchive")
    assert (result.exit_code, result.stdout.split("\t")[:2]) == (0, ["two", "mend two"])
    assert (result.stdout.count("\n"), result.stderr) == (1, "To unarchive one: acp-proxy unarchive SESSION\n")
    assert list_ids(store, "--archived") == ["two"]


def test_the_way_back_of_an_id_that_two_agents_gave_names_the_agent(store: ProxyStore) -> None:
    for agent in ("codex", "gemini"):
        store_session(store, "same", ("Mend it", []), agent=agent)
    assert "To bring it back: acp-proxy unarchive same --agent gemini" in get_stdout(
        store, "archive", "same", "--agent", "gemini"
    )
    get_stdout(store, "unarchive", "same", "--agent", "gemini")
    assert list_ids(store).count("same") == 2


def test_the_way_back_has_whole_ids(store: ProxyStore) -> None:
    store_session(store, "mock-session-64", ("Mend it", []))
    assert "back: acp-proxy unarchive mock-session-64 " in get_stdout(store, "archive", "mock")


def test_one_unknown_session_changes_nothing(store: ProxyStore) -> None:
    assert get_error(store, "archive", "one", "nobody")[0] == 1
    assert list_ids(store) == ["three", "two", "one"]
