"""The check of a store, which changes nothing."""

import errno
import os
import shutil
import threading
from pathlib import Path

import pytest

from acp_proxy.tools.doctor import store_report
from acp_proxy.tools.doctor.advice import Advice
from acp_proxy.tools.doctor.store_report import examine
from acp_proxy.transcript.compressed import compress_chunks
from tests.modes import has_mode
from tests.stored import WholeStore, store_session


def wrong(todo: list[Advice]) -> list[str]:
    return [one.text for one in todo if one.is_wrong]


def test_a_missing_store_is_not_created(root: Path) -> None:
    found, todo = examine(root)
    assert (found.exists, found.why_not_recording, wrong(todo)) == (False, None, [])
    assert not root.exists()


def test_a_store_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for root in (file / "store", file / "below" / "store"):
        found, todo = examine(root)
        assert found.exists is False
        assert wrong(todo) == [found.why_not_recording]
        assert str(found.why_not_recording).startswith(
            f"{root} cannot be created: {file} cannot be written (it is a file). "
        )


@pytest.mark.parametrize("name", ["away", "away/store"])
def test_a_store_behind_a_link_to_nothing_is_reported_with_where_that_leads(tmp_path: Path, name: str) -> None:
    link, target = tmp_path / "away", tmp_path / "not mounted"
    link.symlink_to(target)
    found, todo = examine(tmp_path / name)
    assert wrong(todo) == [found.why_not_recording]
    assert wrong(todo)[0].startswith(f"{link} is a link to {target}, which does not exist. Mount its disk, or create")
    assert wrong(todo)[0].endswith(f"mkdir -p '{target}'")


def test_the_check_tries_to_write_because_modes_do_not_say_enough() -> None:
    found, todo = examine(Path("/proc/x"))
    assert wrong(todo) == [found.why_not_recording]
    assert str(found.why_not_recording).startswith("/proc/x cannot be created: ")


def test_a_store_in_order_is_measured(root: Path) -> None:
    opened = WholeStore(root)
    paths = [store_session(opened, each, ("one", []), agent=agent) for each, agent in (("a", "one"), ("b", "other"))]
    opened.list_all()
    found, todo = examine(root)
    assert wrong(todo) == []
    assert (found.mode, found.agents, found.sessions, found.unreadable, found.why_not_recording) == (
        0o700,
        2,
        2,
        (),
        None,
    )
    assert found.transcripts == sum(path.stat().st_size for path in paths)
    assert (found.size > found.transcripts, found.deleted) == (True, 0)
    [deleted] = [row for row in opened.list_all() if row.session_id == "b"]
    opened.delete_listed(deleted, soft=True)
    again = examine(root)[0]
    assert (again.transcripts, again.transcripts + again.deleted) == (paths[0].stat().st_size, found.transcripts)
    assert found.free_bytes is not None
    assert found.files >= 4


def test_sessions_copied_into_a_store_are_counted(root: Path, tmp_path: Path) -> None:
    store_session(WholeStore(root), "a", ("one", []))
    assert examine(root)[0].sessions == 1
    path = store_session(WholeStore(tmp_path / "other"), "b", ("two", []))
    shutil.copy2(path, root / "transcripts" / path.parent.name)
    found, todo = examine(root)
    assert (found.sessions, wrong(todo)) == (2, [])


def test_the_check_leaves_nothing_behind(root: Path) -> None:
    store_session(WholeStore(root), "a", ("one", []))
    examine(root)
    before = sorted(root.rglob("*"))
    examine(root)
    assert sorted(root.rglob("*")) == before


def test_an_unreadable_transcript_is_named(root: Path) -> None:
    path = store_session(WholeStore(root), "a", ("one", []))
    path.unlink()
    path.mkdir()
    found, todo = examine(root)
    assert found.unreadable == ((path, "EACCES" if os.name == "nt" else "EISDIR"),)
    assert any(str(path) in text and "Correct its permissions" in text for text in wrong(todo))


