"""The branch and commit of a work tree are read from Git's files, and from nothing that only looks like them."""

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from acp_proxy.recording import git_head
from acp_proxy.recording.git_head import GitReader, read_git_head
from acp_proxy.transcript.file_format import GitHead

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(directory: Path, *words: str) -> str:
    who = ["-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "protocol.file.allow=always"]
    result = subprocess.run(["git", *who, *words], cwd=directory, check=True, capture_output=True, text=True)
    return result.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    made = tmp_path / "repository"
    (made / "src").mkdir(parents=True)
    git(made, "init", "--quiet", "--initial-branch", "main")
    return made


def commit(repository: Path) -> str:
    git(repository, "commit", "--quiet", "--allow-empty", "--message", "A change")
    return git(repository, "rev-parse", "HEAD")


@needs_git
def test_a_branch_is_found_from_below_also_when_its_commit_is_packed(repository: Path) -> None:
    assert read_git_head(str(repository)) == GitHead("main")  # without a commit
    first = commit(repository)
    assert read_git_head(str(repository / "src")) == GitHead("main", first)
    git(repository, "checkout", "--quiet", "-b", "feature/größe")
    second = commit(repository)
    git(repository, "pack-refs", "--all")
    assert not (repository / ".git/refs/heads/main").exists()
    assert read_git_head(str(repository)) == GitHead("feature/größe", second)
    git(repository, "checkout", "--quiet", "main")
    assert read_git_head(str(repository)) == GitHead("main", first)


@needs_git
def test_a_detached_head_has_a_commit_and_no_branch(repository: Path) -> None:
    found = commit(repository)
    git(repository, "checkout", "--quiet", "--detach")
    assert read_git_head(str(repository)) == GitHead(commit=found)


@needs_git
def test_further_work_trees_and_submodules_have_their_own(repository: Path, tmp_path: Path) -> None:
    found = commit(repository)
    git(repository, "worktree", "add", "--quiet", "-b", "other", str(tmp_path / "tree"))
    assert read_git_head(str(tmp_path / "tree")) == GitHead("other", found)
    inner = tmp_path / "inner"
    inner.mkdir()
    git(inner, "init", "--quiet", "--initial-branch", "trunk")
    inside = commit(inner)
    git(repository, "submodule", "--quiet", "add", str(inner), "module")
    assert read_git_head(str(repository / "module")) == GitHead("trunk", inside)


def test_a_directory_outside_of_git_has_nothing(tmp_path: Path) -> None:
    for directory in (None, "", "relative", str(tmp_path), str(tmp_path / "missing"), "/a\0b"):
        assert read_git_head(directory) == GitHead()


def test_the_parents_of_an_endless_directory_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[object] = []

    def look(path: Path) -> bool:
        looked.append(path)
        return False

    monkeypatch.setattr(Path, "is_dir", look)
    assert read_git_head("/a" * 500_000) == GitHead()
    assert looked == []


def test_a_directory_that_does_not_answer_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, released = list[str | None](), threading.Event()

    def hang(directory: str | None) -> GitHead:
        asked.append(directory)
        released.wait(20)
        return GitHead("late")

    monkeypatch.setattr(git_head, "read_git_head", hang)
    reader = git_head.GitReader()
    assert [reader.read("/mnt/gone"), reader.read("/mnt/gone/again")] == [GitHead(), GitHead()]
    assert asked == ["/mnt/gone"]
    released.set()


@pytest.mark.parametrize(
    "head",
    [b"", b"ref: refs/tags/v1", b"ref: refs/heads/../../secret", b"ref: refs/heads/.invalid", b"0" * 39, b"\xff\0"],
)
def test_what_git_would_not_write_is_not_believed(tmp_path: Path, head: bytes) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/HEAD").write_bytes(head)
    (tmp_path / "secret").write_text("f" * 40)
    assert read_git_head(str(tmp_path)) == GitHead()


def test_text_that_is_no_commit_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / ".git/refs/heads").mkdir(parents=True)
    (tmp_path / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / ".git/refs/heads/main").write_text("the words of another file\n")
    assert read_git_head(str(tmp_path)) == GitHead("main")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such pipes")
def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    os.mkfifo(tmp_path / ".git/HEAD")
    assert read_git_head(str(tmp_path)) == GitHead()
    (tmp_path / "deeper").mkdir()
    os.mkfifo(tmp_path / "deeper/.git")
    assert read_git_head(str(tmp_path / "deeper")) == GitHead()


def test_where_no_thread_can_start_there_is_no_branch_and_the_next_read_tries_again(
    monkeypatch: pytest.MonkeyPatch, repository: Path
) -> None:
    reader = GitReader()
    with monkeypatch.context() as limit:
        limit.setattr(threading.Thread, "start", refuse_to_start)
        assert reader.read(str(repository)) == GitHead()
    assert reader.read(str(repository)).branch == "main"


def refuse_to_start(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")
