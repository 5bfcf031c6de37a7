"""Verify finds everything that is wrong in a store, with what to do, and nothing else."""

import errno
import os
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from acp_proxy.store import folder_changes
from acp_proxy.tools.maintenance import verify
from acp_proxy.tools.maintenance.repair_findings import repair_finding
from acp_proxy.tools.maintenance.verify import BY_HAND, NOTHING, REPAIR, Finding, verify_store
from acp_proxy.tools.search import fts_table
from acp_proxy.tools.search.query import make_query
from acp_proxy.tools.search.search import SearchRequest, search_store
from acp_proxy.transcript.file_names import file_name
from tests.store import transcript_lines
from tests.stored import WholeStore, read_files

AGENT = "agent"
LONG_AGO = 1_000_000_000


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    before = os.umask(0o077)
    yield tmp_path / "store"
    os.umask(before)


@pytest.fixture
def store(root: Path) -> WholeStore:
    store = WholeStore(root)
    for at, session in enumerate(("a", "b")):
        transcript_lines.store_lines(store, AGENT, session, at=at)
    # This store's index stays closed: Windows removes no file that is open.
    assert len(WholeStore(root).list_all()) == 2
    return store


def path_of(root: Path, session: str) -> Path:
    return root / "transcripts" / AGENT / f"{file_name(session)}.jsonl"


def kinds(found: Iterator[Finding]) -> list[tuple[str, str]]:
    return [(one.kind, one.remedy) for one in found]


def damage(path: Path, more: bytes = b"\0" * 200 + b"\n") -> None:
    with path.open("ab") as file:
        file.write(more)
    os.utime(path, (LONG_AGO, LONG_AGO))


def mend(store: WholeStore) -> None:
    for finding in list(verify_store(store)):
        if finding.remedy == REPAIR:
            repair_finding(store, finding)


def test_an_intact_store_has_no_findings(store: WholeStore) -> None:
    store.delete(AGENT, "a", soft=False)
    assert kinds(verify_store(store)) == []


def test_a_turn_in_progress_is_no_finding(store: WholeStore) -> None:
    going_on = store.open_to_append(AGENT, transcript_lines.header("a"), is_new=False)
    store.mark(AGENT, "a")
    going_on.append(transcript_lines.prompt_line("more", session="a", at=9))
    going_on.close()
    transcript_lines.store_lines(store, AGENT, "new")
    assert kinds(verify_store(store)) == []


def test_a_damaged_transcript_is_reported_with_its_session_and_repaired(store: WholeStore) -> None:
    damage(path_of(store.root, "a"))
    [found] = verify_store(store)
    assert (found.path, found.agent_folder, found.name) == (path_of(store.root, "a"), AGENT, file_name("a"))
    assert (found.kind, found.remedy) == ("NUL bytes", REPAIR)
    assert list(verify_store(store, (AGENT, file_name("a")))) == [found]
    assert list(verify_store(store, (AGENT, file_name("b")))) == []
    copy = repair_finding(store, found)
    assert copy is not None
    assert copy.parent == store.root / "backups" / AGENT
    assert kinds(verify_store(store)) == []
    assert repair_finding(store, found) is None  # nothing to repair, so no backup


def test_a_line_being_written_is_waited_for(store: WholeStore, root: Path) -> None:
    path = path_of(root, "a")
    line = transcript_lines.agent_chunk("x" * 1000, session="a")
    with path.open("ab") as file:
        file.write(line[:500])
    verifying = verify_store(store)
    with path.open("ab") as file:
        file.write(line[500:])
    assert kinds(verifying) == []


@pytest.mark.parametrize(
    ("data", "kind", "todo"),
    [
        (b"", "empty", NOTHING),
        (b"\0" * 9, "broken header", BY_HAND),
        (b'{"acp-transcript":2}\n', "newer format", BY_HAND),
        (transcript_lines.agent_chunk("x", session="a"), "missing header", NOTHING),
        (transcript_lines.note("opened"), "missing header", BY_HAND),
    ],
)
def test_unrepairable_damage_is_reported_with_what_to_do(
    store: WholeStore, root: Path, data: bytes, kind: str, todo: str
) -> None:
    path_of(root, "a").write_bytes(data)
    os.utime(path_of(root, "a"), (LONG_AGO, LONG_AGO))
    assert [one for one in kinds(verify_store(store)) if "index" not in one[0]] == [(kind, todo)]


