"""Whether a path in a session is a file that is here now, though the session ran elsewhere.

The file itself counts, however it is spelled, and so do three other places of it: below another home, where sessions of
other machines have it; in another work tree of its git repository; and where its project was before it was moved, if a
directory of that name is gone. Anything else with the same name is another file.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from functools import cache

from acp_proxy.tools.search.call_search import make_path_test

_GIT_SECONDS = 20


class SameFile:
    """The places of one file. ``path``: absolute."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._name = os.path.basename(path)
        self._real = os.path.realpath(path)
        self._known_paths = {path, self._real, *_find_in_work_trees(self._real)}
        self._last_names = _take_last_names(self._real)
        self._is_at_home: Callable[[str], bool] = make_path_test(path)
        self.may_be = cache(self._may_be)

    def is_at(self, path: str, cwd: str | None) -> bool:
        """Whether it is the file that a session in this directory names by this path."""
        if not path or "\0" in path:
            return False
        full_path = os.path.normpath(os.path.join(cwd or "/", path))
        return self._is_this_file(full_path) or (cwd is not None and self._was_moved(full_path, os.path.normpath(cwd)))

    def _may_be(self, full_path: str) -> bool:
        """Whether this absolute path may be the file, whatever the session's directory."""
        return self._is_this_file(full_path) or _take_last_names(full_path) == self._last_names

    def _is_this_file(self, full_path: str) -> bool:
        if full_path in self._known_paths or self._is_at_home(full_path):
            return True
        # Only a path with the file's own name is looked up: a session may name thousands.
        return os.path.basename(full_path) == self._name and os.path.realpath(full_path) == self._real

    def _was_moved(self, full_path: str, cwd: str) -> bool:
        """Whether the session's directory is gone, and the file is at the same place in one of the same name."""
        beginning = cwd.rstrip(os.sep) + os.sep
        if not full_path.startswith(beginning):
            return False
        path_in_project = os.path.join(os.path.basename(cwd), full_path.removeprefix(beginning))
        return self._real.endswith(os.sep + path_in_project) and not os.path.lexists(cwd)


def _take_last_names(path: str) -> tuple[str, str]:
    """The name of a file and of its directory."""
    folder, name = os.path.split(path)
    return os.path.basename(folder), name


def _find_in_work_trees(path: str) -> list[str]:
    """The same file in the other work trees of its git repository."""
    git = shutil.which("git")
    if git is None:
        return []
    folder = os.path.dirname(path)

    def ask(*words: str) -> list[str]:
        command = [git, "-C", folder, *words]
        environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
        try:
            result = subprocess.run(command, capture_output=True, timeout=_GIT_SECONDS, env=environment, check=False)
        except (OSError, subprocess.SubprocessError):
            return []
        return os.fsdecode(result.stdout).splitlines() if result.returncode == 0 else []

    top = next(iter(ask("rev-parse", "--show-toplevel")), None)
    if top is None:
        return []
    try:
        path_in_tree = os.path.relpath(path, top)
    except ValueError:  # git names another drive of Windows, to which that of the path leads
        return []
    trees = [line.removeprefix("worktree ") for line in ask("worktree", "list", "--porcelain")]
    return [os.path.join(tree, path_in_tree) for tree in trees if os.path.isabs(tree)]
