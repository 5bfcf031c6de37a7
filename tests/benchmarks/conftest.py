"""The C programs, compiled once for all tests here."""

import random
import sys
from pathlib import Path

import pytest

from benchmarks.build import Built, compiled
from benchmarks.subjects import Effort


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("programs")
    client, agent, relay = (compiled(name, folder) for name in ("client", "agent", "relay"))
    return Built(client, agent, relay, proxy="", python=sys.executable, node=None, typescript_sdk=None, conductor=None)


@pytest.fixture
def effort(programs: Built, tmp_path: Path) -> Effort:
    return Effort(programs, tmp_path, chance=random.Random(0))
