"""The index is updated before it is queried, and rebuilt if its file is unusable."""

import contextlib
import errno
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from acp_proxy.errors import Unreadable
from acp_proxy.store import delete, index_database, store_index
from acp_proxy.store.compress import CompressionOptions
from acp_proxy.store.index_database import Index
from acp_proxy.store.journal import Journal
from acp_proxy.store.layout import Layout
from acp_proxy.store.proxy_store import ProxyStore
from acp_proxy.store.store_index import StoreIndex
from acp_proxy.tools.maintenance.verify import verify_store
from acp_proxy.transcript import file_access, file_format
from acp_proxy.transcript.appender import TranscriptAppender
from acp_proxy.transcript.file_names import file_name
from acp_proxy.transcript.reader import TranscriptReader
from tests.store import transcript_lines
from tests.store.concurrent_writers import AGENT, run_together
from tests.store.full_disk import run_on_full_disk
from tests.store.transcript_lines import agent_chunk, answer, prompt_line
from tests.stored import WholeStore, list_ids, read_files
from tests.waiting import SECONDS

MINUTE = 60
DAY = 24 * 60 * MINUTE


def marks(root: Path) -> set[str]:
    return {path.name for path in root.glob("unindexed/*/*")}


def transcript(root: Path, session: str, agent: str = AGENT) -> Path:
    return root / "transcripts" / agent / f"{file_name(session)}.jsonl"


def read_index_ids(root: Path) -> list[str]:
    """The sessions in the index file, read by another connection."""
    database = sqlite3.connect(f"file:{root / 'index.sqlite3'}?mode=ro", uri=True)
    try:
        rows = database.execute("SELECT session FROM transcripts ORDER BY session").fetchall()
    finally:
        database.close()
    return [session.decode() for (session,) in rows]


# --- marks


def test_an_unindexed_transcript_is_in_the_next_list(store: WholeStore, root: Path) -> None:
    transcript_lines.store_lines(store, AGENT, "before")
    assert list_ids(store) == ["before"]
    transcript_lines.store_lines(store, AGENT, "killed", at=1)
    assert marks(root) == {file_name("killed")}
    assert list_ids(WholeStore(root)) == ["killed", "before"]
    assert marks(root) == set()


