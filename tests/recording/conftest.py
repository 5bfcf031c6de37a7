from pathlib import Path

import pytest

from acp_proxy.store.store import Store
from tests.recording.notes import Notes


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    return Notes(Store(tmp_path / "store"))