def test_of_a_transcript_that_is_too_large_the_size_and_what_to_do_are_said(root: Path) -> None:
    path = store_session(WholeStore(root), "a", ("one", []))
    data = path.read_bytes() + bytes(2**28)
    path.unlink()
    bomb = path.with_suffix(".jsonl.zst")
    bomb.write_bytes(b"".join(compress_chunks(iter([data]), len(data))))
    found, todo = examine(root)
    [(named, why)] = found.unreadable
    assert (named, why.endswith("KiB on disk, as no session has")) == (bomb, True)
    assert wrong(todo) == [f"{bomb} cannot be read: {why}. Move it out of the store, or delete it."]


def test_a_transcript_of_a_later_version_needs_an_upgrade(root: Path) -> None:
    path = store_session(WholeStore(root), "a", ("one", []))
    path.write_bytes(b'{"acp-transcript":2}\n')
    assert wrong(examine(root)[1]) == [
        f"{path} cannot be read: the file has format 2, and this version reads formats up to 1. Upgrade acp-proxy."
    ]


def test_a_full_disk_is_the_reason_for_no_recording(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    WholeStore(root)

    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    found, todo = examine(root)
    assert found.why_not_recording is not None
    assert "No space left on device" in found.why_not_recording
    assert wrong(todo) == [found.why_not_recording]


def test_an_unwritable_store_is_reported(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    WholeStore(root)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    found, todo = examine(root)
    assert f"{root} cannot be written to" in str(found.why_not_recording)
    assert wrong(todo) == [found.why_not_recording]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_read_only_files_and_directories_below_a_writable_root_are_reported_with_one_command(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = store_session(WholeStore(root), "a", ("one", []))
    monkeypatch.setattr(os, "access", has_mode)
    assert wrong(examine(root)[1]) == []
    for each in (path, path.parent, root / "unindexed" / path.parent.name):
        each.chmod(0o500)
    [text] = wrong(examine(root)[1])
    assert text == f"{path.parent} cannot be written to. Run: chmod -R u+rwX {root}"
    for each in (path.parent, root / "unindexed" / path.parent.name):
        each.chmod(0o700)
    assert wrong(examine(root)[1]) == [f"{path} cannot be written to. Run: chmod -R u+rwX {root}"]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_reported_with_the_command_that_takes_it(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = store_session(WholeStore(root), "a", ("one", []))
    os.chown(path, 12345, -1)
    monkeypatch.setattr(os, "access", lambda each, mode: Path(each) != path)
    assert wrong(examine(root)[1]) == [f"{path} cannot be written to. Run: sudo chown -R 0 {root}"]


def test_a_store_that_others_can_read_is_reported(root: Path) -> None:
    WholeStore(root)
    root.chmod(0o755)
    assert any(f"chmod 700 {root}" in text for text in wrong(examine(root)[1]))


def test_a_store_that_does_not_answer_is_reported_after_a_bounded_time(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = threading.Event()
    monkeypatch.setattr(store_report, "ANSWER_SECONDS", 0.05)
    monkeypatch.setattr(os.path, "lexists", lambda path: free.wait(20))
    found, todo = examine(root)
    free.set()
    assert found.why_not_recording == "it does not answer"
    assert len(wrong(todo)) == 1


def test_a_directory_without_a_store_gets_none(root: Path) -> None:
    root.mkdir(mode=0o700)
    found, todo = examine(root)
    assert (found.exists, found.why_not_recording, wrong(todo)) == (False, None, [])
    assert list(root.iterdir()) == []


def test_a_directory_that_allows_no_store_is_reported(root: Path) -> None:
    root.mkdir()
    root.chmod(0o777)
    found, todo = examine(root)
    assert found.why_not_recording is not None
    assert wrong(todo) == [found.why_not_recording]
    assert f"chmod 700 {root}" in found.why_not_recording
    assert list(root.iterdir()) == []
