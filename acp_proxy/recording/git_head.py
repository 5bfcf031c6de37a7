"""Reads from the files of Git which branch and commit a directory is at. Git itself is never run: a repository's
settings can name programs that it would start.

The files: gitrepository-layout(5) of Git's documentation. Refs in its newer format, reftable, are not read.
"""

import os
import re
import stat
import threading
from pathlib import Path

from acp_proxy.transcript.file_format import GitHead

_COMMIT = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")
"""The id of a commit: SHA-1 or SHA-256."""
_BRANCH_PREFIX = b"refs/heads/"
_LONGEST_DIRECTORY = 4096
"""Characters of a directory: Linux opens none that is longer. Each of its parents is looked at, so a hostile one of a
megabyte would take gigabytes."""
_ONE_LINE_BYTES = 4096
"""The most bytes read of a file that holds one line."""
_PACKED_REFS_BYTES = 8 * 1024 * 1024
"""The most bytes read of the packed refs: about 100,000 of them."""
_READ_SECONDS = 0.25
"""The longest time for reading: far more than any disk needs, and far less than the writer's thread may stand still."""


class GitReader:
    """Reads within a quarter of a second, for the thread that writes transcripts: a directory on a network's disk that
    does not answer must not stop recording. After such a one, nothing is read any more."""

    def __init__(self) -> None:
        self._is_stuck = False

    def read(self, directory: str | None) -> GitHead:
        """As ``read_git_head``; empty if that takes too long, or no thread can start."""
        if self._is_stuck:
            return GitHead()
        heads: list[GitHead] = []
        thread = threading.Thread(target=lambda: heads.append(read_git_head(directory)), name="git", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no thread can start now
            return GitHead()
        thread.join(_READ_SECONDS)
        self._is_stuck = not heads
        return heads[0] if heads else GitHead()


def read_git_head(directory: str | None) -> GitHead:
    """The branch and the commit of the work tree that has this directory; empty where it is unknown. Never raises."""
    if not directory or len(directory) > _LONGEST_DIRECTORY or not os.path.isabs(directory):
        return GitHead()
    try:
        work_tree = find_work_tree(Path(directory))
        return _read_head(work_tree[1]) if work_tree is not None else GitHead()
    except (OSError, ValueError):  # ValueError: a NUL in a path
        return GitHead()


def find_work_tree(directory: Path) -> tuple[Path, Path] | None:
    """The top of the work tree that has this absolute directory, and where git's own files are; None: there is none.
    Raises OSError, and ValueError for a NUL."""
    for parent in (directory, *directory.parents):
        git = parent / ".git"
        if git.is_dir():
            return parent, git
        line = _read_beginning(git, _ONE_LINE_BYTES)
        if line.startswith(b"gitdir: "):  # a further work tree, or a submodule
            return parent, parent / os.fsdecode(line.removeprefix(b"gitdir: ").strip())
    return None


def _read_head(git: Path) -> GitHead:
    head = _read_beginning(git / "HEAD", _ONE_LINE_BYTES).strip()
    if _COMMIT.fullmatch(head):
        return GitHead(commit=head.decode())
    ref = head.removeprefix(b"ref: ")
    if ref == head or not ref.startswith(_BRANCH_PREFIX) or b".." in ref:
        return GitHead()
    branch = ref.removeprefix(_BRANCH_PREFIX).decode("utf-8", "replace")
    if branch == ".invalid":  # what reftable has there for older versions of Git
        return GitHead()
    # The refs of all work trees are in one place.
    common = git / os.fsdecode(_read_beginning(git / "commondir", _ONE_LINE_BYTES).strip() or b".")
    commit = _read_beginning(common / os.fsdecode(ref), _ONE_LINE_BYTES).strip() or _find_packed(common, ref)
    return GitHead(branch, commit.decode() if _COMMIT.fullmatch(commit) else "")


def _find_packed(common: Path, ref: bytes) -> bytes:
    before, separator, _ = _read_beginning(common / "packed-refs", _PACKED_REFS_BYTES).partition(b" " + ref + b"\n")
    return before.rpartition(b"\n")[2] if separator else b""


def _read_beginning(path: Path, limit: int) -> bytes:
    """The beginning of a file; nothing if it cannot be read, or is none: a pipe would wait for its writer."""
    try:
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return b""
    try:
        return os.read(fd, limit) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    except OSError:
        return b""
    finally:
        os.close(fd)
