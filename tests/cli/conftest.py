"""What every test of a command needs: the settings and the umask of before."""

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _process_as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Commands run in this process: keep the user's settings from them, and their umask from the other tests."""
    for name in [name for name in os.environ if name.startswith("ACP_PROXY_") and name != "ACP_PROXY_REGISTRY"]:
        monkeypatch.delenv(name)
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)
