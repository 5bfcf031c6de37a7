"""Permanent and soft deletes, restores and revived sessions."""

import errno
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from acp_proxy.errors import StoreRefused, Unreadable
from acp_proxy.store import delete
from acp_proxy.store.journal import TITLED, Event, Journal
from acp_proxy.store.layout import Layout
from acp_proxy.store.open_session import Deleted
from acp_proxy.tools.maintenance.prune import find_candidates, prune_sessions
from acp_proxy.tools.maintenance.repair_findings import repair_finding
from acp_proxy.tools.maintenance.verify import verify_store
from acp_proxy.transcript import file_format
from acp_proxy.transcript.appender import TranscriptAppender, lock_if_unused
from acp_proxy.transcript.file_names import compressed_path, file_name, unfinished_path
from tests.posix import fcntl
from tests.store import compressible, killed_deletes, transcript_lines
from tests.store.transcript_lines import answer, prompt_line
from tests.stored import EPOCH, WholeStore, chunk, find_files_with, list_ids, store_session, store_with_subagents

AGENT = "agent"


@pytest.fixture
def layout(store: WholeStore) -> Layout:
    return Layout(store.root)


def list_files(store: WholeStore) -> set[str]:
    return {str(path.relative_to(store.root)) for path in store.root.rglob("*") if path.is_file()}


def rename(store: WholeStore, session: str, title: str | None) -> None:
    [found] = [row for row in store.list_all() if row.session_id == session and "~" not in row.name]
    store.set_listed_title(found, title)


def list_restorable_titles(store: WholeStore) -> list[tuple[str, str]]:
    return [(deleted.session_id, store.summarize_deleted(deleted).title or "") for deleted in store.list_deleted()]


# --- permanent deletes


@pytest.mark.parametrize("expires", [True, False])
def test_the_sessions_of_subagents_are_deleted_with_the_session_that_they_worked_for(
    store: WholeStore, expires: bool
) -> None:
    store_with_subagents(store, "parent", "words of subagents")
    store_session(store, "other", ("and this", []), cwd=None, origin=file_format.PARTIAL)
    [row] = [row for row in store.list_all() if row.session_id == "parent"]
    if expires:
        store.delete_listed(row, soft=True)
        assert len(find_files_with(store, "words of subagents")) == 2
        store.delete_soft_deleted(*store.list_deleted())
    else:
        store.delete_listed(row, soft=False)
    assert find_files_with(store, "words of subagents") == []
    assert find_files_with(store, "and this")


def test_the_sessions_of_subagents_stay_as_long_as_a_fork_names_them(store: WholeStore) -> None:
    store_with_subagents(store, "parent", "words of subagents")
    store_session(store, "fork", ("go on", []), parent="parent")
    for session, left in (("fork", 2), ("parent", 0)):
        [row] = [row for row in store.list_all() if row.session_id == session]
        store.delete_listed(row, soft=False)
        assert len(find_files_with(store, "words of subagents")) == left


@pytest.mark.parametrize("goes_by_the_bin", [True, False])
@pytest.mark.parametrize("copy_goes_first", [True, False])
def test_the_sessions_of_subagents_stay_as_long_as_a_copy_for_another_agent_names_them(
    store: WholeStore, copy_goes_first: bool, goes_by_the_bin: bool
) -> None:
    store_with_subagents(store, "parent", "words of subagents")
    store_session(store, "unrelated", ("go", []), agent="other")
    [parent] = [row for row in store.list_all() if row.session_id == "parent"]
    sessions = ["parent", store.copy_for_agent(parent, "other", {})]
    for session, left in zip(reversed(sessions) if copy_goes_first else sessions, (2, 0), strict=True):
        [row] = [row for row in store.list_all() if row.session_id == session]
        with store.open_child(row, "subagent") as reader:
            assert reader is not None
        store.delete_listed(row, soft=goes_by_the_bin)
        if goes_by_the_bin:
            store.delete_soft_deleted(*store.list_deleted())
        assert len(find_files_with(store, "words of subagents")) == left


