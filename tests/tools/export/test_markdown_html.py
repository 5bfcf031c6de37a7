"""Markdown of messages as HTML: only what is safe, and only links to the web."""

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acp_proxy.tools.export import markdown_html
from acp_proxy.tools.export.highlighting import highlight
from acp_proxy.tools.export.markdown_html import render_markdown, render_verbatim

TAGS = frozenset(
    {
        *("p", "br", "hr", "h3", "h4", "h5", "h6", "strong", "em", "s", "code", "pre", "span", "a", "ul", "ol", "li"),
        *("blockquote", "button", "div", "table", "thead", "tbody", "tr", "th", "td"),
    }
)
ATTRIBUTES = frozenset({"aria-hidden", "dir", "href", "rel", "class", "title", "start", "tabindex", "type"})
_TAG = re.compile(r"<(/?)([a-z0-9]+)((?: [a-z-]+=\"[^\"<>]*\")*) ?/?>")


def check(html: str) -> None:
    """Check that the elements and attributes are ours and closed, and that links lead only to the web."""
    assert "<" not in _TAG.sub("", html)
    for found in _TAG.finditer(html):
        assert found[2] in TAGS
        attributes = dict(re.findall(r' ([a-z-]+)="([^"]*)"', found[3]))
        assert attributes.keys() <= ATTRIBUTES
        assert re.match(r"(https?://|mailto:)", attributes.get("href", "mailto:"), re.IGNORECASE)


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        '<img src=x onerror="alert(1)">',
        "[x](javascript:alert(1))",
        "[x](JaVaScRiPt:alert(1))",
        "[x](java\nscript:alert(1))",
        "[x](&#106;avascript:alert(1))",
        "[x](&#x1;javascript:alert(1))",
        "[x](vbscript:x) [y](data:text/html,<script>alert(1)</script>) [z](file:///etc/passwd)",
        '[x](https://example.org/"onmouseover="alert(1))',
        '[x](https://example.org "a\\" onclick=\\"alert(1)")',
        "![x](https://example.org/pixel.png)",
        '![x" onerror="alert(1)](https://example.org/a.png)',
        "![x](data:image/svg+xml;base64,PHN2Zz4=)",
        "[![x](javascript:a)](https://example.org)",
        "<https://example.org/<script>>",
        "<javascript:alert(1)>",
        "[x]: javascript:alert(1)\n\n[x]",
        "```<script>\n</code></pre><script>alert(1)</script>\n```",
        '```"onclick="x\ncode\n```',
        "`</code><script>alert(1)</script>`",
        "    </pre><script>",
        "|a|\n|:-:|\n|<script>|",
        "# <script>\n\n> <iframe src=x>\n\n- <style>*{}</style>",
        "&lt;script&gt; &#60;script&#62;",
        "<!-- --> <![CDATA[ ]]> <?php ?>",
        '~~<b>~~ **<i>** <a href="javascript:x">',
    ],
)
def test_html_in_text_stays_text(text: str) -> None:
    check(render_markdown(text))
    check(render_verbatim(text))


PIECES = ["<script>", "[", "](", ")", "javascript:x", "https://x", "`", "```", "\n", "|", "-|", "*", "!", '"', "'"]
PIECES += ["<", ">", "&", " ", "a", "\\", "#", "~~", "    "]


@given(st.lists(st.sampled_from(PIECES), max_size=40))
def test_any_mix_of_markdown_is_safe(pieces: list[str]) -> None:
    check(render_markdown("".join(pieces)))


def test_web_links_send_no_referrer() -> None:
    assert render_markdown("[x](https://example.org/?a=1&b=2)") == (
        '<p dir="auto"><a href="https://example.org/?a=1&amp;b=2" rel="noopener noreferrer">x</a></p>\n'
    )
    assert 'href="mailto:a@example.org"' in render_markdown("<a@example.org>")


def test_a_bare_address_becomes_a_link() -> None:
    linked = '<a href="https://example.org/a?b=1&amp;c" rel="noopener noreferrer">https://example.org/a?b=1&amp;c</a>'
    assert render_markdown("See (https://example.org/a?b=1&c).") == f'<p dir="auto">See ({linked}).</p>\n'
    assert "<a" not in render_markdown("`https://example.org/`")
    assert render_markdown("[**https://example.org/**](https://example.com/)").count("<a ") == 1
    assert (
        render_markdown("xhttps:// http://. javascript://x") == '<p dir="auto">xhttps:// http://. javascript://x</p>\n'
    )


