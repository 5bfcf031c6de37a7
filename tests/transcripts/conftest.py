from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_proxy.transcripts.listing import noticing
from acp_proxy.transcripts.lives import forks
from tests.stored import Both
from tests.transcripts import talk
from tests.transcripts.shelf import Shelf
from tests.transcripts.talk import answer, prompt
from tests.transcripts.writing import AGENT


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(root: Path) -> Both:
    return Both(root)


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """No list comes within a moment of what changed before it."""
    monkeypatch.setattr(noticing, "_GRANULE_SECONDS", -1.0)


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    made = Shelf(tmp_path)
    yield made
    made.index.close()


@pytest.fixture
def long(store: Both, monkeypatch: pytest.MonkeyPatch) -> Both:
    """Whatever is forked is too long to be copied at once. Session "p" is there."""
    monkeypatch.setattr(forks, "AT_ONCE", 0)
    talk.keep(store, AGENT, "p", prompt("one", session="p"), answer())
    return store