def test_the_sessions_of_subagents_stay_as_long_as_a_newer_session_names_them(store: WholeStore) -> None:
    store_with_subagents(store, "parent", "words of subagents")
    [row] = [row for row in store.list_all() if row.session_id == "parent"]
    store.delete_listed(row, soft=True)
    store_session(store, "parent", ("again", [{"sessionUpdate": "subagent_update", "sessionId": "subagent"}]))
    store.delete_soft_deleted(*store.list_deleted())
    assert len(find_files_with(store, "words of subagents")) == 2


def test_a_chain_of_subagents_is_deleted_however_long(store: WholeStore) -> None:
    for number in range(300):
        named = {"sessionUpdate": "subagent_update", "sessionId": f"s{(number + 1) % 300}"}
        partial: Any = {} if number == 0 else {"cwd": None, "origin": file_format.PARTIAL}
        store_session(store, f"s{number}", ("go", [named, chunk("words of a chain")]), **partial)
    [row] = [row for row in store.list_all() if row.session_id == "s0"]
    store.delete_listed(row, soft=False)
    assert find_files_with(store, "words of a chain") == []


def test_a_session_that_somebody_opened_is_not_deleted_with_another_one_that_names_it(store: WholeStore) -> None:
    named = {"sessionUpdate": "subagent_update", "sessionId": "named"}
    store_session(store, "named", ("keep this", []))
    store_session(store, "parent", ("go", [named, {**named, "sessionId": "parent"}]))
    [row] = [row for row in store.list_all() if row.session_id == "parent"]
    store.delete_listed(row, soft=False)
    assert [row.session_id for row in store.list_all()] == ["named"]


def test_a_deleted_session_is_in_no_file_and_no_list(store: WholeStore) -> None:
    secret = "a secret of the user"
    transcript_lines.store_lines(store, AGENT, "s", prompt_line(secret), answer())
    assert list_ids(store) == ["s"]
    assert find_files_with(store, secret)
    store.delete(AGENT, "s", soft=False)
    store.remove_from_index(AGENT, "s")
    assert list_ids(store) == []
    assert store.read_deleted(AGENT) == {"s"}
    assert not store.is_indexed(AGENT, "s")
    assert find_files_with(store, secret) == []


def test_deleting_an_unknown_or_deleted_id_is_no_error(store: WholeStore) -> None:
    transcript_lines.store_lines(store, AGENT, "s")
    for _ in range(3):
        store.delete(AGENT, "s", soft=False)
        store.remove_from_index(AGENT, "s")
        store.delete("an agent without a folder", "unknown", soft=False)
        store.remove_from_index("an agent without a folder", "unknown")
    assert store.read_deleted(AGENT) == {"s"}
    assert store.read_deleted("an agent without a folder") == {"unknown"}


def test_a_delete_survives_restarts_and_is_seen_by_other_proxies(store: WholeStore, root: Path) -> None:
    other = WholeStore(root)
    transcript_lines.store_lines(store, AGENT, "s")
    assert list_ids(other) == ["s"]
    store.delete(AGENT, "s", soft=False)
    assert list_ids(other) == []
    assert other.read_deleted(AGENT) == WholeStore(root).read_deleted(AGENT) == {"s"}


def test_a_deleted_session_is_revived_by_a_lift_or_a_new_begin(store: WholeStore) -> None:
    for session in ("lifted", "begun"):
        transcript_lines.store_lines(store, AGENT, session)
        store.delete(AGENT, session, soft=False)
    delete.lift_delete(store.layout, AGENT, "lifted")
    assert store.read_deleted(AGENT) == {"begun"}
    transcript_lines.store_lines(store, AGENT, "lifted", at=2, fresh=False)
    transcript_lines.store_lines(store, AGENT, "begun", at=1)
    assert store.read_deleted(AGENT) == frozenset()
    assert list_ids(store) == ["lifted", "begun"]