def test_an_address_outside_the_web_becomes_text() -> None:
    html = render_markdown("see [the file](/home/a/b.py#L3) and [x](javascript:alert(1))")
    assert "href" not in html
    assert re.sub("<[^>]*>", "", html) == "see the file and x\n"


def test_images_become_links() -> None:
    html = render_markdown("![a cat](https://example.org/cat.png) ![b](c.png)")
    assert "<img" not in html
    assert '<a href="https://example.org/cat.png" rel="noopener noreferrer">[image: a cat]</a>' in html
    assert "[image: b]" in html


def test_headings_rank_below_those_of_the_page() -> None:
    assert levels("# a\n## b\n# c") == [3, 4, 3]


def test_headings_skip_no_level() -> None:
    assert levels("### a\n##### b\n#### c\n\nd\n===\n## e\n### f\n#### g\n##### h\n###### i") == [
        *(3, 4, 4),
        *(3, 4, 5, 6, 6, 6),
    ]


def levels(text: str) -> list[int]:
    html = render_markdown(text)
    found = re.findall(r"<h(\d)", html)
    assert found == re.findall(r"</h(\d)", html)
    return list(map(int, found))


def test_each_top_block_has_the_direction_of_its_text() -> None:
    html = render_markdown("سلام\n\n# سلام\n\n- سلام\n\n  - a\n\n> سلام\n\n|سلام|\n|-|\n")
    assert re.findall(r'<([a-z0-9]+)[^>]* dir="auto"', html) == ["p", "h3", "ul", "blockquote", "div"]
    assert '<code dir="ltr">a</code>' in render_markdown("`a`")


def test_task_lists_have_boxes() -> None:
    html = render_markdown("- [x] one\n- [ ] **two**\n- [x]three\n- [x](https://example.org)\n\n1. [X] four")
    assert html.count('<li class="task">') == 3
    words = " ".join(re.sub("<[^>]*>", "", html).split())
    assert words == "✓done: one to do: two [x]three x ✓done: four"


def test_code_in_known_languages_is_coloured() -> None:
    assert '<span class="k">def</span>' in render_markdown("```python\ndef f(): ...\n```")
    plain = highlight("def\n", "")
    assert render_markdown("```\ndef\n```") == plain
    assert (
        render_markdown("```nonsense x\ndef\n```")
        == f'<div class="fence"><p class="language">nonsense x</p>\n{plain}</div>\n'
    )
    assert '<span class="k">def</span>' in render_markdown("```python title=a.py\ndef f(): ...\n```")


def test_a_line_in_the_form_of_a_link_definition_stays() -> None:
    assert unescape(render_markdown("[a][b]\n\n[b]: c")) == '<p dir="auto">[a][b]</p>\n<p dir="auto">[b]: c</p>\n'


def test_tables_scroll_and_are_aligned_without_styles() -> None:
    html = render_markdown("|a|b|\n|--:|---|\n|1|2|")
    assert html.startswith('<div class="wide" dir="auto" tabindex="0"><table>')
    assert '<td class="right word">1</td>' in html
    assert "style" not in html


def test_a_column_with_a_long_cell_is_marked() -> None:
    html = render_markdown("|a|b|\n|---|---|\n|1|2|\n|3 4|a cell that needs several lines on a phone|")
    assert re.findall(r'<(t[hd])(?: class="(.*?)")?>', html) == [
        *(("th", "word"), ("th", "long word")),
        *(("td", "word"), ("td", "word"), ("td", ""), ("td", "")),
    ]


def test_an_empty_head_is_an_ordinary_cell() -> None:
    html = render_markdown("||b|\n|---|---|\n|1|2|")
    assert re.findall(r"</?t[hd]\b", html)[:4] == ["<td", "</td", "<th", "</th"]


def test_a_verbatim_text_keeps_every_character_and_links_addresses() -> None:
    text = "[TODO]: tests\nC:\\_build\\.git <b> a*b*c __init__\n\n    return 1 & 2"
    assert unescape(render_verbatim(f"\n{text}\n")) == f'<p class="verbatim" dir="auto">{text}</p>\n'
    assert '<a href="https://example.org/"' in render_verbatim("see https://example.org/.")


def test_a_very_long_text_is_not_read_as_markdown() -> None:
    text = "*a* <b> " * (markdown_html.LIMIT // 8 + 1)
    assert (
        render_markdown(text)
        == f'<pre class="long" dir="auto" tabindex="0">{text.replace("<", "&lt;").replace(">", "&gt;")}</pre>\n'
    )
