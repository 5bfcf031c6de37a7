"""What the user says about a session, its title and that it is archived, belongs to its transcript."""

import pytest

from acp_proxy.store import delete
from tests.store import transcript_lines
from tests.stored import EPOCH, WholeStore, find_files_with, store_session

AGENT = "agent"


# --- titles


def test_a_title_belongs_to_its_transcript_even_if_the_id_is_reused(store: WholeStore) -> None:
    store_session(store, "s", ("first", []), agent="one", at=EPOCH)
    [row] = store.list_all()
    store.set_listed_title(row, "The first")
    other = WholeStore(store.root)
    assert [row.title for row in other.list_all()] == ["The first"]
    store_session(store, "s", ("second", []), agent="one", at=EPOCH + 60)
    assert [row.title for row in other.list_all()] == ["second", "The first"]
    [older] = [row for row in store.list_all() if row.title == "The first"]
    store.delete_listed(older, soft=False)
    assert find_files_with(store, "The first") == []


def test_a_new_session_of_a_deleted_id_has_no_user_title(store: WholeStore) -> None:
    transcript_lines.store_lines(store, AGENT, "s")
    store.set_listed_title(store.list_all()[0], "Mine")
    store.delete(AGENT, "s", soft=False)
    delete.lift_delete(store.layout, AGENT, "s")
    transcript_lines.store_lines(store, AGENT, "s", fresh=False)
    assert [row.title for row in store.list_all()] == ["hello"]


def test_a_deleted_session_cannot_be_renamed(store: WholeStore) -> None:
    transcript_lines.store_lines(store, AGENT, "s")
    [row] = store.list_all()
    store.delete(AGENT, "s", soft=False)
    with pytest.raises(FileNotFoundError):
        store.set_listed_title(row, "Mine")
    assert find_files_with(store, "Mine") == []


# --- archived sessions


def list_archived_titles(store: WholeStore) -> list[str | None]:
    return [row.title for row in store.list_newest(archived=True)]


def test_an_archived_session_is_in_no_page_and_stays_archived_when_the_index_is_rebuilt(store: WholeStore) -> None:
    for number, session in enumerate("abc"):
        store_session(store, session, (session, []), agent=AGENT, at=EPOCH + number)
    [_, row, _] = store.list_all()
    store.set_listed_archived(row, True)
    store.set_listed_archived(row, True)
    for path in store.root.glob("index*"):
        path.unlink()
    other = WholeStore(store.root)
    folder = row.agent_folder
    assert [listed.session_id for listed in other.list_page(folder, None, None, "").rows] == ["c", "a"]
    assert [listed.session_id for listed in other.list_newest(archived=False)] == ["c", "a"]
    assert [(listed.session_id, listed.is_archived) for listed in other.list_all()] == [
        ("c", False),
        ("b", True),
        ("a", False),
    ]
    other.set_listed_archived(row, False)
    assert [listed.session_id for listed in store.list_page(folder, None, None, "").rows] == ["c", "b", "a"]


def test_pages_are_full_without_archived_sessions(store: WholeStore) -> None:
    for number, session in enumerate("abcdef"):
        store_session(store, session, (session, []), agent=AGENT, at=EPOCH + number)
    for row in store.list_all()[1:4]:
        store.set_listed_archived(row, True)
    [folder] = store.list_agents()
    hidden = store.read_state(folder).archived
    page = store.store_index.query(lambda index: index.select_page(folder, None, None, "", 2, hidden), folder)
    assert [row.session_id for row in page.rows] == ["f", "b"]
    page = store.store_index.query(lambda index: index.select_page(folder, None, page.next, "", 2, hidden), folder)
    assert ([row.session_id for row in page.rows], page.next) == (["a"], None)


def test_an_archived_session_stays_archived_when_its_id_is_used_again(store: WholeStore) -> None:
    store_session(store, "s", ("first", []), agent="one", at=EPOCH)
    store.set_listed_archived(store.list_all()[0], True)
    store_session(store, "s", ("second", []), agent="one", at=EPOCH + 60)
    assert list_archived_titles(store) == ["first"]
    [older] = store.list_newest(archived=True)
    store.delete_listed(older, soft=False)
    assert [row.title for row in store.list_all()] == ["second"]
    assert store.read_state(older.agent_folder).archived == {}


@pytest.mark.parametrize("soft", [True, False])
def test_a_deleted_session_is_not_archived(store: WholeStore, soft: bool) -> None:
    transcript_lines.store_lines(store, AGENT, "s")
    [row] = store.list_all()
    store.set_listed_archived(row, True)
    store.delete_listed(row, soft=soft)
    with pytest.raises(FileNotFoundError):
        store.set_listed_archived(row, True)
    if soft:
        store.restore(store.list_deleted()[0])
        assert [listed.is_archived for listed in store.list_all()] == [False]
    assert list_archived_titles(store) == []
