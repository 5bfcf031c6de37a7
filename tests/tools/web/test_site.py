"""The pages, by the test client: what they show, and that no address and no session leads anywhere else."""

import itertools
import os
import re
from datetime import datetime
from html import escape, unescape
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from acp_proxy import shell_quote
from acp_proxy.errors import StoreRefused
from acp_proxy.sessions.command_store import CommandStore
from acp_proxy.store import store_root
from acp_proxy.tools.web import site
from acp_proxy.tools.web.access import Access
from tests.stored import EPOCH, WholeStore, chunk, numbered_call, store_session
from tests.views.turns import EVIL

TITLE = re.compile(r'<li[^>]*><a href="([^"]*)" dir="auto">(.*?)</a>')


class Browser:
    """A browser that opened the link. ``root``: the path of all pages."""

    def __init__(self, store: Path) -> None:
        access = Access(4321)
        self.root = access.root
        self.client = TestClient(site.make_app(store, access), base_url="http://127.0.0.1:4321")
        assert self.client.get(access.link).status_code == 200

    def read(self, path: str = "", status: int = 200) -> str:
        """A page, by its path below the root or by a link."""
        answer = self.client.get(path if path.startswith("/") else f"{self.root}{path}")
        assert answer.status_code == status, answer.text
        return str(answer.text)

    def list_titles(self, path: str = "") -> list[str]:
        return [unescape(title) for _, title in TITLE.findall(self.read(path))]

    def find_session(self, title: str) -> str:
        """The link to a session."""
        return str(next(place for place, name in TITLE.findall(self.read()) if name == title))


@pytest.fixture
def browser(store: WholeStore) -> Browser:
    return Browser(store.root)


def follow(browser: Browser, path: str) -> list[str]:
    """The page, and those behind its links to more."""
    pages = [browser.read(path)]
    while found := re.search(r'<a class="more" href="([^"]*)"', pages[-1]):
        pages.append(browser.read(unescape(found[1])))
    return pages


def test_a_store_that_has_vanished_is_no_empty_one_and_nothing_is_created_in_its_place(
    store: WholeStore, browser: Browser
) -> None:
    store_session(store, "s", ("hello", []))
    place = browser.find_session("hello")
    moved = store.root.rename(store.root.with_name("moved"))
    for path in ("", "search?q=hello", place, f"{place}/state"):
        assert f"there is no store at {store.root}" in unescape(browser.read(path, 503))
    moved.rename(store.root)
    assert browser.list_titles() == ["hello"]


def test_a_search_where_no_store_is_yet_creates_none(tmp_path: Path) -> None:
    browser = Browser(tmp_path / "none")
    assert "There is no session yet." in browser.read()
    browser.read("search?q=word")
    assert not (tmp_path / "none").exists()


def test_an_empty_store_has_an_empty_list(browser: Browser) -> None:
    assert "There is no session yet." in browser.read()
    assert "Statistics" in browser.read("stats")
    assert "Nothing matches, " in browser.read("search?q=word")


def test_the_list_shows_every_session_once_even_if_all_have_one_time(
    store: WholeStore, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "_ROWS", 3)
    for number in range(11):
        store_session(store, f"s{number}", (f"Title {number}", []), at=EPOCH + (number >= 8), agent=f"a{number % 2}")
    pages = follow(browser, "")
    shown = [title for page in pages for _, title in TITLE.findall(page)]
    assert [page.count("<li ") for page in pages] == [3, 3, 3, 2]
    assert sorted(shown) == sorted(f"Title {number}" for number in range(11))
    assert set(shown[:3]) == {"Title 8", "Title 9", "Title 10"}


def test_the_list_can_be_narrowed_to_an_agent_and_a_directory(store: WholeStore, browser: Browser) -> None:
    store_session(store, "one", ("One", []), agent="a", cwd="/project & more")
    store_session(store, "two", ("Two", []), agent="b", cwd="/project & more")
    store_session(store, "three", ("Three", []), agent="b", cwd="/other")
    links = {unescape(link) for link in re.findall(r'<a href="([^"]*\?[^"]*)"', browser.read())}
    [of_project] = [link for link in links if "more" in link]
    assert sorted(browser.list_titles(of_project)) == ["One", "Two"]
    agents = [browser.list_titles(link) for link in links if "agent=" in link]
    assert sorted(map(sorted, agents)) == [["One"], ["Three", "Two"]]
    assert browser.list_titles("?cwd=/nowhere") == []


