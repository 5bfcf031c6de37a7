"""A store's directory is created private, and refused if others can write to it or it cannot be used."""

import errno
import os
import stat
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from acp_proxy.errors import StoreRefused
from acp_proxy.store import store_root
from acp_proxy.transcript import file_access
from tests.modes import has_mode


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_a_store_that_cannot_be_created_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "removed").mkdir()
    monkeypatch.chdir(tmp_path / "removed")
    (tmp_path / "removed").rmdir()
    with pytest.raises(StoreRefused, match="Choose another place"):
        store_root.prepare(Path("store"))


def test_an_existing_directory_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)  # others can read it, but not write
    store_root.prepare(tmp_path)
    assert mode(tmp_path) == 0o755


@pytest.mark.parametrize("found", [0o720, 0o702, 0o777, 0o1777])
def test_a_directory_that_others_can_write_to_is_refused_with_the_command_to_fix_it(tmp_path: Path, found: int) -> None:
    root = tmp_path / "my store"
    root.mkdir()
    root.chmod(found)
    with pytest.raises(StoreRefused, match=f"chmod 700 '{root}'"):
        store_root.prepare(root)
    root.chmod(0o700)
    store_root.prepare(root)


def test_the_target_of_a_link_is_checked(tmp_path: Path) -> None:
    there, link = tmp_path / "there", tmp_path / "link"
    there.mkdir(0o700)
    link.symlink_to(there)
    store_root.prepare(link)
    there.chmod(0o777)
    with pytest.raises(StoreRefused):
        store_root.prepare(link)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can give a directory away")
def test_a_store_that_belongs_to_another_user_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, 12345, -1)
    with pytest.raises(StoreRefused):
        store_root.prepare(tmp_path)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_directory_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StoreRefused, match="chmod -R u"):
        store_root.prepare(tmp_path)
    with pytest.raises(StoreRefused):
        store_root.prepare(tmp_path / "store")


def test_the_advice_for_a_read_only_store_fits_its_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert store_root.find_refusal(tmp_path) is None
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=0))
    tmp_path.chmod(0o500)
    assert f"Run: chmod -R u+rwX {tmp_path}" in str(store_root.find_refusal(tmp_path))
    tmp_path.chmod(0o700)
    assert "the system protects it" in str(store_root.find_refusal(tmp_path))
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_RDONLY | os.ST_NOSUID))
    assert "its file system is read-only. Mount it writable" in str(store_root.find_refusal(tmp_path))
    assert "chmod" not in str(store_root.find_refusal(tmp_path))
    assert "No such file" in str(store_root.find_refusal(tmp_path / "gone meanwhile"))


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
@pytest.mark.parametrize("name", ["transcripts", "unindexed"])
def test_a_store_with_a_read_only_directory_is_refused_with_the_command_to_fix_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    root = tmp_path / "my store"
    (root / name).mkdir(parents=True)
    monkeypatch.setattr(os, "access", has_mode)
    store_root.prepare(root)
    (root / name).chmod(0o500)
    with pytest.raises(StoreRefused, match=f"{root / name} cannot be written to. Run: chmod -R u.rwX '{root}'"):
        store_root.prepare(root)


def test_a_store_into_which_nobody_may_look_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stat_any = os.stat

    def stat_above(path: str | Path, **options: Any) -> os.stat_result:
        if Path(path).parent == tmp_path:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat_any(path, **options)

    monkeypatch.setattr(os, "stat", stat_above)
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    assert "cannot be written to" in str(store_root.find_refusal(tmp_path))


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


def test_a_link_to_nothing_is_refused_with_where_it_leads(tmp_path: Path) -> None:
    link = put_dangling_link(tmp_path / "link")
    for root in (link, link / "store"):
        with pytest.raises(StoreRefused, match=f"{link} is a link to {tmp_path / 'nowhere'}, which does not exist"):
            store_root.prepare(root)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such owners")
def test_a_directory_of_another_user_is_refused_with_the_command_that_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(StoreRefused, match=f"Run: sudo chown -R {os.geteuid()} {tmp_path}"):
        file_access.make_inner_directory(tmp_path)


@pytest.mark.parametrize("put", [put_file, put_file_as_parent, put_dangling_link, put_loop])
def test_anything_in_the_place_of_the_store_is_refused_and_unchanged(
    tmp_path: Path, put: Callable[[Path], Path]
) -> None:
    root = put(tmp_path / "in-the-way")
    before = os.lstat(tmp_path / "in-the-way")
    with pytest.raises(StoreRefused, match=str(root)):
        store_root.prepare(root)
    after = os.lstat(tmp_path / "in-the-way")
    assert (after.st_ino, after.st_mode, after.st_size) == (before.st_ino, before.st_mode, before.st_size)


def test_a_path_that_is_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreRefused):
        store_root.prepare(tmp_path / ("x" * 300))


def test_threads_can_prepare_one_directory_at_once(tmp_path: Path) -> None:
    refused: list[BaseException] = []
    start = threading.Barrier(8)

    def prepare(number: int) -> None:
        try:
            start.wait(20)
            store_root.prepare(tmp_path / str(number) / "a" / "b" / "c" / "d")
        except BaseException as problem:  # noqa: BLE001 - handed to the test
            refused.append(problem)

    for number in range(25):
        threads = [threading.Thread(target=prepare, args=(number,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    assert refused == []


@pytest.mark.skipif(sys.platform == "win32", reason="any name may be a user's there")
def test_a_directory_of_an_unknown_user_is_refused() -> None:
    with pytest.raises(StoreRefused, match="~nosuchuser is no user here"):
        store_root.resolve_root("~nosuchuser/store")


@pytest.mark.parametrize("path", ["", "~/store"])
def test_an_unknown_home_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    def find_nobody(*given: object) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", find_nobody)
    monkeypatch.setattr(store_root, "find_default_root", find_nobody)
    with pytest.raises(StoreRefused, match="Set HOME"):
        store_root.resolve_root(path)
