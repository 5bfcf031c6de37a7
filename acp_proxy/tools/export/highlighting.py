"""Code as HTML, with classes that the page colours. It never raises, whatever the code and its language.

Time is bounded: some lexers need quadratic time for hostile input. Code that takes too long stays without colours, and
so does its language from then on.
"""

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from html import escape

import pygments
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import find_lexer_class_for_filename, get_lexer_by_name
from pygments.token import _TokenType
from pygments.util import ClassNotFound

LIMIT = 32 * 1024
"""Characters of code that is coloured: nobody reads more of it."""
_LONGEST_LINE = 1000
"""Characters of a line. People write no longer ones, and generated code needs no colours."""
_MOST_SECONDS = 1.0
"""Seconds of work: a thousand times the usual time for code of this length."""
COPY_BUTTON = '<button type="button" class="copy">Copy</button>'
"""Beside an element of code, it copies that. ``copy.js`` shows it, and does it."""
_NAME = re.compile(r"[\w+#.-]{1,40}", re.ASCII)
_OPTIONS: Mapping[str, bool] = {"stripnl": False, "ensurenl": False}
_slow: set[type[Lexer]] = set()


class _TooSlow(Exception):
    pass


def highlight(code: str, language: str) -> str:
    """A code block. ``language``: its name in a fence."""
    return _render_block(_colour(code, _find_lexer(language)))


def highlight_file(code: str, path: str) -> str:
    """The content of a file as a code block."""
    return _render_block(_colour(code, _find_lexer_for_file(path)))


def _render_block(code: str) -> str:
    """A code block with this code, which is HTML."""
    return f'<div class="code"><pre tabindex="0"><code>{code}</code></pre>{COPY_BUTTON}</div>\n'


def _colour(code: str, lexer: Lexer | None) -> str:
    if lexer is None or type(lexer) in _slow or len(code) > LIMIT or max(map(len, code.split("\n"))) > _LONGEST_LINE:
        return escape(code)
    try:
        return str(pygments.format(_check_time(lexer.get_tokens(code)), _make_formatter()))
    except _TooSlow:
        _slow.add(type(lexer))
        return escape(code)


def _check_time(tokens: Iterable[tuple[_TokenType, str]]) -> Iterator[tuple[_TokenType, str]]:
    deadline = time.process_time() + _MOST_SECONDS
    for token in tokens:
        if time.process_time() > deadline:
            raise _TooSlow
        yield token


@cache
def _find_lexer(language: str) -> Lexer | None:
    if not _NAME.fullmatch(language):
        return None
    try:
        return get_lexer_by_name(language, **_OPTIONS)
    except ClassNotFound:
        return None


def _find_lexer_for_file(path: str) -> Lexer | None:
    name = re.split(r"[/\\]", path)[-1][-200:]
    try:
        lexer_class = find_lexer_class_for_filename(name)
    except ClassNotFound:
        return None
    return lexer_class(**_OPTIONS) if lexer_class is not None else None


@cache
def _make_formatter() -> HtmlFormatter[str]:
    return HtmlFormatter(nowrap=True)
