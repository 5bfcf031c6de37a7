"""A recorder with a store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_proxy.store.proxy_store import ProxyStore
from tests.recording.recorder_harness import RecorderHarness
from tests.waiting import SECONDS


@pytest.fixture
def recording(tmp_path: Path) -> Iterator[RecorderHarness]:
    made = RecorderHarness(ProxyStore(tmp_path / "store"))
    yield made
    made.recorder.stop(SECONDS)