def test_deleted_sessions_are_not_there_and_archived_ones_have_a_list_of_their_own(
    store: WholeStore, browser: Browser
) -> None:
    for name in ("one", "two", "three"):
        store_session(store, name, (name, []), agent=name)
    rows = {row.session_id: row for row in store.list_all()}
    place = browser.find_session("two")
    assert browser.list_titles("?archived=1") == []
    before = browser.read("state?archived=1")
    store.set_listed_archived(rows["one"], True)
    store.delete_listed(rows["two"], soft=False)
    assert browser.list_titles() == ["three"]
    assert browser.read("state?archived=1") != before
    archived = re.findall('href="([^"]*archived=1[^"]*)"', browser.read())
    store.set_listed_archived(rows["one"], False)
    assert "archived=1" not in browser.read()
    store.set_listed_archived(rows["one"], True)
    assert browser.list_titles(archived[0]) == ["one"]
    of_agents = re.findall('href="([^"]*agent=[^"]*)"', browser.read("?archived=1"))
    assert browser.list_titles(unescape(of_agents[0])) == ["one"]
    for path in (place, f"{place}/contents", f"{place}/files", f"{place}/state"):
        assert "deleted" in browser.read(path, 404)


def test_the_state_of_the_list_changes_with_any_session(store: WholeStore, browser: Browser) -> None:
    store_session(store, "one", ("One", []))
    before = browser.read("state")
    assert before == browser.read("state")
    [row] = store.list_all()
    store.set_listed_title(row, "Other")
    after = browser.read("state")
    assert after != before
    store_session(store, "two", ("Two", []))
    assert browser.read("state") not in (before, after)


def test_a_conversation_is_shown_as_the_export_shows_it(store: WholeStore, browser: Browser) -> None:
    home = os.path.expanduser("~")
    store_session(
        store, "s", ("Mend it", [chunk(f"I **read** {home}/x"), numbered_call(1)]), ("Thanks", [chunk("You")])
    )
    page = browser.read(browser.find_session("Mend it"))
    assert "<strong>read</strong> ~/x" in page
    assert page.count('<section class="turn"') == 2
    assert "Call 1." in page
    assert 'id="turn-2"' in page
    place = escape(shell_quote.join(["--store", str(store.root)]))
    for command in (f"acp-proxy show s {place}", f"acp-proxy continue s --with AGENT {place}"):
        assert f"<code>{command}</code> <button" in page


def test_the_commands_of_a_page_name_the_agent_of_an_id_that_several_have(store: WholeStore, browser: Browser) -> None:
    store_session(store, "s", ("Mend it", [chunk("Done")]), agent="codex")
    store_session(store, "s", ("Another", [chunk("Done")]), agent="gemini")
    page, options = (
        browser.read(browser.find_session("Mend it")),
        escape(shell_quote.join(["--agent", "codex", "--store", str(store.root)])),
    )
    for command in (f"acp-proxy show s {options}", f"acp-proxy continue s --with AGENT {options}"):
        assert f"<code>{command}</code> <button" in page


def test_a_long_conversation_comes_in_parts_without_a_gap(store: WholeStore, browser: Browser) -> None:
    store_session(store, "s", ("Long", [numbered_call(number) for number in range(450)]), ("Next", [chunk("the end")]))
    place = browser.find_session("Long")
    pages = follow(browser, place)
    found = [number for page in pages for number in re.findall(r"Call (\d+)\.", page)]
    assert found == [str(number) for number in range(450)]
    assert len(pages) == 3
    assert "Turn 1, continued" in pages[1]
    assert "the end" in pages[-1]
    assert browser.read(f"{place}?turn=1&piece=1") == pages[1]  # without the reading that waited for it
    last = browser.read(f"{place}?turn=2")
    assert "the end" in last
    assert "Call 449." not in last
    for path in ("?turn=3", "?turn=2&piece=1", "?before=0", "?before=1", "?before=4"):
        browser.read(f"{place}{path}", 404)


def test_a_long_conversation_is_read_back_from_its_end(store: WholeStore, browser: Browser) -> None:
    turns = [(f"Turn {number}", [numbered_call(number * 100 + each) for each in range(90)]) for number in range(6)]
    store_session(store, "s", ("Long", [numbered_call(1000 + number) for number in range(450)]), *turns)
    place = browser.find_session("Long")
    pages = [browser.read(f"{place}?before=end")]
    assert 'class="more"' not in pages[0]
    while found := re.search(r'<a class="earlier" href="([^"]*)"', pages[-1]):
        pages.append(browser.read(unescape(found[1])))
    found_calls = [int(number) for page in reversed(pages) for number in re.findall(r"Call (\d+)\.", page)]
    expected = [*range(1000, 1450), *(number * 100 + each for number in range(6) for each in range(90))]
    assert found_calls == expected
    assert len(pages) == 4


