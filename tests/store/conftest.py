"""Stores and indexes for the tests of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_proxy.store import folder_changes
from tests.store import transcript_lines
from tests.store.shelf import Shelf
from tests.store.transcript_lines import answer, prompt
from tests.store.writing import AGENT
from tests.stored import WholeStore


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists trust the times of folders at once, instead of two seconds after a change."""
    monkeypatch.setattr(folder_changes, "_GRANULE_SECONDS", -1.0)


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    made = Shelf(tmp_path)
    yield made
    made.index.close()


@pytest.fixture
def parent(store: WholeStore) -> WholeStore:
    """A store with the session "p"."""
    transcript_lines.store_lines(store, AGENT, "p", prompt("one", session="p"), answer())
    return store
