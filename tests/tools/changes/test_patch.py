"""The patch of a session: ``git apply`` makes the last tree of the first one, and back."""

import os
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acp_proxy.tools.changes.net import ABSENT, FileChange, FileText, sum_changes
from acp_proxy.tools.changes.patch import make_diff, reverse
from tests.tools.changes.calls import CWD, Told, diff, ended_call, started_call

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
NAMES = ["a", "b.txt", "with space", "sub/deep/c", "grüße 你好", 'quo"ted', "back\\slash", "tab\tand\nline", "-x"]
Tree = dict[str, str]

ends = st.sampled_from(["\n", "\n", "\r\n"])
words = st.text(max_size=12) | st.sampled_from(
    ["", "same", "-- x", "+++ b/a", "@@ -1 +1 @@", "diff --git a/a b/a", "\\ No"]
)
lines = st.builds(lambda text, end: text.replace("\n", "") + end, words, ends)
texts = st.builds(lambda given, last: "".join(given) + last, st.lists(lines, max_size=12), words)
LONG = "<a long line>"
"""Stands for one in examples, which are printed."""


class Agent:
    """A scripted agent that edits files and says so, in any order, sometimes twice, sometimes in vain."""

    def __init__(self, tree: Tree, chance: random.Random) -> None:
        self.tree = dict(tree)
        self._told = Told()
        self._chance = chance
        self._count = 0

    def turn(self, number: int, steps: list[tuple[str, str, str]]) -> None:
        ends: list[dict[str, Any]] = []
        for what, name, text in steps:
            self._count += 1
            id, path = f"call-{self._count}", self._chance.choice([name, f"{CWD}/{name}", f"{CWD}/x/../{name}"])
            old, new = self.tree.get(name), f"{self._count}\n{text}".replace(LONG, "x" * 70_000)
            if what in ("failed", "denied"):
                self._told.update(number, started_call(id, diff(path, old, new)))
                if what == "denied":
                    self._told.ask(number, id, "reject_once")
                self._told.update(number, ended_call(id, "failed" if what == "failed" else "completed"))
            elif what == "write":
                self._told.update(number, started_call(id, diff(path, old, new)))
                ends.append(ended_call(id, content=self._chance.choice([[], [diff(path, old, new)]])))
                self.tree[name] = new
        self._chance.shuffle(ends)
        self._told.update(number, *ends, *ends[:1])
        for what, name, text in steps:
            self._count += 1
            id, path, old = f"call-{self._count}", f"{CWD}/{name}", self.tree.get(name)
            if old is None:
                continue
            if what == "delete":
                self._told.update(number, started_call(id, diff(path, old, ""), kind="delete"), ended_call(id))
                del self.tree[name]
            elif what == "move" and (free := [each for each in NAMES if each not in self.tree]):
                places = [{"path": path}, {"path": f"{CWD}/{free[0]}"}]
                self._told.update(number, started_call(id, kind="move", locations=places), ended_call(id))
                self.tree[free[0]] = self.tree.pop(name)
            elif what == "patch" and (free := [each for each in NAMES if each not in self.tree]):
                # As Codex does it: the input says that the file is deleted, or moved and changed.
                new = f"{self._count}\n{text}"
                target = self._chance.choice([free[0], None])
                change = {"type": "delete"} if target is None else {"type": "update", "move_path": f"{CWD}/{target}"}
                content = diff(path, old, "") if target is None else diff(f"{CWD}/{target}", old, new)
                self._told.update(
                    number, started_call(id, content, rawInput={"changes": {path: change}}), ended_call(id)
                )
                del self.tree[name]
                if target is not None:
                    self.tree[target] = new
            elif what == "part" and (parts := [line for line in old.split("\n") if line and old.count(line) == 1]):
                part = self._chance.choice(parts)
                new = f"{self._count} {text}"
                if old.replace(part, new).count(new) != 1:
                    continue
                given = {"old_string": part, "new_string": new}
                self._told.update(number, started_call(id, diff(path, part, new), rawInput=given), ended_call(id))
                self.tree[name] = old.replace(part, new)

    def changes(self) -> list[FileChange]:
        return sum_changes(self._told.reader.finish().edits, CWD, self._find_now)

    def _find_now(self, path: str) -> FileText:
        name = os.path.relpath(os.path.join(CWD, path), CWD)
        return FileText(self.tree[name]) if name in self.tree else ABSENT


def apply(patch: bytes, folder: Path) -> None:
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent), "GIT_CONFIG_GLOBAL": os.devnull}
    words = ["git", "apply", "--whitespace=nowarn"]
    result = subprocess.run(words, input=patch, cwd=folder, env=environment, capture_output=True, check=False)
    assert result.returncode == 0, result.stderr.decode() + patch.decode()


def write(tree: Tree, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, text in tree.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())


def read(folder: Path) -> Tree:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes().decode() for path in found}


steps = st.tuples(
    st.sampled_from(["write", "write", "part", "delete", "move", "patch", "failed", "denied"]),
    st.sampled_from(NAMES),
    texts,
)


@needs_git
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    tree=st.dictionaries(st.sampled_from(NAMES), texts.filter(bool), max_size=5),
    turns=st.lists(st.lists(steps, max_size=5), min_size=1, max_size=4),
    seed=st.integers(0, 2**32),
)
def test_the_patch_makes_the_last_tree_of_the_first_and_its_reverse_the_first_again(
    tree: Tree, turns: list[list[tuple[str, str, str]]], seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp() / "tree"
    agent = Agent(tree, random.Random(seed))
    for number, each in enumerate(turns, 1):
        agent.turn(number, each)
    changes = agent.changes()
    assert [change.trouble for change in changes] == [None] * len(changes)
    write(tree, folder)
    if changes:
        apply(b"".join(make_diff(change).encode() for change in changes), folder)
    assert read(folder) == agent.tree
    if changes:
        apply(b"".join(make_diff(reverse(change)).encode() for change in changes), folder)
    assert read(folder) == tree