def test_foreign_files_are_reported_and_kept(store: WholeStore, root: Path) -> None:
    folder = root / "transcripts" / AGENT
    path_of(root, "a").unlink()
    os.mkfifo(path_of(root, "a"))
    (folder / "notes.txt").touch()
    (folder / f"{file_name('b')} copy.jsonl").touch()
    (root / "transcripts" / "file").touch()
    (root / "mine").touch()
    assert sorted(kinds(verify_store(store))) == sorted([("foreign file", BY_HAND), *[("foreign file", NOTHING)] * 4])


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
@pytest.mark.parametrize(
    ("problem", "advice"),
    [
        (PermissionError(errno.EACCES, "Permission denied"), "EACCES. Run: chmod -R u+rwX {root}"),
        (OSError(errno.ENOSPC, "No space left"), "ENOSPC. The disk is full. Free some space, then try again"),
    ],
)
def test_the_users_own_index_that_cannot_be_opened_is_not_called_foreign(
    store: WholeStore, root: Path, monkeypatch: pytest.MonkeyPatch, problem: OSError, advice: str
) -> None:
    def fail(path: Path) -> None:
        raise problem

    search_store(store, SearchRequest(make_query(["hello"]), store.list_agents()))
    monkeypatch.setattr(verify, "check_database", fail)
    monkeypatch.setattr(fts_table, "SearchTable", fail)
    found = [finding for finding in verify_store(store) if finding.path.suffix == ".sqlite3"]
    assert {finding.path.parent.name for finding in found} == {root.name, "search"}
    assert {(finding.kind, finding.text, finding.remedy) for finding in found} == {
        ("cannot be read", advice.format(root=root), BY_HAND)
    }


def test_a_mark_without_a_transcript_is_no_damage(store: WholeStore) -> None:
    store.mark(AGENT, "never there")
    assert kinds(verify_store(store)) == [("leftover", NOTHING)]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
def test_the_stores_own_directory_is_made_private(store: WholeStore, root: Path) -> None:
    root.chmod(0o755)
    assert [(one.path, one.kind) for one in verify_store(store)] == [(root, "mode")]
    mend(store)
    assert root.stat().st_mode & 0o777 == 0o700


def test_files_that_others_can_read_are_made_private(store: WholeStore, root: Path) -> None:
    path_of(root, "a").chmod(0o644)
    (root / "transcripts" / AGENT).chmod(0o755)
    assert kinds(verify_store(store)) == [("mode", REPAIR)] * 2
    mend(store)
    assert kinds(verify_store(store)) == []
    assert path_of(root, "a").stat().st_mode & 0o777 == 0o600
    assert (root / "transcripts" / AGENT).stat().st_mode & 0o777 == 0o700


def test_a_damaged_journal_is_repaired_and_keeps_its_events(store: WholeStore, root: Path) -> None:
    store.delete(AGENT, "a", soft=False)
    damage(root / "transcripts" / AGENT / "state.jsonl", b"torn")
    store.delete(AGENT, "b", soft=False)
    assert kinds(verify_store(store)) == [("damaged journal", REPAIR)]
    mend(store)
    assert kinds(verify_store(store)) == []
    assert WholeStore(root).read_deleted(AGENT) == {"a", "b"}