def test_the_next_part_is_of_the_file_that_is_there_now(store: WholeStore, browser: Browser) -> None:
    path = store_session(store, "s", ("Long", [numbered_call(number) for number in range(450)]))
    place = browser.find_session("Long")
    browser.read(place)
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes().replace(b"Call 300.", b"Masked 30"))
    copy.replace(path)
    assert "Masked 30" in browser.read(f"{place}?turn=1&piece=1")


def test_contents_name_the_turns_and_lead_to_them(store: WholeStore, browser: Browser) -> None:
    store_session(store, "s", ("# One\n\nmore", [chunk("x")]), ("Two <b>", [chunk("y")]))
    place = browser.find_session("One")
    contents = browser.read(f"{place}/contents")
    assert re.findall(r'href="[^"]*(\?turn=\d#turn-\d)"><span>\d</span><bdi>(.*?)</bdi>', contents) == [
        ("?turn=1#turn-1", "One"),
        ("?turn=2#turn-2", "Two &lt;b&gt;"),
    ]


def test_the_changed_files_have_a_page(store: WholeStore, browser: Browser) -> None:
    diff = {"type": "diff", "path": "/project/a.py", "oldText": "old\n", "newText": "new\n"}
    edit = {**numbered_call(1), "kind": "edit", "content": [diff]}
    store_session(store, "one", ("Edit", [edit]), at=EPOCH)
    store_session(store, "two", ("Talk", [chunk("x")]), at=EPOCH + 1)
    assert "a.py" in browser.read(f"{browser.find_session('Edit')}/files")
    assert "changed no file" in browser.read(f"{browser.find_session('Talk')}/files")


def test_a_tab_of_the_browser_tells_the_page_and_whose_it_is(store: WholeStore, browser: Browser) -> None:
    store_session(store, "s", ("Mend **it**", [chunk("x")]))
    for path, title in (("", "Sessions"), ("search?q=it", "it - Search"), (browser.find_session("Mend it"), "Mend it")):
        assert f"<title>{title} · acp-proxy</title>" in browser.read(path)


def test_the_bar_marks_the_page_that_is_shown(store: WholeStore, browser: Browser) -> None:
    store_session(store, "s", ("Mend it", [chunk("x")]))
    marked = re.compile(r'<a href="([^"]*)" aria-current="page">(\w+)</a>')
    assert marked.findall(browser.read()) == [(browser.root, "Sessions")]
    assert marked.findall(browser.read("stats")) == [(f"{browser.root}stats", "Statistics")]
    for path in ("?agent=agent", browser.find_session("Mend it")):
        assert marked.findall(browser.read(path)) == []


def test_what_is_not_there_leads_back(browser: Browser) -> None:
    assert "There is no such session" in browser.read("session/agent/s", 404)
    for path in ("nope", "session", "stats/x"):
        page = browser.read(path, 404)
        assert "There is no such page." in page
        assert f'<a href="{browser.root}">All sessions</a>' in page
    secret = browser.client.cookies["acp-proxy-web"]
    answer = browser.client.get("/nope", headers={"cookie": f"acp-proxy-web={secret}"})
    assert (answer.status_code, browser.root in answer.text) == (404, True)


def test_a_session_that_grows_has_another_size(store: WholeStore, browser: Browser) -> None:
    path = store_session(store, "s", ("Mend it", [chunk("x")]))
    place = browser.find_session("Mend it")
    page, before = browser.read(place), browser.client.get(f"{place}/state").json()
    assert f'data-size="{before["size"]}"' in page
    with path.open("ab") as file:
        file.write(path.read_bytes().splitlines(keepends=True)[-1])
    assert browser.client.get(f"{place}/state").json()["size"] > before["size"]


