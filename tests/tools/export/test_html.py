"""A conversation as one HTML page, in which no recorded text becomes markup."""

import base64
import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from acp_proxy import __version__
from acp_proxy.tools.export import html
from acp_proxy.transcript.file_names import file_name
from acp_proxy.views import document
from acp_proxy.views.conversation import ConversationTurn, Item, Note, OtherUpdate, Plan, ToolCall
from acp_proxy.views.document import Choices, Head, Tools
from tests.views.turns import EVIL, HEAD, call, diff, message, put_everywhere, text, turn

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
VOID = frozenset({"meta", "link", "img", "br", "hr"})
ALLOWED = VOID | frozenset(
    {
        *(
            "html",
            "head",
            "title",
            "style",
            "body",
            "header",
            "nav",
            "main",
            "section",
            "footer",
            "div",
            "span",
            "button",
            "script",
            "p",
            "a",
        ),
        *("h1", "h2", "h3", "h4", "h5", "h6", "dl", "dt", "dd", "ol", "ul", "li", "details", "summary", "time"),
        *("pre", "code", "strong", "em", "s", "bdi", "blockquote", "table", "thead", "tbody", "tr", "th", "td"),
    }
)
ATTRIBUTES = frozenset(
    {
        *("lang", "charset", "http-equiv", "content", "name", "rel", "href", "src", "alt", "class", "id", "title"),
        *("aria-label", "aria-labelledby", "aria-hidden", "datetime", "dir", "open", "tabindex", "start", "type"),
    }
)


