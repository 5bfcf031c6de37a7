"""An exported page in a real browser: its layout, its legibility, and that no transcript can run a script.

Chromium is driven by Playwright; where there is none, the tests are skipped. axe-core finds what keeps people with
screen readers or keyboards out.
"""

import re
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from acp_proxy.tools.export import html
from acp_proxy.views import document
from acp_proxy.views.conversation import ConversationTurn
from acp_proxy.views.document import Choices, Head
from tests.cli.commands import invoke
from tests.end_to_end.browser_page import FAINT, OUTSIDE, SCHEMES, SCREENS, SMALL, UNFOLD, WIDTHS, Open, find_violations
from tests.views.turns import EVIL, HEAD, call, diff, message, put_everywhere, text, turn

CONVERSATIONS = Path(__file__).parents[2] / "fixtures" / "conversations"
LONG = "a_very_long_word_without_any_space_" * 12


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled conversation, exported by the usual commands."""
    return _exported(CONVERSATIONS / "login.jsonl", tmp_path_factory.mktemp("exported"))


@pytest.fixture(scope="module")
def formatted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A conversation with every form of text, left to right and right to left."""
    return _exported(CONVERSATIONS / "formatted.jsonl", tmp_path_factory.mktemp("formatted"))


def _exported(conversation: Path, folder: Path) -> Path:
    for words in (["import", str(conversation)], ["export", "last", "--output", str(folder / "page.html")]):
        result = invoke(*words, "--store", str(folder / "store"))
        assert result.exit_code == 0, result.output
    return folder / "page.html"


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page on which everything is longer than a line."""
    table = f"|{'|'.join(['column'] * 30)}|\n|{'|'.join(['---'] * 30)}|\n|{'|'.join(['value'] * 30)}|"
    link = f"[{LONG}](https://example.org/{LONG}) `{LONG}`"
    turns = [
        turn(
            message("user", f"{LONG}\n\n{LONG}"),
            message("thought", LONG),
            message("agent", f"# {LONG}\n\n{table}\n\n{link}\n\n- {LONG}\n\n> {LONG}\n\n```\n{LONG}\n```"),
            call(LONG, diff(LONG, LONG, f"{LONG}x"), kind="edit", locations=[{"path": LONG}]),
            call(f"cat {LONG}", text(LONG), status="failed", rawInput={"command": LONG}),
            error=LONG,
            number=number,
        )
        for number in range(1, 4)
    ]
    head = Head(LONG, {"name": LONG, "version": LONG}, LONG, f"/{LONG}", HEAD.created, HEAD.updated, "recorded")
    return write_page(tmp_path_factory.mktemp("wide") / "page.html", head, turns)


def write_page(path: Path, head: Head, turns: list[ConversationTurn]) -> Path:
    contents = [(turn.number, document.find_topic(turn)) for turn in turns]
    path.write_text("".join(html.render_page(head, contents, turns, Choices())), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["exported", "wide", "formatted"])
def test_nothing_is_wider_than_the_screen(
    request: pytest.FixtureRequest, watched: tuple[Open, list[str]], name: str, width: int
) -> None:
    open_page, seen = watched
    render_page = open_page(request.getfixturevalue(name), viewport={"width": width, "height": 844})
    render_page.evaluate(UNFOLD)
    assert render_page.evaluate("document.documentElement.scrollWidth") == width
    assert render_page.evaluate(OUTSIDE) == []
    assert render_page.evaluate(SMALL) == []
    assert seen == []


@pytest.mark.parametrize("width", WIDTHS)
def test_code_and_tables_scroll(wide: Path, watched: tuple[Open, list[str]], width: int) -> None:
    render_page = watched[0](wide, viewport={"width": width, "height": 844})
    render_page.evaluate(UNFOLD)
    scrolled = """() => ['.said pre', '.diff', '.wide'].map(name => {
        const one = document.querySelector(name);
        one.scrollLeft = 100;
        return one.scrollLeft;
    })"""
    assert render_page.evaluate(scrolled) == [100, 100, 100]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", ["exported", "wide", "formatted"])
def test_every_text_has_enough_contrast(
    request: pytest.FixtureRequest, watched: tuple[Open, list[str]], name: str, scheme: str
) -> None:
    render_page = watched[0](request.getfixturevalue(name), color_scheme=scheme)
    render_page.evaluate(UNFOLD)
    assert render_page.evaluate(FAINT) == []
    background = render_page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (int(re.findall(r"\d+", background)[0]) > 128) == (scheme == "light")


def test_a_wide_screen_shows_the_contents_beside_the_turns(exported: Path, watched: tuple[Open, list[str]]) -> None:
    for width, beside in ((1280, True), (390, False)):
        render_page = watched[0](exported, viewport={"width": width, "height": 844})
        contents, turns = render_page.locator(".contents").bounding_box(), render_page.locator("main").bounding_box()
        assert contents is not None
        assert turns is not None
        assert (contents["x"] + contents["width"] <= turns["x"]) == beside
        assert (contents["y"] + contents["height"] <= turns["y"]) == (not beside)


def test_the_page_works_without_javascript(exported: Path, watched: tuple[Open, list[str]]) -> None:
    render_page = watched[0](exported, java_script_enabled=False)
    output = render_page.get_by_text("59 passed")
    assert not output.is_visible()
    render_page.get_by_text("pytest -q", exact=True).first.click()
    assert output.is_visible()
    assert render_page.locator("#turn-1").get_by_text("+LIFETIME = timedelta(weeks=2)").is_visible()
    render_page.get_by_text("Thought", exact=True).click()
    assert render_page.get_by_text("at which clock both sides use").is_visible()
    assert render_page.locator("img").evaluate("one => one.naturalWidth") > 0


def test_code_is_copied_by_a_button_that_only_the_script_shows(
    formatted: Path, watched: tuple[Open, list[str]]
) -> None:
    open_page, seen = watched
    without = open_page(formatted, java_script_enabled=False)
    assert without.locator("button.copy").first.is_visible() is False
    render_page = open_page(formatted)
    render_page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    block = render_page.locator(".said .code").first
    block.hover()
    block.get_by_role("button", name="Copy").click()
    block.get_by_role("button", name="Copied").wait_for()
    assert render_page.evaluate("navigator.clipboard.readText()") == block.locator("code").text_content()
    block.get_by_role("button", name="Copy", exact=True).wait_for()
    assert seen == []


@pytest.mark.parametrize("width", [390, 1200])
def test_no_line_of_facts_ends_or_begins_with_a_mark(
    exported: Path, watched: tuple[Open, list[str]], width: int
) -> None:
    """The marks are before the facts; those of facts that begin a line are left of what the clip path shows."""
    render_page = watched[0](exported, viewport={"width": width, "height": 844})
    count = """() => {
        const all = document.querySelector('.head .facts'), facts = [...all.children];
        const shown = parseFloat(getComputedStyle(all).clipPath.split(' ').at(-1));
        const marks = facts.map(one => one.offsetLeft + parseFloat(getComputedStyle(one, '::before').left));
        return {
            lines: new Set(facts.map(one => one.offsetTop)).size, facts: facts.length,
            marks: marks.filter(left => left - all.offsetLeft >= shown).length,
            after: facts.filter(one => getComputedStyle(one, '::after').content !== 'none').length,
        };
    }"""
    found = render_page.evaluate(count)
    assert (found["marks"], found["after"]) == (found["facts"] - found["lines"], 0)
    assert (found["lines"] > 1) == (width < 700)


def test_the_contents_link_to_the_turns(exported: Path, watched: tuple[Open, list[str]]) -> None:
    render_page = watched[0](exported, java_script_enabled=False)
    links = render_page.locator(".contents a")
    assert links.count() == 3
    links.nth(2).click()
    assert render_page.url.endswith("#turn-3")
    box = render_page.locator("#turn-3").bounding_box()
    size = render_page.viewport_size
    assert box is not None
    assert size is not None
    assert 0 <= box["y"] < size["height"]


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_axe_finds_no_violation(formatted: Path, watched: tuple[Open, list[str]], width: int, scheme: str) -> None:
    render_page = watched[0](formatted, viewport={"width": width, "height": 844}, color_scheme=scheme)
    render_page.evaluate(UNFOLD)
    assert find_violations(render_page) == []


def test_arabic_runs_from_right_to_left(formatted: Path, watched: tuple[Open, list[str]]) -> None:
    render_page = watched[0](formatted, viewport={"width": 390, "height": 844})
    words = "#turn-2 .said > :not(.hidden, .who), #turn-2 .what"
    directions = f"[...document.querySelectorAll('{words}')].map(one => getComputedStyle(one).direction)"
    *arabic, english, call = render_page.evaluate(directions)
    assert arabic == ["rtl"] * 6
    assert (english, call) == ("ltr", "rtl")
    box, task = render_page.locator("#turn-2 .box").bounding_box(), render_page.locator("#turn-2 .task").bounding_box()
    assert box is not None
    assert task is not None
    assert box["x"] > task["x"] + task["width"] / 2
    lines = "getComputedStyle(document.querySelector('.task code')).direction"
    assert render_page.evaluate(lines) == "ltr"


def test_long_cells_keep_a_readable_width_on_a_phone(formatted: Path, watched: tuple[Open, list[str]]) -> None:
    render_page = watched[0](formatted, viewport={"width": 390, "height": 844})
    head = render_page.get_by_role("columnheader", name="What it does well").bounding_box()
    assert head is not None
    assert head["width"] >= 190
    assert render_page.get_by_role("cell", name="2025-11-01").evaluate("one => one.getClientRects().length") == 1


def test_what_scrolls_can_be_reached_by_keyboard(formatted: Path, watched: tuple[Open, list[str]]) -> None:
    render_page = watched[0](formatted, viewport={"width": 390, "height": 844})
    render_page.evaluate(UNFOLD)
    unreachable = """() => [...document.querySelectorAll('body *')].filter(one =>
        one.tabIndex < 0 && !one.querySelector('a') && one.scrollWidth > one.clientWidth + 1
        && getComputedStyle(one).overflowX === 'auto').length"""
    assert render_page.evaluate(unreachable) == 0
    assert render_page.evaluate("document.querySelector('.wide').tabIndex") == 0


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with these texts in every place that others control."""
    turns: list[ConversationTurn] = []
    for evil in [*EVIL, "<img src=x onerror=\"document.title='ran'\">", 'https://example.org/"onclick="alert(1)']:
        turns += put_everywhere(evil)[1]
    for number, each in enumerate(turns, 1):
        each.number = number
    return write_page(tmp_path_factory.mktemp("hostile") / "page.html", put_everywhere(EVIL[1])[0], turns)


