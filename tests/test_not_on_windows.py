"""The list of tests that are not run on Windows names tests that exist, with reasons."""

import ast
from functools import cache

from tests import not_on_windows
from tests.not_on_windows import ROOT

ENTRIES = list(not_on_windows.entries())


@cache
def names_in(path: str) -> set[str]:
    module = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in module.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_each_entry_names_a_test_that_exists_and_says_why() -> None:
    for entry, reason in ENTRIES:
        path, _, test = entry.partition("::")
        assert (ROOT / path).exists(), entry
        assert path.startswith("tests/"), entry
        assert len(reason.split()) > 2, entry
        assert not test or test in names_in(path), entry


def test_nothing_is_listed_twice() -> None:
    names = [entry for entry, _ in ENTRIES]
    assert len(set(names)) == len(names)
    whole = {entry for entry, reason in ENTRIES if "::" not in entry and not reason.startswith("nobody")}
    assert not [entry for entry in names if "::" in entry and entry.partition("::")[0] in whole]
