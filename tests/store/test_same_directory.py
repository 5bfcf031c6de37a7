"""Spellings of the same directory are equal."""

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import platformdirs
import pytest
from hypothesis import given

from acp_proxy.store import same_directory
from acp_proxy.store.store_root import find_default_root
from tests.stored import WholeStore, chunk, list_ids, store_session
from tests.strategies import texts
from tests.waiting import wait_until


def test_a_link_and_its_target_are_one_place(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    (tmp_path / "link").symlink_to(there)
    (tmp_path / "second").symlink_to(tmp_path / "link")
    assert same_directory.resolve_directory(str(tmp_path / "link")) == same_directory.resolve_directory(str(there))
    assert same_directory.resolve_directory(str(tmp_path / "second" / "inner")) == same_directory.resolve_directory(
        str(there / "inner")
    )


@pytest.mark.parametrize("spelling", ["{}/", "{}//", "{}/.", "{}/x/..", "/{}", "{}/./", "{}///."])
def test_spellings_of_one_directory_are_one_place_even_if_it_is_missing(tmp_path: Path, spelling: str) -> None:
    for path in (tmp_path, tmp_path / "missing" / "deep"):
        assert same_directory.resolve_directory(spelling.format(path)) == same_directory.resolve_directory(str(path))
        assert same_directory.normalize_directory(spelling.format(path)) == same_directory.normalize_directory(
            str(path)
        )


def test_children_siblings_and_other_cases_are_other_places(tmp_path: Path) -> None:
    for name in ("x/y", "xy", "X", "x "):
        assert same_directory.resolve_directory(str(tmp_path / name)) != same_directory.resolve_directory(
            str(tmp_path / "x")
        )


def test_the_root_stays_the_root() -> None:
    assert (
        same_directory.resolve_directory("/")
        == same_directory.normalize_directory("/")
        == same_directory.normalize_directory("//")
        == "/"
    )


def test_a_spelling_does_not_follow_links(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert same_directory.normalize_directory(str(tmp_path / "link") + "/") == str(tmp_path / "link")


@pytest.mark.parametrize(
    "spelling", ["C:\\Users\\me\\p", "c:/Users/me/p/", "C:/users/ME\\p", "c:\\Users\\.\\me\\x\\..\\p\\"]
)
def test_spellings_of_one_windows_directory_are_one_place_on_every_system(spelling: str) -> None:
    assert (
        same_directory.resolve_directory(spelling) == same_directory.normalize_directory(spelling) == "c:\\users\\me\\p"
    )


@pytest.mark.parametrize("spelling", ["\\\\Server\\Share", "\\\\server\\share\\", "\\\\SERVER/share/"])
def test_spellings_of_one_share_are_one_place_on_every_system(spelling: str) -> None:
    assert (
        same_directory.resolve_directory(spelling)
        == same_directory.normalize_directory(spelling)
        == "\\\\server\\share"
    )


def test_other_windows_directories_are_other_places() -> None:
    paths = ["C:\\", "D:\\", "C:\\p", "C:\\p\\q", "C:\\pq", "\\\\server\\p", "\\\\server\\p\\q", "\\\\other\\p"]
    assert len({same_directory.resolve_directory(path) for path in paths}) == len(paths)
    assert same_directory.resolve_directory("C:\\") == same_directory.resolve_directory("c:/")


@pytest.mark.parametrize("path", ["/c:/Users", "/C:\\Users", "/mnt/C:/x", "C:", "C:x"])
def test_a_path_that_resembles_a_windows_path_keeps_its_case(path: str) -> None:
    assert not same_directory.is_windows_path(path)
    assert same_directory.normalize_directory(path) == path


def test_a_loop_of_links_is_a_place(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert same_directory.resolve_directory(str(tmp_path / "a"))


@pytest.mark.parametrize(
    "path", ["/nul\0byte", "/\ud800", "/\udcff/x", "/" + "x" * 5000, "", "relative", "C:\\x", "\0"]
)
def test_an_invalid_path_is_a_place(path: str) -> None:
    assert same_directory.resolve_directory(path) == same_directory.resolve_directory(path)
    assert isinstance(same_directory.normalize_directory(path), str)


@given(texts)
def test_any_path_is_a_place(path: str) -> None:
    assert same_directory.resolve_directory(f"/{path}") == same_directory.resolve_directory(f"/{path}/")


@pytest.mark.skipif(os.name == "nt" or os.uname().sysname != "Linux", reason="the variable is Linux's")
def test_the_default_store_is_in_the_users_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert find_default_root() == tmp_path / "acp-proxy"
    monkeypatch.delenv("XDG_DATA_HOME")
    usual = Path(platformdirs.user_data_dir("acp-proxy", appauthor=False))
    monkeypatch.setitem(sys.modules, "platformdirs", None)  # slow to import, and not needed for the usual place
    assert find_default_root() == usual


def test_a_path_that_is_too_long_is_not_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def looked_up(path: str) -> str:
        asked.append(path)
        return path

    monkeypatch.setattr("os.path.realpath", looked_up)
    long = "/" + "d/" * 100_000
    assert same_directory.resolve_directory(long) == same_directory.normalize_directory(long)
    assert asked == []
    assert same_directory.resolve_directory(str(tmp_path)) == str(tmp_path)
    assert asked == [str(tmp_path)]


@pytest.fixture
def hung(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Directories whose path contains "hung" do not answer until this is set."""
    answers = threading.Event()
    realpath = os.path.realpath

    def wait_and_resolve(path: str) -> str:
        if "hung" in path:
            answers.wait()
        return realpath(path)

    monkeypatch.setattr(os.path, "realpath", wait_and_resolve)
    monkeypatch.setattr(same_directory, "_ANSWER_SECONDS", 0.05)
    yield answers
    answers.set()


def test_a_directory_that_does_not_answer_counts_as_it_is_spelled(tmp_path: Path, hung: threading.Event) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link to the hung").symlink_to(tmp_path / "there")
    link, there = str(tmp_path / "link to the hung"), str(tmp_path / "there")
    for _ in range(20):
        assert same_directory.resolve_directory(f"{link}/.") == same_directory.normalize_directory(link)
    hung.set()
    wait_until(lambda: same_directory.resolve_directory(link) == same_directory.normalize_directory(there))


@pytest.mark.skipif(sys.platform == "win32", reason="nobody can remove a directory there that a process is in")
def test_a_relative_path_in_a_directory_that_is_gone_counts_as_it_is_spelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert same_directory.resolve_directory("inner/.") == "inner"


def test_while_a_directory_does_not_answer_others_are_resolved(tmp_path: Path, hung: threading.Event) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    same_directory.resolve_directory(str(tmp_path / "hung"))
    link, there = str(tmp_path / "link"), str(tmp_path / "there")
    wait_until(lambda: same_directory.resolve_directory(link) == same_directory.normalize_directory(there))


def test_a_session_in_a_directory_that_does_not_answer_is_listed(store: WholeStore, hung: threading.Event) -> None:
    store_session(store, "s", ("mend it", [chunk("mended")]), cwd="/hung/project")
    assert list_ids(store, store.choose_agent(None, "agent", ""), "/hung/project") == ["s"]
