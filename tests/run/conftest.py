"""A relay with a store, which may hang."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_proxy.store.proxy_store import ProxyStore
from tests.recording.hanging_store import HangingStore
from tests.recording.recorder_harness import RecorderHarness
from tests.run.relay_conversation import RelayConversation


@pytest.fixture
def notes(tmp_path: Path) -> RecorderHarness:
    return RecorderHarness(ProxyStore(tmp_path / "store"))


@pytest.fixture
def hanging(tmp_path: Path) -> HangingStore:
    return HangingStore(tmp_path / "store")


@pytest.fixture
def talk(hanging: HangingStore) -> Iterator[RelayConversation]:
    made = RelayConversation(hanging)
    yield made
    hanging.release()
    made.end()
