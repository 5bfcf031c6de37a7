"""Transcripts added or removed by hand are noticed by the next list; an unchanged folder costs nothing."""

import os
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from acp_proxy.store import folder_changes
from acp_proxy.store.compress import CompressionOptions
from acp_proxy.store.index_database import Index
from acp_proxy.tools.maintenance.verify import verify_store
from acp_proxy.transcript.file_names import compressed_path, file_name
from tests.store import transcript_lines
from tests.store.transcript_lines import agent_chunk, answer, prompt_line
from tests.stored import WholeStore

AGENT = "agent"
_touched: list[list[str]] = []
"""The list that collects opened paths, or None."""


def listed_anew(store: WholeStore) -> list[str]:
    """The sessions in the list for an editor, by a new process. The list for users must be the same."""
    served = [row.session_id for row in WholeStore(store.root).list_page(AGENT, None, None, transcript_lines.RUN).rows]
    assert [row.session_id for row in WholeStore(store.root).list_newest(AGENT)] == served
    return served


def path_of(store: WholeStore, session: str) -> Path:
    return store.root / "transcripts" / AGENT / f"{file_name(session)}.jsonl"


@pytest.fixture
def other(tmp_path: Path) -> WholeStore:
    """The store of another machine, with three sessions."""
    other = WholeStore(tmp_path / "other")
    for at, session in enumerate(("a", "b", "c")):
        transcript_lines.store_lines(other, AGENT, session, at=at)
    return other


def copy_transcript(other: WholeStore, store: WholeStore, session: str) -> None:
    """Copy a transcript like rsync: beside the old file, then in its place, with its times."""
    path = path_of(store, session)
    path.parent.mkdir(exist_ok=True)
    unfinished = path.with_name(f".{path.name}.Xa03")
    shutil.copy2(path_of(other, session), unfinished)
    unfinished.replace(path)


def put_back(backup: Path, index: Path) -> None:
    for side in ("-wal", "-shm"):
        index.with_name(index.name + side).unlink(missing_ok=True)
    backup.replace(index)


def audited(event: str, arguments: tuple[object, ...]) -> None:
    if event in ("open", "os.listdir", "os.scandir") and _touched:
        _touched[-1].append(str(arguments[0]))


sys.addaudithook(audited)  # permanent: an audit hook cannot be removed


@contextmanager
def looked_at(folder: Path) -> Iterator[list[str]]:
    """The transcripts opened in this folder, and the folder itself if it is read."""
    found: list[str] = []
    _touched.append([])
    yield found
    inside = (path for path in _touched.pop() if Path(path).is_relative_to(folder))
    found += [path for path in inside if Path(path).name != "state.jsonl"]


@pytest.mark.usefixtures("trusted_times")
def test_a_copied_transcript_is_in_the_next_list(store: WholeStore, other: WholeStore) -> None:
    transcript_lines.store_lines(store, AGENT, "own")
    assert listed_anew(store) == ["own"]
    copy_transcript(other, store, "b")
    assert listed_anew(store) == ["b", "own"]
    copy_transcript(other, store, "c")
    assert listed_anew(store) == ["c", "b", "own"]
    assert list(verify_store(store)) == []


def test_a_copied_agent_is_in_the_next_list(store: WholeStore, other: WholeStore) -> None:
    transcript_lines.store_lines(store, "another", "own")
    assert [row.session_id for row in store.list_all()] == ["own"]
    shutil.copytree(other.root / "transcripts" / AGENT, store.root / "transcripts" / AGENT)
    assert [row.session_id for row in store.list_all()] == ["c", "b", "own", "a"]


@pytest.mark.usefixtures("trusted_times")
def test_a_transcript_replaced_by_a_longer_one_is_in_the_next_list(store: WholeStore, other: WholeStore) -> None:
    for session in ("a", "b"):
        copy_transcript(other, store, session)
    assert listed_anew(store) == ["b", "a"]
    transcript_lines.store_lines(
        other, AGENT, "a", prompt_line("more", at=7), agent_chunk("yes", at=8), answer(at=9), fresh=False
    )
    copy_transcript(other, store, "a")
    [row, _] = store.list_page(AGENT, None, None, transcript_lines.RUN).rows
    assert (row.session_id, row.prompt_count, row.updated) == ("a", 2, transcript_lines.time(9))


@pytest.mark.usefixtures("trusted_times")
def test_a_transcript_removed_by_hand_is_not_listed(store: WholeStore, other: WholeStore) -> None:
    for session in ("a", "b", "c"):
        copy_transcript(other, store, session)
    assert listed_anew(store) == ["c", "b", "a"]
    path_of(store, "b").unlink()
    assert listed_anew(store) == ["c", "a"]
    assert not store.is_indexed(AGENT, "b")
    shutil.rmtree(store.root / "transcripts" / AGENT)
    assert listed_anew(store) == []
    assert not store.is_indexed(AGENT, "a")


@pytest.mark.usefixtures("trusted_times")
def test_an_index_restored_from_a_backup_is_updated(store: WholeStore, tmp_path: Path) -> None:
    transcript_lines.store_lines(store, AGENT, "a")
    assert listed_anew(store) == ["a"]
    index, backup = store.root / "index.sqlite3", tmp_path / "backup.sqlite3"
    with closing(sqlite3.connect(index)) as database:
        database.execute("VACUUM INTO ?", (str(backup),))
    transcript_lines.store_lines(store, AGENT, "a", prompt_line("more", at=3), answer(at=3), fresh=False)
    assert listed_anew(store) == ["a"]
    put_back(Path(shutil.copy(backup, tmp_path / "copy")), index)  # the folder's times in it are still correct
    [row] = WholeStore(store.root).list_page(AGENT, None, None, transcript_lines.RUN).rows
    assert row.prompt_count == 2
    transcript_lines.store_lines(store, AGENT, "b", at=5)
    assert listed_anew(store) == ["b", "a"]
    put_back(backup, index)
    assert listed_anew(store) == ["b", "a"]