FOREIGN = """() => [...document.querySelectorAll('*')].filter(one =>
    one.matches('iframe, object, embed, form, input, base, svg, video, audio, template, body style')
    || one.matches('script:not(body > script:last-child)')
    || [...one.attributes].some(({name}) => name.startsWith('on') || name === 'style' || name === 'srcset')
    || (one.href && !/^(https?:|mailto:|data:,$|file:[^#]*#turn-\\d+$)/.test(one.href))
).map(one => one.outerHTML.slice(0, 100))"""


def test_a_hostile_transcript_runs_no_script(hostile: Path, watched: tuple[Open, list[str]]) -> None:
    open_page, seen = watched
    render_page = open_page(hostile)
    title = render_page.title()
    assert render_page.evaluate(FOREIGN) == []
    render_page.evaluate(UNFOLD)
    render_page.evaluate(
        """() => document.querySelectorAll('body *').forEach(one =>
            ['mouseover', 'focus', 'error', 'load', 'toggle'].forEach(name => one.dispatchEvent(new Event(name))))"""
    )
    render_page.wait_for_load_state("networkidle")
    assert render_page.title() == title
    assert seen == []


def test_the_pages_policy_blocks_injected_markup(
    exported: Path, tmp_path: Path, watched: tuple[Open, list[str]]
) -> None:
    """Only the page's policy is tested: the markup is in the page, and a server listens at its addresses."""
    open_page, seen = watched
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        there = f"http://127.0.0.1:{listening.getsockname()[1]}"
        markup = f"""<script>document.title = 'ran'</script><script src="{there}/x.js"></script>
            <img src="x" onerror="document.title = 'ran'"><img src="{there}/x.png"><style>h1 {{ display: none }}</style>
            <link rel="stylesheet" href="{there}/x.css"><iframe src="{there}/"></iframe><base href="{there}/">
            <object data="{there}/x"></object><video src="{there}/x.mp4"></video>
            <form action="{there}/"><button>send</button></form>
            <svg onload="document.title = 'ran'"><script>document.title = 'ran'</script></svg>
            <p id="styled" style="position: fixed">x</p><a id="run" href="javascript:document.title = 'ran'">run</a>"""
        broken = tmp_path / "broken.html"
        broken.write_text(exported.read_text(encoding="utf-8").replace("<main>", f"<main>{markup}"), encoding="utf-8")
        render_page = open_page(broken)
        title = render_page.title()
        render_page.locator("#run").click()
        render_page.wait_for_load_state("networkidle")
        assert render_page.title() == title != "ran"
        assert render_page.locator("h1").is_visible()
        assert render_page.locator("#styled").evaluate("one => getComputedStyle(one).position") == "static"
        assert render_page.evaluate("document.baseURI") == broken.as_uri()
        assert len([told for told in seen if "Content Security Policy" in told]) >= 10
        with render_page.expect_console_message(lambda message: "form-action" in message.text):
            # The form is blocked, and the page is gone.
            render_page.evaluate("document.querySelector('button').click()")
        assert _asked(listening) == b""


def _asked(listening: socket.socket) -> bytes:
    """The bytes received; Chromium may open a connection before it checks the policy."""
    asked = b""
    with suppress(BlockingIOError):
        while True:
            connection, _ = listening.accept()
            with connection, suppress(BlockingIOError):
                connection.setblocking(False)
                asked += connection.recv(4096)
    return asked
