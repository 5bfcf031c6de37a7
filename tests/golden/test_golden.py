"""What acp-proxy does is what it did: `tests/golden/expected` has it, and CONTRIBUTING.md says when that may change."""

import difflib
from pathlib import Path

import pytest

from tests.golden.frozen_files import EXPECTED, PLANS, STORE, freeze_file, freeze_store

_LINES = 60
"""The most lines of a difference that are shown."""


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_a_conversation_is_relayed_recorded_replayed_and_shown_as_before(path: Path) -> None:
    _compare(EXPECTED / f"{path.stem}.txt", freeze_file(path))


def test_a_store_with_every_kind_of_file_is_listed_shown_and_verified_as_before() -> None:
    _compare(STORE, freeze_store())


def test_each_frozen_text_has_its_plan() -> None:
    assert {path.stem for path in EXPECTED.glob("*.txt")} == {STORE.stem, *(path.stem for path in PLANS)}


def _compare(path: Path, now: str) -> None:
    before = path.read_bytes().decode("utf-8", "surrogateescape")
    if now != before:
        lines = list(difflib.unified_diff(before.splitlines(), now.splitlines(), str(path), "now", n=1, lineterm=""))
        pytest.fail("\n".join([*lines[:_LINES], f"({len(lines)} lines; if this is meant: make golden)"]), pytrace=False)