@pytest.mark.usefixtures("trusted_times")
def test_an_unchanged_folder_is_not_read(store: WholeStore, other: WholeStore) -> None:
    for session in ("a", "b", "c"):
        copy_transcript(other, store, session)
    transcript_lines.store_lines(store, AGENT, "own")
    assert store.compress(AGENT, file_name("c"), CompressionOptions(min_size=1, older_than=0.0)) is not None
    assert compressed_path(path_of(store, "c")).exists()
    before = listed_anew(store)
    with looked_at(store.root / "transcripts" / AGENT) as touched:
        assert listed_anew(store) == before
    assert touched == []
    copy_transcript(other, store, "b")
    with looked_at(store.root / "transcripts" / AGENT) as touched:
        assert listed_anew(store) == before
    assert touched == [str(store.root / "transcripts" / AGENT)]


def test_a_transcript_copied_within_one_clock_tick_is_in_the_next_list(
    store: WholeStore, other: WholeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = folder_changes._read_folder_state
    copy_transcript(other, store, "a")
    stands_still = state(store.layout, AGENT)
    monkeypatch.setattr(folder_changes, "_read_folder_state", lambda layout, agent: stands_still)
    assert listed_anew(store) == ["a"]
    copy_transcript(other, store, "b")
    assert listed_anew(store) == ["b", "a"]


def test_a_transcript_being_copied_is_read_until_it_is_whole(store: WholeStore, other: WholeStore) -> None:
    transcript_lines.store_lines(
        other, AGENT, "a", prompt_line("more", at=7), agent_chunk("yes", at=8), answer(at=9), fresh=False
    )
    whole = path_of(other, "a").read_bytes()
    half = whole.index(b"\n", len(whole) // 2) + 1
    path = path_of(store, "a")
    path.parent.mkdir()
    path.write_bytes(whole[:half])
    long_ago = path.parent.stat().st_mtime - 60.0
    os.utime(path.parent, (long_ago, long_ago))
    assert listed_anew(store) == ["a"]
    with path.open("ab") as file:
        file.write(whole[half:])
    [row] = store.list_page(AGENT, None, None, transcript_lines.RUN).rows
    assert (row.prompt_count, row.size) == (2, len(whole))


@pytest.mark.usefixtures("trusted_times")
def test_a_row_removed_while_its_folder_is_read_comes_back(
    store: WholeStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcript_lines.store_lines(store, AGENT, "s")
    remember = Index.remember_folder

    def overtaken(index: Index, agent: str, seen: str, removals: int) -> None:
        monkeypatch.setattr(Index, "remember_folder", remember)
        with closing(Index(root / "index.sqlite3")) as others:
            others.remove_rows(AGENT, file_name("s"))
        remember(index, agent, seen, removals)

    monkeypatch.setattr(Index, "remember_folder", overtaken)
    assert [row.session_id for row in store.list_all()] == []  # the row was removed before the query
    assert listed_anew(store) == ["s"]


@pytest.mark.usefixtures("trusted_times")
def test_reading_an_unchanged_folder_does_not_wait_for_a_writer_of_the_index(
    store: WholeStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcript_lines.store_lines(store, AGENT, "s")
    assert [row.session_id for row in store.list_page(AGENT, None, None, transcript_lines.RUN).rows] == ["s"]
    (root / "transcripts" / AGENT / "notes.txt").touch()
    asked: list[Path] = []
    monkeypatch.setattr(Index, "copy_from", lambda index, path: asked.append(path))
    with closing(sqlite3.connect(root / "index.sqlite3", isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        assert [row.session_id for row in store.list_page(AGENT, None, None, transcript_lines.RUN).rows] == ["s"]
    assert asked == []
    assert listed_anew(store) == ["s"]
    with looked_at(root / "transcripts" / AGENT) as touched:
        assert listed_anew(store) == ["s"]
    assert touched == []


def test_a_read_only_store_shows_copied_transcripts(store: WholeStore, other: WholeStore) -> None:
    copy_transcript(other, store, "a")
    reading = WholeStore(store.root, create=False)
    reading.layout.is_read_only = True
    assert [row.session_id for row in reading.list_all()] == ["a"]
    copy_transcript(other, store, "b")
    assert [row.session_id for row in reading.list_all()] == ["b", "a"]
    assert not (store.root / "index.sqlite3").exists()


@pytest.mark.parametrize("name", ["a/b", "../../beside", b"b"])
def test_a_damaged_name_in_the_index_removes_nothing_and_rebuilds_it(other: WholeStore, name: str | bytes) -> None:
    assert listed_anew(other) == ["c", "b", "a"]
    beside = other.root / "beside"
    (other.root / "unindexed" / AGENT).mkdir(parents=True, exist_ok=True)
    beside.write_bytes(b"")
    with closing(sqlite3.connect(other.root / "index.sqlite3", isolation_level=None)) as database:
        database.execute("UPDATE transcripts SET name = ? WHERE name LIKE 'b-%'", (name,))
        database.execute("DELETE FROM folders")
    assert listed_anew(other) == ["c", "b", "a"]
    assert beside.exists()