def test_a_list_without_time_for_new_transcripts_leaves_them_to_the_next(store: WholeStore, root: Path) -> None:
    transcript_lines.store_lines(store, AGENT, "known")
    assert list_ids(store) == ["known"]
    transcript_lines.store_lines(store, AGENT, "new", at=1)
    transcript_lines.store_lines(store, AGENT, "restored", at=2)
    (root / "unindexed" / AGENT / file_name("restored")).unlink()
    hurried = WholeStore(root)
    hurried.catch_up_seconds = 0.0
    assert list_ids(hurried) == ["known"]
    assert marks(root) == {file_name("new")}
    assert list_ids(WholeStore(root)) == ["restored", "new", "known"]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The agents and names of the transcripts that the index reads; each takes a second."""
    noted, bring_in_one = list[tuple[str, str]](), StoreIndex._bring_in_one

    def note(catalog: StoreIndex, index: Index, agent_folder: str, name: str) -> bool:
        noted.append((agent_folder, name))
        return bring_in_one(catalog, index, agent_folder, name)

    monkeypatch.setattr(StoreIndex, "_bring_in_one", note)
    monkeypatch.setattr(store_index, "time", SimpleNamespace(monotonic=lambda: float(len(noted)), time=time.time))
    return noted


def test_all_agents_of_a_list_share_its_time(store: WholeStore, reads: list[tuple[str, str]]) -> None:
    agents = ["mine", "theirs"]
    store.store_index.catch_up(*agents)
    for agent in agents:
        for number in range(4):
            transcript_lines.store_lines(store, agent, f"s{number}")
    hurried = ProxyStore(store.root)
    hurried.catch_up_seconds = 5.0
    assert [len(hurried.list_page("mine", None, None, "run", other_folders=["theirs"]).rows), len(reads)] == [5, 5]
    assert [len(hurried.list_page("mine", None, None, "run", other_folders=["theirs"]).rows), len(reads)] == [8, 8]


def test_a_new_index_is_filled_by_several_lists_with_the_newest_first(
    store: WholeStore, root: Path, reads: list[tuple[str, str]]
) -> None:
    for at, session in enumerate(["b", "d", "a", "c"]):
        for agent in (AGENT, "another"):
            transcript_lines.store_lines(store, agent, session, at=at)
            os.utime(transcript(root, session, agent), (at, at))
    hurried = ProxyStore(root)
    hurried.catch_up_seconds = 3.0
    pages = [[row.session_id for row in hurried.list_page(AGENT, None, None, "run").rows] for _ in range(3)]
    assert pages == [["c", "a", "d"], ["c", "a", "d", "b"], ["c", "a", "d", "b"]]
    assert len(set(reads)) == len(reads) == 8
    assert not hurried.store_index.query(lambda index: index.is_new)


@pytest.mark.usefixtures("reads")
def test_a_session_continued_while_a_new_index_is_filled_is_listed_as_it_is(store: WholeStore, root: Path) -> None:
    for number in range(20):
        transcript_lines.store_lines(store, "another", f"s{number}")
    transcript_lines.store_lines(store, AGENT, "a", at=1)
    transcript_lines.store_lines(store, AGENT, "b", at=2)
    hurried = ProxyStore(root)
    hurried.catch_up_seconds = 5.0
    listed = [[row.session_id for row in hurried.list_page(AGENT, None, None, "run").rows]]
    transcript_lines.store_lines(store, AGENT, "a", prompt_line("again", at=3), answer(at=3), fresh=False)
    listed += [[row.session_id for row in hurried.list_page(AGENT, None, None, "run").rows]]
    assert hurried.store_index.query(lambda index: index.is_new)
    assert listed == [["b", "a"], ["a", "b"]]


def test_a_mark_updates_a_known_session(store: WholeStore, root: Path) -> None:
    transcript_lines.store_lines(store, AGENT, "a", at=1)
    transcript_lines.store_lines(store, AGENT, "b", at=2)
    assert list_ids(store) == ["b", "a"]
    transcript_lines.store_lines(store, AGENT, "a", prompt_line("again", at=3), answer(at=3), fresh=False)
    assert list_ids(WholeStore(root)) == ["a", "b"]


@pytest.mark.parametrize("soft", [False, True])
def test_a_session_deleted_during_indexing_has_no_row(
    store: WholeStore, root: Path, monkeypatch: pytest.MonkeyPatch, soft: bool
) -> None:
    """Even if only its file says so, because its id belongs to a newer session."""
    transcript_lines.store_lines(store, AGENT, "s", prompt_line("a secret", session="s"), answer())
    transcript_lines.store_lines(store, AGENT, "s", at=1)
    [_, older] = store.list_all()
    Layout(root).mark(AGENT, older.name)

    def overtaken(index: Index, agent: str, name: str, reader: TranscriptReader) -> bool:
        if name == older.name:
            monkeypatch.undo()
            delete.delete_by_name(Layout(root), AGENT, "s", name, soft=soft, only_on_this_machine=False)
            (root / "unindexed" / AGENT / name).unlink()
        return Index.put_row(index, agent, name, reader)

    monkeypatch.setattr(index_database.Index, "put_row", overtaken)
    assert [row.name for row in store.list_all()] == [file_name("s")]
    assert soft or not any(b"secret" in path.read_bytes() for path in root.glob("index.sqlite3*"))


def test_a_transcript_compressed_during_indexing_is_indexed_correctly(
    store: WholeStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcript_lines.store_lines(store, AGENT, "s", prompt_line("hello", session="s"), answer())
    assert list_ids(store) == ["s"]
    store.mark(AGENT, "s")

    def overtaken(path: Path) -> TranscriptReader:
        reader = TranscriptReader(path)
        monkeypatch.undo()
        other = WholeStore(root)
        assert [row.session_id for row in other.list_all()] == ["s"]
        assert other.compress(AGENT, file_name("s"), CompressionOptions(min_size=1, older_than=0.0)) is not None
        return reader

    monkeypatch.setattr("acp_proxy.store.store_index.TranscriptReader", overtaken)
    assert [row.session_id for row in store.list_all()] == ["s"]
    assert [row.session_id for row in store.list_all()] == ["s"]
    assert marks(root) == set()
    assert list(verify_store(store)) == []


def test_a_session_revived_while_it_is_forgotten_is_listed(store: WholeStore, root: Path) -> None:
    transcript_lines.store_lines(store, AGENT, "s")
    assert list_ids(store) == ["s"]
    with closing(sqlite3.connect(root / "index.sqlite3", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM transcripts").fetchone()
        store.remove_from_index(AGENT, "s")  # like the process that deleted it, after another one has restored it
    assert list_ids(store) == ["s"]
    assert marks(root) == set()


class Killed(BaseException):
    """Raised in place of a kill."""


@pytest.mark.usefixtures("trusted_times")
def test_a_kill_after_the_removal_of_a_row_loses_no_revived_session(
    store: WholeStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcript_lines.store_lines(store, AGENT, "s")
    assert list_ids(store) == ["s"]
    remove = Index.remove_rows

    def killed(index: Index, agent: str, *names: str) -> bool:
        remove(index, agent, *names)
        raise Killed

    monkeypatch.setattr(index_database.Index, "remove_rows", killed)
    with pytest.raises(Killed):
        store.remove_from_index(AGENT, "s")  # like the process that deleted it, after another one has restored it
    assert read_index_ids(root) == []
    monkeypatch.setattr(index_database.Index, "remove_rows", remove)
    assert list_ids(WholeStore(root)) == ["s"]


@pytest.mark.usefixtures("trusted_times")
def test_a_row_removed_by_another_process_before_its_mark_comes_back(
    store: WholeStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session is revived and indexed before the process that deleted it forgets it."""
    transcript_lines.store_lines(store, AGENT, "s")
    assert list_ids(store) == ["s"]
    transcript_lines.store_lines(store, AGENT, "s", prompt_line("more"), answer(), fresh=False)
    unmark = Layout.unmark

    def overtaken(layout: Layout, agent: str, name: str, is_needed: Callable[[], bool]) -> None:
        monkeypatch.setattr(Layout, "unmark", unmark)
        WholeStore(root).remove_from_index(AGENT, "s")
        unmark(layout, agent, name, is_needed)

    monkeypatch.setattr(Layout, "unmark", overtaken)
    store.index_session(AGENT, "s")
    assert marks(root) == set()
    assert list_ids(WholeStore(root)) == ["s"]


