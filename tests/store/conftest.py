"""Stores and indexes for the tests of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_proxy.store import folder_changes
from tests.store import transcript_lines
from tests.store.concurrent_writers import AGENT
from tests.store.indexed_transcripts import IndexedTranscripts
from tests.store.transcript_lines import answer, prompt_line
from tests.stored import WholeStore


@pytest.fixture
def trusted_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists trust the times of folders at once, instead of two seconds after a change."""
    monkeypatch.setattr(folder_changes, "_GRANULE_SECONDS", -1.0)


@pytest.fixture
def transcripts(tmp_path: Path) -> Iterator[IndexedTranscripts]:
    indexed = IndexedTranscripts(tmp_path)
    yield indexed
    indexed.index.close()


@pytest.fixture
def parent(store: WholeStore) -> WholeStore:
    """A store with the session "p"."""
    transcript_lines.store_lines(store, AGENT, "p", prompt_line("one", session="p"), answer())
    return store
