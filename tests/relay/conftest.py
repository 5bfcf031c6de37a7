"""A relay with a store, which may hang."""

from pathlib import Path

import pytest

from acp_proxy.store.proxy_store import ProxyStore
from tests.recording.recorder_harness import RecorderHarness


@pytest.fixture
def notes(tmp_path: Path) -> RecorderHarness:
    return RecorderHarness(ProxyStore(tmp_path / "store"))
