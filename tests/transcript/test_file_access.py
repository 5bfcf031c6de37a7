"""Directories are 0700 and files 0600 under any umask, and a directory that others can write to is refused."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from acp_proxy.errors import StoreRefused
from acp_proxy.store.databases import check_database
from acp_proxy.transcript import file_access


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
        file_access.make_directory(root)
        file_access.touch(root / "mark")
        os.close(file_access.open_private(root / "file", os.O_RDWR | os.O_CREAT))
    assert [mode(path) for path in (root, root.parent, root.parent.parent)] == [0o700] * 3
    assert [mode(root / name) for name in ("mark", "file")] == [0o600] * 2


def test_the_private_umask_gives_private_modes(tmp_path: Path) -> None:
    with umask(file_access.PRIVATE_UMASK):
        (tmp_path / "directory").mkdir()
        (tmp_path / "file").touch()
    assert (mode(tmp_path / "directory"), mode(tmp_path / "file")) == (0o700, 0o600)


def test_an_owner_other_than_us_is_refused(tmp_path: Path) -> None:
    ours = os.stat(tmp_path)
    file_access.check_owner(tmp_path, ours)
    theirs = list(ours)
    theirs[stat.ST_UID] += 1
    with pytest.raises(StoreRefused):
        file_access.check_owner(tmp_path, os.stat_result(theirs))


def test_a_link_in_the_place_of_a_file_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("precious")
    (tmp_path / "file").symlink_to(target)
    for flags in (os.O_RDONLY, os.O_RDWR | os.O_APPEND | os.O_CREAT):
        with pytest.raises(OSError):
            file_access.open_private(tmp_path / "file", flags)
    assert target.read_text() == "precious"


def test_an_open_file_is_not_inherited_by_child_processes(tmp_path: Path) -> None:
    fd = file_access.open_private(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    assert not os.get_inheritable(fd)
    os.close(fd)


def test_bytes_are_read_at_an_offset_up_to_the_end(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    fd = file_access.open_private(path, os.O_RDONLY)
    try:
        assert file_access.read_at(fd, 3, 4) == b"456"
        assert file_access.read_at(fd, 10, 8) == b"89"
        assert file_access.read_at(fd, 1, 10) == b""
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
        check_database(path)


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
    fd = file_access.open_private(tmp_path / "file", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    file_access.append_parts(fd, parts)
    file_access.close(fd)
    assert given == [[len(part) for part in parts]]
    assert (tmp_path / "file").read_bytes() == b"".join(parts)