def test_the_search_marks_the_words_and_leads_to_the_turn(store: WholeStore, browser: Browser) -> None:
    store_session(store, "s", ("Mend it", [chunk("a b")]), ("Now <i>login</i> & more", [chunk("y")]))
    page = browser.read("search?q=login")
    assert "&lt;i&gt;<mark>login</mark>&lt;/i&gt; &amp; more" in page
    assert "?turn=2#turn-2" in page
    store_session(store, "marked", ("Mend **the `log out` page** now", [chunk("b")]))
    assert "Mend the <mark>log out</mark> page now" in browser.read('search?q="log out"')
    assert browser.list_titles("search?q=nowhere") == []
    begun = browser.read("search?q=logi")
    assert "No &#x27;logi&#x27;; these begin with it: 1 session<" in begun
    assert "<mark>login</mark>" in begun
    assert "Give words" in browser.read("search?q=%22%3C%3E")
    assert "Give words" in browser.read("search")
    assert browser.list_titles("search?q=%22mend+it%22") == ["Mend it"]


def test_a_search_without_a_match_finds_what_comes_near_and_says_what_may_be_meant(
    store: WholeStore, browser: Browser
) -> None:
    store_session(store, "db4d3d03", ("Rename UserStore", [chunk("a")]), ("Also update the README", [chunk("b")]))
    apart = browser.read("search?q=UserStore+README")
    assert "these sessions have them in different turns: 1 session<" in apart
    assert apart.count("<mark>UserStore</mark>") == apart.count("<mark>README</mark>") == 1
    near = browser.read("search?q=raedme&in=user")
    assert f'Did you mean: <a href="{browser.root}search?q=readme&amp;in=user"><bdi>readme</bdi></a>' in near
    assert "Nothing matches, nor in what tools printed. Try another part.<" in near
    several = browser.read("search?q=zebra+OR+horse")
    assert "Try fewer words, or another part. OR is searched as a word: there are no operators.<" in several
    by_id = browser.read("search?q=db4d3d03")
    assert f'This is the id of: <a href="{browser.find_session("Rename UserStore")}">' in by_id


def test_the_search_looks_into_one_part_of_the_turns(store: WholeStore, browser: Browser) -> None:
    printed = {
        **numbered_call(1),
        "title": "Run make",
        "rawInput": {"command": "make"},
        "rawOutput": {"stdout": "no rule <b>"},
    }
    store_session(store, "s", ("Mend it", [chunk("I ran it"), printed]))
    [row] = store.list_all()
    store.set_listed_archived(row, True)
    nothing = browser.read("search?q=rule")
    assert TITLE.findall(nothing) == []
    assert f'<a href="{browser.root}search?q=rule&amp;in=output">A tool printed it</a>' in nothing
    assert "Nothing matches. Try another part.<" in browser.read("search?q=nowhere&in=output")
    nowhere = browser.read("search?q=zzzqq")
    assert "Nothing matches, nor in what tools printed. Try another part.<" in nowhere
    assert 'in=output">Search what' not in nowhere
    page = browser.read("search?q=rule&in=output")
    assert "no <mark>rule</mark> &lt;b&gt;" in page
    assert '<input type="hidden" name="in" value="output">' in page
    assert "<span>archived</span></p>" in page
    links = re.findall(r'<a href="([^"]*)"( aria-current="page")?>([^<]*)</a>', page.partition('class="parts"')[2])[:5]
    assert [name for _, current, name in links if current] == ["What tools printed"]
    assert [bool(browser.list_titles(unescape(place))) for place, *_ in links] == [False, False, False, False, True]
    assert browser.list_titles("search?q=mend&in=user") == ["Mend it"]
    assert browser.list_titles("search?q=mend&in=agent") == []
    assert browser.list_titles("search?q=mend&in=%22%3Cb%3E") == ["Mend it"]


def test_the_search_can_be_narrowed_to_an_agent_and_a_directory(store: WholeStore, browser: Browser) -> None:
    store_session(store, "one", ("word One", []), agent="a", cwd="/project & more", at=EPOCH)
    store_session(store, "two", ("word Two", []), agent="b", cwd="/project & more", at=EPOCH + 1)
    store_session(store, "three", ("word Three", []), agent="b", cwd="/other", at=EPOCH + 2)
    page = browser.read("search?q=word&in=user")
    link_to = re.compile(r'<span><a href="([^"]*/search[^"]*)"')
    links = dict.fromkeys(map(unescape, link_to.findall(page)))
    found = [browser.list_titles(link) for link in links]
    assert found == [["word Three", "word Two"], ["word Three"], ["word Two", "word One"], ["word One"]]
    [of_project] = [link for link in links if "more" in link]
    narrowed = browser.read(of_project)
    assert "Only: <bdi>/project &amp; more</bdi>." in narrowed
    assert '<input type="hidden" name="cwd" value="/project &amp; more">' in narrowed
    assert '<input type="hidden" name="in" value="user">' in narrowed
    both = map(unescape, link_to.findall(narrowed))
    assert sorted(len(browser.list_titles(link)) for link in both) == [1, 1, 2, 2]
    [back] = re.findall(r'<a href="([^"]*)">All of them', narrowed)
    assert len(browser.list_titles(unescape(back))) == 3
    assert browser.list_titles("search?q=word&agent=nobody") == []
    of_list = browser.read(re.findall(r'<a href="([^"]*agent=[^"]*)"', browser.read())[0])
    assert '<input type="hidden" name="agent" value="' in of_list