@pytest.mark.parametrize(
    ("accident", "kind"),
    [
        (lambda path: replaced(path, b"not a database" * 999), "broken index"),
        (lambda path: changed(path, "PRAGMA user_version = 99"), "broken index"),
        (lambda path: changed(path, "UPDATE transcripts SET usage = CAST(X'ff' AS TEXT)"), "broken index"),
        (lambda path: changed(path, "DELETE FROM transcripts WHERE name LIKE 'a-%'"), "index behind"),
        (lambda path: changed(path, "UPDATE transcripts SET updated = '' WHERE name LIKE 'a-%'"), "index behind"),
    ],
)
def test_an_index_that_differs_from_the_transcripts_is_rebuilt(
    store: WholeStore, root: Path, accident: object, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_changes, "_GRANULE_SECONDS", -1.0)  # the folder counts as seen, although it is new
    rows = WholeStore(root).list_all()
    assert callable(accident)
    accident(root / "index.sqlite3")
    opened = WholeStore(root)
    assert kinds(verify_store(opened)) == [(kind, REPAIR)]
    mend(opened)
    assert opened.list_all() == rows
    assert kinds(verify_store(opened)) == []


def replaced(path: Path, data: bytes | None) -> None:
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()
    if data is not None:
        path.write_bytes(data)


def changed(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(statement)


def test_an_index_restored_from_a_copy_is_behind(store: WholeStore, root: Path) -> None:
    old = root / "index.sqlite3"
    changed(old, "PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(old, root.parent / "copy")
    transcript_lines.store_lines(store, AGENT, "c", at=9)
    assert len(WholeStore(root).list_all()) == 3
    for path in root.glob("index.sqlite3*"):
        path.unlink()
    shutil.copy(root.parent / "copy", old)
    old.chmod(0o600)
    assert kinds(verify_store(WholeStore(root))) == [("index behind", NOTHING)]
    assert len(WholeStore(root).list_all()) == 3
    assert kinds(verify_store(WholeStore(root))) == []


# --- what the next list or search makes anew


@pytest.fixture
def two_agents(root: Path) -> WholeStore:
    """Two agents with the same session ids, listed and searched."""
    store = WholeStore(root)
    for agent in ("one", "two"):
        for session in ("a", "b"):
            transcript_lines.store_lines(
                store,
                agent,
                session,
                transcript_lines.prompt_line(f"hello {agent}", session=session),
                transcript_lines.answer(),
            )
    opened = WholeStore(root)
    assert len(search_store(opened, SearchRequest(make_query(["hello"]), opened.list_agents())).hits) == 4
    return opened


def test_a_copied_store_is_not_damaged(two_agents: WholeStore, root: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(root, copy, copy_function=shutil.copyfile)  # other inodes and times
    make_private(copy)
    assert kinds(verify_store(WholeStore(copy))) == []
    assert [replace(row, agent_folder="") for row in WholeStore(copy).list_all()] == [
        replace(row, agent_folder="") for row in two_agents.list_all()
    ]
    assert kinds(verify_store(WholeStore(copy))) == []


def make_private(root: Path) -> None:
    for path in root.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)


@pytest.mark.parametrize(
    "step",
    [
        pytest.param("the index removed", marks=pytest.mark.skipif(sys.platform == "win32", reason="it is open there")),
        "a transcript added",
        "a folder removed",
        "a transcript removed",
    ],
)
def test_what_the_next_list_and_search_notice_is_told_in_a_line_and_is_no_damage(
    two_agents: WholeStore, root: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_changes, "_GRANULE_SECONDS", -1.0)
    assert len(two_agents.list_all()) == 4
    folder = root / "transcripts" / "two"
    match step:
        case "the index removed":
            replaced(root / "index.sqlite3", None)
        case "a transcript added":
            transcript_lines.store_lines(two_agents, "two", "c")
            (root / "unindexed" / "two" / file_name("c")).unlink()
        case "a folder removed":
            shutil.rmtree(folder)
        case _:
            (folder / f"{file_name('a')}.jsonl").unlink()
    [(_, todo)] = kinds(verify_store(WholeStore(root)))
    assert todo == NOTHING
    opened = WholeStore(root)
    search_store(opened, SearchRequest(make_query(["hello"]), opened.list_agents()))
    assert kinds(verify_store(WholeStore(root))) == []
    assert step.endswith(("added", "index removed")) or not words_in(root, step)


def words_in(root: Path, step: str) -> list[str]:
    """The files that still have something of a folder that was removed."""
    told = b"hello two" if step == "a folder removed" else b"no such words"
    return [path.name for path, data in read_files(root) if told in data]