def test_lifting_a_session_that_is_not_deleted_writes_nothing(store: WholeStore, root: Path) -> None:
    transcript_lines.store_lines(store, AGENT, "s")
    delete.lift_delete(store.layout, AGENT, "s")
    assert not (root / "transcripts" / AGENT / "state.jsonl").exists()


def test_a_session_set_aside_is_removed_by_its_file(store: WholeStore, root: Path) -> None:
    transcript_lines.store_lines(store, AGENT, "1", prompt_line("old"), answer())
    transcript_lines.store_lines(store, AGENT, "1", prompt_line("new", at=1), answer(at=1))
    new, old = store.list_all()
    store.delete_listed(old, soft=False)
    assert [row.title for row in store.list_all()] == ["new"]
    assert list_ids(store) == ["1"]
    store.delete_listed(new, soft=False)
    assert store.list_all() == []
    assert list(root.glob("transcripts/*/*~*")) == []
    assert store.read_deleted(AGENT) == {"1"}


def test_a_deleted_session_gets_no_new_file(store: WholeStore, root: Path) -> None:
    transcript_lines.store_lines(store, AGENT, "s")
    store.delete(AGENT, "s", soft=False)
    with pytest.raises(Deleted):
        store.open_to_append(AGENT, transcript_lines.header("s"), is_new=False)
    assert not list(root.glob("transcripts/*/s-*"))


@pytest.mark.parametrize("fresh", [False, True])
def test_an_interrupted_delete_is_finished_before_the_session_is_revived(
    store: WholeStore, root: Path, fresh: bool
) -> None:
    transcript_lines.store_lines(store, AGENT, "s", prompt_line("a secret of the user"), answer())
    [path] = root.glob("transcripts/*/s-*")
    before = path.read_bytes()
    store.delete(AGENT, "s", soft=False)
    path.write_bytes(before)  # as if killed between the two steps
    if not fresh:
        delete.lift_delete(store.layout, AGENT, "s")
    store.open_to_append(AGENT, transcript_lines.header("s"), is_new=fresh).close()
    assert find_files_with(store, "secret") == []
    assert not list(root.glob("transcripts/*/*~*"))


def test_a_delete_works_without_a_mark(store: WholeStore, root: Path) -> None:
    transcript_lines.store_lines(store, AGENT, "s")
    assert list_ids(store) == ["s"]
    shutil.rmtree(root / "unindexed")
    (root / "unindexed").touch()
    store.delete(AGENT, "s", soft=False)
    assert not list(root.glob("transcripts/*/s-*"))
    assert store.read_deleted(AGENT) == {"s"}


# --- soft deletes


def test_a_soft_delete_keeps_the_transcript_byte_for_byte(store: WholeStore) -> None:
    transcript_lines.store_lines(store, AGENT, "s")
    before = store.open_reader(AGENT, "s").path.read_bytes()
    [listed] = store.list_all()
    store.delete(AGENT, "s", soft=True)
    assert store.read_deleted(AGENT) == {"s"}
    assert store.list_all() == []
    with pytest.raises(FileNotFoundError):
        store.open_reader(AGENT, "s")
    with pytest.raises(Deleted):
        store.open_to_append(AGENT, transcript_lines.header("s"), is_new=False)
    [one] = store.list_deleted()
    assert (one.session_id, store.summarize_deleted(one).title) == ("s", "hello")
    restored = store.restore(one)
    assert store.open_reader(AGENT, "s").path.read_bytes() == before
    assert store.read_deleted(AGENT) == frozenset()
    assert store.list_all() == [listed] == [restored]
    assert store.list_deleted() == []


