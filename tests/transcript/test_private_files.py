"""Directories are 0700 and files 0600 under any umask, and a directory that others can write to is refused."""

import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from acp_proxy.errors import StoreRefused
from acp_proxy.transcript import private_files


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.parametrize("mask", [0, 0o022, 0o077])
def test_new_files_are_private_under_any_umask(tmp_path: Path, mask: int) -> None:
    root = tmp_path / "missing" / "parents" / "store"
    with umask(mask):
        private_files.prepare(root)
        private_files.touch(root / "mark")
        os.close(private_files.open_private(root / "file", os.O_RDWR | os.O_CREAT))
    assert [mode(path) for path in (root, root.parent, root.parent.parent)] == [0o700] * 3
    assert [mode(root / name) for name in ("mark", "file")] == [0o600] * 2


def test_the_private_umask_gives_private_modes(tmp_path: Path) -> None:
    with umask(private_files.PRIVATE_UMASK):
        (tmp_path / "directory").mkdir()
        (tmp_path / "file").touch()
    assert (mode(tmp_path / "directory"), mode(tmp_path / "file")) == (0o700, 0o600)


def test_a_store_that_cannot_be_created_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "removed").mkdir()
    monkeypatch.chdir(tmp_path / "removed")
    (tmp_path / "removed").rmdir()
    with pytest.raises(StoreRefused, match="Choose another place"):
        private_files.prepare(Path("store"))


def test_an_existing_directory_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)  # others can read it, but not write
    private_files.prepare(tmp_path)
    assert mode(tmp_path) == 0o755


@pytest.mark.parametrize("found", [0o720, 0o702, 0o777, 0o1777])
def test_a_directory_that_others_can_write_to_is_refused_with_the_command_to_fix_it(tmp_path: Path, found: int) -> None:
    root = tmp_path / "my store"
    root.mkdir()
    root.chmod(found)
    with pytest.raises(StoreRefused, match=f"chmod 700 '{root}'"):
        private_files.prepare(root)
    root.chmod(0o700)
    private_files.prepare(root)


def test_the_target_of_a_link_is_checked(tmp_path: Path) -> None:
    there, link = tmp_path / "there", tmp_path / "link"
    there.mkdir(0o700)
    link.symlink_to(there)
    private_files.prepare(link)
    there.chmod(0o777)
    with pytest.raises(StoreRefused):
        private_files.prepare(link)


def test_an_owner_other_than_us_is_refused(tmp_path: Path) -> None:
    ours = os.stat(tmp_path)
    private_files.check_owner(tmp_path, ours)
    theirs = list(ours)
    theirs[stat.ST_UID] += 1
    with pytest.raises(StoreRefused):
        private_files.check_owner(tmp_path, os.stat_result(theirs))


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can give a directory away")
def test_a_store_that_belongs_to_another_user_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, 12345, -1)
    with pytest.raises(StoreRefused):
        private_files.prepare(tmp_path)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_directory_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StoreRefused, match="chmod 700"):
        private_files.prepare(tmp_path)
    with pytest.raises(StoreRefused):
        private_files.prepare(tmp_path / "store")


def test_the_advice_for_a_read_only_store_fits_its_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert private_files.find_refusal(tmp_path) is None
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=0))
    tmp_path.chmod(0o500)
    assert f"Run: chmod 700 {tmp_path}" in str(private_files.find_refusal(tmp_path))
    tmp_path.chmod(0o700)
    assert "the system protects it" in str(private_files.find_refusal(tmp_path))
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_RDONLY | os.ST_NOSUID))
    assert "its file system is read-only. Mount it writable" in str(private_files.find_refusal(tmp_path))
    assert "chmod" not in str(private_files.find_refusal(tmp_path))
    assert "No such file" in str(private_files.find_refusal(tmp_path / "gone meanwhile"))


def put_file(path: Path) -> Path:
    path.touch()
    return path


def put_file_as_parent(path: Path) -> Path:
    path.touch()
    return path / "store"


def put_dangling_link(path: Path) -> Path:
    path.symlink_to(path.with_name("nowhere"))
    return path


def put_loop(path: Path) -> Path:
    path.symlink_to(path)
    return path


@pytest.mark.parametrize("put", [put_file, put_file_as_parent, put_dangling_link, put_loop])
def test_anything_in_the_place_of_the_store_is_refused_and_unchanged(
    tmp_path: Path, put: Callable[[Path], Path]
) -> None:
    root = put(tmp_path / "in-the-way")
    before = os.lstat(tmp_path / "in-the-way")
    with pytest.raises(StoreRefused, match=str(root)):
        private_files.prepare(root)
    after = os.lstat(tmp_path / "in-the-way")
    assert (after.st_ino, after.st_mode, after.st_size) == (before.st_ino, before.st_mode, before.st_size)


def test_a_path_that_is_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreRefused):
        private_files.prepare(tmp_path / ("x" * 300))


def test_threads_can_prepare_one_directory_at_once(tmp_path: Path) -> None:
    refused: list[BaseException] = []
    start = threading.Barrier(8)

    def prepare(number: int) -> None:
        try:
            start.wait(20)
            private_files.prepare(tmp_path / str(number) / "a" / "b" / "c" / "d")
        except BaseException as problem:  # noqa: BLE001 - handed to the test
            refused.append(problem)

    for number in range(25):
        threads = [threading.Thread(target=prepare, args=(number,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    assert refused == []


def test_a_link_in_the_place_of_a_file_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("precious")
    (tmp_path / "file").symlink_to(target)
    for flags in (os.O_RDONLY, os.O_RDWR | os.O_APPEND | os.O_CREAT):
        with pytest.raises(OSError):
            private_files.open_private(tmp_path / "file", flags)
    assert target.read_text() == "precious"


def test_an_open_file_is_not_inherited_by_child_processes(tmp_path: Path) -> None:
    fd = private_files.open_private(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    assert not os.get_inheritable(fd)
    os.close(fd)


def test_bytes_are_read_at_an_offset_up_to_the_end(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    fd = private_files.open_private(path, os.O_RDONLY)
    try:
        assert private_files.read_at(fd, 3, 4) == b"456"
        assert private_files.read_at(fd, 10, 8) == b"89"
        assert private_files.read_at(fd, 1, 10) == b""
    finally:
        os.close(fd)


def test_a_database_removed_while_it_is_checked_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table"
    path.touch()

    def removed_before(file: Path, mode: int) -> bool:
        path.unlink()
        return False

    monkeypatch.setattr(os, "access", removed_before)
    with pytest.raises(FileNotFoundError):
        private_files.check_database(path)


@pytest.mark.parametrize("reaches", [None, 0, 5, 20, 1_000_000])
def test_large_parts_are_written_together_and_not_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reaches: int | None
) -> None:
    """``reaches``: how many bytes the first call takes; None: all."""
    parts = [b"a line ", b"b" * 1_000_000, b" and its end\n"]
    given: list[list[int]] = []

    def write(fd: int, parts: list[bytes]) -> int:
        given.append([len(part) for part in parts])
        return os.write(fd, b"".join(parts)[:reaches])

    monkeypatch.setattr(os, "writev", write)
    fd = private_files.open_private(tmp_path / "file", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    private_files.append_parts(fd, parts)
    private_files.close(fd)
    assert given == [[len(part) for part in parts]]
    assert (tmp_path / "file").read_bytes() == b"".join(parts)