def test_the_search_can_be_narrowed_to_a_time(store: WholeStore, browser: Browser) -> None:
    for day in (1, 2, 3):
        at = datetime(2026, 11, day, 12).timestamp()
        store_session(store, f"s{day}", (f"word of day {day}", []), cwd="/project", at=at)
    assert browser.list_titles("search?q=word&since=2026-11-02") == ["word of day 3", "word of day 2"]
    assert browser.list_titles("search?q=word&since=2026-11-02&until=2026-11-02") == ["word of day 2"]
    page = browser.read("search?q=word&until=2026-11-01&in=user")
    assert "Only: <bdi>until 2026-11-01</bdi>." in page
    for limit in ("since=2026-12-01", "until=2026-10-31", "agent=nope", "cwd=%2Felsewhere&in=user"):
        nothing = browser.read(f"search?q=wor&{limit}")
        assert "Nothing matches with these limits. Without them, something does.<" in nothing
    assert "Try another part" in browser.read("search?q=nowhere&since=2026-11-01")
    [form] = re.findall(r'<form class="times".*?</form>', page)
    assert re.findall(r'name="([^"]*)" value="([^"]*)"', form) == [
        ("q", "word"),
        ("in", "user"),
        ("since", ""),
        ("until", "2026-11-01"),
    ]
    assert page.count('<input type="hidden" name="until" value="2026-11-01">') == 1
    assert "q=word&amp;in=user&amp;cwd=%2Fproject&amp;until=2026-11-01" in page
    [everything] = re.findall(r'<a href="([^"]*)">All of them', page)
    assert len(browser.list_titles(unescape(everything))) == 3
    wrong = browser.read("search?q=word&since=%3Cb%3E")
    assert "since takes a number and s, m, h, d or w" in wrong
    assert '<input name="since" value="&lt;b&gt;"' in wrong
    assert TITLE.findall(wrong) == []
    backwards = browser.read("search?q=word&since=2026-11-02&until=2026-11-01")
    assert "until is before since, so nothing can match." in backwards


def test_more_results_are_a_click_away(store: WholeStore, browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "_HITS", 2)
    monkeypatch.setattr(site, "_MOST_HITS", 8)
    for number in range(9):
        store_session(store, f"s{number}", (f"word {number}", []), at=EPOCH + number)
    pages = follow(browser, "search?q=word")
    assert [page.count("<li ") for page in pages] == [2, 4, 8]
    assert "2 sessions, and there are more" in pages[0]


def test_a_long_search_shows_what_it_has_and_goes_on(
    store: WholeStore, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "_SEARCH_SECONDS", 0)
    monkeypatch.setattr(site, "time", SimpleNamespace(monotonic=itertools.count().__next__))
    for number in range(120):
        store_session(store, f"s{number}", (f"word {number}", []), at=EPOCH + number)
    pages = follow(browser, "search?q=word&most=100")  # batches of 16, 32, 64, and the rest
    assert [re.findall(r"([\d,]+) still to be searched", page) for page in pages] == [["8"], [], []]
    found = [[unescape(title) for _, title in TITLE.findall(page)] for page in pages]
    assert found[0] == [f"word {number}" for number in range(119, 71, -1)]
    assert [len(each) for each in found] == [48, 100, 120]


def test_a_store_that_keeps_nothing_is_searched_at_once(
    store: WholeStore, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "_SEARCH_SECONDS", 0)
    for number in range(120):
        store_session(store, f"s{number}", (f"word {number}", []), at=EPOCH + number)
    monkeypatch.setattr(store_root, "find_refusal", lambda root: StoreRefused("read-only"))
    assert browser.list_titles('search?q="word 3"') == ["word 3"]