def test_a_soft_delete_keeps_a_compressed_transcript_compressed(store: WholeStore) -> None:
    path = compressible.store_compressible(store)
    content = compressible.read_content(path)
    frame = compressible.compress_now(store).read_bytes()
    store.delete(compressible.AGENT, transcript_lines.SESSION, soft=True)
    assert not compressed_path(path).exists()
    [one] = store.list_deleted()
    assert compressed_path(Layout(store.root).soft_deleted_path(one.agent_folder, one.name)).read_bytes() == frame
    store.restore(one)
    assert compressed_path(path).read_bytes() == frame
    assert compressible.read_content(path) == content


def test_a_second_soft_delete_changes_nothing(store: WholeStore) -> None:
    transcript_lines.store_lines(store, AGENT, "s")
    store.delete(AGENT, "s", soft=True)
    before = list_files(store)
    store.delete(AGENT, "s", soft=True)
    store.delete(AGENT, "never heard of", soft=True)
    assert {name for name in list_files(store) if name.startswith("deleted/")} <= before
    assert len(store.list_deleted()) == 1


def test_a_permanent_delete_removes_every_soft_deleted_transcript_of_the_id(store: WholeStore) -> None:
    for text in ("first secret", "second secret"):
        delete.lift_delete(store.layout, AGENT, "s")
        transcript_lines.store_lines(store, AGENT, "s", transcript_lines.prompt_line(text, session="s"), fresh=False)
        rename(store, "s", f"titled {text}")
        store.delete(AGENT, "s", soft=True)
    assert list_restorable_titles(store) == [("s", "titled second secret"), ("s", "titled first secret")]
    store.delete(AGENT, "s", soft=False)
    store.list_all()
    assert store.list_deleted() == []
    assert find_files_with(store, "secret") == []


def test_only_ids_times_and_the_uid_stay_after_a_permanent_delete(store: WholeStore) -> None:
    empty = WholeStore(store.root.with_name("empty"))
    transcript_lines.store_lines(empty, AGENT, "other")
    empty.delete(AGENT, "other", soft=False)
    assert empty.list_all() == []
    transcript_lines.store_lines(store, AGENT, "s", transcript_lines.prompt_line("a secret", session="s"))
    rename(store, "s", "My title")
    store.add_alias(AGENT, "s", "alias")
    [row] = store.list_all()
    store.set_listed_archived(row, True)
    store.set_listed_pinned(row, True)
    store.delete(AGENT, "s", soft=False)
    assert store.list_all() == []
    journal = store.root / "transcripts" / AGENT / "state.jsonl"
    left = [json.loads(line) for line in journal.read_bytes().splitlines() if line.strip()]
    assert all(each.pop("at") for each in left)
    assert left == [
        {"event": "alias", "sessionId": "s", "alias": "alias"},
        {"event": "archived", "sessionId": "s"},
        {"event": "pinned", "sessionId": "s"},
        {"event": "deleted", "sessionId": "s", "uid": transcript_lines.UID},
    ]
    assert list_files(store) == list_files(empty)


def test_a_soft_deleted_session_can_be_deleted_permanently_by_itself(store: WholeStore) -> None:
    transcript_lines.store_lines(store, AGENT, "s", transcript_lines.prompt_line("a secret", session="s"))
    rename(store, "s", "secret title")
    store.delete(AGENT, "s", soft=True)
    delete.lift_delete(store.layout, AGENT, "s")
    transcript_lines.store_lines(store, AGENT, "s", fresh=False)
    [one] = store.list_deleted()
    store.delete_soft_deleted(one)
    assert [row.title for row in store.list_all()] == ["hello"]
    assert find_files_with(store, "secret") == []


@pytest.mark.parametrize("is_soft_deleted", [False, True])
def test_a_delete_is_forced_to_the_disk_before_it_returns(
    store: WholeStore, monkeypatch: pytest.MonkeyPatch, is_soft_deleted: bool
) -> None:
    transcript_lines.store_lines(store, AGENT, "s")
    journal, forced = store.root / "transcripts" / AGENT / "state.jsonl", list[tuple[int, int]]()
    [row] = store.list_all()
    if is_soft_deleted:
        store.delete_listed(row, soft=True)
    [*deleted] = store.list_deleted()

    def fsync(fd: int) -> None:
        found = os.fstat(fd)
        forced.append((found.st_ino, found.st_size))

    monkeypatch.setattr(os, "fsync", fsync)
    if is_soft_deleted:
        store.delete_soft_deleted(deleted[0])
    else:
        store.delete_listed(row, soft=False)
    found = journal.stat()
    assert (found.st_ino, found.st_size) in forced  # with all its lines