@pytest.mark.usefixtures("trusted_times")
def test_a_kill_during_the_removal_of_a_mark_keeps_it(
    store: WholeStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcript_lines.store_lines(store, AGENT, "s")
    assert list_ids(store) == ["s"]
    transcript_lines.store_lines(store, AGENT, "s", prompt_line("more", at=1), answer(at=1), fresh=False)

    def killed(reader: TranscriptReader) -> None:
        transcript_lines.store_lines(
            WholeStore(root), AGENT, "s", prompt_line("and more", at=2), answer(at=2), fresh=False
        )
        (root / "unindexed" / AGENT / file_name("s")).unlink()  # the mark came before the entries
        raise Killed

    measure = TranscriptReader.measure
    monkeypatch.setattr(TranscriptReader, "measure", killed)
    with pytest.raises(Killed):
        store.index_session(AGENT, "s")
    monkeypatch.setattr(TranscriptReader, "measure", measure)
    assert [row.prompt_count for row in WholeStore(root).list_page(AGENT, None, None, transcript_lines.RUN).rows] == [3]
    assert marks(root) == set()


def test_a_session_restored_during_a_list_is_in_the_next_list(
    store: WholeStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcript_lines.store_lines(store, AGENT, "s")
    assert list_ids(store) == ["s"]
    store.delete(AGENT, "s", soft=True)

    def overtaken(index: Index, agent: str, *names: str) -> bool:
        if names == (file_name("s"),):
            monkeypatch.undo()
            other = WholeStore(root)
            other.restore(other.list_deleted()[0])
        return Index.remove_rows(index, agent, *names)

    monkeypatch.setattr(index_database.Index, "remove_rows", overtaken)
    (root / "unindexed" / AGENT / file_name("s")).unlink()
    list_ids(store)
    assert list_ids(WholeStore(root)) == ["s"]


@pytest.mark.usefixtures("trusted_times")
def test_a_transcript_that_grows_is_read_only_with_a_mark(
    store: WholeStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcript_lines.store_lines(store, AGENT, "a", at=1)
    transcript_lines.store_lines(store, AGENT, "b")
    assert list_ids(store) == ["a", "b"]
    unseen = store.open_to_append(AGENT, transcript_lines.header("b"), is_new=False)
    unseen.append(prompt_line("x", at=2, session="b"))
    unseen.close()
    assert list_ids(store) == ["a", "b"]
    store.mark(AGENT, "b")
    assert list_ids(store) == ["b", "a"]


def test_an_open_turn_keeps_its_mark(store: WholeStore, root: Path) -> None:
    transcript_lines.store_lines(store, AGENT, "s", prompt_line("x", at=1))
    for _ in range(2):
        assert list_ids(store) == ["s"]
        assert marks(root) == {file_name("s")}
    going_on = store.open_to_append(AGENT, transcript_lines.header("s"), is_new=False)
    going_on.append(agent_chunk("a", at=2) + answer(at=3))
    going_on.close()
    [row] = store.list_page(AGENT, None, None, transcript_lines.RUN).rows
    assert (row.reply_count, row.updated) == (1, transcript_lines.time(3))
    assert marks(root) == set()


def test_a_replay_keeps_its_mark_for_a_minute(store: WholeStore, root: Path) -> None:
    transcript_of = store.open_to_append(AGENT, transcript_lines.header("s", origin=file_format.IMPORTED), is_new=False)
    store.mark(AGENT, "s")
    transcript_of.append(agent_chunk("one"))
    assert list_ids(store) == ["s"]
    assert marks(root) == {file_name("s")}
    transcript_of.append(agent_chunk("two"))
    transcript_of.close()
    written = transcript(root, "s").stat().st_mtime
    os.utime(transcript(root, "s"), (written - MINUTE - 1, written - MINUTE - 1))
    assert list_ids(store) == ["s"]
    assert marks(root) == set()
    assert store.list_all()[0].size == transcript(root, "s").stat().st_size


def test_an_open_turn_keeps_its_mark_for_a_day(store: WholeStore, root: Path) -> None:
    transcript_lines.store_lines(store, AGENT, "s", prompt_line("x"))
    written = transcript(root, "s").stat().st_mtime
    os.utime(transcript(root, "s"), (written - DAY + 600, written - DAY + 600))
    list_ids(store)
    assert marks(root) == {file_name("s")}
    os.utime(transcript(root, "s"), (written - DAY - 600, written - DAY - 600))
    assert list_ids(store) == ["s"]
    assert marks(root) == set()


def test_an_open_turn_keeps_its_mark_while_a_process_has_it_open(store: WholeStore, root: Path) -> None:
    transcript_lines.store_lines(store, AGENT, "s", prompt_line("x"))
    with closing(TranscriptAppender(transcript(root, "s"))):
        long_ago = time.time() - DAY - 600
        os.utime(transcript(root, "s"), (long_ago, long_ago))
        list_ids(store)
        assert marks(root) == {file_name("s")}
    os.utime(transcript(root, "s"), (long_ago, long_ago))
    list_ids(store)
    assert marks(root) == set()


def test_a_mark_without_a_transcript_is_removed_with_its_session(store: WholeStore, root: Path) -> None:
    transcript_lines.store_lines(store, AGENT, "s")
    assert list_ids(store) == ["s"]
    store.mark(AGENT, "s")
    store.mark(AGENT, "never written")
    transcript(root, "s").unlink()
    assert list_ids(store) == []
    assert marks(root) == set()


def test_an_unreadable_transcript_stays_marked_and_hides_no_other(store: WholeStore, root: Path) -> None:
    for session in ("newer", "a directory", "intact"):
        transcript_lines.store_lines(store, AGENT, session)
    transcript(root, "newer").write_bytes(b'{"acp-transcript":2}\n')
    transcript(root, "a directory").unlink()
    transcript(root, "a directory").mkdir()
    assert list_ids(store) == ["intact"]
    assert marks(root) == {file_name("newer"), file_name("a directory")}


def test_an_io_error_hides_no_other_session(store: WholeStore, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transcript_lines.store_lines(store, AGENT, "intact", at=1)
    transcript_lines.store_lines(store, AGENT, "bad", *(agent_chunk("x" * 1000) for _ in range(200)))
    bad, read = transcript(root, "bad").stat().st_ino, os.pread

    def pread(fd: int, size: int, at: int) -> bytes:
        if at > 0 and os.fstat(fd).st_ino == bad:
            raise OSError(5, "Input/output error")
        return read(fd, size, at)

    monkeypatch.setattr(os, "pread", pread)
    assert list_ids(store) == ["intact"]
    assert list_ids(WholeStore(root)) == ["intact"]
    assert marks(root) == {file_name("bad")}


def test_a_list_reads_only_the_marks_of_its_agent(store: WholeStore, root: Path) -> None:
    transcript_lines.store_lines(store, "one", "a")
    transcript_lines.store_lines(store, "two", "b")
    assert list_ids(store, "one") == ["a"]  # the first list indexes everything
    transcript_lines.store_lines(store, "two", "c", at=1)
    assert list_ids(store, "one") == ["a"]
    assert marks(root) == {file_name("c")}
    assert [row.session_id for row in store.list_all()] == ["c", "b", "a"]
    assert marks(root) == set()


@pytest.mark.parametrize(
    "damage", [b"\xff garbage \xff\n", b"\0" * 512 + b"\n", b'{"at":"2026-11-20T09:15:02.\xff23Z",']
)
def test_a_damaged_transcript_is_listed_and_hides_no_other(store: WholeStore, root: Path, damage: bytes) -> None:
    transcript_lines.store_lines(store, AGENT, "intact", at=1)
    transcript_lines.store_lines(
        store, AGENT, "damaged", prompt_line("x", at=2), damage, answer(at=3).replace(b"Z", b"\xff"), answer(at=4)
    )
    assert list_ids(store) == ["damaged", "intact"]


def test_checking_the_index_keeps_its_log_for_other_processes(store: WholeStore, root: Path) -> None:
    transcript_lines.store_lines(store, AGENT, "a")
    assert list_ids(store) == ["a"]
    assert list(verify_store(store)) == []
    with closing(Index(root / "index.sqlite3")):
        assert list_ids(WholeStore(root)) == ["a"]
        leaves = "import sqlite3, sys; index = sqlite3.connect(sys.argv[1]); index.execute('PRAGMA user_version')"
        subprocess.run([sys.executable, "-c", leaves, str(root / "index.sqlite3")], check=True)
        assert (root / "index.sqlite3-wal").exists()
        assert (root / "index.sqlite3-shm").exists()
    transcript_lines.store_lines(store, AGENT, "b", at=1)
    assert list_ids(store) == ["b", "a"]
    assert list(verify_store(store)) == []


# --- a broken file


@pytest.fixture
def full(store: WholeStore, root: Path) -> Iterator[WholeStore]:
    """Three indexed sessions, one of them deleted."""
    for at, session in enumerate(("a", "b", "deleted")):
        transcript_lines.store_lines(store, AGENT, session, at=at)
    assert list_ids(store) == ["deleted", "b", "a"]
    store.delete(AGENT, "deleted", soft=False)
    store.remove_from_index(AGENT, "deleted")
    yield store
    assert list_ids(store) == ["b", "a"]  # also in the process that has the index open


def missing(index: Path) -> None:
    for path in index.parent.glob("index.sqlite3*"):
        path.unlink()


def missing_except_its_log(index: Path) -> None:
    index.unlink()


def empty(index: Path) -> None:
    missing(index)
    index.touch()


def garbage(index: Path) -> None:
    missing(index)
    index.write_bytes(b"no database at all " * 1000)


def garbage_inside(index: Path) -> None:
    """Damage by a disk: the beginning is intact."""
    data = bytearray(read_index_bytes(index))
    data[200:] = b"\xa5" * (len(data) - 200)
    index.write_bytes(data)


def newer(index: Path) -> None:
    missing(index)
    edit(index, "PRAGMA user_version = 99")


def foreign(index: Path) -> None:
    missing(index)
    edit(index, "CREATE TABLE transcripts(x); INSERT INTO transcripts VALUES (1)")


def foreign_of_our_version(index: Path) -> None:
    missing(index)
    edit(index, "CREATE TABLE transcripts(x); PRAGMA user_version = 1")


def empty_of_our_version(index: Path) -> None:
    missing(index)
    edit(index, "CREATE TABLE other(x); PRAGMA user_version = 1")


def without_a_column(index: Path) -> None:
    read_index_bytes(index)
    edit(
        index,
        "DROP INDEX listing; DROP INDEX by_place; DROP INDEX by_spelling; ALTER TABLE transcripts DROP COLUMN place",
    )


def row_of_invalid_json(index: Path) -> None:
    read_index_bytes(index)
    edit(index, "UPDATE transcripts SET info = 'no json', state = '[]', open = 'x'")


def read_index_bytes(index: Path) -> bytes:
    """The file's bytes, including its log."""
    edit(index, "PRAGMA wal_checkpoint(TRUNCATE)")
    return index.read_bytes()


def edit(index: Path, script: str) -> None:
    database = sqlite3.connect(index)
    database.executescript(script)
    database.close()


BROKEN = [
    missing,
    missing_except_its_log,
    empty,
    garbage,
    garbage_inside,
    newer,
    foreign,
    foreign_of_our_version,
    empty_of_our_version,
    without_a_column,
    row_of_invalid_json,
]


@pytest.mark.parametrize("break_it", BROKEN)
def test_a_broken_index_is_rebuilt_and_deleted_sessions_stay_deleted(
    full: WholeStore, root: Path, break_it: Callable[[Path], None]
) -> None:
    break_it(root / "index.sqlite3")
    assert list_ids(WholeStore(root)) == ["b", "a"]
    assert read_index_ids(root) == ["a", "b"]


@pytest.mark.parametrize("break_it", BROKEN)
def test_a_broken_open_index_is_rebuilt(full: WholeStore, root: Path, break_it: Callable[[Path], None]) -> None:
    break_it(root / "index.sqlite3")
    assert list_ids(full) == ["b", "a"]


def test_rebuilding_an_index_reports_its_progress(full: WholeStore, root: Path) -> None:
    told: list[tuple[int, int]] = []
    missing(root / "index.sqlite3")
    store = WholeStore(root)
    store.show_progress = lambda: contextlib.nullcontext(lambda done, total: told.append((done, total)))
    assert list_ids(store) == ["b", "a"]
    assert told == [(0, 2)]
    assert list_ids(store) == ["b", "a"]
    assert told == [(0, 2)]


def test_an_index_cut_at_any_size_is_rebuilt(full: WholeStore, root: Path, tmp_path: Path) -> None:
    index = root / "index.sqlite3"
    data = read_index_bytes(index)
    for size in (0, 1, 15, 16, 99, 100, 511, 4095, 4096, 4097, 8192, len(data) // 2, len(data) - 4096, len(data) - 1):
        copy = tmp_path / f"copy-{size}"
        shutil.copytree(root, copy)
        (copy / index.name).write_bytes(data[:size])
        assert list_ids(WholeStore(copy)) == ["b", "a"]
        assert [row.session_id for row in WholeStore(copy).list_all()] == ["b", "a"]


def test_a_half_deleted_session_never_comes_back(full: WholeStore, root: Path) -> None:
    before = transcript(root, "a").read_bytes()
    full.delete(AGENT, "a", soft=False)
    transcript(root, "a").write_bytes(before)  # as if killed between the two steps
    missing(root / "index.sqlite3")
    assert list_ids(WholeStore(root)) == ["b"]
    assert not transcript(root, "a").exists()
    assert [row.session_id for row in WholeStore(root).list_all()] == ["b"]
    assert list_ids(full) == ["b"]
    transcript_lines.store_lines(full, AGENT, "a", at=0)


def test_a_session_half_deleted_during_a_turn_never_comes_back(full: WholeStore, root: Path) -> None:
    going_on = full.open_to_append(AGENT, transcript_lines.header("a"), is_new=False)
    full.mark(AGENT, "a")
    going_on.append(prompt_line("x", at=5, session="a"))
    going_on.close()
    before = transcript(root, "a").read_bytes()
    full.delete(AGENT, "a", soft=False)
    transcript(root, "a").write_bytes(before)
    for _ in range(2):
        assert list_ids(WholeStore(root)) == ["b"]
        assert list_ids(full) == ["b"]
    assert not transcript(root, "a").exists()
    transcript_lines.store_lines(full, AGENT, "a", at=0)


def leave_interrupted_delete(store: WholeStore, root: Path, session: str) -> Path:
    """A delete that was killed between the journal and the transcript. The transcript's path."""
    path = transcript(root, session)
    before = path.read_bytes()
    store.delete(AGENT, session, soft=False)
    path.write_bytes(before)
    return path


def test_a_list_does_not_wait_for_a_delete_and_the_next_one_finishes_it(full: WholeStore, root: Path) -> None:
    path = leave_interrupted_delete(full, root, "a")
    other = WholeStore(root)
    with Journal(root / "transcripts" / AGENT / "state.jsonl").lock():
        assert list_ids(other) == ["b"]
        assert path.exists()
    assert list_ids(other) == ["b"]
    assert not path.exists()
    transcript_lines.store_lines(full, AGENT, "a", at=0)


def test_a_read_only_store_hides_a_half_deleted_session(
    full: WholeStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = leave_interrupted_delete(full, root, "a")
    full.mark(AGENT, "gone")
    before = {each: each.stat().st_mtime_ns for each in [root, *root.rglob("*")]}
    with monkeypatch.context() as protected:
        protected.setattr(os, "access", lambda path, mode: False)
        other = WholeStore(root, create=False)
    assert list_ids(other) == ["b"]
    assert [row.session_id for row in other.list_all()] == ["b"]
    assert other.find_named("a") == []
    assert {each: each.stat().st_mtime_ns for each in [root, *root.rglob("*")]} == before
    assert list_ids(WholeStore(root)) == ["b"]
    assert not path.exists()
    transcript_lines.store_lines(full, AGENT, "a", at=0)


def test_a_revived_session_is_not_a_half_deleted_one(full: WholeStore, root: Path) -> None:
    full.delete(AGENT, "a", soft=False)
    other = WholeStore(root)
    assert list_ids(other) == ["b"]
    transcript_lines.store_lines(full, AGENT, "a", at=0)
    assert list_ids(other) == list_ids(WholeStore(root)) == ["b", "a"]


def read_all_bytes(root: Path) -> bytes:
    return b"".join(data for _, data in read_files(root))


def test_a_log_read_by_another_process_is_cleared_by_the_next_list(
    store: WholeStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_database, "_ERASE_BUSY_MS", 1)
    transcript_lines.store_lines(store, AGENT, "s", prompt_line("a secret of the user"), answer())
    assert list_ids(store) == ["s"]
    reader = sqlite3.connect(root / "index.sqlite3", isolation_level=None)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM transcripts").fetchone() == (1,)
    store.delete(AGENT, "s", soft=False)
    store.remove_from_index(AGENT, "s")
    assert list_ids(store) == []
    assert b"secret" in read_all_bytes(root)
    assert marks(root) == {file_name("s")}
    reader.execute("COMMIT")
    assert list_ids(WholeStore(root)) == []
    assert b"secret" not in read_all_bytes(root)
    assert marks(root) == set()
    reader.close()


def test_the_next_list_removes_the_rows_that_a_delete_could_not(
    store: WholeStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_database, "_BUSY_MS", 50)
    for _ in range(2):  # the second sets the first aside
        transcript_lines.store_lines(store, AGENT, "s", prompt_line("a secret of the user"), answer())
    store = WholeStore(root)
    new, old = store.list_all()
    with locked(root / "index.sqlite3"):
        for row in (old, new):
            with pytest.raises(Unreadable):
                store.delete_listed(row, soft=False)
        assert store.list_all() == []
        assert marks(root) == {new.name, old.name}
    assert b"secret" in read_all_bytes(root)
    assert store.list_all() == []
    assert b"secret" not in read_all_bytes(root)
    assert marks(root) == set()


def test_a_locked_index_is_not_waited_for_at_every_turn(
    full: WholeStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_database, "_BUSY_MS", 50)
    store, now = WholeStore(root), [1000.0]
    transcript_lines.store_lines(full, AGENT, "new", at=5)
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with locked(root / "index.sqlite3"), pytest.raises(Unreadable):
        store.index_session(AGENT, "new")
    with pytest.raises(Unreadable):
        store.index_session(AGENT, "new")
    assert marks(root) == {file_name("new")}
    now[0] += 60.0
    store.index_session(AGENT, "new")
    assert marks(root) == set()
    full.delete(AGENT, "new", soft=False)


def test_a_directory_in_place_of_the_index_stays_and_lists_work(full: WholeStore, root: Path) -> None:
    missing(root / "index.sqlite3")
    (root / "index.sqlite3").mkdir()
    transcript_lines.store_lines(full, AGENT, "unseen", at=5)
    for _ in range(2):
        assert list_ids(full) == ["unseen", "b", "a"]
        assert list_ids(WholeStore(root)) == ["unseen", "b", "a"]
    assert marks(root) == {file_name("unseen")}  # nothing was written to a lasting index
    full.delete(AGENT, "unseen", soft=False)
    (root / "index.sqlite3").rmdir()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        database.execute("ROLLBACK")
        database.close()


def test_a_list_works_without_a_locked_index(full: WholeStore, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_database, "_BUSY_MS", 50)
    before = (root / "index.sqlite3").stat().st_ino
    impatient = WholeStore(root)
    assert list_ids(impatient) == ["b", "a"]
    transcript_lines.store_lines(full, AGENT, "new", at=5)
    with locked(root / "index.sqlite3"):
        assert list_ids(impatient) == ["new", "b", "a"]
        assert list_ids(WholeStore(root)) == ["new", "b", "a"]
        assert marks(root) == {file_name("new")}
    assert list_ids(impatient) == ["new", "b", "a"]
    assert marks(root) == set()
    assert (root / "index.sqlite3").stat().st_ino == before
    full.delete(AGENT, "new", soft=False)


def test_with_a_locked_index_only_marked_transcripts_are_read(
    store: WholeStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_database, "_BUSY_MS", 50)
    transcript_lines.store_lines(store, AGENT, "old")
    assert list_ids(store) == ["old"]
    [path] = root.glob("transcripts/*/old-*.jsonl")
    path.write_bytes(b"x" * path.stat().st_size)  # unmarked: reading every transcript would not find the session
    transcript_lines.store_lines(store, AGENT, "new", at=5)
    with locked(root / "index.sqlite3"):
        assert list_ids(WholeStore(root)) == ["new", "old"]


def test_a_list_works_if_the_disk_has_no_room_for_the_index(store: WholeStore, root: Path) -> None:
    for number in range(60):
        transcript_lines.store_lines(
            store, AGENT, f"s{number:02}", prompt_line("x" * 200, at=number), answer(at=number)
        )
    expected = [f"s{number:02}" for number in range(59, -1, -1)]
    assert run_on_full_disk("show", root, 8192) == expected
    assert len(marks(root)) == 60
    assert list_ids(store) == expected
    assert marks(root) == set()


def test_a_list_that_cannot_read_the_transcripts_names_the_errno(store: WholeStore, root: Path) -> None:
    (root / "transcripts" / AGENT).mkdir()
    (root / "transcripts" / AGENT / "state.jsonl").mkdir()
    with pytest.raises(Unreadable) as problem:
        list_ids(store)
    assert problem.value.name == "EISDIR"
    assert list_ids(store, "another") == []


def test_a_removed_store_is_empty(full: WholeStore, root: Path) -> None:
    aside = root.with_name("aside")
    root.rename(aside)
    assert list_ids(full) == []
    assert full.list_all() == []
    if root.exists():
        shutil.rmtree(root)
    aside.rename(root)


# --- several processes


def test_two_processes_can_index_at_once(root: Path) -> None:
    WholeStore(root)
    run_together(("keep", root, "one", "40"), ("keep", root, "two", "40"))
    expected = {f"{name}-{number}" for name in ("one", "two") for number in range(40)}
    assert set(list_ids(WholeStore(root))) == expected
    assert set(read_index_ids(root)) == expected
    assert marks(root) == set()


def test_two_stores_on_one_directory_see_each_others_changes(store: WholeStore, root: Path) -> None:
    other = WholeStore(root)
    assert list_ids(store) == list_ids(other) == []
    for at in range(20):
        one, two = (store, other) if at % 2 else (other, store)
        transcript_lines.store_lines(one, AGENT, f"s{at:02}", at=at)
        one.index_session(AGENT, f"s{at:02}")
        assert list_ids(two)[0] == f"s{at:02}"
    store.delete(AGENT, "s19", soft=False)
    store.remove_from_index(AGENT, "s19")
    assert list_ids(other)[0] == "s18"
    other.delete(AGENT, "s18", soft=False)  # as if it died before it could forget it
    assert list_ids(store)[0] == "s17"
    assert len(read_index_ids(root)) == 18


def test_one_store_can_be_used_by_several_threads_in_turn(store: WholeStore) -> None:
    transcript_lines.store_lines(store, AGENT, "s")
    assert list_ids(store) == ["s"]
    with ThreadPoolExecutor() as threads:
        assert threads.submit(list_ids, store).result(SECONDS) == ["s"]


def test_an_index_rebuilt_by_one_store_is_used_by_the_other(store: WholeStore, root: Path) -> None:
    other = WholeStore(root)
    transcript_lines.store_lines(store, AGENT, "a")
    assert list_ids(store) == list_ids(other) == ["a"]
    missing(root / "index.sqlite3")
    assert list_ids(store) == ["a"]
    transcript_lines.store_lines(store, AGENT, "b", at=1)
    store.index_session(AGENT, "b")
    assert marks(root) == set()
    assert list_ids(other) == ["b", "a"]


@pytest.mark.skipif(sys.platform == "win32", reason="nobody can remove there what another process has open")
@pytest.mark.usefixtures("trusted_times")
def test_two_stores_that_replace_the_same_index_use_the_same_new_one(
    store: WholeStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at, session in enumerate(("a", "b")):
        transcript_lines.store_lines(store, AGENT, session, at=at)
    assert list_ids(store) == ["b", "a"]
    newer(root / "index.sqlite3")
    one, two = WholeStore(root), WholeStore(root)
    unlink = Path.unlink
    lists: list[Future[list[str]]] = []
    with ThreadPoolExecutor() as threads:

        def unlink_while_two_lists(path: Path, missing_ok: bool = False) -> None:
            if path.name == "index.sqlite3-wal" and not lists:
                lists.append(threads.submit(list_ids, two))
                wait(lists, 0.5)
            unlink(path, missing_ok)

        monkeypatch.setattr(Path, "unlink", unlink_while_two_lists)
        assert list_ids(one) == lists[0].result(SECONDS) == ["b", "a"]
    transcript_lines.store_lines(two, AGENT, "a", at=9, fresh=False)
    two.index_session(AGENT, "a")
    assert list_ids(one) == ["a", "b"]


def test_lists_do_not_wait_for_an_index_that_cannot_be_locked(
    full: WholeStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a network file system that has lost its locks: SQLite would try again for ten seconds each time."""
    transcript_lines.store_lines(full, AGENT, "new", at=5)
    fills: list[str] = []
    fill = StoreIndex._fill

    def counted(catalog: StoreIndex, index: Index, agents: tuple[str, ...], until: float) -> None:
        fills.append("fill")
        fill(catalog, index, agents, until)

    monkeypatch.setattr(StoreIndex, "_fill", counted)
    opened = WholeStore(root)
    with monkeypatch.context() as locks:
        locks.setattr(file_access, "has_record_locks", lambda path: False)
        locks.setattr(store_index, "Index", in_memory_only)
        assert list_ids(opened) == ["new", "b", "a"]
        transcript_lines.store_lines(full, AGENT, "newer", at=6)
        assert list_ids(opened) == ["newer", "new", "b", "a"]
        assert fills == ["fill"], "the transcripts are read once"
    assert list_ids(opened) == ["newer", "new", "b", "a"]
    assert marks(root) == set()
    for session in ("new", "newer"):
        full.delete(AGENT, session, soft=False)
        full.remove_from_index(AGENT, session)


def in_memory_only(path: Path | None) -> Index:
    assert path is None
    return Index(path)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
def test_a_file_system_that_refuses_locks_is_told_from_one_where_somebody_holds_one(
    root: Path, store: WholeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    def refused(number: int) -> bool:
        def lockf(*given: object) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(fcntl, "lockf", lockf)
        return file_access.has_record_locks(root / "format")

    assert file_access.has_record_locks(root / "format")
    assert (refused(errno.ENOLCK), refused(errno.EAGAIN)) == (False, True)


class Locked(sqlite3.Connection):
    """A connection whose file is locked after the first query."""

    def backup(self, target: sqlite3.Connection, *, progress: Any = None, **more: Any) -> None:
        progress(sqlite3.SQLITE_BUSY, 1, 1)
        raise AssertionError("it tries again for ever")


def test_the_rows_of_a_locked_index_are_not_waited_for(
    full: WholeStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = Index(None)
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Locked))
    index.copy_from(root / "index.sqlite3")
    assert index.is_new
    index.close()
    monkeypatch.undo()
