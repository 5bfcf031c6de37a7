"""What every test of a command needs: the settings and the umask of before; and a store with sessions."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_proxy.store.proxy_store import ProxyStore
from tests.stored import EPOCH, store_session


@pytest.fixture(autouse=True)
def _process_as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Commands run in this process: keep the user's settings from them, and their umask from the other tests."""
    for name in [name for name in os.environ if name.startswith("ACP_PROXY_") and name != "ACP_PROXY_REGISTRY"]:
        monkeypatch.delenv(name)
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)


@pytest.fixture
def three_sessions(tmp_path: Path) -> ProxyStore:
    """A store with "abc-1", "abc-2" and "xyz", the newest; each has "the words of" its id."""
    store = ProxyStore(tmp_path / "store")
    for number, session in enumerate(("abc-1", "abc-2", "xyz")):
        store_session(store, session, (f"the words of {session}", []), at=EPOCH + number)
    return store
