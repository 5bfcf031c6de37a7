from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scripts import real_agents
from tests.end_to_end.proxied import Proxied


@pytest.fixture
def proxied(tmp_path: Path) -> Iterator[Proxied]:
    place = Proxied(tmp_path)
    yield place
    place.close()


@pytest.fixture(scope="session")
def need_agent() -> Callable[[str], None]:
    """Skip the test if a real agent is not installed."""
    there = real_agents.installed()

    def need(name: str) -> None:
        if name not in there:
            pytest.skip(f"{name} is not installed; run: {real_agents.AGENTS}/setup {name}")

    return need


@pytest.fixture(scope="session")
def stand_in_model() -> Iterator[int]:
    """The port of a stand-in model for the real agents."""
    if not (real_agents.AGENTS / "launch").exists():
        pytest.skip(f"no real agents: {real_agents.AGENTS} is not there")
    with real_agents.stand_in_model() as port:
        yield port
