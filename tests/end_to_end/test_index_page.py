"""The page of all exported sessions in a real browser: its search, by keyboard too, and that no session runs a script.

Chromium is driven by Playwright; where there is none, the tests are skipped.
"""

from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Page

from acp_proxy.tools.export.index_page import IndexEntry, WordIndex, collect_words, render_index
from acp_proxy.views.document import Choices
from tests.cli.commands import invoke
from tests.end_to_end.browser_page import FAINT, OUTSIDE, SCREENS, SMALL, Open, find_violations
from tests.stored import EPOCH, WholeStore, chunk, store_session
from tests.views.turns import EVIL, message, turn

DAY = 24 * 60 * 60
SHOWN = "() => [...document.querySelectorAll('.sessions li:not([hidden]) a')].map(one => one.textContent)"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of four sessions of two projects, exported by the usual command."""
    folder = tmp_path_factory.mktemp("index")
    store = WholeStore(folder / "store")
    store_session(store, "one", ("Mend the login", [chunk("The **cookie** expi"), chunk("red.")]), at=EPOCH)
    store_session(store, "two", ("Write the tests", [chunk("Größe über alles")]), at=EPOCH + 60, agent="other")
    store_session(store, "three", ("Mend the build", [chunk("login again")]), at=EPOCH + DAY)
    store_session(store, "four", ("A" * 100, [chunk("ok")]), at=EPOCH + 2 * DAY, cwd=f"/{'long' * 40}")
    words = ["export", "--all", "--format", "html", "-o", f"{folder}/out/", "--store", str(store.root)]
    result = invoke(*words)
    assert result.exit_code == 0, result.output
    return folder / "out" / "index.html"


def search(page: Page, words: str) -> list[str]:
    """The titles that the page shows then, newest project first."""
    page.get_by_role("searchbox").fill(words)
    fragment = f"search={words}" if words else ""
    page.wait_for_url(lambda url: unquote(urlsplit(url).fragment) == fragment)
    return list(page.evaluate(SHOWN))


def test_the_search_finds_words_of_titles_and_of_conversations(index: Path, watched: tuple[Open, list[str]]) -> None:
    open_page, seen = watched
    page = open_page(index)
    assert len(page.evaluate(SHOWN)) == 4
    assert search(page, "login") == ["Mend the build", "Mend the login"]
    assert page.get_by_role("status").inner_text() == "2 sessions"
    assert search(page, "LOGIN mend cookie") == ["Mend the login"]
    assert search(page, "expired") == ["Mend the login"]
    assert search(page, "GRÖSSE") == []
    assert search(page, "größe") == ["Write the tests"]
    assert search(page, "other") == ["Write the tests"]
    assert search(page, "cookie.expired") == ["Mend the login"]
    counts = "() => [...document.querySelectorAll('.contents li:not([hidden]) span')].map(one => one.textContent)"
    assert page.evaluate(counts) == ["1"]
    assert search(page, "nowhere login") == []
    assert page.get_by_role("status").inner_text() == "No session has all of these words."
    assert len(search(page, "")) == 4
    assert sorted(page.evaluate(counts)) == ["1", "3"]
    assert seen == []


def test_on_a_phone_what_is_found_comes_before_the_projects(index: Path, watched: tuple[Open, list[str]]) -> None:
    page = watched[0](index, viewport={"width": 390, "height": 844})
    projects = page.locator(".contents ol")
    assert projects.is_visible()
    search(page, "login")
    assert not projects.is_visible()
    search(page, "")
    assert projects.is_visible()


def test_the_search_works_by_keyboard_and_stays_when_one_comes_back(
    index: Path, watched: tuple[Open, list[str]]
) -> None:
    page = watched[0](index)
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.textContent") == page.evaluate(SHOWN)[0]
    page.keyboard.press("/")
    page.keyboard.type("login")
    page.wait_for_url("**/index.html#search=login")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.textContent") == "Mend the login"
    page.keyboard.press("Enter")
    page.wait_for_url("**/mend-the-login-*.html")
    assert page.get_by_role("heading", level=1).inner_text() == "Mend the login"
    page.go_back()
    assert page.get_by_role("searchbox").input_value() == "login"
    assert page.evaluate(SHOWN) == ["Mend the build", "Mend the login"]
    page.keyboard.press("Escape")
    assert len(page.evaluate(SHOWN)) == 4


def test_without_javascript_it_is_a_list_of_links(index: Path, watched: tuple[Open, list[str]]) -> None:
    page = watched[0](index, java_script_enabled=False)
    assert not page.locator("#search").is_visible()
    assert page.get_by_role("heading", level=2).count() == 2
    assert page.get_by_role("heading", level=3).all_inner_texts() == ["2023-11-16", "2023-11-15", "2023-11-14"]
    page.get_by_role("link", name="Write the tests").click()
    page.wait_for_url("**/write-the-tests-*.html")


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_it_is_legible_and_fits_the_screen(
    index: Path, watched: tuple[Open, list[str]], width: int, scheme: str
) -> None:
    open_page, seen = watched
    page = open_page(index, viewport={"width": width, "height": 844}, color_scheme=scheme)
    search(page, "the")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate(OUTSIDE) == []
    assert page.evaluate(SMALL) == []
    assert page.evaluate(FAINT) == []
    assert seen == []
    assert find_violations(page) == []


FOREIGN = """() => [...document.querySelectorAll('*')].filter(one =>
    one.matches('script:not(:last-child):not(#words), iframe, object, embed, form, base, svg, img, body style')
    || [...one.attributes].some(({name}) => name.startsWith('on') || name === 'style' || name === 'srcset')
    || (one.href && !/^(data:,$|file:)/.test(one.href))
).map(one => one.outerHTML.slice(0, 100))"""


def test_a_hostile_session_runs_no_script(tmp_path: Path, watched: tuple[Open, list[str]]) -> None:
    entries = [
        IndexEntry(f"{number}.html", evil, evil, f"/{number}/{evil}", evil, 1) for number, evil in enumerate(EVIL)
    ]
    words = WordIndex()
    for evil in EVIL:
        words.add(collect_words([turn(message("user", evil))], Choices()))
    path = tmp_path / "index.html"
    path.write_text("".join(render_index(entries, words)), encoding="utf-8")
    open_page, seen = watched
    page = open_page(path)
    assert page.title() == "Conversations"
    assert page.evaluate(FOREIGN) == []
    assert len(page.evaluate(SHOWN)) == len(EVIL)
    for evil in EVIL:
        search(page, evil.replace("\x00", "").replace("\ud800", ""))
    page.wait_for_load_state("networkidle")
    assert page.title() == "Conversations"
    assert seen == []