class Page(HTMLParser):
    """A page whose elements and attributes are all ours, and closed properly."""

    def __init__(self, render_page: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.images: list[str] = []
        self.text = ""
        self.feed(render_page)
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED
        assert {name for name, _ in attrs} <= ATTRIBUTES
        found = {name: value or "" for name, value in attrs}
        assert tag != "script" or (not attrs and self.stack == ["html", "body"])
        if tag not in VOID:
            self.stack.append(tag)
        if "id" in found:
            self.ids.append(found["id"])
        if tag == "a":
            self.links.append(found["href"])
        if tag == "img":
            self.images.append(found["src"])

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.stack[-1:] == ["script"]:
            assert data == html.read_script()
        elif "style" not in self.stack:
            self.text += data


def render_page(*turns: ConversationTurn, head: Head = HEAD, tools: Tools = "full", thoughts: bool = True) -> str:
    choices = Choices(tools, thoughts)
    contents = [(turn.number, document.find_topic(turn)) for turn in turns]
    return "".join(html.render_page(head, contents, document.select_turns(turns, choices), choices))


def body(*items: Item, tools: Tools = "full", thoughts: bool = True) -> str:
    return render_page(turn(*items), tools=tools, thoughts=thoughts).partition("<main>")[2].partition("</main>")[0]


def words(text: str) -> str:
    return " ".join(Page(text).text.split())


def test_the_page_allows_only_its_own_style_and_script_and_embedded_images() -> None:
    found = render_page(turn(message("user", "hello")))
    [style], [script] = (re.findall(f"<{name}>(.*?)</{name}>", found, re.DOTALL) for name in ("style", "script"))
    of_style, of_script = (
        base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in (style, script)
    )
    assert found.index("Content-Security-Policy") < found.index("<title>") < found.index("<style>")
    policy = f"default-src 'none'; img-src data:; style-src 'sha256-{of_style}'; base-uri 'none'; form-action 'none'; "
    policy += f"script-src 'sha256-{of_script}'"
    assert f'<meta http-equiv="Content-Security-Policy" content="{policy}">' in found
    assert '<meta name="referrer" content="no-referrer">' in found
    assert "url(" not in style
    assert "@import" not in style
    assert "</" not in style + script


def test_the_head_describes_the_session() -> None:
    assert words(render_page(turn(message("user", "hello")))).startswith(
        "Fix the login Fix the login Agent:my-agent 1.2.0Directory:/home/me/project"
        "Begun:2026-11-20 09:15 UTCTurns:1 turn"
    )
    nothing = Head("s", {}, None, None, "", "", "partial")
    assert words(render_page(head=nothing)) == (
        f"(no title) (no title) Agent:agentTurns:0 turns Exported from its transcript by acp-proxy {__version__}."
    )


def test_the_head_names_the_models_the_tokens_and_the_cost() -> None:
    known = replace(HEAD, models=["Small", "Large <1>"], tokens=12345, cost={"USD": 1.5})
    told = words(render_page(turn(message("user", "hello")), head=known))
    assert "Turns:1 turnModel:Small, Large <1>Tokens:12k tokensCost:1.50 USD" in told


def test_a_turn_tells_how_long_it_took_and_its_model_if_there_were_several() -> None:
    one = replace(turn(message("user", "hello")), ended_at="2026-11-20T09:16:26.500Z", model="Small")
    assert "Turn 1 1 min 24 s · 09:15 User:" in words(render_page(one, head=replace(HEAD, models=["Small"])))
    assert "Turn 1 Small · 1 min 24 s · 09:15 User:" in words(
        render_page(one, head=replace(HEAD, models=["Small", "Large"]))
    )


def test_the_agent_is_named_once_in_a_turn_without_its_scope() -> None:
    scoped = replace(HEAD, agent={"name": "@agentclientprotocol/claude-agent-acp"})
    told = render_page(
        turn(message("user", "a"), message("agent", "b"), call("ls"), message("agent", "c")),
        turn(message("agent", "d"), number=2),
        head=scoped,
    )
    assert re.findall(r'<div class="(who|hidden)">([^<]*):</div>', told) == [
        ("hidden", "User"),
        ("who", "claude-agent-acp"),
        ("hidden", "claude-agent-acp"),
        ("who", "claude-agent-acp"),
    ]


def test_a_copy_names_both_agents_each_where_it_spoke() -> None:
    folder = file_name("other agent")
    head = replace(HEAD, agent={"id": folder, "name": None, "version": None}, copied_from="my-agent")
    told = render_page(
        replace(turn(message("agent", "a")), started_at="2026-11-19T09:15:02.123Z"),
        turn(message("agent", "b"), number=2),
        head=head,
    )
    assert folder not in told
    assert "Agent:other-agentOriginal:copy from my-agentDirectory:" in words(told)
    assert re.findall(r'<div class="who">([^<]*):</div>', told) == ["my-agent", "other-agent"]


def test_times_are_local_with_the_zone_at_the_beginning(zone: Callable[[str], None]) -> None:
    zone("Asia/Kolkata")
    told = words(render_page(replace(turn(message("user", "hello")), started_at="2026-11-20T20:15:02.123Z")))
    assert "Begun:2026-11-20 14:45 UTC+05:30" in told
    assert "Turn 1 2026-11-21 01:45 User:" in told


def test_titles_are_words_without_marks_of_markdown() -> None:
    told = render_page(
        turn(message("user", "## Fix **the** `login`")),
        turn(call("Read `a.py`", kind="read"), call("rm `cat b`", kind="execute"), number=2),
        head=replace(HEAD, title="Fix **the** `login`"),
    )
    assert "<title>Fix the login</title>" in told
    assert '<h1 dir="auto">Fix the login</h1>' in told
    assert "<bdi>Fix the login</bdi>" in told
    assert "Read a.py" in told
    assert "rm `cat b`" in told


def test_the_contents_link_to_the_turns_by_their_prompts() -> None:
    turns = [turn(message("user", f"\nquestion <{number}>\nmore"), number=number) for number in (1, 2, 12)]
    found = Page(render_page(*turns))
    assert found.links[:3] == ["#turn-1", "#turn-2", "#turn-12"]
    assert {"turn-1", "turn-2", "turn-12"} <= set(found.ids)
    assert len(found.ids) == len(set(found.ids))
    assert "2question <2>" in found.text
    assert "Contents" not in Page(render_page(turns[0])).text


def test_each_message_names_its_speaker() -> None:
    told = body(message("user", "[one]: *two*\n    three"), message("thought", "hm"), message("agent", "**done**"))
    assert words(told) == "Turn 1 09:15 User: [one]: *two* three Thoughthm my-agent: done"
    assert "*two*\n    three" in told
    assert "<strong>done</strong>" in told
    assert '<details class="thought"><summary>Thought</summary>' in told
    assert "hm" not in body(message("thought", "hm"), thoughts=False)


def test_a_tool_call_is_one_line_that_can_be_opened() -> None:
    told = body(call("cat a", text("the output"), kind="read", locations=[{"path": "/home/me/project/a", "line": 3}]))
    assert '<details class="call completed"><summary class="line">' in told
    assert "the output" in told
    assert words(told).startswith("Turn 1 09:15 ✓completed: read cat a")
    assert 'class="call failed"' in body(call("x", text("y"), status="failed"))


def test_tool_calls_may_be_one_line_each_or_left_out() -> None:
    items = call("cat a", text("the output"), diff("/a", "x\n", "y\n")), message("agent", "done")
    summary = body(*items, tools="summary")
    assert "the output" not in summary
    assert "<details" not in summary
    assert words(summary).startswith("Turn 1 09:15 ✓completed: cat a +1 −1 my-agent: done")  # noqa: RUF001
    assert words(body(*items, tools="none")).startswith("Turn 1 09:15 my-agent: done")


def test_a_short_diff_is_open_and_coloured() -> None:
    told = body(call("Edit b", diff("/home/me/project/b", "same\nold\n", "same\nnew\n")))
    assert '<details class="call completed" open>' in told
    assert (
        '<span class="hunk">@@ -1,2 +1,2 @@\n</span><span class=""> same\n</span>'
        '<span class="minus">-old\n</span><span class="plus">+new\n</span>' in told
    )
    long = body(call("Edit b", diff("/b", None, "x\n" * 100)))
    assert "open>" not in long


def test_a_failed_call_is_open() -> None:
    told = body(call("pytest -q", text("1 failed"), status="failed"), call("ls", text("a")))
    assert '<details class="call failed" open>' in told
    assert '<details class="call completed">' in told


def test_images_are_embedded_and_other_files_are_named() -> None:
    png = {"type": "image", "mimeType": "image/svg+xml", "data": PNG, "uri": "file:///a.png"}
    svg = {"type": "image", "mimeType": "image/svg+xml", "data": base64.b64encode(b"<svg onload=x>").decode()}
    told = body(message("user", png, svg))
    assert f'<img src="data:image/png;base64,{PNG}" alt="file:///a.png">' in told
    assert "[image: image/svg+xml, " in told
    assert told.count("<img") == 1


def test_resources_are_folded_and_only_web_links_are_links() -> None:
    inside = {"type": "resource", "resource": {"uri": "file:///b.py", "text": "x = 1"}}
    web = {"type": "resource_link", "name": "page", "uri": "https://example.org/"}
    file = {"type": "resource_link", "name": "file", "uri": "file:///etc/passwd"}
    told = body(message("user", inside, web, file))
    assert '<span class="n">x</span>' in told
    assert '<a href="https://example.org/" rel="noopener noreferrer">page</a>' in told
    assert "file:///etc" not in told


def test_plans_notes_and_unknown_updates_are_shown() -> None:
    told = body(
        Plan([{"content": "look", "status": "completed"}, {"content": "mend", "status": "in_progress"}, {}]),
        Note("gap", "ENOSPC"),
        OtherUpdate({"sessionUpdate": "compaction", "before": 10}),
    )
    assert "✓completed: look▸in progress: mend○pending:" in words(told)
    assert "Something is missing here: the recording was interrupted (ENOSPC)." in words(told)
    assert "compaction" in words(told)


def test_a_failed_or_cancelled_turn_says_so() -> None:
    assert "The turn failed: no &lt;login&gt;" in render_page(turn(error="no <login>", stop=None))
    assert "The turn was cancelled." in render_page(turn(stop="cancelled"))
    assert "notice" not in render_page(turn()).partition("<main>")[2]


def test_a_later_update_of_a_call_is_shown_under_its_title() -> None:
    later = ToolCall("call-1", {"status": "failed"}, is_new=False)
    told = render_page(turn(call("Build")), turn(later, number=2))
    assert words(told).count("Build") == 2
    assert "call-1" not in told


def test_hostile_text_stays_text_everywhere() -> None:
    for evil in EVIL:
        for tools in ("full", "summary"):
            head, turns = put_everywhere(evil)
            found = Page(render_page(*turns, head=head, tools=tools))
            assert all(re.match(r"#turn-\d+$|https?://|mailto:", link) for link in found.links)
            assert found.images == []


@given(st.text(st.characters(codec=None) | st.sampled_from("<>\"'&`/="), max_size=40))
def test_a_page_with_any_text_is_well_formed(evil: str) -> None:
    head, turns = put_everywhere(evil)
    found = render_page(*turns, head=head)
    Page(found)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", found)
    found.encode()


# colours


def _schemes() -> list[dict[str, str]]:
    light, dark = re.findall(r":root \{(.*?)\}", html.read_style(), re.DOTALL)[:2]
    return [dict(re.findall(r"--([a-z]+): (#[0-9a-f]{6})", block)) for block in (light, dark)]


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_both_colour_schemes_have_enough_contrast() -> None:
    """WCAG 2, level AA: 4.5 for texts."""
    code = ("text", "keyword", "string", "name", "number", "comment", "builtin", "good", "bad")
    pairs = [
        *((colour, "page") for colour in ("text", "soft", "accent", "good", "bad")),
        *((colour, "card") for colour in (*code, "soft", "accent")),
        *((colour, "user") for colour in ("text", "soft", "accent")),
        *(("text", ground) for ground in ("added", "removed")),
        *(("soft", "hunk"), ("warn", "warned")),
    ]
    for scheme in _schemes():
        low = {(one, other): _contrast(scheme[one], scheme[other]) for one, other in pairs}
        assert not {pair: round(found, 2) for pair, found in low.items() if found < 4.5}
