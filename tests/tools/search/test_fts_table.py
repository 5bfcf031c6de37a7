"""No search table contains deleted or masked words, and a broken table is rebuilt."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from acp_proxy.errors import NoFullText, Unreadable
from acp_proxy.redaction.masking import Masking
from acp_proxy.store.index_database import Index
from acp_proxy.store.layout import Layout
from acp_proxy.tools.maintenance import verify
from acp_proxy.tools.maintenance.repair_findings import repair_finding
from acp_proxy.tools.maintenance.verify import verify_store
from acp_proxy.tools.redact.redact_files import redact_stored
from acp_proxy.tools.search import search as search_search
from acp_proxy.transcript.file_names import file_name, find_table_digit
from tests.store import compressible, transcript_lines
from tests.store.concurrent_writers import AGENT
from tests.store.transcript_lines import agent_chunk, prompt_line
from tests.stored import WholeStore
from tests.tools.search.stored_searches import (
    DELETES,
    SECRET,
    append,
    delete_by_editor,
    find_files_with,
    find_turns,
    list_tables,
    search,
    store_turns,
)

# Deletes and masks.


@pytest.mark.parametrize("delete", DELETES)
@pytest.mark.parametrize("compressed", [False, True])
def test_a_deleted_word_is_in_no_file(
    store: WholeStore, root: Path, delete: Callable[[WholeStore], None], compressed: bool
) -> None:
    store_turns(store, "s", f"My word is {SECRET}", f"and again {SECRET}")
    store_turns(store, "kept", "My word is another")
    store.list_all()
    if compressed:
        compressible.compress_now(store, "s")
    assert [session for session, _ in find_turns(store, "word")] == ["kept", "s"]
    assert any(name.startswith("search/") for name in find_files_with(root))
    delete(store)
    assert find_files_with(root) == []
    assert find_turns(store, SECRET) == []
    assert find_turns(store, "word") == [("kept", [1])]
    assert find_files_with(root) == []


def test_deleting_a_session_set_aside_removes_its_words(store: WholeStore, root: Path) -> None:
    store_turns(store, "s", f"My word is {SECRET}")
    assert find_turns(store, SECRET) == [("s", [1])]
    store_turns(store, "s", "another")
    [row] = [row for row in store.list_all() if row.title != "another"]
    store.delete_listed(row, soft=False)
    assert find_files_with(root) == []
    assert find_turns(store, "another") == [("s", [1])]


def test_a_soft_deleted_session_is_not_found_and_its_words_are_in_no_table(store: WholeStore, root: Path) -> None:
    store_turns(store, "s", f"My word is {SECRET}")
    assert find_turns(store, SECRET) == [("s", [1])]
    [row] = store.list_all()
    store.delete_listed(row, soft=True)
    assert find_turns(store, SECRET) == []
    assert not any(name.startswith("search/") for name in find_files_with(root))
    [kept] = store.list_deleted()
    store.restore(kept)
    assert find_turns(store, SECRET) == [("s", [1])]
    store.delete_listed(row, soft=False)
    assert find_files_with(root) == []


def test_the_users_title_is_found_until_it_changes(store: WholeStore, root: Path) -> None:
    store_turns(store, "s", "hello")
    find_turns(store, "hello")
    [row] = store.list_all()
    store.set_listed_title(row, f"My title {SECRET}")
    [hit] = search(store, "title").hits
    assert (hit.turns, hit.row.title) == ([], f"My title {SECRET}")
    store.set_listed_title(row, "Another")
    assert not any(name.startswith("search/") for name in find_files_with(root))
    assert find_turns(store, "title") == []
    assert find_turns(store, "another") == [("s", [])]


def test_a_delete_causes_only_a_sixteenth_to_be_read_again(store: WholeStore, root: Path) -> None:
    for number in range(64):
        store_turns(store, f"s{number}", "word")
    find_turns(store, "word")
    before = list_tables(root)
    store.delete(AGENT, "s1", soft=False)
    assert before - list_tables(root) == {name for name in before if name[0] == find_table_digit(file_name("s1"))}
    assert len(find_turns(store, "word", limit=100)) == 63


def test_a_masked_word_is_in_no_file_and_not_found(store: WholeStore, root: Path) -> None:
    key = "sk-ant-api03-" + "Ab1-Cd2_Ef3" * 9 + "AA"
    store_turns(store, "s", f"My key is {key}")
    assert find_turns(store, "key") == [("s", [1])]
    for path in store.find_redactable(None):
        redact_stored(store, path, Masking(), dry_run=False)
    store.reindex(None)
    assert find_files_with(root, key) == []
    assert find_turns(store, "my key") == [("s", [1])]
    assert find_files_with(root, key) == []


def test_a_search_after_masking_is_no_damage(store: WholeStore) -> None:
    key = "sk-ant-api03-" + "Ab1-Cd2_Ef3" * 9 + "AA"
    store_turns(store, "s", f"My key is {key}, and that is all")
    for path in store.find_redactable(None):
        assert redact_stored(store, path, Masking(), dry_run=False)
    store.reindex(None)
    assert find_turns(store, "all") == [("s", [1])]
    assert list(verify_store(store)) == []


def test_words_read_before_a_delete_are_not_written_after_it(
    store: WholeStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_turns(store, "s", f"My word is {SECRET}")
    store.list_all()

    def overtaken(*given: object) -> object:
        work = searching_work_on(*given)  # type: ignore[arg-type]
        monkeypatch.undo()
        delete_by_editor(WholeStore(root))
        return work

    searching_work_on = search_search.read_addition
    monkeypatch.setattr(search_search, "read_addition", overtaken)
    search(store, "word")
    assert find_files_with(root) == []
    assert find_turns(store, "word") == []


def test_a_delete_at_any_moment_of_writing_a_table_is_harmless(
    store: WholeStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_turns(store, "s", "word")
    assert find_turns(store, "word") == [("s", [1])]
    layout, connect = Layout(root), sqlite3.connect
    moments: Iterator[int]

    def connected(path: Path | str, **given: Any) -> sqlite3.Connection:
        database: sqlite3.Connection = connect(path, **given)
        if str(path).endswith(".new"):
            its_digit = Path(path).name[0]
            database.set_progress_handler(
                lambda: next(moments, 1) == 0 and not layout.remove_search_tables(its_digit), 1
            )
        return database

    monkeypatch.setattr(sqlite3, "connect", connected)
    for moment in range(25):
        moments = iter(range(moment, -1, -1))
        layout.remove_search_tables(file_name("s"))
        assert find_turns(store, "word") == [("s", [1])]


# --- broken tables


def cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def garbage(path: Path) -> None:
    path.write_bytes(b"garbage" * 1000)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def of_a_later_version(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()


def without_words(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("DELETE FROM said_data")
    database.close()


BROKEN = [cut_short, garbage, empty, of_a_later_version, without_words, Path.unlink]


@pytest.mark.parametrize("break_it", BROKEN)
def test_a_broken_table_is_rebuilt(store: WholeStore, root: Path, break_it: Callable[[Path], None]) -> None:
    for number in range(20):
        store_turns(store, f"s{number}", f"a word {'x' * 5000}")
    assert len(find_turns(store, "word", limit=100)) == 20
    for name in list_tables(root):
        break_it(root / "search" / name)
    assert len(find_turns(store, "word", limit=100)) == 20
    assert [finding.kind for finding in verify_store(store)] == []
    assert len(list_tables(root)) == 16


def test_a_rebuilt_index_keeps_the_tables(store: WholeStore, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store_turns(store, "s", "word")
    find_turns(store, "word")
    for path in root.glob("index.sqlite3*"):
        path.unlink()
    monkeypatch.setattr(search_search, "TurnReader", None)
    assert find_turns(WholeStore(root), "word") == [("s", [1])]


def test_a_file_in_place_of_the_tables_is_reported_and_a_delete_works(store: WholeStore, root: Path) -> None:
    (root / "search").write_text("of somebody else")
    (root / "search").chmod(0o644)  # verify reports the mode too
    store_turns(store, "s", f"My word is {SECRET}")
    with pytest.raises(Unreadable, match="ENOTDIR"):
        find_turns(store, "word")
    assert [finding.path for finding in verify_store(store) if finding.is_damage] == [root / "search"] * 2
    delete_by_editor(store)
    assert find_files_with(root) == []


def test_a_python_without_fts5_is_reported(store: WholeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store_turns(store, "s", "word")
    monkeypatch.setattr(Index, "select", lambda *given: [])
    with pytest.raises(NoFullText, match="FTS5"):
        find_turns(store, "word")


def test_only_a_search_creates_tables(store: WholeStore, root: Path) -> None:
    store_turns(store, "s", "word")
    store.list_page(AGENT, None, None, transcript_lines.RUN)
    store.index_session(AGENT, "s")
    delete_by_editor(store)
    assert not (root / "search").exists()


def test_tables_are_private(store: WholeStore, root: Path) -> None:
    store_turns(store, "s", "word")
    before = os.umask(0)
    try:
        find_turns(store, "word")
    finally:
        os.umask(before)
    assert (root / "search").stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in (root / "search").iterdir()} == {0o600}


def other_words(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("UPDATE said SET text = 'another'")
    database.close()


def without_its_turns(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("DELETE FROM said")
        database.execute("DELETE FROM turns")
    database.close()


@pytest.mark.parametrize(
    ("break_it", "kind"),
    [
        (other_words, verify.WORDS_BEHIND),
        (without_its_turns, verify.WORDS_BEHIND),
        (without_words, verify.WORDS_BROKEN),
        (garbage, verify.WORDS_BROKEN),
        (of_a_later_version, verify.WORDS_BROKEN),
    ],
)
def test_a_wrong_table_is_reported_and_repaired(
    store: WholeStore, root: Path, break_it: Callable[[Path], None], kind: str
) -> None:
    store_turns(store, "s", "a word", "another word")
    find_turns(store, "word")
    assert list(verify_store(store)) == []
    [path] = (store.root / "search").glob(f"{find_table_digit(file_name('s'))}-*")
    break_it(path)
    [finding] = verify_store(store)
    assert (finding.path, finding.kind, finding.is_damage) == (path, kind, True)
    assert [other.kind for other in verify_store(store, (AGENT, file_name("s")))] == [kind]
    repair_finding(store, finding)
    assert list(verify_store(store)) == []
    assert find_turns(store, "word") == [("s", [1, 2])]


def test_a_table_behind_its_transcript_is_no_damage(store: WholeStore) -> None:
    store_turns(store, "s", "a word")
    append(store, "s", prompt_line("torn", at=5)[:-1])
    assert find_turns(store, "torn") == [("s", [2])]
    append(store, "s", b"\n", agent_chunk("more"), prompt_line("third", at=60))
    store.list_all()
    assert list(verify_store(store)) == []
    assert find_turns(store, "third") == [("s", [3])]


def test_foreign_files_among_the_tables_are_kept(store: WholeStore, root: Path) -> None:
    store_turns(store, "s", "a word")
    find_turns(store, "word")
    (root / "search" / "notes.txt").write_text("mine")
    assert [(finding.path.name, finding.is_damage) for finding in verify_store(store)] == [("notes.txt", False)]
    assert find_turns(store, "word") == [("s", [1])]


def test_a_table_that_others_can_read_is_reported(store: WholeStore, root: Path) -> None:
    store_turns(store, "s", "a word")
    find_turns(store, "word")
    os.chmod(next((root / "search").glob("*.sqlite3")), 0o644)
    assert [finding.kind for finding in verify_store(store) if finding.is_damage] == [verify.MODE]
