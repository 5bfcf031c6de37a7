from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_proxy.store.store import Store
from tests.recording.notes import SECONDS, Notes


@pytest.fixture
def notes(tmp_path: Path) -> Iterator[Notes]:
    made = Notes(Store(tmp_path / "store"))
    yield made
    made.recorder.end(SECONDS)
