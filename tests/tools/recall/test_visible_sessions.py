"""Which sessions recall may show, by their directory."""

import os
from pathlib import Path

import pytest

from acp_proxy.store.same_directory import resolve_directory
from acp_proxy.tools.recall.visible_sessions import EVERYWHERE, RecallScope, find_scope
from tests.tools.recall.asking import make_work_tree


def test_a_directory_outside_a_work_tree_is_alone(tmp_path: Path) -> None:
    scope = find_scope(str(tmp_path))
    assert scope == RecallScope(resolve_directory(str(tmp_path)))
    assert scope.includes(f"{tmp_path}/")
    assert not any(map(scope.includes, (str(tmp_path / "inner"), str(tmp_path.parent), None, "")))


@pytest.mark.parametrize("start", ["", "inner", "inner/deep", "missing/deep"])
def test_the_work_tree_around_a_directory_counts_whole(tmp_path: Path, start: str) -> None:
    root = make_work_tree(tmp_path / "work")
    (root / "inner" / "deep").mkdir(parents=True)
    scope = find_scope(str(root / start))
    assert scope == RecallScope(resolve_directory(str(root)), is_tree=True)
    assert all(map(scope.includes, (str(root), str(root / "inner"), str(root / "gone" / "since"))))
    assert not any(map(scope.includes, (str(tmp_path), f"{root}-other", str(root / ".." / "other"))))


def test_the_nearest_git_decides_file_or_directory(tmp_path: Path) -> None:
    outer = make_work_tree(tmp_path / "outer")
    inner = outer / "inner"
    inner.mkdir()
    (inner / ".git").write_text(f"gitdir: {tmp_path / 'elsewhere'}\n")
    scope = find_scope(str(inner))
    assert scope == RecallScope(resolve_directory(str(inner)), is_tree=True)
    assert not scope.includes(str(outer))
    assert find_scope(str(outer)).includes(str(inner))


def test_git_is_not_read(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    os.symlink(tmp_path / "nowhere", root / ".git")
    assert find_scope(str(root)).is_tree


def test_a_home_directory_and_those_above_are_no_work_trees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = make_work_tree(tmp_path / "home")
    make_work_tree(tmp_path / "above")
    (tmp_path / ".git").mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    for start in (tmp_path, home, home / "project"):
        scope = find_scope(str(start))
        assert scope == RecallScope(resolve_directory(str(start)))
        assert not scope.includes(str(start / "inner"))


def test_a_directory_that_users_share_is_no_work_tree(tmp_path: Path) -> None:
    shared = make_work_tree(tmp_path / "shared")
    shared.chmod(0o1777)
    assert find_scope(str(shared / "mine")) == RecallScope(resolve_directory(str(shared / "mine")))


def test_a_link_counts_by_where_it_leads(tmp_path: Path) -> None:
    root, secret = make_work_tree(tmp_path / "work"), make_work_tree(tmp_path / "secret")
    os.symlink(secret, root / "link")
    os.symlink(root, tmp_path / "to-work")
    assert find_scope(str(tmp_path / "to-work")).root == resolve_directory(str(root))
    assert find_scope(str(tmp_path / "to-work")).includes(str(root))
    assert find_scope(str(root)).includes(str(tmp_path / "to-work"))
    assert not find_scope(str(root)).includes(str(root / "link"))
    assert find_scope(str(root / "link")).root == resolve_directory(str(secret))


@pytest.mark.parametrize("cwd", ["work", ".", "", "C:\\work", "\0"])
def test_a_session_whose_directory_is_no_path_here_is_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cwd: str
) -> None:
    root = make_work_tree(tmp_path / "work")
    monkeypatch.chdir(root)
    assert not find_scope(str(root)).includes(cwd)


def test_everywhere_has_every_session() -> None:
    assert all(map(EVERYWHERE.includes, ("/", "/elsewhere", None)))
