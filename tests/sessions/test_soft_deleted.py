"""Soft-deleted sessions are removed when their days are over, from every file, and not while somebody has them open."""

import errno
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from acp_proxy.store import delete, journal
from acp_proxy.store.index_database import Index
from acp_proxy.store.layout import Layout
from acp_proxy.transcript.file_names import is_soft_deleted_name
from tests.store import transcript_lines
from tests.stored import WholeStore, read_files
from tests.tools.search.stored_searches import search

AGENT = "agent"


@pytest.fixture
def store(tmp_path: Path) -> WholeStore:
    return WholeStore(tmp_path / "store", bin_days=30)


def _delete(store: WholeStore, session: str) -> None:
    transcript_lines.store_lines(store, AGENT, session)
    store.delete(AGENT, session, soft=True)


def test_another_setting_later_changes_nothing_about_an_earlier_delete(store: WholeStore) -> None:
    _delete(store, "s")
    WholeStore(store.root, bin_days=0).remove_expired()
    assert [deleted.session_id for deleted in store.list_deleted()] == ["s"]


def test_what_is_removed_leaves_no_backup_title_or_search_table(
    store: WholeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcript_lines.store_lines(
        store, AGENT, "s", transcript_lines.prompt_line("secret words", session="s") + transcript_lines.answer()
    )
    [row] = store.list_all()
    store.set_listed_title(row, "secret title")
    backup = store.layout.backup_path(AGENT, row.name, transcript_lines.time(1))
    backup.parent.mkdir(parents=True)
    backup.write_text("secret backup")
    search(store, "secret")
    holding = {path.relative_to(store.root).parts[0] for path, data in read_files(store.root) if b"secret" in data}
    assert holding >= {"transcripts", "backups", "search"}
    store.delete_listed(row, soft=True)
    monkeypatch.setattr(journal, "stamp_now", lambda: "2999-01-01T00:00:00.000Z")
    store.remove_expired()
    assert not any(b"secret" in data for _, data in read_files(store.root))


def test_a_session_that_somebody_has_open_is_removed_later(store: WholeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    transcript_lines.store_lines(store, AGENT, "s")
    opened = store.open_to_append(AGENT, transcript_lines.header("s"), is_new=False)
    store.delete(AGENT, "s", soft=True)
    monkeypatch.setattr(journal, "stamp_now", lambda: "2999-01-01T00:00:00.000Z")
    store.remove_expired()
    assert store.list_deleted() == []
    assert len(store.layout.list_soft_deleted_names(AGENT)) == 1
    opened.close()
    store.remove_expired()
    assert store.layout.list_soft_deleted_names(AGENT) == []


def test_an_older_version_skips_what_it_does_not_know_of_a_delete(store: WholeStore) -> None:
    _delete(store, "s")
    [line] = store.layout.transcript_path(AGENT, "state").read_bytes().splitlines()
    [event] = journal.find_events(line)
    assert event.value.until is not None
    assert (event.value.kind, event.value.session_id, event.value.new_name) == (journal.DELETED, "s", None)


# SQLite leaves copies of rows in pages that it split. A soft delete leaves them there, as it is cheaper.


def test_what_can_no_longer_be_restored_leaves_the_index_even_if_the_process_is_killed(store: WholeStore) -> None:
    words = _fill_and_delete_half(store)
    _remove_all_without_index(store)
    store = WholeStore(store.root)
    assert len(store.list_all()) == 60
    assert not _find_in_index(store, words)
    assert not any(map(is_soft_deleted_name, store.layout.list_marked(AGENT)))


def test_what_can_no_longer_be_restored_leaves_the_index_even_if_another_process_lists_just_before(
    store: WholeStore,
) -> None:
    words = _fill_and_delete_half(store)
    with _list_before("remove_soft_deleted", store.root):
        _remove_all_without_index(store)
    store.list_all()
    assert not _find_in_index(store, words)


@contextmanager
def full_disk_for_marks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A disk without room for the mark of a transcript."""

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(Layout, "mark", fail)
        yield


def test_what_can_no_longer_be_restored_leaves_the_index_even_if_it_cannot_be_marked(
    store: WholeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = _fill_and_delete_half(store)
    with full_disk_for_marks(monkeypatch):
        _remove_all_without_index(store)
    assert store.list_deleted() == []
    store.list_all()
    assert not _find_in_index(store, words)
    assert not store.layout.get_journal(AGENT).read_state().incomplete_renames_and_removals


def test_what_can_no_longer_be_restored_leaves_the_index_with_the_first_list_that_can_mark_it(
    store: WholeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = _fill_and_delete_half(store)
    with full_disk_for_marks(monkeypatch):
        _remove_all_without_index(store)
        store.list_all()
        assert _find_in_index(store, words)
    store.list_all()
    assert not _find_in_index(store, words)


def test_what_is_deleted_leaves_the_index_even_if_another_process_lists_just_before_and_reads_it(
    store: WholeStore,
) -> None:
    words = _store_many(store)
    with _list_before("remove_transcript", store.root) as racing:
        racing.setattr(Index, "erase_removed_rows", lambda index: False)
        for number in range(60):
            store.delete(AGENT, f"s{number}", soft=False)
            store.remove_from_index(AGENT, f"s{number}")
    assert _find_in_index(store, words)
    store.list_all()
    assert not _find_in_index(store, words)


def _store_many(store: WholeStore) -> list[str]:
    """Sessions s0 to s119 in a list. Returns the words in the titles of the first 60."""
    chance, words = random.Random(0), list[str]()
    for number in range(120):
        words.append(f"{chance.getrandbits(80):020x}")
        title = transcript_lines.prompt_line(words[-1] * chance.randrange(1, 4), session=f"s{number}")
        transcript_lines.store_lines(store, AGENT, f"s{number}", title + transcript_lines.answer())
    assert len(store.list_all()) == 120
    return words[:60]


def _fill_and_delete_half(store: WholeStore) -> list[str]:
    """As ``_fill``, and the first 60 are deleted softly: the index still has some of the words."""
    words = _store_many(store)
    for number in range(60):
        store.delete(AGENT, f"s{number}", soft=True)
    assert len(store.list_all()) == 60
    assert _find_in_index(store, words)
    return words


def _remove_all_without_index(store: WholeStore) -> None:
    """Remove all that was deleted softly, as a process does that is killed before it tells the index."""
    for deleted in store.list_deleted():
        delete.delete_by_name(
            store.layout, AGENT, deleted.session_id, deleted.name, soft=False, only_on_this_machine=False
        )


@contextmanager
def _list_before(method: str, root: Path) -> Iterator[pytest.MonkeyPatch]:
    """Another process lists each time before a layout's method is called."""
    call, other = getattr(Layout, method), WholeStore(root)

    def list_and_call(*args: object) -> None:
        other.list_all()
        call(*args)

    with pytest.MonkeyPatch.context() as racing:
        racing.setattr(Layout, method, list_and_call)
        yield racing


def _find_in_index(store: WholeStore, words: list[str]) -> list[str]:
    """Those of the words that are in the index or its write-ahead log."""
    return [word for word in words if any(word.encode() in data for data in _read_index(store))]


def _read_index(store: WholeStore) -> list[bytes]:
    return [path.read_bytes() for path in store.root.glob("index.sqlite3*")]
