"""Fixtures for whole processes: a proxied agent, real agents, a stand-in model, a browser."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scripts import real_agents
from tests.end_to_end.proxied import Proxied

if TYPE_CHECKING:  # imported late: where there is no browser, there may be no Playwright
    from playwright.sync_api import Browser

    from tests.end_to_end.browser_page import Open, Pages


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


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    from scripts import browser as browsers

    path = browsers.installed()
    if path is None:
        pytest.skip("no Chromium is installed; run: make browser")
    with browsers.opened(path) as found:
        yield found


@pytest.fixture(scope="module")
def pages(browser: "Browser") -> "Iterator[Pages]":
    from tests.end_to_end.browser_page import Pages

    yield Pages(browser)
    for context in browser.contexts:
        context.close()


@pytest.fixture
def watched(pages: "Pages") -> "tuple[Open, list[str]]":
    """Open a file or an address, and what the page did since."""
    return pages.open, pages.seen
