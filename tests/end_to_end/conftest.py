from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.proxied import Proxied


@pytest.fixture
def proxied(tmp_path: Path) -> Iterator[Proxied]:
    place = Proxied(tmp_path)
    yield place
    place.close()
