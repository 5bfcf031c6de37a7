"""Markdown as safe HTML: of a foreign text, only its form becomes markup.

HTML becomes text. Links lead only to web pages and mail addresses; other links become words. Images are not fetched,
but named and linked. Headings begin at a level that fits the page, and none skips a level. Each top block has the
direction of its own text.
"""

import re
from collections.abc import MutableMapping, Sequence
from functools import cache
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

from acp_proxy.tools.export.highlighting import highlight

LIMIT = 64 * 1024
"""Characters of a message that are parsed as Markdown: some texts need quadratic time."""
_WEB = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_ADDRESS = re.compile(r"""(https?://[^\s<>"'`]*[^\s<>"'`.,;:!?*_~()\[\]{}])""")
_TOP_LEVEL = 3  # of headings in a message: the page and the turns use the first two
_LOWEST_LEVEL = 6
_REL = 'rel="noopener noreferrer"'
_BLOCKS_WITH_DIRECTION = frozenset(
    f"{name}_open" for name in ("paragraph", "heading", "bullet_list", "ordered_list", "blockquote", "table")
)
_TASK = re.compile(r"\[([ xX])\]\s+")
_LONG_CELL = 20
"""Characters of a cell that give its column a least width on a narrow screen: it would be a word wide."""


def render_markdown(text: str) -> str:
    """Markdown as HTML."""
    if len(text) > LIMIT:
        return f'<pre class="long" dir="auto" tabindex="0">{escape(text)}</pre>\n'
    return str(_make_parser().render(text))


def render_verbatim(text: str) -> str:
    """Text as HTML, as it was written: what people type or paste is seldom Markdown. Web addresses are links."""
    words = _link_addresses(text.strip("\n"))
    return f'<p class="verbatim" dir="auto">{words}</p>\n'


def render_line(line: str) -> str:
    """One line of Markdown, as HTML without a block around it."""
    return str(_make_parser().renderInline(line))


def render_link(address: str, words: str) -> str:
    """Words that link to a web page. Both are foreign text."""
    if _WEB.match(address) is None:
        return f"<span>{escape(words)}</span>"
    return f'<a href="{escape(address)}" {_REL}>{escape(words)}</a>'


def _link_addresses(text: str) -> str:
    parts = _ADDRESS.split(text)  # every second part is an address
    return "".join(render_link(part, part) if number % 2 else escape(part) for number, part in enumerate(parts))


@cache
def _make_parser() -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"html": False, "xhtmlOut": False}, renderer_cls=_Renderer)
    # The parser accepts every link, so that the renderer can show the words of those that are not web addresses.
    markdown.validateLink = lambda url: True  # type: ignore[method-assign]
    markdown.core.ruler.push("linked", _mark_linked)
    for rule in (_set_directions, _order_headings, _mark_tasks, _mark_cells):
        markdown.core.ruler.push(rule.__name__, rule)
    # Without link definitions: a line such as `[Answer]: yes` would vanish.
    return markdown.enable(["table", "strikethrough"]).disable("reference")


def _mark_linked(state: StateCore) -> None:
    """Mark words and images inside a link: they are not links themselves."""
    for token in state.tokens:
        depth = 0
        for child in token.children or ():
            depth += {"link_open": 1, "link_close": -1}.get(child.type, 0)
            if depth:
                child.meta["linked"] = True


def _set_directions(state: StateCore) -> None:
    """Let each top block have the direction of its text. Not the blocks inside: a browser ignores them when it looks
    for the direction of the outer one."""
    for token in state.tokens:
        if token.level == 0 and token.type in _BLOCKS_WITH_DIRECTION:
            token.attrSet("dir", "auto")


def _order_headings(state: StateCore) -> None:
    """Give headings levels by depth: each is one below the last one that was higher."""
    above: list[int] = []
    for token in state.tokens:
        if token.type == "heading_open":
            level = int(token.tag[1:])
            above = [upper for upper in above if upper < level]
            above.append(level)
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(_TOP_LEVEL + len(above) - 1, _LOWEST_LEVEL)}"


def _mark_tasks(state: StateCore) -> None:
    """Mark the items of GitHub's task lists: the box becomes a token of its own."""
    for item, _, inline in zip(state.tokens, state.tokens[1:], state.tokens[2:], strict=False):
        first = inline.children[0] if item.type == "list_item_open" and inline.children else None
        match = _TASK.match(first.content) if first is not None and first.type == "text" else None
        if first is not None and match is not None and inline.children is not None:
            first.content = first.content[match.end() :]
            item.attrSet("class", "task")
            inline.children.insert(0, Token("task", "", 0, meta={"done": match[1] != " "}))


