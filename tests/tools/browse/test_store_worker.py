"""What browse does in the store, and what it says of it."""

import pytest

from acp_proxy import shell_quote
from acp_proxy.cli.session_filter import make_filter
from acp_proxy.errors import Unreadable
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.tools.browse.state import Action
from acp_proxy.tools.browse.store_worker import BrowseStore
from tests.stored import WholeStore, store_session


def test_the_commands_to_copy_name_the_agent_of_an_id_that_several_have(store: WholeStore) -> None:
    for agent in ("codex", "gemini"):
        store_session(store, "mock-session-64", ("Mend it", []), agent=agent)
    library = BrowseStore(store.root, make_filter())
    row = next(row for row in library.list_rows(archived=False) if row.agent_folder.startswith("codex"))
    options = f"--agent codex --store {shell_quote.quote(str(store.root))}"
    assert library.do(Action("continue", row)).endswith(f" --with AGENT {options}")
    deleted = library.do(Action("delete", row, is_soft=True))
    assert deleted.endswith(f"within 30 days: acp-proxy restore mock-session-64 {options}")


def test_an_undo_that_fails_can_be_done_again(store: WholeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store_session(store, "s-site", ("Mend the login", []))
    library = BrowseStore(store.root, make_filter())
    library.do(Action("delete", library.list_rows(archived=False)[0], is_soft=True))

    def fail(*_: object) -> None:
        raise Unreadable("the disk is busy")

    with monkeypatch.context() as patch:
        patch.setattr(CommandStore, "restore", fail)
        with pytest.raises(Unreadable):
            library.do(Action("undo", None))
    library.do(Action("undo", None))
    assert [row.session_id for row in library.list_rows(archived=False)] == ["s-site"]


def test_an_undo_whose_session_was_deleted_for_good_gives_way_to_the_one_before(store: WholeStore) -> None:
    for session in ("s-site", "s-docs"):
        store_session(store, session, (f"words of {session}", []))
    library = BrowseStore(store.root, make_filter())
    rows = {row.session_id: row for row in library.list_rows(archived=False)}
    library.do(Action("delete", rows["s-site"], is_soft=True))
    library.do(Action("archive", rows["s-docs"]))
    library.do(Action("delete", rows["s-docs"]))
    message = library.do(Action("undo", None))
    assert message == "The session does not exist any more. ^X undoes the one before."
    assert library.do(Action("undo", None)) == '"words of s-site" is back.'


def test_an_undo_of_what_was_restored_or_removed_elsewhere_gives_way_to_the_one_before(store: WholeStore) -> None:
    sessions = ("s-site", "s-docs", "s-tests")
    for session in sessions:
        store_session(store, session, (f"words of {session}", []))
    library = BrowseStore(store.root, make_filter())
    rows = {row.session_id: row for row in library.list_rows(archived=False)}
    for session in sessions:
        library.do(Action("delete", rows[session], is_soft=True))
    other = CommandStore(store.root, create=False)
    by_id = {deleted.session_id: deleted for deleted in other.list_deleted()}
    other.restore(by_id["s-docs"])
    other.delete_soft_deleted(by_id["s-tests"])
    messages = [library.do(Action("undo", None)).partition(" ^X")[0] for _ in sessions]
    assert messages == [
        "The session does not exist any more.",
        '"words of s-docs" is back.',
        '"words of s-site" is back.',
    ]


def test_an_undo_does_not_take_a_newer_session_with_the_id_for_the_one_deleted(store: WholeStore) -> None:
    store_session(store, "s-site", ("Mend the login", []))
    library = BrowseStore(store.root, make_filter())
    library.do(Action("delete", library.list_rows(archived=False)[0], is_soft=True))
    other = CommandStore(store.root, create=False)
    other.delete_soft_deleted(other.list_deleted()[0])
    store_session(store, "s-site", ("Another one", []), at=4_000_000_000.0)
    assert library.do(Action("undo", None)) == "The session was deleted for good. A newer one has its id."


def test_the_title_of_the_agent_stays_the_agents_if_it_is_not_changed(store: WholeStore) -> None:
    store_session(store, "s-site", ("Mend the login", []))
    library = BrowseStore(store.root, make_filter())
    [row] = library.list_rows(archived=False)
    assert library.do(Action("rename", row, " Mend the login ")) == "The title stays as it is."
    assert store.layout.get_journal(row.agent_folder).read_state().titles == {}
    assert library.do(Action("rename", row, "Mine")) == "Renamed."
    assert library.do(Action("rename", row, "Mend the login")) == "Renamed."


def test_a_session_that_cannot_be_read_is_deleted_and_brought_back(store: WholeStore) -> None:
    path = store_session(store, "s-site", ("Mend the login", []))
    library = BrowseStore(store.root, make_filter())
    [row] = library.list_rows(archived=False)
    path.write_text('{"acp-transcript": 9}\n')
    assert "within 30 days: acp-proxy restore s-site" in library.do(Action("delete", row, is_soft=True))
    assert library.do(Action("undo", None)) == (
        '"s-site" is back. No list shows it, as it cannot be read: acp-proxy verify'
    )
    assert path.exists()


def test_each_word_may_be_in_a_column_or_in_any_turn(store: WholeStore) -> None:
    store_session(store, "s-site", ("Mend the login", []), ("Add a lantern", []), agent="codex", cwd="/work/site")
    store_session(store, "s-docs", ("Mend the login", []), ("Add a candle", []), agent="gemini", cwd="/work/docs")
    library = BrowseStore(store.root, make_filter())

    def find(typed: str) -> list[tuple[str, int]]:
        hits = library.search(typed, False, lambda hits: None, lambda: True)
        return [(hit.row.session_id, hit.turn) for hit in hits]

    assert find("codex lant") == find("site lantern") == find("lantern codex") == [("s-site", 2)]
    assert find("gemini lantern") == find("nothing lantern") == []
    assert find("candle login") == [("s-docs", 2)]
    assert find("candle - gem") == [("s-docs", 2)]
    assert sorted(find("add mend")) == [("s-docs", 2), ("s-site", 2)]
