"""``acp-proxy web`` as users run it: the real server, in a real browser, on a desktop and a phone; and under attack.

Chromium is driven by Playwright; where there is none, its tests are skipped.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Dialog, Page, Request, Response, expect

from acp_proxy.protocol import timestamps
from acp_proxy.protocol.jsonrpc import Peer
from acp_proxy.relay import pipes
from acp_proxy.tools.web.access import COOKIE
from tests.end_to_end.browser_page import FAINT, OUTSIDE, SCREENS, SMALL, UNFOLD, find_violations
from tests.end_to_end.served_pages import COMMAND, ServedPages, serve
from tests.posix import pty
from tests.stored import EPOCH, WholeStore, chunk, message, numbered_call, store_session
from tests.views.turns import EVIL

LONG = "a_very_long_word_without_any_space_" * 12


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> WholeStore:
    store = WholeStore(tmp_path_factory.mktemp("web") / "store")
    for number in range(120):
        store_session(store, f"s{number}", (f"Title {number}", [chunk("x")]), at=EPOCH + number)
    diff = {"type": "diff", "path": "/project/a.py", "oldText": "old\n", "newText": "new\n"}
    edit = {**numbered_call(1), "kind": "edit", "content": [diff]}
    said = chunk(f"# A heading\n\n```py\nx = 1\n```\n\n`{LONG}`")
    store_session(store, "rich", ("Rich **words**", [said, edit]), ("Again", [chunk(LONG)]), at=EPOCH + 200)
    store_session(
        store, "long", ("Long", [numbered_call(n) for n in range(900)]), ("Last", [chunk("the end")]), at=EPOCH + 199
    )
    store_session(store, "evil", *((evil.replace("\ud800", ""), [chunk(evil)]) for evil in EVIL), at=EPOCH + 198)
    rows = {row.session_id: row for row in store.list_all()}
    store.set_listed_title(rows["evil"], "".join(EVIL).replace("\ud800", "").replace("\x00", ""))
    return store


@pytest.fixture(scope="module")
def served(store: WholeStore) -> Iterator[ServedPages]:
    with serve(store.root) as pages:
        pages.redeem()
        yield pages


class Seen:
    """A page with the cookie, and what it logged, asked of others, or failed at."""

    def __init__(self, browser: Browser, served: ServedPages, scripts: bool) -> None:
        context = browser.new_context(java_script_enabled=scripts)
        path = f"/{served.root.split('/', 3)[3]}"
        cookie = {"domain": "127.0.0.1", "path": path, "httpOnly": True, "sameSite": "Strict"}
        context.add_cookies([{"name": COOKIE, "value": served.secret, **cookie}])  # type: ignore[typeddict-item]
        self.page = context.new_page()
        self.wrong: list[str] = []
        self.page.on("console", lambda each: self.wrong.append(f"console: {each.text}"))
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("dialog", self._dismiss)
        self.page.on("popup", lambda popup: self.wrong.append(f"popup: {popup.url}"))
        self.page.on("request", self._check)
        self._root = served.root

    def _dismiss(self, dialog: Dialog) -> None:
        self.wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _check(self, request: Request) -> None:
        if not request.url.startswith(self._root):
            self.wrong.append(f"request: {request.url}")


@pytest.fixture(scope="module")
def pages(browser: Browser, served: ServedPages) -> Iterator[object]:
    yield cache(lambda scripts: Seen(browser, served, scripts))
    for context in browser.contexts:
        context.close()


@pytest.fixture
def seen(pages: object) -> Seen:
    found: Seen = pages(True)  # type: ignore[operator]
    found.page.set_viewport_size({"width": 1280, "height": 720})
    found.wrong.clear()
    return found


def open_session(page: Page, served: ServedPages, title: str) -> None:
    page.goto(served.root)
    page.get_by_role("link", name=title, exact=True).click()
    page.wait_for_url("**/session/**")


def test_the_link_opens_the_list_and_leaves_no_token_in_the_address(browser: Browser, store: WholeStore) -> None:
    with serve(store.root) as other:
        context = browser.new_context()
        page = context.new_page()
        page.goto(other.link)
        assert "token" not in page.url
        assert page.get_by_role("heading", level=1).inner_text() == "Sessions"
        assert page.evaluate("document.cookie") == ""
        page.get_by_role("link", name="Statistics").click()
        assert page.get_by_role("heading", level=1).inner_text() == "Statistics"
        answer = page.goto(other.link)
        assert answer is not None
        assert answer.status == 403
        context.close()


def test_the_link_opens_the_session_that_is_named(browser: Browser, store: WholeStore) -> None:
    with serve(store.root, "Long") as other:
        context = browser.new_context()
        page = context.new_page()
        page.goto(other.link)
        assert page.get_by_role("heading", level=1).inner_text() == "Long"
        page.get_by_role("link", name="Sessions").click()
        assert page.get_by_role("heading", level=1).inner_text() == "Sessions"
        context.close()


@pytest.mark.parametrize(("name", "told"), [("nothing", "no session matches"), ("8080", "For a port: --port 8080")])
def test_a_session_that_is_not_there_is_an_error(store: WholeStore, name: str, told: str) -> None:
    ended = subprocess.run([*COMMAND, "--store", str(store.root), name], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, told in ended.stderr) == (1, "", True)


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
@pytest.mark.parametrize(
    "name", ["", "?archived=1", "search?q=words&in=tools", "stats", "session", "contents", "files", "nowhere"]
)
def test_every_page_is_legible_and_fits_the_screen(
    seen: Seen, served: ServedPages, name: str, width: int, scheme: str
) -> None:
    page = seen.page
    page.set_viewport_size({"width": width, "height": 844})
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    if name in ("session", "contents", "files"):
        open_session(page, served, "Rich words")
        page.locator(".contents ol").wait_for()
        page.evaluate(UNFOLD)
        if name != "session":
            page.goto(f"{page.url}/{name}")
    else:
        page.goto(f"{served.root}{name}")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate(OUTSIDE) == []
    assert page.evaluate(SMALL) == []
    assert page.evaluate(FAINT) == []
    assert [told for told in seen.wrong if "404" not in told] == []
    assert find_violations(page) == []


def test_the_list_goes_on_as_one_scrolls(seen: Seen, served: ServedPages) -> None:
    page = seen.page
    page.goto(served.root)
    page.get_by_text("Title 30", exact=True).wait_for()
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    page.get_by_text("Title 0", exact=True).wait_for()
    titles = page.locator(".sessions li > a").all_inner_texts()
    assert len(titles) == len(set(titles)) == 123
    assert page.locator(".day").count() == 1
    assert seen.wrong == []


def test_whoever_comes_back_finds_the_place(seen: Seen, served: ServedPages) -> None:
    page = seen.page
    page.goto(served.root)
    page.get_by_text("Title 30", exact=True).wait_for()  # else the end of the list may still move away
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    page.get_by_text("Title 3", exact=True).click()
    page.wait_for_url("**/session/**")
    page.go_back()
    expect(page.get_by_text("Title 3", exact=True)).to_be_in_viewport()
    assert page.evaluate("scrollY") > 1000
    titles = page.locator(".sessions li > a").all_inner_texts()
    assert len(titles) == len(set(titles)) == 123
    assert seen.wrong == []


def test_a_long_conversation_goes_on_to_its_end(seen: Seen, served: ServedPages) -> None:
    page = seen.page
    open_session(page, served, "Long")
    for number in (150, 350, 550, 750):
        page.get_by_text(f"Call {number}.").wait_for(state="attached")
        page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    page.get_by_text("the end").wait_for()
    assert page.locator(".call").count() == 900
    assert page.locator(".more").count() == 0
    page.locator(".contents a", has_text="Last").click()
    page.wait_for_url("**#turn-2")
    assert seen.wrong == []


def test_the_end_of_a_long_conversation_is_a_key_away_and_leads_back_to_its_beginning(
    seen: Seen, served: ServedPages
) -> None:
    page = seen.page
    open_session(page, served, "Long")
    page.keyboard.press("End")
    page.wait_for_url("**?before=end#end")
    assert page.get_by_text("the end").is_visible()
    assert page.locator(".more").count() == 0
    while (link := page.locator(".earlier")).count():
        address, top = (
            link.get_attribute("href"),
            "document.querySelector('main > section').getBoundingClientRect().top",
        )
        page.evaluate("scrollTo(0, 400)")
        before = page.evaluate(f"window.first = document.querySelector('main > section'), {top}")
        page.locator(f".earlier:not([href='{address}']), main:not(:has(.earlier))").first.wait_for()
        page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert abs(page.evaluate("window.first.getBoundingClientRect().top") - before) < 2
    assert page.locator(".call").count() == 900
    page.keyboard.press("Home")
    assert "before=end" in page.url
    open_session(page, served, "Long")
    page.locator(".contents a", has_text="Last").click()
    page.wait_for_url("**?turn=2#turn-2")
    page.keyboard.press("Home")
    page.wait_for_url(re.compile(r"/session/[^?]*$"))
    assert seen.wrong == []


def test_a_result_of_the_search_opens_at_its_turn(seen: Seen, served: ServedPages) -> None:
    page = seen.page
    page.goto(served.root)
    page.keyboard.press("/")
    page.keyboard.type("Last end")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?q=Last+end")
    assert page.locator("mark").all_inner_texts() == ["Last", "end"]
    page.get_by_role("link", name="Long", exact=True).click()
    page.wait_for_url("**?turn=2#turn-2")
    box = page.locator("#turn-2").bounding_box()
    assert box is not None
    assert 0 <= box["y"] < 720
    assert seen.wrong == []


def test_the_search_goes_on_as_one_scrolls(seen: Seen, served: ServedPages) -> None:
    page = seen.page
    page.goto(f"{served.root}search?q=title")
    page.get_by_text("50 sessions, and there are more").wait_for()
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    page.get_by_text("100 sessions").wait_for()
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    page.locator("main:not(:has(.more))").wait_for()
    titles = page.locator(".sessions li > a").all_inner_texts()
    assert titles[1:] == [f"Title {number}" for number in range(119, -1, -1)]  # the first is the hostile one
    assert page.locator("main > ul").count() == 1
    assert page.locator("#news").inner_text() == "121 sessions"
    assert seen.wrong == []


def test_the_arrows_go_from_session_to_session(seen: Seen, served: ServedPages) -> None:
    page = seen.page
    page.goto(served.root)
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.textContent") == "Rich words"
    margin = "one => getComputedStyle(one.closest('section')).overflowClipMargin"
    assert page.locator(":focus").evaluate(margin) == "5px"  # else the section would cut off the outline
    page.keyboard.press("/")
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp"):
        page.keyboard.press(key)
    assert page.evaluate("document.activeElement.textContent") == "Long"


def test_n_goes_from_turn_to_turn(seen: Seen, served: ServedPages) -> None:
    page = seen.page
    page.set_viewport_size({"width": 1280, "height": 300})
    open_session(page, served, "Rich words")
    find_turn = """() => [...document.querySelectorAll('.turn')].find(
        one => Math.abs(one.getBoundingClientRect().top - 60) < 10)?.id"""
    for key, turn in (("n", "turn-1"), ("n", "turn-2"), ("n", "turn-2"), ("Shift+N", "turn-1")):
        page.keyboard.press(key)
        assert page.evaluate(find_turn) == turn
    page.keyboard.press("/")
    page.keyboard.type("n")
    assert page.get_by_role("searchbox").input_value() == "n"
    assert seen.wrong == []


def test_it_works_without_scripts(pages: object, served: ServedPages) -> None:
    page = pages(False).page  # type: ignore[operator]
    page.goto(served.root)
    page.get_by_role("link", name="Older sessions").click()
    page.get_by_role("link", name="Title 0", exact=True).wait_for()
    page.get_by_role("searchbox").fill("Last end")
    page.get_by_role("searchbox").press("Enter")
    page.get_by_role("link", name="Long", exact=True).click()
    page.get_by_text("the end").wait_for()
    page.get_by_role("link", name="Earlier").click()
    page.get_by_role("link", name="Show the turns").click()
    page.get_by_role("link", name="Last").wait_for()


def test_lists_and_conversations_grow_as_sessions_do(browser: Browser, tmp_path: Path) -> None:
    store = WholeStore(tmp_path / "store")
    store_session(store, "one", ("First", [chunk("begun"), numbered_call(1)]))
    with serve(store.root) as other:
        other.redeem()
        seen = Seen(browser, other, True)
        page = seen.page
        page.goto(other.root)
        path = store_session(store, "two", ("Second", [chunk("begun"), {**numbered_call(1), "rawOutput": "output"}]))
        page.get_by_role("link", name="Second").wait_for()
        page.get_by_role("link", name="Second").click()
        page.locator("summary", has_text="Call 1.").click()
        params = {"sessionId": "two", "update": chunk("and grown")}
        line = message(timestamps.format_now(EPOCH), Peer.AGENT, {"method": "session/update", "params": params})
        with path.open("ab") as file:
            file.write(line)
        page.get_by_text("and grown").wait_for()
        assert page.get_by_text("output", exact=True).is_visible()  # what the reader opened stays open
        [row] = [row for row in store.list_all() if row.session_id == "two"]
        store.delete_listed(row, soft=False)
        page.get_by_text("it was deleted").wait_for()
        assert [told for told in seen.wrong if "404" not in told] == []
        page.context.close()


def test_a_page_says_that_its_server_has_ended(browser: Browser, tmp_path: Path) -> None:
    store = WholeStore(tmp_path / "store")
    store_session(store, "one", ("First", [chunk("begun")]))
    with serve(store.root) as other:
        other.redeem()
        pages = [Seen(browser, other, True).page for _ in range(2)]
        pages[0].goto(other.root)
        open_session(pages[1], other, "First")
    for page in pages:
        page.get_by_text("acp-proxy web does not answer").wait_for()
        page.context.close()


EVENTS = """() => {
    for (const one of document.querySelectorAll('body *'))
        for (const name of ['mouseover', 'focus', 'error', 'load', 'toggle']) one.dispatchEvent(new Event(name));
}"""


def test_hostile_sessions_run_no_script(seen: Seen, served: ServedPages) -> None:
    page = seen.page
    page.goto(served.root)
    place = page.locator(".sessions li > a").nth(2).get_attribute("href")
    for address in (served.root, f"{served.root}search?q=script", f"{served.origin}{place}"):
        page.goto(address)
        page.evaluate(UNFOLD)
        page.evaluate(EVENTS)
        page.wait_for_load_state("networkidle")
        assert page.title() != "ran"
        assert page.locator("script").count() == 1
    assert seen.wrong == []


ATTACKS = """async root => {
    const told = [];
    const asked = {no_cors: {mode: 'no-cors', credentials: 'include'}, cors: {credentials: 'include'},
        post: {method: 'POST', mode: 'no-cors', credentials: 'include', body: 'x'}};
    for (const [name, how] of Object.entries(asked)) {
        try {
            const got = await fetch(root, how);
            told.push([name, got.type, await got.text()]);
        } catch { told.push([name]) }
    }
    const load = (tag, more) => new Promise(done => {
        const one = Object.assign(document.createElement(tag), more);
        one.onload = () => done([tag, 'loaded', one.contentDocument ? 'readable' : '']);
        one.onerror = () => done([tag]);
        document.body.append(one);
    });
    for (const more of [['img', {src: root}], ['script', {src: root + 'web.js'}], ['iframe', {src: root}],
        ['link', {rel: 'stylesheet', href: root + 'web.css'}]]) told.push(await load(...more));
    const opened = window.open(root);
    let frames = 'none';
    try { frames = opened.document.body.textContent } catch { frames = 'blocked' }
    told.push(['open', frames]);
    return told;
}"""


class _Evil(BaseHTTPRequestHandler):
    """Another server of this machine: a page, and what was sent to it."""

    cookies: list[str] = []  # noqa: RUF012

    def do_GET(self) -> None:
        self.cookies.append(self.headers.get("cookie", ""))
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!DOCTYPE html><title>evil</title><body></body>")

    def log_message(self, *given: object) -> None:
        pass


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_page_of_another_server_reads_nothing_even_if_the_user_has_the_cookie(
    browser: Browser, served: ServedPages, host: str
) -> None:
    """Cookies do not tell ports apart, and 127.0.0.1 with another port is the same site: the checks must."""
    seen = Seen(browser, served, True)
    statuses: list[int] = []

    def note(answer: Response) -> None:
        if answer.url.startswith(served.root):
            statuses.append(answer.status)

    seen.page.context.on("response", note)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Evil) as evil:
        threading.Thread(target=evil.serve_forever, daemon=True).start()
        _Evil.cookies.clear()
        seen.page.goto(f"http://{host}:{evil.server_port}/")
        told = seen.page.evaluate(ATTACKS, served.root)
        evil.shutdown()
    assert not [each for each in told if "Sessions" in str(each) or "readable" in each]
    assert ["script"] in told
    assert ["cors"] in told
    assert set(statuses) <= {403, 405}
    assert not any(COOKIE in cookie for cookie in _Evil.cookies)
    seen.page.context.close()


def test_the_server_refuses_others_and_takes_only_get(served: ServedPages) -> None:
    """What counts as another one, tests/tools/web/test_access.py has; here, that nothing passes it by."""
    path, cookie = served.root.removeprefix(served.origin), {"cookie": f"{COOKIE}={served.secret}"}
    refused = [("GET", {}, 403), ("GET", cookie | {"host": "evil.example"}, 403), ("POST", cookie, 405)]
    for place in (path, f"{path}stats", f"{path}session/a/b", "/nowhere"):
        for method, headers, status in refused:
            answer = served.ask(place, method, headers)
            assert (answer.status, b"Title" in answer.body) == (status, False)
    assert served.ask(path, headers=cookie).status == 200


def test_the_server_survives_what_is_no_request(served: ServedPages) -> None:
    for sent in (
        b"\x00" * 4096 + b"\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET " + b"/" * 200_000,
        b"\x16\x03\x01" * 99,
    ):
        with socket.create_connection(("127.0.0.1", served.port), timeout=60) as connection, suppress(OSError):
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            assert b" 200 " not in connection.recv(4096)
    path = served.root.removeprefix(served.origin)
    assert served.ask(path, headers={"cookie": f"{COOKIE}={served.secret}"}).status == 200


@pytest.mark.parametrize(
    "sent",
    [
        "GET http://evil.example{path} HTTP/1.1\r\nHost: {host}\r\n{cookie}\r\n",
        "GET {path} HTTP/1.0\r\n{cookie}\r\n",
        "GET {path} HTTP/1.1\r\nHost: {host}\r\n .evil.example\r\n{cookie}\r\n",
        "GET {path} HTTP/1.1\r\nHost : {host}\r\n{cookie}\r\n",
        "GET {path} HTTP/1.1\r\nHost: {host}\r\n{cookie}Content-Length: 0\r\nContent-Length: 5\r\n\r\n",
        "GET {path} HTTP/1.1\r\nHost: {host}\r\n{cookie}Transfer-Encoding: xchunked\r\n\r\n",
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: other={secret}\r\n\r\n",
        "GET /.{path} HTTP/1.1\r\nHost: {host}\r\n{cookie}\r\n",
        "GET /{path} HTTP/1.1\r\nHost: {host}\r\n{cookie}\r\n",
        # what follows a refused request is its body, and no request of its own
        (
            "POST /x HTTP/1.1\r\nHost: {host}\r\nContent-Length: 500\r\n\r\n"
            "GET {path} HTTP/1.1\r\nHost: {host}\r\n{cookie}\r\n"
        ),
    ],
)
def test_a_request_that_may_be_read_in_two_ways_gets_no_page(served: ServedPages, sent: str) -> None:
    cookie = f"Cookie: {COOKIE}={served.secret}\r\n"
    host, path = served.origin.removeprefix("http://"), served.root.removeprefix(served.origin)
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as connection:
        connection.sendall(sent.format(host=host, path=path, cookie=cookie, secret=served.secret).encode())
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while data := connection.recv(65536):
            answer += data
    assert re.match(rb"HTTP/1.1 4\d\d ", answer)
    assert b" 200 " not in answer
    assert b"Title" not in answer


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has more loopback addresses")
def test_the_server_listens_on_one_address_alone(served: ServedPages) -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", served.port), timeout=60)


def test_ctrl_c_ends_it_without_a_word(store: WholeStore) -> None:
    words = [*COMMAND, "--store", str(store.root)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        pages = ServedPages(process.stdout.readline().strip())
        pages.redeem()
        pages.ask("/", headers={"connection": "upgrade", "upgrade": "h2c"})
        with socket.create_connection(("127.0.0.1", pages.port), timeout=60) as connection:
            connection.sendall(b"\x00\r\n\r\n")
            assert b" 400 " in connection.recv(4096)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
        assert process.stderr.read() == "Ctrl-C ends it.\n"


def test_on_a_terminal_ctrl_c_leaves_the_prompt_a_line_of_its_own(store: WholeStore) -> None:
    ours, theirs = pty.openpty()
    words = [*COMMAND, "--store", str(store.root)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=theirs, text=True) as process:
        os.close(theirs)
        assert process.stdout is not None
        ServedPages(process.stdout.readline().strip()).redeem()
        shown = os.read(ours, 100)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
        shown += b"".join(iter(lambda: pipes.read(ours, 100), b""))
    os.close(ours)
    assert shown == b"Ctrl-C ends it.\r\n\r\n"


def test_a_port_that_is_taken_is_explained(store: WholeStore) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = [*COMMAND, "--port", str(port), "--store", str(store.root)]
        result = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith(f"acp-proxy: port {port} cannot be used: ")
    assert "leave out --port" in result.stderr


@pytest.mark.parametrize("package", ["starlette", "uvicorn"])
def test_without_the_packages_one_sentence_says_what_to_install(
    store: WholeStore, tmp_path: Path, package: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"import sys\nsys.modules[{package!r}] = None\n")
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    words = [*COMMAND, "--store", str(store.root)]
    result = subprocess.run(words, capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": paths})
    assert (result.returncode, result.stdout) == (1, "")
    assert re.fullmatch(
        r"acp-proxy: web needs .*\[[a-z,]*web[a-z,]*\]'\n", result.stderr.replace("\n", " ").strip() + "\n"
    )