def test_the_statistics_show_turns_by_month_agent_and_project(store: WholeStore, browser: Browser) -> None:
    store_session(store, "one", ("One", []), ("Two", []), agent="mine", cwd="/project")
    page = browser.read("stats")
    for text in ("2023-11", "mine", "/project", "<svg", "Turns"):
        assert text in page
    assert page.count('<th scope="row">') == 3
    assert "cost" not in page  # nobody says what it cost
    assert "Counted only in size" not in page
    store_session(store, "silent", agent="mine")
    assert "<p>Counted only in size: 1 session without" in browser.read("stats")


@pytest.mark.parametrize(
    "path",
    [
        "session/agent/../../../etc/passwd",
        "session/..%2f..%2f/..%2f..%2fetc%2fpasswd",
        "session/%2e%2e/%2e%2e",
        "session/agent/s%00",
        "session/agent/",
        "session//s",
        "session/agent/s",
        "session/AGENT/NAME%2f..%2fNAME",
        "session/AGENT/NAME.jsonl",
        "session/AGENT/%2e%2fNAME",
        "session/OTHER/NAME",
        "session/AGENT/NAM",
        "web.css/../site.py",
        "site.py",
        "../web.css",
        "session/AGENT/NAME/transcript",
        "session/AGENT/NAME/state/x",
        "%ff%fe",
    ],
)
def test_only_what_the_index_has_is_found(store: WholeStore, browser: Browser, path: str) -> None:
    store_session(store, "s", ("Mend it", [chunk("x")]), agent="one")
    store_session(store, "t", ("Other", [chunk("x")]), agent="two")
    rows = {row.session_id: row for row in store.list_all()}
    names = {"AGENT": rows["s"].agent_folder, "NAME": rows["s"].name, "OTHER": rows["t"].agent_folder}
    for word, name in names.items():
        path = path.replace(word, name)
    if path.endswith("NAM"):
        path = f"session/{rows['s'].agent_folder}/{rows['s'].name[:-1]}"
    answer = browser.client.get(f"{browser.root}{path}")
    assert answer.status_code in (403, 404)
    assert "Mend it" not in answer.text


@pytest.mark.parametrize(
    "query", ["before=%00", "before=%ff&skip=-1", "skip=99999999999999999999", "skip=x&cwd=%00", "agent=%27%22%3C"]
)
def test_odd_queries_give_a_page(store: WholeStore, browser: Browser, query: str) -> None:
    store_session(store, "s", ("Mend it", [chunk("x")]))
    browser.read(f"?{query}")
    browser.read(f"state?{query}")
    browser.read(f"{browser.find_session('Mend it')}?piece=x&turn=-1")
    browser.read(f"{browser.find_session('Mend it')}?{query}", 404 if "before" in query else 200)


@pytest.mark.parametrize("evil", EVIL)
def test_hostile_words_are_text_everywhere(store: WholeStore, browser: Browser, evil: str) -> None:
    words = evil.replace("\ud800", "")
    store_session(store, "s", (f"{words} word", [chunk(f"{words} word")]), cwd=f"/{words}".replace("\x00", ""))
    [row] = store.list_all()
    store.set_listed_title(row, f"{words} word")
    place = TITLE.findall(browser.read())[0][0]
    paths = ["", "search?q=word", f"search?q={quote(evil, errors='replace')}", "stats", place]
    paths += [f"{place}/contents", f"{place}/files", f"?cwd={quote(row.cwd or '')}"]
    for path in paths:
        page = browser.read(path)
        assert re.findall(r"<script[^>]*>", page) == [f'<script src="{browser.root}web.js" defer>']
        assert not re.search(r"<[^>]* (on\w+|style|srcdoc)=", re.sub(r'"[^"]*"', '""', page))
        tags = set(re.findall(r"<([a-z][a-z0-9]*)", page))
        assert not tags & {"iframe", "object", "embed", "base", "img"}
        links = re.findall(r'(?:href|src|action)="([^"]*)"', page)
        assert all(link.startswith(("/", "#", "data:,", "https://example.org")) for link in links), links


def test_a_store_that_cannot_be_read_is_explained(
    store: WholeStore, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: object, **more: object) -> None:
        raise PermissionError(13, "Permission denied", "/secret/place")

    monkeypatch.setattr(CommandStore, "list_newest", fail)
    page = browser.read("", 503)
    assert "Permission denied. Run: acp-proxy doctor" in page
    assert "/secret" not in page