def _mark_cells(state: StateCore) -> None:
    """Mark the head of a column with a long cell, and each cell of a single word, such as a date."""
    heads: list[Token] = []
    column = 0
    for token, inline, end in zip(state.tokens, state.tokens[1:], state.tokens[2:], strict=False):
        if token.type == "table_open":
            heads = []
        elif token.type == "tr_open":
            column = 0
        elif token.type in ("th_open", "td_open"):
            heads += [token] if token.type == "th_open" else []
            if not inline.content:  # no head of anything, as above the names of rows
                token.tag = end.tag = "td"
            if len(inline.content) > _LONG_CELL:
                heads[column].meta["long"] = True
            elif " " not in inline.content:
                token.meta["word"] = True
            column += 1


class _Renderer(RendererHTML):
    def text(self, tokens: Sequence[Token], index: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        content = tokens[index].content
        return escape(content) if "linked" in tokens[index].meta else _link_addresses(content)

    def link_open(
        self, tokens: Sequence[Token], index: int, options: OptionsDict, env: MutableMapping[str, Any]
    ) -> str:
        address = str(tokens[index].attrGet("href") or "")
        if _WEB.match(address) is None:
            return f'<span class="place" title="{escape(address)}">'
        return f'<a href="{escape(address)}" {_REL}>'

    def link_close(
        self, tokens: Sequence[Token], index: int, options: OptionsDict, env: MutableMapping[str, Any]
    ) -> str:
        opening = next(t for t in reversed(tokens[:index]) if t.type == "link_open" and t.level == tokens[index].level)
        return "</a>" if _WEB.match(str(opening.attrGet("href") or "")) else "</span>"

    def image(self, tokens: Sequence[Token], index: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        address = str(tokens[index].attrGet("src") or "")
        words = f"[image: {tokens[index].content or 'unnamed'}]"
        return f"<span>{escape(words)}</span>" if "linked" in tokens[index].meta else render_link(address, words)

    def fence(self, tokens: Sequence[Token], index: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        info = tokens[index].info.strip()  # the language, and what else an agent says there, such as a path
        code = highlight(tokens[index].content, info.partition(" ")[0])
        return f'<div class="fence"><p class="language">{escape(info)}</p>\n{code}</div>\n' if info else code

    def code_block(
        self, tokens: Sequence[Token], index: int, options: OptionsDict, env: MutableMapping[str, Any]
    ) -> str:
        return highlight(tokens[index].content, "")

    def code_inline(
        self, tokens: Sequence[Token], index: int, options: OptionsDict, env: MutableMapping[str, Any]
    ) -> str:
        return f'<code dir="ltr">{escape(tokens[index].content)}</code>'

    def task(self, tokens: Sequence[Token], index: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        done = bool(tokens[index].meta["done"])
        box = f'<span class="box{" done" if done else ""}" aria-hidden="true">{"✓" if done else ""}</span>'
        return f'{box}<span class="hidden" dir="ltr">{"done" if done else "to do"}: </span>'

    def table_open(
        self, tokens: Sequence[Token], index: int, options: OptionsDict, env: MutableMapping[str, Any]
    ) -> str:
        direction = ' dir="auto"' if tokens[index].attrGet("dir") else ""
        return f'<div class="wide"{direction} tabindex="0"><table>\n'

    def table_close(
        self, tokens: Sequence[Token], index: int, options: OptionsDict, env: MutableMapping[str, Any]
    ) -> str:
        return "</table></div>\n"

    def th_open(self, tokens: Sequence[Token], index: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        return _render_cell_start(tokens[index])

    def td_open(self, tokens: Sequence[Token], index: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        return _render_cell_start(tokens[index])


def _render_cell_start(token: Token) -> str:
    """Alignment and width by classes: the page allows only its own styles."""
    align = str(token.attrGet("style") or "").removeprefix("text-align:")
    names = [align] if align in ("left", "center", "right") else []
    names += [name for name in ("long", "word") if name in token.meta]
    return f'<{token.tag} class="{" ".join(names)}">' if names else f"<{token.tag}>"