def test_a_session_is_restored_beside_a_newer_one_of_its_id(store: WholeStore) -> None:
    transcript_lines.store_lines(store, AGENT, "s", transcript_lines.prompt_line("first", session="s"))
    rename(store, "s", "The first")
    store.delete(AGENT, "s", soft=True)
    delete.lift_delete(store.layout, AGENT, "s")
    transcript_lines.store_lines(
        store, AGENT, "s", transcript_lines.prompt_line("second", at=1, session="s"), fresh=False
    )
    rename(store, "s", "The second")
    [one] = store.list_deleted()
    assert store.restore(one).name == f"{file_name('s')}~1"
    assert sorted(row.title or "" for row in store.list_all()) == ["The first", "The second"]
    assert [row.title for row in store.list_page(AGENT, None, None, "").rows] == ["The second"]


def test_a_session_set_aside_is_restored_to_its_place(store: WholeStore) -> None:
    store_session(store, "s", ("first", []), agent="one", at=EPOCH)
    store_session(store, "s", ("second", []), agent="one", at=EPOCH + 60)
    [older] = [row for row in store.list_all() if row.title == "first"]
    store.set_listed_title(older, "The first")
    store.delete_listed(older, soft=True)
    assert [row.title for row in store.list_all()] == ["second"]
    assert store.read_deleted(older.agent_folder) == frozenset()
    [one] = store.list_deleted()
    assert store.restore(one).name == older.name
    assert sorted(row.title or "" for row in store.list_all()) == ["The first", "second"]


def test_backups_are_deleted_and_restored_with_their_transcript(store: WholeStore, layout: Layout) -> None:
    transcript_lines.store_lines(store, AGENT, "s")
    copy = layout.backup_path(AGENT, file_name("s"), transcript_lines.time(1))
    copy.parent.mkdir(parents=True)
    copy.write_text("as it was")
    store.delete(AGENT, "s", soft=True)
    assert not copy.exists()
    delete.lift_delete(store.layout, AGENT, "s")
    transcript_lines.store_lines(store, AGENT, "s", fresh=False)
    store.delete(AGENT, "s", soft=True)
    _, first = store.list_deleted()
    store.delete_soft_deleted(first)
    assert find_files_with(store, "as it was") == []
    delete.lift_delete(store.layout, AGENT, "s")
    transcript_lines.store_lines(store, AGENT, "s", fresh=False)
    copy.write_text("as it was")
    store.delete(AGENT, "s", soft=True)
    store.restore(store.list_deleted()[0])
    assert copy.read_text() == "as it was"


