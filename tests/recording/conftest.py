"""A recorder with a store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_proxy.recording import writer_jobs
from acp_proxy.store.proxy_store import ProxyStore
from tests.recording.recorder_harness import RecorderHarness
from tests.waiting import SECONDS


@pytest.fixture
def recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RecorderHarness]:
    monkeypatch.setattr(writer_jobs, "STALL_SECONDS", SECONDS)  # so that a slow disk is not taken for one that hangs
    made = RecorderHarness(ProxyStore(tmp_path / "store"))
    yield made
    made.recorder.stop(SECONDS)
