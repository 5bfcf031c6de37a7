"""Markdown as safe HTML: of a foreign text, only its form becomes markup.

HTML becomes text. Links lead only to web pages and mail addresses; other links become words. Images are not fetched,
but named and linked. Headings begin at a level that fits the page.
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

from acp_proxy.views.highlighting import highlighted

LIMIT = 64 * 1024
"""Characters of a message that are parsed as Markdown: some texts need quadratic time."""
_WEB = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_ADDRESS = re.compile(r"""(https?://[^\s<>"'`]*[^\s<>"'`.,;:!?*_~()\[\]{}])""")
_TOP_LEVEL = 3  # of headings in a message: the page and the turns use the first two
_REL = 'rel="noopener noreferrer"'


def html_of(text: str, *, breaks: bool = False) -> str:
    """``breaks``: a newline is a line break, as where people type."""
    if len(text) > LIMIT:
        return f'<pre class="long">{escape(text)}</pre>\n'
    return str(_markdown(breaks).render(text))


def link(address: str, words: str) -> str:
    """Words that link to a web page. Both are foreign text."""
    if _WEB.match(address) is None:
        return f"<span>{escape(words)}</span>"
    return f'<a href="{escape(address)}" {_REL}>{escape(words)}</a>'


@cache
def _markdown(breaks: bool) -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"html": False, "xhtmlOut": False, "breaks": breaks}, renderer_cls=_Renderer)
    # The parser accepts every link, so that the renderer can show the words of those that are not web addresses.
    markdown.validateLink = lambda url: True  # type: ignore[method-assign]
    markdown.core.ruler.push("linked", _say_what_is_linked)
    return markdown.enable(["table", "strikethrough"])


def _say_what_is_linked(state: StateCore) -> None:
    """Words and images inside a link: they are not links themselves."""
    for token in state.tokens:
        depth = 0
        for child in token.children or ():
            depth += {"link_open": 1, "link_close": -1}.get(child.type, 0)
            if depth:
                child.meta["linked"] = True


class _Renderer(RendererHTML):
    def text(self, tokens: Sequence[Token], at: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        content = tokens[at].content
        if "linked" in tokens[at].meta:
            return escape(content)
        parts = _ADDRESS.split(content)  # every second part is an address
        return "".join(link(part, part) if number % 2 else escape(part) for number, part in enumerate(parts))

    def link_open(self, tokens: Sequence[Token], at: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        address = str(tokens[at].attrGet("href") or "")
        if _WEB.match(address) is None:
            return f'<span class="place" title="{escape(address)}">'
        return f'<a href="{escape(address)}" {_REL}>'

    def link_close(self, tokens: Sequence[Token], at: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        opening = next(t for t in reversed(tokens[:at]) if t.type == "link_open" and t.level == tokens[at].level)
        return "</a>" if _WEB.match(str(opening.attrGet("href") or "")) else "</span>"

    def image(self, tokens: Sequence[Token], at: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        address = str(tokens[at].attrGet("src") or "")
        words = f"[image: {tokens[at].content or 'unnamed'}]"
        return f"<span>{escape(words)}</span>" if "linked" in tokens[at].meta else link(address, words)

    def fence(self, tokens: Sequence[Token], at: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        return highlighted(tokens[at].content, tokens[at].info.split(maxsplit=1)[0] if tokens[at].info.strip() else "")

    def code_block(self, tokens: Sequence[Token], at: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        return highlighted(tokens[at].content, "")

    def heading_open(
        self, tokens: Sequence[Token], at: int, options: OptionsDict, env: MutableMapping[str, Any]
    ) -> str:
        return f"<{_lowered(tokens[at].tag)}>"

    def heading_close(
        self, tokens: Sequence[Token], at: int, options: OptionsDict, env: MutableMapping[str, Any]
    ) -> str:
        return f"</{_lowered(tokens[at].tag)}>\n"

    def table_open(self, tokens: Sequence[Token], at: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        return '<div class="wide"><table>\n'

    def table_close(self, tokens: Sequence[Token], at: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        return "</table></div>\n"

    def th_open(self, tokens: Sequence[Token], at: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        return _cell(tokens[at])

    def td_open(self, tokens: Sequence[Token], at: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        return _cell(tokens[at])


def _cell(token: Token) -> str:
    """Alignment by a class: the page allows only its own styles."""
    align = str(token.attrGet("style") or "").removeprefix("text-align:")
    return f'<{token.tag} class="{align}">' if align in ("left", "center", "right") else f"<{token.tag}>"


def _lowered(tag: str) -> str:
    return f"h{min(int(tag[1:]) + _TOP_LEVEL - 1, 6)}"