def test_sessions_are_moved_without_hard_links(store: WholeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(before: object, after: object) -> None:
        if not os.path.lexists(str(before)):
            raise FileNotFoundError
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    transcript_lines.store_lines(store, AGENT, "s")
    store.delete(AGENT, "s", soft=True)
    delete.lift_delete(store.layout, AGENT, "s")
    transcript_lines.store_lines(store, AGENT, "s", fresh=False)
    [one] = store.list_deleted()
    assert store.restore(one).name == f"{file_name('s')}~1"
    assert len(store.list_all()) == 2


def test_deleting_a_session_set_aside_deletes_its_backups(store: WholeStore, layout: Layout) -> None:
    store_session(store, "s", ("first", []), agent="one", at=EPOCH)
    [older] = store.list_all()
    copy = layout.backup_path(older.agent_folder, older.name, transcript_lines.time(1))
    copy.parent.mkdir(parents=True)
    copy.write_text("as it was")
    store_session(store, "s", ("second", []), agent="one", at=EPOCH + 60)
    [older] = [row for row in store.list_all() if row.title == "first"]
    store.delete_listed(older, soft=False)
    assert find_files_with(store, "as it was") == []


def test_the_next_compression_removes_leftovers_beside_a_soft_deleted_session(
    store: WholeStore, layout: Layout
) -> None:
    transcript_lines.store_lines(store, AGENT, "s")
    store.delete(AGENT, "s", soft=True)
    [one] = store.list_deleted()
    path = layout.soft_deleted_path(AGENT, one.name)
    for leftover in (compressed_path(path), unfinished_path(path)):
        leftover.write_bytes(b"half")
    assert not [finding for finding in verify_store(store) if finding.is_damage]
    store.list_transcripts_to_compress()
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_link_in_place_of_the_soft_deleted_sessions_is_refused(store: WholeStore, tmp_path: Path) -> None:
    transcript_lines.store_lines(store, AGENT, "s")
    store.delete(AGENT, "s", soft=True)
    folder = store.root / "deleted" / AGENT
    folder.rename(tmp_path / "outside")
    folder.symlink_to(tmp_path / "outside")
    with pytest.raises(StoreRefused, match="is a link"):
        WholeStore(store.root)


# --- crashes


@pytest.mark.parametrize("case", killed_deletes.CASES)
def test_a_crash_at_any_moment_leaves_the_session_before_or_after(tmp_path: Path, case: str) -> None:
    """A listed or restorable session has its title and backup; a deleted one leaves none of its words."""
    outcomes = []
    for root in killed_deletes.kill_while_deleting(tmp_path, case):
        store = WholeStore(root)
        found = [("listed", row.name, row.title) for row in store.list_all() if row.title != "hello"]
        found += [("kept", deleted.name, deleted.title) for deleted in store.list_deleted()]
        if found:
            [(where, name, title)] = found
            [backup] = [path.name for path in (root / "backups").rglob("*") if path.is_file()]
            assert (title, backup.partition(".")[0]) == ("secret title", name)
            assert len(find_files_with(store, "secret words")) >= 1
            outcomes.append(where)
        else:
            assert find_files_with(store, "secret") == []
            outcomes.append("gone")
        for one in store.list_deleted():
            store.delete_soft_deleted(one)
        for row in store.list_all():
            store.delete_listed(row, soft=False)
        assert store.list_all() == []
        assert find_files_with(store, "secret") == []
    before, *_, after = outcomes
    assert before != after
    assert outcomes == sorted(outcomes, key=[before, after].index)


class Crash(Exception):
    pass


@pytest.mark.parametrize(
    ("owner", "name"), [(Layout, "erase_titles"), (Layout, "remove_transcript"), (Layout, "remove_soft_deleted")]
)
def test_an_interrupted_permanent_delete_is_finished_by_the_next_list(
    store: WholeStore, monkeypatch: pytest.MonkeyPatch, owner: object, name: str
) -> None:
    for _ in range(2):
        delete.lift_delete(store.layout, AGENT, "s")
        transcript_lines.store_lines(
            store, AGENT, "s", transcript_lines.prompt_line("a secret", session="s"), fresh=False
        )
        rename(store, "s", "secret title")
        store.delete(AGENT, "s", soft=True)

    def crash(*_: object) -> None:
        raise Crash

    with monkeypatch.context() as killed:
        killed.setattr(owner, name, crash)
        with pytest.raises(Crash):
            store.delete(AGENT, "s", soft=False)
    other = WholeStore(store.root)
    assert other.list_all() == []
    assert other.list_deleted() == []
    assert find_files_with(other, "secret") == []


def test_backups_of_the_journal_are_deleted_with_the_titles_in_them(store: WholeStore, layout: Layout) -> None:
    transcript_lines.store_lines(store, AGENT, "s")
    transcript_lines.store_lines(store, AGENT, "other")
    rename(store, "s", "secret title")
    state = layout.transcript_path(AGENT, "state")
    state.write_bytes(b"\0\0\0\n" + state.read_bytes())
    for finding in verify_store(store):
        repair_finding(store, finding)
    assert len(find_files_with(store, "secret title")) == 2
    store.delete(AGENT, "other", soft=False)
    assert len(find_files_with(store, "secret title")) == 2
    store.delete(AGENT, "s", soft=False)
    assert find_files_with(store, "secret title") == []


# --- sessions in use


def test_a_transcript_open_for_appending_is_in_use(store: WholeStore, layout: Layout) -> None:
    path = layout.transcript_path(AGENT, file_name("s"))
    transcript_lines.store_lines(store, AGENT, "s")
    with lock_if_unused(path) as is_unused:
        assert is_unused
    transcript = TranscriptAppender(path)
    with lock_if_unused(path) as is_unused:
        assert not is_unused
    transcript.append(transcript_lines.agent_chunk("still"))
    transcript.close()
    with lock_if_unused(path) as is_unused:
        assert is_unused
        fd = os.open(path, os.O_RDONLY)
        with pytest.raises(BlockingIOError):  # nobody can open it now
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        os.close(fd)


def test_without_locks_a_transcript_written_today_may_be_in_use(
    store: WholeStore, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcript_lines.store_lines(store, AGENT, "s")
    path = layout.transcript_path(AGENT, file_name("s"))
    monkeypatch.setattr("acp_proxy.transcript.appender.lock", lambda fd, **how: False)
    with lock_if_unused(path) as is_unused:
        assert not is_unused
    compressible.age(path, 2)
    with lock_if_unused(path) as is_unused:
        assert is_unused


def test_an_unreadable_transcript_can_be_restored_by_the_id_in_the_journal(store: WholeStore, layout: Layout) -> None:
    transcript_lines.store_lines(store, AGENT, "broken")
    path = layout.transcript_path(AGENT, file_name("broken"))
    [row] = store.list_all()
    path.write_bytes(b"\0" * 100)
    store.delete_listed(row, soft=True)
    [broken] = store.list_deleted()
    assert broken.session_id == "broken"
    assert [finding.name for finding in verify_store(store) if finding.is_damage] == [broken.name]
    assert store.restore(broken).name == file_name("broken")
    assert path.read_bytes() == b"\0" * 100
    assert store.list_deleted() == []


def test_a_soft_deleted_transcript_that_nothing_names_is_left_out(store: WholeStore, layout: Layout) -> None:
    for session in ("s", "broken"):
        transcript_lines.store_lines(store, AGENT, session)
        store.delete(AGENT, session, soft=True)
    [broken] = [deleted for deleted in store.list_deleted() if deleted.session_id == "broken"]
    layout.soft_deleted_path(AGENT, broken.name).write_bytes(b"\0" * 100)
    layout.transcript_path(AGENT, "state").write_bytes(b"")
    assert [deleted.session_id for deleted in store.list_deleted()] == ["s"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    where = tmp_path / "disk"
    where.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", str(where)]
    if shutil.which("mount") is None or subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    yield where
    subprocess.run(["umount", "--lazy", str(where)], check=True)


@pytest.fixture
def full_store(small_disk: Path) -> WholeStore:
    """A store with the sessions a and b on a full disk."""
    store = WholeStore(small_disk / "store")
    for session in ("a", "b"):
        store_session(store, session, ("one" * 60_000, []))
    assert [row.session_id for row in store.list_all()] == ["b", "a"]
    with suppress(OSError), (small_disk / "filler").open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    return store


def free_bytes(store: WholeStore) -> int:
    return shutil.disk_usage(store.root).free


def test_a_delete_works_on_a_full_disk(full_store: WholeStore) -> None:
    [row] = [row for row in full_store.list_all() if row.session_id == "a"]
    with suppress(Unreadable):  # there may be no room to update the index
        full_store.delete_listed(row, soft=False)
    assert [row.session_id for row in WholeStore(full_store.root).list_all()] == ["b"]
    assert full_store.read_deleted(row.agent_folder) == {"a"}


def test_an_open_session_on_a_full_disk_is_not_deleted_and_stays_whole(full_store: WholeStore) -> None:
    [row] = [row for row in full_store.list_all() if row.session_id == "a"]
    path = full_store.root / "transcripts" / row.agent_folder / f"{row.name}.jsonl"
    before = path.read_bytes()
    transcript = TranscriptAppender(path)
    with pytest.raises(OSError, match="No space"):
        full_store.delete_listed(row, soft=False)
    transcript.close()
    assert (path.read_bytes(), full_store.read_deleted(row.agent_folder)) == (before, frozenset())


def leave_no_room_for_completions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal has room for every event but the one that says that a rename or removal is complete."""
    append = Journal.append

    def append_others(self: Journal, event: Event, stamp: str | None = None) -> None:
        if (event.kind, event.title, event.new_name) == (TITLED, None, None):
            raise OSError(errno.ENOSPC, "full")
        append(self, event, stamp)

    monkeypatch.setattr(Journal, "append", append_others)


def test_a_removal_whose_end_finds_no_room_removes_no_later_session(
    store: WholeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of the removed transcript, which was set aside, may be given again."""
    for number, words in enumerate(["first", "second"]):
        store_session(store, "s", (words, []), agent=AGENT, at=EPOCH + 60 * number)
    [older] = [row for row in store.list_all() if row.title == "first"]
    with monkeypatch.context() as patched:
        leave_no_room_for_completions(patched)
        store.delete_listed(older, soft=False)
        with pytest.raises(OSError, match="full"):
            store_session(store, "s", ("third", []), agent=AGENT, at=EPOCH + 180)
    store_session(store, "s", ("third", []), agent=AGENT, at=EPOCH + 180)
    assert {row.title for row in WholeStore(store.root).list_all()} == {"second", "third"}


def test_an_interrupted_permanent_delete_is_finished_on_a_full_disk_whatever_else_is(
    store: WholeStore, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That makes room for the note that a removal is complete."""

    def find_no_room(*_: object, **more: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    def crash(*_: object) -> None:
        raise Crash

    for session in ("removed", "s"):
        transcript_lines.store_lines(store, AGENT, session)
    store.delete(AGENT, "removed", soft=True)
    [deleted] = store.list_deleted()
    with monkeypatch.context() as killed:
        killed.setattr(Layout, "remove_transcript", crash)
        with pytest.raises(Crash):
            store.delete(AGENT, "s", soft=False)
    with monkeypatch.context() as full:
        leave_no_room_for_completions(full)
        delete.delete_by_name(layout, AGENT, "removed", deleted.name, soft=False, only_on_this_machine=False)
        assert layout.has_transcript(AGENT, file_name("s"))
        full.setattr(Journal, "append", find_no_room)
        assert WholeStore(store.root).list_all() == []
        assert not layout.has_transcript(AGENT, file_name("s"))
    assert layout.get_journal(AGENT).read_state().incomplete_renames_and_removals
    store.list_all()
    assert not layout.get_journal(AGENT).read_state().incomplete_renames_and_removals


def test_a_prune_works_on_a_full_disk(full_store: WholeStore) -> None:
    chosen = [candidate for candidate in find_candidates(full_store) if candidate.session_id == "a"]
    before, reasons = free_bytes(full_store), list[str | None]()
    with suppress(Unreadable):  # there may be no room to update the index
        for _, why in prune_sessions(full_store, chosen, soft=False, only_on_this_machine=True):
            reasons.append(why)
    assert reasons == [None]
    assert full_store.read_deleted(chosen[0].agent_folder) == {"a"}
    assert free_bytes(full_store) > before
